"""The REST catalog fixture is a real Iceberg catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from reconciler.errors import EnvironmentProblem
from tests.rest_server import rest_server


def test_a_table_made_through_it_is_there_for_the_next_client(rest_catalog: dict[str, str]) -> None:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    load_catalog("one", **rest_catalog).create_namespace("fixture")
    load_catalog("one", **rest_catalog).create_table("fixture.t", Schema(NestedField(1, "x", LongType())))
    assert load_catalog("two", **rest_catalog).load_table("fixture.t").schema().find_field("x").field_id == 1


@pytest.mark.spark
def test_a_server_that_cannot_start_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(EnvironmentProblem, match=r"^\S+server\.log: .* did not start\.$"), rest_server(tmp_path):
        pass
