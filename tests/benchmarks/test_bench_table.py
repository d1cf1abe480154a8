"""The benchmarks' table: what is kept, what is shown, and when a figure has fallen.

Nothing is timed here: tables and measurements are made up.
"""

import copy
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import contenders
import results
from contenders import OURS, Speeds

TABLE = {
    "format": 1,
    "date": "2026-01-02",
    "machine": {"kind": "a-2-cores-v3", "processor": "A", "cores": 2, "kernels": "v3",
                "threads": 2},
    "versions": {"uniflexflow": "0.1.0", "torch": "2.13.0"},
    "frameworks": {OURS: "UniFlexFlow", "torch": "PyTorch", "torch compile": "PyTorch",
                   "keras jax": "Keras on JAX"},
    "peaks": {"float32": 100e9, "float64": 50e9, "copy": 20e9},
    "kernels": {"gemm 512x512x512 nn": {"date": "2026-01-02", "shares": {"1": 0.9, "2": 0.8}}},
    "workloads": {
        "tiny": {
            "date": "2026-01-02",
            "steps_per_second": {OURS: 2000.0, "torch": 500.0, "torch compile": 800.0,
                                 "keras jax": 1000.0},
            "rounds": {OURS: 3, "torch": 1, "torch compile": 3, "keras jax": 3},
            "without": {"keras tensorflow": "No module named 'tensorflow'"},
            "best_peer": "keras jax",
            "peak_share": 0.25,
            "ratio": 2.0,
        },
    },
}  # fmt: skip


def speeds(**rounds):
    return Speeds({name.replace("_", " "): list(v) for name, v in rounds.items()}, flops=10**6)


def measured(*attempts):
    """Return a ``measure`` that gives one attempt after the other, and what it was asked."""
    asked = []

    def measure(names):
        asked.append(list(names))
        return {name: attempts[len(asked) - 1].get(name, []) for name in names}

    return measure, asked


def fallen(committed, *attempts):
    """As ``results.fallen``; a number stands for a tuple of one."""

    def rounds(attempt):
        return {k: [f if isinstance(f, tuple) else (f,) for f in v] for k, v in attempt.items()}

    committed = {k: v if isinstance(v, tuple) else (v,) for k, v in committed.items()}
    measure, asked = measured(*map(rounds, attempts))
    low, unknown = results.fallen(committed, measure, committed, say=lambda line: None)
    return low, unknown, asked


# -- what has fallen -----------------------------------------------------------------------


@pytest.mark.parametrize("now", [1.81, 2.0, 9.0])
def test_ten_percent_and_better_hold(now):
    assert fallen({"a": 2.0}, {"a": [now]}) == ([], [], [["a"]])


def test_what_stays_low_has_fallen():
    low, unknown, asked = fallen({"a": 2.0, "b": 1.0}, *[{"a": [1.7], "b": [1.0]}] * 3)
    assert (low, unknown) == (["a"], [])
    assert asked == [["a", "b"], ["a"], ["a"]]  # only what seemed low is measured again


def test_one_bad_attempt_is_noise():
    assert fallen({"a": 2.0}, {"a": [1.0]}, {"a": [1.9]})[0] == []
    assert fallen({"a": 2.0}, {"a": [1.0]}, {"a": [1.2]}, {"a": [1.85]})[0] == []


def test_the_median_of_the_rounds_counts():
    assert fallen({"a": 2.0}, {"a": [0.5, 2.0, 2.1]})[0] == []
    assert fallen({"a": 2.0}, *[{"a": [1.5, 1.5, 9.0]}] * 3)[0] == ["a"]


def test_a_faster_peer_and_a_busy_machine_are_no_fall():
    committed = {"a": (4.0, 1000.0)}  # ratio, our speed
    assert fallen(committed, {"a": [(2.0, 1000.0)]})[0] == []
    assert fallen(committed, {"a": [(4.0, 500.0)]})[0] == []
    assert fallen(committed, *[{"a": [(3.0, 750.0)]}] * 3)[0] == ["a"]


def test_what_could_not_be_measured_is_told_and_is_no_fall():
    assert fallen({"a": 2.0, "b": 1.0}, {"a": [2.0]}) == ([], ["b"], [["a", "b"]])


