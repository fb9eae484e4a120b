"""Every refusal of a LakeCatalog and of a LakePolicy: one line with its place."""

from __future__ import annotations

from typing import get_args

import pytest

from reconciler.diff.changes import Change
from reconciler.model.manifest.policy import ChangeKind
from tests.model.test_manifest_checks import problems, vary

CATALOG = """\
apiVersion: laketable.dev/v1alpha1
kind: LakeCatalog
metadata: {name: lake}
spec:
  properties: {type: rest, uri: "https://catalog.example"}
  secretRef: {name: lake}
  access: [{namespaces: ["*"], catalogNamespaces: [sales.*], verbs: [read]}]
  runtime: {type: connect, url: "sc://spark:15002", memory: 2Gi, sparkConf: {spark.sql.adaptive.enabled: "true"}}
"""


JOB = """\
apiVersion: laketable.dev/v1alpha1
kind: LakeCatalog
metadata: {name: lake}
spec:
  runtime:
    type: job
    pod:
      labels: {team: sales, app.kubernetes.io/part-of: lake}
      annotations: {cluster-autoscaler.kubernetes.io/safe-to-evict: "false"}
      nodeSelector: {node.kubernetes.io/instance-type: large}
      tolerations: [{key: spark, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
      priorityClassName: batch
      schedulerName: volcano
      imagePullSecrets: [registry]
      cpuRequest: 500m
      cpuLimit: "2"
      temporaryStorage: 20Gi
    executors: {instances: 4, memory: 8Gi, cores: 2}
    sparkConf: {spark.executor.memoryOverhead: 1g}
"""


POLICY = """\
apiVersion: laketable.dev/v1alpha1
kind: LakePolicy
metadata: {name: gold}
spec:
  namespaceSelector: {matchLabels: {tier: gold}}
  autoApprove: [metadata-only]
  deny: {classes: [destructive], changes: [rename-table], reason: ask the data office}
  requireApproval: {breaking: true}
  budgets: {maxRewriteBytes: 100Gi, maxCostDriftPercent: 20}
  windows: [{days: [Mon], start: "22:00", end: "04:00", timeZone: Europe/Prague}]
  severities: {LK104: warning}
  protectedNames: [gold.*]
"""


