"""Make text that others wrote harmless where it is shown: on a terminal and in Markdown.

Names, docs, property values and file names come from manifests and live tables. On a terminal an escape sequence could
hide a destructive line, and a bidirectional override could reorder one; in a pull request a name could break out of its
table cell, ping people or load an image.
"""

from __future__ import annotations

import re
import unicodedata

_MARKDOWN = r"[\\`*_\[\]~|$<>&]"
# A zero-width space behind these keeps GitHub from making mentions, references and links of a stranger's text.
_AUTOLINK = r"(?i)@(?=\w)|#(?=\d)|(?:GH-|https?:|ftp:|mailto:|www\.)"
_DELICATE = r"[`|\\]"
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;", "$": "&#36;"}


def clean(text: str, limit: int = 0) -> str:
    r"""Return `text` on one line with every control, format and bidirectional character spelled out (`\x1b`).

    With a limit, a longer text is cut and says how long it was.
    """
    if limit and len(text) > limit:
        return f"{clean(text[:limit])}… ({len(text):,} characters)"
    return text if text.isprintable() else "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character.isprintable():
        return character
    if unicodedata.category(character) == "Zs":
        return " "
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def markdown(text: str) -> str:
    """Return `text` as plain words in GitHub's Markdown: no markup, HTML, mention, reference or link comes of it."""
    return re.sub(_MARKDOWN, _escaped, re.sub(_AUTOLINK, _broken, clean(text)))


def _broken(match: re.Match[str]) -> str:
    found = match.group()
    return f"{found[0]}\u200b{found[1:]}"


def _escaped(match: re.Match[str]) -> str:
    character = match.group()
    return _ENTITIES.get(character) or f"\\{character}"


def code(text: str) -> str:
    """Return `text` as Markdown code, in a paragraph or a table cell; nothing inside can end it."""
    shown = clean(text)
    if not shown:
        return ""
    if re.search(_DELICATE, shown) or shown != shown.strip():
        # A code span has no escapes and a table cell has its own: entities inside <code> are safe in both.
        return f"<code>{markdown(shown)}</code>"
    return f"`{shown}`"


def fence(text: str, language: str = "") -> str:
    """Return lines as a fenced block that no line inside can close; the lines themselves must be clean."""
    ticks = "`" * max(3, _longest_run(text) + 1)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def display_width(text: str) -> int:
    """Count the terminal cells of clean text: wide East Asian characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
