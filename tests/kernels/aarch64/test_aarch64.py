"""The tile kernels compiled for AArch64 and run under QEMU."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOLS = ("aarch64-linux-gnu-gcc", "qemu-aarch64")
INSTALL = "apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
REQUIRED = "UNIFLEXFLOW_REQUIRE_AARCH64"  # set by `make test-aarch64`


def test_kernels_under_qemu():
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing and os.environ.get(REQUIRED):
        pytest.fail(f"{', '.join(missing)} not found: {INSTALL}")
    if missing:
        pytest.skip(f"cross-compiler and emulator aren't installed here: {INSTALL}")
    done = subprocess.run(
        [Path(__file__).with_name("run.sh")], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gemm: ok" in done.stdout
    assert "warning" not in done.stderr
