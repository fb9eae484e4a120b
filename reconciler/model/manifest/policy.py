"""The `LakePolicy` manifest: guardrails, with their own RBAC, over the plans of many tables; the strictest wins."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from reconciler.model.manifest.common import (
    CLOCK_PATTERN,
    ZONE_PATTERN,
    ClassName,
    Code,
    Metadata,
    Model,
    Name,
    Size,
    Text,
)

ChangeKind = Literal[
    "create-table",
    "drop-table",
    "adopt-table",
    "rename-table",
    "add-column",
    "drop-column",
    "rename-column",
    "move-column",
    "alter-column-type",
    "alter-column-required",
    "alter-column-doc",
    "alter-column-default",
    "set-identifier-fields",
    "set-partitioning",
    "set-sort-order",
    "set-property",
    "unset-property",
    "upgrade-format",
    "create-ref",
    "move-ref",
    "set-ref-retention",
    "drop-ref",
]
Weekday = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
ClockTime = Annotated[str, Field(pattern=CLOCK_PATTERN)]


class Rule(Model):
    """What a rule is about; anything named in it counts."""

    classes: Annotated[
        Annotated[list[ClassName], Field(max_length=4)] | None,
        Field(description="Operation classes: metadata-only, audit, rewrite, destructive."),
    ] = None
    findings: Annotated[
        Annotated[list[Code], Field(max_length=500)] | None, Field(description="Finding codes such as LK104.")
    ] = None
    changes: Annotated[
        Annotated[list[ChangeKind], Field(max_length=100)] | None,
        Field(description="Kinds of changes such as drop-column or rename-table."),
    ] = None
    breaking: Annotated[bool, Field(description="Any change that breaks readers.")] = False
    reason: Annotated[Text | None, Field(description="What to tell the person who meets this rule.")] = None


class Budgets(Model):
    """How much a plan may cost before a person must look at it."""

    max_rewrite_bytes: Annotated[Size | None, Field(description="Bytes one plan may rewrite: 100Gi.")] = None
    max_rewrite_bytes_per_day: Annotated[
        Size | None, Field(description="Bytes that all plans of one table together may rewrite in 24 hours.")
    ] = None
    max_rewrite_files: Annotated[
        Annotated[int, Field(ge=0)] | None, Field(description="Files one plan may rewrite.")
    ] = None
    max_cost_drift_percent: Annotated[
        Annotated[int, Field(ge=0, le=10_000)] | None,
        Field(description="How far the cost may grow between approval and apply."),
    ] = None


class Window(Model):
    """When plans may be applied; outside of every window they wait."""

    days: Annotated[
        Annotated[list[Weekday], Field(max_length=7)] | None,
        Field(description="Days it opens on; by default every day."),
    ] = None
    start: Annotated[ClockTime, Field(description="When it opens: 22:00.")]
    end: Annotated[ClockTime, Field(description="When it closes; before the start means on the next day.")]
    time_zone: Annotated[
        str, Field(description="An IANA time zone such as Europe/Prague.", pattern=ZONE_PATTERN, max_length=64)
    ] = "UTC"


class LabelExpression(Model):
    """One condition on a namespace's labels, as Kubernetes has it."""

    key: Annotated[Name, Field(description="The label's key.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], Field(description="In, NotIn, Exists or DoesNotExist.")
    ]
    values: Annotated[
        Annotated[list[str], Field(max_length=100)] | None, Field(description="The values of In and NotIn.")
    ] = None


class LabelSelector(Model):
    """Which namespaces a policy of the operator's namespace covers."""

    match_labels: Annotated[
        Annotated[dict[str, str], Field(max_length=100)] | None, Field(description="Labels that must be equal.")
    ] = None
    match_expressions: Annotated[
        Annotated[list[LabelExpression], Field(max_length=100)] | None,
        Field(description="Conditions that must all hold."),
    ] = None


class LakePolicySpec(Model):
    """The guardrails."""

    namespace_selector: Annotated[
        LabelSelector | None,
        Field(description="Namespaces covered by a policy in the operator's namespace; by default all."),
    ] = None
    auto_approve: Annotated[
        Annotated[list[ClassName], Field(max_length=4)] | None,
        Field(description="Classes applied without approval; destructive never is."),
    ] = None
    deny: Annotated[Rule | None, Field(description="What is never applied, approved or not.")] = None
    require_approval: Annotated[Rule | None, Field(description="What always waits for approval.")] = None
    budgets: Annotated[Budgets | None, Field(description="Limits above which a plan waits for approval.")] = None
    windows: Annotated[
        Annotated[list[Window], Field(max_length=100)] | None,
        Field(description="When plans beyond metadata-only may be applied; by default always."),
    ] = None
    severities: Annotated[
        Annotated[dict[Code, Literal["error", "warning", "info"]], Field(max_length=500)] | None,
        Field(description="Another severity for a finding's code."),
    ] = None
    protected_names: Annotated[
        Annotated[list[Name], Field(max_length=1000)] | None,
        Field(description="Tables whose destructive plans are denied: gold.*, sales.orders."),
    ] = None


class LakePolicy(Model):
    """Guardrails for plans."""

    api_version: Annotated[Literal["laketable.dev/v1alpha1"], Field(description="laketable.dev/v1alpha1")]
    kind: Annotated[Literal["LakePolicy"], Field(description="LakePolicy")]
    metadata: Annotated[Metadata, Field(description="Name, namespace, labels.")]
    spec: Annotated[LakePolicySpec, Field(description="The guardrails.")]
