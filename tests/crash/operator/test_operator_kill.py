"""`kill -9` of the operator at chosen writes, in every run; `make test-crash` does it at all."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from pyiceberg.catalog import load_catalog

from reconciler.operator.objects import CONFIG_MAPS, JOBS, PLANS, SECRETS, TABLES
from tests.crash.operator.job_stories import BACKFILL, DELETE_RETAIN_RUNNING, ROWS, TOTAL, view_over_rows
from tests.crash.operator.journal import Place
from tests.crash.operator.runs import RESYNCS, Told
from tests.crash.operator.scene import JOB, Scene, World, eventually, same
from tests.crash.operator.secrets import holds, written
from tests.crash.operator.stories import ALTER, CREATE, DELETE_DROP, DROP_COLUMN, Story, held
from tests.crash.recorder import When
from tests.kube.client import Object

AFTER, BEFORE = When.AFTER, When.BEFORE


@pytest.fixture(scope="session")
def tell(stage: World) -> Callable[[Story], Told]:
    """Tell each story once without a crash."""
    return cache(lambda story: Told(stage, story).record())


# Where the next operator finds most to wonder about: a plan nobody carried out, a table whose maker never heard of it,
# one whose status is of yesterday, an approval half used, a table dropped and its resource kept, a Job nobody wants.
@pytest.mark.parametrize(
    ("story", "place"),
    [
        (CREATE, Place("catalog: TABLE: create", 1, AFTER)),
        (ALTER, Place("create laketableplans", 1, AFTER)),
        (ALTER, Place("catalog: TABLE: schema + properties", 1, AFTER)),
        (DROP_COLUMN, Place("patch laketableplans/status Applied", 1, BEFORE)),
        (DELETE_DROP, Place("catalog: DELETE /NS/tables/TABLE", 1, AFTER)),
        (DELETE_RETAIN_RUNNING, Place("delete jobs", 1, BEFORE)),
        (BACKFILL, Place("create jobs", 1, AFTER)),
    ],
    ids=lambda value: value.kind if isinstance(value, Story) else str(value),
)
def test_killed_it_converges(tell: Callable[[Story], Told], story: Story, place: Place) -> None:
    tell(story).kill_at(place)


def test_a_job_whose_table_went_while_no_operator_ran_is_stopped_and_no_other(stage: World) -> None:
    gone, kept = stage.scene(), stage.scene()
    with held(stage, DELETE_RETAIN_RUNNING):
        for scene in (gone, kept):
            scene.begin("orders")
            DELETE_RETAIN_RUNNING.before(scene)
        stage.operator.stop()
        without = {"metadata": {"finalizers": None}}
        stage.client.merge(TABLES, gone.namespace, "orders", without)
        gone.delete("orders")
        stage.operator.restart()
        eventually(lambda: not stage.client.list(JOBS, gone.namespace))
        kept.resync("orders", 2)
        assert len(stage.client.list(JOBS, kept.namespace)) == 1
    for scene in (gone, kept):
        scene.end()


def test_a_view_is_filled_by_one_job_however_often_its_source_moves_on(stage: World) -> None:
    scene = stage.scene()
    scene.begin("totals")
    with held(stage, DELETE_RETAIN_RUNNING):
        view_over_rows(scene)
        (job,) = eventually(lambda: scene.world.client.list(JOBS, scene.namespace))
        for number in range(3):
            scene.append("orders", [(number, number)], "id", "x")
            scene.resync("totals", 2)
        (kept,) = scene.world.client.list(JOBS, scene.namespace)
        assert kept["metadata"]["uid"] == job["metadata"]["uid"]
        assert len(scene.plans("totals")) == 1, "what was released once is asked for again"
        scene.begin_between_looks("totals")
        scene.resync("totals", RESYNCS)
        reads = stage.journal.reads("catalog table totals")
        assert reads <= 2 * scene.looks("totals"), "one read for the plan, one for how far the job is"
    scene.end()


# ---------------------------------------------------------------- these fail when they should


def _apply_twice(scene: Scene) -> None:
    with scene.there.load_table((scene.namespace, "orders")).transaction() as transaction:
        transaction.set_properties({"owner.team": "web"})


def _leave(kind: str, body: Object) -> Callable[[Scene], None]:
    resource = {r.kind: r for r in (CONFIG_MAPS, JOBS, PLANS, SECRETS)}[kind]

    def leave(scene: Scene) -> None:
        document = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": "left-behind"}, **body}
        scene.world.client.request("POST", resource.path(scene.namespace), document)

    return leave


def _leave_a_finalizer(scene: Scene) -> None:
    patch = {"metadata": {"finalizers": ["laketable.dev/table"]}}
    scene.world.client.merge(TABLES, scene.namespace, "orders", patch)


def _leave_a_branch(scene: Scene) -> None:
    table = scene.there.load_table((scene.namespace, "orders"))
    table.append(table.scan().to_arrow())
    scene.add_branch("orders", "lt_0000000000000001")


def _leave_a_plan(scene: Scene) -> None:
    (plan,) = scene.world.client.list(PLANS, scene.namespace)
    _leave("LakeTablePlan", {"spec": plan["spec"]})(scene)


_POD = {"containers": [{"name": "x", "image": "none"}], "restartPolicy": "Never"}


PLANTS: tuple[tuple[Callable[[Scene], None], str], ...] = (
    (_apply_twice, "commits"),
    (_leave("Job", {"spec": {"template": {"spec": _POD}}}), "left-behind"),
    (_leave("ConfigMap", {"data": {}}), "left-behind"),
    (_leave("Secret", {"data": {}}), "left-behind"),
    (_leave_a_plan, "left-behind"),
    (_leave_a_finalizer, "laketable.dev/table"),
    (_leave_a_branch, "lt_"),
)


def test_what_is_left_or_done_twice_is_seen_and_so_is_a_write_in_the_silence(tell: Callable[[Story], Told]) -> None:
    told = tell(ALTER)
    scene = told.begin()
    told.story.change(scene)
    told.story.is_over(scene)
    scene.wait_quiet()
    assert same(told.picture, scene.picture())
    told.was_once()
    with pytest.raises(AssertionError, match=r"more often.*schema \+ properties"):
        replace(told, writes=[write for write in told.writes if "schema" not in write]).was_once()
    told.is_silent(scene)
    status = {"status": {"phase": "Drifted"}}
    path = f"{TABLES.path(scene.namespace, 'orders')}/status"
    scene.world.client.request("PATCH", path, status, "application/merge-patch+json")
    with pytest.raises(AssertionError, match=r"looking again wrote something.*InSync"):
        told.is_silent(scene)
    scene.begin_between_looks("orders")
    scene.resync("orders", RESYNCS + 1)
    beside = load_catalog("beside", type="rest", uri=scene.world.lake.uri)
    for _ in range(RESYNCS):
        beside.load_table((scene.namespace, "orders"))
    with pytest.raises(AssertionError, match=r"looks read the table"):
        told.was_silent(scene)
    scene.begin("orders")
    for plant, seen in PLANTS:
        before = scene.picture()
        plant(scene)
        with pytest.raises(AssertionError, match=seen):
            same(before, scene.picture())
    scene.end()


def test_a_write_that_is_not_listed_fails(stage: World) -> None:
    with pytest.raises(AssertionError, match=r"not listed.*create events Applied"):
        Told(stage, replace(CREATE, writes=CREATE.writes[:-1])).record()


def test_a_place_that_is_never_reached_fails(tell: Callable[[Story], Told]) -> None:
    told = replace(tell(ALTER), patience=2.0)
    with pytest.raises(AssertionError, match="create jobs: never reached"):
        told.kill_at(Place("create jobs", 1, BEFORE))


# ---------------------------------------------------------------- nothing secret in anything that was written

CANARY = "canary-7be02d5e"


def test_a_catalogs_secret_lies_in_nothing_that_the_operator_wrote(stage: World) -> None:
    scene = stage.scene()
    scene.begin("orders")
    stage.kube.forget()
    stage.lake.forget()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": scene.namespace}}
    stage.client.apply({**secret, "stringData": {"token": CANARY}})
    with held(stage, DELETE_RETAIN_RUNNING):  # no pod starts: what it is told is enough
        scene.add_catalog(secretRef={"name": "login"}, runtime=JOB)
        scene.declare("orders", "id long", "x long")
        scene.wait("orders")
        scene.append("orders", ROWS, "id", "x")
        scene.declare("orders", "id long", "x long", TOTAL)
        job = eventually(lambda: scene.status("orders").get("operation", {}).get("jobRef")).partition("/")[2]
        eventually(lambda: scene.world.client.get(CONFIG_MAPS, scene.namespace, job))
        scene.wait_quiet()
        kept = [*written(stage.kube.requests), *written(stage.lake.requests)]
    # It was used: the catalog was asked with it.
    assert any(CANARY in value for request in stage.lake.requests for value in request.headers.values())
    # And all kinds of things were written, among them those that hold others.
    for word in ("laketableplans", "/jobs", "/events", "/configmaps", "/status", "/tables/orders"):
        assert any(word.encode() in text for text in kept), word
    assert any(holds("x * 2 + id", text) and b"/configmaps" in text for text in kept)
    assert not [text[:200] for text in kept if holds(CANARY, text)]
    assert CANARY not in stage.operator.log
    scene.end()


def test_a_secret_is_found_however_it_is_packed() -> None:
    packed = base64.b64encode(gzip.compress(f"a plan with {CANARY} in it, somewhere".encode()))
    assert holds(CANARY, b'{"data": "' + packed + b'"}')
    assert holds(CANARY, b'{"data": "' + base64.b64encode(packed) + b'"}')
    assert holds(CANARY, CANARY.encode())
    assert not holds(CANARY, base64.b64encode(b"a plan with nothing in it, nowhere at all"))
