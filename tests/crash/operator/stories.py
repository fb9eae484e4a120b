"""What an operator is killed in: small stories, with every write that it makes in each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from reconciler.operator.objects import JOBS, PLANS
from tests.crash.operator.scene import JOB, Rows, Scene, Step, eventually
from tests.crash.oracles import leftovers
from tests.kube.client import Object
from tests.kube.operator import policy


def _nothing(scene: Scene) -> None:
    del scene


@dataclass(frozen=True)
class Story:
    """One story about a LakeTable. `before` leaves the operator with nothing to do, `change` is what people do then.

    `is_over` waits until the operator is done; `holds` says in absolute terms how things must be then, beside being as
    they are without a crash. `writes` is everything that the operator writes, in any order, but for what comes as often
    as time allows while a job runs (`by_time`, a regular expression). `watched`: the LakeTable that is looked at again
    afterwards, where the story's own is gone.
    """

    kind: str
    before: Step
    change: Step
    is_over: Step
    holds: Step
    writes: tuple[str, ...]
    by_time: str = ""
    table: str = "orders"
    watched: str = "orders"
    is_held: bool = field(default=False, kw_only=True)
    """Whether no pod may start: the story is about Jobs, not about what they do."""
    by_timer: bool = field(default=False, kw_only=True)
    """Whether the operator's own timer makes it look again afterwards, not an annotation."""


def columns(scene: Scene, name: str) -> list[tuple[str, str, bool]]:
    """Name a table's columns, as the catalog has them."""
    schema = scene.there.load_table((scene.namespace, name)).schema()
    return [(field.name, str(field.field_type), field.required) for field in schema.fields]


def _in_sync(scene: Scene) -> None:
    scene.wait("orders")


def _catalog(scene: Scene) -> None:
    scene.add_catalog()


# ---------------------------------------------------------------- metadata only


def _create(scene: Scene) -> None:
    scene.add_catalog()
    scene.world.client.apply(policy("rules", scene.namespace, autoApprove=["metadata-only"]))
    scene.declare("orders", "id long", "note string", catalogRef={"name": "lake"})


def _created(scene: Scene) -> None:
    assert columns(scene, "orders") == [("id", "long", False), ("note", "string", False)]


CREATE = Story(
    kind="create",
    before=_nothing,
    change=_create,
    is_over=_in_sync,
    holds=_created,
    writes=(
        "patch lakecatalogs/status conditions+observedGeneration",
        "patch lakepolicies/status conditions+observedGeneration",
        "create laketableplans",
        "create events PlanMade",
        "catalog: POST /v1/namespaces",
        "catalog: TABLE: create",
        "patch laketableplans/status Applied",
        "patch laketables/status InSync",
        "create events Applied",
    ),
)


def _one_table(scene: Scene, **spec: Object) -> None:
    scene.add_catalog()
    scene.declare("orders", "id int", "note string", **spec)
    scene.wait("orders")


def _alter(scene: Scene, **spec: Object) -> None:
    scene.declare("orders", "id long", "note string", "more string", properties={"owner.team": "web"}, **spec)


def _altered(scene: Scene) -> None:
    assert columns(scene, "orders") == [("id", "long", False), ("note", "string", False), ("more", "string", False)]


ALTER = Story(
    kind="alter",
    before=_one_table,
    change=_alter,
    is_over=_in_sync,
    holds=_altered,
    writes=(
        "create laketableplans",
        "create events PlanMade",
        "catalog: TABLE: schema + properties",
        "patch laketableplans/status Applied",
        "delete laketableplans",
        "patch laketables/status conditions+lastApplied+observedGeneration+syncedSpec+table",
        "create events Applied",
    ),
)


OFTEN: Object = {"interval": "5s"}
ALTER_BY_TIMER = replace(
    ALTER,
    kind="alter, with a short interval",
    before=lambda scene: _one_table(scene, reconcile=OFTEN),
    change=lambda scene: _alter(scene, reconcile=OFTEN),
    by_timer=True,
)


def _awaits_approval(scene: Scene) -> None:
    _one_table(scene)
    scene.declare("orders", "id int")
    scene.wait("orders", "AwaitingApproval")


def _approve(scene: Scene) -> None:
    scene.declare("orders", "id int", approval={"plan": scene.status("orders")["plan"]["hash"]})


