"""A data job whose double application shows: it adds one to a column, a file a chunk. Run as a process of its own.

A computed column may not read itself, so no manifest can ask for this; the engine is that of every `laketable execute`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from reconciler.engines.data_job import SparkEngine
from reconciler.engines.session import spark_session
from reconciler.engines.staged import staging_ref
from reconciler.errors import ExitCode, LakeError
from reconciler.model.table import TableIdent
from reconciler.plan.operations import Backfill, BackfillColumn, Operation, OperationClass, OperationKind


def operation(number: int) -> Operation:
    """Say what is done for the n-th time."""
    column = BackfillColumn(name="x", field_id=2, sql="`x` + 1", recompute=True, revision=number)
    return Operation(
        id=f"{number:016x}",
        kind=OperationKind.BACKFILL,
        summary="add one",
        operation_class=OperationClass.REWRITE,
        work=Backfill(columns=(column,)),
    )


def main(args: Sequence[str]) -> int:
    """Add one to x in a table of a REST catalog: uri, table, its uuid, and for the how manieth time."""
    uri, table, uuid, number = args
    session = spark_session([("lake", {"type": "rest", "uri": uri})], short=True)
    wanted = operation(int(number))
    ref = staging_ref(TableIdent.parse(table), uuid, wanted)
    try:
        SparkEngine(session, "lake", chunk_bytes=1).execute(wanted, ref, print).commit()
    except LakeError as error:
        print(f"error: {error}", file=sys.stderr)
        return ExitCode.ERROR
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
