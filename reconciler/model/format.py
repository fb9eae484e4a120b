"""Rewrite manifest text in place: canonical types and key order for `laketable fmt`, a plan's hash for `approve -f`.

Text is cut and joined at libyaml's marks, never printed anew: comments, quotes and blank lines stay as their author
wrote them. A comment directly above a key moves with the key. Documents of other tools, and those with YAML aliases,
whose text stands for several places at once, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec
import yaml

from reconciler.errors import InvalidInput
from reconciler.model.manifest import GROUP, LakeCatalog, LakePolicy, LakeTable
from reconciler.model.manifest.common import Model
from reconciler.model.manifest.schema import Schema, child, parts, resolved_schema
from reconciler.model.transforms import parse_transform
from reconciler.model.type_strings import TypeTextError, parse_type, print_type
from reconciler.model.yaml import Data, compose, decode, load_all
from reconciler.model.yaml_text import print_quoted, print_scalar

_MODELS: dict[str, type[Model]] = {"LakeTable": LakeTable, "LakeCatalog": LakeCatalog, "LakePolicy": LakePolicy}


class _Edit(msgspec.Struct, frozen=True, order=True):
    """Replace the text between two indexes."""

    start: int
    end: int
    text: str


def format_manifest(text: str, source: str = "-") -> str:
    """Return the text with canonical type strings and key order; raise InvalidInput for unreadable YAML."""
    decoded = decode(text, source)
    load_all(decoded, source)  # refuses what is YAML but no data: duplicate keys, keys that are lists
    roots = [root for root in compose(decoded, source) if _kind(root) in _MODELS and not _has_aliases(root, set())]
    plain = _formatted(decoded, roots, in_order=False)
    # a block scalar's blank lines and last newline are data, and may change where the text around them does
    for candidate in (_ended(_formatted(decoded, roots, in_order=True)), _ended(plain)):
        if candidate == plain or _is_same_data(plain, candidate, source):
            return candidate
    return plain


def _formatted(text: str, roots: Sequence[yaml.Node], *, in_order: bool) -> str:
    schemas = [resolved_schema(_MODELS[_kind(root)]) for root in roots]
    each = (_edits(text, r, s, in_order=in_order, is_root=True) for r, s in zip(roots, schemas, strict=True))
    return _spliced(text, 0, len(text), [edit for edits in each for edit in edits])


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}{_newline(text)}"


def _is_same_data(text: str, other: str, source: str) -> bool:
    try:
        return load_all(text, source) == load_all(other, source)
    except InvalidInput:
        return False


def set_approval(text: str, index: int, plan_hash: str, source: str = "-") -> str:
    """Return the text with `spec.approval.plan` of its `index`-th document set, and nothing else changed."""
    decoded = decode(text, source)
    before = load_all(decoded, source)
    root = list(compose(decoded, source))[index]
    spec = _value(root, "spec")
    if _kind(root) != "LakeTable" or not isinstance(spec, yaml.MappingNode):
        raise InvalidInput("only a LakeTable with a spec can be approved.", where=source)
    after = _spliced(decoded, 0, len(decoded), [_approval_edit(decoded, spec, plan_hash)])
    if load_all(after, source) != _approved(before, index, plan_hash):
        place = f"{source}:{spec.start_mark.line + 1}"
        hint = f'Write approval: {{plan: "{plan_hash}"}} into its spec yourself.'
        raise InvalidInput("this spec cannot be approved by rewriting its text.", where=place, hint=hint)
    return "\ufeff" + after if text.startswith("\ufeff") else after


# ---------------------------------------------------------------- looking at nodes


def _kind(root: yaml.Node) -> str:
    version, kind = _value(root, "apiVersion"), _value(root, "kind")
    if not isinstance(version, yaml.ScalarNode) or not isinstance(kind, yaml.ScalarNode):
        return ""
    return str(kind.value) if version.value.startswith(f"{GROUP}/") else ""


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            if key_node.value == key and isinstance(value_node, yaml.Node):
                return value_node
    return None


def _is_json(mapping: yaml.MappingNode) -> bool:
    """Tell whether a mapping looks like JSON, and must stay so; the last key speaks for all."""
    return bool(mapping.flow_style and mapping.value and mapping.value[-1][0].style == '"')


def _has_aliases(node: yaml.Node, seen: set[int]) -> bool:
    if id(node) in seen:
        return True
    seen.add(id(node))
    return any(_has_aliases(child, seen) for child in _children(node))


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            yield key_node
            yield value_node
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _start(node: yaml.Node) -> int:
    index: int = node.start_mark.index
    return index


def _end(text: str, node: yaml.Node) -> int:
    """Return where a node's own text ends; libyaml lets block values reach to the next token."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        while end > _start(node) and text[end - 1] in "\r\n ":
            end -= 1
    return end


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    """Return the index behind the line's newline, or the end of the text."""
    newline = text.find("\n", index)
    return len(text) if newline < 0 else newline + 1


