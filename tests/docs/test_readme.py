"""What README.md and CONTRIBUTING.md show is run: Python as it stands, the kernel compiled."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
CORE = ROOT / "uniflexflow" / "_core"


def blocks(document, language):
    """Return the code blocks of a document."""
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(command, folder):
    path = os.pathsep.join(map(str, (ROOT, TESTS, TESTS / "ops", TESTS / "kernels")))
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "UNIFLEXFLOW_MPI": "0"},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_python(document, tmp_path):
    """The blocks are one script: later ones use what earlier ones made."""
    found = blocks(document, "python")
    assert found
    (tmp_path / "blocks.py").write_text("\n\n".join(found))
    done = run([sys.executable, "blocks.py"], tmp_path)
    assert done.returncode == 0, done.stderr


def named_files(document):
    """Return paths within the repository that a document names."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.M | re.S)
    names = re.findall(r"`([\w./]+/[\w./]*\.(?:py|pyx|h|c|md|ipynb))`", text)
    links = re.findall(r"\]\(([\w./-]+)\)", text)
    return sorted({*names, *links})


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_files_that_are_named_exist(document):
    missing = [
        name
        for name in named_files(document)
        if "laplacian" not in name  # the example's own
        and not any((base / name).exists() for base in (ROOT, ROOT / "uniflexflow"))
    ]
    assert not missing


def test_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"(?:\$ |`)make ([\w-]+)", (ROOT / document).read_text()))
        assert named and named <= targets, named - targets


@pytest.fixture
def kernel(tmp_path):
    """Lay the example of "Add a kernel" beside the package's headers."""
    core = tmp_path / "uniflexflow" / "_core"
    shutil.copytree(CORE, core, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (tmp_path / "uniflexflow" / "__init__.py").touch()
    families = core / "tile" / "families.h"
    text = families.read_text()
    families.write_text(text.replace("X(gemm, arg)", "X(laplacian, arg) X(gemm, arg)"))
    assert families.read_text() != text
    header, source = blocks("CONTRIBUTING.md", "c")
    (core / "tile" / "laplacian.h").write_text(header)
    (core / "tile" / "laplacian.c").write_text(source)
    (core / "laplacian.pyx").write_text(blocks("CONTRIBUTING.md", "cython")[0])
    return core


DOOR = """
void door(void *y, const void *x, int64_t rows, int64_t n) { table.rows[1](y, x, rows, n); }
"""


def test_the_tile_kernel_computes(kernel, tmp_path):
    source = kernel / "tile" / "laplacian.c"
    source.write_text(source.read_text() + DOOR)
    library = tmp_path / "laplacian.so"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Werror", "-DUFF_ISA=v2", "-shared", "-fPIC"]
    done = run(["gcc", *flags, f"-I{kernel}", str(source), "-o", str(library)], tmp_path)
    assert done.returncode == 0, done.stderr
    double = np.ctypeslib.ndpointer(np.float64)
    function = ctypes.CDLL(str(library)).door
    function.argtypes = [double, double, ctypes.c_int64, ctypes.c_int64]
    for n in (0, 1, 2, 3, 17):
        x = np.random.default_rng(n).normal(size=(3, n))
        y = np.full_like(x, np.nan)
        function(y, x, 3, n)
        padded = np.pad(x, [(0, 0), (1, 1)])
        np.testing.assert_allclose(y, padded[:, :-2] - 2 * x + padded[:, 2:])


def test_the_tiled_operation_compiles(kernel, tmp_path):
    command = [sys.executable, "-m", "cython", "-3", "-Wextra", "uniflexflow/_core/laplacian.pyx"]
    done = run([*command, "-o", "laplacian.c"], tmp_path)
    assert done.returncode == 0, done.stderr
    include = [f"-I{kernel}", f"-I{sysconfig.get_path('include')}", f"-I{np.get_include()}"]
    done = run(["gcc", "-O0", "-fsyntax-only", *include, "laplacian.c"], tmp_path)
    assert done.returncode == 0, done.stderr
