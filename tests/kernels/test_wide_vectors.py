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
TILE = RUN.parents[3] / "uniflexflow/_core/tile"
BUILD = Path(__file__).parents[2] / "build" / "wide"
# the families whose sources depend on the width, except for the probe, which names registers
FAMILIES = (
    "attention",
    "cast",
    "convolution",
    "crossentropy",
    "gemm",
    "grouped",
    "mixed",
    "movement",
    "random",
    "recurrent",
    "reduce",
    "softmax",
    "window",
    "winograd",
)
OF_PAIRS = ("gemm",)  # those with kernels of AVX512_BF16

HAS_AVX512 = "v4" in dispatch.available()
CAN_BUILD = "v3" in dispatch.available() and shutil.which("gcc") is not None

pytestmark = [
    pytest.mark.skipif(HAS_AVX512, reason="AVX-512 itself is tested on this machine"),
    pytest.mark.skipif(not CAN_BUILD, reason="needs AVX2 and gcc"),
]


def test_the_families_are_those_that_use_vectors():
    text = {path.stem: path.read_text() for path in TILE.glob("*.c")}
    assert {f for f, t in text.items() if '#include "vector.h"' in t} == {*FAMILIES, "probe"}
    assert {f for f, t in text.items() if "__AVX512BF16__" in t} == set(OF_PAIRS)


def run(family, isa, *flags):
    settings = {
        "CC": " ".join(["gcc", "-march=x86-64-v3", "-D__AVX512F__", *flags]),
        "ISA": isa,
        "OPTIMISE": "-O1",
        "EMULATOR": "",
        "BUILD": str(BUILD / isa),
    }
    done = subprocess.run(
        [RUN, family], capture_output=True, text=True, timeout=300, env={**os.environ, **settings}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(rf"{family}: ok, [1-9]\d+ comparisons\n", done.stdout), done.stdout


@pytest.mark.parametrize("family", FAMILIES)
def test_at_the_width_of_avx512(family):
    run(family, "v4")


@pytest.mark.parametrize("family", OF_PAIRS)
def test_with_the_pairs_of_avx512_bf16(family):
    """All but the instruction that multiplies them, whose products are written out."""
    run(family, "v4bf16", "-D__AVX512BF16__", "-DUFF_EMULATE_DOT")


@pytest.mark.parametrize("family", OF_PAIRS)
def test_the_instruction_of_avx512_bf16_is_compiled(family, tmp_path):
    """What it computes is known only where it runs: here, that the kernels consist of it."""
    flags = ["-march=x86-64-v4", "-mavx512bf16", "-O3", "-std=gnu11", "-Wno-psabi"]
    source, out = TILE / f"{family}.c", tmp_path / "kernels.s"
    subprocess.run(
        ["gcc", *flags, "-DUFF_ISA=v4bf16", f"-I{TILE}", "-S", source, "-o", out],
        check=True,
        timeout=300,
    )
    assert len(re.findall(r"\tvdpbf16ps\t", out.read_text())) >= 14 * 2
