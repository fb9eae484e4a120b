"""Java's exceptions, as PySpark hands them over, in LakeTable's words; decided by class, never by message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reconciler.errors import (
    CatalogUnavailable,
    CommitStateUnknown,
    EnvironmentProblem,
    InvalidInput,
    InvalidTable,
    LakeError,
    NamespaceNotEmpty,
    NamespaceNotFound,
    PermissionDenied,
    TableAlreadyExists,
    TableNotFound,
    Unauthenticated,
    Unsupported,
)

COMMIT_FAILED = "CommitFailedException"
UNKNOWN_HINT = "Run `laketable plan` again: it shows whether the commit happened."

_KNOWN: dict[str, tuple[type[LakeError], str, str]] = {
    "AlreadyExistsException": (TableAlreadyExists, "Somebody created it meanwhile.", "Plan again."),
    "NoSuchTableException": (TableNotFound, "The catalog has no such table.", ""),
    "NoSuchIcebergTableException": (TableNotFound, "The catalog has no such Iceberg table.", ""),
    "NoSuchNamespaceException": (NamespaceNotFound, "The catalog has no such namespace.", ""),
    "NamespaceNotEmptyException": (NamespaceNotEmpty, "The namespace is not empty.", ""),
    "NotAuthorizedException": (Unauthenticated, "The catalog refuses our credentials.", "Renew them."),
    "ForbiddenException": (PermissionDenied, "The catalog does not let us do this.", "Ask for the permission."),
    "CommitStateUnknownException": (CommitStateUnknown, "Nobody can tell whether the commit happened.", UNKNOWN_HINT),
    "NotFoundException": (InvalidTable, "A file of the table's metadata is missing.", ""),
    "ValidationException": (InvalidInput, "Iceberg refuses the result of these changes.", ""),
    "BadRequestException": (InvalidInput, "The catalog refuses the request.", ""),
    "UnprocessableEntityException": (InvalidInput, "The catalog refuses the request.", ""),
    "IllegalArgumentException": (InvalidInput, "Iceberg refuses the result of these changes.", ""),
    "IllegalStateException": (InvalidInput, "Iceberg refuses the result of these changes.", ""),
    "UnsupportedOperationException": (Unsupported, "This catalog cannot do it.", ""),
    "ClassNotFoundException": (EnvironmentProblem, "A Java class is missing.", "Run `laketable doctor`."),
}


def java_exception(error: BaseException) -> Any | None:
    """Return the Java exception behind a Python one; None when there is none."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def class_names(error: BaseException) -> tuple[str, ...]:
    """Name a Java exception and its causes, outermost first, without their packages."""
    return tuple(str(e.getClass().getSimpleName()) for e in _chain(java_exception(error)))


def translate(error: BaseException, where: str, *, committing: bool = False) -> LakeError:
    """Return the LakeError for a failed call; `committing` says that a commit was on its way.

    While committing, whatever is not known to be a refusal leaves the outcome unknown: a broken connection, an
    error 500 to 504, a database that went away.
    """
    names = class_names(error)
    if not names:
        known: tuple[type[LakeError], str, str] = (EnvironmentProblem, "Spark's JVM is gone.", "Run it again.")
        names = (type(error).__name__,)
    else:
        known = next((_KNOWN[name] for name in names if name in _KNOWN), _unlisted(names[0]))
    if committing and known[0] in (CatalogUnavailable, EnvironmentProblem, InvalidTable):
        known = _KNOWN["CommitStateUnknownException"]
    kind, message, hint = known
    return kind(f"{message} (Java: {', '.join(names[:3])})", where=where, hint=hint)


def _unlisted(name: str) -> tuple[type[LakeError], str, str]:
    return CatalogUnavailable, f"The catalog or its storage failed with {name}.", "Is it up, and reachable from here?"


def _chain(exception: Any | None) -> Iterator[Any]:
    for _ in range(8):
        if exception is None:
            return
        yield exception
        exception = exception.getCause()
