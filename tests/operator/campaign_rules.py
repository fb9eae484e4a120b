"""The fields of LakePolicies and LakeCatalogs: two values, what each makes of a table's plan, and a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.kube.campaign import Spec


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Two values of a field; `shows` are words in the table's state under each: its phase, reason and message.

    `said` is in the refusal of `wrong`: the API server's, or with `in_status` the resource's own.
    """

    a: Spec
    b: Spec
    shows: tuple[str, str]
    wrong: Spec
    said: str
    in_status: bool = False


WAITS = "AwaitingApproval"
DENIED = "Denied"


def rule(key: str, **stated: Any) -> Spec:
    return {key: {"reason": "Because.", **stated}}


def rules(key: str, shows: str) -> dict[str, Rule]:
    """Return the entries of a rule: what it is about is found in the plan under `a`, and not under `b`."""
    return {
        f"{key}.classes[]": Rule(
            a=rule(key, classes=["destructive"]),
            b=rule(key, classes=["audit"]),
            shows=(f"{shows} destructive", f"{shows} audit"),
            wrong=rule(key, classes=["cheap"]),
            said="Unsupported value",
        ),
        f"{key}.findings[]": Rule(
            a=rule(key, findings=["LK101"]),
            b=rule(key, findings=["LK102"]),
            shows=(shows, WAITS),
            wrong=rule(key, findings=["101"]),
            said="should match",
        ),
        f"{key}.changes[]": Rule(
            a=rule(key, changes=["drop-column"]),
            b=rule(key, changes=["drop-table"]),
            shows=(shows, WAITS),
            wrong=rule(key, changes=["paint"]),
            said="Unsupported value",
        ),
        f"{key}.breaking": Rule(
            a=rule(key, breaking=True, changes=["drop-table"]),
            b=rule(key, breaking=False, changes=["drop-table"]),
            shows=(shows, WAITS),
            wrong=rule(key, breaking="yes"),
            said="expected boolean",
        ),
        f"{key}.reason": Rule(
            a=rule(key, breaking=True, reason="So."),
            b=rule(key, breaking=True, reason="Because of that."),
            shows=("So.", "Because of that."),
            wrong=rule(key, breaking=True, reason=""),
            said="at least 1",
        ),
    }


def budget(**stated: Any) -> Spec:
    return {"budgets": stated}


def hour(offset: int) -> str:
    """Print the time of day some hours from now."""
    return (datetime.now(UTC) + timedelta(hours=offset)).strftime("%H:%M")


def window(start: int = -2, end: int = 2, **stated: Any) -> Spec:
    """A window from and to so many hours from now."""
    return {"windows": [{"start": hour(start), "end": hour(end)} | stated]}


def whole_day(zone: str) -> Spec:
    halves = (("00:00", "12:00"), ("12:00", "00:00"))
    return {"windows": [{"start": start, "end": end, "timeZone": zone} for start, end in halves]}


def selector(**stated: Any) -> Spec:
    return {"namespaceSelector": stated}


def expression(**stated: Any) -> Spec:
    return selector(matchExpressions=[{"key": "team", "operator": "In", "values": ["a"]} | stated])


EVERY_DAY = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]


def in_days(offset: int) -> str:
    return (datetime.now(UTC) + timedelta(days=offset)).strftime("%a")


