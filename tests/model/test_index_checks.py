"""Declared indexes: what a manifest may ask for, and what it comes to in the table."""

from __future__ import annotations

import pytest

from reconciler.errors import InvalidInput
from reconciler.model.desired import to_desired
from reconciler.model.documents import load_documents
from reconciler.model.manifest import LakeTable
from reconciler.model.table import Desired, DesiredSortField

HEAD = """\
apiVersion: laketable.dev/v1alpha1
kind: LakeTable
metadata: {name: orders, namespace: sales}
spec:
  columns:
    - {name: id, type: long}
    - {name: note, type: string}
    - {name: is_paid, type: boolean}
    - {name: place, type: "struct<lat: double, lon: double>"}
    - {name: tags, type: "list<string>"}
"""


def desired(*lines: str) -> Desired:
    (document,) = load_documents(HEAD + "".join(f"  {line}\n" for line in lines), "f")
    assert isinstance(document.manifest, LakeTable)
    return to_desired(document.manifest)


def test_a_bloom_index_is_properties() -> None:
    found = desired("indexes: [{name: a, columns: [note, place.lat], type: bloom, properties: {fpp: '0.02'}}]")
    assert found.properties == {
        "write.parquet.bloom-filter-enabled.column.note": "true",
        "write.parquet.bloom-filter-fpp.column.note": "0.02",
        "write.parquet.bloom-filter-enabled.column.place.lat": "true",
        "write.parquet.bloom-filter-fpp.column.place.lat": "0.02",
    }


def test_a_sort_index_is_the_sort_order() -> None:
    assert desired("indexes: [{name: a, columns: [note, id], type: sort}]").sort_order == (
        DesiredSortField(path=("note",)),
        DesiredSortField(path=("id",)),
    )


@pytest.mark.parametrize("kind", ["zorder", "ndv", "btree"])
def test_other_indexes_state_nothing_of_the_table(kind: str) -> None:
    found = desired(f"indexes: [{{name: a, columns: [note, id], type: {kind}}}]")
    assert found.sort_order is None
    assert found.properties == {}
    assert [index.type for index in found.indexes] == [kind]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(["indexes: [{name: a, columns: [is_paid], type: bloom}]"], "Parquet keeps none", id="bloom-type"),
        pytest.param(["indexes: [{name: a, columns: [tags], type: bloom}]"], "it is nested", id="bloom-list"),
        pytest.param(["indexes: [{name: a, columns: [tags.element], type: sort}]"], "inside a list", id="sort-list"),
        pytest.param(["indexes: [{name: a, columns: [place.lat], type: ndv}]"], "whole columns only", id="ndv-nested"),
        pytest.param(["indexes: [{name: a, columns: [id], type: zorder}]"], "takes 2 to 8 columns", id="one-column"),
        pytest.param(["indexes: [{name: a, columns: [id, id], type: zorder}]"], "is there already", id="twice"),
        pytest.param(["indexes: [{name: a, columns: [nope], type: bloom}]"], "no column 'nope'", id="no-column"),
        pytest.param(
            ["indexes: [{name: a, columns: [id], type: bloom, properties: {fpp: '2'}}]"], "is no fpp", id="parameter"
        ),
        pytest.param(
            ["indexes: [{name: a, columns: [id], type: ndv, properties: {fpp: '.1'}}]"], "no parameter", id="unknown"
        ),
        pytest.param(
            ["sortOrder: [{column: id}]", "indexes: [{name: a, columns: [id, note], type: zorder}]"],
            "sortOrder does so already",
            id="two-orders",
        ),
        pytest.param(
            [
                "properties: {write.parquet.bloom-filter-enabled.column.id: 'false'}",
                "indexes: [{name: a, columns: [id], type: bloom}]",
            ],
            "index a needs it to be true",
            id="contradicted",
        ),
    ],
)
def test_what_cannot_be_built_is_refused_with_the_reason(lines: list[str], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        desired(*lines)
    assert said in refused.value.message
