"""The kernels at AVX-512's width and block sizes, where the machine has no AVX-512.

The sources are compiled as for AVX-512 by their own choice of width, but into AVX2
instructions (GCC splits each vector), so what is cut by the width is tested everywhere.
The AVX-512 objects themselves run where `dispatch.available()` has them, in all other tests.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from uniflexflow._core import dispatch

RUN = Path(__file__).parent / "aarch64" / "run.sh"
BUILD = Path(__file__).parents[2] / "build" / "wide"
# the families whose sources depend on the width, except for the probe, which names registers
FAMILIES = (
    "attention",
    "convolution",
    "crossentropy",
    "gemm",
    "movement",
    "recurrent",
    "reduce",
    "softmax",
    "window",
    "winograd",
)

HAS_AVX512 = "v4" in dispatch.available()
CAN_BUILD = "v3" in dispatch.available() and shutil.which("gcc") is not None

pytestmark = [
    pytest.mark.skipif(HAS_AVX512, reason="AVX-512 itself is tested on this machine"),
    pytest.mark.skipif(not CAN_BUILD, reason="needs AVX2 and gcc"),
]


def test_the_families_are_those_that_use_vectors():
    sources = (RUN.parents[3] / "uniflexflow/_core/tile").glob("*.c")
    wide = {path.stem for path in sources if '#include "vector.h"' in path.read_text()}
    assert wide == {*FAMILIES, "probe"}


@pytest.mark.parametrize("family", FAMILIES)
def test_at_the_width_of_avx512(family):
    settings = {
        "CC": "gcc -march=x86-64-v3 -D__AVX512F__",
        "ISA": "v4",
        "OPTIMISE": "-O1",
        "EMULATOR": "",
        "BUILD": str(BUILD),
    }
    done = subprocess.run(
        [RUN, family], capture_output=True, text=True, timeout=300, env={**os.environ, **settings}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(rf"{family}: ok, [1-9]\d+ comparisons\n", done.stdout), done.stdout
