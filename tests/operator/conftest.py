"""The cluster, the operator in it and its catalog, once per run; every test has a namespace of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.errors import EnvironmentProblem
from reconciler.operator.objects import TABLES
from tests.jvm import SHORT_LIVED, quick_jvm
from tests.kube.assets import kube_programs
from tests.kube.client import Client
from tests.kube.cluster import Cluster, running_cluster
from tests.kube.kubelet import Kubelet
from tests.kube.operator import Operator, catalog, install, running_operator

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a real API server with the CRDs and the operator's role."""
    try:
        kube_programs()
    except EnvironmentProblem as error:
        pytest.fail(str(error), pytrace=False)
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="session")
def operator_kubeconfig(cluster: Cluster) -> Path:
    """Install CRDs and RBAC; the kubeconfig of the operator's service account."""
    return install(cluster)


@pytest.fixture(scope="session")
def operator(
    cluster: Cluster, operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """Run the operator for all tests that do not start one of their own."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    options = ["--job-image", "laketable:test", "--job-driver-service-account", "laketable-driver"]
    with running_operator(operator_kubeconfig, log, options, **quick_jvm()) as running:
        yield running


@pytest.fixture(scope="session")
def kubelet(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    """Run the pods of Jobs."""
    # HOME is where jars are cached; executors' JVMs are not started by Spark's launcher, which reads the others.
    environment = {"HOME": os.environ["HOME"], "JAVA_TOOL_OPTIONS": SHORT_LIVED, **quick_jvm()}
    with Kubelet(cluster, tmp_path_factory.mktemp("kubelet"), environment) as playing:
        yield playing


@pytest.fixture
def namespace(cluster: Cluster, operator_kubeconfig: Path) -> Iterator[str]:
    """Make a namespace for one test; its tables go with it, for the operator looks after each job until that ends."""
    name = cluster.create_namespace(f"test-{next(_NUMBERS)}")
    yield name
    Client(cluster).request("DELETE", TABLES.path(name))


@pytest.fixture(scope="session")
def sqlite_catalog(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Properties of a catalog that needs no JVM, for what does not depend on the kind of catalog."""
    folder = tmp_path_factory.mktemp("lake")
    return {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": f"file://{folder}/warehouse"}


@pytest.fixture
def lake(cluster: Cluster, namespace: str, sqlite_catalog: dict[str, str]) -> IcebergCatalog:
    """Put a LakeCatalog into the test's namespace; the catalog itself, to look at tables behind the operator's back."""
    cluster.apply(catalog("lake", namespace, sqlite_catalog))
    return IcebergCatalog(explicit("lake", sqlite_catalog))


@pytest.fixture
def rest_lake(cluster: Cluster, namespace: str, rest_catalog: dict[str, str]) -> IcebergCatalog:
    """Put a LakeCatalog of the real REST server into the test's namespace."""
    cluster.apply(catalog("lake", namespace, rest_catalog))
    return IcebergCatalog(explicit("lake", rest_catalog))
