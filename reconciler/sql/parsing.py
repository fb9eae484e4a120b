"""From text to sqlglot's tree: limits first, a dialect that rewrites nothing, and the proof that nothing got lost.

sqlglot's own Spark dialect turns functions into other functions and back; here every call keeps its name and arguments,
so that the printed SQL means what the author's SQL means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from reconciler.sql.literals import decode_string
from reconciler.sql.refusals import RefusedSql

MAX_EXPRESSION = 8192
MAX_QUERY = 65_536
MAX_DEPTH = 24
"""Nesting of brackets, CASE, prefix operators, lambdas, joins; sqlglot needs some 30 frames for each."""

_KEPT_CALLS = frozenset({"CAST", "TRY_CAST", "EXTRACT"})
_KEPT_WORDS = frozenset({"CASE", "IF"})


class _Parser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    FUNCTION_PARSERS = {k: v for k, v in SparkParser.FUNCTION_PARSERS.items() if k in _KEPT_CALLS}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        k: v for k, v in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if k in _KEPT_WORDS
    }
    # sqlglot replaces the variables of a lambda by name, blind to inner lambdas; we resolve them ourselves
    LAMBDAS = {  # noqa: RUF012
        TokenType.ARROW: lambda self, names: self.expression(
            exp.Lambda(this=self._parse_disjunction(), expressions=names)
        ),
    }
    EXPRESSION_PARSERS = {  # noqa: RUF012
        exp.Condition: lambda self: self._parse_disjunction(),
        exp.Query: lambda self: self._parse_query_modifiers(self._parse_set_operations(self._parse_select())),
    }

    def _warn_unsupported(self) -> None:
        """Fail instead of logging and guessing a command."""
        self.raise_error("Unsupported syntax")


class _Dialect(Spark):
    Parser = _Parser

    class Tokenizer(Spark.Tokenizer):
        NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}


_DIALECT = _Dialect()
_Tree = TypeVar("_Tree", bound=exp.Expr)

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}
_DEEPER = {TokenType.ARROW, TokenType.JOIN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.COLON}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.INTERVAL}
_TYPES = {TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT}
_REFUSED_TOKENS = {
    TokenType.SEMICOLON: ("there is more than one statement", "Remove the ';' and what follows it."),
    TokenType.HINT: ("hints are not allowed", "Remove the /*+ … */."),
    TokenType.PARAMETER: ("variables are not allowed", "Write the value itself."),
    TokenType.SESSION_PARAMETER: ("variables are not allowed", "Write the value itself."),
    TokenType.PLACEHOLDER: ("parameters are not allowed", "Write the value itself."),
    TokenType.L_BRACE: ("braces are not allowed", ""),
    TokenType.R_BRACE: ("braces are not allowed", ""),
    TokenType.BLOCK_START: ("templates are not allowed", "Write the SQL itself."),
    TokenType.BLOCK_END: ("templates are not allowed", "Write the SQL itself."),
    TokenType.DCOLON: ("the operator '::' is not allowed", "Write CAST(x AS type)."),
    TokenType.COMMAND: ("commands are not allowed", ""),
    TokenType.PIPE_GT: ("pipes are not allowed", "Write SELECT … FROM …."),
}
# direction marks and other invisible characters that make a text read differently from what it says
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ue000-\uf8ff]"
)


def parse_scalar(text: str) -> exp.Expr:
    """Parse exactly one expression; raise RefusedSql."""
    return _parse(text, MAX_EXPRESSION, exp.Condition)


def parse_statement(text: str) -> exp.Expr:
    """Parse exactly one query; raise RefusedSql."""
    tokens = _checked_tokens(text, MAX_QUERY)
    start = tokens[0] if tokens else None
    if start is None or start.token_type not in {TokenType.SELECT, TokenType.WITH}:
        found = f", not with '{_shown(start.text)}'" if start else ""
        hint = "Write SELECT … FROM <namespace>.<table>."
        raise RefusedSql(f"a query starts with SELECT or WITH{found}", hint, offset=start.start if start else 0)
    return _parse_tokens(tokens, text, exp.Query)


def _parse(text: str, limit: int, kind: type[exp.Expr]) -> exp.Expr:
    tokens = _checked_tokens(text, limit)
    if not tokens:
        raise RefusedSql("the expression is empty", "Write an expression over the table's columns.", offset=0)
    return _parse_tokens(tokens, text, kind)


def _parse_tokens(tokens: list[Token], text: str, kind: type[exp.Expr]) -> exp.Expr:
    trees: Sequence[Any]
    try:
        trees = _Parser(dialect=_DIALECT).parse_into(kind, tokens, text)
    except ParseError as error:
        raise _syntax_error(error, text) from None
    except RecursionError:
        raise RefusedSql("it is nested too deeply", "Split it up.") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, AssertionError):
        # sqlglot trips over some malformed texts instead of refusing them
        raise RefusedSql("it cannot be read as SQL", "Check the syntax.") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Expr):
        raise RefusedSql("it cannot be read as one piece of SQL", "Check the syntax.", offset=0)
    return trees[0]


def _syntax_error(error: ParseError, text: str) -> RefusedSql:
    first = error.errors[0] if error.errors else {}
    line, column, word = first.get("line"), first.get("col"), str(first.get("highlight") or "")
    offset = None
    if isinstance(line, int) and isinstance(column, int):
        before = text.split("\n")[: line - 1]
        offset = max(0, min(len(text), sum(len(part) + 1 for part in before) + column - len(word)))
    near = f" near '{_shown(word)}'" if word else ""
    return RefusedSql(f"it is not valid SQL{near}", "Check the brackets, commas and quotes.", offset=offset)


def _checked_tokens(text: str, limit: int) -> list[Token]:
    if len(text) > limit:
        raise RefusedSql(f"it has {len(text)} characters, more than {limit}", "Split it up.", offset=limit)
    invisible = _INVISIBLE.search(text)
    if invisible is not None:
        message = f"it holds the invisible character U+{ord(invisible.group()):04X}"
        raise RefusedSql(message, "Remove it; in a string write it as \\uXXXX.", offset=invisible.start())
    if "${" in text:
        hint = "Write the value itself; in a string write '$\\{'."
        raise RefusedSql("variables are not allowed: Spark would substitute ${…}", hint, offset=text.index("${"))
    try:
        tokens = _DIALECT.tokenize(text)
    except (TokenError, ValueError, IndexError):
        raise RefusedSql("a quote or a comment is not closed", "Check the quotes.", offset=0) from None
    for token in tokens:
        refused = _REFUSED_TOKENS.get(token.token_type)
        if refused is not None:
            raise RefusedSql(*refused, offset=token.start)
        if token.token_type is TokenType.STRING:
            token.text = decode_string(text[token.start : token.end + 1], token.start)
    _check_depth(tokens)
    return tokens


def _check_depth(tokens: list[Token]) -> None:
    depth, run, stack = 0, 0, []
    before: TokenType | None = None
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            stack.append(depth)
            depth, run = depth + 1 + run, 0
        elif kind in _CLOSING:
            depth, run = stack.pop() if stack else 0, 0
        elif kind in _DEEPER or (kind is TokenType.LT and before in _TYPES):
            depth += 1
        else:
            run = run + 1 if kind in _PREFIX else 0
        if depth + run > MAX_DEPTH:
            hint = f"At most {MAX_DEPTH} levels of brackets, CASE, NOT or joins; split it up."
            raise RefusedSql("it is nested too deeply", hint, offset=token.start)
        before = kind


# ---------------------------------------------------------------- nothing got lost

_SPELLINGS = {
    "==": "=",
    "!=": "<>",
    "!": "NOT",
    "REGEXP": "RLIKE",
    "MINUS": "EXCEPT",
    "TEXT": "STRING",
    "LONG": "BIGINT",
    "INTEGER": "INT",
    "NUMERIC": "DECIMAL",
    "DEC": "DECIMAL",
    "REAL": "FLOAT",
    "TIMESTAMP_LTZ": "TIMESTAMP",
    "SHORT": "SMALLINT",
    "BYTE": "TINYINT",
}
# words that change nothing, or that the printer adds
_SILENT = frozenset({"AS", "INNER", "OUTER", "ASC", "NULLS", "FIRST", "LAST", ":"})
_NULL_SAFE = ("IS", "NOT", "DISTINCT", "FROM")
_TEXTS = {TokenType.STRING, TokenType.RAW_STRING}
_SPACE = re.compile(r"\s+")


def check_same(text: str, printed: str) -> None:
    """Raise RefusedSql unless both texts are the same words in the same order, up to spelling.

    So sqlglot can neither drop a part of the author's text nor add brackets that Spark would not have seen.
    """
    if _words(text) != _words(printed):
        hint = "Put brackets around comparisons and predicates that are operands, and write JOINs out."
        raise RefusedSql("it can be read in more than one way", hint)


def _words(text: str) -> tuple[int, list[str]]:
    words: list[str] = []
    tokens = _DIALECT.tokenize(text)
    for index, token in enumerate(tokens):
        if token.token_type in _TEXTS:
            raw = text[token.start : token.end + 1]
            is_raw = token.token_type is TokenType.RAW_STRING
            words.append("'" + (token.text if is_raw else decode_string(raw, token.start)))
        elif token.token_type is TokenType.HEX_STRING:
            words.append(f"x'{token.text.upper()}'")
        elif token.token_type is TokenType.NUMBER and words[-1:] == ["INTERVAL"]:
            words.append(f"'{token.text}")
        elif token.token_type is TokenType.NUMBER and words[-1:] == ["."] and _starts_number(tokens, index):
            words[-1] = f"0.{token.text}"
        else:
            word = _SPACE.sub(" ", token.text).upper()
            words.append(_SPELLINGS.get(word, word))
            if tuple(words[-4:]) == _NULL_SAFE:
                words[-4:] = ["<=>"]
    return words.count("NOT"), [word for word in words if word != "NOT" and word not in _SILENT]


def _starts_number(tokens: list[Token], index: int) -> bool:
    """Whether the dot before a number belongs to it: `.5`, not `a.5`."""
    before = tokens[index - 2] if index >= 2 else None
    return before is None or before.end + 1 != tokens[index - 1].start or not (before.text[-1:].isalnum())


def offset_of(node: exp.Expr) -> int | None:
    """Return where a part of the tree starts in the text, as far as sqlglot remembers."""
    starts = [start for n in node.walk() if isinstance(start := n.meta.get("start"), int)]
    return min(starts, default=None)


def _shown(word: str) -> str:
    return word if len(word) <= 40 else word[:39] + "…"
