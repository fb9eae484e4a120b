"""What every commit of a data operation rests on: compared before it is made, and asserted in it; pure."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.engines.data_state import TableFacts
from reconciler.errors import CommitConflict
from reconciler.model.metadata import JsonObject
from reconciler.model.table import TableIdent


def require(facts: TableFacts, table: TableIdent, uuid: str, schema_id: int | None) -> None:
    """Raise CommitConflict unless it is still this table, with this schema."""
    if facts.table_uuid != uuid:
        raise CommitConflict("It is another table by now.", where=str(table), hint="Plan again.")
    if schema_id is not None and facts.current_schema_id != schema_id:
        raise CommitConflict(
            f"The table's schema changed while its rows were being filled: it was {schema_id} and is "
            f"{facts.current_schema_id}.",
            where=str(table),
            hint="Apply again: it goes on under the new schema.",
        )


def requirements(facts: TableFacts, refs: Mapping[str, int | None]) -> list[JsonObject]:
    """Assert all that the facts say of the table's shape, and where these refs point."""
    asserted: list[JsonObject] = [
        {"type": "assert-table-uuid", "uuid": facts.table_uuid},
        {"type": "assert-current-schema-id", "current-schema-id": facts.current_schema_id},
        {"type": "assert-default-spec-id", "default-spec-id": facts.default_spec_id},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": facts.default_sort_order_id},
    ]
    asserted += [{"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": at} for name, at in refs.items()]
    return asserted
