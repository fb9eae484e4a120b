"""Findings as SARIF 2.1.0, for code-scanning tools: one rule per code of the registry, one result per finding.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from reconciler.model.type_strings import print_path
from reconciler.plan.findings import REGISTRY, FindingKind
from reconciler.plan.operations import Finding, Severity
from reconciler.render.safe import clean

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_HELP = "https://laketable.dev/findings"

# In a SARIF message `[text](target)` is a link and `{0}` a placeholder; names must not make either.
_MARKUP = re.compile(r"\[(?=[^\]]*\]\()|\{\d+\}")

Json = dict[str, "JsonItem"]
JsonItem = str | int | bool | list["JsonItem"] | Json


class LocatedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding and the place in a manifest that it is about; lines and columns count from 1, 0 is unknown."""

    finding: Finding
    table: str
    file: str
    line: int = 0
    column: int = 0


def render_sarif(findings: Iterable[LocatedFinding], *, version: str) -> str:
    """Render findings as one SARIF log, ending in a newline; `version` is LakeTable's own."""
    located = tuple(findings)
    codes = sorted({item.finding.code for item in located})
    driver: Json = {
        "name": "LakeTable",
        "informationUri": "https://laketable.dev",
        "version": version,
        "rules": [_rule(code) for code in codes],
    }
    run: Json = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(item, codes) for item in located],
    }
    log: Json = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode() + "\n"


def _rule(code: str) -> Json:
    kind: FindingKind | None = REGISTRY.get(code)
    if kind is None:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": kind.title},
        "fullDescription": {"text": kind.why},
        "help": {"text": kind.fix},
        "helpUri": f"{_HELP}/{code}",
        "defaultConfiguration": {"level": _LEVELS[kind.severity]},
    }


def _result(item: LocatedFinding, codes: Sequence[str]) -> Json:
    finding = item.finding
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": _message(item)},
        "locations": [_location(item)],
        # Lines move when a manifest is edited; what the finding is about does not.
        "partialFingerprints": {"laketable/v1": _fingerprint(item)},
    }
    if finding.suppressed is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": clean(finding.suppressed)}]
    return result


def _message(item: LocatedFinding) -> str:
    finding = item.finding
    place = ".".join(filter(None, (item.table, print_path(finding.path))))
    text = clean(f"{place}: {finding.message}{' ' + finding.hint if finding.hint else ''}")
    return _MARKUP.sub(lambda found: f"\\{found.group()}" if found.group() == "[" else f"{{{found.group()}}}", text)


def _location(item: LocatedFinding) -> Json:
    physical: Json = {
        "artifactLocation": {"uri": quote(item.file.replace("\\", "/"), safe="/~", errors="surrogateescape")}
    }
    if item.line > 0:
        region: Json = {"startLine": item.line}
        if item.column > 0:
            region["startColumn"] = item.column
        physical["region"] = region
    name = ".".join(filter(None, (item.table, print_path(item.finding.path))))
    return {"physicalLocation": physical, "logicalLocations": [{"fullyQualifiedName": clean(name), "kind": "member"}]}


def _fingerprint(item: LocatedFinding) -> str:
    file = item.file.encode("utf-8", "backslashreplace").decode()
    about = msgspec.json.encode((item.finding.code, item.table, file, item.finding.path))
    return hashlib.sha256(about).hexdigest()[:32]
