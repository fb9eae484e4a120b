"""Lay out rows of cells in aligned columns within a width; text that does not fit wraps inside its column.

Nothing is cut: a reviewer must never approve what a narrow terminal has hidden. Colours are plain ANSI codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from reconciler.render.safe import display_width

GAP = "  "
MINIMUM_WIDTH = 60
_NARROWEST = 10
_ASIDE = "    "


class Style(Enum):
    """What a piece of text means; the value is its ANSI code."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    ADD = "32"
    DROP = "31"
    ALTER = "33"
    RENAME = "36"
    DANGER = "1;31"
    COSTLY = "35"


class Cell(NamedTuple):
    """One cell: clean text, its style, and whether it is a number (right-aligned)."""

    text: str
    style: Style = Style.PLAIN
    right: bool = False


def paint(text: str, style: Style, color: bool) -> str:
    """Colour `text` when colours are on."""
    return f"\x1b[{style.value}m{text}\x1b[0m" if color and style.value and text else text


def grid(rows: Sequence[Sequence[Cell]], *, width: int, color: bool = False, indent: str = "") -> list[str]:
    """Return the rows as lines; every row has the same number of cells, trailing blanks are dropped."""
    if not rows:
        return []
    available = max(width, MINIMUM_WIDTH) - len(indent) - len(GAP) * (len(rows[0]) - 1)
    widths = fit(natural_widths(rows), available)
    return [indent + line for row in rows for line in lay(row, widths, color=color)]


def natural_widths(rows: Sequence[Sequence[Cell]]) -> list[int]:
    """Return the width that each column would like."""
    return [max(display_width(row[i].text) for row in rows) for i in range(len(rows[0]))]


def fit(natural: Sequence[int], available: int) -> list[int]:
    """Shrink the widest columns, evenly, until the sum fits or all are at the narrowest."""
    widths = list(natural)
    while sum(widths) > available:
        widest = max(widths)
        if widest <= _NARROWEST:
            break
        following = max((w for w in widths if w < widest), default=_NARROWEST)
        those = [i for i, w in enumerate(widths) if w == widest]
        spare = sum(widths) - available
        target = max(following, _NARROWEST, widest - -(-spare // len(those)))
        for i in those:
            widths[i] = target
    return widths


def lay(
    row: Sequence[Cell], widths: Sequence[int], *, color: bool = False, aside: str = "", room: int = 0
) -> list[str]:
    """Return one row's lines; `aside` follows on the same line when `room` lets it, else on lines of its own."""
    lines = list(_lines(row, widths, color))
    if not aside:
        return lines
    used = sum(widths) + len(GAP) * len(widths)
    if len(lines) == 1 and used + display_width(aside) <= room:
        (line,) = _lines((*row, Cell(aside, Style.DIM)), (*widths, display_width(aside)), color)
        return [line]
    return lines + [
        _ASIDE + paint(piece, Style.DIM, color) for piece in wrap(aside, max(room, _NARROWEST) - len(_ASIDE))
    ]


def _lines(row: Sequence[Cell], widths: Sequence[int], color: bool) -> Iterator[str]:
    columns = [wrap(cell.text, width) for cell, width in zip(row, widths, strict=True)]
    for number in range(max(len(column) for column in columns)):
        pieces = [column[number] if number < len(column) else "" for column in columns]
        last = max((i for i, piece in enumerate(pieces) if piece), default=-1)
        yield GAP.join(
            _padded(pieces[i], row[i], 0 if i == last and not row[i].right else widths[i], color)
            for i in range(last + 1)
        )


def _padded(piece: str, cell: Cell, width: int, color: bool) -> str:
    blank = " " * (width - display_width(piece))
    painted = paint(piece, cell.style, color)
    return blank + painted if cell.right else painted + blank


def wrap(text: str, width: int) -> list[str]:
    """Break clean text into pieces of at most `width` cells, at spaces where there are any."""
    if display_width(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if display_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        *whole, line = _pieces(word, width)
        lines.extend(whole)
    lines.append(line)
    return lines


def _pieces(word: str, width: int) -> list[str]:
    """Break one word that is too long; never empty."""
    pieces, piece = [], ""
    for character in word:
        if piece and display_width(piece + character) > width:
            pieces.append(piece)
            piece = ""
        piece += character
    return [*pieces, piece]
