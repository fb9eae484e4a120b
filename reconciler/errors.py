"""The error tree: every failure a port, the pipeline or a shell may raise, each with a stable reason.

A message says what and why, `where` names the place (file:line:column, a column path, a catalog), `hint` says what to
do next. None of the three may hold a secret or the text of a foreign exception. Codes are those of the Lance Namespace
specification (0 to 23), so that a user of that contract finds them again.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a `laketable` process says on exit; of several tables the first in `PRECEDENCE` wins."""

    OK = 0
    ERROR = 1
    CHANGES = 2
    DENIED = 3
    STALE = 4
    TIMEOUT = 5
    INTERRUPTED = 130


PRECEDENCE = (ExitCode.INTERRUPTED, ExitCode.ERROR, ExitCode.STALE, ExitCode.DENIED, ExitCode.TIMEOUT, ExitCode.CHANGES)


class LakeError(Exception):
    """Any failure LakeTable knows how to explain."""

    reason = "Internal"
    code = 18
    exit_code = ExitCode.ERROR

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """Render as one line: where, what, what next."""
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message}{' ' + self.hint if self.hint else ''}"


class InvalidInput(LakeError):
    """A manifest, an argument or a setting is wrong; nothing was attempted."""

    reason = "InvalidInput"
    code = 13


class ManifestErrors(InvalidInput):
    """Everything that is wrong with one file, each with its place; never empty."""

    def __init__(self, errors: tuple[InvalidInput, ...]) -> None:
        first = errors[0]
        super().__init__(first.message, where=first.where, hint=first.hint)
        self.errors = errors

    def __str__(self) -> str:
        """Render one line per error."""
        return "\n".join(str(error) for error in self.errors)


class Unsupported(LakeError):
    """The format, catalog or executor cannot do this; the hint names what can."""

    reason = "Unsupported"
    code = 0


class NamespaceNotFound(LakeError):
    """The catalog has no such namespace."""

    reason = "NamespaceNotFound"
    code = 1


class NamespaceAlreadyExists(LakeError):
    """The catalog has that namespace already."""

    reason = "NamespaceAlreadyExists"
    code = 2


class NamespaceNotEmpty(LakeError):
    """Only an empty namespace is dropped."""

    reason = "NamespaceNotEmpty"
    code = 3


class TableNotFound(LakeError):
    """The catalog has no such table."""

    reason = "TableNotFound"
    code = 4


class TableAlreadyExists(LakeError):
    """Somebody created the table since it was observed."""

    reason = "TableAlreadyExists"
    code = 5
    exit_code = ExitCode.STALE


class RefNotFound(LakeError):
    """The table has no such tag, branch or snapshot."""

    reason = "RefNotFound"
    code = 11


class CommitConflict(LakeError):
    """The table is not the one that was planned against; nothing was changed."""

    reason = "CommitConflict"
    code = 14
    exit_code = ExitCode.STALE


class PlanStale(CommitConflict):
    """A reviewed plan no longer fits the live table or the spec."""

    reason = "PlanStale"


class ProofInvalidated(CommitConflict):
    """A proof held when it was made, but a writer that was under way broke it; the change was taken back."""

    reason = "ProofInvalidated"


class CommitStateUnknown(LakeError):
    """The catalog may or may not have committed; observe before doing anything else."""

    reason = "CommitStateUnknown"
    code = 18


class PermissionDenied(LakeError):
    """The catalog knows who we are and says no."""

    reason = "PermissionDenied"
    code = 15


class Unauthenticated(LakeError):
    """Credentials are missing, wrong or expired."""

    reason = "Unauthenticated"
    code = 16


class CatalogUnavailable(LakeError):
    """The catalog or its storage cannot be reached."""

    reason = "CatalogUnavailable"
    code = 17


class Throttled(CatalogUnavailable):
    """The catalog asks for fewer requests."""

    reason = "Throttled"
    code = 21


class InvalidTable(LakeError):
    """The live table's metadata cannot be read or breaks its own format's rules."""

    reason = "InvalidTable"
    code = 19


class OwnershipConflict(LakeError):
    """Somebody else's resource owns the table."""

    reason = "OwnershipConflict"
    code = 15
    exit_code = ExitCode.DENIED


class Denied(LakeError):
    """A policy or a finding forbids the plan."""

    reason = "Denied"
    code = 15
    exit_code = ExitCode.DENIED


class RowsRefused(Denied):
    """Rows are not what the metadata would say of them."""

    reason = "RowsRefused"


class RowsNotConverted(LakeError):
    """Rows hold values that a type change cannot convert; readers still see the former column."""

    reason = "RowsNotConverted"


class ApprovalRequired(Denied):
    """The plan is allowed once somebody approves its hash."""

    reason = "ApprovalRequired"


class EnvironmentProblem(LakeError):
    """This machine lacks something (Java, a jar, a package); the hint says how to get it."""

    reason = "EnvironmentProblem"
    code = 17


class TimedOut(LakeError):
    """The work did not end in the time given."""

    reason = "TimedOut"
    code = 17
    exit_code = ExitCode.TIMEOUT
