"""Every field of LakePolicies and LakeCatalogs is set, changed, set back, set wrong, corrected and taken away."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
import yaml

from reconciler.catalogs.connection import explicit
from reconciler.catalogs.iceberg import IcebergCatalog
from reconciler.model.table import TableIdent
from tests.kube.campaign import STAGE_SECONDS, Spec, leaves, spec_schema, states
from tests.kube.client import KINDS, Client
from tests.kube.cluster import Cluster
from tests.kube.operator import Operator, catalog, condition, eventually, policy, table
from tests.operator.campaign_rules import CATALOG_RULES, POLICY_RULES, WAITS

RULES = {"LakePolicy": POLICY_RULES, "LakeCatalog": CATALOG_RULES}
PLURALS = {"LakePolicy": "lakepolicies", "LakeCatalog": "lakecatalogs"}


Told = Mapping[str, Any]
"""By namespace, what the resource and the table say of themselves."""


class Campaign:
    """One namespace for each field, with the resource, named `x`, and a table `t` whose plan waits."""

    def __init__(self, cluster: Cluster, prefix: str, kind: str, properties: dict[str, str]) -> None:
        self.cluster, self.kind, self.properties = cluster, kind, properties
        self.rules = {f"{prefix}-{n:02}": rule for n, rule in enumerate(RULES[kind].values())}
        self.paths = dict(zip(self.rules, RULES[kind], strict=True))

    def document(self, namespace: str, stated: Spec) -> dict[str, Any]:
        """Return the resource of a namespace, called like it, with a field stated."""
        if self.kind == "LakePolicy":
            return policy(namespace, namespace, **{"autoApprove": ["metadata-only"], **stated})
        properties = self.properties | stated.get("properties", {})
        return catalog(namespace, namespace, properties, **{k: v for k, v in stated.items() if k != "properties"})

    def apply(self, documents: list[dict[str, Any]]) -> str:
        """Apply many resources at once; return what was refused."""
        flags = ("--server-side", "--force-conflicts", "-f", "-")
        return self.cluster.kubectl("apply", *flags, stdin=yaml.safe_dump_all(documents), check=False).stderr

    def set_up(self) -> None:
        """Make the tables with a row each, and then the wish that waits."""
        documents: list[dict[str, Any]] = []
        for name in self.rules:
            documents.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        assert self.apply(documents) == ""
        documents = []
        for name in self.rules:
            documents += [catalog(name, name, self.properties), *map(_secret, (name, name), ("one", "two"))]
            documents.append(table("t", name, "id long", "note string"))
            documents += [self.document(name, {})] if self.kind == "LakePolicy" else []
        assert self.apply(documents) == ""
        self.wait(dict.fromkeys(self.rules, "InSync"))
        for name in self.rules:
            lake, ident = IcebergCatalog(explicit(name, self.properties)), TableIdent((name,), "t")
            batch = pa.record_batch({"id": pa.array([1], pa.int64()), "note": pa.array(["n"])})
            lake.commit(ident, [lake.write_batch(ident, batch, "seed")])
        wish = {"columns": [{"name": "id", "type": "long"}, DOUBLE]}
        assert self.apply([{**table("t", name), "spec": wish} for name in self.rules]) == ""

    def stage(self, values: Mapping[str, Spec], shows: Mapping[str, str], like: Told | None = None) -> Told:
        """Bring resources to values; return what came of each once it shows, or is like what it was before."""
        assert self.apply([self.document(name, stated) for name, stated in values.items()]) == ""
        return self.wait(shows, like)

    def wait(self, shows: Mapping[str, str], like: Told | None = None) -> Told:
        """Wait until all have heard of their newest specs and the tables show what they should, and only that."""

        def is_right(name: str, found: Told) -> bool:
            if like is not None:
                return bool(found.get(name) == like[name])
            text, others = str(found.get(name)), set(self.rules[name].shows) - {shows[name], WAITS}
            return name in found and shows[name] in text and not any(word in text for word in others)

        def reached() -> Told:
            found = self.states()
            odd = {self.paths[name]: found.get(name) for name in shows if not is_right(name, found)}
            assert not odd, "\n".join(f"{path}: {told}" for path, told in odd.items())
            return {name: found[name] for name in shows}

        result: Told = eventually(reached, STAGE_SECONDS, 0.3)
        return result

    def states(self) -> Told:
        """Describe what is there, by namespace; nothing of what has not heard of its newest spec."""
        resources, tables = (
            {
                i["metadata"]["namespace"]: i
                for i in self.cluster.list(plural)
                if i["metadata"]["namespace"] in self.rules
            }
            for plural in (PLURALS[self.kind], "laketables")
        )
        return {
            name: [_told(resources[name]), _told(tables[name])]
            for name in self.rules
            if name in resources and _is_seen(resources[name]) and _is_seen(tables[name])
        }


DOUBLE = {"name": "double", "type": "long", "computed": {"expression": "id * 2"}}


def _secret(namespace: str, name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": "x"}}


def _is_seen(resource: dict[str, Any]) -> bool:
    return bool(resource.get("status", {}).get("observedGeneration") == resource["metadata"]["generation"])


def _told(resource: dict[str, Any]) -> tuple[str, ...]:
    ready, namespace = condition(resource, "Ready"), resource["metadata"]["namespace"]
    message = re.sub(r"sha256:\w+|[0-9][0-9.]* ([KMG]i)?B\b|\d\d:\d\d \w+", "…", ready.get("message", ""))
    message = message.replace(namespace, "<namespace>")
    return (resource["status"].get("phase", ""), ready.get("status", ""), ready.get("reason", ""), message)


@pytest.mark.parametrize("kind", RULES)
def test_no_field_is_forgotten(kind: str) -> None:
    assert set(leaves(spec_schema(kind))) == set(RULES[kind])
    for path, entry in RULES[kind].items():
        assert states(entry.a, path), path
        assert states(entry.b, path), path


@pytest.mark.parametrize("kind", RULES)
def test_every_field_leads_to_the_same_whichever_way_it_came(
    cluster: Cluster, operator: Operator, operator_kubeconfig: object, kind: str, sqlite_catalog: dict[str, str]
) -> None:
    campaign = Campaign(cluster, f"rules-{kind.lower()}", kind, sqlite_catalog)
    rules = campaign.rules
    campaign.set_up()
    base = campaign.wait(dict.fromkeys(rules, WAITS))
    shows = [{name: entry.shows[n] for name, entry in rules.items()} for n in range(2)]
    values = [{name: entry.a for name, entry in rules.items()}, {name: entry.b for name, entry in rules.items()}]
    first = campaign.stage(values[0], shows[0])
    second = campaign.stage(values[1], shows[1])
    campaign.stage(values[0], shows[0], like=first)
    set_wrong(campaign, first)
    campaign.stage(values[1], shows[1], like=second)
    campaign.stage({name: {} for name in rules}, dict.fromkeys(rules, WAITS), like=base)

    # As a fresh deploy: the resource is made anew with the last value.
    client = Client(cluster)
    for name in rules:
        client.delete(KINDS[kind], name, name)
    campaign.stage(values[1], shows[1], like=second)


def set_wrong(campaign: Campaign, before: Told) -> None:
    """Say something wrong in each field: it is refused, and no plan gets through by it."""
    refused = campaign.apply([campaign.document(name, entry.wrong) for name, entry in campaign.rules.items()])
    by_api = {name: entry for name, entry in campaign.rules.items() if not entry.in_status}
    for name, entry in by_api.items():
        told = [line for line in refused.splitlines() if name in line]
        assert any(entry.said in line for line in told), (campaign.paths[name], told)
    campaign.wait(dict.fromkeys(by_api, ""), like=before)
    shows = {name: entry.said for name, entry in campaign.rules.items() if entry.in_status}
    for name, (resource, table_) in campaign.wait(shows).items():
        assert resource[1] == "False", campaign.paths[name]
        assert table_[0] in ("Stalled", "Invalid", WAITS), campaign.paths[name]