POLICY_RULES: dict[str, Rule] = {
    **rules("deny", "denies"),
    **rules("requireApproval", "wants approval for"),
    "autoApprove[]": Rule(
        a={"autoApprove": ["metadata-only"]},
        b={"autoApprove": ["metadata-only", "rewrite"]},
        shows=(WAITS, WAITS),
        wrong={"autoApprove": ["destructive"]},
        said="never approved blindly",
        in_status=True,
    ),
    "budgets.maxRewriteBytes": Rule(
        a=budget(maxRewriteBytes="1"),
        b=budget(maxRewriteBytes="1Gi"),
        shows=("allows", WAITS),
        wrong=budget(maxRewriteBytes="much"),
        said="should match",
    ),
    "budgets.maxRewriteBytesPerDay": Rule(
        a=budget(maxRewriteBytesPerDay="1"),
        b=budget(maxRewriteBytesPerDay="1Gi"),
        shows=("in 24 hours", WAITS),
        wrong=budget(maxRewriteBytesPerDay="much"),
        said="should match",
    ),
    "budgets.maxRewriteFiles": Rule(
        a=budget(maxRewriteFiles=0),
        b=budget(maxRewriteFiles=100),
        shows=("allows", WAITS),
        wrong=budget(maxRewriteFiles=-1),
        said="greater than or equal to 0",
    ),
    "budgets.maxCostDriftPercent": Rule(
        a=budget(maxCostDriftPercent=10),
        b=budget(maxCostDriftPercent=20),
        shows=(WAITS, WAITS),
        wrong=budget(maxCostDriftPercent=-1),
        said="greater than or equal to 0",
    ),
    "windows[].days[]": Rule(
        a={"windows": [{"start": "00:00", "end": "23:59", "days": [in_days(3)]}]},
        b=window(days=EVERY_DAY),
        shows=("no open window", WAITS),
        wrong=window(days=["Someday"]),
        said="Unsupported value",
    ),
    "windows[].start": Rule(
        a=window(start=2, end=3),
        b=window(start=-2, end=3),
        shows=("no open window", WAITS),
        wrong={"windows": [{"start": "25:00", "end": "23:00"}]},
        said="should match",
    ),
    "windows[].end": Rule(
        a=window(start=-3, end=-2),
        b=window(start=-3, end=2),
        shows=("no open window", WAITS),
        wrong={"windows": [{"start": "00:00", "end": "24:00"}]},
        said="should match",
    ),
    "windows[].timeZone": Rule(
        a=whole_day("Europe/Berlin"),
        b=whole_day("Asia/Tokyo"),
        shows=(WAITS, WAITS),
        wrong=whole_day("1"),
        said="should match",
    ),
    "severities{}": Rule(
        a={"severities": {"LK101": "error"}},
        b={"severities": {"LK101": "info"}},
        shows=("LK101", WAITS),
        wrong={"severities": {"LK101": "fatal"}},
        said="Unsupported value",
    ),
    "protectedNames[]": Rule(
        a={"protectedNames": ["*.t"]},
        b={"protectedNames": ["*.other"]},
        shows=("protects *.t", WAITS),
        wrong={"protectedNames": [""]},
        said="at least 1",
    ),
    "namespaceSelector.matchLabels{}": Rule(
        a=selector(matchLabels={"team": "a"}),
        b=selector(matchLabels={"team": "b"}),
        shows=(WAITS, WAITS),
        wrong=selector(matchLabels={"team": 1}),
        said="expected string",
    ),
    "namespaceSelector.matchExpressions[].key": Rule(
        a=expression(key="team"),
        b=expression(key="group"),
        shows=(WAITS, WAITS),
        wrong=expression(key=""),
        said="at least 1",
    ),
    "namespaceSelector.matchExpressions[].operator": Rule(
        a=expression(operator="In"),
        b=expression(operator="NotIn"),
        shows=(WAITS, WAITS),
        wrong=expression(operator="Like"),
        said="Unsupported value",
    ),
    "namespaceSelector.matchExpressions[].values[]": Rule(
        a=expression(values=["a"]),
        b=expression(values=["b"]),
        shows=(WAITS, WAITS),
        wrong=expression(values=[1]),
        said="expected string",
    ),
}
"""Under a base without rules the plan, which drops a column and fills another, waits for approval."""


def granted(**stated: Any) -> Spec:
    return {"access": [{"namespaces": ["*"], "catalogNamespaces": ["*"], "verbs": ["drop"]} | stated]}


def job(**stated: Any) -> Spec:
    return {"runtime": {"type": "job", **stated}}


def executors(**stated: Any) -> Spec:
    return job(executors={"instances": 1, **stated})


def pod(**stated: Any) -> Spec:
    return job(pod=stated)


def toleration(**stated: Any) -> Spec:
    return pod(tolerations=[{"key": "spark", "operator": "Equal", "value": "yes", "effect": "NoExecute"} | stated])


SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"

POD_RULES: dict[str, Rule] = {
    "runtime.pod.labels{}": Rule(
        a=pod(labels={"team": "a"}),
        b=pod(labels={"team": "b"}),
        shows=(WAITS, WAITS),
        wrong=pod(labels={"laketable.dev/table": "another"}),
        said="label has no prefix",
    ),
    "runtime.pod.annotations{}": Rule(
        a=pod(annotations={SAFE_TO_EVICT: "false"}),
        b=pod(annotations={SAFE_TO_EVICT: "true"}),
        shows=(WAITS, WAITS),
        wrong=pod(annotations={"iam.amazonaws.com/role": "admin"}),
        said="an annotation that a LakeCatalog may not set",
    ),
    "runtime.pod.nodeSelector{}": Rule(
        a=pod(nodeSelector={"disk": "ssd"}),
        b=pod(nodeSelector={"disk": "none"}),
        shows=(WAITS, WAITS),
        wrong=pod(nodeSelector={"disk": "not a value"}),
        said="should match",
    ),
    "runtime.pod.tolerations[].key": Rule(
        a=toleration(key="spark"),
        b=toleration(key="batch"),
        shows=(WAITS, WAITS),
        wrong=toleration(key="not a key"),
        said="should match",
    ),
    "runtime.pod.tolerations[].operator": Rule(
        a=toleration(operator="Equal"),
        b=pod(tolerations=[{"operator": "Exists"}]),
        shows=(WAITS, WAITS),
        wrong=toleration(operator="Exists"),
        said="operator Exists takes no value",
        in_status=True,
    ),
    "runtime.pod.tolerations[].value": Rule(
        a=toleration(value="a"),
        b=toleration(value="b"),
        shows=(WAITS, WAITS),
        wrong=toleration(value="not a value"),
        said="should match",
    ),
    "runtime.pod.tolerations[].effect": Rule(
        a=toleration(effect="NoExecute"),
        b=toleration(effect="NoSchedule"),
        shows=(WAITS, WAITS),
        wrong=toleration(effect="Never"),
        said="Unsupported value",
    ),
    "runtime.pod.tolerations[].tolerationSeconds": Rule(
        a=toleration(tolerationSeconds=60),
        b=toleration(tolerationSeconds=0),
        shows=(WAITS, WAITS),
        wrong=toleration(tolerationSeconds=-1),
        said="greater than or equal to 0",
    ),
    "runtime.pod.priorityClassName": Rule(
        a=pod(priorityClassName="batch"),
        b=pod(priorityClassName="night"),
        shows=(WAITS, WAITS),
        wrong=pod(priorityClassName="system-node-critical"),
        said="of the cluster's own",
        in_status=True,
    ),
    "runtime.pod.schedulerName": Rule(
        a=pod(schedulerName="volcano"),
        b=pod(schedulerName="yunikorn"),
        shows=(WAITS, WAITS),
        wrong=pod(schedulerName="Not A Name"),
        said="should match",
    ),
    "runtime.pod.imagePullSecrets[]": Rule(
        a=pod(imagePullSecrets=["one"]),
        b=pod(imagePullSecrets=["two"]),
        shows=(WAITS, WAITS),
        wrong=pod(imagePullSecrets=["Not A Name"]),
        said="should match",
    ),
    "runtime.pod.cpuRequest": Rule(
        a=pod(cpuRequest="500m"),
        b=pod(cpuRequest="1.5"),
        shows=(WAITS, WAITS),
        wrong=pod(cpuRequest="much"),
        said="should match",
    ),
    "runtime.pod.cpuLimit": Rule(
        a=pod(cpuLimit="1"),
        b=pod(cpuLimit="2"),
        shows=(WAITS, WAITS),
        wrong=pod(cpuLimit="1", cpuRequest="2"),
        said="below the request",
        in_status=True,
    ),
    "runtime.pod.temporaryStorage": Rule(
        a=pod(temporaryStorage="10Gi"),
        b=pod(temporaryStorage="20Gi"),
        shows=(WAITS, WAITS),
        wrong=pod(temporaryStorage="much"),
        said="should match",
    ),
}
"""What a pod is asked to be changes no plan; the pods themselves are seen in `test_job_pod`."""


