"""What the operator writes back: the status of each kind. People never write these; the CRDs carry them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from reconciler.model.manifest.common import ClassName, Model

ConditionText = Annotated[str, Field(max_length=1024)]


class Condition(Model):
    """One aspect of the resource's state, as Kubernetes has it."""

    type: Annotated[
        str, Field(description="Ready, Reconciling, Stalled, Available, Drifted, BackfillComplete or Fresh.")
    ]
    status: Annotated[Literal["True", "False", "Unknown"], Field(description="True, False or Unknown.")]
    reason: Annotated[str, Field(description="Why, as one of the documented reasons.", max_length=1024)]
    message: Annotated[ConditionText, Field(description="Why, for people.")]
    last_transition_time: Annotated[str, Field(description="When the status last changed.")]
    observed_generation: Annotated[int | None, Field(description="The generation this is about.")] = None


class TableStatus(Model):
    """The live table as last observed."""

    uuid: Annotated[str | None, Field(description="The table's uuid.")] = None
    catalog: Annotated[str | None, Field(description="The LakeCatalog it lies in, as namespace/name.")] = None
    identifier: Annotated[str | None, Field(description="The table's name in the catalog.")] = None
    snapshot_id: Annotated[int | None, Field(description="The snapshot main points to.")] = None
    schema_id: Annotated[int | None, Field(description="The current schema.")] = None
    spec_id: Annotated[int | None, Field(description="The default partition spec.")] = None
    rows: Annotated[int | None, Field(description="Rows in the table.")] = None
    bytes: Annotated[int | None, Field(description="Bytes of its data files.")] = None


class PlanStatus(Model):
    """The plan that is waiting or running."""

    name: Annotated[str | None, Field(description="The LakeTablePlan that holds it.")] = None
    hash: Annotated[str | None, Field(description="What an approval names: sha256:…")] = None
    short_hash: Annotated[str | None, Field(description="The hash's first eight digits.")] = None
    class_: Annotated[ClassName | None, Field(description="The highest class of its operations.", alias="class")] = None
    operations: Annotated[int | None, Field(description="How many operations it has.")] = None
    files_to_rewrite: Annotated[int | None, Field(description="Files it rewrites.")] = None
    bytes_to_rewrite: Annotated[int | None, Field(description="Bytes it rewrites.")] = None
    rewrite: Annotated[str | None, Field(description="Bytes it rewrites, for people: 412Gi.")] = None
    breaking: Annotated[bool | None, Field(description="Whether readers of the table notice.")] = None
    summary: Annotated[ConditionText | None, Field(description="The plan in one line.")] = None


class OperationStatus(Model):
    """The operation that is running."""

    id: Annotated[str | None, Field(description="Its id; its branch is called lt_ and this.")] = None
    step: Annotated[str | None, Field(description="What it is doing.")] = None
    chunks: Annotated[str | None, Field(description="Chunks done and all: 3/12.")] = None
    percent: Annotated[int | None, Field(description="How far it is.")] = None
    progress: Annotated[str | None, Field(description="How far it is, for people: 25%.")] = None
    bytes: Annotated[str | None, Field(description="Bytes rewritten so far and in all: 3Gi/12Gi.")] = None
    eta: Annotated[str | None, Field(description="When it should be done, to the minute.")] = None
    job_ref: Annotated[str | None, Field(description="The Job that does it: namespace/name.")] = None


class AppliedStatus(Model):
    """The plan that was applied last."""

    hash: Annotated[str | None, Field(description="Its hash.")] = None
    time: Annotated[str | None, Field(description="When it was applied.")] = None
    generation: Annotated[int | None, Field(description="The generation it was made of.")] = None


class Status(Model):
    """What is known about the resource."""

    observed_generation: Annotated[
        int, Field(description="The generation this status is about; -1 before the first.")
    ] = -1
    conditions: Annotated[
        Annotated[list[Condition], Field(max_length=16)] | None, Field(description="Aspects of the state.")
    ] = None


class LakeTableStatus(Status):
    """What is known about the table."""

    phase: Annotated[str | None, Field(description="In one word: InSync, AwaitingApproval, Applying, …")] = None
    table: Annotated[TableStatus | None, Field(description="The live table as last observed.")] = None
    plan: Annotated[PlanStatus | None, Field(description="The plan that is waiting or running.")] = None
    operation: Annotated[OperationStatus | None, Field(description="The operation that is running.")] = None
    last_applied: Annotated[AppliedStatus | None, Field(description="The plan that was applied last.")] = None
    synced_spec: Annotated[
        str | None, Field(description="The hash of the spec that the table was last equal to; tells drift from change.")
    ] = None
    drift: Annotated[int | None, Field(description="How many changes were made behind the manifest's back.")] = None
