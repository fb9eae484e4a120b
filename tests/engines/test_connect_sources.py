"""What changed in a view's source over Spark Connect, told from its snapshots alone."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from reconciler.engines.connect_sources import ConnectSources, Span, _under_schema_of_today
from reconciler.engines.data_state import TableFacts, read_facts
from reconciler.engines.source_changes import Unreadable
from reconciler.errors import CommitConflict, Unsupported
from reconciler.model.table import TableIdent
from reconciler.plan.operations import SourceRead
from reconciler.ports import StagingCatalog

IDENT = TableIdent(("db",), "f")
UUID = "00000000-0000-0000-0000-000000000001"


def metadata(*operations: str, deletes: int = 0, schemas: tuple[Any, ...] = ((), ())) -> bytes:
    """Describe a table whose snapshots 1, 2, … did these things; the second half of `schemas` is the present one."""
    snapshots = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": number - 1 or None,
            "schema-id": 0,
            "summary": {"operation": operation, "total-delete-files": str(deletes)},
        }
        for number, operation in enumerate(operations, 1)
    ]
    return msgspec.json.encode(
        {
            "table-uuid": UUID,
            "format-version": 2,
            "current-schema-id": 1 if schemas[1] else 0,
            "default-spec-id": 0,
            "snapshots": snapshots,
            "schemas": [{"schema-id": number, "fields": list(fields)} for number, fields in enumerate(schemas)],
        }
    )


class Known:
    """A catalog that knows one table."""

    def __init__(self, document: bytes) -> None:
        self._document = document

    def get_metadata(self, table: TableIdent) -> bytes:
        assert table == IDENT
        return self._document


def sources(document: bytes) -> ConnectSources:
    return ConnectSources(cast("Any", None), "lake", cast("StagingCatalog", Known(document)))


def read(since: int, until: int, uuid: str = UUID) -> SourceRead:
    columns = (("id",), ("name",))
    return SourceRead(table=IDENT, uuid=uuid, schema_id=0, snapshot_id=until, since=since, columns=columns)


def test_appends_are_read_as_such_and_compactions_change_nothing() -> None:
    found = sources(metadata("append", "append", "replace", "append")).changes(read(1, 4))
    assert (found.added, found.removed) == ((Span(1, 4),), ())
    found = sources(metadata("append", "replace")).changes(read(1, 2))
    assert (found.added, found.removed) == ((), ())


FIELD = {"id": 1, "name": "id", "required": False, "type": "int"}


@pytest.mark.parametrize(
    ("document", "since", "why"),
    [
        (metadata("append", "overwrite"), 1, "changed or deleted"),
        (metadata("append", "overwrite"), 9, "no longer behind"),
        (metadata("append", "delete"), 1, "changed or deleted"),
    ],
)
def test_what_cannot_be_read_is_a_reason_for_a_full_refresh(document: bytes, since: int, why: str) -> None:
    with pytest.raises(Unreadable) as told:
        sources(document).changes(read(since, 2))
    assert why in told.value.reason


def test_another_table_of_that_name_is_a_conflict() -> None:
    with pytest.raises(CommitConflict, match="made anew"):
        sources(metadata("append")).changes(read(1, 1, uuid="another"))


def facts(before: list[Any], now: list[Any]) -> TableFacts:
    return read_facts(metadata("append", schemas=(tuple(before), tuple(now))).decode())


def test_a_snapshot_is_read_by_the_names_and_types_of_today() -> None:
    name = {"id": 2, "name": "old `name`", "required": False, "type": "string"}
    now = [
        {**FIELD, "type": "long"},
        {**name, "name": "name"},
        {"id": 3, "name": "more", "required": False, "type": "int"},
    ]
    known = facts([FIELD, name], now)
    everything = msgspec.structs.replace(read(1, 1), columns=(("id",), ("name",), ("more",)))
    assert _under_schema_of_today(known, known.snapshots[0], everything) == [
        "CAST(`id` AS bigint) AS `id`",
        "CAST(`old ``name``` AS string) AS `name`",
        "CAST(NULL AS int) AS `more`",
    ]


def test_a_nested_column_that_changed_is_refused() -> None:
    def struct(inner: str) -> dict[str, Any]:
        field = {"id": 9, "name": inner, "required": False, "type": "int"}
        return {"id": 2, "name": "name", "required": False, "type": {"type": "struct", "fields": [field]}}

    same, other = facts([struct("a")], [struct("a")]), facts([struct("a")], [struct("b")])
    assert _under_schema_of_today(same, same.snapshots[0], read(1, 1)) == ["`name` AS `name`"]
    with pytest.raises(Unsupported, match="type changed"):
        _under_schema_of_today(other, other.snapshots[0], read(1, 1))
