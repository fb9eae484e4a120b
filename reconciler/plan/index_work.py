"""Work that builds what no data file holds: counts of distinct values."""

from __future__ import annotations

import msgspec


class CountDistinct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="work", tag="count"):
    """What a COUNT does: sketch the distinct values of top-level columns of main's head, into a statistics file.

    `partitions`: the table is partitioned, so rows and files are counted per partition, too.
    """

    columns: tuple[str, ...]
    field_ids: tuple[int, ...]
    partitions: bool = False