# ---------------------------------------------------------------- canonical types and order


def _edits(text: str, node: yaml.Node, schema: Schema, *, in_order: bool, is_root: bool = False) -> list[_Edit]:
    """Return what makes `node` canonical, as edits that do not overlap."""
    if isinstance(node, yaml.SequenceNode):
        return [edit for item in node.value for edit in _edits(text, item, child(schema, 0), in_order=in_order)]
    fields = parts(schema, "properties")
    if not fields or not isinstance(node, yaml.MappingNode):
        return []
    edits: list[_Edit] = []
    for key_node, value_node in node.value:
        field = fields.get(key_node.value)
        if field is not None:
            print_text = print_quoted if _is_json(node) else partial(print_scalar, in_flow=True)
            edits += _scalar_edits(text, str(schema["title"]), key_node.value, value_node, print_text)
            edits += _edits(text, value_node, field, in_order=in_order)
    order = _canonical_order(node, list(fields))
    if not in_order or order == sorted(order):
        return edits
    reordered = _reorder_flow(text, node, order, edits) if node.flow_style else None
    if reordered is None and not node.flow_style:
        reordered = _reorder_block(text, node, order, edits, is_root=is_root)
    return edits if reordered is None else [reordered]


def _scalar_edits(text: str, model: str, name: str, node: yaml.Node, print_text: Callable[[str], str]) -> list[_Edit]:
    if not isinstance(node, yaml.ScalarNode) or node.start_mark.line != node.end_mark.line:
        return []
    try:
        if model == "Column" and name == "type":
            canonical = print_type(parse_type(node.value))
        elif model in ("PartitionEntry", "SortEntry") and name == "transform":
            canonical = parse_transform(node.value)
        else:
            return []
    except (TypeTextError, ValueError):
        return []
    if canonical == node.value:
        return []
    return [_Edit(_start(node), _end(text, node), print_text(canonical))]


def _canonical_order(node: yaml.MappingNode, known: Sequence[str]) -> list[int]:
    """Return each entry's rank; unknown keys stay behind the known ones, in their order."""
    ranks = {key: rank for rank, key in enumerate(known)}
    return [ranks.get(key.value, len(known) + position) for position, (key, _) in enumerate(node.value)]


def _reorder_flow(text: str, node: yaml.MappingNode, order: list[int], edits: list[_Edit]) -> _Edit | None:
    spans = [(_start(key), _end(text, value)) for key, value in node.value]
    if node.start_mark.line != node.end_mark.line or any(start >= end for start, end in spans):
        return None
    pieces = [_spliced(text, start, end, edits) for start, end in spans]
    joined = ", ".join(piece for _, piece in sorted(zip(order, pieces, strict=True)))
    return _Edit(spans[0][0], spans[-1][1], joined)


