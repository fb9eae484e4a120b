"""Spark's string literals and quoted identifiers: read as Spark reads them, printed so that nothing gets out."""

from __future__ import annotations

import re

from reconciler.sql.refusals import RefusedSql

_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)
# Spark's UnescapeSQLString; `\%` and `\_` keep their backslash for LIKE, any other character stands for itself
_NAMED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_PRINTED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def decode_string(raw: str, offset: int) -> str:
    """Return the value of a quoted literal (quotes included in `raw`), as Spark decodes it."""
    body = raw[1:-1]
    if "\\" not in body:
        return body
    units = _ESCAPE.sub(_decode_escape, body)
    try:
        return units.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        message = "the text holds half of a character: a lone \\u surrogate"
        raise RefusedSql(message, "Write the character itself.", offset=offset) from None


def _decode_escape(match: re.Match[str]) -> str:
    short, long, octal, single = match.groups()
    if short or long:
        code = int(short or long, 16)
        return chr(code) if code <= 0x10FFFF else match.group()[1:]
    return chr(int(octal, 8)) if octal else _NAMED.get(single, single)


def quote_string(value: str) -> str:
    """Print a string literal on one line; both `'` and the backslash are escaped, and no `${` is left to substitute."""
    text = "".join(_PRINTED.get(char) or (char if char.isprintable() else _unicode(char)) for char in value)
    return "'" + text.replace("${", "$\\{") + "'"


def _unicode(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def quote_name(name: str, offset: int | None = None) -> str:
    """Print an identifier in back-ticks."""
    if not name or not name.isprintable() or "${" in name:
        message = "an identifier is empty or holds a character that cannot be quoted"
        raise RefusedSql(message, "Rename the column.", offset=offset)
    return "`" + name.replace("`", "``") + "`"
