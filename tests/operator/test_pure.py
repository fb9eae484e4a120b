"""The operator's pure parts: who may, what a LakeCatalog may say, the gate, conditions, patches, policies, reasons."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from reconciler import errors
from reconciler.errors import InvalidInput, LakeError
from reconciler.model.documents import check_resource
from reconciler.model.manifest import LakeCatalog
from reconciler.model.manifest.catalog import Runtime
from reconciler.model.manifest.table import Reconcile
from reconciler.model.table import TableIdent
from reconciler.operator.command import run_command
from reconciler.operator.conditions import merge_patch, print_conditions, standing_conditions
from reconciler.operator.gate import gate
from reconciler.operator.objects import Json, Key
from reconciler.operator.plan_objects import plan_name
from reconciler.operator.policies import policies_for
from reconciler.operator.reasons import STANDINGS, Reason, reason_of
from reconciler.operator.run import forget_environment
from reconciler.operator.status import Found, Running, short_size, table_status
from reconciler.operator.store import Store, plan_entry
from reconciler.operator.tenancy import AccessDenied, catalog_properties, require_access, require_connect
from reconciler.plan.events import Progress
from reconciler.plan.operations import Finding, Operation, OperationClass, OperationKind, Plan, Severity
from reconciler.plan.policy import Decision, Outcome
from tests.goldens import Golden

ROOT = Path(__file__).parents[2]
ORDERS = TableIdent(("sales",), "orders")


def lake(**spec: Any) -> LakeCatalog:
    metadata = {"name": "lake", "namespace": "platform"}
    data: Any = {"apiVersion": "laketable.dev/v1alpha1", "kind": "LakeCatalog", "metadata": metadata, "spec": spec}
    manifest, faults = check_resource(data)
    assert isinstance(manifest, LakeCatalog), faults
    return manifest


# ---------------------------------------------------------------- tenancy


def grant(namespace: str, pattern: str, *verbs: str) -> dict[str, Any]:
    return {"namespaces": [namespace], "catalogNamespaces": [pattern], "verbs": list(verbs)}


@pytest.mark.parametrize(
    ("access", "namespace", "verb", "may"),
    [
        pytest.param(None, "platform", "drop", True, id="own namespace by default"),
        pytest.param(None, "sales", "read", False, id="nobody else by default"),
        pytest.param([grant("sales", "sales", "apply")], "sales", "apply", True, id="granted"),
        pytest.param([grant("sales", "sales", "apply")], "sales", "plan", True, id="a verb includes the former"),
        pytest.param([grant("sales", "sales", "apply")], "sales", "drop", False, id="but not the next"),
        pytest.param([grant("sales", "sales", "apply")], "hr", "read", False, id="to another"),
        pytest.param([grant("sales", "finance", "drop")], "sales", "read", False, id="for another catalog namespace"),
        pytest.param([grant("*", "sal*", "read")], "hr", "read", True, id="patterns"),
        pytest.param([grant("sales", "sales", "read")], "platform", "read", False, id="grants replace the default"),
        pytest.param(
            [grant("sales", "sales", "read"), grant("sales", "*", "apply")], "sales", "apply", True, id="the highest"
        ),
    ],
)
def test_access_is_what_was_granted(access: list[dict[str, Any]] | None, namespace: str, verb: str, may: bool) -> None:
    catalog = lake(properties={"type": "rest"}, **({"access": access} if access else {}))
    if may:
        require_access(catalog, namespace, ORDERS, verb)
    else:
        with pytest.raises(AccessDenied):
            require_access(catalog, namespace, ORDERS, verb)


REST = {"type": "rest", "uri": "https://catalog.example/api"}


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({"type": "sql", "uri": "sqlite:////data/catalog.db"}, id="sqlite"),
        pytest.param({"type": "sql", "uri": "postgresql://db/x"}, id="sql"),
        pytest.param({**REST, "warehouse": "file:///etc"}, id="local files"),
        pytest.param({**REST, "warehouse": "/etc"}, id="a path"),
        pytest.param({**REST, "uri": "http://127.0.0.1:8181"}, id="loopback"),
        pytest.param({**REST, "uri": "http://localhost:8181"}, id="localhost"),
        pytest.param({**REST, "uri": "http://localhost.:8181"}, id="localhost with a dot"),
        pytest.param({**REST, "uri": "http://[::1]:8181"}, id="loopback of IPv6"),
        pytest.param({**REST, "uri": "http://[::ffff:127.0.0.1]"}, id="mapped loopback"),
        pytest.param({**REST, "uri": "http://2130706433/"}, id="loopback as a number"),
        pytest.param({**REST, "uri": "http://0x7f.1/"}, id="loopback in hex"),
        pytest.param({**REST, "uri": "http://169.254.169.254/latest"}, id="link-local metadata"),
        pytest.param({**REST, "uri": "http://metadata.google.internal/"}, id="metadata by name"),
        pytest.param({**REST, "s3.endpoint": "http://169.254.169.254"}, id="metadata as an endpoint"),
        pytest.param({**REST, "oauth2-server-uri": "http://127.0.0.1/token"}, id="loopback for tokens"),
        pytest.param({**REST, "py-io-impl": "os.system"}, id="code"),
        pytest.param({**REST, "header.Authorization": "x"}, id="any header"),
        pytest.param({**REST, "rest.auth.custom.impl": "evil"}, id="auth code"),
        pytest.param({**REST, "client.role-arn": "arn:aws:iam::1:role/other"}, id="another role by our identity"),
        pytest.param({**REST, "ssl.cabundle": "/etc/passwd"}, id="a file of ours"),
    ],
)
def test_what_a_catalog_may_not_say(properties: dict[str, str]) -> None:
    with pytest.raises(LakeError):
        catalog_properties(lake(properties={"type": "rest"}).model_copy(update={"spec": _spec(properties)}), {})


def _spec(properties: dict[str, str]) -> Any:
    return lake(properties={"type": "rest"}).spec.model_copy(update={"properties": properties})


def test_control_an_honest_catalog_is_accepted_and_its_secret_merged() -> None:
    found = catalog_properties(lake(properties={**REST, "warehouse": "s3://lake/w"}), {"credential": "id:secret"})
    assert found == {**REST, "warehouse": "s3://lake/w", "credential": "id:secret"}


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("sc://127.0.0.1:15002", id="loopback"),
        pytest.param("sc://localhost", id="localhost"),
        pytest.param("sc://169.254.169.254:80", id="link-local metadata"),
        pytest.param("sc://[::1]:15002", id="loopback of IPv6"),
        pytest.param("sc://2130706433:15002", id="loopback as a number"),
        pytest.param("sc://spark:15002/;token=hunter2", id="a token"),
        pytest.param("sc://spark:15002/;x-header=hunter2", id="any header"),
        pytest.param("sc://spark:15002;use_ssl=true", id="parameters in the host"),
        pytest.param("sc://me:hunter2@spark:15002", id="a password"),
        pytest.param("sc://spark:15002/;session_id=hunter2", id="another's session"),
        pytest.param("sc:///", id="nothing"),
    ],
)
def test_where_a_spark_connect_server_may_not_be(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        require_connect(Runtime(type="connect", url=url), "sales/lake", allow_local=False)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["sc://spark.example:15002", "sc://spark", "sc://spark:15002/;use_ssl=true;user_id=lake"]
)
def test_control_a_spark_connect_server_elsewhere_is_accepted(url: str) -> None:
    require_connect(Runtime(type="connect", url=url), "sales/lake", allow_local=False)


@pytest.mark.parametrize("key", ["token", "credential", "s3.secret-access-key"])
def test_a_secret_in_the_spec_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(LakeError) as refused:
        catalog_properties(lake(properties={"type": "rest"}).model_copy(update={"spec": _spec({key: "hunter2"})}), {})
    assert "hunter2" not in str(refused.value)


def test_a_secret_may_not_say_what_the_spec_may_not() -> None:
    with pytest.raises(InvalidInput, match="py-io-impl"):
        catalog_properties(lake(properties=REST), {"py-io-impl": "os.system"})
    with pytest.raises(InvalidInput, match="uri"):
        catalog_properties(lake(properties={"type": "rest"}), {"uri": "http://169.254.169.254"})


@pytest.mark.parametrize("keep_cloud", [False, True])
def test_a_catalog_meets_neither_our_configuration_nor_our_identity(keep_cloud: bool) -> None:
    ambient = {"AWS_ACCESS_KEY_ID": "k", "AWS_WEB_IDENTITY_TOKEN_FILE": "f", "AZURE_CLIENT_SECRET": "s"}
    environ = {"PATH": "/bin", "PYICEBERG_CATALOG__LAKE__CREDENTIAL": "c", "pyiceberg_home": "/root", **ambient}
    forget_environment(environ, keep_cloud=keep_cloud)
    assert "PATH" in environ
    assert "PYICEBERG_CATALOG__LAKE__CREDENTIAL" not in environ
    assert environ["PYICEBERG_HOME"] == "/dev/null"
    assert (ambient.keys() <= environ.keys()) is keep_cloud
    assert ("AWS_EC2_METADATA_DISABLED" in environ) is not keep_cloud


# ---------------------------------------------------------------- reasons


def test_every_reason_has_a_standing_and_never_two_states_at_once() -> None:
    assert set(STANDINGS) == set(Reason)
    for reason, standing in STANDINGS.items():
        assert standing.is_ready + standing.is_reconciling + standing.is_stalled <= 1, reason
        assert standing.doc.endswith(".")


def _error_reasons() -> set[str]:
    """Read `reason = "…"` of every class of the package, adapters included, from its source."""
    found = set()
    for path in (ROOT / "reconciler").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "reason":
                        assert isinstance(part.value, ast.Constant)
                        found.add(str(part.value.value))
    return found


def test_every_error_has_its_reason_in_the_list() -> None:
    found = _error_reasons()
    assert {"CatalogUnavailable", "AccessDenied", "PublishConflict"} <= found
    # inside the splicing engine; and when nothing may be written: never told
    assert found - {reason.value for reason in Reason} <= {"BadFooter", "NotLeading"}
    assert reason_of("NobodyListedThis") is Reason.INTERNAL
    assert reason_of(errors.Throttled.reason) is Reason.THROTTLED


# ---------------------------------------------------------------- conditions and patches


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = print_conditions(standing_conditions(Reason.IN_SYNC, ""), None, 1, "t1")
    again = print_conditions(standing_conditions(Reason.IN_SYNC, ""), first, 1, "t2")
    assert again == first
    waits = print_conditions(standing_conditions(Reason.APPROVAL_REQUIRED, "why"), first, 2, "t3")
    times = {c["type"]: c["lastTransitionTime"] for c in waits if isinstance(c, dict)}
    assert times == {"Ready": "t3", "Reconciling": "t1", "Stalled": "t1"}


def test_a_message_is_bounded_and_on_one_line() -> None:
    (ready, *_) = print_conditions(standing_conditions(Reason.DENIED, "a\n\x1b[31m" + "é" * 5000), None, 1, "t")
    assert isinstance(ready, dict)
    message = str(ready["message"])
    assert len(message) <= 1024
    assert message.isprintable()


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1, "b": 2}, {"a": 1}, {"b": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
    ],
)
def test_the_patch_is_the_smallest(before: Any, after: Any, patch: Any) -> None:
    assert merge_patch(before, after) == patch


def test_sizes_are_printed_as_kubernetes_does() -> None:
    assert [short_size(n) for n in (0, 12, 2048, 412 * 2**30, 1536 * 2**40)] == ["-", "12", "2Ki", "412Gi", "1.5Pi"]


# ---------------------------------------------------------------- the gate


def plan_of(operation_class: OperationClass = OperationClass.METADATA_ONLY, *, blocked: bool = False) -> Plan:
    operation = Operation(id="1", kind=OperationKind.COMMIT, summary="s", operation_class=operation_class)
    findings = (Finding(code="LK101", severity=Severity.ERROR, message="no"),) if blocked else ()
    return Plan(
        table=ORDERS,
        owner="o",
        catalog="c",
        base=None,
        operations=(operation,),
        findings=findings,
        hash="sha256:" + "a" * 64,
    )


ALLOW, WAIT, DENY = (
    Decision(outcome=o, reasons=("why",)) for o in (Outcome.ALLOW, Outcome.NEEDS_APPROVAL, Outcome.DENY)
)
WINDOW = Decision(outcome=Outcome.DENY, reasons=("LakePolicy p has no open window now; the next one opens at 22:00.",))


@pytest.mark.parametrize(
    ("settings", "decision", "drifted", "approved", "reason"),
    [
        pytest.param({}, ALLOW, False, False, None, id="allowed"),
        pytest.param({}, WAIT, False, False, Reason.APPROVAL_REQUIRED, id="waits"),
        pytest.param({}, DENY, False, True, Reason.DENIED, id="a denial beats an approval"),
        pytest.param({}, WINDOW, False, False, Reason.OUTSIDE_WINDOW, id="only the window is closed"),
        pytest.param({"mode": "Plan"}, ALLOW, False, False, Reason.PLAN_ONLY, id="plan only"),
        pytest.param({"mode": "Plan"}, DENY, False, False, Reason.DENIED, id="plan only says what is denied"),
        pytest.param({"mode": "Observe"}, DENY, False, False, Reason.OBSERVE_ONLY, id="observe only"),
        pytest.param({}, ALLOW, True, False, Reason.DRIFTED, id="drift is reported"),
        pytest.param({}, ALLOW, True, True, None, id="approved drift is brought back"),
        pytest.param({"onDrift": "Revert"}, ALLOW, True, False, None, id="drift is reverted"),
        pytest.param({"onDrift": "Revert"}, WAIT, True, False, Reason.APPROVAL_REQUIRED, id="if it may be"),
    ],
)
def test_the_gate(
    settings: dict[str, str], decision: Decision, drifted: bool, approved: bool, reason: Reason | None
) -> None:
    found = gate(Reconcile.model_validate(settings), plan_of(), decision, has_drifted=drifted, is_approved=approved)
    assert found.reason is reason


# ---------------------------------------------------------------- policies and plan names


def policy(name: str, namespace: str, **spec: Any) -> Any:
    return {
        "apiVersion": "laketable.dev/v1alpha1",
        "kind": "LakePolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def test_which_policies_hold() -> None:
    raws = [
        policy("everywhere", "system", autoApprove=["metadata-only"]),
        policy("gold", "system", namespaceSelector={"matchLabels": {"tier": "gold"}}),
        policy("own", "sales"),
        policy("others", "hr"),
    ]

    def names(namespace: str, **labels: str) -> list[str]:
        return [p.name for p in policies_for(raws, namespace, labels, "system")]

    assert names("sales") == ["everywhere", "own"]
    assert names("sales", tier="gold") == ["everywhere", "gold", "own"]
    assert names("else") == ["everywhere"]
    assert [p.name for p in policies_for([], "sales", {}, "system")] == ["default"]


def test_a_policy_that_cannot_be_read_allows_nothing() -> None:
    with pytest.raises(InvalidInput, match="broken"):
        policies_for([policy("broken", "system", deny={})], "sales", {}, "system")


def test_a_tenants_broken_policy_stops_nobody_else() -> None:
    raws = [policy("broken", "hr", deny={}), policy("own", "sales")]
    assert [p.name for p in policies_for(raws, "sales", {}, "system")] == ["own"]
    with pytest.raises(InvalidInput, match="broken"):
        policies_for(raws, "hr", {}, "system")


def test_plan_names_are_stable_and_short() -> None:
    name = plan_name("t" * 63, "sha256:" + "ab" * 32, 3)
    assert name == f"{'t' * 40}-ababababab-3"
    assert plan_name("orders", "sha256:" + "ab" * 32) == "orders-ababababab"


# ---------------------------------------------------------------- the store


def lake_table(name: str, created: str, **spec: Any) -> Any:
    metadata = {"name": name, "namespace": "sales", "uid": name, "generation": 1, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"identifier": "sales.orders", "catalogRef": {"name": "lake"}, **spec}}


def test_the_oldest_claim_wins_and_the_next_follows() -> None:
    store = Store()
    old, young = Key("LakeTable", "sales", "old"), Key("LakeTable", "sales", "young")
    store.put_table(lake_table("young", "2026-01-02T00:00:00Z"))
    assert store.rival(young) is None
    store.put_table(lake_table("old", "2026-01-01T00:00:00Z"))
    rival = store.rival(young)
    assert rival is not None
    assert rival.key == old
    assert store.rival(old) is None
    assert store.drop_table(old) == [young]
    assert store.rival(young) is None


def test_a_claim_moves_with_the_spec_and_our_own_status_is_no_news() -> None:
    store = Store()
    first = lake_table("a", "2026-01-01T00:00:00Z")
    assert store.put_table(first)
    assert not store.put_table({**first, "status": {"phase": "InSync"}})
    store.put_table(lake_table("b", "2026-01-02T00:00:00Z"))
    moved = lake_table("a", "2026-01-01T00:00:00Z", identifier="sales.other")
    moved["metadata"]["generation"] = 2
    assert store.put_table(moved)
    assert store.rival(Key("LakeTable", "sales", "b")) is None


def test_of_plans_made_in_one_second_the_one_for_the_newer_spec_is_the_newer() -> None:
    store = Store()
    for name, generation in (("orders-b", 1), ("orders-a", 2)):
        metadata: Json = {"name": name, "namespace": "sales", "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        store.put_plan(
            plan_entry({"metadata": metadata, "spec": {"tableRef": {"name": "orders", "generation": generation}}})
        )
    assert [plan.key.name for plan in store.plans_of(Key("LakeTable", "sales", "orders"))] == ["orders-b", "orders-a"]


def reasons_page() -> str:
    """Print the runbook's table of reasons."""
    lines = [
        "# Reasons of the conditions",
        "",
        "Generated from `reconciler/operator/reasons.py`. `Ready`, `Reconciling` and `Stalled` of every resource carry",
        "one of these, and none other. What to do about each: [runbook](runbook.md).",
        "",
        "| Reason | Phase | Ready | Reconciling | Stalled | Meaning |",
        "|---|---|---|---|---|---|",
    ]
    for reason, standing in STANDINGS.items():
        states = (standing.is_ready, standing.is_reconciling, standing.is_stalled)
        anchor = f"[`{reason}`](runbook.md#{reason.lower()})"
        lines.append(f"| {anchor} | {standing.phase} | {' | '.join(map(str, states))} | {standing.doc} |")
    return "\n".join(lines) + "\n"