def _reorder_block(
    text: str, node: yaml.MappingNode, order: list[int], edits: list[_Edit], *, is_root: bool
) -> _Edit | None:
    keys = [key for key, _ in node.value]
    column: int = keys[0].start_mark.column
    first = _start(keys[0])
    is_inline = bool(text[_line_start(text, first) : first].strip())
    heads = [first if is_inline else _line_start(text, first)]
    if not is_inline and not is_root:
        heads[0] = _comment_head(text, heads[0], 0, column)
    for (_, previous), key in zip(node.value, keys[1:], strict=False):
        start = _line_start(text, _start(key))
        if key.start_mark.column != column or text[start : _start(key)].strip():
            return None
        heads.append(_comment_head(text, start, _line_end(text, _end(text, previous)), column))
    end = _line_end(text, _end(text, node.value[-1][1]))
    pieces = [_spliced(text, a, b, edits) for a, b in zip(heads, [*heads[1:], end], strict=True)]
    if is_inline:
        pieces[0] = " " * column + pieces[0]
    ends_line = pieces[-1].endswith("\n")
    pieces = [piece if piece.endswith("\n") else f"{piece}{_newline(text)}" for piece in pieces]
    joined = "".join(piece for _, piece in sorted(zip(order, pieces, strict=True)))
    if is_inline:
        if joined[:column].strip() or joined[column : column + 1] == "#":
            return None
        joined = joined[column:]
    return _Edit(heads[0], end, joined if ends_line else joined.removesuffix(_newline(text)))


def _comment_head(text: str, start: int, least: int, column: int) -> int:
    """Return where the comment lines directly above a line begin, if they stand in the same column."""
    while start > least:
        above = _line_start(text, start - 1)
        line = text[above:start]
        if not line[column:].startswith("#") or line[:column].strip() or above < least:
            break
        start = above
    return start


def _spliced(text: str, start: int, end: int, edits: Sequence[_Edit]) -> str:
    """Return text[start:end] with the edits inside it made."""
    pieces: list[str] = []
    for edit in sorted(edits):
        if start <= edit.start and edit.end <= end:
            pieces += [text[start : edit.start], edit.text]
            start = edit.end
    return "".join((*pieces, text[start:end]))


# ---------------------------------------------------------------- approval


def _approval_edit(text: str, spec: yaml.MappingNode, plan_hash: str) -> _Edit:
    is_json = _is_json(spec)
    entry = f"{_key('plan', is_json)}: {print_quoted(plan_hash)}"
    approval = _value(spec, "approval")
    if approval is None:
        return _insert(text, spec, f"{_key('approval', is_json)}: {{{entry}}}")
    plan = _value(approval, "plan")
    if plan is not None:
        return _replace(text, plan, print_quoted(plan_hash))
    if isinstance(approval, yaml.MappingNode) and approval.value:
        return _insert(text, approval, entry)
    return _replace(text, approval, f"{{{entry}}}")


def _key(name: str, is_json: bool) -> str:
    return print_quoted(name) if is_json else name


def _replace(text: str, node: yaml.Node, new: str) -> _Edit:
    start, end = _start(node), _end(text, node)
    # an empty value has no text of its own, not even the space after the colon
    return _Edit(start, end, f" {new}" if start == end and text[start - 1 : start] == ":" else new)


def _insert(text: str, mapping: yaml.MappingNode, entry: str) -> _Edit:
    """Add an entry behind the last one of a mapping."""
    if not mapping.value:
        return _Edit(_start(mapping), _end(text, mapping), f"{{{entry}}}")
    key, value = mapping.value[-1]
    end = _end(text, value)
    if mapping.flow_style:
        return _Edit(end, end, f", {entry}")
    line_end = _line_end(text, end)
    indented = " " * key.start_mark.column + entry
    if text[line_end - 1 : line_end] == "\n":
        return _Edit(line_end, line_end, f"{indented}{_newline(text)}")
    return _Edit(line_end, line_end, f"{_newline(text)}{indented}")


def _approved(documents: list[Data], index: int, plan_hash: str) -> list[Data]:
    """Return the data that the new text must mean."""
    document = documents[index]
    spec = document.get("spec") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(spec, dict):
        return documents
    approval = spec.get("approval")
    known = approval if isinstance(approval, dict) else {}
    changed: Data = {**document, "spec": {**spec, "approval": {**known, "plan": plan_hash}}}
    return [*documents[:index], changed, *documents[index + 1 :]]
