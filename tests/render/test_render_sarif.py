"""SARIF against the parts of its official schema that this output uses, written out so that no download is needed."""

import json
from typing import Any

import jsonschema
import pytest

from reconciler.plan.findings import finding
from reconciler.plan.operations import Finding, Severity
from reconciler.render.sarif import LocatedFinding, render_sarif
from tests.goldens import Golden

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
SHAPE = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "run": {
            "required": ["tool", "results"],
            "additionalProperties": False,
            "properties": {
                "tool": {
                    "required": ["driver"],
                    "additionalProperties": False,
                    "properties": {"driver": {"$ref": "#/$defs/component"}},
                },
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
        },
        "component": {
            "required": ["name"],
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string"},
                "version": {"type": "string"},
                "informationUri": {"type": "string"},
                "rules": {"type": "array", "uniqueItems": True, "items": {"$ref": "#/$defs/rule"}},
            },
        },
        "rule": {
            "required": ["id"],
            "additionalProperties": False,
            "properties": {
                "id": {"type": "string"},
                "shortDescription": TEXT,
                "fullDescription": TEXT,
                "help": TEXT,
                "helpUri": {"type": "string", "pattern": "^https://"},
                "defaultConfiguration": {"additionalProperties": False, "properties": {"level": LEVEL}},
            },
        },
        "result": {
            "required": ["message"],
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": -1},
                "level": LEVEL,
                "message": TEXT,
                "locations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
                "suppressions": {
                    "type": "array",
                    "uniqueItems": True,
                    "items": {
                        "required": ["kind"],
                        "additionalProperties": False,
                        "properties": {
                            "kind": {"enum": ["inSource", "external"]},
                            "justification": {"type": "string"},
                        },
                    },
                },
            },
        },
        "location": {
            "additionalProperties": False,
            "properties": {
                "physicalLocation": {
                    "required": ["artifactLocation"],
                    "additionalProperties": False,
                    "properties": {
                        "artifactLocation": {
                            "additionalProperties": False,
                            "properties": {"uri": {"type": "string", "pattern": "^[!-~]+$"}},
                        },
                        "region": {
                            "additionalProperties": False,
                            "properties": {
                                "startLine": {"type": "integer", "minimum": 1},
                                "startColumn": {"type": "integer", "minimum": 1},
                            },
                        },
                    },
                },
                "logicalLocations": {"type": "array"},
            },
        },
    },
}

RENAME = finding("LK104", "Looks like a rename.", path=("customer_ref",))
FINDINGS = [
    LocatedFinding(finding=RENAME, table="sales.orders", file="specs/orders.yaml", line=14, column=7),
    LocatedFinding(
        finding=Finding(code="LK601", severity=Severity.WARNING, path=("debug",), message="Odd.", suppressed="known"),
        table="sales.orders",
        file="specs/my orders.yaml",
    ),
    LocatedFinding(
        finding=finding("LK603", "Matches nothing."), table="sales.orders", file="specs/orders.yaml", line=2
    ),
]


def log(*findings: LocatedFinding) -> Any:
    document = json.loads(render_sarif(findings, version="1.2.3"))
    jsonschema.Draft202012Validator(SHAPE).validate(document)
    return document


def results(*findings: LocatedFinding) -> Any:
    return log(*findings)["runs"][0]["results"]


def test_reads_as_reviewed(golden: Golden) -> None:
    log(*FINDINGS)
    golden.check("render/findings.sarif", render_sarif(FINDINGS, version="1.2.3"))


def test_nothing_found_is_a_valid_log_that_clears_old_alerts() -> None:
    assert results() == []


def test_each_result_points_to_its_rule() -> None:
    run = log(*FINDINGS)["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rules[r["ruleIndex"]]["id"] for r in run["results"]] == ["LK104", "LK601", "LK603"]
    assert [r["level"] for r in run["results"]] == ["error", "warning", "note"]


def test_a_suppression_carries_its_reason() -> None:
    first, second, _ = results(*FINDINGS)
    assert "suppressions" not in first
    assert second["suppressions"] == [{"kind": "inSource", "justification": "known"}]


def test_a_file_name_becomes_a_uri() -> None:
    assert results(FINDINGS[1])[0]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "specs/my%20orders.yaml"}
    }


def test_a_file_name_that_is_not_utf8_keeps_its_bytes() -> None:
    odd = LocatedFinding(finding=RENAME, table="t", file=b"\xff.yaml".decode("utf-8", "surrogateescape"))
    assert results(odd)[0]["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "%FF.yaml"}


def test_the_fingerprint_survives_a_moved_line_only() -> None:
    def print_of(line: int, table: str) -> str:
        item = LocatedFinding(finding=RENAME, table=table, file="a.yaml", line=line)
        return str(results(item)[0]["partialFingerprints"])

    assert print_of(3, "a.b") == print_of(30, "a.b")
    assert print_of(3, "a.b") != print_of(3, "a.c")


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("[click](http://evil.example)", "\\[click](http://evil.example)"),
        ("{0}", "{{0}}"),
        ("bucket[16](id)", "bucket\\[16](id)"),
        ("a\x1b[2Kb", "a\\x1b[2Kb"),
    ],
)
def test_names_make_no_links_and_no_placeholders(message: str, shown: str) -> None:
    odd = Finding(code="LK999", severity=Severity.ERROR, message=message)
    (found,) = results(LocatedFinding(finding=odd, table="t", file="a.yaml"))
    assert found["message"]["text"] == f"t: {shown}"


def test_the_shape_can_fail() -> None:
    document = json.loads(render_sarif(FINDINGS, version="1"))
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert not jsonschema.Draft202012Validator(SHAPE).is_valid(document)
