"""What an operator is killed in: small stories, with every write that it makes in each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from reconciler.operator.objects import PLANS
from tests.crash.operator.scene import Scene, Step, World, eventually
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


def retained(scene: Scene) -> None:
    """Require that both tables are still there."""
    assert scene.tables() == ["orders", "other"]


def dropped(scene: Scene) -> None:
    """Require that the other table alone is there."""
    assert scene.tables() == ["other"]


def delete_orders(scene: Scene) -> None:
    """Ask for the end of the LakeTable."""
    scene.delete("orders")


def gone(scene: Scene) -> None:
    """Wait until the LakeTable is gone, and its plans with it."""
    scene.wait_gone("orders")
    # the garbage collector takes the plan objects
    eventually(
        lambda: all("orders" not in p["metadata"]["name"] for p in scene.world.client.list(PLANS, scene.namespace))
    )


DELETE_RETAIN = Story(
    kind="delete, Retain",
    before=lambda scene: _to_delete(scene, "Retain"),
    change=delete_orders,
    is_over=gone,
    holds=retained,
    writes=(),
    watched="other",
)
DELETE_UNAPPROVED = Story(
    kind="delete, Drop that nobody approved",
    before=lambda scene: _to_delete(scene, "Drop"),
    change=delete_orders,
    is_over=gone,
    holds=retained,
    writes=("create events TableRetained", "patch laketables finalizers none"),
    watched="other",
)
DELETE_DROP = Story(
    kind="delete, Drop",
    before=lambda scene: _to_delete(scene, "Drop", approved=True),
    change=delete_orders,
    is_over=gone,
    holds=dropped,
    writes=(
        "catalog: DELETE /NS/tables/TABLE",
        "create events TableDropped",
        "patch laketables finalizers none",
    ),
    watched="other",
)

METADATA = (CREATE, ALTER, DROP_COLUMN, DELETE_RETAIN, DELETE_UNAPPROVED, DELETE_DROP)


@contextlib.contextmanager
def held(world: World, story: Story) -> Iterator[None]:
    """Let no pod start while a story says so."""
    world.kubelet.hold = story.is_held
    try:
        yield
    finally:
        world.kubelet.hold = False
