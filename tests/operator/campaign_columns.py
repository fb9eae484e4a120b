"""The fields of a LakeTable's columns, each with two values, and one that is refused."""

from __future__ import annotations

from typing import Any

from tests.kube.campaign import Entry, Spec

COLUMNS = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]


def columns(*more: dict[str, Any]) -> Spec:
    return {"columns": [*COLUMNS, *more]}


def column(**stated: Any) -> Spec:
    return columns({"name": "v", "type": "int"} | stated)


ADDRESS = {"name": "addr", "type": "struct<street: string, zip: string>"}
POSTAL = {"name": "addr", "type": "struct<street: string, postcode: string>"}
DOUBLE = {"name": "double", "type": "long"}
TYPED: dict[str, Any] = {
    "base": columns({"name": "v", "type": "string"}),
    "phases": ("InSync", "Planned", "Planned"),
    "over_base": True,
}


def computed(**stated: Any) -> Spec:
    return columns({**DOUBLE, "computed": {"expression": "id * 2", **stated}})


def changed(**stated: Any) -> Spec:
    """Plan a conversion without doing it: that is a job's."""
    return column(type="long", typeChange={"strategy": "ExpandContract", **stated}) | {"reconcile": {"mode": "Plan"}}


def nested(spec: dict[str, Any], **stated: Any) -> Spec:
    return columns(spec) | {"nestedFields": [stated]}