def _dropped_column(scene: Scene) -> None:
    assert columns(scene, "orders") == [("id", "int", False)]


DROP_COLUMN = Story(
    kind="approved drop of a column",
    before=_awaits_approval,
    change=_approve,
    is_over=_in_sync,
    holds=_dropped_column,
    writes=(
        "catalog: TABLE: schema + properties",
        "patch laketableplans/status Applied",
        "delete laketableplans",
        "patch laketables/status InSync",
        "create events Applied",
    ),
)


# ---------------------------------------------------------------- deletion


def _to_delete(scene: Scene, policy: str, *, approved: bool = False) -> None:
    scene.add_catalog()
    scene.declare("other", "id long")
    scene.declare("orders", "id long", reconcile={"deletionPolicy": policy})
    scene.wait("other")
    uuid = scene.wait("orders")["table"]["uuid"]
    if approved:
        scene.declare("orders", "id long", reconcile={"deletionPolicy": policy}, approval={"drop": uuid})
        scene.wait("orders")


def _retained(scene: Scene) -> None:
    assert scene.tables() == ["orders", "other"]


def _dropped(scene: Scene) -> None:
    assert scene.tables() == ["other"]


def _delete(scene: Scene) -> None:
    scene.delete("orders")


def _gone(scene: Scene) -> None:
    scene.wait_gone("orders")
    # the garbage collector takes the plan objects
    eventually(
        lambda: all("orders" not in p["metadata"]["name"] for p in scene.world.client.list(PLANS, scene.namespace))
    )


DELETE_RETAIN = Story(
    kind="delete, Retain",
    before=lambda scene: _to_delete(scene, "Retain"),
    change=_delete,
    is_over=_gone,
    holds=_retained,
    writes=(),
    watched="other",
)
DELETE_UNAPPROVED = Story(
    kind="delete, Drop that nobody approved",
    before=lambda scene: _to_delete(scene, "Drop"),
    change=_delete,
    is_over=_gone,
    holds=_retained,
    writes=("create events TableRetained", "patch laketables finalizers none"),
    watched="other",
)
DELETE_DROP = Story(
    kind="delete, Drop",
    before=lambda scene: _to_delete(scene, "Drop", approved=True),
    change=_delete,
    is_over=_gone,
    holds=_dropped,
    writes=(
        "catalog: DELETE /NS/tables/TABLE",
        "create events TableDropped",
        "patch laketables finalizers none",
    ),
    watched="other",
)


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
    scene.append("orders", [(100, 1), (101, 50)], "id", "x")
    scene.touch("orders")  # as its interval would: whoever reads it is looked at then


def _refreshed(scene: Scene) -> None:
    values = [x for _, x in [*ROWS, (100, 1), (101, 50)]]
    assert scene.rows("totals", "x", "n") == sorted(((x, values.count(x)) for x in set(values)), key=repr)


def _fresh(scene: Scene) -> None:
    def is_refreshed() -> bool:
        _refreshed(scene)
        return True

    eventually(is_refreshed)
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
    _retained(scene)
    assert leftovers(scene.metadata("orders")) == []
    assert scene.world.client.list(JOBS, scene.namespace) == []
    assert scene.rows("orders", "id", "x") == sorted(ROWS, key=repr)


DELETE_RETAIN_RUNNING = Story(
    kind="delete, Retain, while a job runs",
    before=lambda scene: _with_job(scene, "Retain"),
    change=_delete,
    is_over=_gone,
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
    change=_delete,
    is_over=_gone,
    holds=_dropped,
    writes=("delete jobs", *DELETE_DROP.writes),
    watched="other",
    is_held=True,
)

METADATA = (CREATE, ALTER, DROP_COLUMN, DELETE_RETAIN, DELETE_UNAPPROVED, DELETE_DROP)
HELD = (DELETE_RETAIN_RUNNING, DELETE_DROP_RUNNING)
DATA = (BACKFILL, REFRESH)
STORIES = (*METADATA, *HELD, *DATA)


@contextlib.contextmanager
def held(scene: Scene, story: Story) -> Iterator[None]:
    """Let no pod start while a story says so."""
    scene.world.kubelet.hold = story.is_held
    try:
        yield
    finally:
        scene.world.kubelet.hold = False