def test_the_page_of_reasons_is_current(golden: Golden) -> None:
    golden.check_file(ROOT / "docs" / "operator-reasons.md", reasons_page())


def test_the_runbook_says_of_every_reason_what_to_do() -> None:
    page = (ROOT / "docs" / "runbook.md").read_text()
    sections = re.findall(r"^## (\w+)\n(.+?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in sections] == [reason.value for reason in STANDINGS]
    for name, text in sections:
        assert len(text.split()) >= 3 or text.strip() == "Nothing to do.", name
    named = set(re.findall(r"--[a-z-]+", re.sub(r"`kubectl [^`]*`", "", page)))  # kubectl's own options are its own
    assert named <= {option for found in run_command.params for option in found.opts}


def test_a_late_event_does_not_undo_what_is_known() -> None:
    store = Store()
    old, new = lake_table("a", "2026-01-01T00:00:00Z"), lake_table("a", "2026-01-01T00:00:00Z", identifier="sales.new")
    old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"] = "9", "10"
    new["metadata"]["generation"] = 2
    assert store.put_table(new)
    assert not store.put_table(old)
    assert store.tables[Key("LakeTable", "sales", "a")].identifier == "sales.new"
    # A resource made anew is another one, whatever its version.
    again = lake_table("a", "2026-01-02T00:00:00Z")
    again["metadata"] |= {"uid": "b", "resourceVersion": "3"}
    assert store.put_table(again)


# ---------------------------------------------------------------- the status


def test_a_running_operation_says_how_far_it_is() -> None:
    progress = Progress(
        table=ORDERS,
        operation="op",
        step="write",
        chunks=3,
        all_chunks=12,
        bytes=3 << 30,
        all_bytes=12 << 30,
        percent=25,
        eta_seconds=100,
    )
    found = Found(
        reason=Reason.JOB_RUNNING, running=Running(operation="op", job="sales/lt-orders-op", progress=progress)
    )
    raw: Any = {"metadata": {"name": "orders", "generation": 4}, "status": {"table": {"uuid": "u"}, "drift": 0}}
    status = table_status(found, raw, 1_800_000_030_000)
    assert status["operation"] == {
        "id": "op",
        "jobRef": "sales/lt-orders-op",
        "step": "write",
        "percent": 25,
        "progress": "25%",
        "chunks": "3/12",
        "bytes": "3Gi/12Gi",
        "eta": "2027-01-15T08:02:00Z",
    }
    assert status["observedGeneration"] == 4
    assert status["phase"] == "Applying"
    # What this reconcile did not look at stays as it was.
    assert status["table"] == {"uuid": "u"}
    again = table_status(found, {**raw, "status": status}, 1_800_000_031_000)
    assert merge_patch(status, again) == {}
