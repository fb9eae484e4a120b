"""What admission tells people besides yes or no, cut to what an API server passes on; pure.

It keeps 4,096 characters of warnings per request in all. When there are more, it cuts each to 256 and drops the rest,
other webhooks' among them; a warning that was said before in the same request is dropped too.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import wrap

from reconciler.render.safe import clean

LINE_LENGTH = 240
TOTAL_LENGTH = 3_600


def fit(lines: Iterable[str], *, rest: str = "") -> tuple[str, ...]:
    """Return lines as warnings: in order, the long ones wrapped, as many as fit; `rest` says where the others are."""
    wanted = list(dict.fromkeys(part for line in lines for part in _wrapped(clean(line.rstrip()))))
    kept, room = list[str](), TOTAL_LENGTH
    for line in wanted:
        room -= len(line)
        if room < 0:
            break
        kept.append(line)
    left = len(wanted) - len(kept)
    if left:
        kept.append(f"… and {left} more line{'' if left == 1 else 's'}{f': {rest}' if rest else ''}")
    return tuple(kept)


def _wrapped(line: str) -> list[str]:
    """Break a line that an API server might cut."""
    if len(line) <= LINE_LENGTH:
        return [line] if line else []
    return wrap(line, LINE_LENGTH, subsequent_indent="  ", drop_whitespace=True)
