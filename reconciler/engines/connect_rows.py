"""What Spark does for a data operation over Connect: it reads and appends, and Spark's errors become LakeErrors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from reconciler.engines.connect_sql import filled, unfilled
from reconciler.engines.sql import identifier
from reconciler.errors import CatalogUnavailable, InvalidInput, LakeError
from reconciler.plan.operations import Backfill
from reconciler.ports import StagingRef

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

_T = TypeVar("_T")
_WHOLE = str(1 << 50)  # larger than any file: never split one, never put two into one task


class ConnectRows:
    """What Spark does for one operation: reads and appends, in a session of its own."""

    def __init__(self, session: SparkSession, name: str, ref: StagingRef) -> None:
        self._session, self._name, self._ref = session, name, ref
        self._branch = f"{name}.{identifier(f'branch_{ref.branch}')}"

    def close(self) -> None:
        """End the session."""
        self._session.stop()

    def refresh(self) -> None:
        """Forget what the server knows of the table: others commit to it."""
        self._run(lambda: self._session.sql(f"REFRESH TABLE {self._name}"))

    def append(self, selection: int, backfill: Backfill, stamps: Mapping[str, str]) -> None:
        """Read the files of a selection, and append their rows with their values to the branch."""

        def write() -> None:
            frame = self._at(selection).options(**{"split-size": _WHOLE, "file-open-cost": _WHOLE}).table(self._name)
            writer = frame.selectExpr(*filled(frame.columns, _types(frame, backfill), backfill)).writeTo(self._branch)
            for key, value in stamps.items():
                writer = writer.option(f"snapshot-property.{key}", value)
            (
                writer.option("use-table-distribution-and-ordering", "false")
                .option("fanout-enabled", "true")
                .option("target-file-size-bytes", _WHOLE)
                .append()
            )

        self._run(write)

    def unfilled_files(self, backfill: Backfill) -> set[str]:
        """Name the files of the branch that hold rows without a value they could have."""

        def read() -> set[str]:
            frame = self._session.table(self._branch)
            found = frame.where(unfilled(_types(frame, backfill), backfill)).select("_file").distinct().collect()
            return {str(row[0]) for row in found}

        return self._run(read)

    def count(self, snapshot_id: int) -> int:
        """Count the rows of a snapshot."""
        return self._run(lambda: int(self._at(snapshot_id).table(self._name).count()))

    def count_appended(self, base: int, head: int, conditions: Sequence[str]) -> list[int]:
        """Count, among the rows that were appended between two snapshots, those that fulfil each condition."""

        def read() -> list[int]:
            reader = self._session.read.option("start-snapshot-id", str(base)).option("end-snapshot-id", str(head))
            counts = [f"count_if({condition})" for condition in conditions]
            (row,) = reader.table(self._name).selectExpr(*counts).collect()
            return [int(count) for count in row]

        return self._run(read)

    def unfilled_condition(self, backfill: Backfill) -> str:
        """Say which rows lack a value."""
        return self._run(lambda: unfilled(_types(self._session.table(self._name), backfill), backfill))

    def _at(self, snapshot_id: int) -> Any:
        return self._session.read.option("versionAsOf", str(snapshot_id))

    def _run(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except LakeError:
            raise
        except Exception as error:
            raise _translated(error, str(self._ref.table)) from error


def _types(frame: DataFrame, backfill: Backfill) -> dict[str, str]:
    return {column.name: frame.schema[column.name].dataType.simpleString() for column in backfill.columns}


# ---------------------------------------------------------------- errors


_ROW_ERRORS = frozenset(
    {
        "ArithmeticException",
        "ArrayIndexOutOfBoundsException",
        "DateTimeException",
        "NumberFormatException",
        "SparkRuntimeException",
        "SparkUpgradeException",
    }
)


def _translated(error: Exception, where: str) -> LakeError:
    """Name what Spark's error means, by its class."""
    names = [cls.__name__ for cls in type(error).__mro__]
    if any(name in _ROW_ERRORS for name in names):
        return InvalidInput(
            f"The expression fails on a row ({names[0]}).",
            where=where,
            hint="Use try_cast, try_divide and the like, or limit it with `where`. Main has nothing of it.",
        )
    if "AnalysisException" in names:
        return InvalidInput(
            "The Spark Connect server refuses the statement: it may know another catalog by this name.",
            where=where,
            hint="Give it the same catalog under the same name, without a cache.",
        )
    return CatalogUnavailable(
        f"The Spark Connect server failed ({names[0]}).", where=where, hint="Apply again: it goes on where it stopped."
    )
