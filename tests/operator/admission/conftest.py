"""A cluster of our own, whose webhook must not judge what other tests apply; the operator in it, overheard."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reconciler.errors import EnvironmentProblem
from tests.kube.assets import kube_programs
from tests.kube.cluster import Cluster, free_port, running_cluster
from tests.kube.operator import (
    ROOT,
    Operator,
    install,
    running_operator,
)
from tests.operator.admission_kit import (
    CANARY,
    WEBHOOK,
    until_served,
)
from tests.proxy import FaultProxy


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        kube_programs()
    except EnvironmentProblem as error:
        pytest.fail(str(error), pytrace=False)
    with running_cluster(tmp_path_factory.mktemp("admission")) as made:
        yield made


@pytest.fixture(scope="module")
def operator_kubeconfig(cluster: Cluster) -> Path:
    kubeconfig = install(cluster)
    cluster.kubectl("apply", "-f", str(ROOT / "charts" / "raw" / "webhook.yaml"))
    return kubeconfig


@pytest.fixture(scope="module")
def kubernetes(cluster: Cluster, operator_kubeconfig: Path) -> Iterator[FaultProxy]:
    """Stand between the operator and its API server, to hear what it asks for."""
    config = yaml.safe_load(operator_kubeconfig.read_text())
    authority = base64.b64decode(config["clusters"][0]["cluster"].pop("certificate-authority-data")).decode()
    with FaultProxy(cluster.server, ssl.create_default_context(cadata=authority)) as proxy:
        config["clusters"][0]["cluster"]["server"] = proxy.uri
        (cluster.folder / "overheard.kubeconfig").write_text(yaml.safe_dump(config))
        yield proxy


@pytest.fixture(scope="module")
def operator(cluster: Cluster, kubernetes: FaultProxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    port = free_port()
    options = [
        "--no-lease",  # it answers whether or not it leads; a killed one would be waited for
        f"--webhook=127.0.0.1:{port}",
        f"--webhook-url=https://127.0.0.1:{port}",
        f"--webhook-configuration={WEBHOOK}",
        f"--webhook-secret={WEBHOOK}",
    ]
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    environment = {"PYICEBERG_CATALOG__OURS__URI": "http://127.0.0.1:1", "PYICEBERG_CATALOG__OURS__TOKEN": CANARY}
    kubeconfig = cluster.folder / "overheard.kubeconfig"
    with running_operator(kubeconfig, log, options, **environment) as running:
        until_served(cluster)
        yield running
