"""A new file that starts with the first bytes of another: copied in the kernel where it can be, else streamed.

The new file appears under its name at once, so its name must be one that nothing refers to yet; a failure removes it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow.fs as pafs

from reconciler.errors import InvalidInput, InvalidTable

STREAM_BYTES = 8 << 20
# Kernels and file systems that cannot copy a range say so in several ways.
_NO_RANGE = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY}


class Writable(Protocol):
    """The rest of the new file."""

    def write(self, data: bytes | memoryview, /) -> int | None:
        """Append bytes."""
        ...


@contextmanager
def new_file(filesystem: pafs.FileSystem, source: str, target: str, size: int) -> Iterator[Writable]:
    """Create `target` with the first `size` bytes of `source`; what is written goes behind them, durably."""
    make = _local if isinstance(filesystem, pafs.LocalFileSystem) else _streamed
    with make(filesystem, source, target, size) as file:
        yield file


@contextmanager
def _local(filesystem: pafs.FileSystem, source: str, target: str, size: int) -> Iterator[Writable]:
    try:
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError as error:
        raise _exists(target) from error
    try:
        with open(descriptor, "wb") as file:
            with open(source, "rb") as old:
                copy_start(old, file, size)
            yield file
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(Path(target).parent)
    except BaseException:
        Path(target).unlink(missing_ok=True)
        raise


def copy_start(old: BinaryIO, new: BinaryIO, size: int) -> None:
    """Copy the first `size` bytes between two open local files, the new one still empty."""
    left = size
    if hasattr(os, "copy_file_range"):
        try:
            while left and (copied := os.copy_file_range(old.fileno(), new.fileno(), left)):
                left -= copied
        except OSError as error:
            if error.errno not in _NO_RANGE:
                raise
    if left:  # some file systems answer 0 instead of saying that they cannot
        old.seek(size - left)
        new.seek(size - left)
        _stream(old.read, new, left)
    new.seek(0, os.SEEK_END)
    if new.tell() != size:
        raise _shrunk()


def _stream(read: Callable[[int], bytes], new: Writable, left: int) -> None:
    while left:
        data = read(min(left, STREAM_BYTES))
        if not data:
            raise _shrunk()
        new.write(data)
        left -= len(data)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _streamed(filesystem: pafs.FileSystem, source: str, target: str, size: int) -> Iterator[Writable]:
    """Stream; object stores have no exclusive creation, so an existing target is only looked for."""
    if filesystem.get_file_info(target).type is not pafs.FileType.NotFound:
        raise _exists(target)
    try:
        with filesystem.open_output_stream(target) as file:
            with filesystem.open_input_file(source) as old:
                _stream(old.read, file, size)
            yield file
    except BaseException:
        with suppress(OSError):
            filesystem.delete_file(target)
        raise


def _exists(target: str) -> InvalidInput:
    return InvalidInput("There is a file of this name already.", where=target, hint="Choose a new name.")


def _shrunk() -> InvalidTable:
    return InvalidTable("The file became shorter while it was copied.", hint="Data files never change: restore it.")
