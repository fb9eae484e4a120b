"""One cluster, operator and catalog for all these stories: the operator is killed, so it is nobody else's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from reconciler.errors import EnvironmentProblem
from tests.crash.operator import warm
from tests.crash.operator.journal import CatalogProxy, Journal, KubeProxy
from tests.crash.operator.scene import IMAGE, World
from tests.jvm import quick_jvm
from tests.kube.assets import kube_programs
from tests.kube.client import Client
from tests.kube.cluster import running_cluster
from tests.kube.kubelet import Kubelet
from tests.kube.operator import install, running_operator

OPTIONS = ("--job-image", IMAGE, "--history-limit", "1")


@pytest.fixture(scope="session")
def stage(rest_catalog: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Start everything, with the proxies between the operator and the rest."""
    try:
        kube_programs()
    except EnvironmentProblem as error:
        pytest.fail(str(error), pytrace=False)
    folder, journal = tmp_path_factory.mktemp("stage"), Journal()
    uri = rest_catalog["uri"]
    with (
        running_cluster(folder / "cluster") as cluster,
        KubeProxy(cluster.server, cluster.trust(), journal) as kube,
        CatalogProxy(uri, journal) as lake,
    ):
        kubeconfig = _through(kube.uri, install(cluster))
        home = {"HOME": os.environ["HOME"], **quick_jvm()}
        addresses = {lake.uri: uri}  # what a job writes is not the operator's
        with (
            warm.running(folder, home) as there,
            Kubelet(
                cluster, folder / "pods", home | there, image=IMAGE, addresses=addresses, program=warm.PROGRAM
            ) as kubelet,
            running_operator(kubeconfig, folder / "operator.log", OPTIONS) as operator,
        ):
            yield World(Client(cluster), operator, kubelet, journal, kube, lake, uri)


def _through(proxy: str, kubeconfig: Path) -> Path:
    """Let a kubeconfig lead to the proxy, as nobody but its owner."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": proxy}
    path = kubeconfig.with_suffix(".proxied")
    path.write_text(yaml.safe_dump(config))
    return path
