"""Whatever a client raises comes out as a `LakeError` that keeps none of its text."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest
import requests
import sqlalchemy.exc
import urllib3.exceptions
from pyiceberg import exceptions as pyiceberg

from reconciler.catalogs.errors import translating
from reconciler.errors import (
    CatalogUnavailable,
    CommitConflict,
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
    Throttled,
    Unauthenticated,
    Unsupported,
)

SECRET = "https://me:hunter2@lake/?token=hunter2"


def client_error(code: str) -> Exception:
    """An exception shaped like botocore's, whose package is not installed here."""
    shaped = type("ClientError", (Exception,), {"__module__": "botocore.exceptions"})
    error: Exception = shaped(SECRET)
    error.response = {"Error": {"Code": code, "Message": SECRET}}  # type: ignore[attr-defined]
    return error


CASES: list[tuple[Exception, type[LakeError]]] = [
    (pyiceberg.NoSuchTableError(SECRET), TableNotFound),
    (pyiceberg.NoSuchIcebergTableError(SECRET), TableNotFound),
    (pyiceberg.NoSuchNamespaceError(SECRET), NamespaceNotFound),
    (pyiceberg.TableAlreadyExistsError(SECRET), TableAlreadyExists),
    (pyiceberg.NamespaceNotEmptyError(SECRET), NamespaceNotEmpty),
    (pyiceberg.CommitFailedException(SECRET), CommitConflict),
    (pyiceberg.CommitStateUnknownException(SECRET), CommitStateUnknown),
    (pyiceberg.UnauthorizedError(SECRET), Unauthenticated),
    (pyiceberg.ForbiddenError(SECRET), PermissionDenied),
    (pyiceberg.TooManyRequestsError(SECRET), Throttled),
    (pyiceberg.ServiceUnavailableError(SECRET), CatalogUnavailable),
    (pyiceberg.ServerError(SECRET), CatalogUnavailable),
    (pyiceberg.NotInstalledError(SECRET), EnvironmentProblem),
    (pyiceberg.ValidationError(SECRET), InvalidTable),
    (requests.exceptions.ReadTimeout(SECRET), CatalogUnavailable),
    (requests.exceptions.ConnectionError(SECRET), CatalogUnavailable),
    (urllib3.exceptions.ProtocolError(SECRET), CatalogUnavailable),
    (sqlite3.OperationalError(SECRET), CatalogUnavailable),
    (sqlalchemy.exc.OperationalError(SECRET, {}, Exception(SECRET)), CatalogUnavailable),
    (sqlalchemy.exc.NoSuchModuleError(SECRET), EnvironmentProblem),
    (client_error("AccessDenied"), PermissionDenied),
    (client_error("ExpiredToken"), Unauthenticated),
    (client_error("SlowDown"), Throttled),
    (client_error("Nonsense"), CatalogUnavailable),
    (msgspec.DecodeError(SECRET), InvalidTable),
    (FileNotFoundError(SECRET), InvalidTable),
    (PermissionError(SECRET), PermissionDenied),
    (ConnectionResetError(SECRET), CatalogUnavailable),
    (OSError(SECRET), CatalogUnavailable),
    (ModuleNotFoundError(SECRET), EnvironmentProblem),
    (NotImplementedError(SECRET), Unsupported),
    (ValueError(SECRET), InvalidInput),
    (ZeroDivisionError(SECRET), LakeError),
]


@pytest.mark.parametrize(("raised", "expected"), CASES, ids=[f"{type(e).__name__}-{k.__name__}" for e, k in CASES])
def test_translation(raised: Exception, expected: type[LakeError]) -> None:
    with pytest.raises(LakeError) as caught, translating("catalog lake: a.t"):
        raise raised
    assert type(caught.value) is expected
    assert caught.value.__cause__ is raised
    assert "hunter2" not in str(caught.value)
    assert caught.value.where == "catalog lake: a.t"
    assert "\n" not in str(caught.value)


def test_our_own_errors_pass() -> None:
    original = TableNotFound("There is no such table.")
    with pytest.raises(TableNotFound) as caught, translating("elsewhere"):
        raise original
    assert caught.value is original


def test_interrupts_pass() -> None:
    with pytest.raises(KeyboardInterrupt), translating("catalog lake"):
        raise KeyboardInterrupt
