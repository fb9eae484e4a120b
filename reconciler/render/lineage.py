"""Which views read what, as text and as a mermaid graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reconciler.model.table import TableIdent
from reconciler.model.types import dotted
from reconciler.plan.lineage import Lineage
from reconciler.render.safe import clean


def render_lineage(views: Sequence[Lineage]) -> str:
    """Print each view with its sources, and under each of its columns what it is made of."""
    lines: list[str] = []
    for lineage in views:
        lines.append(clean(f"{lineage.view} reads {_sources(lineage)}"))
        for name, edges in lineage.edges.items():
            made_of = ", ".join(f"{edge.table}.{dotted(edge.path)}" for edge in edges) or "no column"
            lines.append(clean(f"  {name} ← {made_of}"))
    return "\n".join(lines)


def _sources(lineage: Lineage) -> str:
    parts = []
    for table, columns in sorted(lineage.reads.items()):
        parts.append(f"{table} ({', '.join(map(dotted, columns)) or 'its rows'})")
    return ", ".join(parts)


def render_mermaid(views: Sequence[Lineage]) -> str:
    """Print a flowchart: tables as boxes, views as rounded ones, arrows from source to view with the columns read."""
    tables = sorted({table for lineage in views for table in (lineage.view, *lineage.reads)})
    numbers = {table: f"t{number}" for number, table in enumerate(tables)}
    are_views = {lineage.view for lineage in views}
    lines = ["flowchart LR", *(_node(table, numbers[table], table in are_views) for table in tables)]
    for lineage in views:
        for table, columns in sorted(lineage.reads.items()):
            label = f'|"{_label(map(dotted, columns))}"|' if columns else ""
            lines.append(f"  {numbers[table]} -->{label} {numbers[lineage.view]}")
    return "\n".join(lines)


def _node(table: TableIdent, number: str, is_view: bool) -> str:
    text = f'"{_label([str(table)])}"'
    return f"  {number}({text})" if is_view else f"  {number}[{text}]"


def _label(words: Iterable[str]) -> str:
    """Keep a name from ending the label: mermaid knows HTML's entities only."""
    return (
        clean(", ".join(words)).replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("|", "&#124;")
    )
