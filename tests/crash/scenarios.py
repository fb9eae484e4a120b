"""What is killed: one small story per kind of data operation, with the writes it makes and the rows it must end with.

A story is told to the real program by manifests. Its rows come from a model in plain Python beside it, never from what
LakeTable computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.crash.world import World

Row = tuple[Any, ...]
APPLY = ("laketable", "apply", "-f", ".", "--auto-approve")
BRANCH, CHUNK, PUBLISH = "point branch", "rows on branch", "point main + drop branch + done"


@dataclass(frozen=True)
class Scenario:
    """One story. `prepare` leaves tables and manifests such that `command` has the work to do, and nothing else.

    `writes` is everything the work may write, in order; `rows` what each table must hold in the end, in the order of
    `columns`; `chunks` how many commits of staged work main must hold, each once.
    """

    kind: str
    prepare: Callable[[World], None]
    writes: tuple[str, ...]
    rows: Mapping[str, list[Row]]
    columns: Mapping[str, tuple[str, ...]]
    chunks: int
    command: Callable[[World], tuple[str, ...]] = field(default=lambda world: APPLY)


def orders(count: int) -> list[dict[str, Any]]:
    """Make rows of two columns, some of them NULL."""
    return [{"id": i, "x": None if i % 7 == 6 else i % 5} for i in range(count)]


# ---------------------------------------------------------------- a computed column


def _prepare_backfill(world: World) -> None:
    columns = ("columns:", "  - {name: id, type: long}", "  - {name: x, type: long}")
    bucketed = ("partitioning:", "  - {column: id, transform: 'bucket[2]'}")
    world.declare("orders", *columns)
    world.ok("apply", "-f", ".", "--auto-approve")
    world.add("orders", orders(12)[:4])
    world.add("orders", orders(12)[4:8])
    world.declare("orders", *columns, *bucketed)  # files of two specs are two chunks, however small
    world.ok("apply", "-f", ".", "--auto-approve")
    world.load(orders(12)[8:], world.full("orders"))
    total = "  - {name: total, type: long, computed: {expression: 'x * 2 + id'}}"
    world.declare("orders", *columns, total, *bucketed)


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
)


# ---------------------------------------------------------------- another layout, and a value, in one pass


def _prepare_rewrite(world: World) -> None:
    _prepare_backfill(world)
    bucketed = ("partitioning:", "  - {column: id, transform: 'bucket[3]'}", "rewriteExisting: true")
    total = "  - {name: total, type: long, computed: {expression: 'x * 2 + id'}}"
    columns = ("columns:", "  - {name: id, type: long}", "  - {name: x, type: long}", total)
    world.declare("orders", *columns, *bucketed)


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
)


def _prepare_count(world: World) -> None:
    columns = ("columns:", "  - {name: id, type: long}", "  - {name: x, type: long}")
    world.declare("orders", *columns)
    world.ok("apply", "-f", ".", "--auto-approve")
    world.add("orders", orders(12))
    world.declare("orders", *columns, "indexes:", "  - {name: values, columns: [x], type: ndv}")


COUNT = Scenario(
    kind="distinct counts",
    prepare=_prepare_count,
    writes=("orders: properties", "orders: set-statistics"),
    rows={"orders": [(r["id"], r["x"]) for r in orders(12)]},
    columns={"orders": ("id", "x")},
    chunks=0,
)


# ---------------------------------------------------------------- x = x + 1


def _prepare_canary(world: World) -> None:
    world.declare("counted", "columns:", "  - {name: id, type: long}", "  - {name: x, type: long}")
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
    world.declare("orders", "columns:", "  - {name: id, type: long}", "  - {name: x, type: long}")
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
    writes=("create sums", f"sums: {BRANCH}", f"sums: {CHUNK}", f"sums: {PUBLISH}"),
    rows={"sums": _sums(orders(12))},
    columns=_VIEW,
    chunks=1,
)
INCREMENTAL_REFRESH = Scenario(
    kind="refresh, incremental",
    prepare=_prepare_incremental_refresh,
    writes=(f"sums: {BRANCH}", f"sums: {CHUNK}", f"sums: {PUBLISH}"),
    rows={"sums": _sums(orders(20))},
    columns=_VIEW,
    chunks=2,  # that of the first refresh too
    command=lambda world: ("laketable", "refresh", "-f", "."),
)

SCENARIOS = (BACKFILL, REWRITE, COUNT, CANARY, FIRST_REFRESH, INCREMENTAL_REFRESH)
