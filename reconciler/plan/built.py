"""What every file of a table shall have (`Aspect`), what the table remembers of it, and which files lack it; pure.

Partition spec and sort order of a file stand in its manifest. What a manifest does not tell, bloom filters and
z-orders, follows from who wrote it: the memory `laketable.built.<name>` holds the sequence numbers of our own passes,
and the snapshot all of whose files are known to have it. Plan and job ask the same functions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from reconciler.model.indexes import BLOOM, SORT, ZORDER
from reconciler.model.table import BOOKKEEPING_PREFIX, DataFile, Desired, DesiredIndex, TableSpec
from reconciler.model.types import FieldPath, paths_by_id
from reconciler.plan.operations import Aspect, AspectKind

BUILT_PREFIX = f"{BOOKKEEPING_PREFIX}built."
LAYOUT = "layout"
MAX_RANGES = 500
_INDEX = "index."
_ENCODER = msgspec.json.Encoder(order="deterministic")


class Built(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a table knows of one aspect; an empty `definition` says only that something is wanted.

    Every file of snapshot `whole` has it, and so has every file that came with one of the sequence numbers `own`, which
    are ranges. Both stay true wherever main goes: a sequence number is given once.
    """

    definition: str = ""
    revision: int = 0
    round: int = 0
    whole: int = 0
    own: tuple[tuple[int, int], ...] = ()


class FileLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a data file."""

    spec_id: int
    sort_order_id: int
    sequence_number: int
    has_deletes: bool = False


class TableLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A table's default partition spec and sort order; order 0 is "unsorted"."""

    spec_id: int
    sort_order_id: int


_MEMORY = msgspec.json.Decoder(Built)


def built_key(name: str) -> str:
    """Name the property that remembers one aspect."""
    return f"{BUILT_PREFIX}{name}"


def read_built(bookkeeping: Mapping[str, str], name: str) -> Built | None:
    """Read what a table remembers of one aspect; a damaged value counts as absent."""
    try:
        return _MEMORY.decode(bookkeeping.get(built_key(name)) or "null")
    except ValueError:  # msgspec's decoding errors are ValueErrors too
        return None


def print_built(built: Built) -> str:
    """Print it as a property's value."""
    return _ENCODER.encode(built).decode()


def index_name(index: DesiredIndex) -> str:
    """Name an index's aspect."""
    return f"{_INDEX}{index.name}"


# ---------------------------------------------------------------- what is wanted


def rewrites_layout(desired: Desired) -> bool:
    """Say whether existing files shall follow the partition spec and the sort order."""
    return desired.rewrite_existing or any(i.type == SORT and i.rewrite_existing for i in desired.indexes)


def aspects_of(desired: Desired, target: TableSpec) -> Iterator[Aspect]:
    """Yield what a manifest wants its existing files to have; a column that is not there yet has no index."""
    if rewrites_layout(desired):
        layout = _digest([target.partitioning, target.sort_order])
        yield Aspect(name=LAYOUT, kind=AspectKind.LAYOUT, definition=layout)
    ids: dict[FieldPath, int] = {}
    for index in desired.indexes:
        kind = _KINDS.get(index.type)
        if kind is None or not index.rewrite_existing:
            continue
        ids = ids or {path: id_ for id_, path in paths_by_id(target.schema).items()}
        if all(path in ids for path in index.columns):
            columns = tuple(ids[path] for path in index.columns)
            parameters = sorted(index.properties.items())
            definition = _digest([index.type, columns, parameters])
            yield Aspect(name=index_name(index), kind=kind, columns=columns, definition=definition)


_KINDS = {BLOOM: AspectKind.BLOOM, ZORDER: AspectKind.ZORDER}


def _digest(value: object) -> str:
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()[:16]


# ---------------------------------------------------------------- what a file has


def layout_of(file: DataFile) -> FileLayout:
    """Ask a file's manifest."""
    return FileLayout(
        spec_id=file.spec_id,
        sort_order_id=file.sort_order_id,
        sequence_number=file.sequence_number,
        has_deletes=file.has_deletes,
    )


def has_layout(file: FileLayout, table: TableLayout) -> bool:
    """Say whether a file is written in the table's partition spec and sort order."""
    is_sorted = not table.sort_order_id or file.sort_order_id == table.sort_order_id
    return file.spec_id == table.spec_id and is_sorted


def lacks(aspect: Aspect, file: FileLayout, table: TableLayout, built: Built | None) -> bool:
    """Say whether a file must be looked at or written anew for an aspect; `built` None: nothing is known to have it."""
    if aspect.kind is AspectKind.LAYOUT:
        return not has_layout(file, table)
    if built is None or built.definition != aspect.definition:
        return True
    return not any(low <= file.sequence_number <= high for low, high in built.own)


def is_whole(aspect: Aspect, built: Built | None, head: int | None) -> bool:
    """Say whether it is known of a snapshot that all of its files have an aspect."""
    return built is not None and built.definition == aspect.definition and built.whole == head


def ranges_of(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Write numbers as ranges; beyond so many the lowest are left out, and their files count as without."""
    found: list[tuple[int, int]] = []
    for number in sorted(number for number in set(numbers) if number > 0):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found[-MAX_RANGES:])
