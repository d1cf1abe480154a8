"""The notebooks run from beginning to end, in a folder of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "tutorials").glob("*.ipynb"))
TIMEOUT = 600  # seconds for one cell


def test_there_are_tutorials():
    assert len(TUTORIALS) >= 3


@pytest.fixture(scope="module")
def kernel_folder(tmp_path_factory):
    """Make a Jupyter kernel of this very interpreter, whatever else is installed."""
    folder = tmp_path_factory.mktemp("jupyter")
    command = [sys.executable, "-m", "ipykernel", "install", "--prefix", str(folder)]
    subprocess.run([*command, "--name", "python3"], check=True, capture_output=True, timeout=120)
    return folder / "share" / "jupyter"


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda p: p.stem)
def test_notebook(path, tmp_path, kernel_folder, monkeypatch):
    if "mpi" in path.stem and not Path(sys.executable).with_name("mpiexec").exists():
        pytest.skip("the notebook starts the mpiexec of the `mpich` extra, which is not there")
    monkeypatch.setenv("JUPYTER_PATH", str(kernel_folder))
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    copy = shutil.copy(path, tmp_path)
    notebook = nbformat.read(copy, as_version=4)
    NotebookClient(
        notebook, timeout=TIMEOUT, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    shown = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error" or output.get("name") == "stderr"
    ]
    assert not shown, "a reader would see this: " + "\n".join(o.get("text", "") for o in shown)
