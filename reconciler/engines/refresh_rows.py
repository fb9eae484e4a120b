"""The rows of a view: its query over pinned sources, and what the changes of one source make of the rows there are.

Whatever the way, the rows are those of the whole query at the new watermarks. Groups merge while their source was only
appended to; otherwise the groups that changed rows touch are computed again, or the rows exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from reconciler.engines.frames import functions_of, is_remote
from reconciler.engines.java_errors import class_names, translate
from reconciler.engines.source_changes import SourceChange, Unreadable
from reconciler.engines.sql import identifier, table_name
from reconciler.errors import InvalidInput, LakeError
from reconciler.model.table import TableIdent
from reconciler.plan.operations import Refresh, Slot, SourceRead

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from reconciler.engines.site import Site

_MERGE = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}
_LEAVES = frozenset({"DataSourceV2Relation", "DataSourceV2ScanRelation", "LocalRelation"})
# Spark takes -0.0 and 0.0 for one value when it compares rows, but prints them apart
_UNCOMPARABLE = ("map<", "variant", "geometry", "geography", "float", "double")


class ViewRows:
    """Makes the rows of one refresh; temporary views live as long as `open` does."""

    def __init__(self, site: Site, refresh: Refresh) -> None:
        """Read nothing yet."""
        self._site, self._refresh = site, refresh
        self._session = site.session
        self._stack = ExitStack()
        self._sources = site.sources()
        self._stack.callback(self._sources.close)
        self._name = table_name(site.catalog, site.ref.table)
        self._prefix = f"lt_{uuid4().hex}"
        self._names = 0

    @contextmanager
    def open(self) -> Iterator[ViewRows]:
        """Give back what Spark keeps for us at the end."""
        with self._stack:
            yield self

    # ------------------------------------------------------------ ways

    def full(self) -> DataFrame:
        """Run the whole query."""
        return self._query({})

    def appended(self, change: SourceChange) -> DataFrame:
        """Run the query over the rows that were added."""
        return self._query({self._delta.table: self._staged(change.added)})

    def merged(self, before: DataFrame, change: SourceChange) -> DataFrame:
        """Merge the groups of the added rows into those there are."""
        F = functions_of(before)
        new = self.appended(change)
        self._require_own_types(new)
        both = before.select(*self._refresh.columns).unionAll(new.select(*self._refresh.columns))
        merge = {"sum": F.sum, "min": F.min, "max": F.max}
        measures = [merge[_MERGE[f]](_column(F, name)).alias(name) for name, f in self._refresh.measures.items()]
        keys = [_column(F, name) for name in self._refresh.keys]
        if not measures:
            return both.distinct()
        return both.groupBy(*keys).agg(*measures)

    def recomputed(self, before: DataFrame, change: SourceChange) -> DataFrame:
        """Compute the groups again that a changed row is or was in; leave the others."""
        changed = self._net(change)
        keys = self._refresh.keys
        touched = self._query({self._delta.table: changed}).select(*keys).distinct().cache()
        self._stack.callback(touched.unpersist)
        kept = _matching(before.select(*self._refresh.columns), touched, keys, "left_anti")
        whole = self._query({})
        self._require_own_types(whole)
        again = _matching(whole, touched, keys, "left_semi")
        return kept.unionAll(again.select(*self._refresh.columns))

    def exchanged(self, before: DataFrame, change: SourceChange) -> DataFrame:
        """Take away what the removed rows gave, and add what the new ones give."""
        old, new = self._staged(change.removed), self._staged(change.added)
        self._require_comparable(old)
        self._require_comparable(before)
        gone = self._query({self._delta.table: old.exceptAll(new)})
        come = self._query({self._delta.table: new.exceptAll(old)})
        columns = self._refresh.columns
        target = self._fitted(before)
        return target.exceptAll(self._fitted(gone)).unionAll(self._fitted(come)).select(*columns)

    def _require_own_types(self, groups: DataFrame) -> None:
        """Raise Unreadable when a column is converted on its way into the table: such groups must not be merged."""
        given = {field.name: field.dataType.simpleString() for field in groups.schema.fields}
        for field in self._fitted(groups).schema.fields:
            if given.get(field.name) != field.dataType.simpleString():
                raise Unreadable(f"Spark gives {field.name} another type than the view has")

    def _require_comparable(self, rows: DataFrame) -> None:
        """Raise Unreadable when rows cannot be told apart by all of their columns."""
        column = _uncomparable(rows)
        if column:
            why = f"rows of {self._delta.table} were changed or deleted, and {column} cannot be compared exactly"
            raise Unreadable(why)

    # ------------------------------------------------------------ sources

    @property
    def _delta(self) -> SourceRead:
        return next(source for source in self._refresh.sources if source.table == self._refresh.delta)

    def _staged(self, part: Sequence[Any]) -> DataFrame:
        """Read one side of what changed in the source: the columns that the query reads."""
        frame = self._sources.rows(self._delta, part)
        names = list(dict.fromkeys(path[0] for path in self._delta.columns))
        return frame.select(*map(identifier, names)) if names else frame

    def _net(self, change: SourceChange) -> DataFrame:
        """Return the rows that really changed: a rewritten file carries most of its rows over."""
        old, new = self._staged(change.removed), self._staged(change.added)
        F = functions_of(old)
        if _uncomparable(old):
            return old.unionAll(new)
        sign = f"{self._prefix}_sign"
        both = old.withColumn(sign, F.lit(-1)).unionAll(new.withColumn(sign, F.lit(1)))
        names = old.columns
        return both.groupBy(*map(identifier, names)).agg(F.sum(sign).alias(sign)).where(f"`{sign}` <> 0").drop(sign)

    # ------------------------------------------------------------ the query

    def _query(self, instead: dict[TableIdent, DataFrame]) -> DataFrame:
        """Run the query with some tables replaced, every other one pinned."""
        relations = {
            source.table: self._view(instead[source.table] if source.table in instead else self._sources.pinned(source))
            for source in self._refresh.sources
        }
        text = "".join(p if isinstance(p, str) else _relation(p, relations) for p in self._refresh.pieces)
        frame = self._session.sql(text)
        _check(frame)
        return frame

    def _view(self, frame: DataFrame) -> str:
        self._names += 1
        name = f"{self._prefix}_{self._names}"
        frame.createOrReplaceTempView(name)
        self._stack.callback(self._session.catalog.dropTempView, name)
        return f"`{name}`"

    def _fitted(self, frame: DataFrame) -> DataFrame:
        """Give rows the columns of the view's table, converted to their types."""
        fields, F = self._session.table(self._name).schema.fields, functions_of(frame)
        return frame.select(*(_column(F, field.name).cast(field.dataType).alias(field.name) for field in fields))

    # ------------------------------------------------------------ write

    def write(self, frame: DataFrame) -> list[Any]:
        """Write rows as files of the view's table and return them; nothing is committed."""
        return self._site.append(self._fitted(frame), {"fanout-enabled": "true"})


