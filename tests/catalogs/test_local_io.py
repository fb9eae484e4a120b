from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.catalogs.connection import embedded
from reconciler.catalogs.local_io import LocalFile, LocalFileIO
from reconciler.catalogs.metastore import load_pyiceberg


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_local_files_are_written_read_and_removed(scheme: str, tmp_path: Path) -> None:
    io, location = LocalFileIO(), f"{scheme}{tmp_path}/made/on/demand.json"
    with io.new_output(location).create() as stream:
        stream.write(b"{}")
    found = io.new_input(location)
    assert found.exists()
    assert len(found) == 2
    with found.open() as reading:
        assert reading.read() == b"{}"
    io.delete(found)
    assert not found.exists()


def test_a_file_that_is_there_is_replaced_only_on_demand(tmp_path: Path) -> None:
    output = LocalFileIO().new_output(str(tmp_path / "x.json"))
    with output.create() as stream:
        stream.write(b"first")
    with pytest.raises(FileExistsError):
        output.create()
    with output.create(overwrite=True) as stream:
        stream.write(b"second")
    assert (tmp_path / "x.json").read_bytes() == b"second"


def test_other_storage_goes_through_pyiceberg() -> None:
    io = LocalFileIO({"py-io-impl": "reconciler.catalogs.local_io.LocalFileIO", "s3.region": "eu-central-1"})
    found = io.new_input("s3://bucket/metadata.json")
    assert not isinstance(found, LocalFile)
    assert found.location == "s3://bucket/metadata.json"


def test_the_embedded_catalog_commits_without_arrow(tmp_path: Path) -> None:
    (tmp_path / ".laketable").mkdir()
    assert isinstance(load_pyiceberg(embedded(tmp_path))._load_file_io(), LocalFileIO)
    heavy = ("pyarrow", "pandas", "requests")
    code = f"""
import sys
from pathlib import Path
from reconciler.catalogs.connection import embedded
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.changes import CreateTable, SetProperty
from reconciler.model.table import TableIdent, TableSpec
from reconciler.model.types import Field, StructType
ident = TableIdent(("a",), "b")
spec = TableSpec(ident=ident, schema=StructType((Field(id=1, name="x", required=False, type="int"),)))
catalog = IcebergCatalog(embedded(Path({str(tmp_path)!r})))
made = catalog.apply(ident, None, [CreateTable(spec=spec)])
catalog.apply(ident, made.version, [SetProperty(key="k", before=None, after="v")])
assert catalog.get_table_spec(ident).spec.properties["k"] == "v"
print([name for name in {heavy!r} if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
