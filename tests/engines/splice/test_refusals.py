"""What cannot be spliced is refused before a byte is written, with the reason."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from thrift.Thrift import TType

from reconciler.engines.splice.compact import Items, Struct
from reconciler.engines.splice.footer import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    Footer,
    RowGroup,
    SchemaElement,
)
from reconciler.engines.splice.plan import refusal
from reconciler.engines.splice.splice import inspect
from reconciler.errors import Unsupported
from reconciler.model.types import Field, ListType, StructType
from tests.engines.splice.files import OLD, add, column, old_table, values, with_id, write


@pytest.fixture
def footer(tmp_path: Path) -> Footer:
    """A good footer, to be made bad."""
    return inspect(str(write(tmp_path / "a.parquet", old_table(40), 20)))


def new(name: str = "new", field_id: int = 50, type_: str = "int") -> Field:
    return Field(id=field_id, name=name, required=False, type=type_)


def first_chunk(footer: Footer) -> Struct:
    return footer.meta.structs(FileMetaData.ROW_GROUPS)[0].structs(RowGroup.COLUMNS)[0]


def test_a_good_one_is_not_refused(footer: Footer) -> None:
    assert refusal(footer, [new()]) is None
    assert refusal(footer, [new(), new("other", 51)]) is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([], "no column to add"),
        ([new("name")], "has a column name already"),
        ([new(field_id=12)], "has a field with id 12 already"),
        ([column("list"), new("x", 103)], "Field id 103 is to be added twice"),
        ([new(), new(field_id=51)], "Column new is to be added twice"),
        ([new(field_id=-1)], "has no field id yet"),
        ([new(field_id=0)], "has no field id yet"),
        ([new(type_="variant")], "type variant, which cannot be written"),
        ([new(type_="geometry(EPSG:4326)")], "cannot be written"),
        ([new(type_="unknown")], "cannot be written"),
        (
            [Field(id=50, name="n", required=False, type=ListType(element_id=51, element="x", element_required=False))],
            "cannot be written",
        ),
        ([Field(id=50, name="n", required=False, type=StructType(()))], "struct without fields"),
    ],
)
def test_columns_that_cannot_be_added(footer: Footer, columns: list[Field], message: str) -> None:
    reason = refusal(footer, columns)
    assert reason is not None
    assert message in reason


def test_a_nested_name_is_no_clash(footer: Footer) -> None:
    assert refusal(footer, [new("city")]) is None


def test_names_and_ids_of_files_without_field_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"id": [1]}))
    assert "has no field id: the file is read by name" in str(refusal(inspect(str(path)), [new()]))


def test_field_ids_used_twice(tmp_path: Path) -> None:
    schema = pa.schema([with_id(1, "a", pa.int64()), with_id(1, "b", pa.int64())])
    path = write(tmp_path / "a.parquet", pa.table({"a": [1], "b": [1]}, schema=schema))
    assert "two fields with id 1" in str(refusal(inspect(str(path)), [new()]))


class Keys(pe.KmsClient):  # type: ignore[misc]
    """Keep keys in the clear: for tests."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        return key_bytes.hex().encode()

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        return bytes.fromhex(bytes(wrapped_key).decode())


@pytest.mark.parametrize(("plain_footer", "message"), [(True, "The file is encrypted"), (False, "footer is encrypted")])
def test_encrypted_files(tmp_path: Path, plain_footer: bool, message: str) -> None:
    factory = pe.CryptoFactory(lambda _: Keys())
    config = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["id"]}, plaintext_footer=plain_footer)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, OLD, encryption_properties=properties) as writer:
        writer.write_table(old_table(10))
    with pytest.raises(Unsupported, match=message):
        add(path, [column("int")], [values("int", 10)])
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("where", [FileMetaData.ENCRYPTION_ALGORITHM, FileMetaData.FOOTER_SIGNING_KEY_METADATA])
def test_an_encrypted_file_with_a_plain_footer(footer: Footer, where: int) -> None:
    footer.meta.fields[where] = (TType.STRUCT, Struct())
    assert refusal(footer, [new()]) == "The file is encrypted."


