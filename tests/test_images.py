"""The Dockerfile, as far as it can be read: images hold what the tests ran with, and the jars that a job looks for."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from reconciler.cli.main import run
from reconciler.engines.catalog_conf import AWS_BUNDLE
from reconciler.engines.job_command import execute_command
from reconciler.engines.session import ICEBERG, PACKAGES, PYSPARK, cached_jars
from reconciler.operator.job_pod import TEMPORARY

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
_PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    return dict(_PIN.findall((ROOT / "requirements" / lock).read_text()))


@pytest.mark.parametrize(
    ("lock", "wanted", "unwanted"),
    [
        ("operator.lock", {"kopf", "aiohttp", "pyiceberg"}, {"pyspark"}),
        ("job.lock", {"pyspark", "pyiceberg", "grpcio", "pandas"}, {"kopf"}),  # a client of Spark Connect too
    ],
)
def test_an_image_holds_the_versions_that_were_tested(lock: str, wanted: set[str], unwanted: set[str]) -> None:
    found = pins(lock)
    assert found.items() <= pins("dev.lock").items()
    assert wanted <= found.keys()
    assert not unwanted & found.keys()
    assert f"requirements/{lock}" in DOCKERFILE


def test_the_job_image_brings_every_jar_that_a_job_looks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = (*PACKAGES, f"{AWS_BUNDLE}:{ICEBERG}")
    assert pins("job.lock")["pyspark"] == PYSPARK
    brought = re.findall(r"--checksum=sha256:[0-9a-f]{64} \\\n +\$\{MAVEN\}/(\S+) \\\n +(\S+)/(\S+\.jar)\n", DOCKERFILE)
    for package in packages:
        group, artifact, version = package.split(":")
        source = f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"
        (found,) = [(folder, name) for address, folder, name in brought if address == source]
        assert f"LAKETABLE_JARS={found[0]}" in DOCKERFILE
        monkeypatch.setenv("LAKETABLE_JARS", str(tmp_path))
        assert cached_jars(packages) is None
        (tmp_path / found[1]).touch()
    assert cached_jars(packages) == tuple(tmp_path / name for _, _, name in brought)


def test_images_and_pods_agree_on_the_user_and_on_where_it_may_write() -> None:
    (deployment,) = [
        found
        for found in yaml.safe_load_all((ROOT / "charts" / "raw" / "operator.yaml").read_text())
        if found["kind"] == "Deployment"
    ]
    user = deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in DOCKERFILE
    assert f"-Djava.io.tmpdir={TEMPORARY}" in DOCKERFILE


def test_an_executors_pod_runs_a_command_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Spark gives the template's container the argument `executor`, as it would give it to its own image."""
    assert run(["executor"]) == 1
    assert "SPARK_EXECUTOR_MEMORY is not set" in capsys.readouterr().err


def test_what_is_copied_is_there_and_no_dockerignore_hides_it() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert ignored[0] == "*"
    lines = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    copied = [source for line in lines for source in line.split()]
    assert len(copied) >= 7
    for source in copied:
        assert (ROOT / source).exists(), source
        assert source.partition("/")[0] in let_through, source
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE))
    assert set(re.findall(r"--from=(\S+)", DOCKERFILE)) <= stages
    assert {"operator", "job"} <= stages


def test_what_an_image_starts_is_a_command_of_the_program() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (entry,) = (json.loads(found) for found in re.findall(r"^ENTRYPOINT (.+)$", DOCKERFILE, re.MULTILINE))
    operator, job = (json.loads(found) for found in re.findall(r"^CMD (.+)$", DOCKERFILE, re.MULTILINE))
    for command in ([*entry, *operator], job, execute_command("plan.json")):
        module, _, function = scripts[command[0]].partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        words = itertools.takewhile(lambda word: not word.startswith("-"), command[1:])
        assert run([*words, "--help"]) == 0, command
