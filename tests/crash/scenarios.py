"""What is killed: one small story per kind of data operation, with the writes it makes and the rows it must end with.

A story is told to the real program by manifests. Its rows come from a model in plain Python beside it, never from what
LakeTable computed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.crash.world import World

Row = tuple[Any, ...]
APPLY = ("laketable", "apply", "-f", ".", "--auto-approve")
PLAIN = ("columns:", "  - {name: id, type: long}", "  - {name: x, type: long}")
BRANCH, CHUNK, PUBLISH = "point branch", "rows on branch", "point main + drop branch + done"


@dataclass(frozen=True)
class Scenario:
    """One story. `prepare` leaves tables and manifests such that `command` has the work to do, and nothing else.

    `writes` is everything the work may write, in order; `rows` what each table must hold in the end, in the order of
    `columns`; `chunks` how many commits of staged work main must hold, each once. `is_over`: with which words the
    command fails where all of it was done before; a command that people give says so, an apply is silent. `works`: the
    kinds of work in its plan, which is checked.
    """

    kind: str
    prepare: Callable[[World], None]
    writes: tuple[str, ...]
    rows: Mapping[str, list[Row]]
    columns: Mapping[str, tuple[str, ...]]
    chunks: int
    command: Callable[[World], tuple[str, ...]] = field(default=lambda world: APPLY)
    is_over: str = ""
    works: frozenset[str] = frozenset()


def orders(count: int) -> list[dict[str, Any]]:
    """Make rows of two columns, some of them NULL."""
    return [{"id": i, "x": None if i % 7 == 6 else i % 5} for i in range(count)]


# ---------------------------------------------------------------- a computed column


def _prepare_backfill(world: World) -> None:
    bucketed = ("partitioning:", "  - {column: id, transform: 'bucket[2]'}")
    world.declare("orders", *PLAIN)
    world.ok("apply", "-f", ".", "--auto-approve")
    world.add("orders", orders(12)[:4])
    world.add("orders", orders(12)[4:8])
    world.declare("orders", *PLAIN, *bucketed)  # files of two specs are two chunks, however small
    world.ok("apply", "-f", ".", "--auto-approve")
    world.load(orders(12)[8:], world.full("orders"))
    total = "  - {name: total, type: long, computed: {expression: 'x * 2 + id'}}"
    world.declare("orders", *PLAIN, total, *bucketed)


BACKFILL = Scenario(
    kind="backfill",
    prepare=_prepare_backfill,
    writes=(
        "orders: schema + properties + point undo tag",
        f"orders: {BRANCH}",
        f"orders: {CHUNK}",
        f"orders: {CHUNK}",
        f"orders: {PUBLISH}",
    ),
    rows={"orders": [(r["id"], r["x"], None if r["x"] is None else r["x"] * 2 + r["id"]) for r in orders(12)]},
    columns={"orders": ("id", "x", "total")},
    chunks=2,
    works=frozenset({"backfill"}),
)


# ---------------------------------------------------------------- another layout, and a value, in one pass


def _prepare_rewrite(world: World) -> None:
    _prepare_backfill(world)
    declare_rewrite(world)


def declare_rewrite(world: World) -> None:
    """Want three buckets for all files, and the computed column."""
    bucketed = ("partitioning:", "  - {column: id, transform: 'bucket[3]'}", "rewriteExisting: true")
    total = "  - {name: total, type: long, computed: {expression: 'x * 2 + id'}}"
    world.declare("orders", *PLAIN, total, *bucketed)


REWRITE = Scenario(
    kind="rewrite",
    prepare=_prepare_rewrite,
    writes=(
        "orders: schema + add-spec + set-default-spec + properties + point undo tag",
        f"orders: {BRANCH}",
        f"orders: {CHUNK}",
        f"orders: {CHUNK}",
        f"orders: {PUBLISH}",
    ),
    rows=BACKFILL.rows,
    columns=BACKFILL.columns,
    chunks=2,
    works=frozenset({"rewrite"}),
)


def _prepare_count(world: World) -> None:
    world.declare("orders", *PLAIN)
    world.ok("apply", "-f", ".", "--auto-approve")
    world.add("orders", orders(12))
    world.declare("orders", *PLAIN, "indexes:", "  - {name: values, columns: [x], type: ndv}")


COUNT = Scenario(
    kind="distinct counts",
    prepare=_prepare_count,
    writes=("orders: properties", "orders: set-statistics"),
    rows={"orders": [(r["id"], r["x"]) for r in orders(12)]},
    columns={"orders": ("id", "x")},
    chunks=0,
    works=frozenset({"count"}),
)


# ---------------------------------------------------------------- x = x + 1


def _prepare_canary(world: World) -> None:
    world.declare("counted", *PLAIN)
    world.ok("apply", "-f", ".", "--auto-approve")
    world.add("counted", orders(8)[:4])
    world.add("counted", orders(8)[4:])


def add_one(world: World, number: int = 1) -> tuple[str, ...]:
    """Return the command that adds one to x, for the n-th time."""
    uuid = str(world.metadata("counted")["table-uuid"])
    return ("canary", world.proxy.uri, world.full("counted"), uuid, str(number))


CANARY = Scenario(
    kind="canary (x = x + 1)",
    prepare=_prepare_canary,
    writes=(f"counted: {BRANCH}", f"counted: {CHUNK}", f"counted: {CHUNK}", f"counted: {PUBLISH}"),
    rows={"counted": [(r["id"], None if r["x"] is None else r["x"] + 1) for r in orders(8)]},
    columns={"counted": ("id", "x")},
    chunks=2,
    command=add_one,
)

# ---------------------------------------------------------------- materialized views


def _sums(rows: list[dict[str, Any]]) -> list[Row]:
    """Do what the view's query says: count and add up by remainder."""
    found: dict[int, list[int | None]] = {}
    for row in rows:
        found.setdefault(row["id"] % 3, []).append(row["x"])
    return [(k, len(xs), sum(x for x in xs if x is not None)) for k, xs in found.items()]


