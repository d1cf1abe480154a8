"""Keras in a process of its own, as an oracle.

``UNIFLEXFLOW_KERAS_PYTHON`` names an interpreter that has Keras 3.15 and JAX; by default
it is the one that runs the tests, if they are installed there. Without either the tests
that compare with Keras fail: our own reference can share our own misreading.
"""

import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def _here():
    both = all(importlib.util.find_spec(name) for name in ("keras", "jax"))
    return sys.executable if both else None


PYTHON = os.environ.get("UNIFLEXFLOW_KERAS_PYTHON") or _here()


def needs_keras(test):
    """Mark a test that compares with Keras."""
    return test


_HARNESS = """
import pickle, sys
import keras
import numpy as np
inputs = pickle.load(open(sys.argv[1], "rb"))
outputs = {}
exec(open(sys.argv[2]).read())
pickle.dump(outputs, open(sys.argv[3], "wb"))
"""


def run_keras(source, timeout=300, **inputs):
    """Run Python source in a process with Keras on JAX; return its ``outputs``.

    The source finds ``keras``, ``np`` and a dict ``inputs``; it fills the dict ``outputs``
    with what can be pickled without Keras.
    """
    if PYTHON is None:
        pytest.fail(
            "Keras, the oracle of this test, is not installed: `pip install keras==3.15.* jax`, "
            "or set UNIFLEXFLOW_KERAS_PYTHON to an interpreter that has both."
        )
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("inputs", "source.py", "outputs")]
        paths[0].write_bytes(pickle.dumps(inputs))
        paths[1].write_text(source)
        settings = {
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
            "PYTHONPATH": "",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiling is what takes time
            "TF_CPP_MIN_LOG_LEVEL": "3",
        }
        done = subprocess.run(
            [PYTHON, "-c", _HARNESS, *map(str, paths)],
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            raise RuntimeError(f"the Keras process failed:\n{done.stderr[-4000:]}")
        return pickle.loads(paths[2].read_bytes())
