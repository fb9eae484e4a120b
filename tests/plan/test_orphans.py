"""Which listed files may be deleted: never one that somebody may need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.plan.orphans import removable

TABLE = "file:///lake/web/events"
LIVE = frozenset({"file:/lake/web/events/data/live.parquet"})


def paths(*listed: str, location: str = TABLE, neighbours: tuple[str, ...] = ()) -> tuple[str, ...]:
    found = removable(listed, location=location, neighbours=neighbours, live=LIVE)
    assert found.refusal == ""
    return found.paths


@pytest.mark.parametrize("spelling", ["file:///lake/web/events", "file:/lake/web/events/", "/lake/web/events"])
def test_what_lies_below_the_table_goes_however_its_place_is_spelled(spelling: str) -> None:
    old = "file:/lake/web/events/data/old.parquet"
    assert paths(old, old, location=spelling) == (old,)


@pytest.mark.parametrize(
    "listed",
    [
        pytest.param("file:/lake/web/events_2/data/x.parquet", id="a table whose name starts the same"),
        pytest.param("file:/lake/web/other/x.parquet", id="another folder"),
        pytest.param("s3://bucket/lake/web/events/x.parquet", id="another store"),
        pytest.param("file:/lake/web/events/inner/data/x.parquet", id="a table inside this one"),
    ],
)
def test_what_lies_elsewhere_stays(listed: str) -> None:
    assert paths(listed, neighbours=("file:///lake/web/events/inner", "file:///lake/web/other")) == ()


def test_stores_keep_apart() -> None:
    assert paths("s3://a/t/x", location="s3://a/t") == ("s3://a/t/x",)
    assert paths("s3://b/t/x", location="s3://a/t") == ()


def test_a_table_inside_another_is_left_alone() -> None:
    found = removable(["file:/lake/web/events/x"], location=TABLE, neighbours=("file:/lake/web",), live=frozenset())
    assert "another table's" in found.refusal
    assert found.paths == ()


def test_a_live_file_in_the_list_stops_everything() -> None:
    listed = ["file:/lake/web/events/data/old.parquet", "hdfs://h/lake/web/events/data/live.parquet"]
    found = removable(listed, location=TABLE, neighbours=(), live=LIVE)
    assert "spelled in two ways" in found.refusal
    assert found.paths == ()


NAMES = st.sampled_from(["a", "b", "c"])
PLACES = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: "file:/" + "/".join(parts))


@given(st.lists(PLACES), PLACES, st.lists(PLACES, max_size=3), st.frozensets(PLACES, max_size=3))
def test_nothing_goes_that_is_live_or_of_others(
    listed: list[str], location: str, neighbours: list[str], live: frozenset[str]
) -> None:
    found = removable(listed, location=location, neighbours=neighbours, live=live)
    for path in found.paths:
        assert path in listed
        assert path not in live
        assert path.startswith(location + "/")
        assert not any(path.startswith(other + "/") for other in neighbours)
