"""The "did you mean" of every message, in one place."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """Return `Did you mean 'x'?` for the nearest known word, or nothing."""
    import difflib

    by_folded = {candidate.casefold(): candidate for candidate in known}
    if len(word) > 100:
        return ""
    near = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=cutoff)
    return f"Did you mean '{by_folded[near[0]]}'?" if near else ""
