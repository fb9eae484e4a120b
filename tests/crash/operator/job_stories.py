"""The stories with a Job: a backfill, a view's refresh, and deletions meanwhile."""

from __future__ import annotations

from reconciler.operator.objects import JOBS
from tests.crash.operator.scene import JOB, Rows, Scene, eventually
from tests.crash.operator.stories import DELETE_DROP, Story, delete_orders, dropped, gone, retained
from tests.crash.oracles import leftovers

# ---------------------------------------------------------------- work on rows

ROWS: Rows = [(i, i * 3 % 7) for i in range(12)]
TOTAL = {"name": "total", "type": "long", "computed": {"expression": "x * 2 + id"}}


def _with_rows(scene: Scene) -> None:
    scene.add_catalog(runtime=JOB)
    scene.declare("orders", "id long", "x long")
    scene.wait("orders")
    scene.append("orders", ROWS[:6], "id", "x")
    scene.append("orders", ROWS[6:], "id", "x")
    scene.resync("orders", 2)
    eventually(lambda: scene.status("orders")["table"].get("rows") == len(ROWS))


def _compute(scene: Scene) -> None:
    scene.declare("orders", "id long", "x long", TOTAL)


def _filled(scene: Scene) -> None:
    scene.wait("orders")
    _jobs_ended(scene)


def _jobs_ended(scene: Scene) -> None:
    """Wait for the Jobs: a table is in sync as soon as its rows are published."""
    eventually(
        lambda: all(job["status"].get("completionTime") for job in scene.world.client.list(JOBS, scene.namespace))
    )


def _computed(scene: Scene) -> None:
    assert scene.rows("orders", "id", "x", "total") == sorted(((i, x, x * 2 + i) for i, x in ROWS), key=repr)


PROGRESS = r"patch laketables/status (conditions$|[a-zA-Z+]*progress)"
"""How far a job is, and that its branch is there: who looks a moment later sees and writes something else."""

BACKFILL = Story(
    kind="backfill",
    before=_with_rows,
    change=_compute,
    is_over=_filled,
    holds=_computed,
    writes=(
        "create laketableplans",
        "create events PlanMade",
        "patch laketableplans/status Applying",
        "catalog: TABLE: schema + properties + point undo tag",
        "create jobs",
        "create events JobStarted",
        "create configmaps",
        "patch laketables finalizers laketable.dev/table",
        "patch laketables/status Applying",
        "create events Applied",
        "patch laketableplans/status Applied",
        "delete laketableplans",
        "patch laketables finalizers none",
        "patch laketables/status InSync",
        "create events Published",
    ),
    by_time=PROGRESS,
)


def view_over_rows(scene: Scene) -> None:
    """Declare a table, give it rows, and declare a view that counts them."""
    _with_rows(scene)
    query = f"SELECT x, count(*) AS n FROM `{scene.namespace}`.orders GROUP BY x"
    scene.declare("totals", materializedView={"query": query, "refresh": {"onSourceChange": True}})


def _view(scene: Scene) -> None:
    view_over_rows(scene)
    scene.wait("totals")


def _ingest(scene: Scene) -> None:
    scene.append("orders", MORE, "id", "x")
    scene.touch("orders")  # as its interval would: whoever reads it is looked at then


MORE: Rows = [(100, 1), (101, 50)]


def _refreshed(scene: Scene) -> None:
    values = [x for _, x in [*ROWS, *MORE]]
    assert scene.rows("totals", "x", "n") == sorted(((x, values.count(x)) for x in set(values)), key=repr)


def _fresh(scene: Scene) -> None:
    def is_over() -> bool:
        _refreshed(scene)
        found = scene.resource("totals") or {}
        return "operation" not in found["status"] and not found["metadata"].get("finalizers")

    eventually(is_over)
    scene.wait("totals")
    _jobs_ended(scene)


REFRESH = Story(
    kind="refresh",
    before=_view,
    change=_ingest,
    is_over=_fresh,
    holds=_refreshed,
    writes=(
        "patch laketables/status table of orders",
        "delete jobs",
        "create jobs",
        "create events JobStarted",
        "create configmaps",
        "patch laketables finalizers laketable.dev/table",
        "patch laketables/status conditions+operation begun",
        "patch laketables finalizers none",
        "patch laketables/status conditions+operation ended+table",
        "create events Published",
    ),
    by_time=PROGRESS,
    table="totals",
    watched="totals",
)


# ---------------------------------------------------------------- deletion while a job runs


def _with_job(scene: Scene, policy: str) -> None:
    scene.add_catalog(runtime=JOB)
    scene.declare("other", "id long")
    scene.wait("other")
    scene.declare("orders", "id long", "x long")
    uuid = scene.wait("orders")["table"]["uuid"]
    scene.append("orders", ROWS, "id", "x")
    how = {"reconcile": {"deletionPolicy": policy}, "approval": {"drop": uuid}}
    scene.declare("orders", "id long", "x long", TOTAL, **how)
    operation = eventually(lambda: scene.status("orders").get("operation"))["id"]
    scene.add_branch("orders", f"lt_{operation}")  # as its job would


def _retained_and_ended(scene: Scene) -> None:
    retained(scene)
    assert leftovers(scene.metadata("orders")) == []
    assert scene.world.client.list(JOBS, scene.namespace) == []
    assert scene.rows("orders", "id", "x") == sorted(ROWS, key=repr)


DELETE_RETAIN_RUNNING = Story(
    kind="delete, Retain, while a job runs",
    before=lambda scene: _with_job(scene, "Retain"),
    change=delete_orders,
    is_over=gone,
    holds=_retained_and_ended,
    writes=(
        "delete jobs",
        "catalog: TABLE: drop branch",
        "create events TableRetained",
        "patch laketables finalizers none",
    ),
    watched="other",
    is_held=True,
)
DELETE_DROP_RUNNING = Story(
    kind="delete, Drop, while a job runs",
    before=lambda scene: _with_job(scene, "Drop"),
    change=delete_orders,
    is_over=gone,
    holds=dropped,
    writes=("delete jobs", *DELETE_DROP.writes),
    watched="other",
    is_held=True,
)

HELD = (DELETE_RETAIN_RUNNING, DELETE_DROP_RUNNING)
DATA = (REFRESH, BACKFILL)
