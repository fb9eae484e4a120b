"""Executors in pods of their own: what the driver says to Spark, and what an executor's pod runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.cli.spark import _profile
from reconciler.engines.executors import executor_command, executors_conf
from reconciler.errors import EnvironmentProblem
from reconciler.model.manifest.catalog import Executors, Runtime
from reconciler.operator.job_pod import EXECUTOR_FILE, WORK

POD = {
    "LAKETABLE_POD_NAME": "lt-orders-0123456789abcdef-x7k2p",
    "LAKETABLE_POD_NAMESPACE": "sales",
    "LAKETABLE_POD_IP": "10.1.2.3",
    "LAKETABLE_EXECUTOR_IMAGE": "registry.example/laketable-job:1",
    "LAKETABLE_EXECUTOR_TEMPLATE": f"{WORK}/{EXECUTOR_FILE}",
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
}
TOLD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "4096m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "lt-orders-exec-1",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_JAVA_OPT_10": "-Dlast=1",
    "SPARK_JAVA_OPT_2": "-Dmiddle=a b",
    "SPARK_JAVA_OPT_0": "-Dfirst=1",
    "SPARK_CLASSPATH": "/opt/jars/iceberg.jar",
}


def test_the_driver_asks_its_own_cluster_for_executors_of_its_own_image() -> None:
    conf = executors_conf(Executors(instances=3, memory="4Gi", cores=2), POD)
    assert conf["spark.master"] == "k8s://https://10.0.0.1:443"
    assert conf["spark.kubernetes.namespace"] == "sales"
    assert conf["spark.kubernetes.driver.pod.name"] == POD["LAKETABLE_POD_NAME"]
    assert conf["spark.kubernetes.container.image"] == POD["LAKETABLE_EXECUTOR_IMAGE"]
    sizes = [conf[f"spark.executor.{name}"] for name in ("instances", "memory", "cores")]
    assert sizes == ["3", "4g", "2"]
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "10.1.2.3"
    assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"


def test_addresses_of_ipv6_are_spelt_as_in_a_url() -> None:
    conf = executors_conf(
        Executors(instances=1), {**POD, "LAKETABLE_POD_IP": "fd00::3", "KUBERNETES_SERVICE_HOST": "fd00::1"}
    )
    assert conf["spark.master"] == "k8s://https://[fd00::1]:443"
    assert conf["spark.driver.host"] == "[fd00::3]"
    command = executor_command(Path("/java"), Path("/jars"), {**TOLD, "SPARK_EXECUTOR_POD_IP": "fd00::4"})
    assert command[command.index("--hostname") + 1] == "[fd00::4]"


@pytest.mark.parametrize("missing", POD)
def test_outside_of_a_jobs_pod_there_are_no_executors(missing: str) -> None:
    with pytest.raises(EnvironmentProblem, match=missing):
        executors_conf(Executors(instances=1), {k: v for k, v in POD.items() if k != missing})


def test_a_runtimes_own_settings_do_not_reach_where_executors_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in POD.items():
        monkeypatch.setenv(name, value)
    stated = {"type": "job", "memory": "8Gi", "cores": 4, "executors": {"instances": 2}}
    conf = _profile(Runtime.model_validate({**stated, "sparkConf": {"spark.sql.shuffle.partitions": "4"}}))
    assert conf["spark.master"].startswith("k8s://")
    assert conf["spark.driver.memory"] == "8g"
    assert conf["spark.sql.shuffle.partitions"] == "4"


def test_an_executors_pod_runs_what_sparks_own_image_would() -> None:
    command = executor_command(Path("/java/bin/java"), Path("/pyspark/jars"), TOLD)
    assert command[:4] == ["/java/bin/java", "-Dfirst=1", "-Dmiddle=a b", "-Dlast=1"]
    assert command[4:9] == [
        "-Xms4096m",
        "-Xmx4096m",
        "-cp",
        "/opt/jars/iceberg.jar:/pyspark/jars/*",
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    ]
    arguments = dict(zip(command[9::2], command[10::2], strict=True))
    assert arguments == {
        "--driver-url": TOLD["SPARK_DRIVER_URL"],
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-1",
        "--resourceProfileId": "0",
        "--podName": "lt-orders-exec-1",
        "--hostname": "10.1.2.4",
    }


def test_elsewhere_it_says_what_it_is_for() -> None:
    with pytest.raises(EnvironmentProblem, match="SPARK_EXECUTOR_MEMORY is not set"):
        executor_command(Path("/java"), Path("/jars"), {})
