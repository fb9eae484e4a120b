"""The archive of Spark's classes: made when absent, named by what it was made of, in the way of nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.engines.class_archive import ClassArchive
from reconciler.engines.java import Java

JAVA = Java(home=Path("/usr/lib/jvm/java-17"), version=17, origin="test")


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "a.jar"
    path.write_bytes(b"one")
    return path


def archive(tmp_path: Path, jar: Path) -> ClassArchive:
    return ClassArchive.of(JAVA, [jar], {"XDG_CACHE_HOME": str(tmp_path / "cache")})


def written(made: ClassArchive) -> Path:
    """Play the JVM: write what the options say."""
    (draft,) = (o.partition("=")[2] for o in made.options(makes=True) if "ArchiveClassesAtExit" in o)
    Path(draft).write_bytes(b"classes")
    return Path(draft)


def test_made_once_then_used(tmp_path: Path, jar: Path) -> None:
    first = archive(tmp_path, jar)
    draft = written(first)
    assert first.is_being_made
    first.keep()
    assert not draft.exists()
    again = archive(tmp_path, jar)
    (used, *_) = again.options(makes=True)
    assert used.startswith("-XX:SharedArchiveFile=")
    assert Path(used.partition("=")[2]).read_bytes() == b"classes"
    assert not again.is_being_made


def test_another_jar_makes_another_archive_and_the_former_goes(tmp_path: Path, jar: Path) -> None:
    first = archive(tmp_path, jar)
    written(first)
    first.keep()
    jar.write_bytes(b"another")
    second = archive(tmp_path, jar)
    written(second)
    second.keep()
    assert len(list((tmp_path / "cache/laketable/classes").iterdir())) == 1
    assert archive(tmp_path, jar).options(makes=False)


def test_a_jvm_that_was_killed_leaves_nothing(tmp_path: Path, jar: Path) -> None:
    first = archive(tmp_path, jar)
    draft = written(first)
    first.discard()
    assert not draft.exists()
    assert archive(tmp_path, jar).options(makes=False) == ()


@pytest.mark.parametrize("environ", [{"LAKETABLE_CACHE": "off"}, {"SPARK_SUBMIT_OPTS": "-XX:SharedArchiveFile=mine"}])
def test_nothing_is_kept_where_nobody_wants_it(environ: dict[str, str], jar: Path) -> None:
    assert ClassArchive.of(JAVA, [jar], environ).options(makes=True) == ()


def test_a_java_that_would_refuse_it_makes_none(tmp_path: Path, jar: Path) -> None:
    java = Java(home=JAVA.home, version=21, origin="test")
    assert ClassArchive.of(java, [jar], {"XDG_CACHE_HOME": str(tmp_path / "cache")}).options(makes=True) == ()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, jar: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert archive(tmp_path, jar).options(makes=True) == ()
