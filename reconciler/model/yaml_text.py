"""Print manifests as YAML that every YAML reader understands alike: block style, short items on one line."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from reconciler.model.yaml import Data, resolve_plain

if TYPE_CHECKING:
    from reconciler.model.manifest import Manifest

_LINE = 110
_PLAIN = re.compile(r"[A-Za-z0-9_/.<$(][^\x00-\x1f\x7f-\xa0\u2028\u2029\ufeff]*")
_SAFE_IN_FLOW = re.compile(r"[^,\[\]{}]*")
# what YAML 1.1 readers (kubectl among them) take for something else than text
_YAML11 = re.compile(
    r"(?i:y|n|yes|no|on|off|true|false|null|~|\.inf|\.nan|=|<<)|[.\d][\d_:.,eE+ TtZz-]*|0[xob][\da-fA-F_]+"
)


def dump_yaml(manifest: Manifest) -> str:
    """Return a manifest as one canonical YAML document: keys in the order of the model, only what it states."""
    return dump_data(manifest.model_dump(exclude_unset=True))


def dump_data(data: Data) -> str:
    """Return plain data as a YAML document."""
    return "".join(f"{line}\n" for line in _block(data, 0))


def print_scalar(value: str | int | float | bool | None, *, in_flow: bool = False) -> str:
    """Return one scalar, quoted only where some reader would misunderstand it."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _is_plain(value) and (not in_flow or _SAFE_IN_FLOW.fullmatch(value)):
        return value
    return print_quoted(value)


def _is_plain(value: str) -> bool:
    if not _PLAIN.fullmatch(value) or value.endswith((" ", ":")) or ": " in value or " #" in value:
        return False
    return value.isprintable() and not _YAML11.fullmatch(value) and resolve_plain(value) == "str"


def print_quoted(value: str) -> str:
    """Return text in the double quotes that JSON and YAML read alike."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"[\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _block(data: Data, indent: int) -> list[str]:
    pad = " " * indent
    if isinstance(data, dict) and data:
        return [line for key, value in data.items() for line in _entry(f"{pad}{print_scalar(key)}:", value, indent + 2)]
    if isinstance(data, list) and data:
        return [line for item in data for line in _item(item, indent)]
    return [pad + _flow(data)]


def _entry(head: str, value: Data, indent: int) -> list[str]:
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return [head, *_block(value, indent)]
    line = f"{head} {_flow(value)}"
    if _is_leaf(value) and (len(line) <= _LINE or not isinstance(value, dict | list)):
        return [line]
    return [head, *_block(value, indent)]


def _item(item: Data, indent: int) -> list[str]:
    pad = " " * indent
    line = f"{pad}- {_flow(item)}"
    if not isinstance(item, dict | list) or not item or len(line) <= _LINE:
        return [line]
    first, *rest = _block(item, indent + 2)
    return [f"{pad}- {first.lstrip()}", *rest]


def _is_leaf(value: Data) -> bool:
    if isinstance(value, dict):
        return not any(isinstance(part, dict | list) and part for part in value.values()) and len(value) <= 2
    if isinstance(value, list):
        return not any(isinstance(part, dict | list) and part for part in value)
    return True


def _flow(value: Data) -> str:
    if isinstance(value, dict):
        parts = (f"{print_scalar(key, in_flow=True)}: {_flow_value(part)}" for key, part in value.items())
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_flow_value(part) for part in value)}]"
    return print_scalar(value)


def _flow_value(value: Data) -> str:
    return _flow(value) if isinstance(value, dict | list) else print_scalar(value, in_flow=True)
