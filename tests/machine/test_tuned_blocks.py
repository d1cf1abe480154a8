"""Block sizes that were measured: the sweep with made-up times, the stored file, the ranks.

Nothing here is timed.
"""

import dataclasses
import json
import os
import warnings

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import ir, machine
from uniflexflow._core import LOWERINGS, dispatch
from uniflexflow._core.block_sizes import block_sizes
from uniflexflow._core.convolution_plan import blocks_in_use
from uniflexflow._core.runner import run_call
from uniflexflow.machine import __main__, blocks, stored, tune
from uniflexflow.machine.planner import plan_chain, plan_convolution, plan_gemm
from uniflexflow.machine.tune_cases import cases_of
from uniflexflow.ops.registry import OPS
from uniflexflow.parallel import distribute
from uniflexflow.runtime.comm import SerialCommunicator

HOST = machine.host()
KERNELS = dispatch.selected()
PLAN = plan_gemm(HOST, 4, 6, 16)
OTHER = {"gemm_float32": (64, 48, 480), "panel_bytes": 8192}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for stored sizes, and nothing looked up yet."""
    monkeypatch.setenv("UNIFLEXFLOW_TUNED", str(tmp_path))
    monkeypatch.setattr(distribute, "_agreed_on", [])
    blocks.forget()
    yield tmp_path
    blocks.forget()


def store(sizes=OTHER):
    path = stored.save(HOST, KERNELS, sizes)
    blocks.forget()
    return path


# -- the sweep -----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Shape:
    """Stands for a case: what a run takes is a function of the sizes."""

    group: str
    number: int = 0


def sweep(seconds, groups=("gemm_float32",), shapes=3, **more):
    """A sweep in which a run of (shape, sizes) takes ``seconds(shape, sizes)``."""
    lines = []
    made = tune.Sweep(
        machine=HOST,
        kernels=KERNELS,
        cases=[Shape(g, i) for g in groups for i in range(shapes)],
        rounds=3,
        say=lines.append,
        prepare=lambda case, sizes: (case, sizes),
        timer=lambda ready: seconds(*ready),
        **more,
    )
    made.lines = lines
    return made


def kc_of(sizes):
    return sizes.get("gemm_float32", PLAN)[0]


def test_the_best_kc_is_taken_with_mc_and_nc_for_it():
    made = sweep(lambda case, sizes: 1 + abs(kc_of(sizes) - PLAN[0] / 2))
    made.gemm("float32", 6, 16)
    half = round(PLAN[0] / 2 / 16) * 16
    assert made.sizes == {"gemm_float32": plan_gemm(HOST, 4, 6, 16, half)}
    assert "taken" in made.lines[0]


def test_mc_and_nc_are_tried_one_after_the_other():
    def seconds(case, sizes):
        kc, mc, nc = sizes.get("gemm_float32", PLAN)
        return 1 + mc / PLAN[1] + nc / PLAN[2] + 10 * (kc != PLAN[0])

    made = sweep(seconds)
    made.gemm("float32", 6, 16)
    kc, mc, nc = made.sizes["gemm_float32"]
    assert kc == PLAN[0] and mc < PLAN[1] / 2 and mc % 6 == 0 and nc < PLAN[2] / 4 and nc % 16 == 0


@pytest.mark.parametrize(
    "factors",
    [
        (0.985, 0.985, 0.985),  # too little
        (0.5, 1.0, 1.0),  # on one shape only
        (0.5, 0.5, 1.03),  # and a loss on another
        (1.2, 1.2, 1.2),
    ],
)
def test_what_does_not_win_clearly_is_left(factors):
    made = sweep(lambda case, sizes: factors[case.number] if sizes else 1.0)
    made.gemm("float32", 6, 16)
    assert made.sizes == {}
    assert all("kept" in line for line in made.lines)


def test_a_lucky_candidate_does_not_win_twice():
    """The first race is won by noise; the second one shows it."""
    runs = {}

    def seconds(case, sizes):
        count = runs[case, str(sizes)] = runs.get((case, str(sizes)), 0) + 1
        return 0.9 if sizes and count <= 4 else 1.0

    made = sweep(seconds)
    made.improve("panel_bytes", "gemm_float32", [8192])
    assert made.sizes == {} and "then" in made.lines[0]


def test_noise_only_adds():
    rng = np.random.default_rng(0)
    made = sweep(lambda case, sizes: (0.9 if sizes else 1.0) + (rng.random() > 0.5))
    made.rounds = 20
    made.improve("panel_bytes", "gemm_float32", [8192])
    assert made.sizes == {"panel_bytes": 8192}


def test_each_size_is_judged_on_its_own_cases():
    def seconds(case, sizes):
        return 0.5 if case.group == "point" and sizes.get("point_rows", 0) > 128 else 1.0

    made = sweep(seconds, groups=("forward", "window", "point"))
    made.convolution()
    assert list(made.sizes) == ["point_rows"]


def test_sizes_that_do_not_fit_are_not_run():
    seen = []
    made = sweep(lambda case, sizes: seen.append(sizes) or 1.0)
    made.improve("gemm_float32", "gemm_float32", [(1 << 20, 1 << 10, 16)])
    assert seen == [] and "nothing fits" in made.lines[0]


def test_the_sweep_ends_in_time():
    made = sweep(lambda case, sizes: 0.1 if sizes else 1.0, clock=lambda: 5.0, deadline=4.0)
    made.gemm("float32", 6, 16)
    assert made.sizes == {} and all("no time left" in line for line in made.lines)


def test_every_candidate_gives_right_numbers():
    """All cases run with the smallest sizes that are tried; the numbers are those of before."""
    sizes = {n: max(16, v // 2) for n, v in dataclasses.asdict(plan_convolution(HOST)).items()}
    sizes |= {"gemm_float32": (80, 24, 128), "gemm_float64": (64, 24, 64)}
    assert stored.problem(HOST, sizes) is None
    for case in cases_of(quick=True):
        if case.node.op.name == "matmul" and case.group == "gemm_float64":
            continue  # the same code as float32
        tune.prepare(case, {}).run()
        before = case.outputs[0].copy()
        tune.prepare(case, sizes).run()
        scale = np.abs(before).max()
        np.testing.assert_allclose(case.outputs[0], before, rtol=0, atol=1e-4 * scale)


# -- computed sizes ------------------------------------------------------------------------


def test_computed_sizes_follow_the_caches():
    small = dataclasses.replace(HOST, l1d_bytes=32 << 10, l1d_ways=8, scratch_bytes=256 << 10)
    assert dataclasses.asdict(plan_convolution(small)) == {
        "panel_bytes": 28 << 10, "tile_bytes": 96 << 10, "sum_bytes": 72 << 10,
        "tile_pixels": 192, "filter_bytes": 256, "tile_rows": 288,
        "point_pixels": 128, "point_filter_bytes": 512, "point_rows": 128,
    }  # fmt: skip
    large = dataclasses.replace(small, l1d_bytes=48 << 10, l1d_ways=12)
    assert plan_convolution(large).panel_bytes == 44 << 10
    assert (plan_chain(small), plan_chain(large)) == (24 << 10, 36 << 10)
    roomy = dataclasses.replace(small, scratch_bytes=512 << 10)
    planned = plan_convolution(roomy)
    assert (planned.tile_bytes, planned.sum_bytes, planned.tile_rows) == (128 << 10, 144 << 10, 576)
    assert (planned.point_pixels, planned.point_filter_bytes, planned.point_rows) == (96, 1024, 256)
    assert stored.scratch_need(plan_convolution(small)) <= small.scratch_bytes
    assert stored.scratch_need(planned) <= roomy.scratch_bytes


# -- the stored file -----------------------------------------------------------------------


def lowered(kind):
    """Return the numbers of a kernel, in which the sizes are."""
    a = ir.leaf((700, 900), "float32", "a")
    return LOWERINGS[kind](ir.apply(OPS[kind], a, ir.leaf((900, 800), "float32", "b"),
                                    transpose_a=False, transpose_b=False).node)  # fmt: skip


def test_stored_sizes_are_used(folder):
    before = lowered("matmul").ints
    path = store()
    assert lowered("matmul").ints[7:10] != before[7:10]
    assert lowered("matmul").ints[7] <= 64
    assert blocks_in_use().panel_bytes == 8192
    assert blocks_in_use().tile_bytes == plan_convolution(HOST).tile_bytes
    assert block_sizes()["gemm_float32"] == [64, 48, 480]
    assert str(path) in machine.report.config()["block sizes"]
    assert "gemm_float32" in machine.report.config()["block sizes"]


def test_without_a_file_sizes_are_computed(folder):
    assert machine.report.config()["block sizes"] == "computed from the caches"
    store()
    os.environ["UNIFLEXFLOW_TUNED"] = "off"
    blocks.forget()
    assert machine.report.config()["block sizes"] == "computed from the caches"


def test_another_machine_or_instruction_set_has_a_file_of_its_own(folder):
    store()
    larger = dataclasses.replace(HOST, l2_bytes=4 << 20)
    assert stored.path_of(larger, KERNELS) != stored.path_of(HOST, KERNELS)
    assert stored.path_of(HOST, "v2x") != stored.path_of(HOST, KERNELS)
    fewer = dataclasses.replace(HOST, cores=HOST.cores + 6)
    assert stored.path_of(fewer, KERNELS) == stored.path_of(HOST, KERNELS)
    assert blocks.measured(larger, KERNELS) == {}


def damaged(text):
    return lambda content: text


def changed(**more):
    return lambda content: json.dumps({**content, **more})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (damaged("{"), "no JSON"),
        (damaged("[1]"), "its format"),
        (damaged("\udcff"), "decode"),
        (changed(format="other"), "its format"),
        (changed(machine={"name": "x"}), "of another machine"),
        (changed(sizes=3), "no table"),
        (changed(sizes={"gemm_float16": [1, 2, 3]}), "'gemm_float16' is no block size"),
        (changed(sizes={"gemm_float32": [1, 2]}), "expected KC, MC and NC"),
        (changed(sizes={"gemm_float32": 5}), "expected KC, MC and NC"),
        (changed(sizes={"panel_bytes": "9"}), "expected positive integers"),
        (changed(sizes={"panel_bytes": 0}), "expected positive integers"),
        (changed(sizes={"tile_rows": True}), "expected positive integers"),
        (changed(sizes={"gemm_float32": [4096, 4096, 4096]}), "bytes of scratchpad"),
        (changed(sizes={"tile_bytes": 1 << 26}), "bytes of scratchpad"),
        (changed(sizes={"panel_bytes": 1 << 26}), "half of the L2"),
    ],
)
def test_a_file_that_does_not_fit_is_warned_about_once(folder, change, message):
    path = store()
    text = change(json.loads(path.read_text()))
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.warns(UserWarning, match=f"is ignored: .*{message}"):
        assert blocks.measured(HOST, KERNELS) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert blocks.measured(HOST, KERNELS) == {}
        assert lowered("matmul").ints[7] > 64


def test_a_file_is_whole_or_absent(folder, monkeypatch):
    path = store()
    before = path.read_text()

    def fail(*args):
        raise OSError(28, "no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        stored.save(HOST, KERNELS, {"panel_bytes": 4096})
    assert path.read_text() == before and list(folder.iterdir()) == [path]


def test_the_command_stores_and_forgets(folder, monkeypatch, capsys):
    monkeypatch.setattr(tune, "tune", lambda quick: dict(OTHER))
    __main__.main(["tune", "--quick", "--dry-run"])
    assert list(folder.iterdir()) == [] and "would be stored" in capsys.readouterr().out
    __main__.main(["tune", "--quick"])
    assert "measured on this machine (gemm_float32, panel_bytes" in capsys.readouterr().out
    assert blocks.measured(HOST, KERNELS) == OTHER
    __main__.main(["tune", "--forget"])
    assert list(folder.iterdir()) == []
    monkeypatch.setenv("UNIFLEXFLOW_TUNED", "off")
    for option in ([], ["--forget"]):
        with pytest.raises(SystemExit, match="UNIFLEXFLOW_TUNED is 'off'"):
            __main__.main(["tune", *option])
    with pytest.raises(SystemExit):
        __main__.main(["tune", "--forget", "--dry-run"])


def test_a_user_without_home_gets_computed_sizes(monkeypatch):
    def no_home(self):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("UNIFLEXFLOW_TUNED", raising=False)
    monkeypatch.setattr("pathlib.Path.expanduser", no_home)
    assert stored.folder() is None and stored.path_of(HOST, KERNELS) is None


# -- ranks, checkpoints --------------------------------------------------------------------


class Second(SerialCommunicator):
    """Rank 1 (or 0) of two, whose root sends what it is told to."""

    size = 2

    def __init__(self, sent, others=0, rank=1):
        super().__init__()
        self.sent, self.others, self.rank, self.asked = sent, others, rank, 0

    def bcast(self, value, root=0):
        self.asked += 1
        return self.sent

    def allreduce(self, array, op="sum", out=None, what=""):
        return np.array(self.others)


def test_ranks_take_the_sizes_of_rank_0(folder):
    store()
    comm = Second((stored.key_of(HOST, KERNELS), {"panel_bytes": 4096}))
    for _ in range(2):
        distribute.agree_on_blocks(comm)
    assert comm.asked == 1
    assert blocks.measured(HOST, KERNELS) == {"panel_bytes": 4096}
    assert "as rank 0 has them" in machine.report.config()["block sizes"]


def test_ranks_on_other_machines_keep_their_sizes(folder):
    store()
    kind = stored.key_of(dataclasses.replace(HOST, l2_bytes=4 << 20), KERNELS)
    distribute.agree_on_blocks(Second((kind, {"panel_bytes": 4096}), others=1))
    assert blocks.measured(HOST, KERNELS) == OTHER
    root = Second((stored.key_of(HOST, KERNELS), OTHER), others=1, rank=0)
    with pytest.warns(UserWarning, match="1 of 2 ranks run on another kind of machine"):
        distribute.agree_on_blocks(root)


def test_a_checkpoint_notes_the_sizes(folder, tmp_path):
    model = uff.Sequential([uff.Input((3,)), uff.layers.Dense(2)])
    model.compile("sgd", "mse")
    path = tmp_path / "run.h5"
    uff.saving.save_checkpoint(path, model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uff.saving.load_checkpoint(path, model)
    store()
    with pytest.warns(UserWarning, match=r"other block sizes \(gemm_float32 .* \[64, 48, 480\]"):
        uff.saving.load_checkpoint(path, model)


def test_the_same_sizes_give_the_same_bits(folder, rng):
    """And others give others: KC is in the order of a sum."""
    a, b = rng.standard_normal((40, 900), dtype="float32"), rng.standard_normal((900, 48))
    b = b.astype("float32")
    a_, b_ = ir.leaf(a.shape, "float32", "a"), ir.leaf(b.shape, "float32", "b")
    node = ir.apply(OPS["matmul"], a_, b_, transpose_a=False, transpose_b=False).node

    def product():
        out = np.zeros((40, 48), "float32")
        run_call(LOWERINGS["matmul"](node), [out], [a, b], 1)
        return out.tobytes()

    computed = product()
    store()
    measured = product()
    assert measured == product() != computed
    blocks.forget()
    assert measured == product()
