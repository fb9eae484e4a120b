"""A materialized view's query: from the author's text to SQL that may run, its sources, its lineage and its shape.

Allowed are SELECTs over tables of known catalogs: joins, WITH, subqueries in FROM, GROUP BY, windows, set operations.
Refused are `*` (a source's new column would change the view), subqueries in expressions, VALUES, table functions,
files, sampling, pivots, and everything this module does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import msgspec
from sqlglot import exp

from reconciler.model.suggestions import did_you_mean
from reconciler.model.table import TableIdent
from reconciler.model.types import FieldPath, StructType
from reconciler.sql.aggregates import QueryWriter
from reconciler.sql.functions import words
from reconciler.sql.literals import quote_name
from reconciler.sql.nodes import Input, Written, expect, part, refusal
from reconciler.sql.parsing import check_same, offset_of, parse_statement
from reconciler.sql.refusals import RefusedSql
from reconciler.sql.relations import OutputColumn, QueryScope, Relation, read_table_name, table_columns
from reconciler.sql.shapes import Facts, FullOnly, Item, Joined, Shape, classify

Tables = Callable[[TableIdent], StructType | None]

# private-use characters cannot be in an author's text, so they mark the tables in the printed SQL
_MARK = re.compile("\ue000(\\d+)\ue001")
_JOINS = {"", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI", "SEMI", "ANTI"}
_SET_OPERATIONS: Mapping[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
_SELECT_PARTS = words("with_ expressions distinct from_ joins where group having order limit offset")


class TableUse(msgspec.Struct, frozen=True):
    """A table where it stands in the query; `alias` is the qualifier of its columns when the author gave none."""

    table: TableIdent
    alias: str | None


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A table the query reads, and the columns of it that it reads anywhere."""

    table: TableIdent
    columns: frozenset[FieldPath]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query that was read, held to the allowlist and printed anew; `pieces` are its SQL with the tables left open."""

    pieces: tuple[str | TableUse, ...]
    sources: tuple[Source, ...]
    outputs: tuple[OutputColumn, ...]
    shape: Shape
    user_functions: frozenset[str] = frozenset()

    @property
    def sql(self) -> str:
        """The canonical text, with the tables as they are named; what is hashed and shown."""
        return "".join(p if isinstance(p, str) else print_table(p.table) for p in self.pieces)

    def sql_over(self, relations: Mapping[TableIdent, str]) -> str:
        """Return the text that runs: each table replaced by SQL of ours (a qualified name, `… VERSION AS OF 5`)."""
        return "".join(p if isinstance(p, str) else _over(p, relations[p.table]) for p in self.pieces)


def print_table(table: TableIdent) -> str:
    """Print a table's name in back-ticks."""
    return ".".join(quote_name(name) for name in (*table.namespace, table.name))


def _over(use: TableUse, relation: str) -> str:
    return relation if use.alias is None else f"{relation} AS {quote_name(use.alias)}"


def parse_query(text: str, *, tables: Tables | None, functions: frozenset[str] | None = frozenset()) -> Query:
    """Return the safe form of a view's query; raise RefusedSql.

    `tables` returns a known table's schema and None for any other; without it (offline) every plain table name passes,
    types are unknown, and columns are taken as written. `functions` is as in `parse_expression`.
    """
    query = _read(text, tables, functions)
    check_same(text, query.sql)
    if _read(query.sql, tables, functions) != query:
        raise RefusedSql("it does not read back as it was printed", "Write it more plainly.")
    return query


