"""Plan documents come back as they were, or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import msgspec
import pytest

from reconciler.errors import InvalidInput
from reconciler.plan.document import PlannedTable, decode, encode, schema_page
from tests.diff.tables import desired, field, spec, wanted
from tests.goldens import Golden
from tests.plan.planning import live, planned

SCHEMA = Path(__file__).parents[2] / "docs" / "schemas" / "plan.schema.json"
ORDERS = spec(field(1, "id", "int"), field(2, "cust_id"), properties={"write.format.default": "parquet"})


def json_schema() -> dict[str, object]:
    schema: dict[str, object] = msgspec.json.decode(schema_page())
    return schema


def plans() -> tuple[PlannedTable, ...]:
    manifest = desired(
        wanted("id", "long"),
        wanted("customer_ref"),
        column_renames={("customer_ref",): "cust_id"},
        properties={"comment": "line one"},
    )
    created = planned(desired(wanted("id", "int"), wanted("x")), None)
    return (
        PlannedTable(plan=planned(manifest, live(ORDERS)), manifest="kind: LakeTable\n", source="orders.yaml"),
        PlannedTable(plan=created),
    )


def test_round_trip() -> None:
    made = plans()
    assert decode(encode(made)) == made


def test_document_fits_its_published_schema() -> None:
    jsonschema.Draft202012Validator(json_schema()).validate(msgspec.json.decode(encode(plans())))


def test_schema_refuses_another_kind() -> None:
    document = msgspec.json.decode(encode(plans()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(json_schema()).validate({**document, "kind": "Pod"})


def test_published_schema_is_current(golden: Golden) -> None:
    golden.check_file(SCHEMA, schema_page())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(b'"line one"', b'"line two"', id="a value"),
        pytest.param(b'"kind: LakeTable', b'"kind: lakeTable', id="the manifest"),
        pytest.param(b'"breaking": true', b'"breaking": false', id="a flag"),
        pytest.param(b'"fingerprint": "sha256:', b'"fingerprint": "sha256:0', id="the fingerprint"),
        pytest.param(b'"owner": ', b'"approved": true, "owner": ', id="a field nobody knows"),
        pytest.param(b'"operation_class": "metadata-only"', b'"operation_class": "destructive"', id="a class"),
    ],
)
def test_a_changed_document_is_refused(before: bytes, after: bytes) -> None:
    content = encode(plans())
    assert before in content
    with pytest.raises(InvalidInput, match="changed after it was written"):
        decode(content.replace(before, after, 1))


def test_every_changed_letter_or_digit_is_noticed() -> None:
    content = encode(plans()[:1])
    accepted = []
    for at in range(0, len(content), 7):
        if content[at : at + 1].isalnum():
            other = b"x" if content[at : at + 1] != b"x" else b"y"
            try:
                decode(content[:at] + other + content[at + 1 :])
            except InvalidInput:
                continue
            accepted.append(content[max(0, at - 20) : at + 20])
    assert accepted == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "no JSON object", id="empty"),
        pytest.param(b"not json", "no JSON object", id="text"),
        pytest.param(b"\xff\xfe", "no JSON object", id="binary"),
        pytest.param(b"[]", "no JSON object", id="list"),
        pytest.param(b'{"kind": "Pod"}', "its kind is not", id="another kind"),
        pytest.param(b'{"kind": "LakeTablePlanDocument", "version": 2}', "has version 2", id="newer"),
        pytest.param(b'{"kind": "LakeTablePlanDocument", "version": 1}', "does not fit its schema", id="truncated"),
    ],
)
def test_refusals_say_what_is_wrong(content: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(says)) as caught:
        decode(content, where="plan.json")
    assert caught.value.where == "plan.json"
    assert caught.value.hint


def test_a_document_holds_no_other_property_of_the_table() -> None:
    canary = "AKIA-canary-4711"
    secretive = spec(field(1, "id", "int"), properties={"s3.secret-access-key": canary, "note": canary})
    made = planned(desired(wanted("id", "long"), properties={"comment": "x"}), live(secretive))
    assert made.operations
    assert canary.encode() not in encode([PlannedTable(plan=made)])
    assert b"comment" in encode([PlannedTable(plan=made)])  # the property that the plan is about is there
