"""Running communication: at once or beside the computation, and the choice between them."""

import itertools

import numpy as np
import pytest

from uniflexflow.ir import Node, leaf
from uniflexflow.parallel.layout import PARTIAL, REPLICATE, Split
from uniflexflow.parallel.mesh import MeshAxis
from uniflexflow.parallel.reshard import ALLREDUCE_START, ALLREDUCE_WAIT, RESHARD
from uniflexflow.runtime import collectives, reference
from uniflexflow.runtime.collectives import Channels, Exchange
from uniflexflow.runtime.comm import SerialCommunicator

AXIS = MeshAxis("data", 2, 0)


class Twins(SerialCommunicator):
    """Two ranks of which the other always has the same as this one."""

    size = 2

    def __init__(self, name="world", log=None):
        super().__init__(name)
        self.log = [] if log is None else log

    def dup(self, name):
        return Twins(name, self.log)

    def allreduce(self, array, op="sum", out=None, what=""):
        self.log.append((self.name, array.size, op))
        result = np.asarray(array) * (2 if op == "sum" else 1)
        if out is None:
            return result
        out[...] = result
        return out

    def allgather(self, array, what="", rows=None):
        self.log.append((self.name, array.size, "gather"))
        return np.concatenate([array, array])


def bucket(*specs):
    values = [leaf(shape, dtype, "x") for shape, dtype in specs]
    start = Node(ALLREDUCE_START, tuple(values), {"axis": AXIS})
    return start, Node(ALLREDUCE_WAIT, (start.outputs[0], *values), {"axis": AXIS})


def exchange(policy, comm=None):
    return Exchange(Channels(comm or Twins(), {"data": (0, 0)}), policy)


SPECS = [((3,), "float32"), ((200, 200), "float32"), ((), "float32"), ((0, 4), "float32")]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("policy", ["on", "off"])
def test_sums_of_a_bucket(policy, inplace):
    start, wait = bucket(*SPECS)
    comm = Twins()
    runs = exchange(policy, comm)
    rng = np.random.default_rng(0)
    for _ in range(3):
        runs.begin_step()
        given = [rng.normal(size=shape).astype(dtype) for shape, dtype in SPECS]
        expected = [2 * x for x in given]
        token = np.empty(0, np.uint8)
        runs.run(start, given, [token])
        made = given if inplace else [np.empty_like(x) for x in given]
        runs.run(wait, [token, *given], made)
        for got, want in zip(made, expected, strict=True):
            np.testing.assert_array_equal(got, want)
    # small ones as one message, the large one by itself, on the stream of the policy
    name = "data overlap" if policy == "on" else "data"
    assert comm.log == [(name, 40000, "sum"), (name, 4, "sum")] * 3


def test_reshards():
    runs = exchange("off")
    whole = np.arange(8.0).reshape(4, 2)
    x = leaf((4, 2), "float64", "x")
    sums = Node(
        RESHARD, (x,), {"source": PARTIAL, "target": REPLICATE, "shape": (4, 2), "axis": AXIS}
    )
    out = np.empty((4, 2))
    runs.run(sums, [whole], [out])
    np.testing.assert_array_equal(out, 2 * whole)
    for axis, shape in ((0, (8, 2)), (1, (4, 4))):
        attrs = {"source": Split(axis, 4), "target": REPLICATE, "shape": shape, "axis": AXIS}
        out = np.empty(shape)
        runs.run(Node(RESHARD, (x,), attrs), [whole], [out])
        np.testing.assert_array_equal(out, np.concatenate([whole, whole], axis))


def test_an_error_of_the_thread_is_raised_where_it_is_waited_for():
    class Broken(Twins):
        def dup(self, name):
            return Broken(name)

        def allreduce(self, array, op="sum", out=None, what=""):
            raise OSError("the network is down")

    start, wait = bucket(((3,), "float32"))
    runs = exchange("on", Broken())
    x, token = np.ones(3, "float32"), np.empty(0, np.uint8)
    runs.begin_step()
    runs.run(start, [x], [token])
    with pytest.raises(OSError, match="the network is down"):
        runs.run(wait, [token, x], [x])


@pytest.mark.parametrize(("with_overlap", "choice"), [(0.5, True), (2.0, False)])
def test_auto_takes_the_faster(monkeypatch, with_overlap, choice):
    comm = Twins()
    runs = exchange("auto", comm)
    now = [0.0]
    noise = itertools.cycle([0.0, 0.9, 0.1])
    monkeypatch.setattr(collectives.time, "perf_counter", lambda: now[0])
    modes = []
    for _ in range(20):
        runs.begin_step()
        modes.append(runs.overlap)
        now[0] += (with_overlap if runs.overlap else 1.0) + next(noise)
    assert set(modes[:8]) == {True, False}
    assert set(modes[15:]) == {choice}
    assert comm.log == [("world", 2, "max")]  # the ranks agreed, once


def test_auto_is_off_where_nothing_travels():
    class Neighbours(Twins):
        node_sum = object()

        def dup(self, name):
            return Neighbours(name, self.log)

    runs = exchange("auto", Neighbours())
    assert runs.trial is None and not runs.overlap
    assert exchange("on", Neighbours()).overlap


def test_policies_are_checked(monkeypatch):
    with pytest.raises(ValueError, match="received 'sometimes'; expected auto, on or off"):
        exchange("sometimes")
    comm = Twins()
    comm.threads = False
    assert exchange("auto", comm).trial is None
    with pytest.raises(RuntimeError, match="MPI_THREAD_MULTIPLE"):
        exchange("on", comm)
    monkeypatch.setenv("UNIFLEXFLOW_OVERLAP", "on")
    assert exchange(None).overlap


def test_one_interpreter_can_not_run_what_communicates():
    start, _ = bucket(((3,), "float32"))
    with pytest.raises(RuntimeError, match=r"runtime\.lockstep"):
        reference.run_node(start, [np.ones(3, "float32")])