def _read(text: str, tables: Tables | None, functions: frozenset[str] | None) -> Query:
    tree = parse_statement(text)
    reader = _QueryReader(tables, functions)
    try:
        result = reader.query(tree, {})
    except RecursionError:
        raise RefusedSql("it is nested too deeply", "Split it up.") from None
    if not reader.uses:
        raise RefusedSql("it reads no table", "Write SELECT … FROM <namespace>.<table>.", offset=0)
    pieces: list[str | TableUse] = list(_MARK.split(result.sql))
    pieces[1::2] = [reader.uses[int(str(index))] for index in pieces[1::2]]
    columns: dict[TableIdent, set[FieldPath]] = {use.table: set() for use in reader.uses}
    for one in reader.read:
        if one.table is not None:
            columns[one.table].add(one.path)
    return Query(
        pieces=tuple(pieces),
        sources=tuple(Source(table=t, columns=frozenset(paths)) for t, paths in sorted(columns.items())),
        outputs=tuple(result.outputs),
        shape=FullOnly(reason=result.facts) if isinstance(result.facts, str) else classify(result.facts),
        user_functions=frozenset(reader.used_functions),
    )


class _Result(msgspec.Struct, frozen=True):
    """A printed query; `facts` is a text when it is no plain SELECT."""

    sql: str
    outputs: Sequence[OutputColumn]
    facts: Facts | str


_Known = Mapping[str, Sequence[OutputColumn]]