COLUMN_ENTRIES: dict[str, Entry] = {
    "columns[].name": Entry(
        a=columns({"name": "one", "type": "string"}),
        b=columns({"name": "two", "type": "long"}),
        wrong=columns({"name": "id", "type": "long"}),
        said="the column 'id' is there already",
        wrong_phase="Invalid",
    ),
    "columns[].type": Entry(
        a=column(type="int"),
        b=column(type="long"),
        wrong=column(type="integr"),
        said="integr",
        wrong_phase="Invalid",
        one_way="LK2",
    ),
    "columns[].required": Entry(
        a=column(required=True),
        b=column(required=False),
        wrong=column(required="yes"),
        said="expected boolean",
        base=column(),
    ),
    "columns[].doc": Entry(
        a=column(doc="Some"), b=column(doc="Other"), wrong=column(doc=["Some"]), said="expected string"
    ),
    "columns[].default": Entry(
        base={"formatVersion": 3},
        a={"formatVersion": 3, **column(default=1)},
        b={"formatVersion": 3, **column(default=2)},
        wrong={"formatVersion": 3, **column(default="many")},
        said="does not fit int",
        wrong_phase="Invalid",
    ),
    "columns[].renamedFrom": Entry(
        a={"columns": [COLUMNS[0], {"name": "remark", "type": "string", "renamedFrom": "note"}]},
        b={"columns": [COLUMNS[0], {"name": "memo", "type": "string", "renamedFrom": "remark"}]},
        back={"columns": [COLUMNS[0], {"name": "remark", "type": "string", "renamedFrom": "memo"}]},
        unset={"columns": [COLUMNS[0], {"name": "note", "type": "string", "renamedFrom": "memo"}]},
        wrong={"columns": [COLUMNS[0], {"name": "memo", "type": "string", "renamedFrom": "memo"}]},
        said="has that name already",
        wrong_phase="Invalid",
    ),
    "columns[].computed.expression": Entry(
        a=computed(),
        b=computed(expression="id * 3"),
        wrong=computed(expression="nothing * 2"),
        said="nothing",
        wrong_phase="Invalid",
    ),
    "columns[].computed.onChange": Entry(
        a=computed(onChange="NewRows"),
        b=computed(onChange="Ignore"),
        wrong=computed(onChange="Never"),
        said="Unsupported value",
    ),
    "columns[].computed.version": Entry(
        a=computed(version=1), b=computed(version=2), wrong=computed(version=-1), said="greater than or equal to 0"
    ),
    "columns[].computed.where": Entry(
        a=computed(where="id > 1"),
        b=computed(where="id > 2"),
        wrong=computed(where="id >"),
        said="where",
        wrong_phase="Invalid",
    ),
    "columns[].typeChange.strategy": Entry(
        a=changed(), b=changed(onCastFailure="Null"), wrong=changed(strategy="InPlace"), said="Unsupported", **TYPED
    ),
    "columns[].typeChange.using": Entry(
        a=changed(using="length(v)"),
        b=changed(using="length(trim(v))"),
        wrong=changed(using="length(v"),
        said="using",
        wrong_phase="Invalid",
        **TYPED,
    ),
    "columns[].typeChange.onCastFailure": Entry(
        a=changed(onCastFailure="Null"),
        b=changed(onCastFailure="Fail"),
        wrong=changed(onCastFailure="Ignore"),
        said="Unsupported value",
        **TYPED,
    ),
    "columns[].typeChange.keepOldFor": Entry(
        a=changed(keepOldFor="1d"),
        b=changed(keepOldFor="2d"),
        wrong=changed(keepOldFor="a while"),
        said="should match",
        **TYPED,
    ),
    "schemaFrom.configMap.name": Entry(
        a={"columns": None, "schemaFrom": {"configMap": {"name": "columns-a"}}},
        b={"columns": None, "schemaFrom": {"configMap": {"name": "columns-b"}}},
        wrong={"columns": None, "schemaFrom": {"configMap": {"name": "columns-c"}}},
        said="There is no ConfigMap",
        wrong_phase="Invalid",
    ),
    "schemaFrom.configMap.key": Entry(
        a={"columns": None, "schemaFrom": {"configMap": {"name": "columns-a", "key": "columns.yaml"}}},
        b={"columns": None, "schemaFrom": {"configMap": {"name": "columns-a", "key": "other.yaml"}}},
        wrong={"columns": None, "schemaFrom": {"configMap": {"name": "columns-a", "key": "none.yaml"}}},
        said="has no key",
        wrong_phase="Invalid",
    ),
    "nestedFields[].path": Entry(
        base=columns(ADDRESS),
        a={
            **columns(ADDRESS),
            "nestedFields": [{"path": "addr.zip", "doc": "Code"}, {"path": "addr.street", "doc": ""}],
        },
        b={
            **columns(ADDRESS),
            "nestedFields": [{"path": "addr.zip", "doc": ""}, {"path": "addr.street", "doc": "Code"}],
        },
        wrong=nested(ADDRESS, path="addr.city", doc="Code"),
        said="has no field 'city'",
        wrong_phase="Invalid",
        unset={
            **columns(ADDRESS),
            "nestedFields": [{"path": "addr.zip", "doc": ""}, {"path": "addr.street", "doc": ""}],
        },
    ),
    "nestedFields[].doc": Entry(
        base=columns(ADDRESS),
        a=nested(ADDRESS, path="addr.zip", doc="Code"),
        b=nested(ADDRESS, path="addr.zip", doc="Postal code"),
        unset=nested(ADDRESS, path="addr.zip", doc=""),
        wrong=nested(ADDRESS, path="addr.zip", doc=7),
        said="expected string",
    ),
    "nestedFields[].renamedFrom": Entry(
        base=columns(ADDRESS),
        a=nested(POSTAL, path="addr.postcode", renamedFrom="zip"),
        b=nested({**ADDRESS, "type": "struct<street: string, code: string>"}, path="addr.code", renamedFrom="postcode"),
        back=nested(POSTAL, path="addr.postcode", renamedFrom="code"),
        unset=nested(ADDRESS, path="addr.zip", renamedFrom="code"),
        wrong=nested(POSTAL, path="addr.postcode", renamedFrom="postcode"),
        said="has that name already",
        wrong_phase="Invalid",
    ),
    "nestedFields[].default": Entry(
        base={"formatVersion": 3, **columns({"name": "p", "type": "struct<u: int>"})},
        a={"formatVersion": 3, **nested({"name": "p", "type": "struct<u: int, w: int>"}, path="p.w", default=1)},
        b={"formatVersion": 3, **nested({"name": "p", "type": "struct<u: int, w: int>"}, path="p.w", default=2)},
        wrong={"formatVersion": 3, **nested({"name": "p", "type": "struct<u: int, w: int>"}, path="p.w", default="z")},
        said="does not fit int",
        wrong_phase="Invalid",
    ),
    "identifierFields[]": Entry(
        base={"columns": [{**c, "required": True} for c in COLUMNS]},
        a={"identifierFields": ["id"]},
        b={"identifierFields": ["id", "note"]},
        wrong={"identifierFields": ["nothing"]},
        said="there is no column 'nothing'",
        wrong_phase="Invalid",
        unset={"identifierFields": []},
    ),
}
