"""Keras in a process of its own, as an oracle.

``UNIFLEXFLOW_KERAS_PYTHON`` names an interpreter that has Keras 3 and JAX; without it, the
tests that compare with Keras are skipped.
"""

import os
import pickle
import subprocess
import tempfile
from pathlib import Path

import pytest

PYTHON = os.environ.get("UNIFLEXFLOW_KERAS_PYTHON")
needs_keras = pytest.mark.skipif(
    PYTHON is None, reason="UNIFLEXFLOW_KERAS_PYTHON names no interpreter with Keras"
)

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
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("inputs", "source.py", "outputs")]
        paths[0].write_bytes(pickle.dumps(inputs))
        paths[1].write_text(source)
        settings = {
            "KERAS_BACKEND": "jax",
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_X64": "1",
            "PYTHONPATH": "",
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
