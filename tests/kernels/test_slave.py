"""The slave-core interface by itself: a C program that spawns loops over pieces."""

import subprocess
import sysconfig
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORE = HERE.parents[1] / "uniflexflow" / "_core"


@pytest.mark.parametrize("sanitizer", [None, "address,undefined"])
def test_every_piece_is_computed_once(tmp_path, sanitizer):
    program = tmp_path / "check_slave"
    compiler = sysconfig.get_config_var("CC").split()
    flags = ["-O2", "-std=gnu11", "-Wall", "-Werror", f"-I{CORE}", "-pthread"]
    if sanitizer:
        flags += [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    subprocess.run(
        [*compiler, *flags, HERE / "check_slave.c", "-o", program], check=True, timeout=60
    )
    done = subprocess.run([program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
