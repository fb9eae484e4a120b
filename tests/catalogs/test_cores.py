from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.catalogs import cores
from reconciler.catalogs.cores import any_core, stay_on


def test_only_the_pool_s_threads_stay_on_one_core() -> None:
    before, core = os.sched_getaffinity(0), any_core()
    with ThreadPoolExecutor(4, initializer=stay_on, initargs=(core,)) as pool:
        assert all(found == {core} for found in pool.map(lambda _: os.sched_getaffinity(0), range(16)))
    assert os.sched_getaffinity(0) == before
    assert core in before


def test_a_system_that_forbids_it_or_cannot_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no")

    before = os.sched_getaffinity(0)
    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    stay_on(min(before))
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores.any_core() is None
    stay_on(None)
