"""Turn whatever a catalog client raises into `LakeError`s; every port method of the adapters runs inside `translating`.

The rules go by class name, so that none of those libraries is imported for it. No text of a foreign exception is kept:
it may hold a URL with a password, a token or a request body.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.errors import (
    CatalogUnavailable,
    CommitConflict,
    CommitStateUnknown,
    EnvironmentProblem,
    InvalidInput,
    InvalidTable,
    LakeError,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    PermissionDenied,
    TableAlreadyExists,
    TableNotFound,
    Throttled,
    Unauthenticated,
    Unsupported,
)

Rule = tuple[type[LakeError], str, str]
"""Class, message, hint."""

UNREACHABLE: Rule = (CatalogUnavailable, "Cannot reach the catalog.", "Is it running, and is its uri right?")
_SLOW = (CatalogUnavailable, "The catalog did not answer in time.", "Try again, or raise its timeout.")
_STORAGE = (
    CatalogUnavailable,
    "Cannot read or write the catalog's storage.",
    "Is the warehouse mounted and reachable?",
)
LOGIN = (Unauthenticated, "The catalog does not accept these credentials.", "Check its token or credential property.")
FORBIDDEN = (PermissionDenied, "The catalog does not allow this.", "Ask its administrator for the privilege.")
BUSY = (Throttled, "The catalog asks for fewer requests.", "Try again later.")
_METADATA = (
    InvalidTable,
    "The catalog's answer breaks the Iceberg specification.",
    "Look at the table's metadata file.",
)
_PACKAGE = (EnvironmentProblem, "A package for this catalog is missing.", "Install the matching extra of pyiceberg.")
NO_TABLE = (TableNotFound, "There is no such table.", "Correct its name, or apply its manifest first.")
NOT_EMPTY = (NamespaceNotEmpty, "The namespace is not empty.", "Drop its tables first.")
CONFLICT = (CommitConflict, "The table changed in the meantime.", "Plan again.")
NO_NAMESPACE = (NamespaceNotFound, "There is no such namespace.", "Create it first.")
_LOCKED = (
    CatalogUnavailable,
    "Another program keeps the catalog's SQLite file locked.",
    "Try again when it is done.",
)
_SQLITE_LOCKED = {5, 6}  # SQLITE_BUSY, SQLITE_LOCKED
_UNKNOWN = (CommitStateUnknown, "Nobody can tell whether the commit went through.", "Observe the table, then decide.")

_RULES: dict[str, Rule] = {
    "pyiceberg.exceptions.NoSuchTableError": NO_TABLE,
    "pyiceberg.exceptions.NoSuchIdentifierError": NO_TABLE,
    "pyiceberg.exceptions.NoSuchNamespaceError": NO_NAMESPACE,
    "pyiceberg.exceptions.TableAlreadyExistsError": (TableAlreadyExists, "The table is there already.", "Plan again."),
    "pyiceberg.exceptions.NamespaceAlreadyExistsError": (NamespaceAlreadyExists, "The namespace is there already.", ""),
    "pyiceberg.exceptions.NamespaceNotEmptyError": NOT_EMPTY,
    "pyiceberg.exceptions.CommitFailedException": CONFLICT,
    "pyiceberg.exceptions.CommitStateUnknownException": _UNKNOWN,
    "pyiceberg.exceptions.WaitingForLockException": BUSY,
    "pyiceberg.exceptions.UnauthorizedError": LOGIN,
    "pyiceberg.exceptions.AuthorizationExpiredError": LOGIN,
    "pyiceberg.exceptions.OAuthError": LOGIN,
    "pyiceberg.exceptions.SignError": LOGIN,
    "pyiceberg.exceptions.ForbiddenError": FORBIDDEN,
    "pyiceberg.exceptions.TooManyRequestsError": BUSY,
    "pyiceberg.exceptions.BadRequestError": (
        InvalidInput,
        "The catalog refused the request.",
        "Check names and types.",
    ),
    "pyiceberg.exceptions.RESTError": (CatalogUnavailable, "The catalog answered with an error.", "See its log."),
    "pyiceberg.exceptions.NoSuchPropertyException": (InvalidInput, "The catalog lacks a required property.", ""),
    "pyiceberg.exceptions.NotInstalledError": _PACKAGE,
    "pyiceberg.exceptions.ResolveError": _METADATA,
    "pyiceberg.exceptions.ValidationError": _METADATA,
    "pyiceberg.exceptions.ValidationException": (CommitConflict, "Another commit got in the way.", "Try again."),
    "requests.exceptions.Timeout": _SLOW,
    "requests.exceptions.RequestException": UNREACHABLE,
    "urllib3.exceptions.TimeoutError": _SLOW,
    "urllib3.exceptions.LocationValueError": (InvalidInput, "The catalog's uri is not a URL.", "Correct its uri."),
    "urllib3.exceptions.HTTPError": UNREACHABLE,
    "sqlite3.Error": (CatalogUnavailable, "Cannot use the catalog's SQLite file.", "Is it a database, and writable?"),
    "sqlalchemy.exc.ArgumentError": (InvalidInput, "The catalog's uri is not a database URL.", "Correct its uri."),
    "sqlalchemy.exc.NoSuchModuleError": _PACKAGE,
    "sqlalchemy.exc.SQLAlchemyError": (CatalogUnavailable, "The catalog's database refused.", "Is it up and writable?"),
    "botocore.exceptions.NoCredentialsError": LOGIN,
    "botocore.exceptions.PartialCredentialsError": LOGIN,
    "botocore.exceptions.BotoCoreError": UNREACHABLE,
    "thrift.transport.TTransport.TTransportException": UNREACHABLE,
    "google.auth.exceptions.GoogleAuthError": LOGIN,
    "azure.core.exceptions.ClientAuthenticationError": LOGIN,
    "strictyaml.exceptions.StrictYAMLError": (
        InvalidInput,
        "PyIceberg cannot read its configuration file .pyiceberg.yaml.",
        "Write it in block style, without braces or brackets.",
    ),
    "pydantic_core._pydantic_core.ValidationError": _METADATA,
    "msgspec.DecodeError": _METADATA,
    "builtins.FileNotFoundError": (
        InvalidTable,
        "A file the catalog points to is gone.",
        "Restore it, or drop the table.",
    ),
    "builtins.PermissionError": (PermissionDenied, "The storage does not allow this.", "Check its credentials."),
    "builtins.TimeoutError": _SLOW,
    "builtins.ConnectionError": UNREACHABLE,
    "builtins.OSError": _STORAGE,
    "builtins.ImportError": _PACKAGE,
    "builtins.NotImplementedError": (Unsupported, "The catalog's client cannot do this.", "Use --engine spark."),
    "builtins.ValueError": (InvalidInput, "The catalog's client refused a value.", "Check the catalog's properties."),
}
_CLIENT_ERROR = "botocore.exceptions.ClientError"
_AWS_CODES: dict[str, Rule] = {
    "AccessDenied": FORBIDDEN,
    "AccessDeniedException": FORBIDDEN,
    "ExpiredToken": LOGIN,
    "ExpiredTokenException": LOGIN,
    "InvalidAccessKeyId": LOGIN,
    "InvalidClientTokenId": LOGIN,
    "SignatureDoesNotMatch": LOGIN,
    "UnrecognizedClientException": LOGIN,
    "EntityNotFoundException": NO_TABLE,
    "ConcurrentModificationException": CONFLICT,
    "Throttling": BUSY,
    "ThrottlingException": BUSY,
    "SlowDown": BUSY,
}


@contextmanager
def translating(where: str) -> Iterator[None]:
    """Let nothing but `LakeError` out; `where` names the catalog, and the table where there is one."""
    try:
        yield
    except LakeError:
        raise
    except Exception as error:
        raise translate(error, where) from error


def translate(error: Exception, where: str) -> LakeError:
    """Return the `LakeError` for any exception."""
    if isinstance(error, LakeError):
        return error
    if rule := _rule_of(error):
        kind, message, hint = rule
        return kind(message, where=where, hint=hint)
    return LakeError(
        f"The catalog's client failed with {type(error).__name__}.",
        where=where,
        hint="This is a bug in LakeTable or in the client; please report it.",
    )


def _rule_of(error: Exception) -> Rule | None:
    names = [f"{cls.__module__}.{cls.__name__}" for cls in type(error).__mro__]
    if _CLIENT_ERROR in names:
        return _AWS_CODES.get(_aws_code(error), UNREACHABLE)
    if sqlite_code(error) in _SQLITE_LOCKED:
        return _LOCKED
    return next((_RULES[name] for name in names if name in _RULES), None)


def sqlite_code(error: Exception) -> int:
    """Return SQLite's primary result code, also of an error that SQLAlchemy wrapped; 0 when it is none of SQLite's."""
    code = getattr(getattr(error, "orig", error), "sqlite_errorcode", 0)
    return code & 0xFF if isinstance(code, int) else 0


def _aws_code(error: Exception) -> str:
    response = getattr(error, "response", None)
    details = response.get("Error") if isinstance(response, dict) else None
    return str(details.get("Code", "")) if isinstance(details, dict) else ""
