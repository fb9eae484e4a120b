"""What admission tells people besides yes or no, cut to what an API server passes on; pure.

It keeps 4,096 characters of warnings per request in all. When there are more, it cuts each to 256 and drops the rest,
other webhooks' among them; a warning that was said before in the same request is dropped too.
"""

from __future__ import annotations

from collections.abc import Iterable

from reconciler.render.safe import clean

LINE_LENGTH = 240
TOTAL_LENGTH = 3_600


def fit(lines: Iterable[str], *, rest: str = "") -> tuple[str, ...]:
    """Return lines as warnings: in order, each whole or cut, as many as fit; `rest` tells where to see the others."""
    wanted = [_cut(line) for line in dict.fromkeys(line.rstrip() for line in lines) if line]
    kept, room = list[str](), TOTAL_LENGTH
    for line in wanted:
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    left = len(wanted) - len(kept)
    if left:
        kept.append(_cut(f"… and {left} more line{'' if left == 1 else 's'}{f': {rest}' if rest else ''}"))
    return tuple(kept)


def _cut(line: str) -> str:
    text = clean(line)
    return text if len(text) <= LINE_LENGTH else f"{text[: LINE_LENGTH - 1]}…"
