"""The process that Python workers are forked from: where it looks for modules, and what becomes of freed memory."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile
from zipimport import zipimporter

import pytest
from pyspark.sql import SparkSession

from reconciler.engines.splice.daemon import search_folders_only, without_archives

FAULTS = """
import resource, sys
from reconciler.engines.splice.daemon import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
for _ in range(50):
    bytearray(b"x" * (4 << 20))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def test_a_daemon_imports_the_installed_pyspark_and_not_its_archives(tmp_path: Path) -> None:
    installed, other = tmp_path / "site-packages", tmp_path / "spark"
    archives = [home / "python" / "lib" / "pyspark.zip" for home in (installed / "pyspark", other)]
    for file in (installed / "pyspark" / "__init__.py", *archives):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    path = [str(entry) for entry in (archives[0], archives[1], installed, tmp_path / "absent.zip")]
    assert without_archives(path) == path[1:]
    assert without_archives(path[:2]) == path[:2]  # nothing else to import it from


def test_archives_are_not_even_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the search remembers, each task asks too: `invalidate_caches` reads an archive's directory anew."""
    home = tmp_path / "pyspark"
    home.mkdir()
    (home / "__init__.py").touch()
    with ZipFile(home / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/__init__.py", "")
    remembered = {str(home / "pyspark.zip"): zipimporter(str(home / "pyspark.zip")), str(tmp_path): None}
    monkeypatch.setattr(sys, "path", [str(home / "pyspark.zip"), str(tmp_path)])
    monkeypatch.setattr(sys, "path_importer_cache", remembered)
    search_folders_only()
    assert sys.path == list(remembered) == [str(tmp_path)]


@pytest.mark.spark
def test_a_worker_of_spark_searches_no_archive(spark: SparkSession) -> None:
    def searched(_: int) -> list[str]:
        import sys

        return [entry for entry, finder in sys.path_importer_cache.items() if type(finder).__name__ == "zipimporter"]

    assert spark.sparkContext.parallelize([0], 1).map(searched).collect() == [[]]


def test_freed_memory_is_used_again() -> None:
    """Other C libraries than glibc keep memory by rules of their own."""

    def faults(way: str) -> int:
        return int(subprocess.run([sys.executable, "-c", FAULTS, way], check=True, capture_output=True).stdout)

    least = 50_000 if platform.libc_ver()[0] == "glibc" else -1_000
    assert faults("handed back") - faults("kept") > least
