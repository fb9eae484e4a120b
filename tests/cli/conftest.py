"""What the tests of the program share."""

from __future__ import annotations

import pytest

from tests.cli.faults import GOOD, ID
from tests.cli.lab import Lab


@pytest.fixture
def live(lab: Lab) -> Lab:
    """A table that the manifest evolves: plan and apply have something to do."""
    lab.apply([ID])
    lab.append([{"id": 1}])
    lab.write("orders.yaml", GOOD)
    return lab