@pytest.mark.parametrize("where", [ColumnChunk.CRYPTO_METADATA, ColumnChunk.ENCRYPTED_COLUMN_METADATA])
def test_an_encrypted_column(footer: Footer, where: int) -> None:
    first_chunk(footer).fields[where] = (TType.STRUCT, Struct())
    assert refusal(footer, [new()]) == "The file has encrypted columns."


def test_columns_in_other_files(footer: Footer) -> None:
    first_chunk(footer).fields[ColumnChunk.FILE_PATH] = (TType.STRING, b"other.parquet")
    assert refusal(footer, [new()]) == "The file keeps columns in other files."


def _set_children(footer: Footer, number: int, children: int) -> None:
    element = footer.meta.structs(FileMetaData.SCHEMA)[number]
    element.fields[SchemaElement.NUM_CHILDREN] = (TType.I32, children)


@pytest.mark.parametrize(
    ("number", "children"), [(0, 0), (0, 6), (0, 8), (0, -1), (0, 2**31 - 1), (1, 3), (5, 0), (5, -7), (5, 10**9)]
)
def test_a_schema_that_is_no_tree(footer: Footer, number: int, children: int) -> None:
    _set_children(footer, number, children)
    assert "form no tree" in str(refusal(footer, [new()]))


def test_a_schema_without_elements(footer: Footer) -> None:
    footer.meta.set(FileMetaData.SCHEMA, Items(TType.STRUCT, []))
    assert "form no tree" in str(refusal(footer, [new()]))


@pytest.mark.parametrize(
    ("field_id", "value"),
    [
        (ColumnMetaData.DATA_PAGE_OFFSET, 2),
        (ColumnMetaData.DATA_PAGE_OFFSET, -5),
        (ColumnMetaData.DATA_PAGE_OFFSET, 2**62),
        (ColumnMetaData.TOTAL_COMPRESSED_SIZE, 2**62),
        (ColumnMetaData.TOTAL_COMPRESSED_SIZE, -(2**62)),
    ],
)
def test_chunks_outside_the_file(footer: Footer, field_id: int, value: int) -> None:
    column_meta = first_chunk(footer).struct(ColumnChunk.META_DATA)
    del column_meta.fields[ColumnMetaData.DICTIONARY_PAGE_OFFSET]
    column_meta.set(field_id, value)
    assert refusal(footer, [new()]) == "A column chunk does not lie inside the file."


def test_row_groups_that_do_not_match(footer: Footer) -> None:
    group = footer.meta.structs(FileMetaData.ROW_GROUPS)[0]
    group.items(RowGroup.COLUMNS).values.pop()
    assert refusal(footer, [new()]) == "A row group of the file holds other columns than the schema."
    group.set(RowGroup.NUM_ROWS, 21)
    assert refusal(footer, [new()]) == "The file's row groups do not add up to its rows."


def test_a_row_group_too_large_to_be_written_in_one(footer: Footer) -> None:
    group, other = footer.meta.structs(FileMetaData.ROW_GROUPS)
    group.set(RowGroup.NUM_ROWS, 2**27)
    footer.meta.set(FileMetaData.NUM_ROWS, 2**27 + other.integer(RowGroup.NUM_ROWS))
    assert "row group of more than" in str(refusal(footer, [new()]))


def test_orders_of_other_columns(footer: Footer) -> None:
    footer.meta.items(FileMetaData.COLUMN_ORDERS).values.pop()
    assert refusal(footer, [new()]) == "The file states the order of other columns than it has."


@pytest.mark.parametrize("where", [FileMetaData.SCHEMA, FileMetaData.NUM_ROWS, FileMetaData.ROW_GROUPS])
def test_fields_of_another_kind(footer: Footer, where: int) -> None:
    footer.meta.fields[where] = (TType.STRING, b"?")
    assert f"Field {where} of the Parquet footer is not" in str(refusal(footer, [new()]))


def test_splice_raises_the_refusal(tmp_path: Path) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    with pytest.raises(Unsupported, match=r"a\.parquet: The file has a column id already\. Rewrite the file instead\."):
        add(source, [new("id")], [])
