"""The choice of instruction set, and what the machine is found to be."""

import os
import subprocess
import sys

import numpy as np
import pytest

from uniflexflow._core import dispatch
from uniflexflow._core.runner import Runner
from uniflexflow.machine import Machine, host, num_threads, threads
from uniflexflow.machine.detect import read_caches, usable_cores
from uniflexflow.machine.planner import plan_gemm
from uniflexflow.machine.report import config

ASK = "from uniflexflow._core import dispatch; print(dispatch.selected())"


def ask_with_isa(name):
    return subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "UNIFLEXFLOW_ISA": name},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_best_available_is_chosen():
    assert dispatch.available()[0] == dispatch.built()[0]
    assert set(dispatch.available()) <= set(dispatch.built())
    assert ask_with_isa("").stdout.strip() == dispatch.available()[-1]


def test_environment_forces_each_available():
    for name in dispatch.available():
        assert ask_with_isa(name).stdout.strip() == name


def test_unknown_name_is_refused():
    done = ask_with_isa("v9")
    assert done.returncode != 0
    assert "UNIFLEXFLOW_ISA: unknown instruction set: 'v9'; this build has" in done.stderr
    with pytest.raises(ValueError, match="dispatch.select: unknown instruction set: 'v9'"):
        dispatch.select("v9")


def test_unavailable_is_refused():
    missing = [name for name in dispatch.built() if name not in dispatch.available()]
    for name in missing:
        with pytest.raises(ValueError, match=f"{name}' can't run here: .* available are"):
            dispatch.select(name)


def test_select_changes_the_kernels_in_use():
    before = dispatch.selected()
    try:
        widths = []
        for name in dispatch.available():
            dispatch.select(name)
            assert dispatch.selected() == name
            widths.append(dispatch.vector_bytes())
        assert widths == sorted(widths)
        assert len(set(widths)) > 1 or len(widths) == 1
    finally:
        dispatch.select(before)


def test_peak_is_that_of_a_processor():
    for dtype in ("float32", "float64"):
        assert 1e8 < dispatch.peak_once(dtype) < 1e13
    with pytest.raises(ValueError, match="unknown dtype: 'int8'"):
        dispatch.peak_once("int8")


def test_runner_refuses_strided_operands():
    from uniflexflow.plan.kernel_call import KernelCall

    with pytest.raises(ValueError, match="must be C-contiguous"):
        Runner(KernelCall("x", 0), [np.zeros((4, 4))[:, ::2]], [])


# -- the machine --------------------------------------------------------------------


def test_machine_as_text_and_back():
    assert Machine.from_text("# host\n" + str(host())) == host()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t + "l4_bytes = 1\n", "line 10: unknown field 'l4_bytes'"),
        (lambda t: t.replace("cores = ", "cores = a"), "cores is 'a.*expected an integer"),
        (lambda t: "", "missing fields: name, cores"),
    ],
)
def test_bad_machine_text(change, message):
    with pytest.raises(ValueError, match=message):
        Machine.from_text(change(str(host())))


def test_caches_are_shared_out(tmp_path):
    rows = [
        ("Data", 1, "48K", 12, "0"),
        ("Instruction", 1, "32K", 8, "0"),
        ("Unified", 2, "2048K", 16, "0"),
        ("Unified", 3, "36M", 12, "0-5,8,9"),
    ]
    for i, row in enumerate(rows):
        folder = tmp_path / "cache" / f"index{i}"
        folder.mkdir(parents=True)
        names = ("type", "level", "size", "ways_of_associativity", "shared_cpu_list")
        for name, value in zip(names, row, strict=True):
            (folder / name).write_text(f"{value}\n")
    assert read_caches(tmp_path) == {
        1: (48 << 10, 12, 1),
        2: (2048 << 10, 16, 1),
        3: (36 << 20, 12, 8),
    }
    assert read_caches(tmp_path / "none")[1][0] == 32 << 10


def test_blocks_fit_in_their_caches():
    for machine in (host(), *map(_with_caches, (32, 48, 64), (256, 1024, 2048), (0, 1024, 4096))):
        for size, mr, nr in ((4, 6, 16), (8, 6, 8), (4, 14, 32), (4, 4, 8), (4, 8, 12)):
            kc, mc, nc = plan_gemm(machine, size, mr, nr)
            assert mc % mr == 0 and nc % nr == 0 and min(kc, mc, nc) > 0
            assert kc * (nr + mr) * size <= machine.l1d_bytes
            assert kc * (mc + mr) * size <= machine.scratch_bytes


def _with_caches(l1, l2, l3):
    return Machine("x", 4, 64, l1 << 10, 8, l2 << 10, 8, l3 << 10, max(256, l2) << 10)


def test_threads(monkeypatch):
    for name in ("OMP_NUM_THREADS", "SLURM_PROCID", *threads._LOCAL_SIZE):
        monkeypatch.delenv(name, raising=False)
    assert num_threads() == usable_cores() == host().cores
    monkeypatch.setattr(threads, "usable_cores", lambda: 16)
    assert num_threads() == 16
    monkeypatch.setenv("MPI_LOCALNRANKS", "4")
    assert num_threads() == 4
    monkeypatch.setenv("MPI_LOCALNRANKS", "100")
    assert num_threads() == 1
    monkeypatch.delenv("MPI_LOCALNRANKS")
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_STEP_TASKS_PER_NODE", "8(x2),3")
    assert num_threads() == 2
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    assert num_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "5,2")
    assert num_threads() == 5
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="OMP_NUM_THREADS: 'many' is not a number of threads"):
        num_threads()


def test_report_has_no_gaps():
    rows = config()
    assert rows["kernels"].startswith(dispatch.selected())
    assert all(rows.values())
