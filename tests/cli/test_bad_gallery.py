"""The gallery of bad manifests: each is refused in one line that says what, where and what next, and changes nothing.

Each has a twin in which only the fault is mended; the twin goes through. So it is the fault that makes it fail.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.cli.lab import EXAMPLES, Lab

GALLERY = EXAMPLES / "bad"
LIVE = ("name: order_id, type: long, required: true", "name: cust_id, type: string", "name: amount, type: long")
COLUMNS = "  columns:\n" + "".join(f"    - {{{column}}}\n" for column in LIVE)
EMBEDDED = '{type: sql, uri: "sqlite:///.laketable/catalog.db", warehouse: .laketable/warehouse}'

Mend = Sequence[tuple[str, str]]

# file: exit code, what its line says, how to mend it
CASES: dict[str, tuple[int, str, Mend]] = {
    "bad-approval": (1, "is not a plan's hash", [("  approval: {plan: looks-good-to-me}\n", "")]),
    "bad-direction": (1, "expected one of asc, desc, found 'down'", [("down", "desc")]),
    "bad-duration": (1, "'30 days' is not a duration. Write 30d", [("30 days", "30d")]),
    "bad-identifier": (1, "'orders' has no namespace", [("identifier: orders", "identifier: sales.orders")]),
    "bad-name": (1, "'Orders!' is not a DNS label", [("Orders!", "orders")]),
    "bad-transform": (1, "must be between 1 and 2147483647", [("bucket[0]", "bucket[2]")]),
    "computed-column": (1, "is computed from itself", [(', computed: {expression: "double_amount * 2"}', "")]),
    "cyclic-rename": (1, "the renames go round in a circle", [(", renamedFrom: a", ""), (", renamedFrom: b", "")]),
    "dangerous-property": (
        1,
        "it names code to load",
        [("write.location-provider.impl: com.example.Evil", "write.format.default: parquet")],
    ),
    "decimal-too-wide": (1, "the precision 40 is not between 1 and 38", [("40,2", "38,2")]),
    "default-in-version-2": (3, "LK404", [(", default: EUR", "")]),
    "default-of-wrong-type": (1, "the default 'many' does not fit int", [(", default: many", "")]),
    "drop-and-add": (3, "LK104", [("customer_ref, type: string", "customer_ref, type: string, renamedFrom: cust_id")]),
    "duplicate-column": (
        1,
        "'amount' is there already",
        [("type: long}\n    - {name: amount,", "type: long}\n    - {name: tax,")],
    ),
    "duplicate-column-case": (1, "differ only in case", [("Amount", "tax")]),
    "duplicate-key": (1, "the key 'doc' occurs twice", [(", doc: two", "")]),
    "empty-columns": (1, "the list is empty", [("  columns: []\n", COLUMNS)]),
    "identifier-of-nothing": (1, "there is no column 'id'", [("[id]", "[order_id]")]),
    "identifier-optional": (1, "'cust_id' is not required", [("[cust_id]", "[order_id]")]),
    "missing-type": (1, "'type' is missing", [("{name: cust_id}", "{name: cust_id, type: string}")]),
    "narrowing": (3, "LK201", [("type: int", "type: long")]),
    "nested-path-of-nothing": (
        1,
        "'amount' has no field 'net'",
        [("  nestedFields: [{path: amount.net, doc: Without tax}]\n", "")],
    ),
    "no-columns": (1, "'columns' is missing", [("  comment: Nothing in it\n", COLUMNS)]),
    "no-promotion": (3, "LK202", [("{name: amount, type: string}", "{name: amount, type: long}")]),
    "not-a-mapping": (
        1,
        "a document must be a mapping",
        [
            ("- apiVersion", "apiVersion"),
            ("- kind: LakeTable\n", f"kind: LakeTable\nmetadata: {{name: orders, namespace: sales}}\nspec:\n{COLUMNS}"),
        ],
    ),
    "other-format": (1, "delta tables come in a later version", [("delta", "iceberg")]),
    "partition-of-nothing": (1, "there is no column 'ordered_at'", [("ordered_at, transform: day", "order_id")]),
    "property-number": (1, 'Write "1048576" in quotes', [("1048576", '"1048576"')]),
    "rename-of-nothing": (3, "LK107", [(", renamedFrom: customer}", "}")]),
    "rename-twice": (
        1,
        "cannot become both",
        [("customer_key, type: string, renamedFrom: cust_id", "customer_key, type: string")],
    ),
    "required-as-text": (1, "expected true or false, found 'yes'", [('"yes"', "false")]),
    "required-with-nulls": (3, "1 null in 1 of 1 file", [("string, required: true", "string, required: false")]),
    "required-without-default": (3, "LK206", [("string, required: true", "string")]),
    "reserved-property": (1, "it is LakeTable's own memory", [("laketable.owner: me", "team: me")]),
    "secret-outside-the-cluster": (
        1,
        "PYICEBERG_CATALOG__LAKE__CREDENTIAL",
        [("  secretRef: {name: lake-login}\n", ""), ('{type: rest, uri: "http://127.0.0.1:9"}', EMBEDDED)],
    ),
    "sort-of-nothing": (1, "there is no column 'ordered_at'", [("ordered_at", "amount")]),
    "suppression-without-reason": (1, "'reason' is missing", [("code: LK104", "code: LK104, reason: Meant so")]),
    "tab-indentation": (1, "a tab is used for indentation", [("\t", "    ")]),
    "tag-of-nothing": (3, "LK210", [(", snapshot: {id: 42}", "")]),
    "text-for-a-list": (1, "expected a list, found 'order_id'", [("  columns: order_id\n", COLUMNS)]),
    "transform-of-wrong-type": (
        1,
        "'day' does not apply to 'amount', which is long",
        [("transform: day", "transform: 'bucket[4]'")],
    ),
    "unclosed-bracket": (1, "a mapping opened with '{' is not closed", [("type: long\n", "type: long}\n")]),
    "unclosed-type": (1, "expected '>' to close 'struct<'", [('string"', 'string>"')]),
    "unknown-catalog": (1, "No catalog is called 'nowhere'", [("nowhere", "lake")]),
    "unknown-field": (1, "Did you mean 'columns'?", [("colums", "columns")]),
    "unknown-kind": (1, "Did you mean 'LakeTable'?", [("LakeTabel", "LakeTable")]),
    "unknown-type": (1, "Did you mean 'string'?", [("strng", "string")]),
    "version-lowered": (3, "LK408", [("formatVersion: 1", "formatVersion: 2")]),
    "wrong-api-version": (1, "Write laketable.dev/v1alpha1.", [("v7", "v1alpha1")]),
}
_PLACE = re.compile(r"\b([a-z0-9-]+\.yaml:\d+)")


def test_every_file_of_the_gallery_is_here() -> None:
    assert {path.stem for path in GALLERY.iterdir()} == set(CASES)
    assert len(CASES) >= 45


@pytest.fixture
def live(lab: Lab) -> Lab:
    """The table the gallery speaks of: two rows, one NULL, one value that no int holds."""
    lab.apply(LIVE)
    lab.append([{"order_id": 1, "cust_id": "ada", "amount": 2**40}, {"order_id": 2, "cust_id": None, "amount": 2}])
    (lab.folder / "orders.yaml").unlink()
    return lab


@pytest.mark.parametrize("name", CASES)
def test_is_refused_in_one_line_and_its_mended_twin_goes_through(live: Lab, name: str) -> None:
    code, says, mend = CASES[name]
    text = (GALLERY / f"{name}.yaml").read_text()
    path = live.write(f"{name}.yaml", text)
    before = live.state()
    for command in (["apply", "--auto-approve"], ["plan"]):
        result = live.run(*command, "-f", path.name)
        assert result.code == code, result.err
        assert live.state() == before, "something changed"
        assert "Traceback" not in result.err
        if command == ["plan"] and code == 3:
            assert says in result.out, "a finding is part of the plan"
            assert result.err == ""
            continue
        (line,) = result.err.splitlines()
        assert says in line
        found = _PLACE.search(line)
        assert found, line
        assert found.group(1).startswith(path.name)

    for wrong, right in mend:
        assert wrong in text, f"{wrong} is not in the file"
        text = text.replace(wrong, right)
    path.write_text(text)
    mended = live.run("apply", "-f", path.name, "--auto-approve")
    assert mended.code == 0, mended.err
