"""fmt and approve: text rewritten in place, everything else kept to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reconciler.errors import InvalidInput
from reconciler.model.format import format_manifest, set_approval
from reconciler.model.yaml import load_all
from tests.model.test_guardrail_checks import CATALOG, POLICY
from tests.model.test_manifest_checks import TABLE

HEAD = "apiVersion: laketable.dev/v1alpha1\nkind: LakeTable\nmetadata: {name: t}\n"
UGLY = """\
# The orders of all shops.
kind: LakeTable   # a table
apiVersion: laketable.dev/v1alpha1
spec:
  # what it holds
  columns:
    # the key
    - type: BIGINT  # wide
      name: id
      # why
      doc: |
        long # not a comment
        text

    - {type: "array<struct<a:int>>", name: x}   # tail
    # - {name: old, type: int}

  # where it lives
  catalogRef:
    name: lake
  partitioning: [{transform: bucket(4), column: id}]
  somethingNew: 1
metadata: {namespace: sales, name: orders}
---
apiVersion: v1
kind: ConfigMap
data: {b: 1, a: 2}
"""
NEAT = """\
# The orders of all shops.
apiVersion: laketable.dev/v1alpha1
kind: LakeTable   # a table
metadata: {name: orders, namespace: sales}
spec:
  # where it lives
  catalogRef:
    name: lake
  # what it holds
  columns:
    # the key
    - name: id
      type: long  # wide
      # why
      doc: |
        long # not a comment
        text

    - {name: x, type: "list<struct<a: int>>"}   # tail
    # - {name: old, type: int}

  partitioning: [{column: id, transform: "bucket[4]"}]
  somethingNew: 1
