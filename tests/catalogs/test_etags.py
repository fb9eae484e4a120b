from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reconciler.catalogs import etags
from reconciler.catalogs.etags import Cached, EtagCache

ANSWER = Cached(etag='"1"', metadata_location="s3://a/1.json", metadata=b"{}")


def remember(folder: Path, url: str = "http://x/t") -> None:
    cache = EtagCache(folder)
    cache.put(url, ANSWER)
    cache.flush()


def test_another_process_finds_what_was_written(tmp_path: Path) -> None:
    remember(tmp_path / "made")
    assert EtagCache(tmp_path / "made").get("http://x/t") == ANSWER
    assert EtagCache(tmp_path / "made").get("http://x/other") is None
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700


def test_urls_are_not_written(tmp_path: Path) -> None:
    remember(tmp_path, "http://user:pass@x/t")
    assert b"pass" not in (tmp_path / "answers.db").read_bytes()


def test_nothing_is_looked_up_that_is_not_there(tmp_path: Path) -> None:
    remember(tmp_path)
    cache, queries = EtagCache(tmp_path), list[str]()
    assert cache._store is not None
    cache._store._open().set_trace_callback(queries.append)
    assert cache.get("http://x/other") is None
    assert queries == []
    assert cache.get("http://x/t") == ANSWER
    assert len(queries) == 1


def test_many_threads_share_a_cache(tmp_path: Path) -> None:
    cache = EtagCache(tmp_path)

    def look_and_remember(number: int) -> None:
        cache.get(f"{number}")
        cache.put(f"{number}", ANSWER)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(look_and_remember, range(200)))
    cache.flush()
    again = EtagCache(tmp_path)
    with ThreadPoolExecutor(16) as pool:
        assert all(found == ANSWER for found in pool.map(lambda n: again.get(f"{n}"), range(200)))


def test_what_memory_lets_go_is_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(etags, "MEMORY_BYTES", 3)
    cache = EtagCache(tmp_path)
    for number in range(4):
        cache.put(str(number), ANSWER)
    assert [cache.get(str(number)) for number in range(4)] == [ANSWER] * 4


def test_a_file_that_is_no_database_makes_room(tmp_path: Path) -> None:
    (tmp_path / "answers.db").write_bytes(b"broken" * 1000)
    assert EtagCache(tmp_path).get("http://x/t") is None
    remember(tmp_path)
    assert EtagCache(tmp_path).get("http://x/t") == ANSWER


def test_a_busy_file_stays_and_costs_only_speed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    remember(tmp_path)
    monkeypatch.setattr(etags, "_BUSY_SECONDS", 0.0)
    other = sqlite3.connect(tmp_path / "answers.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    remember(tmp_path, "http://x/second")
    assert EtagCache(tmp_path).get("http://x/t") is None
    other.execute("ROLLBACK")
    other.close()
    assert EtagCache(tmp_path).get("http://x/t") == ANSWER
    assert EtagCache(tmp_path).get("http://x/second") is None
