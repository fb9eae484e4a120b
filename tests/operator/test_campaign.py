"""Every field of the CRDs is set, changed, set back, set wrong, corrected and taken away: only the last spec counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import yaml

from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.diff.changes import AddColumn
from reconciler.model.table import TableIdent
from reconciler.model.types import Field
from tests.kube.campaign import (
    FORMER,
    JOB_SECONDS,
    STAGE_SECONDS,
    Entry,
    Place,
    Value,
    leaves,
    merged,
    plan_state,
    settle,
    spec_schema,
    states,
    status_state,
    table_state,
)
from tests.kube.cluster import Cluster
from tests.kube.operator import Operator, catalog, condition, policy, table
from tests.operator.campaign_columns import COLUMNS
from tests.operator.campaign_tables import ENTRIES, SOURCE

State = dict[str, Any]
SERVED = ("catalogRef.name", "columns[].default", "nestedFields[].default")
"""What takes a catalog server: PyIceberg's SQL catalogs keep tables apart by name, and write no format version 3."""
CATALOG = {"catalogRef": {"name": "lake"}}
CONFIG_MAPS = {
    "columns-a": {
        "columns.yaml": "- {name: id, type: long}",
        "other.yaml": "- {name: id, type: long}\n- {name: o, type: int}",
    },
    "columns-b": {"columns.yaml": "- {name: id, type: long}\n- {name: b, type: int}"},
}


class Campaign:
    """The LakeTables of a campaign, one for each field; what is wrong with a field is kept in `problems`."""

    def __init__(
        self,
        cluster: Cluster,
        lake: IcebergCatalog,
        namespace: str,
        entries: Mapping[str, Entry],
        *,
        has_rows: bool = False,
    ) -> None:
        """`has_rows`: jobs work on them, and they are looked at too."""
        self.cluster, self._lake, self.namespace = cluster, lake, namespace
        self.has_rows = has_rows
        self.entries = {f"f{number:03}": entry for number, entry in enumerate(entries.values())}
        self.paths = dict(zip(self.entries, entries, strict=True))
        self.problems: list[str] = []
        self._lost = set[str]()
        self._snapshots: dict[str, list[tuple[int, int]]] = {}

    @property
    def going(self) -> list[str]:
        """The fields that still are as they should be."""
        return [name for name in self.entries if name not in self._lost]

    def lose(self, name: str, stage: str, what: str) -> None:
        """Keep what is wrong with a field, and leave it out of what follows."""
        self.problems.append(f"{self.paths[name]} ({name}), {stage}: {what}")
        self._lost.add(name)

    def spec(self, name: str, value: Value | None, suffix: str = "") -> dict[str, Any]:
        """Return the spec of a field's table with a value put into its base."""
        place = Place(self.namespace, name + suffix, self._snapshots.get(name + suffix, ()))
        base = merged({"columns": COLUMNS, **CATALOG}, self.entries[name].base, place)
        return merged(base, value, place)

    def apply(self, specs: Mapping[str, dict[str, Any]], suffix: str = "") -> str:
        """Apply many specs at once; return what was refused."""
        documents = [{**table(name + suffix, self.namespace), "spec": spec} for name, spec in specs.items()]
        # client-side apply patches integers as floating point numbers, and a snapshot's id is too long for those
        flags = ("--server-side", "--force-conflicts", "-f", "-")
        return self.cluster.kubectl("apply", *flags, stdin=yaml.safe_dump_all(documents), check=False).stderr

    def stage(
        self, stage: str, specs: Mapping[str, dict[str, Any]], phases: Mapping[str, str], suffix: str = ""
    ) -> dict[str, State]:
        """Bring tables to specs and phases; return what came of each."""
        refused = self.apply(specs, suffix)
        wanted = {name + suffix: phases[name] for name in specs}
        seconds = JOB_SECONDS if self.has_rows else STAGE_SECONDS
        found, stuck = settle(self.cluster, self.namespace, wanted, seconds)
        for name in specs:
            if name + suffix in stuck:
                self.lose(name, stage, f"{stuck[name + suffix]} {refused}")
        plans = self._plans()
        return {name: self._look(found[name + suffix], plans) for name in specs if name + suffix in found}

    def _plans(self) -> dict[str, Any]:
        return {plan["metadata"]["name"]: plan for plan in self.cluster.list("laketableplans", self.namespace)}

    def look(self, names: Iterable[str], suffix: str = "") -> dict[str, State]:
        """Describe tables and their statuses."""
        found = {item["metadata"]["name"]: item for item in self.cluster.list("laketables", self.namespace)}
        plans = self._plans()
        return {name: self._look(found[name + suffix], plans) for name in names}

    def _look(self, resource: dict[str, Any], plans: Mapping[str, Any]) -> State:
        status = resource["status"]
        waiting = plans.get(status.get("plan", {}).get("name", ""))
        state = status_state(resource) | (plan_state(waiting) if waiting else {})
        identifier = status.get("table", {}).get("identifier")
        if not identifier:
            return state
        state |= table_state(self._lake.get_table_spec(ident(identifier)))
        return state | ({"rows": rows(self._lake, ident(identifier))} if self.has_rows else {})

    def prepare(self, names: Iterable[str], suffix: str = "") -> None:
        """Do to new tables what their entries ask for."""
        for name in names:
            table_name = TableIdent((self.namespace,), name + suffix)
            PREPARATIONS[self.entries[name].prepare](self._lake, table_name)
            seen = self._lake.get_table_spec(table_name)
            self._snapshots[name + suffix] = [(snapshot, time) for time, snapshot in seen.snapshot_log]

    def same(self, stage: str, found: Mapping[str, State], wanted: Mapping[str, State]) -> None:
        """Want tables to be as they were at another stage."""
        for name in found:
            differences = [
                f"{key}: {found[name].get(key)!r}, not {wanted[name].get(key)!r}"
                for key in {**found[name], **wanted[name]}
                if found[name].get(key) != wanted[name].get(key)
            ]
            if differences:
                self.problems.append(f"{self.paths[name]} ({name}), {stage}: {'; '.join(differences)}")