def test_lines_say_what_happened():
    lines = []
    measure, _ = measured(*[{"a": [(1.0,)]}] * 3)
    results.fallen({"a": (2.0,)}, measure, ["a"], say=lines.append)
    assert lines == [
        "a: 1 of 2 (-50%): measured again",
        "a: 1 of 2 (-50%): measured again",
        "a: 1 of 2 (-50%): FALLEN",
    ]


# -- the program ---------------------------------------------------------------------------


@pytest.fixture
def bench(monkeypatch):
    """Return the program on a machine of the table's kind, on which nothing is measured."""
    import bench

    monkeypatch.setattr(bench.results, "kind_of", lambda *_: "a-2-cores-v3")
    monkeypatch.setattr(bench, "measure", lambda *_: pytest.fail("it measured a workload"))
    monkeypatch.setattr(bench, "measure_kernels", lambda *_: pytest.fail("it measured kernels"))
    return bench


def checked(bench, table, folder, *more):
    if table is not None:
        results.write(table, folder)
    return bench.check(bench.parse(["--check", "--threads", "2", "--output", str(folder), *more]))


def test_another_kind_of_machine_is_no_failure(bench, tmp_path, capsys):
    other = copy.deepcopy(TABLE)
    other["machine"]["kind"] = "b-4-cores-v4"
    assert checked(bench, other, tmp_path) == 0
    out = capsys.readouterr().out
    assert "no table for this kind of machine, 'a-2-cores-v3'" in out and "b-4-cores-v4" in out


def test_another_number_of_threads_is_no_failure(bench, tmp_path, capsys):
    assert checked(bench, TABLE, tmp_path, "--threads", "1") == 0
    assert "made with 2 threads, this run has 1" in capsys.readouterr().out


@pytest.mark.parametrize(("ours", "code"), [(1900.0, 0), (1700.0, 1)])
def test_a_workload_is_compared_with_the_peer_of_the_table(
    bench, tmp_path, monkeypatch, ours, code
):
    asked = []

    def measure(name, python, threads, rounds, timeout, who):
        asked.append((name, who))
        return speeds(uniflexflow=[ours] * 3, keras_jax=[1000.0] * 3)

    monkeypatch.setattr(bench, "measure", measure)
    assert checked(bench, TABLE, tmp_path, "--workloads", "tiny", "mlp") == code
    assert asked == [("tiny", (OURS, "keras jax"))] * (3 if code else 1)


@pytest.mark.parametrize(("share", "code"), [(0.74, 0), (0.6, 1)])
def test_kernels_are_compared_thread_by_thread(bench, tmp_path, monkeypatch, share, code):
    def measure_kernels(names, threads):
        return {f"{n} nn": {"shares": {str(t): 0.9 if t == 1 else share for t in threads}}
                for n in names}  # fmt: skip

    monkeypatch.setattr(bench, "measure_kernels", measure_kernels)
    assert checked(bench, TABLE, tmp_path, "--kernels", "gemm 512x512x512") == code


def test_a_peer_that_is_gone_fails_only_if_nothing_was_compared(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "measure", lambda *_: speeds(uniflexflow=[1.0]))
    assert checked(bench, TABLE, tmp_path, "--workloads", "tiny") == 1


def test_the_quick_choice_is_the_default_of_a_check(bench):
    quick, everything, run = (bench.parse(a) for a in (["--check"], ["--check", "--all"], []))
    assert quick.workloads == list(bench.QUICK_WORKLOADS)
    assert quick.kernels == list(bench.QUICK_KERNELS)
    assert everything.workloads == run.workloads == list(bench.WORKLOADS)
    assert len(run.workloads) == 9
    assert bench.parse(["--workloads", "mlp"]).kernels == []


def test_a_run_writes_what_it_measured_and_keeps_the_rest(bench, tmp_path, monkeypatch):
    found = speeds(uniflexflow=[30.0, 31.0, 29.0], torch=[10.0, 10.0, 10.0])
    monkeypatch.setattr(bench, "measure", lambda *_: found)
    monkeypatch.setattr(
        bench, "describe", lambda threads: {**copy.deepcopy(TABLE), "workloads": {}, "kernels": {}}
    )
    monkeypatch.setattr(bench, "measure_kernels", lambda *_: {})
    monkeypatch.setattr(bench, "peak_flops", lambda dtype: 1e9)
    results.write(TABLE, tmp_path)
    arguments = ["--output", str(tmp_path), "--threads", "2", "--workloads", "mlp"]
    assert bench.run(bench.parse(arguments)) == 0
    table = results.read(tmp_path / "a-2-cores-v3.json")
    assert table["workloads"]["tiny"] == TABLE["workloads"]["tiny"]
    assert table["workloads"]["mlp"]["ratio"] == 3.0
    assert table["workloads"]["mlp"]["peak_share"] == 30.0 * 10**6 / 2e9
    assert table["kernels"] == TABLE["kernels"]
    assert "| `mlp` | 30 | 10 |" in (tmp_path / "a-2-cores-v3.md").read_text()


