"""The fields of a LakeTable, each with two values, and one that is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.kube.campaign import Entry, Place, Spec, Value
from tests.operator.campaign_columns import COLUMN_ENTRIES, columns

SOURCE = "source"
"""A table that views read."""

# ---------------------------------------------------------------- the table as a whole


def elsewhere(catalog: str) -> Spec:
    return {"catalogRef": {"name": "lake", "namespace": catalog}}


def located(place: Place) -> Spec:
    """Say where a table lies, which nothing changes afterwards."""
    return {"location": f"file:///tmp/{place.namespace}/{place.name}"}


TABLE_ENTRIES: dict[str, Entry] = {
    "catalogRef.name": Entry(
        a={"catalogRef": {"name": "lake"}},
        b={"catalogRef": {"name": "second"}},
        wrong={"catalogRef": {"name": "third"}},
        said="There is no LakeCatalog",
        wrong_phase="Stalled",
    ),
    "catalogRef.namespace": Entry(
        a=lambda place: elsewhere(place.namespace),
        b=lambda place: elsewhere(f"{place.namespace}-open"),
        wrong=lambda place: elsewhere(f"{place.namespace}-closed"),
        said="does not let namespace",
        wrong_phase="Stalled",
    ),
    "identifier": Entry(
        a=lambda place: {"identifier": f"{place.namespace}.{place.name}"},
        b=lambda place: {
            "identifier": f"{place.namespace}.{place.name}_b",
            "renamedFrom": f"{place.namespace}.{place.name}",
        },
        back=lambda place: {
            "identifier": f"{place.namespace}.{place.name}",
            "renamedFrom": f"{place.namespace}.{place.name}_b",
        },
        unset=lambda place: {"renamedFrom": f"{place.namespace}.{place.name}_b"},
        wrong=lambda place: {"identifier": f"{place.namespace}.{place.name}_c"},
        said="only together with renamedFrom",
    ),
    "renamedFrom": Entry(
        base=lambda place: {"identifier": f"{place.namespace}.{place.name}_1"},
        a=lambda place: {
            "identifier": f"{place.namespace}.{place.name}_2",
            "renamedFrom": f"{place.namespace}.{place.name}_1",
        },
        b=lambda place: {
            "identifier": f"{place.namespace}.{place.name}_3",
            "renamedFrom": f"{place.namespace}.{place.name}_2",
        },
        back=lambda place: {
            "identifier": f"{place.namespace}.{place.name}_2",
            "renamedFrom": f"{place.namespace}.{place.name}_3",
        },
        unset=lambda place: {
            "identifier": f"{place.namespace}.{place.name}_1",
            "renamedFrom": f"{place.namespace}.{place.name}_3",
        },
        wrong=lambda place: {
            "identifier": f"{place.namespace}.{place.name}_3",
            "renamedFrom": f"{place.namespace}.{place.name}_3",
        },
        said="the table is called",
        wrong_phase="Invalid",
    ),
    "format": Entry(
        a={"format": "iceberg"}, b={"format": "iceberg"}, wrong={"format": "delta"}, said="format never changes"
    ),
    "formatVersion": Entry(
        base={"formatVersion": 1},
        a={"formatVersion": 1},
        b={"formatVersion": 2},
        wrong={"formatVersion": 4},
        said="less than or equal to 3",
        one_way="format version",
    ),
    "location": Entry(
        base=located,
        a=located,
        b=located,
        wrong=lambda place: {"location": f"file:///tmp/{place.namespace}/elsewhere"},
        said="LK604",
        wrong_phase="Denied",
        unset={"location": None},
    ),
    "comment": Entry(a={"comment": "Some"}, b={"comment": "Other"}, wrong={"comment": "x" * 8193}, said="8192"),
    "unmanagedColumns": Entry(
        a={"unmanagedColumns": "Warn"},
        b={"unmanagedColumns": "Adopt"},
        wrong={"unmanagedColumns": "Keep"},
        said="Unsupported value",
        prepare="foreign-column",
    ),
    "partitioning[].column": Entry(
        a={"partitioning": [{"column": "id"}]},
        b={"partitioning": [{"column": "note"}]},
        wrong={"partitioning": [{"column": "nothing"}]},
        said="there is no column 'nothing'",
        wrong_phase="Invalid",
        unset={"partitioning": []},
    ),
    "partitioning[].transform": Entry(
        a={"partitioning": [{"column": "id", "transform": "bucket[4]"}]},
        b={"partitioning": [{"column": "id", "transform": "truncate[10]"}]},
        wrong={"partitioning": [{"column": "id", "transform": "day"}]},
        said="day",
        wrong_phase="Invalid",
        unset={"partitioning": []},
    ),
    "partitioning[].name": Entry(
        a={"partitioning": [{"column": "id", "transform": "bucket[4]", "name": "one"}]},
        b={"partitioning": [{"column": "id", "transform": "bucket[4]", "name": "two"}]},
        wrong={"partitioning": [{"column": "id", "transform": "bucket[4]", "name": "note"}]},
        said="note",
        wrong_phase="Invalid",
        unset={"partitioning": []},
    ),
    "sortOrder[].column": Entry(
        a={"sortOrder": [{"column": "id"}]},
        b={"sortOrder": [{"column": "note"}]},
        wrong={"sortOrder": [{"column": "nothing"}]},
        said="there is no column 'nothing'",
        wrong_phase="Invalid",
        unset={"sortOrder": []},
    ),
    "sortOrder[].direction": Entry(
        a={"sortOrder": [{"column": "id", "direction": "desc"}]},
        b={"sortOrder": [{"column": "id", "direction": "asc"}]},
        wrong={"sortOrder": [{"column": "id", "direction": "up"}]},
        said="Unsupported value",
        unset={"sortOrder": []},
    ),
    "sortOrder[].nulls": Entry(
        a={"sortOrder": [{"column": "id", "nulls": "last"}]},
        b={"sortOrder": [{"column": "id", "nulls": "first"}]},
        wrong={"sortOrder": [{"column": "id", "nulls": "none"}]},
        said="Unsupported value",
        unset={"sortOrder": []},
    ),
    "sortOrder[].transform": Entry(
        a={"sortOrder": [{"column": "id", "transform": "bucket[4]"}]},
        b={"sortOrder": [{"column": "id", "transform": "truncate[10]"}]},
        wrong={"sortOrder": [{"column": "note", "transform": "day"}]},
        said="day",
        wrong_phase="Invalid",
        unset={"sortOrder": []},
    ),
    "writeDistribution": Entry(
        a={"writeDistribution": "hash"},
        b={"writeDistribution": "range"},
        wrong={"writeDistribution": "even"},
        said="Unsupported value",
    ),
    "rewriteExisting": Entry(
        a={"rewriteExisting": True}, b={"rewriteExisting": False}, wrong={"rewriteExisting": 1}, said="expected boolean"
    ),
    "properties{}": Entry(
        a={"properties": {"write.metadata.previous-versions-max": "50"}},
        b={"properties": {"write.metadata.previous-versions-max": "60"}},
        wrong={"properties": {"laketable.owner": "me"}},
        said="'laketable.owner' cannot be set",
        wrong_phase="Invalid",
    ),
    "constraints[].name": Entry(
        a={"constraints": [{"name": "one", "check": "id > 0"}]},
        b={"constraints": [{"name": "two", "check": "id > 0"}]},
        wrong={"constraints": [{"name": "", "check": "id > 0"}]},
        said="should be at least 1",
        unset={"constraints": []},
    ),
    "constraints[].check": Entry(
        a={"constraints": [{"name": "one", "check": "id > 0"}]},
        b={"constraints": [{"name": "one", "check": "id > 1"}]},
        wrong={"constraints": [{"name": "one", "check": "nothing > 1"}]},
        said="nothing",
        wrong_phase="Invalid",
        unset={"constraints": []},
    ),
    "suppress[].code": Entry(
        a={"suppress": [{"code": "LK601", "reason": "known"}]},
        b={"suppress": [{"code": "LK602", "reason": "known"}]},
        wrong={"suppress": [{"code": "601", "reason": "known"}]},
        said="should match",
    ),
    "suppress[].path": Entry(
        a={"suppress": [{"code": "LK601", "reason": "known", "path": "id"}]},
        b={"suppress": [{"code": "LK601", "reason": "known", "path": "note"}]},
        wrong={"suppress": [{"code": "LK601", "reason": "known", "path": "a..b"}]},
        said="suppress",
        wrong_phase="Invalid",
    ),
    "suppress[].reason": Entry(
        a={"suppress": [{"code": "LK601", "reason": "known"}]},
        b={"suppress": [{"code": "LK601", "reason": "accepted"}]},
        wrong={"suppress": [{"code": "LK601", "reason": ""}]},
        said="should be at least 1",
    ),
    "approval.plan": Entry(
        a={"approval": {"plan": "sha256:" + "a" * 64}},
        b={"approval": {"plan": "sha256:" + "b" * 64}},
        wrong={"approval": {"plan": "latest"}},
        said="should match",
    ),
    "approval.drop": Entry(
        a={"approval": {"drop": "00000000-0000-0000-0000-000000000001"}},
        b={"approval": {"drop": "00000000-0000-0000-0000-000000000002"}},
        wrong={"approval": {"drop": "yes"}},
        said="should match",
    ),
}

# ---------------------------------------------------------------- indexes, refs


def index(**stated: Any) -> Spec:
    return {"indexes": [{"name": "one", "columns": ["note"], "type": "bloom"} | stated]}


def tag(**stated: Any) -> Spec:
    return {"tags": [{"name": "one"} | stated]}


def branch(**stated: Any) -> Spec:
    return {"branches": [{"name": "one"} | stated]}


def at_snapshot(place: Place, number: int) -> int:
    return place.snapshots[number][0]


def at_time(place: Place, number: int) -> str:
    return datetime.fromtimestamp(place.snapshots[number][1] / 1000, tz=UTC).isoformat(timespec="milliseconds")


NO_REFS: Spec = {"tags": [], "branches": []}
REF_ENTRIES: dict[str, Entry] = {
    "indexes[].name": Entry(a=index(), b=index(name="two"), wrong=index(name=""), said="should be at least 1"),
    "indexes[].columns[]": Entry(
        a=index(columns=["id"]),
        b=index(columns=["note"]),
        wrong=index(columns=["nothing"]),
        said="there is no column 'nothing'",
        wrong_phase="Invalid",
    ),
    "indexes[].type": Entry(a=index(), b=index(type="ndv"), wrong=index(type="hash"), said="Unsupported value"),
    "indexes[].rewriteExisting": Entry(
        a=index(rewriteExisting=True),
        b=index(rewriteExisting=False),
        wrong=index(rewriteExisting="x"),
        said="expected boolean",
    ),
    "indexes[].properties{}": Entry(
        a=index(properties={"fpp": "0.01"}),
        b=index(properties={"fpp": "0.1"}),
        wrong=index(properties={"fpp": "often"}),
        said="fpp",
        wrong_phase="Invalid",
    ),
    "tags[].name": Entry(
        a=tag(),
        b=tag(name="two"),
        wrong=tag(name="main"),
        said="main",
        wrong_phase="Invalid",
        prepare="rows",
        unset=NO_REFS,
    ),
    "tags[].snapshot.id": Entry(
        a=lambda place: tag(snapshot={"id": at_snapshot(place, 0)}),
        b=lambda place: tag(snapshot={"id": at_snapshot(place, 1)}),
        wrong=tag(snapshot={"id": 7}),
        said="7",
        wrong_phase="Denied",
        prepare="rows",
        unset=NO_REFS,
    ),
    "tags[].snapshot.asOf": Entry(
        a=lambda place: tag(snapshot={"asOf": at_time(place, 0)}),
        b=lambda place: tag(snapshot={"asOf": at_time(place, 1)}),
        wrong=tag(snapshot={"asOf": "yesterday"}),
        said="yesterday",
        wrong_phase="Invalid",
        prepare="rows",
        unset=NO_REFS,
    ),
    "tags[].track": Entry(
        a=tag(track="main", schedule="0 2 * * *"),
        b=tag(track="main", schedule="0 2 * * *"),
        wrong=tag(track="other", schedule="0 2 * * *"),
        said="Unsupported value",
        prepare="rows",
        unset=NO_REFS,
    ),
    "tags[].schedule": Entry(
        a=tag(track="main", schedule="0 2 * * *"),
        b=tag(track="main", schedule="0 3 * * *"),
        wrong=tag(track="main", schedule="0 25 * * *"),
        said="schedule",
        wrong_phase="Invalid",
        prepare="rows",
        unset=NO_REFS,
    ),
    "tags[].retain": Entry(
        a=tag(retain="30d"),
        b=tag(retain="60d"),
        wrong=tag(retain="long"),
        said="should match",
        prepare="rows",
        unset=NO_REFS,
    ),
    "branches[].name": Entry(
        a=branch(),
        b=branch(name="two"),
        wrong=branch(name="main"),
        said="main",
        wrong_phase="Invalid",
        prepare="rows",
        unset=NO_REFS,
    ),
    "branches[].snapshot.id": Entry(
        a=lambda place: branch(snapshot={"id": at_snapshot(place, 0)}),
        b=lambda place: branch(snapshot={"id": at_snapshot(place, 1)}),
        wrong=branch(snapshot={"id": 7}),
        said="7",
        wrong_phase="Denied",
        prepare="rows",
        unset=NO_REFS,
    ),
    "branches[].snapshot.asOf": Entry(
        a=lambda place: branch(snapshot={"asOf": at_time(place, 0)}),
        b=lambda place: branch(snapshot={"asOf": at_time(place, 1)}),
        wrong=branch(snapshot={"asOf": "yesterday"}),
        said="yesterday",
        wrong_phase="Invalid",
        prepare="rows",
        unset=NO_REFS,
    ),
    "branches[].retain": Entry(
        a=branch(retain="30d"),
        b=branch(retain="60d"),
        wrong=branch(retain="long"),
        said="should match",
        prepare="rows",
        unset=NO_REFS,
    ),
    "branches[].maxSnapshotAge": Entry(
        a=branch(maxSnapshotAge="30d"),
        b=branch(maxSnapshotAge="60d"),
        wrong=branch(maxSnapshotAge="long"),
        said="should match",
        prepare="rows",
        unset=NO_REFS,
    ),
    "branches[].minSnapshotsToKeep": Entry(
        a=branch(minSnapshotsToKeep=2),
        b=branch(minSnapshotsToKeep=3),
        wrong=branch(minSnapshotsToKeep=0),
        said="greater than or equal to 1",
        prepare="rows",
        unset=NO_REFS,
    ),
}

# ---------------------------------------------------------------- maintenance, reconcile, views


def upkeep(name: str, **stated: Any) -> Spec:
    return {"maintenance": {name: stated}}


def reconciled(*more: dict[str, Any], **stated: Any) -> Spec:
    return {**(columns(*more) if more else {}), "reconcile": stated}


EXTRA = {"name": "extra", "type": "long"}
DURATION = "should match"
CRON: dict[str, Any] = {"said": "schedule", "wrong_phase": "Invalid"}
UPKEEP_ENTRIES: dict[str, Entry] = {
    **{
        f"maintenance.{name}.{key}": Entry(
            a=upkeep(name, **{key: a}), b=upkeep(name, **{key: b}), wrong=upkeep(name, **{key: wrong}), said=said
        )
        for name, key, a, b, wrong, said in (
            ("expireSnapshots", "olderThan", "8d", "9d", "old", DURATION),
            ("expireSnapshots", "keep", 2, 3, 0, "greater than or equal to 1"),
            ("compact", "targetFileSize", "128Mi", "256Mi", "big", DURATION),
            ("compact", "minInputFiles", 3, 4, 1, "greater than or equal to 2"),
            ("removeOrphanFiles", "olderThan", "8d", "9d", "old", DURATION),
        )
    },
    **{
        f"maintenance.{name}.schedule": Entry(
            a=upkeep(name, schedule="0 2 * * *"),
            b=upkeep(name, schedule="0 3 * * *"),
            wrong=upkeep(name, schedule="0 25 * * *"),
            **CRON,
        )
        for name in ("expireSnapshots", "compact", "rewriteManifests", "removeOrphanFiles")
    },
    **{
        f"maintenance.{name}": Entry(
            a={"maintenance": {name: "8d"}},
            b={"maintenance": {name: "9d"}},
            wrong={"maintenance": {name: "old"}},
            said=DURATION,
        )
        for name in ("keepUndo", "staleBranches")
    },
    "reconcile.mode": Entry(
        a=reconciled(EXTRA, mode="Plan"),
        b=reconciled(EXTRA, mode="Observe"),
        wrong=reconciled(EXTRA, mode="Force"),
        said="Unsupported value",
        phases=("InSync", "Planned", "Observed"),
        over_base=True,
    ),
    "reconcile.interval": Entry(
        a=reconciled(interval="5m"), b=reconciled(interval="1h"), wrong=reconciled(interval="often"), said=DURATION
    ),
    "reconcile.onDrift": Entry(
        a=reconciled(onDrift="Revert"),
        b=reconciled(onDrift="ProposeAdopt"),
        wrong=reconciled(onDrift="Ignore"),
        said="Unsupported value",
    ),
    "reconcile.deletionPolicy": Entry(
        a=reconciled(deletionPolicy="Drop"),
        b=reconciled(deletionPolicy="Retain"),
        wrong=reconciled(deletionPolicy="Keep"),
        said="Unsupported value",
    ),
    "reconcile.suspend": Entry(
        a=reconciled(suspend=True),
        b=reconciled(suspend=False),
        wrong=reconciled(suspend="no"),
        said="expected boolean",
        phases=("InSync", "Suspended", "InSync"),
    ),
}


def view(query: str = "id", **refresh: Any) -> Value:
    """Plan a view without filling it: that is a job's."""

    def value(place: Place) -> Spec:
        text = f"SELECT {query} FROM `{place.namespace}`.{SOURCE}"
        stated = {"query": text, **({"refresh": refresh} if refresh else {})}
        return {"columns": None, "materializedView": stated, "reconcile": {"mode": "Plan"}}

    return value


