"""`kubectl laketable`: read a cluster's LakeTables, their plans and lineage, and approve a plan by its hash.

It asks and writes through kubectl, hence with the caller's context, credentials and rights.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import click

from reconciler.errors import EnvironmentProblem, InvalidInput
from reconciler.operator.lineage import lineage_of
from reconciler.operator.objects import Json, int_at, items_at, mapping_at, meta_of, text_at
from reconciler.operator.store import TABLE_LABEL
from reconciler.plan.document import decode
from reconciler.plan.operations import Plan
from reconciler.render.lineage import render_lineage, render_mermaid
from reconciler.render.report import Report
from reconciler.render.safe import clean
from reconciler.render.text import render_report

_TABLES, _PLANS = "laketables.laketable.dev", "laketableplans.laketable.dev"
_WAITING = ("", "Pending")
_HASH_DIGITS = 8
_LARGEST_DOCUMENT = 64 * 2**20
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the flags that say which cluster and namespace is meant."""

    flags: tuple[str, ...]

    def run(self, *arguments: str) -> str:
        """Return what kubectl prints; when it fails it has said why itself."""
        try:
            done = subprocess.run(["kubectl", *arguments, *self.flags], stdout=subprocess.PIPE, text=True, check=False)
        except FileNotFoundError as error:
            raise EnvironmentProblem("There is no kubectl on the PATH.", hint="Install kubectl.") from error
        if done.returncode != 0:
            raise click.exceptions.Exit(done.returncode)
        return done.stdout

    def read(self, *arguments: str) -> Json:
        """Return an object, or a list of them."""
        found: Json = json.loads(self.run("get", *arguments, "-o", "json"))
        return found

    def plans(self, table: str) -> list[Json]:
        """Return a table's plans, the oldest first."""
        self.run("get", _TABLES, table, "-o", "name")
        found = items_at(self.read(_PLANS, "-l", f"{TABLE_LABEL}={table}"), "items")
        return sorted(found, key=_age)


@click.group("laketable", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="laketable", message="laketable %(version)s")
def command() -> None:
    """Look at LakeTables and their plans in a cluster, and approve plans."""


def _in_cluster(function: Callable[..., None]) -> Callable[..., None]:
    """Take kubectl's own flags."""

    def run(namespace: str | None, context: str | None, kubeconfig: str | None, **arguments: str | bool) -> None:
        stated = (("--namespace", namespace), ("--context", context), ("--kubeconfig", kubeconfig))
        function(Kubectl(tuple(f"{flag}={value}" for flag, value in stated if value)), **arguments)

    run.__doc__ = function.__doc__
    for option in (
        click.option("--kubeconfig", help="The kubeconfig, as for kubectl."),
        click.option("--context", help="The kubeconfig's context, as for kubectl."),
        click.option("-n", "--namespace", help="The namespace, as for kubectl."),
    ):
        run = option(run)
    return run


@command.command("status")
@click.argument("table", default="")
@_in_cluster
def status_command(kubectl: Kubectl, table: str) -> None:
    """List LakeTables, or say how one of them is and what it waits for."""
    if not table:
        _say(kubectl.run("get", _TABLES, "-o", "wide").splitlines())
        return
    raw = kubectl.read(_TABLES, table)
    status = mapping_at(raw, "status")
    ready = next((found for found in items_at(status, "conditions") if found.get("type") == "Ready"), {})
    lines = [
        f"{table}: {text_at(status, 'phase') or 'not seen yet'} ({text_at(ready, 'reason')})",
        text_at(ready, "message"),
    ]
    if int_at(status, "observedGeneration") != int_at(raw, "metadata", "generation"):
        lines.append("The operator has not seen the newest spec yet.")
    if progress := text_at(status, "operation", "progress"):
        lines.append(f"progress {progress}")
    waiting = [plan for plan in kubectl.plans(table) if _phase(plan) in _WAITING and _is_of(plan, raw)]
    for plan in waiting[-1:]:
        short = _digits(plan)[:_HASH_DIGITS]
        lines += [f"plan {short}: {text_at(plan, 'spec', 'summary')}", f"see it: kubectl laketable plan {table}"]
    _say(line for line in lines if line)


@command.command("plan")
@click.argument("table")
@_in_cluster
def plan_command(kubectl: Kubectl, table: str) -> None:
    """Show a LakeTable's newest plan as its reviewer reads it."""
    plans = kubectl.plans(table)
    if not plans:
        _say([f"{table} has no plan."])
        return
    raw = plans[-1]
    _say([f"{text_at(raw, 'spec', 'hash')} ({_phase(raw) or 'Pending'})"])
    plan = _document(raw)
    if plan is None:
        _say(_outline(raw))
    else:
        click.echo(render_report(Report.of(plan), width=_WIDTH, color=False, info=True, next_step=False))
    if _phase(raw) in _WAITING:
        _say([f"approve it: kubectl laketable approve {table} {_digits(raw)[:_HASH_DIGITS]}"])


