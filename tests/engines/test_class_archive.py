"""The archive of Spark's classes: made when absent, named by what it was made of, in the way of nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.engines.class_archive import ClassArchive, base_archive
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


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path, jar: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert archive(tmp_path, jar).options(makes=True) == ()


@pytest.mark.parametrize(("comes_with_one", "dumps"), [(True, True), (False, True), (False, False)])
def test_a_java_without_an_archive_gets_one_to_build_upon(tmp_path: Path, comes_with_one: bool, dumps: bool) -> None:
    java = Java(home=tmp_path / "java", version=21, origin="test")
    java.executable.parent.mkdir(parents=True)
    java.executable.write_text(
        f"#!/bin/sh\ncase $1 in -Xshare:on) exit {int(not comes_with_one)};; esac\n"
        f"{'echo base > ${2#*=}' if dumps else 'exit 1'}\n"
    )
    java.executable.chmod(0o755)
    path = tmp_path / "jdk.jsa"
    made = base_archive(java, path)
    assert made == (None if comes_with_one or not dumps else path)
    assert [p.name for p in tmp_path.glob("jdk*")] == ([path.name] if made else [])
    java.executable.unlink()
    assert base_archive(java, path) == made, "it is made once"


def test_an_archive_that_another_is_made_upon_stays(tmp_path: Path, jar: Path) -> None:
    made = archive(tmp_path, jar)
    draft = written(made)
    base = made._base
    assert base is not None
    base.write_bytes(b"base")
    made.keep()
    assert not draft.exists()
    assert base.exists()
    assert f"-XX:SharedArchiveFile={base}" not in archive(tmp_path, jar).options(makes=True)
