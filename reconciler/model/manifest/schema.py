"""A manifest model's JSON Schema, written out: what the CRDs, the refusals of a wrong shape and `fmt` are made of."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reconciler.model.manifest.common import Model
    from reconciler.model.yaml import Data

Schema = dict[str, "Data"]


@cache
def resolved_schema(model: type[Model]) -> Schema:
    """Return pydantic's schema of a model without references and without null: a null is the same as no key."""
    schema = model.model_json_schema()
    return _resolved(schema, schema.get("$defs", {}))


def parts(schema: Schema, key: str) -> dict[str, Schema]:
    """Return the schemas below `properties` or another key that holds several, by name."""
    found = schema.get(key)
    return {name: part for name, part in found.items() if isinstance(part, dict)} if isinstance(found, dict) else {}


def child(schema: Schema, segment: str | int) -> Schema:
    """Return the schema of an item, of a property or of a mapping's value; one that says nothing when there is none."""
    found = schema.get("items") if isinstance(segment, int) else parts(schema, "properties").get(segment)
    found = schema.get("additionalProperties") if found is None else found
    return found if isinstance(found, dict) else {}


def _resolved(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    reference, options = schema.get("$ref"), schema.get("anyOf")
    if isinstance(reference, str):
        schema = {**definitions[reference.rpartition("/")[2]], **schema}
    elif isinstance(options, list):
        (option, *others) = [option for option in options if option != {"type": "null"}]
        if isinstance(option, dict) and not others:
            stated = {key: value for key, value in schema.items() if key != "anyOf"}
            schema = {**_resolved(option, definitions), **stated}
    elif "patternProperties" in schema:
        # of keys that have a pattern: no CRD may say so
        (values,) = parts(schema, "patternProperties").values()
        schema = {**schema, "additionalProperties": values}
    schema = {key: value for key, value in schema.items() if key not in ("$ref", "$defs", "patternProperties")}
    for key in ("items", "additionalProperties"):
        part = schema.get(key)
        if isinstance(part, dict):
            schema[key] = _resolved(part, definitions)
    if "properties" in schema:
        schema["properties"] = {
            name: _resolved(part, definitions) for name, part in parts(schema, "properties").items()
        }
    return schema