def row_failure(error: Exception, where: str) -> LakeError:
    """Say what a refresh that Spark gave up means, never in Spark's words: they may quote rows."""
    names = class_names(error)
    if any(name.startswith("Spark") and name.endswith("Exception") for name in names):
        first = next(name for name in names if name.startswith("Spark"))
        return InvalidInput(
            f"The query of the view fails on a row ({first}).",
            where=where,
            hint="Use try_cast, try_divide and the like. The view keeps the rows it has.",
        )
    if any(name.endswith("AnalysisException") for name in names):
        return InvalidInput("Spark refuses the query of the view.", where=where, hint="Check its types and names.")
    return translate(error, where)


def _check(frame: DataFrame) -> None:
    """Let Spark have the last word on what our parser let through: tables only, and the same rows every time."""
    if is_remote(frame):
        return  # a server shows no plan; there the parser has the last word
    plan = frame._jdf.queryExecution().analyzed()
    leaves = plan.collectLeaves()
    kinds = {str(leaves.apply(i).getClass().getSimpleName()) for i in range(leaves.size())}
    if not plan.deterministic() or not plan.subqueriesAll().isEmpty() or not kinds <= _LEAVES:
        raise InvalidInput(
            "Spark finds the query of the view not deterministic, or reading something else than tables.",
            hint="Write it over tables of the catalog, with documented functions.",
        )


def _uncomparable(rows: DataFrame) -> str:
    """Name a column by which rows cannot be told apart."""
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    return next((name for name, type_ in types.items() if any(word in type_ for word in _UNCOMPARABLE)), "")


def _matching(rows: DataFrame, touched: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    F = functions_of(rows)
    other = touched.select(*(_column(F, key).alias(f"lt_key_{n}") for n, key in enumerate(keys)))
    same = F.lit(True)
    for n, key in enumerate(keys):
        same = same & rows[identifier(key)].eqNullSafe(other[f"lt_key_{n}"])
    return rows.join(other, same, how)


def _relation(slot: Slot, relations: dict[TableIdent, str]) -> str:
    name = relations[slot.table]
    return name if slot.alias is None else f"{name} AS {identifier(slot.alias)}"


def _column(F: Any, name: str) -> Column:
    column: Column = F.col(identifier(name))
    return column
