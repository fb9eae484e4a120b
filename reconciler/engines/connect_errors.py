"""The errors of a Spark Connect server in LakeTable's words; decided by class, never by message."""

from __future__ import annotations

from reconciler.errors import CatalogUnavailable, CommitStateUnknown, InvalidInput, LakeError
from reconciler.plan.operations import Operation, Refresh

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


def translate(error: Exception, operation: Operation, where: str, *, committing: bool = False) -> LakeError:
    """Name what a server's error means for an operation; while `committing`, all but a refusal leaves it unknown."""
    if isinstance(error, LakeError):
        return error
    names = [cls.__name__ for cls in type(error).__mro__]
    if any(name in _ROW_ERRORS for name in names):
        is_view = isinstance(operation.work, Refresh)
        what = "query of the view" if is_view else "expression"
        rest = "The view keeps the rows it has." if is_view else "Main has nothing of it."
        return InvalidInput(
            f"The {what} fails on a row ({names[0]}).",
            where=where,
            hint=f"Use try_cast, try_divide and the like, or limit it with `where`. {rest}",
        )
    if "AnalysisException" in names:
        return InvalidInput(
            "The Spark Connect server refuses the statement: it may know another catalog by this name.",
            where=where,
            hint="Give it the same catalog under the same name, without a cache.",
        )
    if committing:
        return CommitStateUnknown("Nobody can tell whether the commit happened.", where=where, hint="Apply again.")
    return CatalogUnavailable(
        f"The Spark Connect server failed ({names[0]}).", where=where, hint="Apply again: it goes on where it stopped."
    )
