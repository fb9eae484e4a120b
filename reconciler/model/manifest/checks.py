"""What the parts of a LakeTable mean together; every check answers with faults, all of them at once.

The entry points are `table_faults` here, `catalog_checks.catalog_faults` and `policy_checks.policy_faults`, called by
`model.documents` after the shape is known to be right.
"""

from __future__ import annotations

import re

from reconciler.model.faults import Fault
from reconciler.model.manifest.column_checks import Columns, column_faults, nested_field_faults, view_column_faults
from reconciler.model.manifest.common import PASSWORD_IN_URL
from reconciler.model.manifest.layout_checks import layout_faults, layout_syntax_faults
from reconciler.model.manifest.ref_checks import maintenance_faults, ref_faults
from reconciler.model.manifest.table import LakeTable, LakeTableSpec
from reconciler.model.property_keys import COMMENT, DISTRIBUTION_MODE, refusal
from reconciler.model.type_strings import TypeTextError, parse_path

_NAME_PART = re.compile(r"[^\s\x00-\x1f\x7f/\\\"'`;<>*?]+")


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
        if spec.schema_from is not None:
            message = "the columns are said twice: spec.columns states them too"
            faults.append(Fault(("spec", "schemaFrom"), message, "Remove one.", True))
    elif spec.schema_from is not None:
        hint = "Write the columns into the manifest, or let the operator plan it."
        message = "a ConfigMap's columns are known to the operator only"
        faults.append(Fault(("spec", "schemaFrom"), message, hint, True))
    elif spec.materialized_view is None:
        faults.append(
            Fault(("spec", "columns"), "'columns' is missing", "A table needs columns or a materializedView.")
        )
    else:
        layout_syntax_faults(spec, faults)
        if spec.nested_fields is not None:
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
        elif PASSWORD_IN_URL.search(location):
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
