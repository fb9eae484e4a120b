"""What the tests of the pipeline share."""

from __future__ import annotations

import pytest

from tests.pipeline.kit import Lake, table, view


@pytest.fixture
def lake() -> Lake:
    """Orders with rows, and a view whose rows are theirs."""
    made = Lake()
    made.create(table(), view())
    for _ in range(4):
        made.append()
    made.refreshed(view())
    return made