---
apiVersion: v1
kind: ConfigMap
data: {b: 1, a: 2}
"""


def test_types_and_keys_become_canonical_and_comments_stay() -> None:
    assert format_manifest(UGLY) == NEAT


@pytest.mark.parametrize("text", [UGLY, NEAT, TABLE, CATALOG, POLICY, "", "# only a comment\n"])
def test_formatting_twice_is_formatting_once(text: str) -> None:
    once = format_manifest(text)
    assert format_manifest(once) == once


@pytest.mark.parametrize("text", [NEAT, TABLE, POLICY])
def test_formatting_changes_no_meaning(text: str) -> None:
    assert load_all(format_manifest(text), "f") == load_all(text, "f")


def test_windows_line_ends_stay() -> None:
    assert format_manifest(UGLY.replace("\n", "\r\n")) == NEAT.replace("\n", "\r\n")


def test_a_missing_last_newline_is_added() -> None:
    assert format_manifest(UGLY.rstrip("\n")) == NEAT


LITERALS = {
    "moved-without-a-last-newline": "  columns: [{name: id, type: long}]\n  comment: |\n    one row per order",
    "last-without-a-last-newline": "  comment: |\n    one row per order",
    "moved-before-blank-lines": "  properties:\n    type: long\n    team: |+\n      text\n\n  comment: x\n\n",
}


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in LITERALS.items()])
def test_what_a_block_scalar_says_is_kept_before_any_order(spec: str) -> None:
    text = f"{HEAD}spec:\n{spec}"
    formatted = format_manifest(text)
    assert load_all(formatted, "f") == load_all(text, "f")
    assert format_manifest(formatted) == formatted


def test_text_with_aliases_is_left_alone() -> None:
    head = "kind: LakeTable\napiVersion: laketable.dev/v1alpha1\n"
    text = f"{head}spec:\n  columns:\n    - &a {{type: bigint, name: x}}\n    - *a\n"
    assert format_manifest(text) == text
    assert format_manifest(text.replace("&a ", "").replace("*a", "{name: y, type: int}")) != text


def test_types_that_cannot_be_read_are_left_alone() -> None:
    text = NEAT.replace("type: long", "type: lnog")
    assert format_manifest(text) == text


@pytest.mark.parametrize("text", ["a: [", "? [a]\n: b", "a: 1\na: 2"])
def test_unreadable_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        format_manifest(text)


HASH = "sha256:" + 64 * "a"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("spec:\n  a: 1\n", 'spec:\n  a: 1\n  approval: {plan: "HASH"}\n', id="block"),
        pytest.param("spec:\n  a: 1", 'spec:\n  a: 1\n  approval: {plan: "HASH"}', id="no-last-newline"),
        pytest.param("spec: {a: 1}\n", 'spec: {a: 1, approval: {plan: "HASH"}}\n', id="flow"),
        pytest.param("spec:\n  approval:\n  b: 1\n", 'spec:\n  approval: {plan: "HASH"}\n  b: 1\n', id="null"),
        pytest.param("spec:\n  approval: {} # c\n", 'spec:\n  approval: {plan: "HASH"} # c\n', id="empty"),
        pytest.param(
            "spec:\n  approval: {plan: x, drop: y}\n", 'spec:\n  approval: {plan: "HASH", drop: y}\n', id="old"
        ),
        pytest.param("spec:\n  approval:\n    plan: # c\n", 'spec:\n  approval:\n    plan: "HASH" # c\n', id="no-plan"),
        pytest.param(
            "spec:\n  approval:\n    drop: y\n  b: 1\n",
            'spec:\n  approval:\n    drop: y\n    plan: "HASH"\n  b: 1\n',
            id="beside-drop",
        ),
        pytest.param(
            "spec:\n  a: |\n    x\n\n# end\n",
            'spec:\n  a: |\n    x\n  approval: {plan: "HASH"}\n\n# end\n',
            id="literal",
        ),
        pytest.param(
            "spec:\n  a:\n  - x\n# end\n", 'spec:\n  a:\n  - x\n  approval: {plan: "HASH"}\n# end\n', id="compact-list"
        ),
    ],
)
def test_an_approval_is_written_and_nothing_else(before: str, after: str) -> None:
    for source, wanted in ((before, after), (before.replace("\n", "\r\n"), after.replace("\n", "\r\n"))):
        assert set_approval(HEAD + source, 0, HASH) == HEAD + wanted.replace("HASH", HASH)


JSON = {
    "kind": "LakeTable",
    "apiVersion": "laketable.dev/v1alpha1",
    "metadata": {"name": "t"},
    "spec": {
        "partitioning": [{"column": "id", "transform": "BUCKET(4)"}],
        "columns": [{"name": "id", "type": "bigint"}, {"type": "struct<a:bigint>", "name": "x"}],
    },
}
NEAT_JSON = {
    **JSON,
    "spec": {
        "columns": [{"name": "id", "type": "long"}, {"name": "x", "type": "struct<a: long>"}],
        "partitioning": [{"column": "id", "transform": "bucket[4]"}],
    },
}


@pytest.mark.parametrize("indent", [None, 2])
def test_json_stays_json(indent: int | None) -> None:
    formatted = format_manifest(json.dumps(JSON, indent=indent))
    assert json.loads(formatted) == NEAT_JSON
    assert format_manifest(formatted) == formatted


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("approval", [None, {}, {"plan": "x"}, {"drop": "y"}, "left out"])
def test_an_approval_keeps_json_json(approval: Any, indent: int | None) -> None:
    spec = {"columns": [], **({} if approval == "left out" else {"approval": approval})}
    approved = set_approval(json.dumps({**JSON, "spec": spec}, indent=indent), 0, HASH)
    known = approval if isinstance(approval, dict) else {}
    assert json.loads(approved)["spec"] == {"columns": [], "approval": {**known, "plan": HASH}}


def test_only_the_named_document_is_approved() -> None:
    text = f"{HEAD}spec: {{a: 1}}\n---\n{HEAD}spec: {{a: 1}}\n"
    found = load_all(set_approval(text, 1, HASH), "f")
    assert [isinstance(part, dict) and part["spec"] for part in found] == [
        {"a": 1},
        {"a": 1, "approval": {"plan": HASH}},
    ]


def test_approving_again_changes_nothing() -> None:
    once = set_approval(TABLE, 0, HASH)
    assert set_approval(once, 0, HASH) == once


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(CATALOG, id="another-kind"),
        pytest.param(HEAD, id="no-spec"),
        pytest.param(f"{HEAD}x: &s {{a: 1}}\nspec: *s\n", id="alias"),
    ],
)
def test_what_cannot_be_approved_in_place(text: str) -> None:
    with pytest.raises(InvalidInput):
        set_approval(text, 0, HASH)
