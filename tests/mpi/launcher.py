"""Start programs under mpiexec with a hard timeout.

The launcher is the ``mpiexec`` beside the Python that runs the tests, or the one that
``UNIFLEXFLOW_TEST_MPIEXEC`` names; its programs run with the Python beside it.
"""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass
class Outcome:
    """What a job left behind."""

    code: int
    out: str
    err: str
    seconds: float
    ended: float  # time.time()

    @property
    def text(self) -> str:
        return f"exit code {self.code} after {self.seconds:.1f} s\n{self.out}\n{self.err}"


def _mpiexec() -> Path:
    named = os.environ.get("UNIFLEXFLOW_TEST_MPIEXEC")
    beside = Path(sys.executable).with_name("mpiexec")
    found = named or (str(beside) if beside.exists() else shutil.which("mpiexec"))
    if found is None:
        pytest.fail(
            "No mpiexec: the tests need MPI, e.g. `pip install mpi4py mpich`, or "
            "UNIFLEXFLOW_TEST_MPIEXEC=/path/to/mpiexec."
        )
    return Path(found)


def _is_open_mpi(mpiexec: Path) -> bool:
    version = subprocess.run(
        [mpiexec, "--version"], capture_output=True, text=True, timeout=20, check=False
    )
    return "Open MPI" in version.stdout or "open-mpi" in version.stdout or "PRRTE" in version.stdout


class Launcher:
    """Runs Python text on n ranks."""

    def __init__(self, tmp_path: Path):
        self.tmp_path = tmp_path
        self.mpiexec = _mpiexec()
        self.open_mpi = _is_open_mpi(self.mpiexec)
        beside = self.mpiexec.with_name("python")
        self.python = str(beside) if beside.exists() else sys.executable

    def start(self, size: int, program: str, *args: str, env=None) -> subprocess.Popen:
        script = self.tmp_path / f"program_{uuid.uuid4().hex}.py"
        script.write_text(textwrap.dedent(program))
        command = [str(self.mpiexec)]
        if self.open_mpi:
            command += ["--oversubscribe", "--bind-to", "none"]
        command += ["-n", str(size), self.python, str(script), *args]
        full = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "UNIFLEXFLOW_TEST_JOB": self.job,
            **(env or {}),
        }
        return subprocess.Popen(
            command,
            env=full,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.tmp_path,
            start_new_session=True,
        )

    @property
    def job(self) -> str:
        return f"job-{self.tmp_path.name}-{os.getpid()}"

    def finish(self, process: subprocess.Popen, timeout: float = 18) -> Outcome:
        start = time.monotonic()
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            self.kill_orphans()
            out, err = process.communicate()
            pytest.fail(f"the job hung for {timeout} s\n{out}\n{err}")
        return Outcome(process.returncode, out, err, time.monotonic() - start, time.time())

    def run(self, size: int, program: str, *args: str, env=None, timeout: float = 18) -> Outcome:
        return self.finish(self.start(size, program, *args, env=env), timeout)

    def check(self, size: int, program: str, *args: str, env=None, timeout: float = 18) -> Outcome:
        """Run a program that must end well."""
        outcome = self.run(size, program, *args, env=env, timeout=timeout)
        assert outcome.code == 0, outcome.text
        return outcome

    def orphans(self) -> list[int]:
        """Processes of this test's jobs that are still there."""
        mark = f"UNIFLEXFLOW_TEST_JOB={self.job}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def kill_orphans(self) -> None:
        for pid in self.orphans():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def assert_no_orphans(self, patience: float = 3) -> None:
        end = time.monotonic() + patience
        while self.orphans() and time.monotonic() < end:
            time.sleep(0.05)
        assert not self.orphans()
