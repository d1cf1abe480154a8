"""The tile kernels compiled for AArch64 and run under QEMU, family by family."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FAMILIES = re.findall(
    r"^ *X\((\w+), arg\)", (ROOT / "uniflexflow/_core/tile/families.h").read_text(), re.MULTILINE
)
TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
INSTALL = "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
SETTINGS = {"CC", "ISA", "OPTIMISE", "EMULATOR", "BUILD"}  # of run.sh; CC is often set for others
REQUIRED = "UNIFLEXFLOW_REQUIRE_AARCH64"  # set by `make test-aarch64`


@pytest.fixture(scope="module")
def tools():
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing and os.environ.get(REQUIRED):
        pytest.fail(f"{', '.join(missing)} not found: {INSTALL}")
    if missing:
        pytest.skip(f"cross-compiler and emulator aren't installed here: {INSTALL}")


def test_every_family_has_a_check_program():
    assert len(FAMILIES) > 1
    assert {path.stem for path in HERE.glob("check_*.c")} == {f"check_{f}" for f in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_under_qemu(family, tools):
    env = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    done = subprocess.run(
        [HERE / "run.sh", family], capture_output=True, text=True, timeout=300, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(rf"{family}: ok, [1-9]\d+ comparisons\n", done.stdout), done.stdout
    assert not done.stderr  # no warning either
