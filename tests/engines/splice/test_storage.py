"""The new file is complete or absent, on local disks and on file systems that only stream."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from reconciler.engines.splice.splice import inspect, splice
from reconciler.engines.splice.storage import new_file
from reconciler.errors import InvalidInput, InvalidTable
from tests.engines.splice.files import add, assert_equal, column, groups, old_table, rewritten, values, write


@pytest.fixture
def memory() -> pafs.FileSystem:
    """A file system that is not local, through fsspec."""
    MemoryFileSystem.store.clear()
    return pafs.PyFileSystem(pafs.FSSpecHandler(MemoryFileSystem()))


def put(filesystem: pafs.FileSystem, path: Path) -> str:
    with filesystem.open_output_stream("/a.parquet") as file:
        file.write(path.read_bytes())
    return "/a.parquet"


def test_a_file_system_that_streams(tmp_path: Path, memory: pafs.FileSystem) -> None:
    local = write(tmp_path / "a.parquet", old_table(), 300, write_page_index=True)
    source = put(memory, local)
    done = splice(source, "/b.parquet", [column("deep")], groups(values("deep"), 300), filesystem=memory)
    with memory.open_input_file("/b.parquet") as file:
        (tmp_path / "b.parquet").write_bytes(file.read())
    assert (tmp_path / "b.parquet").stat().st_size == done.size_bytes
    plain = rewritten(local, [column("deep")], values("deep"), 300, write_page_index=True)
    assert_equal(tmp_path / "b.parquet", plain)


def test_both_ways_write_the_same_bytes(tmp_path: Path, memory: pafs.FileSystem) -> None:
    local = write(tmp_path / "a.parquet", old_table(), 300)
    done = add(local, [column("int")], groups(values("int"), 300))
    splice(put(memory, local), "/b.parquet", [column("int")], groups(values("int"), 300), filesystem=memory)
    with memory.open_input_file("/b.parquet") as file:
        assert file.read() == Path(done.path).read_bytes()


@pytest.mark.parametrize("error", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_kernels_that_cannot_copy_a_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    wanted = Path(add(source, [column("int")], [values("int")]).path).read_bytes()
    calls = []

    def refuse(*arguments: int) -> int:
        calls.append(arguments)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "copy_file_range", refuse)
    done = add(source, [column("int")], [values("int")], target=tmp_path / "b.parquet")
    assert Path(done.path).read_bytes() == wanted
    assert calls


def test_a_range_copied_piece_by_piece_or_given_up_halfway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    wanted = Path(add(source, [column("int")], [values("int")]).path).read_bytes()
    real, left = os.copy_file_range, [700, 300, 0]
    monkeypatch.setattr(os, "copy_file_range", lambda old, new, size: real(old, new, n) if (n := left.pop(0)) else 0)
    done = add(source, [column("int")], [values("int")], target=tmp_path / "b.parquet")
    assert Path(done.path).read_bytes() == wanted
    assert left == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "copy_file_range", full)
    source = write(tmp_path / "a.parquet", old_table())
    with pytest.raises(OSError, match="No space left"):
        add(source, [column("int")], [values("int")])
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


FILE_SIZE_LIMIT = """
import resource, signal, sys
from pathlib import Path
from tests.engines.splice.files import add, column, values
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    add(Path(sys.argv[1]), [column("double")], [values("double", 20_000)])
except OSError as error:
    print(error.strerror)
"""


@pytest.mark.parametrize("room", [10, 20_000])
def test_a_disk_that_fills_while_values_are_written_leaves_nothing(tmp_path: Path, room: int) -> None:
    """The failure passes through pyarrow, which writes the values."""
    source = write(tmp_path / "a.parquet", old_table(20_000), 20_000)
    limit = str(source.stat().st_size + room)
    command = [sys.executable, "-c", FILE_SIZE_LIMIT, str(source), limit]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "File too large\n"
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_an_existing_target_is_kept(tmp_path: Path, memory: pafs.FileSystem) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    (tmp_path / "b.parquet").write_text("mine")
    with pytest.raises(InvalidInput, match=r"b\.parquet: There is a file of this name already"):
        add(source, [column("int")], [values("int")], target=tmp_path / "b.parquet")
    assert (tmp_path / "b.parquet").read_text() == "mine"
    remote = put(memory, source)
    with pytest.raises(InvalidInput, match="There is a file of this name already"):
        splice(remote, remote, [column("int")], [values("int")], filesystem=memory)
    with memory.open_input_file(remote) as file:
        assert file.read() == source.read_bytes()


@pytest.mark.parametrize("streamed", [True, False])
def test_a_failure_halfway_leaves_nothing(tmp_path: Path, memory: pafs.FileSystem, streamed: bool) -> None:
    source = write(tmp_path / "a.parquet", old_table(), 500)
    half = groups(values("int"), 500)[:1]
    if streamed:
        remote = put(memory, source)
        with pytest.raises(InvalidInput, match="values for 1 of the file's 2 row groups"):
            splice(remote, "/b.parquet", [column("int")], half, filesystem=memory)
        assert memory.get_file_info("/b.parquet").type is pafs.FileType.NotFound
    else:
        with pytest.raises(InvalidInput, match="values for 1 of the file's 2 row groups"):
            add(source, [column("int")], half)
        assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_source_that_is_shorter_than_its_footer_said(tmp_path: Path, memory: pafs.FileSystem, streamed: bool) -> None:
    source = write(tmp_path / "a.parquet", old_table())
    start, filesystem, target = inspect(str(source)).start, pafs.LocalFileSystem(), tmp_path / "b.parquet"
    source.write_bytes(source.read_bytes()[: start - 10])
    if streamed:
        filesystem, target = memory, Path("/b.parquet")
    name = put(memory, source) if streamed else str(source)
    with pytest.raises(InvalidTable, match="became shorter"), new_file(filesystem, name, str(target), start):
        pass
    assert filesystem.get_file_info(str(target)).type is pafs.FileType.NotFound


def test_the_file_and_its_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def recorded(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_ino)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    source = write(tmp_path / "a.parquet", old_table())
    done = add(source, [column("int")], [values("int")])
    assert synced == [Path(done.path).stat().st_ino, tmp_path.stat().st_ino]
    assert pq.read_table(done.path).num_columns == 8
