"""Every primitive has a kernel."""

import subprocess
import sys

import uniflexflow.random  # noqa: F401 - its primitives too
from uniflexflow._core import LOWERINGS
from uniflexflow.ops.registry import OPS


def test_every_primitive_has_a_lowering():
    missing = {name for name, op in OPS.items() if not op.elementwise and name not in LOWERINGS}
    assert not missing


def test_every_lowering_is_of_a_primitive():
    assert set(LOWERINGS) <= set(OPS)


def test_a_missing_build_says_what_to_do():
    code = "import sys; sys.modules['uniflexflow._core.chain'] = None\nimport uniflexflow._core"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "the compiled part is missing (uniflexflow._core.chain): run" in done.stderr
