"""Spark's executors in pods of their own: what the driver in a Job's pod asks Kubernetes for, and what runs in theirs.

The driver runs in client mode in the Job's pod; the operator tells it by the environment who it is. Executors are
owned by that pod, so they go with it, and their template says what they may do. They need no Secret: Iceberg hands each
task the table's FileIO with its properties, credentials included, hence the authenticated, encrypted connections.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.engines.jvm import UNCHECKED_ARROW
from reconciler.errors import EnvironmentProblem
from reconciler.model.manifest.catalog import Executors

POD_NAME, POD_NAMESPACE, POD_IP = "LAKETABLE_POD_NAME", "LAKETABLE_POD_NAMESPACE", "LAKETABLE_POD_IP"
EXECUTOR_IMAGE, EXECUTOR_TEMPLATE = "LAKETABLE_EXECUTOR_IMAGE", "LAKETABLE_EXECUTOR_TEMPLATE"
API_HOST, API_PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"
TEMPLATE_CONTAINER = "laketable"
DRIVER_PORT, BLOCK_PORT = 7078, 7079
LOCAL_DIR_VOLUME = "spark-local-dir-1"
"""Spark takes a volume of such a name for its local files instead of adding one."""

_OVERHEAD = "0.25"  # as the driver's pod; Python's workers and Arrow lie outside the heap
_BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION = re.compile(r"SPARK_JAVA_OPT_([0-9]+)")
_ARGUMENTS = (
    ("--driver-url", "SPARK_DRIVER_URL"),
    ("--executor-id", "SPARK_EXECUTOR_ID"),
    ("--cores", "SPARK_EXECUTOR_CORES"),
    ("--app-id", "SPARK_APPLICATION_ID"),
    ("--resourceProfileId", "SPARK_RESOURCE_PROFILE_ID"),
    ("--podName", "SPARK_EXECUTOR_POD_NAME"),
)
"""The backend's arguments, and the variables by which Spark tells a pod of them."""


def executors_conf(executors: Executors, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings of a driver in a Job's pod; raise EnvironmentProblem anywhere else.

    The API server is that of the pod's own cluster and no other: the driver's token goes there.
    """
    name, address = _told(environ, POD_NAME), _in_url(_told(environ, POD_IP))
    return {
        "spark.master": f"k8s://https://{_in_url(_told(environ, API_HOST))}:{_told(environ, API_PORT)}",
        "spark.kubernetes.namespace": _told(environ, POD_NAMESPACE),
        "spark.kubernetes.driver.pod.name": name,
        "spark.kubernetes.executor.podNamePrefix": name,
        "spark.kubernetes.container.image": _told(environ, EXECUTOR_IMAGE),
        "spark.kubernetes.executor.podTemplateFile": _told(environ, EXECUTOR_TEMPLATE),
        "spark.kubernetes.executor.podTemplateContainerName": TEMPLATE_CONTAINER,
        # Without these three pods are all that the driver may touch, and all that it needs to.
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_PORT),
        "spark.blockManager.port": str(BLOCK_PORT),
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.executor.instances": str(executors.instances),
        "spark.executor.memory": executors.memory.removesuffix("i").lower(),
        "spark.executor.memoryOverheadFactor": _OVERHEAD,
        "spark.executor.cores": str(executors.cores),
        "spark.executor.extraJavaOptions": " ".join(
            (f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}", *UNCHECKED_ARROW)
        ),
    }


def executor_command(java: Path, spark_jars: Path, environ: Mapping[str, str]) -> list[str]:
    """Return what an executor's pod runs, as Spark's own image would; raise EnvironmentProblem outside of one."""
    memory = _told(environ, "SPARK_EXECUTOR_MEMORY")
    path = os.pathsep.join(filter(None, (environ.get("SPARK_CLASSPATH", ""), str(spark_jars / "*"))))
    arguments = [part for flag, name in _ARGUMENTS for part in (flag, _told(environ, name))]
    address = ("--hostname", _in_url(_told(environ, "SPARK_EXECUTOR_POD_IP")))
    options = (f"-Xms{memory}", f"-Xmx{memory}", "-cp", path)
    return [str(java), *_options(environ), *options, _BACKEND, *arguments, *address]


def _options(environ: Mapping[str, str]) -> Iterator[str]:
    found = {int(match[1]): value for name, value in environ.items() if (match := _OPTION.fullmatch(name))}
    return (found[number] for number in sorted(found))


def _told(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise EnvironmentProblem(
            f"Executors run for the pod of a Kubernetes Job, and {name} is not set here.",
            hint="Let the operator start the job, or remove runtime.executors.",
        )
    return value


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