def ident(text: str) -> TableIdent:
    namespace, _, name = text.rpartition(".")
    return TableIdent((namespace,), name)


def rows(lake: IcebergCatalog, name: TableIdent) -> list[str]:
    """Read a table's rows, each once, without what a former column keeps of them."""
    found = (row for batch in lake.open_reader(name).scan() for row in batch.to_pylist())
    return sorted({str({key: value for key, value in row.items() if not key.endswith(FORMER)}) for row in found})


def append_texts(lake: IcebergCatalog, name: TableIdent) -> None:
    texts = pa.record_batch({"id": pa.array([1, 2, 3], pa.int64()), "note": ["n", "o", None], "v": ["1", "30", None]})
    lake.commit(name, [lake.write_batch(name, texts, "seed")])


def append_twice(lake: IcebergCatalog, name: TableIdent) -> None:
    for number in range(2):
        batch = pa.record_batch({"id": pa.array([number], pa.int64()), "note": pa.array(["n"])})
        lake.commit(name, [lake.write_batch(name, batch, f"seed-{number}")])


def add_foreign_column(lake: IcebergCatalog, name: TableIdent) -> None:
    foreign = Field(name="foreign", type="int", required=False)
    lake.apply(name, lake.get_table_spec(name).version, [AddColumn(parent=(), field=foreign, after=None)])


PREPARATIONS = {"rows": append_twice, "texts": append_texts, "foreign-column": add_foreign_column}


def test_no_field_is_forgotten() -> None:
    assert set(leaves(spec_schema("LakeTable"))) == set(ENTRIES)
    place = Place("ns", "t", [(1, 1), (2, 2)])
    for path, entry in ENTRIES.items():
        for value in (entry.a, entry.b):
            assert states(merged({}, value, place), path), path


def test_every_field_of_a_table_leads_to_the_same_whichever_way_it_came(
    cluster: Cluster, operator: Operator, namespace: str, lake: IcebergCatalog, sqlite_catalog: dict[str, str]
) -> None:
    surroundings(cluster, namespace, sqlite_catalog)
    march(Campaign(cluster, lake, namespace, {path: entry for path, entry in ENTRIES.items() if path not in SERVED}))


def test_what_takes_a_catalog_server_leads_to_the_same_too(
    cluster: Cluster, operator: Operator, namespace: str, rest_lake: IcebergCatalog, rest_catalog: dict[str, str]
) -> None:
    surroundings(cluster, namespace, rest_catalog)
    march(Campaign(cluster, rest_lake, namespace, {path: ENTRIES[path] for path in SERVED}))