@pytest.mark.parametrize("text", [CATALOG, JOB, POLICY], ids=["catalog", "job", "policy"])
def test_catalogs_and_policies_are_accepted(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "before", "after", "line"),
    [
        (CATALOG, "type: rest", "§py-catalog-impl: a.B", "spec.properties.py-catalog-impl: 'py-catalog-impl' cannot"),
        (CATALOG, "//catalog", "//u:p@catalog", "5:33: spec.properties.uri: 'uri' holds a password inside a URL."),
        (CATALOG, ', url: "sc://spark:15002"', "", "8:12: spec.runtime: type connect needs a url."),
        (CATALOG, "type: connect", "type: local", "8:26: spec.runtime.url: type local takes no url."),
        (
            CATALOG,
            "sc://spark",
            "http://spark",
            "8:33: spec.runtime.url: 'http://spark:15002' is not a Spark Connect URL.",
        ),
        (CATALOG, "spark.sql.adaptive.enabled", "§spark.jars", "spec.runtime.sparkConf[\"spark.jars\"]: 'spark.jars'"),
        (CATALOG, "memory: 2Gi", "memory: §lots", "spec.runtime.memory: 'lots' is not an amount of memory."),
        (CATALOG, "[read]", "[§write]", "spec.access[0].verbs[0]: expected one of apply, drop, plan, read, found"),
        (JOB, "type: job", "type: local", "7:5: spec.runtime.pod: type local takes no pod."),
        (JOB, "type: job", "type: local", "18:5: spec.runtime.executors: type local takes no executors."),
        (
            JOB,
            "memory: 8Gi",
            "memory: §449Mi",
            "spec.runtime.executors.memory: an executor needs at least 450Mi, and this",
        ),
        (JOB, "instances: 4", "instances: §0", "spec.runtime.executors.instances: 0 is too small; the least is 1."),
        (
            JOB,
            "instances: 4",
            "§master: k8s://https://evil, instances: 4",
            "spec.runtime.executors.master: unknown key",
        ),
        (JOB, "memoryOverhead", "instances", '19:17: spec.runtime.sparkConf["spark.executor.instances"]: \'spark.exec'),
        (JOB, "spark.executor.memoryOverhead", "spark.dynamicAllocation.enabled", "19:17: spec.runtime.sparkConf["),
        (JOB, "spark.executor.memoryOverhead", "spark.kubernetes.namespace", "19:17: spec.runtime.sparkConf["),
        (JOB, "labels:", "§hostNetwork:", "spec.runtime.pod.hostNetwork: unknown key 'hostNetwork'."),
        (JOB, "schedulerName:", "§serviceAccountName:", "spec.runtime.pod.serviceAccountName: unknown key"),
        (
            JOB,
            "team:",
            "§laketable.dev/table:",
            "spec.runtime.pod.labels[\"laketable.dev/table\"]: 'laketable.dev/table'",
        ),
        (JOB, "app.kubernetes.io/part-of:", "§app.kubernetes.io/managed-by:", "spec.runtime.pod.labels["),
        (
            JOB,
            "team:",
            "§aadpodidbinding:",
            "spec.runtime.pod.labels.aadpodidbinding: 'aadpodidbinding' is not a label",
        ),
        (JOB, "team:", "§spark-role:", "spec.runtime.pod.labels.spark-role: 'spark-role' is not a label"),
        (JOB, "cluster-autoscaler.kubernetes.io/safe-to-evict:", "§iam.amazonaws.com/role:", "spec.runtime.pod.annot"),
        (
            JOB,
            'cluster-autoscaler.kubernetes.io/safe-to-evict: "false"',
            'sidecar.istio.io/inject: §"true"',
            "spec.runtime.pod.annotations[\"sidecar.istio.io/inject\"]: 'sidecar.istio.io/inject' may only be false.",
        ),
        (JOB, "large}", "§large node}", 'spec.runtime.pod.nodeSelector["node.kubernetes.io/instance-type"]: \'large'),
        (
            JOB,
            "key: spark, operator: Exists",
            "key: spark, value: §x, operator: Exists",
            "spec.runtime.pod.tolerations[",
        ),
        (
            JOB,
            "key: spark, operator: Exists, ",
            "",
            "11:21: spec.runtime.pod.tolerations[0]: a toleration without a key",
        ),
        (
            JOB,
            "NoExecute",
            "NoSchedule",
            "11:91: spec.runtime.pod.tolerations[0].tolerationSeconds: tolerationSeconds is",
        ),
        (JOB, ": batch", ": §system-node-critical", "spec.runtime.pod.priorityClassName: 'system-node-critical' is a"),
        (JOB, '"2"', '§"0.1"', "spec.runtime.pod.cpuLimit: the limit 0.1 is below the request 500m."),
        (JOB, "20Gi", "§lots", "spec.runtime.pod.temporaryStorage: 'lots' is not a size."),
        (POLICY, "autoApprove: [metadata-only]", "autoApprove: [§destructive]", "spec.autoApprove[0]: destructive"),
        (POLICY, "{breaking: true}", "§{}", "spec.requireApproval: 'requireApproval' names nothing."),
        (POLICY, "rename-table", "§rename-tabel", "spec.deny.changes[0]: 'rename-tabel' is not known here. Did you"),
        (POLICY, "100Gi", "§100 GB", "spec.budgets.maxRewriteBytes: '100 GB' is not a size."),
        (POLICY, '"04:00"', '"22:00"', "10:13: spec.windows[0]: the window opens and closes at 22:00."),
        (POLICY, '"22:00"', '§"25:00"', "spec.windows[0].start: '25:00' is not a time of day."),
        (
            POLICY,
            "Europe/Prague",
            "§Europe/Pargue",
            "spec.windows[0].timeZone: 'Europe/Pargue' is not a known",
        ),
        (POLICY, "Europe/Prague", "§Europe", "spec.windows[0].timeZone: 'Europe' is not a known time zone."),
        (POLICY, "LK104: warning", "LK1: §warning", "spec.severities.LK1: 'LK1' is not a finding's code."),
        (POLICY, "LK104: warning", "LK104: §fatal", "spec.severities.LK104: expected one of error, info, warning"),
    ],
)
def test_each_fault_of_catalogs_and_policies(text: str, before: str, after: str, line: str) -> None:
    changed, start = vary(text, before, after, line)
    found = problems(changed)
    assert any(part.startswith(start) for part in found), found


@pytest.mark.parametrize("memory", ["450Mi", "450m", "1Gi", "1g"])
def test_an_executors_memory_is_spelt_as_the_drivers(memory: str) -> None:
    assert problems(JOB.replace("memory: 8Gi", f"memory: {memory}")) == []


def test_policies_know_every_kind_of_change() -> None:
    assert {member.__struct_config__.tag for member in get_args(Change)} == set(get_args(ChangeKind))