class _QueryReader:
    """Walk one query; gathers the tables and every column that is read anywhere in it."""

    def __init__(self, tables: Tables | None, functions: frozenset[str] | None) -> None:
        self._tables = tables
        self._functions = functions
        self.uses: list[TableUse] = []
        self.read: set[Input] = set()
        self.used_functions: set[str] = set()

    def query(self, node: exp.Expr, known: _Known) -> _Result:
        if isinstance(node, exp.Select):
            return self._select(node, known)
        if type(node) in _SET_OPERATIONS:
            return self._set_operation(node, known)
        if isinstance(node, exp.Subquery):
            expect(node, "this")
            inner = self.query(part(node, "this"), known)
            return msgspec.structs.replace(inner, sql=f"({inner.sql})")
        raise refusal(node, f"{type(node).__name__.upper()} is not allowed in a query", "Write SELECT … FROM <table>.")

    # ------------------------------------------------------------ the parts of a query

    def _with(self, node: exp.Expr, known: _Known) -> tuple[str, _Known]:
        clause = node.args.get("with_")
        if not isinstance(clause, exp.With):
            return "", known
        expect(clause, "expressions")
        texts, here = [], dict(known)
        for entry in clause.expressions:
            expect(entry, "this", "alias")
            name = _alias(part(entry, "alias"))
            if name.casefold() in {other.casefold() for other in here}:
                raise refusal(entry, f"'{name}' is defined twice in WITH", "Rename one of them.")
            inner = self.query(part(entry, "this"), here)
            here[name] = inner.outputs
            texts.append(f"{quote_name(name)} AS ({inner.sql})")
        return f"WITH {', '.join(texts)} ", here

    def _set_operation(self, node: exp.Expr, known: _Known) -> _Result:
        expect(node, "with_", "this", "expression", "distinct", "order", "limit", "offset")
        head, known = self._with(node, known)
        left, right = self.query(part(node, "this"), known), self.query(part(node, "expression"), known)
        if len(left.outputs) != len(right.outputs):
            message = f"one side has {len(left.outputs)} columns, the other {len(right.outputs)}"
            raise refusal(node, message, "Select as many columns on both sides.")
        word = _SET_OPERATIONS[type(node)]
        word += "" if node.args.get("distinct") else " ALL"
        outputs = [
            OutputColumn(name=a.name, type=a.type if a.type == b.type else None, edges=a.edges | b.edges)
            for a, b in zip(left.outputs, right.outputs, strict=True)
        ]
        written = {o.name: Written(quote_name(o.name), o.type, o.edges) for o in outputs}
        scope = QueryScope((), outputs=written)
        tail = self._tail(node, scope, Facts())
        return _Result(f"{head}{left.sql} {word} {right.sql}{tail}", outputs, f"it has {word}")

    def _select(self, node: exp.Select, known: _Known) -> _Result:
        expect(node, *_SELECT_PARTS)
        facts = Facts()
        head, known = self._with(node, known)
        if head:
            facts.hinder("it has a WITH clause")
        relations, merged, source = self._from(node, known, facts)
        scope = QueryScope(relations, merged=merged)
        outputs, items = self._items(node, scope, facts)
        words = [f"{head}SELECT", f"{self._distinct(node, facts)}{', '.join(items)}", "FROM", source]
        if node.args.get("where"):
            words.append(f"WHERE {self._condition(part(node, 'where'), scope, aggregates=False)}")
        written = {o.name: Written(i.sql, o.type, o.edges) for o, i in zip(outputs, facts.items, strict=True)}
        if node.args.get("group"):
            words.append(self._group(part(node, "group"), QueryScope(relations, merged=merged, outputs=written), facts))
        if node.args.get("having"):
            facts.hinder("it has HAVING: a changed group may leave or enter")
            having = QueryScope(relations, merged=merged, outputs=written)
            words.append(f"HAVING {self._condition(part(node, 'having'), having, aggregates=True)}")
        order = QueryScope(relations, merged=merged, outputs=written, outputs_first=True)
        return _Result(" ".join(words) + self._tail(node, order, facts), outputs, facts)

    def _distinct(self, node: exp.Expr, facts: Facts) -> str:
        distinct = node.args.get("distinct")
        if not distinct:
            return ""
        expect(cast(exp.Expr, distinct))
        facts.hinder("it has DISTINCT")
        return "DISTINCT "

    def _items(self, node: exp.Select, scope: QueryScope, facts: Facts) -> tuple[list[OutputColumn], list[str]]:
        outputs: list[OutputColumn] = []
        texts: list[str] = []
        seen: set[str] = set()
        for item in node.expressions:
            inner, name, is_named = _named(item)
            writer = self._writer(scope, aggregates=True, windows=True)
            written = self._write(writer, inner)
            if name.casefold() in seen:
                raise refusal(item, f"two columns are called '{name}'", "Rename one with AS.")
            seen.add(name.casefold())
            outputs.append(OutputColumn(name=name, type=written.type, edges=written.inputs))
            texts.append(f"{written.sql} AS {quote_name(name, offset_of(item))}" if is_named else written.sql)
            if writer.used_functions:
                facts.hinder(f"nobody knows whether {min(writer.used_functions)} gives the same result twice")
            if writer.has_window:
                facts.hinder("it has a window function")
            is_call = len(writer.calls) == 1 and isinstance(inner, exp.Anonymous)
            call = writer.calls[0] if is_call and str(inner.this).lower() == writer.calls[0].function else None
            entry = Item(name=name, sql=written.sql, has_aggregate=bool(writer.calls), call=call)
            facts.items.append(entry)
        return outputs, texts

    def _condition(self, clause: exp.Expr, scope: QueryScope, *, aggregates: bool) -> str:
        expect(clause, "this")
        node = part(clause, "this")
        written = self._write(self._writer(scope, aggregates=aggregates), node)
        if written.type not in (None, "boolean"):
            raise refusal(node, "a condition is true or false", "Compare it with something.")
        return written.sql

    def _group(self, clause: exp.Expr, scope: QueryScope, facts: Facts) -> str:
        expect(clause, "expressions")
        facts.is_grouped = True
        texts = []
        for key in clause.expressions:
            number = _ordinal(key)
            if number is None:
                written = self._write(self._writer(scope), key)
                facts.groups.append(_group_key(written, scope, facts))
                texts.append(written.sql)
            elif not 0 < number <= len(facts.items) or facts.items[number - 1].has_aggregate:
                raise refusal(key, f"GROUP BY {number} names no column to group by", "Write the column.")
            else:
                facts.groups.append(facts.items[number - 1].sql)
                texts.append(str(number))
        return f"GROUP BY {', '.join(texts)}"

    def _tail(self, node: exp.Expr, scope: QueryScope, facts: Facts) -> str:
        words = []
        if node.args.get("order"):
            facts.hinder("it has ORDER BY")
            writer = self._writer(scope, aggregates=True, windows=True)
            text, keys = writer.order(part(node, "order"))
            self.read.update(one for key in keys for one in key.inputs)
            self.used_functions |= writer.used_functions
            words.append(text)
        for name in ("limit", "offset"):
            if node.args.get(name):
                clause = part(node, name)
                expect(clause, "expression")
                number = _ordinal(part(clause, "expression"))
                if number is None:
                    raise refusal(clause, f"{name.upper()} takes a number", f"Write {name.upper()} 10.")
                facts.hinder(f"it has {name.upper()}")
                words.append(f"{name.upper()} {number}")
        return "".join(f" {word}" for word in words)

    # ------------------------------------------------------------ FROM

    def _from(self, node: exp.Select, known: _Known, facts: Facts) -> tuple[list[Relation], frozenset[str], str]:
        clause = node.args.get("from_")
        if not isinstance(clause, exp.From):
            raise refusal(node, "a SELECT without FROM is not allowed", "Write FROM <namespace>.<table>.")
        expect(clause, "this")
        first, text = self._relation(part(clause, "this"), known)
        facts.relations.append(Joined(table=first.table, join=""))
        relations, words = [first], [text]
        hidden: list[Relation] = []
        merged: frozenset[str] = frozenset()
        for join in node.args.get("joins") or ():
            expect(join, "this", "side", "kind", "on", "using")
            kind = _join_kind(join)
            relation, text = self._relation(part(join, "this"), known)
            if relation.alias.casefold() in {r.alias.casefold() for r in (*relations, *hidden)}:
                raise refusal(join, f"two tables are called '{relation.alias}'", "Write AS after one of them.")
            facts.relations.append(Joined(table=relation.table, join=kind or "INNER"))
            condition, columns = self._join_condition(join, kind, [*relations, relation], merged)
            merged |= columns
            words.append(f"{kind} JOIN {text}{condition}".lstrip())
            (hidden if kind.endswith(("SEMI", "ANTI")) else relations).append(relation)
        return relations, merged, " ".join(words)

    def _join_condition(
        self, join: exp.Expr, kind: str, relations: Sequence[Relation], merged: frozenset[str]
    ) -> tuple[str, frozenset[str]]:
        using = join.args.get("using") or []
        if bool(using) + bool(join.args.get("on")) != (kind != "CROSS"):
            raise refusal(join, "a join needs one condition", "Write ON or USING; for all pairs CROSS JOIN.")
        if using:
            names = [name.name for name in using if type(name) is exp.Identifier]
            if len(names) != len(using):
                raise refusal(join, "USING takes column names", "Write USING (column).")
            for name in names:
                for relation in (relations[-1], *relations[:-1]):
                    column = relation.column(name)
                    self.read |= column.edges if column is not None else frozenset()
                if relations[-1].column(name) is None or all(r.column(name) is None for r in relations[:-1]):
                    raise refusal(join, f"the column '{name}' of USING is not on both sides", "Write ON instead.")
            return f" USING ({', '.join(map(quote_name, names))})", frozenset(names)
        if kind == "CROSS":
            return "", frozenset()
        scope = QueryScope(relations, merged=merged)
        written = self._write(self._writer(scope), part(join, "on"))
        return f" ON {written.sql}", frozenset()

    def _relation(self, node: exp.Expr, known: _Known) -> tuple[Relation, str]:
        if isinstance(node, exp.Table):
            return self._table(node, known)
        if isinstance(node, exp.Subquery):
            expect(node, "this", "alias")
            if not node.args.get("alias"):
                raise refusal(node, "a subquery in FROM needs a name", "Write (SELECT …) AS name.")
            alias = _alias(part(node, "alias"))
            inner = self.query(part(node, "this"), known)
            columns = {column.name: column for column in inner.outputs}
            return Relation(alias=alias, columns=columns), f"({inner.sql}) AS {quote_name(alias)}"
        raise refusal(
            node, f"{type(node).__name__.upper()} is not allowed in FROM", "Name a table: <namespace>.<table>."
        )

    def _table(self, node: exp.Table, known: _Known) -> tuple[Relation, str]:
        expect(node, "this", "db", "catalog", "alias")
        names = read_table_name(node)
        given = _alias(part(node, "alias")) if node.args.get("alias") else None
        suffix = f" AS {quote_name(given)}" if given else ""
        alias = given or names[-1]
        if len(names) == 1:
            if names[0] not in known:
                hint = did_you_mean(names[0], known) or f"Write <namespace>.{names[0]}."
                raise refusal(node, f"the table '{names[0]}' has no namespace", hint)
            columns = {column.name: column for column in known[names[0]]}
            return Relation(alias=alias, columns=columns), f"{quote_name(names[0])}{suffix}"
        table = TableIdent(names[:-1], names[-1])
        schema = self._tables(table) if self._tables is not None else None
        if schema is None and self._tables is not None:
            raise refusal(
                node, f"there is no table '{table}' in a known catalog", "Check the name, or who may read it."
            )
        self.uses.append(TableUse(table, None if given else alias))
        columns_ = None if schema is None else table_columns(table, schema)
        return Relation(alias=alias, columns=columns_, table=table), f"\ue000{len(self.uses) - 1}\ue001{suffix}"

    # ------------------------------------------------------------ expressions

    def _writer(self, scope: QueryScope, *, aggregates: bool = False, windows: bool = False) -> QueryWriter:
        return QueryWriter(scope, self._functions, aggregates=aggregates, windows=windows)

    def _write(self, writer: QueryWriter, node: exp.Expr) -> Written:
        written = writer.write(node)
        self.read |= written.inputs
        self.used_functions |= writer.used_functions
        return written


