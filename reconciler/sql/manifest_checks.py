"""Check the SQL inside a manifest when it is loaded, so that a hostile or broken text stops at `validate`.

Imports sqlglot only for a manifest that holds SQL. Schemas of other tables are not at hand here: a view's query is held
to the allowlist only, and user functions to their form; the pipeline checks both again against catalog and LakeCatalog.
"""

from __future__ import annotations

from collections.abc import Iterator

from reconciler.model.faults import DocumentPath, Fault
from reconciler.model.manifest.table import Column, LakeTable
from reconciler.model.table import TableIdent
from reconciler.model.type_strings import parse_type
from reconciler.model.types import Field, StructType
from reconciler.sql.refusals import RefusedSql

UNKNOWN = "unknown"


def expression_faults(manifest: LakeTable) -> list[Fault]:
    """Return a fault for every expression, condition and query of the manifest that may not run."""
    spec = manifest.spec
    faults: list[Fault] = []
    if spec.materialized_view is not None:
        faults += _query_faults(manifest, spec.materialized_view.query)
    columns = spec.columns or []
    if spec.constraints or any(column.computed or column.type_change for column in columns):
        schema = StructType(tuple(_field(column) for column in columns))
        faults += _column_faults(columns, schema)
        for index, constraint in enumerate(spec.constraints or ()):
            # a view's columns are not known here
            scope = None if spec.materialized_view is not None else schema
            faults += _predicate_faults(constraint.check, scope, ("spec", "constraints", index, "check"))
    return faults


def _field(column: Column, type_: str | None = None) -> Field:
    return Field(name=column.name, required=column.required, type=parse_type(type_ or column.type))


def _column_faults(columns: list[Column], schema: StructType) -> Iterator[Fault]:
    reads: dict[str, frozenset[str]] = {}
    for index, column in enumerate(columns):
        place: DocumentPath = ("spec", "columns", index)
        computed, change = column.computed, column.type_change
        if computed is not None:
            found, fault = _read(computed.expression, schema, (*place, "computed", "expression"))
            yield from fault
            reads[column.name] = found
            if computed.where is not None:
                yield from _predicate_faults(computed.where, schema, (*place, "computed", "where"))
        if change is not None and change.using is not None:
            former = [_field(c, UNKNOWN if c is column else None) for c in columns]
            yield from _read(change.using, StructType(tuple(former)), (*place, "typeChange", "using"))[1]
    for index, column in enumerate(columns):
        if column.name in reads and _leads_back(column.name, reads):
            path = ("spec", "columns", index, "computed", "expression")
            hint = "Compute it from other columns."
            yield Fault(path, f"'{column.name}' is computed from itself, at once or through other columns", hint)


def _leads_back(start: str, reads: dict[str, frozenset[str]]) -> bool:
    seen: set[str] = set()
    todo = list(reads[start])
    while todo:
        name = todo.pop()
        if name == start:
            return True
        if name not in seen:
            seen.add(name)
            todo += reads.get(name, ())
    return False


def _read(text: str, schema: StructType, place: DocumentPath) -> tuple[frozenset[str], list[Fault]]:
    from reconciler.sql.expressions import parse_expression

    try:
        return parse_expression(text, schema=schema, functions=None).columns, []
    except RefusedSql as error:
        return frozenset(), [_fault(error, text, place)]


def _predicate_faults(text: str, schema: StructType | None, place: DocumentPath) -> list[Fault]:
    from reconciler.sql.expressions import parse_predicate

    try:
        parse_predicate(text, schema=schema, functions=None)
    except RefusedSql as error:
        return [_fault(error, text, place)]
    return []


def _query_faults(manifest: LakeTable, text: str) -> list[Fault]:
    from reconciler.sql.queries import parse_query

    place = ("spec", "materializedView", "query")
    own = TableIdent.parse(manifest.spec.identifier or f"{manifest.metadata.namespace}.{manifest.metadata.name}")
    try:
        query = parse_query(text, tables=None, functions=None)
    except RefusedSql as error:
        return [_fault(error, text, place)]
    if own in {source.table for source in query.sources}:
        return [Fault(place, f"the view reads itself ({own})", "Read its sources instead.")]
    stated, given = {c.name for c in manifest.spec.columns or ()}, {output.name for output in query.outputs}
    if stated and stated != given:
        message = f"the columns are not those of the query: {', '.join(sorted(stated ^ given))}"
        return [Fault(("spec", "columns"), message, "State every column of the query, or none.", at_key=True)]
    return []


def _fault(error: RefusedSql, text: str, place: DocumentPath) -> Fault:
    """Keep the offset only inside one line: a folded or block scalar is laid out otherwise in the file."""
    return Fault(place, error.message, error.hint, offset=None if "\n" in text else error.offset)
