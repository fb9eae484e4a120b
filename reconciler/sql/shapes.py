"""How a materialized view may be refreshed from the changes of its sources, decided from its query alone.

The engine still chooses: an unreadable changelog, deletes, or two changed sources lead it to a full refresh too.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reconciler.model.table import TableIdent
from reconciler.model.types import Type
from reconciler.sql.functions import MERGEABLE, ORDER_DEPENDENT
from reconciler.sql.spark_types import FLOATS, is_exact_number


class GroupKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key of GROUP BY: the view's column, and its expression over the sources."""

    output: str
    sql: str


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One mergeable aggregate: sum, count, min or max; `argument` None counts rows."""

    output: str
    function: str
    argument: str | None


class Projection(msgspec.Struct, frozen=True, kw_only=True, tag="projection"):
    """Rows of the driver pass a filter and become rows of the view, one or more (joins) each."""

    drivers: tuple[TableIdent, ...]
    joins: tuple[TableIdent, ...] = ()


class Aggregation(msgspec.Struct, frozen=True, kw_only=True, tag="aggregation"):
    """Groups whose measures merge; without keys there is one row."""

    drivers: tuple[TableIdent, ...]
    joins: tuple[TableIdent, ...] = ()
    keys: tuple[GroupKey, ...]
    measures: tuple[Measure, ...]


class FullOnly(msgspec.Struct, frozen=True, kw_only=True, tag="full"):
    """Only the whole query gives the right rows; `reason` completes "Full, because …"."""

    reason: str


Shape = Projection | Aggregation | FullOnly
"""`drivers`: the sources of which one may have changed; `joins`: all sources, the others of which must not have."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an aggregate function."""

    function: str
    argument: str | None
    type: Type | None
    is_distinct: bool = False


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One output of a SELECT; `call` when it is one aggregate and nothing else."""

    name: str
    sql: str
    has_aggregate: bool
    call: Call | None = None


class Joined(msgspec.Struct, frozen=True, kw_only=True):
    """A table of FROM and how it was joined: "" for the first, else CROSS, INNER, LEFT, …."""

    table: TableIdent | None
    join: str


class Facts(msgspec.Struct, kw_only=True):
    """What one SELECT does, gathered while it is printed; `obstacle` is the first thing no delta can follow."""

    obstacle: str | None = None
    relations: list[Joined] = []
    items: list[Item] = []
    groups: list[str] = []
    is_grouped: bool = False

    def hinder(self, reason: str) -> None:
        """Note an obstacle; the first one is shown."""
        self.obstacle = self.obstacle or reason


def classify(facts: Facts) -> Shape:
    """Return how the query may be refreshed."""
    drivers, joins, reason = _drivers(facts.relations)
    reason = facts.obstacle or reason
    if reason is not None:
        return FullOnly(reason=reason)
    if not facts.is_grouped and not any(item.has_aggregate for item in facts.items):
        return Projection(drivers=drivers, joins=joins)
    return _aggregation(facts, drivers, joins)


def _drivers(relations: Sequence[Joined]) -> tuple[tuple[TableIdent, ...], tuple[TableIdent, ...], str | None]:
    tables = [relation.table for relation in relations if relation.table is not None]
    if len(tables) < len(relations):
        return (), (), "it reads a subquery"
    if len(set(tables)) < len(tables):
        return (), (), "it joins a table with itself"
    kinds = {relation.join for relation in relations[1:]}
    if kinds <= {"INNER", "CROSS"}:
        drivers = tuple(tables)
    elif kinds <= {"INNER", "CROSS", "LEFT", "LEFT SEMI", "LEFT ANTI", "SEMI", "ANTI"}:
        drivers = (tables[0],)
    else:
        return (), (), "it has a RIGHT or FULL join"
    return drivers, tuple(tables) if len(tables) > 1 else (), None


def _aggregation(facts: Facts, drivers: tuple[TableIdent, ...], joins: tuple[TableIdent, ...]) -> Shape:
    keys, measures = [], []
    for item in facts.items:
        if not item.has_aggregate:
            keys.append(GroupKey(output=item.name, sql=item.sql))
        elif item.call is None:
            return FullOnly(reason=f"{item.name} computes with an aggregate; store the aggregates themselves")
        else:
            reason = _unmergeable(item.call)
            if reason is not None:
                return FullOnly(reason=f"{item.name}: {reason}")
            measures.append(Measure(output=item.name, function=item.call.function, argument=item.call.argument))
    missing = set(facts.groups) - {key.sql for key in keys}
    if missing:
        return FullOnly(reason=f"the view does not hold the group key {min(missing)}")
    if not {key.sql for key in keys} <= set(facts.groups):
        return FullOnly(reason="it holds a column that is no group key as it stands in GROUP BY")
    return Aggregation(drivers=drivers, joins=joins, keys=tuple(keys), measures=tuple(measures))


def _unmergeable(call: Call) -> str | None:
    if call.is_distinct:
        return f"{call.function}(DISTINCT …) does not merge"
    if call.function in ORDER_DEPENDENT:
        return f"{call.function}() depends on the order of the rows"
    if call.function in {"avg", "mean"}:
        return "an average does not merge; store sum(…) and count(…)"
    if call.function not in MERGEABLE:
        return f"{call.function}() does not merge"
    if call.function == "sum" and not is_exact_number(call.type):
        if call.type in FLOATS:
            return "a sum of floating-point numbers depends on the order of the rows"
        return "the type of what is summed is not known; cast it to a decimal or bigint"
    return None