CATALOG_RULES: dict[str, Rule] = {
    "format": Rule(
        a={"format": "iceberg"},
        b={"format": "iceberg"},
        shows=(WAITS, WAITS),
        wrong={"format": "delta"},
        said="format never changes",
    ),
    "properties{}": Rule(
        a={"properties": {"client.region": "eu-central-1"}},
        b={"properties": {"client.region": "us-east-1"}},
        shows=(WAITS, WAITS),
        wrong={"properties": {"py-io-impl": "os.system"}},
        said="py-io-impl",
        in_status=True,
    ),
    "secretRef.name": Rule(
        a={"secretRef": {"name": "one"}},
        b={"secretRef": {"name": "two"}},
        shows=(WAITS, WAITS),
        wrong={"secretRef": {"name": "none"}},
        said="There is no Secret",
        in_status=True,
    ),
    "access[].namespaces[]": Rule(
        a=granted(namespaces=["*"]),
        b=granted(namespaces=["nobody"]),
        shows=(WAITS, "AccessDenied"),
        wrong=granted(namespaces=["Not A Name"]),
        said="should match",
    ),
    "access[].catalogNamespaces[]": Rule(
        a=granted(catalogNamespaces=["*"]),
        b=granted(catalogNamespaces=["nothing"]),
        shows=(WAITS, "AccessDenied"),
        wrong=granted(catalogNamespaces=[""]),
        said="at least 1",
    ),
    "access[].verbs[]": Rule(
        a=granted(verbs=["apply"]),
        b=granted(verbs=["plan"]),
        shows=(WAITS, "AccessDenied"),
        wrong=granted(verbs=["own"]),
        said="Unsupported value",
    ),
    "runtime.type": Rule(
        a=job(), b={"runtime": {"type": "local"}}, shows=(WAITS, WAITS), wrong=job(type="vm"), said="Unsupported value"
    ),
    "runtime.url": Rule(
        a={"runtime": {"type": "connect", "url": "sc://one:15002"}},
        b={"runtime": {"type": "connect", "url": "sc://two:15002"}},
        shows=(WAITS, WAITS),
        wrong={"runtime": {"type": "connect", "url": "sc://two:15002/;token=canary"}},
        said="'token' is not among the parameters",
        in_status=True,
    ),
    "runtime.image": Rule(
        a=job(image="one"), b=job(image="two"), shows=(WAITS, WAITS), wrong=job(image="x" * 513), said="512"
    ),
    "runtime.memory": Rule(
        a=job(memory="1Gi"), b=job(memory="2g"), shows=(WAITS, WAITS), wrong=job(memory="much"), said="should match"
    ),
    "runtime.cores": Rule(
        a=job(cores=1), b=job(cores=2), shows=(WAITS, WAITS), wrong=job(cores=0), said="greater than or equal to 1"
    ),
    "runtime.sparkConf{}": Rule(
        a=job(sparkConf={"spark.sql.shuffle.partitions": "1"}),
        b=job(sparkConf={"spark.sql.shuffle.partitions": "2"}),
        shows=(WAITS, WAITS),
        wrong=job(sparkConf={"spark.jars": "http://evil"}),
        said="spark.jars",
        in_status=True,
    ),
    **POD_RULES,
    "runtime.executors.instances": Rule(
        a=executors(instances=1),
        b=executors(instances=2),
        shows=(WAITS, WAITS),
        wrong=executors(instances=0),
        said="greater than or equal to 1",
    ),
    "runtime.executors.memory": Rule(
        a=executors(memory="1Gi"),
        b=executors(memory="2g"),
        shows=(WAITS, WAITS),
        wrong=executors(memory="much"),
        said="should match",
    ),
    "runtime.executors.cores": Rule(
        a=executors(cores=1),
        b=executors(cores=2),
        shows=(WAITS, WAITS),
        wrong={"runtime": {"type": "local", "executors": {"instances": 1, "cores": 2}}},
        said="executors are for type job only",
    ),
}
