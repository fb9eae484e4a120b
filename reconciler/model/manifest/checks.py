"""What the parts of a manifest mean together; every check answers with faults, all of them at once.

The entry points are `table_faults`, `catalog_faults` and `policy_faults`, called by `model.documents` after the shape
is known to be right.
"""

from __future__ import annotations

import re

from reconciler.model.faults import Fault
from reconciler.model.manifest.catalog import LakeCatalog
from reconciler.model.manifest.column_checks import Columns, column_faults, nested_field_faults, view_column_faults
from reconciler.model.manifest.layout_checks import layout_faults
from reconciler.model.manifest.policy import LakePolicy, Rule
from reconciler.model.manifest.ref_checks import maintenance_faults, ref_faults
from reconciler.model.manifest.runtime_checks import runtime_faults
from reconciler.model.manifest.table import LakeTable, LakeTableSpec
from reconciler.model.property_keys import COMMENT, DISTRIBUTION_MODE, is_secret_key, loads_code, refusal
from reconciler.model.type_strings import TypeTextError, parse_path

_NAME_PART = re.compile(r"[^\s\x00-\x1f\x7f/\\\"'`;<>*?]+")
_PASSWORD_IN_URL = re.compile(r"://[^/@\s]*:[^/@\s]*@")


def table_faults(table: LakeTable) -> list[Fault]:
    """Return every fault of a LakeTable."""
    spec = table.spec
    faults: list[Fault] = []
    _check_identifier(table, faults)
    if spec.columns is not None:
        columns = Columns(spec.columns)
        column_faults(spec, columns, faults)
        nested_field_faults(spec, columns, faults)
        layout_faults(spec, columns, faults)
        if spec.materialized_view is not None:
            faults += view_column_faults(spec.columns)
    elif spec.schema_from is not None:
        hint = "Write the columns into the manifest, or let the operator plan it."
        message = "a ConfigMap's columns are known to the operator only"
        faults.append(Fault(("spec", "schemaFrom"), message, hint, True))
    elif spec.materialized_view is None:
        faults.append(
            Fault(("spec", "columns"), "'columns' is missing", "A table needs columns or a materializedView.")
        )
    elif spec.nested_fields is not None:
        message = "nestedFields speaks of columns that the manifest does not state"
        faults.append(Fault(("spec", "nestedFields"), message, "State the view's columns too.", True))
    _check_properties(spec, faults)
    ref_faults(spec, faults)
    maintenance_faults(spec, faults)
    for index, entry in enumerate(spec.suppress or ()):
        try:
            parse_path(entry.path or "x")
        except TypeTextError as error:
            faults.append(Fault(("spec", "suppress", index, "path"), error.message, error.hint))
    return faults


def _check_identifier(table: LakeTable, faults: list[Fault]) -> None:
    spec = table.spec
    own = spec.identifier or f"{table.metadata.namespace}.{table.metadata.name}"
    for key, text in (("identifier", spec.identifier), ("renamedFrom", spec.renamed_from)):
        if text is None:
            continue
        parts = text.split(".")
        bad = next((part for part in parts if not _NAME_PART.fullmatch(part)), None)
        if bad is not None:
            what = f"the part '{bad}' holds a character that no table name may have" if bad else "a part is empty"
            faults.append(Fault(("spec", key), f"'{text}' is not a table name: {what}", "Write <namespace>.<table>."))
        elif len(parts) < 2:
            faults.append(Fault(("spec", key), f"'{text}' has no namespace", f"Write <namespace>.{text}."))
    if spec.renamed_from == own:
        faults.append(Fault(("spec", "renamedFrom"), f"the table is called '{own}' already", "Remove renamedFrom."))
    location = spec.location
    if location is not None:
        if not location.isprintable() or ".." in location.split("/"):
            faults.append(Fault(("spec", "location"), "the location holds '..' or a control character"))
        elif _PASSWORD_IN_URL.search(location):
            hint = "Put secrets into the Secret that the LakeCatalog names."
            faults.append(Fault(("spec", "location"), "the location holds a password", hint))
    if spec.format != "iceberg" and spec.format_version is not None:
        message = f"formatVersion is Iceberg's; this table is {spec.format}"
        faults.append(Fault(("spec", "formatVersion"), message, "Remove it.", at_key=True))


def _check_properties(spec: LakeTableSpec, faults: list[Fault]) -> None:
    for key, value in (spec.properties or {}).items():
        refused = refusal(key)
        path = ("spec", "properties", key)
        if refused is not None:
            faults.append(Fault(path, f"'{key}' cannot be set: {refused[0]}", refused[1], at_key=True))
        elif "\0" in value:
            faults.append(Fault(path, "the value holds a NUL character"))
        elif (key == COMMENT and spec.comment is not None) or (
            key == DISTRIBUTION_MODE and spec.write_distribution is not None
        ):
            field = "comment" if key == COMMENT else "writeDistribution"
            faults.append(Fault(path, f"'{key}' is said twice: spec.{field} sets it too", "Remove one.", at_key=True))


def catalog_faults(catalog: LakeCatalog, *, is_tenant: bool = False) -> list[Fault]:
    """Return every fault of a LakeCatalog; `is_tenant` means untrusted: secrets only by reference, no local files."""
    faults: list[Fault] = []
    for key, value in (catalog.spec.properties or {}).items():
        path = ("spec", "properties", key)
        if loads_code(key):
            hint = "If you trust it, set it in PyIceberg's own configuration."
            faults.append(Fault(path, f"'{key}' cannot be set: it names code to load", hint, at_key=True))
        elif is_tenant and is_secret_key(key):
            hint = "Put it into a Secret and name that in spec.secretRef."
            faults.append(Fault(path, f"'{key}' holds a secret", hint, at_key=True))
        elif _PASSWORD_IN_URL.search(value):
            faults.append(Fault(path, f"'{key}' holds a password inside a URL", "Put it into spec.secretRef."))
        elif is_tenant and value.lower().startswith(("file:", "sqlite:", "/")):
            faults.append(Fault(path, f"'{key}' names a local file", "Use an object store or a catalog server."))
    if catalog.spec.runtime is not None:
        faults += runtime_faults(catalog.spec.runtime)
    return faults


def policy_faults(policy: LakePolicy) -> list[Fault]:
    """Return every fault of a LakePolicy."""
    spec = policy.spec
    faults: list[Fault] = []
    for index, name in enumerate(spec.auto_approve or ()):
        if name == "destructive":
            hint = "Approve such a plan by its hash."
            faults.append(Fault(("spec", "autoApprove", index), "destructive plans are never approved blindly", hint))
    for key, rule in (("deny", spec.deny), ("requireApproval", spec.require_approval)):
        if rule is not None and not _names_something(rule):
            hint = "Give it classes, findings, changes or breaking: true."
            faults.append(Fault(("spec", key), f"'{key}' names nothing", hint))
    for index, window in enumerate(spec.windows or ()):
        if window.start == window.end:
            message = f"the window opens and closes at {window.start}"
            hint = "For a whole day write start: 00:00, end: 23:59."
            faults.append(Fault(("spec", "windows", index), message, hint))
    return faults


def _names_something(rule: Rule) -> bool:
    return bool(rule.classes or rule.findings or rule.changes or rule.breaking)