@command.command("approve")
@click.argument("table")
@click.argument("plan_hash", metavar="HASH")
@_in_cluster
def approve_command(kubectl: Kubectl, table: str, plan_hash: str) -> None:
    """Approve the plan of a LakeTable that has this hash, of which eight digits suffice."""
    digits = plan_hash.removeprefix("sha256:")
    if len(digits) < _HASH_DIGITS:
        raise InvalidInput(f"'{plan_hash}' is too short.", hint=f"Give at least {_HASH_DIGITS} digits of the hash.")
    found = [raw for raw in kubectl.plans(table) if _phase(raw) in _WAITING and _digits(raw).startswith(digits)]
    if len(found) != 1:
        raise InvalidInput(
            f"{table} has {'several plans' if found else 'no plan'} with hash {plan_hash} that could be approved.",
            hint=f"See 'kubectl laketable plan {table}'.",
        )
    _document(found[0])
    meta = meta_of(found[0])
    # with the version that was read: a plan that was superseded meanwhile is not approved
    patch = {"metadata": {"resourceVersion": meta.resource_version}, "spec": {"approved": True}}
    _say(kubectl.run("patch", _PLANS, meta.name, "--type=merge", "--patch", json.dumps(patch)).splitlines())


@command.command("history")
@click.argument("table")
@_in_cluster
def history_command(kubectl: Kubectl, table: str) -> None:
    """List a LakeTable's plans and what became of them, the newest first."""
    rows = [("CREATED", "PLAN", "PHASE", "CLASS", "SUMMARY")]
    for raw in reversed(kubectl.plans(table)):
        spec = mapping_at(raw, "spec")
        created = text_at(raw, "metadata", "creationTimestamp")
        short, class_, summary = _digits(raw)[:_HASH_DIGITS], text_at(spec, "class"), text_at(spec, "summary")
        rows.append((created, short, _phase(raw) or "Pending", class_, summary))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    _say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


@command.command("lineage")
@click.argument("table", default="")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces, as for kubectl.")
@click.option("-o", "--output", type=click.Choice(["text", "mermaid"]), default="text", help="How to print it.")
@_in_cluster
def lineage_command(kubectl: Kubectl, table: str, everywhere: bool, output: str) -> None:
    """Show what views read, column by column; of one LakeTable, or of all that you may read."""
    found = items_at(kubectl.read(_TABLES, *(["--all-namespaces"] if everywhere else [])), "items")
    if table and all(meta_of(raw).name != table for raw in found):
        raise InvalidInput(f"There is no LakeTable {table}.", hint="See 'kubectl laketable status'.")
    lineages = lineage_of(found, table)
    if not lineages:
        _say([f"{table} reads no other table." if table else "There are no views."])
        return
    click.echo((render_mermaid if output == "mermaid" else render_lineage)(lineages))


def _document(raw: Json) -> Plan | None:
    """Return the plan that an object holds, None when it holds none; refuse one that is not what its hash says."""
    text, where = text_at(raw, "spec", "document"), f"LakeTablePlan {meta_of(raw).name}"
    if not text:
        return None
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(base64.b64decode(text))) as packed:
            content = packed.read(_LARGEST_DOCUMENT)
    except (ValueError, OSError, EOFError) as error:
        raise InvalidInput("The plan's document cannot be unpacked.", where=where) from error
    (planned,) = decode(content, where=where)
    if planned.plan.hash != text_at(raw, "spec", "hash"):
        raise InvalidInput(
            "The plan's document is not the plan that its hash names.", where=where, hint="Find out who made it."
        )
    return planned.plan


def _outline(raw: Json) -> Sequence[str]:
    spec = mapping_at(raw, "spec")
    changes = [f"  {text_at(found, 'what')}  {text_at(found, 'how')}" for found in items_at(spec, "changes")]
    findings = [f"  {text_at(found, 'code')} {text_at(found, 'message')}" for found in items_at(spec, "findings")]
    return [text_at(spec, "summary"), *changes, *findings]


def _age(plan: Json) -> tuple[int, str, str]:
    """Order plans; times alone would not do, for they are whole seconds."""
    generation = int_at(plan, "spec", "tableRef", "generation") or 0
    return generation, text_at(plan, "metadata", "creationTimestamp"), meta_of(plan).name


def _phase(raw: Json) -> str:
    return text_at(raw, "status", "phase")


def _digits(raw: Json) -> str:
    return text_at(raw, "spec", "hash").rpartition(":")[2]


def _is_of(plan: Json, table: Json) -> bool:
    return text_at(plan, "spec", "tableRef", "uid") == meta_of(table).uid


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(clean(line))