def _named(item: exp.Expr) -> tuple[exp.Expr, str, bool]:
    """Return an output's expression and name; only a plain column needs no AS."""
    if isinstance(item, exp.Alias):
        expect(item, "this", "alias")
        alias = part(item, "alias")
        if type(alias) is not exp.Identifier:
            raise refusal(item, "a column's name is one identifier", "Write AS name.")
        return part(item, "this"), alias.name, True
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        raise refusal(item, "'*' is not allowed", "Name the columns: a source's new column must not change the view.")
    if isinstance(item, exp.Column | exp.Dot):
        return item, item.name if isinstance(item, exp.Column) else item.expression.name, False
    raise refusal(item, "a computed column of the view has no name", "Write AS name after it.")


def _group_key(key: Written, scope: QueryScope, facts: Facts) -> str:
    """Return a key of GROUP BY as an expression over the sources."""
    if key.sql in {item.sql for item in facts.items}:
        return key.sql
    named = (item for item in facts.items if quote_name(item.name) == key.sql and not item.has_aggregate)
    return next((item.sql for item in named if scope.groups_by_output(item.name)), key.sql)


def _alias(node: exp.Expr) -> str:
    expect(node, "this")
    name = part(node, "this")
    if type(name) is not exp.Identifier:
        raise refusal(node, "a table's alias is one identifier", "Write AS name.")
    return name.name


def _join_kind(join: exp.Expr) -> str:
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    word = f"{side} {'' if kind in ('INNER', 'OUTER') else kind}".strip()
    if word not in _JOINS:
        raise refusal(
            join, f"{word} JOIN is not allowed", "Use INNER, LEFT, RIGHT, FULL, CROSS, LEFT SEMI or LEFT ANTI."
        )
    return "" if word == "INNER" else word


def _ordinal(node: exp.Expr) -> int | None:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isascii() and node.name.isdigit()
    return int(node.name) if is_number and len(node.name) < 10 else None