def _declare_view(world: World) -> None:
    query = f"SELECT id % 3 AS k, count(*) AS n, sum(x) AS total FROM {world.full('orders')} GROUP BY id % 3"
    world.declare("sums", "materializedView:", f"  query: {query}")


def _prepare_first_refresh(world: World) -> None:
    world.declare("orders", *PLAIN)
    world.ok("apply", "-f", ".", "--auto-approve")
    world.add("orders", orders(12)[:6])
    world.add("orders", orders(12)[6:])
    _declare_view(world)


def _prepare_incremental_refresh(world: World) -> None:
    _prepare_first_refresh(world)
    world.ok("apply", "-f", ".", "--auto-approve")
    world.add("orders", orders(20)[12:])


_VIEW = {"sums": ("k", "n", "total")}
FIRST_REFRESH = Scenario(
    kind="refresh, full",
    prepare=_prepare_first_refresh,
    # the branch of a table without rows starts with an empty snapshot
    writes=("sums: create", f"sums: {CHUNK}", f"sums: {CHUNK}", f"sums: {PUBLISH}"),
    rows={"sums": _sums(orders(12))},
    columns=_VIEW,
    chunks=1,
    works=frozenset({"refresh"}),
)
INCREMENTAL_REFRESH = Scenario(
    kind="refresh, incremental",
    prepare=_prepare_incremental_refresh,
    writes=(f"sums: {BRANCH}", f"sums: {CHUNK}", f"sums: {PUBLISH}"),
    rows={"sums": _sums(orders(20))},
    columns=_VIEW,
    chunks=2,  # that of the first refresh too
    command=lambda world: ("laketable", "refresh", "-f", "."),
    works=frozenset({"refresh"}),
)


# ---------------------------------------------------------------- files, types, what is there


def _three_files(world: World, *lines: str) -> None:
    """Make a table of three files of four rows."""
    world.declare("orders", *PLAIN, *lines)
    world.ok("apply", "-f", ".", "--auto-approve")
    for start in (0, 4, 8):
        world.add("orders", orders(12)[start : start + 4])


def _prepare_type_change(world: World) -> None:
    world.declare("orders", "columns:", "  - {name: id, type: long}", "  - {name: x, type: string}")
    world.ok("apply", "-f", ".", "--auto-approve")
    for part in (orders(8)[:4], orders(8)[4:]):
        world.add("orders", [{**row, "x": None if row["x"] is None else str(row["x"])} for row in part])
    change = "typeChange: {strategy: ExpandContract, onCastFailure: Fail, keepOldFor: 30d}"
    world.declare("orders", "columns:", "  - {name: id, type: long}", f"  - {{name: x, type: int, {change}}}")


