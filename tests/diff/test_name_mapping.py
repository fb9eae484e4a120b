"""The name mapping follows the schema exactly as PyIceberg's own schema update (a port of Java's) makes it follow."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.diff.name_mapping import NAME_MAPPING
from tests.cli.lab import Lab

COLUMNS = ("name: id, type: long", 'name: place, type: "struct<street: string, zip: string>"')


@pytest.fixture
def mapped(lab: Lab) -> Lab:
    """A live table whose files may lack field ids."""
    lab.apply(COLUMNS)
    table = lab.table()
    with table.transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: table.schema().name_mapping.model_dump_json()})
    return lab


def mapping(lab: Lab) -> object:
    return msgspec.json.decode(lab.table().properties[NAME_MAPPING])


def test_a_rename_and_new_columns_at_any_depth_are_mapped(mapped: Lab) -> None:
    mapped.apply(
        [
            "name: key, type: long, renamedFrom: id",
            'name: place, type: "struct<street: string, zip: string, tags: list<string>>"',
        ]
    )
    assert mapping(mapped) == [
        {"field-id": 1, "names": ["id", "key"]},
        {
            "field-id": 2,
            "names": ["place"],
            "fields": [
                {"field-id": 3, "names": ["street"]},
                {"field-id": 4, "names": ["zip"]},
                {"field-id": 5, "names": ["tags"], "fields": [{"field-id": 6, "names": ["element"]}]},
            ],
        },
    ]
    assert mapped.run("plan", "-f", "orders.yaml", "--detailed-exitcode").code == 0


def test_a_name_given_away_leaves_the_field_that_had_it(mapped: Lab) -> None:
    mapped.apply(["name: key, type: long, renamedFrom: id", COLUMNS[1]])
    mapped.apply(["name: key, type: long", "name: id, type: string", COLUMNS[1]])
    assert mapping(mapped) == [
        {"field-id": 1, "names": ["key"]},
        {
            "field-id": 2,
            "names": ["place"],
            "fields": [{"field-id": 3, "names": ["street"]}, {"field-id": 4, "names": ["zip"]}],
        },
        {"field-id": 5, "names": ["id"]},
    ]


def test_it_follows_as_pyiceberg_makes_it_follow(mapped: Lab) -> None:
    from pyiceberg.types import StringType

    catalog, table = mapped.catalog(), mapped.table()
    theirs = catalog.create_table(
        "sales.theirs", table.schema(), properties={NAME_MAPPING: table.properties[NAME_MAPPING]}
    )
    with theirs.update_schema() as update:
        update.rename_column("id", "key")
        update.add_column("note", StringType())
    mapped.apply(["name: key, type: long, renamedFrom: id", COLUMNS[1], "name: note, type: string"])
    assert mapping(mapped) == msgspec.json.decode(mapped.table("sales.theirs").properties[NAME_MAPPING])


def test_a_mapping_that_cannot_be_read_is_left_alone(mapped: Lab) -> None:
    with mapped.table().transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: "{"})
    mapped.apply([*COLUMNS, "name: note, type: string"])
    assert mapped.table().properties[NAME_MAPPING] == "{"


def test_rows_of_files_without_ids_are_read_under_a_new_name(mapped: Lab) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    mapped.apply(["name: key, type: long, renamedFrom: id", COLUMNS[1]])
    path = mapped.folder / "foreign.parquet"
    place = pa.array([{"street": "s", "zip": "z"}], pa.struct([("street", pa.string()), ("zip", pa.string())]))
    pq.write_table(pa.table({"key": pa.array([7], pa.int64()), "place": place}), path)
    mapped.table().add_files([str(path)])
    assert mapped.rows() == [{"key": 7, "place": {"street": "s", "zip": "z"}}]
