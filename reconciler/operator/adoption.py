"""What to write into a manifest so that a drifted table becomes the wanted one: the proposal of `ProposeAdopt`.

A merge patch, as YAML: only keys that the manifest states, each with the value that the live table has. Columns that
somebody else added stay unmanaged; one that was ours and was renamed is ours still.
"""

from __future__ import annotations

from reconciler.model.bookkeeping import managed_columns
from reconciler.model.manifest import LakeTable
from reconciler.model.observed_manifest import from_observed
from reconciler.model.table import Observed
from reconciler.model.yaml import Data
from reconciler.model.yaml_text import dump_data

_KEYS = ("identifierFields", "partitioning", "sortOrder", "writeDistribution", "comment", "formatVersion")


def adoption(manifest: LakeTable, observed: Observed) -> str:
    """Return the patch; empty when the manifest's own words leave nothing to adopt."""
    stated = _spec(manifest)
    live = _spec(from_observed(observed, manifest.metadata.name, manifest.metadata.namespace, None))
    spec: dict[str, Data] = {key: live.get(key) for key in _KEYS if key in stated and stated[key] != live.get(key)}
    columns = _columns(stated, live, observed)
    if columns is not None:
        spec["columns"] = columns
    properties = _properties(stated, observed)
    if properties:
        spec["properties"] = properties
    return dump_data({"spec": spec}) if spec else ""


def _spec(manifest: LakeTable) -> dict[str, Data]:
    dumped: dict[str, Data] = manifest.model_dump(exclude_unset=True)["spec"]
    return dumped


def _columns(stated: dict[str, Data], live: dict[str, Data], observed: Observed) -> list[Data] | None:
    wanted, found = stated.get("columns"), live.get("columns")
    if not isinstance(wanted, list) or not isinstance(found, list):
        return None
    by_name = {str(column["name"]): column for column in wanted if isinstance(column, dict)}
    ours = managed_columns(observed.bookkeeping)
    managed = {field.name for field in observed.spec.schema.fields if field.id in ours}
    adopted: list[Data] = []
    for column in found:
        if not isinstance(column, dict) or str(column["name"]) not in by_name.keys() | managed:
            continue
        kept = {key: value for key, value in by_name.get(str(column["name"]), {}).items() if key in _AUTHORS}
        adopted.append({**column, **kept})
    return None if adopted == wanted else adopted


_AUTHORS = ("computed", "typeChange")
"""What only a manifest knows of a column."""


def _properties(stated: dict[str, Data], observed: Observed) -> dict[str, Data]:
    wanted = stated.get("properties")
    live = observed.spec.properties
    return {
        key: live.get(key)
        for key, value in (wanted if isinstance(wanted, dict) else {}).items()
        if live.get(key) != value
    }