TYPE_CHANGE = Scenario(
    kind="type change",
    prepare=_prepare_type_change,
    writes=(
        "orders: schema + properties + point undo tag",
        f"orders: {BRANCH}",
        f"orders: {CHUNK}",
        f"orders: {PUBLISH}",
        "orders: schema + properties + remove-properties",
    ),
    rows={"orders": [(r["id"], r["x"], None if r["x"] is None else str(r["x"])) for r in orders(8)]},
    columns={"orders": ("id", "x", "x__lt_old")},
    chunks=1,
    works=frozenset({"backfill", "swap", "validate"}),
)


def _prepare_validation(world: World) -> None:
    uncounted = "properties: {write.metadata.metrics.default: none}"  # no manifest proves anything then
    _three_files(world, uncounted)
    required = ("columns:", "  - {name: id, type: long, required: true}", "  - {name: x, type: long}")
    world.declare("orders", *required, "constraints:", "  - {name: small, check: 'x < 5'}", uncounted)


VALIDATION = Scenario(
    kind="validation",
    prepare=_prepare_validation,
    writes=("orders: schema + properties",),
    rows={"orders": [(r["id"], r["x"]) for r in orders(12)]},
    columns={"orders": ("id", "x")},
    chunks=0,
    works=frozenset({"validate"}),
)


def _prepare_restore(world: World) -> None:
    _three_files(world)
    table = world.table(world.full("orders"))
    target = table.current_snapshot()
    assert target is not None
    table.delete("id < 6")
    world.notes["command"] = f"restore {world.full('orders')} --to {target.snapshot_id} -f ."
    shown = world.run(*world.notes["command"].split())
    world.notes["command"] += f" --approve {shown.out.rpartition('--approve ')[2].split()[0]}"


RESTORE = Scenario(
    kind="restore",
    prepare=_prepare_restore,
    writes=("orders: properties + point undo tag", f"orders: {BRANCH}", f"orders: {CHUNK}", f"orders: {PUBLISH}"),
    rows=VALIDATION.rows,
    columns=VALIDATION.columns,
    chunks=1,
    command=lambda world: ("laketable", *world.notes["command"].split()),
    is_over="already",
    works=frozenset({"restore"}),
)


# ---------------------------------------------------------------- maintenance


def _maintained(kind: str, step: str, declared: str, writes: tuple[str, ...], chunks: int = 0) -> Scenario:
    def prepare(world: World) -> None:
        _three_files(world, f"maintenance: {{{declared}}}")
        time.sleep(1.1)  # for a snapshot to be older than a second

    return Scenario(
        kind=kind,
        prepare=prepare,
        writes=writes,
        rows=VALIDATION.rows,
        columns=VALIDATION.columns,
        chunks=chunks,
        command=lambda world: ("laketable", "maintain", "-f", "."),
        works=frozenset({f"maintain/{step}"}),
    )


COMPACTION = _maintained(
    "compaction",
    "compact",
    "compact: {targetFileSize: 1Mi, minInputFiles: 2}",
    (f"orders: {BRANCH}", f"orders: {CHUNK}", f"orders: {PUBLISH}"),
    chunks=1,
)
EXPIRY = _maintained(
    "expiry", "expire-snapshots", "expireSnapshots: {olderThan: 1s, keep: 1}", ("orders: remove-snapshots + done",)
)
MANIFESTS = _maintained("manifests", "rewrite-manifests", "rewriteManifests: {}", ("orders: rows on main + done",))
ORPHANS = _maintained("orphan files", "remove-orphan-files", "removeOrphanFiles: {olderThan: 3d}", ("orders: done",))


SCENARIOS = (
    BACKFILL,
    CANARY,
    FIRST_REFRESH,
    INCREMENTAL_REFRESH,
    REWRITE,
    COUNT,
    TYPE_CHANGE,
    VALIDATION,
    RESTORE,
    COMPACTION,
    EXPIRY,
    MANIFESTS,
    ORPHANS,
)
