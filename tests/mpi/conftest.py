"""The launcher of a test's jobs; what is left of them is removed."""

import pytest
from launcher import Launcher


@pytest.fixture
def launcher(tmp_path):
    launcher = Launcher(tmp_path)
    yield launcher
    launcher.kill_orphans()
