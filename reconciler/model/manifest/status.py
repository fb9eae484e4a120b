"""What the operator writes back: the status of each kind. People never write these; the CRDs carry them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from reconciler.model.manifest.common import ClassName, Model

ConditionText = Annotated[str, Meta(max_length=1024)]


class Condition(Model, frozen=True, kw_only=True):
    """One aspect of the resource's state, as Kubernetes has it."""

    type: Annotated[
        str, Meta(description="Ready, Reconciling, Stalled, Available, Drifted, BackfillComplete or Fresh.")
    ]
    status: Annotated[Literal["True", "False", "Unknown"], Meta(description="True, False or Unknown.")]
    reason: Annotated[str, Meta(description="Why, as one of the documented reasons.", max_length=1024)]
    message: Annotated[ConditionText, Meta(description="Why, for people.")]
    last_transition_time: Annotated[str, Meta(description="When the status last changed.")]
    observed_generation: Annotated[int | None, Meta(description="The generation this is about.")] = None


class TableStatus(Model, frozen=True, kw_only=True):
    """The live table as last observed."""

    uuid: Annotated[str | None, Meta(description="The table's uuid.")] = None
    identifier: Annotated[str | None, Meta(description="The table's name in the catalog.")] = None
    snapshot_id: Annotated[int | None, Meta(description="The snapshot main points to.")] = None
    schema_id: Annotated[int | None, Meta(description="The current schema.")] = None
    spec_id: Annotated[int | None, Meta(description="The default partition spec.")] = None
    rows: Annotated[int | None, Meta(description="Rows in the table.")] = None
    bytes: Annotated[int | None, Meta(description="Bytes of its data files.")] = None


class PlanStatus(Model, frozen=True, kw_only=True):
    """The plan that is waiting or running."""

    name: Annotated[str | None, Meta(description="The LakeTablePlan that holds it.")] = None
    hash: Annotated[str | None, Meta(description="What an approval names: sha256:…")] = None
    short_hash: Annotated[str | None, Meta(description="The hash's first eight digits.")] = None
    class_: Annotated[ClassName | None, Meta(description="The highest class of its operations.")] = msgspec.field(
        default=None, name="class"
    )
    operations: Annotated[int | None, Meta(description="How many operations it has.")] = None
    files_to_rewrite: Annotated[int | None, Meta(description="Files it rewrites.")] = None
    bytes_to_rewrite: Annotated[int | None, Meta(description="Bytes it rewrites.")] = None
    rewrite: Annotated[str | None, Meta(description="Bytes it rewrites, for people: 412Gi.")] = None


class OperationStatus(Model, frozen=True, kw_only=True):
    """The operation that is running."""

    step: Annotated[str | None, Meta(description="What it is doing.")] = None
    chunks: Annotated[str | None, Meta(description="Chunks done and all: 3/12.")] = None
    percent: Annotated[int | None, Meta(description="How far it is.")] = None
    progress: Annotated[str | None, Meta(description="How far it is, for people: 25%.")] = None
    eta: Annotated[str | None, Meta(description="When it should be done.")] = None
    job_ref: Annotated[str | None, Meta(description="The Job that does it: namespace/name.")] = None


class AppliedStatus(Model, frozen=True, kw_only=True):
    """The plan that was applied last."""

    hash: Annotated[str | None, Meta(description="Its hash.")] = None
    time: Annotated[str | None, Meta(description="When it was applied.")] = None
    generation: Annotated[int | None, Meta(description="The generation it was made of.")] = None


class Status(Model, frozen=True, kw_only=True):
    """What is known about the resource."""

    observed_generation: Annotated[
        int, Meta(description="The generation this status is about; -1 before the first.")
    ] = -1
    conditions: Annotated[
        Annotated[list[Condition], Meta(max_length=16)] | None, Meta(description="Aspects of the state.")
    ] = None


class LakeTableStatus(Status, frozen=True, kw_only=True):
    """What is known about the table."""

    phase: Annotated[str | None, Meta(description="In one word: InSync, AwaitingApproval, Applying, …")] = None
    table: Annotated[TableStatus | None, Meta(description="The live table as last observed.")] = None
    plan: Annotated[PlanStatus | None, Meta(description="The plan that is waiting or running.")] = None
    operation: Annotated[OperationStatus | None, Meta(description="The operation that is running.")] = None
    last_applied: Annotated[AppliedStatus | None, Meta(description="The plan that was applied last.")] = None
    drift: Annotated[int | None, Meta(description="How many changes were made behind the manifest's back.")] = None
