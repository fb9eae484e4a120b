"""Why a resource stands as it does: the closed list of condition reasons, and of event reasons, with what each means.

`STANDINGS` is the one table from a reason to phase and conditions. A reason of the error tree (`errors`) has the same
name here; a test holds every one of them to this list.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Reason(StrEnum):
    """Reasons of the conditions Ready, Reconciling and Stalled."""

    IN_SYNC = "InSync"
    VALID = "Valid"
    APPLYING = "Applying"
    APPROVAL_REQUIRED = "ApprovalRequired"
    DENIED = "Denied"
    OUTSIDE_WINDOW = "OutsideWindow"
    OBSERVE_ONLY = "ObserveOnly"
    PLAN_ONLY = "PlanOnly"
    DRIFTED = "Drifted"
    SUSPENDED = "Suspended"
    CANCELLED = "Cancelled"
    JOB_RUNNING = "JobRunning"
    JOB_DIED = "JobDied"
    DELETING = "Deleting"
    INVALID_INPUT = "InvalidInput"
    CATALOG_NOT_FOUND = "CatalogNotFound"
    CATALOG_NOT_READY = "CatalogNotReady"
    ACCESS_DENIED = "AccessDenied"
    SOURCE_NOT_READY = "SourceNotReady"
    OWNERSHIP_CONFLICT = "OwnershipConflict"
    UNSUPPORTED = "Unsupported"
    NAMESPACE_NOT_FOUND = "NamespaceNotFound"
    NAMESPACE_ALREADY_EXISTS = "NamespaceAlreadyExists"
    NAMESPACE_NOT_EMPTY = "NamespaceNotEmpty"
    TABLE_NOT_FOUND = "TableNotFound"
    TABLE_ALREADY_EXISTS = "TableAlreadyExists"
    REF_NOT_FOUND = "RefNotFound"
    INVALID_TABLE = "InvalidTable"
    PERMISSION_DENIED = "PermissionDenied"
    UNAUTHENTICATED = "Unauthenticated"
    CATALOG_UNAVAILABLE = "CatalogUnavailable"
    THROTTLED = "Throttled"
    COMMIT_CONFLICT = "CommitConflict"
    PLAN_STALE = "PlanStale"
    PROOF_INVALIDATED = "ProofInvalidated"
    PUBLISH_CONFLICT = "PublishConflict"
    ROWS_REFUSED = "RowsRefused"
    ROWS_NOT_CONVERTED = "RowsNotConverted"
    COMMIT_STATE_UNKNOWN = "CommitStateUnknown"
    TIMED_OUT = "TimedOut"
    ENVIRONMENT_PROBLEM = "EnvironmentProblem"
    KUBERNETES_ERROR = "KubernetesError"
    KUBERNETES_FORBIDDEN = "KubernetesForbidden"
    KUBERNETES_UNAVAILABLE = "KubernetesUnavailable"
    INTERNAL = "Internal"


class Standing(msgspec.Struct, frozen=True):
    """What a reason means: the phase in one word, whether it is worked on or stuck, and a sentence for the runbook."""

    phase: str
    doc: str
    is_ready: bool = False
    is_reconciling: bool = False
    is_stalled: bool = False


def _ready(doc: str) -> Standing:
    return Standing("InSync", doc, is_ready=True)


def _going_on(phase: str, doc: str) -> Standing:
    return Standing(phase, doc, is_reconciling=True)


def _stuck(doc: str, phase: str = "Stalled") -> Standing:
    return Standing(phase, doc, is_stalled=True)


STANDINGS: dict[Reason, Standing] = {
    Reason.IN_SYNC: _ready("The live table is what the spec says."),
    Reason.VALID: Standing("Valid", "The resource is sound.", is_ready=True),
    Reason.APPLYING: _going_on("Applying", "A plan is being carried out."),
    Reason.JOB_RUNNING: _going_on("Applying", "A data job is running; status.operation tells how far it is."),
    Reason.JOB_DIED: _going_on(
        "Retrying", "A data job ended before it was done; another one goes on where it stopped."
    ),
    Reason.DELETING: _going_on("Deleting", "The resource is being deleted."),
    Reason.APPROVAL_REQUIRED: Standing("AwaitingApproval", "The plan waits for the approval of its hash."),
    Reason.OUTSIDE_WINDOW: Standing("AwaitingWindow", "The plan waits for a LakePolicy's window to open."),
    Reason.OBSERVE_ONLY: Standing("Observed", "reconcile.mode is Observe, and the table differs from the spec."),
    Reason.PLAN_ONLY: Standing("Planned", "reconcile.mode is Plan: the plan is made and not carried out."),
    Reason.DRIFTED: Standing(
        "Drifted", "Somebody changed the table behind the spec's back; reconcile.onDrift decides."
    ),
    Reason.SUSPENDED: Standing("Suspended", "reconcile.suspend is true: nothing is observed or done."),
    Reason.CANCELLED: Standing("Cancelled", "The running operation was cancelled by annotation; remove it to go on."),
    Reason.DENIED: _stuck("A policy or a finding forbids the plan.", "Denied"),
    Reason.INVALID_INPUT: _stuck("The spec says something that cannot be; the message names the field.", "Invalid"),
    Reason.CATALOG_NOT_FOUND: _stuck("There is no such LakeCatalog; the table goes on by itself once there is."),
    Reason.CATALOG_NOT_READY: _stuck("The LakeCatalog's own spec or Secret is wrong; see its status."),
    Reason.ACCESS_DENIED: _stuck("The LakeCatalog grants this Kubernetes namespace no such right."),
    Reason.SOURCE_NOT_READY: _going_on("Waiting", "A view waits for a table it reads."),
    Reason.OWNERSHIP_CONFLICT: _stuck("Somebody else's resource owns the table."),
    Reason.UNSUPPORTED: _stuck("The format, the catalog or the engine cannot do this."),
    Reason.NAMESPACE_NOT_FOUND: _going_on("Retrying", "The catalog has no such namespace."),
    Reason.NAMESPACE_ALREADY_EXISTS: _going_on("Retrying", "The catalog's namespace appeared meanwhile."),
    Reason.NAMESPACE_NOT_EMPTY: _stuck("Only an empty namespace is dropped."),
    Reason.TABLE_NOT_FOUND: _going_on("Retrying", "The table vanished while it was worked on."),
    Reason.TABLE_ALREADY_EXISTS: _going_on("Retrying", "Somebody created the table meanwhile."),
    Reason.REF_NOT_FOUND: _stuck("The table has no such tag, branch or snapshot."),
    Reason.INVALID_TABLE: _stuck("The live table's metadata cannot be read."),
    Reason.PERMISSION_DENIED: _stuck("The catalog or the storage refuses the operator's credentials this right."),
    Reason.UNAUTHENTICATED: _going_on("Retrying", "The catalog's credentials are missing, wrong or expired."),
    Reason.CATALOG_UNAVAILABLE: _going_on("Retrying", "The catalog or its storage cannot be reached."),
    Reason.THROTTLED: _going_on("Retrying", "The catalog asks for fewer requests."),
    Reason.COMMIT_CONFLICT: _going_on("Retrying", "Another writer got in first; planned again at once."),
    Reason.PLAN_STALE: _going_on("Retrying", "What was approved no longer fits; a new plan is made."),
    Reason.PROOF_INVALIDATED: _stuck("A writer broke a proof while it was relied on; the change was taken back."),
    Reason.PUBLISH_CONFLICT: _stuck("Others keep rewriting the rows of a data operation; stop them, then reconcile."),
    Reason.ROWS_REFUSED: _stuck("Rows break a constraint or lack a required value; mend them, then reconcile."),
    Reason.ROWS_NOT_CONVERTED: _stuck("Values do not convert to the column's new type; see typeChange.onCastFailure."),
    Reason.COMMIT_STATE_UNKNOWN: _going_on("Retrying", "Nobody knows whether a commit went through; observed again."),
    Reason.TIMED_OUT: _going_on("Retrying", "The work did not end in the time given."),
    Reason.ENVIRONMENT_PROBLEM: _stuck("The operator's or the job's image lacks something."),
    Reason.KUBERNETES_ERROR: _going_on("Retrying", "The Kubernetes API refused a request."),
    Reason.KUBERNETES_FORBIDDEN: _stuck("The operator's service account lacks a permission."),
    Reason.KUBERNETES_UNAVAILABLE: _going_on("Retrying", "The Kubernetes API does not answer."),
    Reason.INTERNAL: _stuck("A defect in LakeTable; the operator's log names the place."),
}
"""Every reason, in the order of the runbook."""


class EventReason(StrEnum):
    """Reasons of the Kubernetes events that the operator writes."""

    APPLIED = "Applied"
    PLAN_MADE = "PlanMade"
    APPROVAL_REQUIRED = "ApprovalRequired"
    DENIED = "Denied"
    DRIFT_FOUND = "DriftFound"
    JOB_STARTED = "JobStarted"
    JOB_DIED = "JobDied"
    PUBLISHED = "Published"
    TABLE_RETAINED = "TableRetained"
    TABLE_DROPPED = "TableDropped"
    OWNERSHIP_CONFLICT = "OwnershipConflict"
    STALLED = "Stalled"
    RECOVERED = "Recovered"


def reason_of(text: str) -> Reason:
    """Return the reason an error names; Internal for one that nobody listed."""
    try:
        return Reason(text)
    except ValueError:
        return Reason.INTERNAL
