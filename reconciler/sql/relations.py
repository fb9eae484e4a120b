"""What stands in FROM, and what names mean there; without schemas at hand, columns are taken as written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec
from sqlglot import exp

from reconciler.model.suggestions import did_you_mean
from reconciler.model.table import TableIdent
from reconciler.model.types import StructType, Type
from reconciler.sql.functions import words
from reconciler.sql.literals import quote_name
from reconciler.sql.nodes import Input, Written, few
from reconciler.sql.parsing import offset_of
from reconciler.sql.refusals import RefusedSql

_NAME = re.compile(r"\w[\w-]*")
# `format`.`path` reads files; LakeTable's own namespaces are never called so
_FILE_FORMATS = frozenset(
    words("""avro binaryfile csv delta hive hudi iceberg image jdbc json kafka lance libsvm noop orc paimon parquet
    protobuf rate socket text xml""")
)
_VERSIONED = ("branch_", "tag_", "snapshot_id_", "at_timestamp_")


class OutputColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a query's result: its type where known, and the source columns it is made of (lineage)."""

    name: str
    type: Type | None
    edges: frozenset[Input]


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """One thing in FROM under its alias; `columns` None when its schema is not at hand."""

    alias: str
    columns: Mapping[str, OutputColumn] | None
    table: TableIdent | None = None

    def column(self, name: str) -> OutputColumn | None:
        """Return a column, or None when there is none of that name."""
        if self.columns is not None:
            return self.columns.get(name)
        edges = frozenset({Input((name,), self.table)}) if self.table is not None else frozenset()
        return OutputColumn(name=name, type=None, edges=edges)


def table_columns(table: TableIdent, schema: StructType) -> dict[str, OutputColumn]:
    """Return a table's columns, each made of itself."""
    return {
        field.name: OutputColumn(name=field.name, type=field.type, edges=frozenset({Input((field.name,), table)}))
        for field in schema.fields
    }


def read_table_name(node: exp.Table) -> tuple[str, ...]:
    """Return the parts of a plain table name; refuse paths, table functions and versions."""
    parts = node.parts
    if not all(type(part) is exp.Identifier for part in parts):
        hint = "Name a table: <namespace>.<table>."
        raise RefusedSql("only tables stand in FROM, no functions", hint, offset=offset_of(node))
    names = tuple(part.name for part in parts)
    for name in names:
        if not _NAME.fullmatch(name):
            message = f"'{name[:80]}' is not the name of a table"
            raise RefusedSql(message, "Files are not read; name a table of the catalog.", offset=offset_of(node))
    if len(names) > 1 and names[0].casefold() in _FILE_FORMATS:
        message = f"'{'.'.join(names)}' would read files, not a table"
        raise RefusedSql(message, "Name a table of the catalog.", offset=offset_of(node))
    if len(names) > 2 and names[-1].casefold().startswith(_VERSIONED):
        message = f"'{names[-1]}' is a version of a table"
        hint = "Leave it out: a view reads its sources at the snapshots it was refreshed to."
        raise RefusedSql(message, hint, offset=offset_of(node))
    return names


class QueryScope:
    """The names that an expression of a SELECT may use: its relations' columns, then (or first) its own outputs."""

    def __init__(
        self,
        relations: Sequence[Relation],
        *,
        merged: frozenset[str] = frozenset(),
        outputs: Mapping[str, Written] | None = None,
        outputs_first: bool = False,
    ) -> None:
        self._relations = relations
        self._merged = merged
        self._outputs = outputs or {}
        self._outputs_first = outputs_first

    def names(self) -> frozenset[str]:
        """Return the known columns, aliases and outputs."""
        columns = (name for relation in self._relations for name in relation.columns or ())
        return frozenset({*columns, *(r.alias for r in self._relations), *self._outputs})

    def groups_by_output(self, name: str) -> bool:
        """Say whether a plain name in GROUP BY means the output of that name; a column of that name comes first."""
        output, columns = self._outputs.get(name), self._columns(name)
        if output is None or not columns:
            return output is not None
        column = quote_name(name)
        spelled = {column, *(f"{quote_name(relation.alias)}.{column}" for relation in self._relations)}
        return output.sql in spelled and output.inputs == _edges(columns)

    def find(self, parts: Sequence[exp.Identifier]) -> tuple[Written, int]:
        """Return the column that the first parts name, and how many of them it took; raise RefusedSql."""
        names = [part.name for part in parts]
        if self._outputs_first and len(names) == 1 and names[0] in self._outputs:
            return self._output(names[0]), 1
        for relation in self._relations if len(parts) > 1 else ():
            column = relation.column(names[1]) if relation.alias == names[0] else None
            if column is not None:
                sql = f"{quote_name(names[0])}.{quote_name(names[1])}"
                return Written(sql, column.type, column.edges), 2
            if relation.alias == names[0]:
                hint = did_you_mean(names[1], relation.columns or ()) or _known(relation.columns)
                self._refuse(f"'{names[0]}' has no column '{names[1][:80]}'", hint, parts[1])
        return self._unqualified(parts[0]), 1

    def _unqualified(self, part: exp.Identifier) -> Written:
        name = part.name
        known = self._columns(name)
        if len(known) > 1 and name not in self._merged:
            aliases = [r.alias for r in self._relations if r.columns is not None and name in r.columns]
            hint = f"Write {aliases[0]}.{name} or {aliases[1]}.{name}."
            self._refuse(f"the column '{name}' is in more than one table", hint, part)
        if known:
            return Written(quote_name(name, offset_of(part)), known[0].type, _edges(known))
        unknown = [relation for relation in self._relations if relation.columns is None]
        if name in self._outputs and not unknown:
            return self._output(name)
        if not unknown:
            names = {n for relation in self._relations for n in relation.columns or ()} | set(self._outputs)
            self._refuse(f"there is no column '{name[:80]}'", did_you_mean(name, names) or _known(names), part)
        if name in self._outputs:
            return self._output(name)
        column = unknown[0].column(name) if len(unknown) == 1 else None
        return Written(quote_name(name, offset_of(part)), None, column.edges if column else frozenset())

    def _columns(self, name: str) -> list[OutputColumn]:
        return [c for r in self._relations if r.columns is not None and (c := r.columns.get(name)) is not None]

    def _output(self, name: str) -> Written:
        output = self._outputs[name]
        return Written(quote_name(name), output.type, output.inputs)

    def _refuse(self, message: str, hint: str, part: exp.Identifier) -> None:
        raise RefusedSql(message, hint, offset=offset_of(part))


def _edges(columns: Sequence[OutputColumn]) -> frozenset[Input]:
    return frozenset[Input]().union(*(column.edges for column in columns))


def _known(names: Mapping[str, OutputColumn] | set[str] | None) -> str:
    listed = sorted(names or ())
    return f"There are: {few(listed)}." if listed else ""