# -- the table -----------------------------------------------------------------------------


def test_a_table_comes_back_from_its_file(tmp_path):
    path, page = results.write(TABLE, tmp_path)
    assert path.name == "a-2-cores-v3.json" and page.name == "a-2-cores-v3.md"
    assert results.read(path) == TABLE
    assert results.read(tmp_path / "other.json") is None
    path.write_text(json.dumps({**TABLE, "format": 7}))
    with pytest.raises(ValueError, match="format is 7; expected 1"):
        results.read(path)


def test_the_page_shows_each_framework_at_its_best():
    page = results.markdown(TABLE)
    assert (
        "| workload | UniFlexFlow | PyTorch | Keras on JAX | best peer | ratio | with Winograd "
        "| of the peak |" in page
    )
    assert "| `tiny` | 2000 | 800 | 1000 | keras jax | 2.00 |  | 25 % |" in page
    assert "| gemm 512x512x512 nn | 90 % | 80 % |" in page
    assert "| torch | 2.13.0 |" in page


def test_figures_that_can_be_compared():
    assert results.figures_of(TABLE) == {
        "workload tiny": (2.0, 2000.0),
        "kernel gemm 512x512x512 nn, 1 threads": (0.9,),
        "kernel gemm 512x512x512 nn, 2 threads": (0.8,),
    }


def test_tables_of_other_machines_are_not_merged():
    other = copy.deepcopy(TABLE)
    other["machine"]["threads"] = 4
    assert results.merge(other, TABLE) == TABLE
    assert results.merge(None, TABLE) == TABLE


def test_kinds_of_machines():
    kind = results.kind_of("AMD EPYC 7003 (Zen 3)", 2, "v3")
    assert kind == "amd-epyc-7003-zen-3-2-cores-v3"
    assert results.kind_of("", 1, "neon") == "unknown-1-cores-neon"


# -- who takes part ------------------------------------------------------------------------


def race(monkeypatch, figures, rounds=3, name="tiny", **options):
    """Measure with contenders that print made-up figures; return the speeds and the order."""
    order = []

    def run(python, contender, workload, threads, timeout):
        order.append(contender)
        figure = figures.get(contender, "not installed")
        if isinstance(figure, str):
            return figure
        return {"steps_per_second": [figure, figure, 3 * figure], "versions": {contender: "1"}}

    monkeypatch.setattr(contenders, "run", run)
    found = contenders.measure(name, "python", 2, rounds, 9, say=lambda line: None, **options)
    return found, order


def test_rounds_are_interleaved_and_who_is_out_of_reach_leaves(monkeypatch):
    found, order = race(monkeypatch, {OURS: 5.0, "torch": 1.9, "keras jax": 4.0})
    again = [OURS, "keras jax"]
    assert order[-4:] == again + again
    assert order.count("torch") == 1  # out of reach of the best peer
    assert found.median("torch") == 1.9 and found.rounds[OURS] == [5.0] * 3
    assert found.best_peer() == "keras jax" and found.ratios("keras jax") == [1.25] * 3
    assert found.why_not["torch compile"] == "not installed"
    assert order.count("torch compile") == 1
    assert found.versions == {OURS: "1", "torch": "1", "keras jax": "1"}


def test_we_are_never_out_of_reach(monkeypatch):
    found, _ = race(monkeypatch, {OURS: 1.0, "torch": 9.0})
    assert len(found.rounds[OURS]) == 3


def test_settings_are_tried_where_they_mean_something(monkeypatch):
    for name, has in (("tiny", False), ("resnet20", True)):
        _, order = race(monkeypatch, {}, 1, name)
        assert ("torch channels-last" in order) is has
        assert ("keras jax, 32 steps a call" in order) is not has


def test_every_framework_has_a_column():
    assert {c.framework for c in contenders.CONTENDERS.values()} == {
        "UniFlexFlow", "UniFlexFlow, Winograd", "PyTorch", "Keras on JAX", "Keras on TensorFlow",
    }  # fmt: skip