PLANNED: dict[str, Any] = {"base": view(), "phases": ("Planned", "Planned", "Planned")}
VIEW_ENTRIES: dict[str, Entry] = {
    "materializedView.query": Entry(
        a=view("id, note"),
        b=view("note"),
        wrong=view("nothing"),
        said="nothing",
        wrong_phase="Denied",
        **PLANNED,
    ),
    "materializedView.refresh.mode": Entry(
        a=view(mode="Full"), b=view(mode="Incremental"), wrong=view(mode="Often"), said="Unsupported value", **PLANNED
    ),
    "materializedView.refresh.onSourceChange": Entry(
        a=view(onSourceChange=True),
        b=view(onSourceChange=False),
        wrong=view(onSourceChange=1),
        said="expected boolean",
        **PLANNED,
    ),
    "materializedView.refresh.maxStaleness": Entry(
        a=view(maxStaleness="1h"), b=view(maxStaleness="2h"), wrong=view(maxStaleness="x"), said=DURATION, **PLANNED
    ),
    "materializedView.refresh.schedule": Entry(
        a=view(schedule="0 2 * * *"), b=view(schedule="0 3 * * *"), wrong=view(schedule="0 25 * * *"), **CRON, **PLANNED
    ),
}

ENTRIES = COLUMN_ENTRIES | TABLE_ENTRIES | REF_ENTRIES | UPKEEP_ENTRIES | VIEW_ENTRIES
