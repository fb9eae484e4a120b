"""Footers of real writers come back byte for byte; damaged and hostile ones are refused, always and quickly."""

from __future__ import annotations

import io
import random
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift.Thrift import TType

from reconciler.engines.splice.compact import MAX_DEPTH, BadFooter, Items, Struct, decode, encode
from reconciler.engines.splice.footer import MAX_FOOTER_BYTES, FileMetaData, footer_bytes, read_footer
from reconciler.engines.splice.plan import refusal
from reconciler.engines.splice.splice import inspect
from reconciler.errors import LakeError, Unsupported
from tests.engines.splice.files import column, old_table, write


def footer_of(path: Path) -> bytes:
    """Take the footer out of a file by hand."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    return data[-8 - length : -8]


def as_file(footer: bytes, *, magic: bytes = b"PAR1", length: int | None = None) -> io.BytesIO:
    size = len(footer) if length is None else length
    return io.BytesIO(b"PAR1" + b"x" * 100_000 + footer + size.to_bytes(4, "little") + magic)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("page", ["1.0", "2.0"])
def test_pyarrows_footers_come_back(tmp_path: Path, page: str, index: bool) -> None:
    path = write(tmp_path / "a.parquet", old_table(), 100, data_page_version=page, write_page_index=index)
    footer = footer_of(path)
    assert encode(decode(footer)) == footer
    assert path.read_bytes().endswith(footer_bytes(inspect(str(path)).meta))


def test_duckdbs_footers_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    duckdb.sql(
        f"COPY (SELECT range AS id, range::varchar AS s, [range] AS l, {{'a': range}} AS st FROM range(5000))"
        f" TO '{path}' (FORMAT parquet, FIELD_IDS {{id: 1, s: 2, l: {{__duckdb_field_id: 3, element: 4}}}},"
        " ROW_GROUP_SIZE 2048)"
    )
    footer = footer_of(path)
    assert encode(decode(footer)) == footer


def test_fields_from_a_future_definition_survive() -> None:
    leaf = Struct({1: (TType.I64, -(2**63)), 900: (TType.STRING, b"\xff\x00"), 901: (TType.DOUBLE, 1.5)})
    flags = Items(TType.BOOL, [True, False])
    future = Struct({3: (TType.STRUCT, leaf), 4: (TType.BOOL, False), 5: (TType.SET, flags), 30000: (TType.BYTE, -1)})
    assert decode(encode(future)) == future


def test_fields_from_a_future_definition_survive_a_splice(tmp_path: Path) -> None:
    from tests.engines.splice.files import add, values

    source = write(tmp_path / "a.parquet", old_table())
    footer = inspect(str(source))
    footer.meta.fields[777] = (TType.STRING, b"from the future")
    source.write_bytes(source.read_bytes()[: footer.start] + footer_bytes(footer.meta))
    done = add(source, [column("int")], [values("int")])
    assert inspect(done.path).meta.binary(777) == b"from the future"
    assert pq.read_table(done.path).num_columns == 8


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00\x00", id="something behind it"),
        pytest.param(b"\x18", id="cut off"),
        pytest.param(b"\x18\xff\xff\xff\xff\x0f" + b"a" * 50 + b"\x00", id="a string longer than the footer"),
        pytest.param(b"\x19\xfc\xff\xff\xff\xff\x07" + b"\x00", id="a list longer than the footer"),
        pytest.param(b"\x16" + b"\xff" * 40 + b"\x00", id="a number without end"),
        pytest.param(b"\x16" + b"\xff" * 9 + b"\x7f" + b"\x00", id="a number beyond 64 bits"),
        pytest.param(b"\x16\x80\x00\x00", id="a number not in its shortest form"),
        pytest.param(b"\x16\x02\x06\x02\x04\x00", id="one field twice"),
        pytest.param(b"\x1b\x01\x88\x01a\x01b\x00", id="a map"),
        pytest.param(b"\x1f\x00", id="a type that does not exist"),
        pytest.param(b"\x19\x10\x00", id="a list of nothing"),
        pytest.param(b"\x1c" * 100_000, id="deep structs"),
        pytest.param(b"\x19" * 100_000, id="deep lists"),
        pytest.param((b"\x19\x1c" + b"\x1c") * 50_000, id="deep both"),
    ],
)
def test_hostile_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BadFooter):
        decode(data)


def test_depth_is_bounded_but_not_too_low() -> None:
    deep = Struct()
    for _ in range(MAX_DEPTH):
        deep = Struct({1: (TType.STRUCT, deep)})
    assert decode(encode(deep)) == deep
    with pytest.raises(BadFooter, match="nested too deeply"):
        decode(encode(Struct({1: (TType.STRUCT, deep)})))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        pytest.param(io.BytesIO(b""), "too small", id="empty"),
        pytest.param(io.BytesIO(b"PAR1PAR1"), "too small", id="magic only"),
        pytest.param(io.BytesIO(b"ORC" + b"x" * 50), "not Parquet", id="another format"),
        pytest.param(io.BytesIO(b"ABCD" + b"\x00" * 20 + b"PAR1"), "not Parquet", id="another start"),
        pytest.param(as_file(b"\x00", length=2**32 - 1), "longer than its file", id="beyond the start"),
        pytest.param(as_file(b"\x00" * (MAX_FOOTER_BYTES + 1)), "more than", id="too large"),
        pytest.param(as_file(b"\xff" * 30), "damaged", id="garbage"),
    ],
)
def test_damaged_files_are_refused(file: io.BytesIO, message: str) -> None:
    with pytest.raises(BadFooter, match=message):
        read_footer(file)


def test_an_encrypted_footer_is_refused() -> None:
    with pytest.raises(Unsupported, match="footer is encrypted"):
        read_footer(as_file(b"\x00" * 40, magic=b"PARE"))


@given(seed=st.integers(0, 2**32), flips=st.integers(1, 6), cut=st.integers(0, 3))
def test_any_damage_is_a_refusal_or_harmless(seed: int, flips: int, cut: int) -> None:
    dice = random.Random(seed)
    damaged = bytearray(FOOTER)
    for _ in range(flips):
        damaged[dice.randrange(len(damaged))] = dice.randrange(256)
    del damaged[len(damaged) - cut :]
    try:
        footer = read_footer(as_file(bytes(damaged)))
    except LakeError:
        return
    reason = refusal(footer, [column("int")])
    assert reason is None or len(reason) < 300
    assert encode(footer.meta) == bytes(damaged)


def test_control_the_undamaged_footer_is_accepted() -> None:
    footer = read_footer(as_file(FOOTER))
    assert refusal(footer, [column("int")]) is None
    assert footer.meta.integer(FileMetaData.NUM_ROWS) == 20


def _footer() -> bytes:
    file = io.BytesIO()
    pq.write_table(old_table(20), file, row_group_size=10)
    data = file.getvalue()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


FOOTER = _footer()
