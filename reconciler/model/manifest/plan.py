"""The `LakeTablePlan` resource: a plan the operator made. People only set `approved`; everything else is immutable."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from reconciler.model.manifest.common import ClassName, Metadata, Model, Name
from reconciler.model.manifest.status import Status

MAX_CHANGES = 200
MAX_OPERATIONS = 200
MAX_FINDINGS = 100
MAX_DOCUMENT = 921_600

Line = Annotated[str, Field(max_length=1024)]
Word = Annotated[str, Field(max_length=253)]


class PlannedTable(Model):
    """The LakeTable that a plan is for."""

    name: Annotated[Word, Field(description="The LakeTable's name.")]
    uid: Annotated[Word, Field(description="The LakeTable's uid.")]
    generation: Annotated[int, Field(description="The LakeTable's generation that the plan was made of.")]


class PlannedChange(Model):
    """One difference between the live table and the spec."""

    what: Annotated[Line, Field(description="What changes: + amount_eur.")]
    how: Annotated[Line, Field(description="From what to what, with the evidence.")]
    class_: Annotated[ClassName, Field(description="The change's class.", alias="class")]
    breaking: Annotated[bool, Field(description="Whether readers of the table notice.")]


class PlannedOperation(Model):
    """One unit of work."""

    id: Annotated[Word, Field(description="The operation's id; its branch is called lt_ and this.")]
    kind: Annotated[Word, Field(description="What kind of work it is: commit, backfill, …")]
    class_: Annotated[ClassName, Field(description="The operation's class.", alias="class")]
    summary: Annotated[Line, Field(description="What it does.")]
    files_to_rewrite: Annotated[int, Field(description="Files it rewrites.")]
    bytes_to_rewrite: Annotated[int, Field(description="Bytes it rewrites.")]


class PlannedFinding(Model):
    """What a check had to say."""

    code: Annotated[Word, Field(description="The finding's code, such as LK104.")]
    severity: Annotated[Word, Field(description="error, warning or info.")]
    path: Annotated[Line, Field(description="Where: a column's path, or nothing for the table.")]
    message: Annotated[Line, Field(description="What was found.")]
    hint: Annotated[Line, Field(description="What to do about it.")]


class LakeTablePlanSpec(Model):
    """What would be done, as it was planned; immutable but for the approval."""

    approved: Annotated[bool, Field(description="Set it to true to approve exactly this plan.")] = False
    table_ref: Annotated[PlannedTable, Field(description="The LakeTable it is for.")]
    identifier: Annotated[Name, Field(description="The table's name in the catalog.")]
    hash: Annotated[Word, Field(description="What an approval names: sha256:…")]
    class_: Annotated[ClassName, Field(description="The highest class of its operations.", alias="class")]
    breaking: Annotated[bool, Field(description="Whether readers of the table notice.")]
    summary: Annotated[Line, Field(description="The plan in one line.")]
    changes: Annotated[list[PlannedChange], Field(description="What differs, riskiest first.", max_length=MAX_CHANGES)]
    operations: Annotated[
        list[PlannedOperation], Field(description="What would be done, in order.", max_length=MAX_OPERATIONS)
    ]
    findings: Annotated[list[PlannedFinding], Field(description="What the checks had to say.", max_length=MAX_FINDINGS)]
    adoption: Annotated[
        str,
        Field(description="With onDrift ProposeAdopt: the manifest that says what the table is.", max_length=262_144),
    ] = ""
    document: Annotated[
        str,
        Field(
            description="The whole plan document, compressed (base64 of gzip); empty when it is too large.",
            max_length=MAX_DOCUMENT,
        ),
    ] = ""


class LakeTablePlanStatus(Status):
    """What became of the plan."""

    phase: Annotated[
        Literal["Pending", "Approved", "Applying", "Applied", "Superseded", "Stale", "Failed"] | None,
        Field(description="Pending, Approved, Applying, Applied, Superseded, Stale or Failed."),
    ] = None
    message: Annotated[Line | None, Field(description="Why, for people.")] = None
    started_at: Annotated[str | None, Field(description="When it began to be carried out.")] = None
    finished_at: Annotated[str | None, Field(description="When it ended.")] = None


class LakeTablePlan(Model):
    """A plan for one LakeTable, made by the operator; approve it by setting spec.approved."""

    api_version: Annotated[Literal["laketable.dev/v1alpha1"], Field(description="laketable.dev/v1alpha1")]
    kind: Annotated[Literal["LakeTablePlan"], Field(description="LakeTablePlan")]
    metadata: Annotated[Metadata, Field(description="Name, namespace, labels.")]
    spec: Annotated[LakeTablePlanSpec, Field(description="What would be done.")]
