"""Which files `-f` means, as kubectl reads it: files, folders, globs, `-`; and their bytes."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence

import msgspec

from reconciler.errors import InvalidInput

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "<stdin>"


class Source(msgspec.Struct, frozen=True):
    """One file's content; `explicit` when the user named the very file, `real_path` when it is one on this disk."""

    path: str
    data: bytes
    explicit: bool = False
    real_path: str = ""


def read_sources(names: Sequence[str], *, recursive: bool = False) -> list[Source]:
    """Read everything `-f` names, each file once, in a stable order.

    Raises InvalidInput for a name that matches nothing or cannot be read.
    """
    found: dict[str, Source] = {}
    for name in names:
        for path, explicit in _expand(name, recursive=recursive):
            real_path = "" if path == STDIN else os.path.realpath(path)
            if real_path not in found:
                found[real_path] = Source(path, _read(path), explicit, real_path)
    return list(found.values())


def _expand(name: str, *, recursive: bool) -> Iterator[tuple[str, bool]]:
    if name == "-":
        yield STDIN, True
    elif os.path.isdir(name):
        inside = list(_folder(name, recursive=recursive))
        if not inside:
            raise InvalidInput(
                f"The folder '{name}' holds no {', '.join(SUFFIXES)} file{'' if recursive else ' (not recursive)'}.",
                hint="Name another folder, or add -R to look into its subfolders.",
            )
        yield from ((path, False) for path in inside)
    elif os.path.exists(name):
        yield name, True
    elif glob.has_magic(name) and (matches := sorted(glob.glob(name, recursive=True))):
        yield from ((path, True) for path in matches if os.path.isfile(path))
    else:
        raise InvalidInput(f"There is no file or folder '{name}'.", hint="Check the path given with -f.")


def _folder(name: str, *, recursive: bool) -> Iterator[str]:
    for folder, subfolders, files in os.walk(name):
        subfolders[:] = sorted(s for s in subfolders if not s.startswith(".")) if recursive else []
        yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(SUFFIXES) and not f.startswith("."))


def _read(path: str) -> bytes:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidInput(
            f"Cannot read '{path}': {os.strerror(error.errno or 0)}.", hint="Check the file and its permissions."
        ) from error
