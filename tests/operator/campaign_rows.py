"""Fields whose values change rows: views and type changes, carried out by jobs that are clients of Spark Connect.

`TOGETHER` walks all fields of a kind on one table each, in as few jobs as that takes; `ONE_BY_ONE` gives each its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.kube.campaign import Entry, Place, Spec, Value, merged
from tests.operator.campaign_columns import COLUMN_ENTRIES, columns
from tests.operator.campaign_tables import SOURCE, VIEW_ENTRIES

CATALOG: Spec = {"catalogRef": {"name": "rest"}}
"""The Spark Connect server of the tests knows the catalog by this name."""


# ---------------------------------------------------------------- views


def view(query: str = "id", **refresh: Any) -> Value:
    def value(place: Place) -> Spec:
        text = f"SELECT {query} FROM `{place.namespace}`.{SOURCE}"
        stated = {"query": text, **({"refresh": refresh} if refresh else {})}
        return {"columns": None, "materializedView": stated, **CATALOG}

    return value


_HOURLY: Spec = {"mode": "Full", "onSourceChange": False, "maxStaleness": "1h", "schedule": "0 2 * * *"}
_AT_ONCE: Spec = {"mode": "Incremental", "onSourceChange": True, "maxStaleness": "2h", "schedule": "0 3 * * *"}
_VIEW = Entry(
    base=view(),
    a=view("id, note", **_HOURLY),
    b=view("note", **_AT_ONCE),
    wrong=view("nothing"),
    said="nothing",
    wrong_phase="Denied",
)


def _applied(entry: Entry) -> Entry:
    """Let a view's field be carried out where the campaign of plans only plans it."""

    def done(value: Value) -> Value:
        return lambda place: {**merged({}, value, place), "columns": None, "reconcile": None, **CATALOG}

    return replace(entry, base=view(), a=done(entry.a), b=done(entry.b), phases=("InSync", "InSync", "InSync"))


# ---------------------------------------------------------------- type changes


def turned(to: str, **rule: Any) -> Spec:
    """Turn the column `v` into another type; a former column is kept no longer than is said.

    `Fail`, the default, scans all rows in a job of its own, before and after: it is what `ONE_BY_ONE` goes by.
    """
    return columns({"name": "v", "type": to, "typeChange": {"strategy": "ExpandContract", "keepOldFor": "0s", **rule}})


TEXT = {**columns({"name": "v", "type": "string"}), **CATALOG}
_TO_LONG: Spec = {"using": "CAST(v AS bigint)", "onCastFailure": "Null", "keepOldFor": "0s"}
_TO_DECIMAL: Spec = {"using": "CAST(v AS decimal(20,0))", "onCastFailure": "Quarantine", "keepOldFor": "1d"}


def _typed(wrong: Value, said: str, a: Spec, b: Spec) -> Entry:
    """Go from text to a number, to another kind of number, and back to text."""
    return Entry(
        base=TEXT,
        a=turned("long", **a),
        b=turned("decimal(20,0)", **b),
        unset=turned("string", onCastFailure="Null"),
        wrong=wrong,
        said=said,
        wrong_phase="Invalid" if said == "using" else "",
        prepare="texts",
        over_base=True,
    )


_WRONG_TYPES = {path: (entry.wrong, entry.said) for path, entry in COLUMN_ENTRIES.items() if ".typeChange." in path}
_STRATEGY, _USING, _FAILURE, _KEPT = (
    f"columns[].typeChange.{name}" for name in ("strategy", "using", "onCastFailure", "keepOldFor")
)

# ---------------------------------------------------------------- all of them

TOGETHER: dict[str, Entry] = {
    "materializedView": _VIEW,
    "columns[].typeChange": _typed(*_WRONG_TYPES[_STRATEGY], _TO_LONG, _TO_DECIMAL),
}
WRONG: dict[str, list[Entry]] = {
    "materializedView": [entry for path, entry in VIEW_ENTRIES.items() if not path.endswith("query")],
    "columns[].typeChange": [COLUMN_ENTRIES[path] for path in _WRONG_TYPES if path != _STRATEGY],
}
"""What else is said wrong of a table that has all the fields."""
ONE_BY_ONE: dict[str, Entry] = {path: _applied(entry) for path, entry in VIEW_ENTRIES.items()} | {
    _STRATEGY: _typed(*_WRONG_TYPES[_STRATEGY], {}, {}),
    _USING: _typed(*_WRONG_TYPES[_USING], {"using": "CAST(v AS bigint)"}, {"using": "CAST(v AS decimal(20,0))"}),
    _FAILURE: _typed(*_WRONG_TYPES[_FAILURE], {"onCastFailure": "Null"}, {"onCastFailure": "Quarantine"}),
    _KEPT: _typed(*_WRONG_TYPES[_KEPT], {"keepOldFor": "0s"}, {"keepOldFor": "1d"}),
}
