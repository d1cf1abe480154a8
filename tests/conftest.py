"""Settings shared by all tests: the tables on the path, a seed per test."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

# Results don't depend on what somebody has measured on this machine.
os.environ["UNIFLEXFLOW_TUNED"] = "off"

for room in ("", "ops"):
    sys.path.insert(0, str(Path(__file__).parent / room))


@pytest.fixture
def rng(request):
    """Return a generator whose numbers depend on the test's name only."""
    name = request.node.nodeid.encode()
    return np.random.default_rng(list(name))
