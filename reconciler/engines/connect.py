"""Metadata changes over Spark Connect, which has no gateway: one SQL statement, or a refusal.

A statement is a commit of its own and asserts nothing, so only a plan that needs exactly one is made, right after the
base was observed again; the window in between remains, and everything larger belongs to the catalog executor.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reconciler.diff.apply import CannotApply, apply
from reconciler.diff.changes import Change
from reconciler.engines import sql
from reconciler.engines.session import check_pyspark, check_spark
from reconciler.errors import (
    CatalogUnavailable,
    CommitConflict,
    CommitStateUnknown,
    EnvironmentProblem,
    InvalidInput,
    InvalidTable,
    Unauthenticated,
    Unsupported,
)
from reconciler.model.table import Observed, TableIdent, TableVersion
from reconciler.ports import CommitOutcome

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_FIRST_TRIES = 3
_SERVER_ERRORS = "SQLQueryContextLogger"
"""PySpark prints every error of the server with all its text, which may quote rows; the error itself is raised too."""
INSTALL_HINT = "Run `pip install 'laketable[connect]'`."
_KEPT: list[SparkSession] = []
"""Every session of this process. One that is collected as garbage closes PySpark's threads, which all sessions share,
from wherever the collector happens to run: within another one's request that waits for itself (SPARK-55362)."""


def connect_session(url: str) -> SparkSession:
    """Open a session at a Spark Connect address (`sc://host:port`); it may hold a token and is never shown."""
    check_pyspark()
    logging.getLogger(_SERVER_ERRORS).disabled = True
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession
    except ImportError as error:
        raise EnvironmentProblem("PySpark's parts for Spark Connect are not installed.", hint=INSTALL_HINT) from error
    session = None
    try:
        session = SparkSession.Builder().remote(url).create()
        _KEPT.append(session)
        # Its own patience is ten minutes: right for a server that restarts during a job, not for one that is not there.
        patience = session.client.get_retry_policies()
        session.client.set_retry_policies([DefaultPolicy(max_retries=_FIRST_TRIES)])
        with warnings.catch_warnings(action="ignore"):
            version = session.version
        session.client.set_retry_policies(patience)
    except Exception as error:
        if session is not None:
            session.client.set_retry_policies([DefaultPolicy(max_retries=0)])  # it says goodbye when the process ends
        if _is_refused(error):
            raise Unauthenticated(
                "Spark Connect refuses us: it wants another token.",
                hint="Set it in the LakeCatalog's Secret (docs/runtimes.md), or in SPARK_CONNECT_AUTHENTICATE_TOKEN.",
            ) from error
        raise CatalogUnavailable(
            f"Spark Connect does not answer ({type(error).__name__}).", hint="Check the address and the server."
        ) from error
    check_spark(version)
    return session


def _is_refused(error: BaseException | None) -> bool:
    """Say whether a server wants to know who asks, by the status that it ended the call with."""
    while error is not None:
        code = getattr(error, "code", None)
        if callable(code) and getattr(code(), "name", "") == "UNAUTHENTICATED":
            return True
        error = error.__cause__ or error.__context__
    return False


class ConnectExecutor:
    """`MetadataExecutor` over Spark Connect; `observe` is the catalog port's `get_table_spec`."""

    name = "spark"

    def __init__(self, session: SparkSession, catalog: str, *, observe: Callable[[TableIdent], Observed]) -> None:
        """Bind to a catalog that the server knows by this name."""
        self._session = session
        self._catalog = catalog
        self._observe = observe

    def refusal(self, change: Change, current: Observed | None) -> str | None:
        """Say why SQL cannot make the change."""
        if current is None:
            return f"Spark Connect cannot create a table with the field ids of the plan; {sql.ELSEWHERE}"
        return sql.refusal(change)

    def apply(
        self,
        table: TableIdent,
        base: TableVersion | None,
        changes: Sequence[Change],
        *,
        guard_snapshot: bool = False,
    ) -> CommitOutcome:
        """Run the one statement that makes the changes; refuse what needs more, a guard, or a creation."""
        where = f"{self._catalog}.{table}"
        if base is None:
            raise Unsupported("Spark Connect cannot create the table.", where=where, hint=sql.ELSEWHERE)
        if guard_snapshot:
            raise Unsupported("The plan rests on a proof, which SQL cannot assert.", where=where, hint=sql.ELSEWHERE)
        current = self._observe(table)
        self._check(current, base, where)
        try:
            target = apply(current.spec, changes, last_field_id=current.version.last_field_id)
            statements = sql.render_all(changes, self._catalog, current.spec)
        except CannotApply as error:
            raise CommitConflict(f"{error}", where=where, hint="Plan again.") from error
        if not statements:
            return CommitOutcome(version=current.version, replayed=True)
        if len(statements) > 1:
            raise Unsupported(
                f"Over Spark Connect the plan would take {len(statements)} commits, and none of them could be undone.",
                where=where,
                hint=f"Use --engine catalog: {sql.ELSEWHERE}",
            )
        self._run(statements[0], base, table, where)
        made = self._observe(target.ident)
        if made.spec != target:
            raise InvalidTable(
                "The statement ran, but the table is not what was planned: another writer, or Spark's own additions.",
                where=where,
                hint="Plan again to see the difference.",
            )
        return CommitOutcome(version=made.version)

    def _run(self, statement: str, base: TableVersion, table: TableIdent, where: str) -> None:
        from pyspark.errors import AnalysisException

        try:
            self._session.sql(statement)
        except AnalysisException as error:
            raise InvalidInput("Spark refuses the statement; nothing was changed.", where=where) from error
        except Exception as error:
            if self._observe(table).version == base:
                raise CatalogUnavailable(
                    "Spark could not run the statement; nothing was changed.", where=where
                ) from error
            raise CommitStateUnknown(
                "Nobody can tell whether the commit happened.", where=where, hint="Plan again to see."
            ) from error

    def _check(self, current: Observed, base: TableVersion, where: str) -> None:
        live = current.version
        planned = (base.uuid, base.schema_id, base.spec_id, base.sort_order_id, base.last_field_id)
        if planned != (live.uuid, live.schema_id, live.spec_id, live.sort_order_id, live.last_field_id):
            raise CommitConflict("The table changed since it was planned.", where=where, hint="Plan again.")