def march(campaign: Campaign, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Lead every field through all stages; `meanwhile` is done while each has its last value, and so has its twin."""
    entries = campaign.entries
    phases = [{name: entry.phases[number] for name, entry in entries.items()} for number in range(3)]

    campaign.stage("base", {n: campaign.spec(n, None) for n in entries}, phases[0])
    campaign.prepare(n for n in campaign.going if entries[n].prepare)
    base = campaign.look(campaign.going)
    first = campaign.stage("set", {n: campaign.spec(n, entries[n].a) for n in campaign.going}, phases[1])
    second = campaign.stage("changed", {n: campaign.spec(n, entries[n].b) for n in campaign.going}, phases[2])

    both_ways = {n: campaign.spec(n, entries[n].back or entries[n].a) for n in campaign.going if not entries[n].one_way}
    back = campaign.stage("set back", both_ways, phases[1])
    campaign.same("set back", back, first)

    set_wrong(campaign)
    again = campaign.stage("corrected", {n: campaign.spec(n, entries[n].b) for n in campaign.going}, phases[2])
    campaign.same("corrected", again, second)

    twins = campaign.going
    rooted = [n for n in twins if entries[n].over_base or entries[n].prepare]
    campaign.stage("fresh, its base", {n: campaign.spec(n, None, "-fresh") for n in rooted}, phases[0], "-fresh")
    campaign.prepare((n for n in rooted if entries[n].prepare), "-fresh")
    fresh = campaign.stage("fresh", {n: campaign.spec(n, entries[n].b, "-fresh") for n in twins}, phases[2], "-fresh")
    campaign.same("as a fresh deploy", {n: again[n] for n in fresh}, fresh)
    meanwhile()

    away = {n: campaign.spec(n, entries[n].unset) for n in campaign.going if not entries[n].one_way}
    bare = campaign.stage("taken away", away, phases[0])
    campaign.same("taken away", bare, base)
    assert not campaign.problems, "\n".join(campaign.problems)
    assert campaign.has_rows or campaign.cluster.list("jobs", campaign.namespace) == []


def set_wrong(campaign: Campaign) -> None:
    """Say something wrong in each field: it is refused where it should be, and the table stays as it is."""
    entries, before = campaign.entries, campaign.look(campaign.going)
    wrong = {n: campaign.spec(n, entries[n].a if entries[n].one_way else entries[n].wrong) for n in campaign.going}
    refused = campaign.apply(wrong).replace("\n* ", " * ").splitlines()  # several faults of one resource are a list
    waited: dict[str, str] = {}
    for name in campaign.going:
        told = [line for line in refused if f'"{name}"' in line or f"/{name};" in line]
        if entries[name].wrong_phase or entries[name].one_way:
            waited[name] = "Denied" if entries[name].one_way else entries[name].wrong_phase
        elif entries[name].said not in " ".join(told):
            campaign.lose(name, "set wrong", f"not refused with '{entries[name].said}': {told}")
    found, stuck = settle(campaign.cluster, campaign.namespace, waited)
    for name in waited:
        said = entries[name].one_way or entries[name].said
        message = stuck.get(name) or condition(found[name], "Ready")["message"]
        if name in stuck or said not in message:
            campaign.lose(name, "set wrong", f"not refused with '{said}': {message}")
    after = campaign.look(campaign.going)
    campaign.same("set wrong", {n: of_table(after[n]) for n in after}, {n: of_table(before[n]) for n in after})


def of_table(state: State) -> State:
    """Leave out what the status says of a refusal."""
    return {key: part for key, part in state.items() if key not in ("phase", "conditions", "class", "plan", "drift")}


def surroundings(cluster: Cluster, namespace: str, properties: dict[str, str]) -> None:
    """Make what the fields of a campaign refer to."""
    grant = {"namespaces": [namespace], "catalogNamespaces": ["*"], "verbs": ["drop"]}
    cluster.create_namespace(f"{namespace}-open")
    cluster.create_namespace(f"{namespace}-closed")
    maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}
        for name, data in CONFIG_MAPS.items()
    ]
    cluster.apply(
        *maps,
        catalog("second", namespace, properties),
        catalog("lake", f"{namespace}-open", properties, access=[grant]),
        catalog("lake", f"{namespace}-closed", properties),
        policy("all", namespace, autoApprove=["metadata-only", "audit", "rewrite"]),
        table(SOURCE, namespace, "id long", "note string", **CATALOG),
    )
