"""Who is who among siblings: renames that the manifest declares, and renames that somebody seems to have forgotten."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set

import msgspec

from reconciler.diff.problems import Problem, ProblemKind
from reconciler.model.primitives import NEWEST_FORMAT_VERSION, can_widen
from reconciler.model.types import Field, FieldPath, Type, map_fields

SIMILAR = 0.6
"""From this ratio on two names look alike."""

COMPARISONS = 1_000
"""So many pairs of names are compared; beyond, order alone pairs them."""


def claim_live_names(
    prefix: FieldPath,
    desired: Sequence[Field],
    live: Sequence[Field],
    former: Mapping[str, str],
    managed: Set[int],
) -> tuple[dict[str, str], list[Problem]]:
    """Map desired names to the live names they are bound to; what is not in the map is new."""
    live_ids = {field.name: field.id for field in live}
    names = {field.name for field in desired}
    if not former:
        return {name: name for name in names & live_ids.keys()}, []
    problems: list[Problem] = []
    claims: dict[str, str] = {}
    for field in desired:
        name, source = field.name, former.get(field.name)
        if source is None or name in live_ids:
            continue
        path = (*prefix, name)
        chain = _chain(name, former, live_ids.keys(), names)
        if source not in live_ids:
            problems.append(Problem(kind=ProblemKind.RENAME_SOURCE_MISSING, path=path, before=source, after=name))
        elif chain is None or not set(chain.values()).isdisjoint(claims.values()):
            problems.append(Problem(kind=ProblemKind.RENAME_AMBIGUOUS, path=path, before=source, after=name))
        else:
            claims |= chain
    taken = set(claims.values())
    for field in desired:
        name = field.name
        if name in claims or name not in live_ids or name in taken:
            continue
        claims[name] = name
        source = former.get(name)
        # Both are there. Had we renamed it ourselves, we would remember this one and not the former one.
        is_done = live_ids[name] in managed and live_ids.get(source or "") not in managed
        if source in live_ids and source not in names and source not in taken and not is_done:
            problems.append(
                Problem(kind=ProblemKind.RENAME_AMBIGUOUS, path=(*prefix, name), before=source or "", after=name)
            )
    return claims, problems


def _chain(name: str, former: Mapping[str, str], live: Set[str], desired: Set[str]) -> dict[str, str] | None:
    """Follow a rename through columns that move away themselves (b from a, c from b); None: one of them stays."""
    chain: dict[str, str] = {}
    while True:
        source = former.get(name)
        if source is None or source not in live or source in chain.values():
            return None
        chain[name] = source
        if source not in desired:
            return chain
        name = source


class Suspects(msgspec.Struct, frozen=True, kw_only=True):
    """One level of siblings: what is added without a rename, what would be dropped, and unmanaged fields that stay."""

    live: Sequence[Field]
    desired: Sequence[Field]
    added: Sequence[Field]
    dropped: Sequence[Field]
    kept: Sequence[Field]


def suspected_renames(prefix: FieldPath, suspects: Suspects) -> Iterator[Problem]:
    """Pair dropped with added fields of a fitting type, best pair first; each is in one pair at most."""
    if not suspects.added or not (suspects.dropped or suspects.kept):
        return
    is_small = len(suspects.added) * len(suspects.dropped) <= COMPARISONS
    pairs = sorted(_ranked_pairs(suspects)) if is_small else _pairs_in_order(suspects)
    paired: dict[str, str] = {}
    seen: set[str] = set()
    for _, after, before in (*pairs, *_unmanaged_pairs(suspects)):
        if after not in paired and before not in seen:
            paired[after] = before
            seen.add(before)
    for field in suspects.added:
        if field.name in paired:
            before, after = paired[field.name], field.name
            yield Problem(kind=ProblemKind.SUSPECTED_RENAME, path=(*prefix, after), before=before, after=after)


_Pair = tuple[tuple[float, ...], str, str]
"""Rank (the smallest first), added name, dropped name."""


def _ranked_pairs(suspects: Suspects) -> Iterator[_Pair]:
    """Yield every fitting pair; same type before a wider one, then alike names, then near positions."""
    was = {field.name: index for index, field in enumerate(suspects.live)}
    becomes = {field.name: index for index, field in enumerate(suspects.desired)}
    dropped = [(old, _bare(old.type)) for old in suspects.dropped]
    for new in suspects.added:
        bare, there = _bare(new.type), becomes[new.name]
        for old, old_bare in dropped:
            is_same, here = bare == old_bare, was[old.name]
            if is_same or _is_kin(old.type, new.type):
                rank = (not is_same, -_likeness(old.name, new.name), abs(here - there), there, here)
                yield rank, new.name, old.name


def _pairs_in_order(suspects: Suspects) -> Iterator[_Pair]:
    """Pair by order within each type: comparing thousands of names with each other would take minutes."""
    waiting: dict[Type, deque[str]] = {}
    for old in suspects.dropped:
        waiting.setdefault(_bare(old.type), deque()).append(old.name)
    for new in suspects.added:
        names = waiting.get(_bare(new.type))
        if names:
            yield (), new.name, names.popleft()


def _unmanaged_pairs(suspects: Suspects) -> Iterator[_Pair]:
    """Yield unmanaged fields that stay only when an added look-alike of the same type takes their very place."""
    kept = {field.name for field in suspects.kept}
    added = {field.name for field in suspects.added}
    for new, old in zip(suspects.desired, suspects.live, strict=False):
        is_pair = new.name in added and old.name in kept and _bare(new.type) == _bare(old.type)
        if is_pair and _likeness(old.name, new.name) >= SIMILAR:
            yield (), new.name, old.name


def _bare(type_: Type) -> Type:
    """Strip what does not make a type another one: ids, docs, defaults."""
    return map_fields(type_, lambda f: Field(name=f.name, required=f.required, type=f.type))


def _likeness(one: str, other: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(a=one.lower().replace("_", ""), b=other.lower().replace("_", ""), autojunk=False).ratio()


def _is_kin(before: Type, after: Type) -> bool:
    """Whether any format version widens one type to the other; a column of type unknown has no values to lose."""
    if not isinstance(before, str) or not isinstance(after, str) or before == "unknown":
        return False
    return can_widen(before, after, NEWEST_FORMAT_VERSION)
