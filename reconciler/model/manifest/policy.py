"""The `LakePolicy` manifest: guardrails, with their own RBAC, over the plans of many tables; the strictest wins."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

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
ClockTime = Annotated[str, Meta(pattern=CLOCK_PATTERN)]


class Rule(Model, frozen=True, kw_only=True):
    """What a rule is about; anything named in it counts."""

    classes: Annotated[
        Annotated[list[ClassName], Meta(max_length=4)] | None,
        Meta(description="Operation classes: metadata-only, audit, rewrite, destructive."),
    ] = None
    findings: Annotated[
        Annotated[list[Code], Meta(max_length=500)] | None, Meta(description="Finding codes such as LK104.")
    ] = None
    changes: Annotated[
        Annotated[list[ChangeKind], Meta(max_length=100)] | None,
        Meta(description="Kinds of changes such as drop-column or rename-table."),
    ] = None
    breaking: Annotated[bool, Meta(description="Any change that breaks readers.")] = False
    reason: Annotated[Text | None, Meta(description="What to tell the person who meets this rule.")] = None


class Budgets(Model, frozen=True, kw_only=True):
    """How much a plan may cost before a person must look at it."""

    max_rewrite_bytes: Annotated[Size | None, Meta(description="Bytes one plan may rewrite: 100Gi.")] = None
    max_rewrite_bytes_per_day: Annotated[
        Size | None, Meta(description="Bytes all plans together may rewrite a day.")
    ] = None
    max_rewrite_files: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="Files one plan may rewrite.")] = (
        None
    )
    max_cost_drift_percent: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)] | None,
        Meta(description="How far the cost may grow between approval and apply."),
    ] = None


class Window(Model, frozen=True, kw_only=True):
    """When plans may be applied; outside of every window they wait."""

    days: Annotated[
        Annotated[list[Weekday], Meta(max_length=7)] | None, Meta(description="Days it opens on; by default every day.")
    ] = None
    start: Annotated[ClockTime, Meta(description="When it opens: 22:00.")]
    end: Annotated[ClockTime, Meta(description="When it closes; before the start means on the next day.")]
    time_zone: Annotated[
        str, Meta(description="An IANA time zone such as Europe/Prague.", pattern=ZONE_PATTERN, max_length=64)
    ] = "UTC"


class LabelExpression(Model, frozen=True, kw_only=True):
    """One condition on a namespace's labels, as Kubernetes has it."""

    key: Annotated[Name, Meta(description="The label's key.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], Meta(description="In, NotIn, Exists or DoesNotExist.")
    ]
    values: Annotated[
        Annotated[list[str], Meta(max_length=100)] | None, Meta(description="The values of In and NotIn.")
    ] = None


class LabelSelector(Model, frozen=True, kw_only=True):
    """Which namespaces a policy of the operator's namespace covers."""

    match_labels: Annotated[
        Annotated[dict[str, str], Meta(max_length=100)] | None, Meta(description="Labels that must be equal.")
    ] = None
    match_expressions: Annotated[
        Annotated[list[LabelExpression], Meta(max_length=100)] | None,
        Meta(description="Conditions that must all hold."),
    ] = None


class LakePolicySpec(Model, frozen=True, kw_only=True):
    """The guardrails."""

    namespace_selector: Annotated[
        LabelSelector | None,
        Meta(description="Namespaces covered by a policy in the operator's namespace; by default all."),
    ] = None
    auto_approve: Annotated[
        Annotated[list[ClassName], Meta(max_length=4)] | None,
        Meta(description="Classes applied without approval; destructive never is."),
    ] = None
    deny: Annotated[Rule | None, Meta(description="What is never applied, approved or not.")] = None
    require_approval: Annotated[Rule | None, Meta(description="What always waits for approval.")] = None
    budgets: Annotated[Budgets | None, Meta(description="Limits above which a plan waits for approval.")] = None
    windows: Annotated[
        Annotated[list[Window], Meta(max_length=100)] | None,
        Meta(description="When plans beyond metadata-only may be applied; by default always."),
    ] = None
    severities: Annotated[
        Annotated[dict[Code, Literal["error", "warning", "info"]], Meta(max_length=500)] | None,
        Meta(description="Another severity for a finding's code."),
    ] = None
    protected_names: Annotated[
        Annotated[list[Name], Meta(max_length=1000)] | None,
        Meta(description="Tables whose destructive plans are denied: gold.*, sales.orders."),
    ] = None


class LakePolicy(Model, frozen=True, kw_only=True):
    """Guardrails for plans."""

    api_version: Annotated[Literal["laketable.dev/v1alpha1"], Meta(description="laketable.dev/v1alpha1")]
    kind: Annotated[Literal["LakePolicy"], Meta(description="LakePolicy")]
    metadata: Annotated[Metadata, Meta(description="Name, namespace, labels.")]
    spec: Annotated[LakePolicySpec, Meta(description="The guardrails.")]
