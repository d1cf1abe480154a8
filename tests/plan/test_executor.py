"""The executor on random graphs against the reference: aliases, in-place work, updates."""

import os
import signal
import threading

import numpy as np
import pytest
from random_graphs import arrays_of, random_step

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow._core import LOWERINGS
from uniflexflow.compiler import Function, Traced, optimize
from uniflexflow.passes.materialize import materialize
from uniflexflow.plan import build
from uniflexflow.runtime import reference
from uniflexflow.runtime.executor import Arena, Executor


def executor_of(step, graph, num_threads=2):
    plan = build(graph, LOWERINGS)
    return Executor(plan, [v.array for v in step.variables], Arena(), num_threads, 1 << 18)


def check(step, feeds, graph, rounds=3, rtol=1e-11):
    """Run executor and reference side by side; compare outputs and all variables."""
    executor = executor_of(step, graph)
    for _ in range(rounds):
        arrays = arrays_of(step, feeds)
        outputs, updates = reference.run(step.graph, arrays)
        expected = dict(zip(step.variables, arrays[len(feeds) :]))
        expected.update(zip(step.updated, updates))
        for got, want in zip(executor.run(feeds), outputs, strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
        for variable, want in expected.items():
            np.testing.assert_allclose(variable.array, want, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_optimized(seed):
    step, feeds = random_step(seed)
    check(step, feeds, optimize(step.graph))


@pytest.mark.parametrize("seed", range(60, 90))
def test_random_graphs_as_traced(seed):
    step, feeds = random_step(seed)
    check(step, feeds, materialize(step.graph))


def traced(fn, *arrays):
    return Traced(fn, arrays, "step")


def test_variables_that_change_places():
    a, b = uff.Variable(np.arange(3.0)), uff.Variable(np.arange(3.0) + 10)

    def swap(x):
        old_a, old_b = a.value, b.value
        a.assign(old_b)
        b.assign(old_a)
        return x * 1.0

    step = traced(swap, np.ones(3))
    check(step, [np.ones(3)], optimize(step.graph), rounds=3)
    assert a.array.tolist() == [10, 11, 12]


def test_an_output_keeps_the_number_before_the_update():
    v = uff.Variable(np.zeros(2))

    def step(x):
        old = v.value
        v.assign(old + x)
        return old, v.value

    s = traced(step, np.ones(2))
    executor = executor_of(s, optimize(s.graph))
    for i in range(3):
        old, new = executor.run([np.ones(2)])
        assert old.tolist() == [i, i] and new.tolist() == [i + 1, i + 1]


def test_an_old_number_read_after_the_update_is_made():
    v = uff.Variable(np.ones((2, 2)))

    def step(x):
        old = v.value
        v.assign(ops.matmul(old, old) + x)
        return ops.matmul(old, x)

    s = traced(step, np.full((2, 2), 0.5))
    check(s, [np.full((2, 2), 0.5)], optimize(s.graph))


def test_update_in_place_needs_no_memory():
    v = uff.Variable(np.ones(1000))

    def step(x):
        v.assign(v.value * 0.9 + x)

    s = traced(step, np.ones(1000))
    plan = build(optimize(s.graph), LOWERINGS)
    assert not plan.copies and plan.arena_bytes < 100


def test_slices_and_reshapes_are_no_instructions():
    def step(x):
        return ops.reshape(x[2:4], (6,)), ops.reshape(x, (3, 6))[1]

    s = traced(step, np.arange(18.0).reshape(6, 3))
    plan = build(optimize(s.graph), LOWERINGS)
    assert not plan.instructions
    check(s, [np.arange(18.0).reshape(6, 3)], optimize(s.graph))


@pytest.mark.parametrize("bad", [np.ones((2, 3), "f"), np.ones((3, 2)), [[1.0, 2, 3]] * 2])
def test_a_feed_of_another_kind_is_refused(bad):
    s = traced(lambda x: x * 2.0, np.ones((2, 3)))
    executor = executor_of(s, optimize(s.graph))
    with pytest.raises(ValueError, match=r"feed 0.*expected float64 of shape \(2, 3\)"):
        executor.run([bad])


def test_a_feed_with_strides_is_read_right():
    s = traced(lambda x: x * 2.0, np.ones((2, 3)))
    feed = np.arange(12.0).reshape(3, 4)[:, ::2].T
    np.testing.assert_array_equal(executor_of(s, optimize(s.graph)).run([feed])[0], feed * 2)


def test_an_operation_without_a_kernel_names_its_layer():
    from uniflexflow.ir import Graph, OpDef, TensorSpec, apply, leaf, scope

    strange = OpDef("strange", lambda x: TensorSpec(x.shape, x.dtype), lambda x: x, None)
    x = leaf((2,), "float32", "x")
    with scope("model/odd"):
        y = apply(strange, x)
    with pytest.raises(NotImplementedError, match="'strange'.*model/odd"):
        build(Graph((x,), (y,)), LOWERINGS)


def test_an_input_read_twice_is_not_overwritten_by_a_shape_of_it():
    # the chain reads the same bytes as a whole and, transposed by shape, as a row
    def step(x):
        y = ops.tanh(x)
        return y + ops.reshape(y, (9,))[:3]

    s = traced(step, np.arange(9.0).reshape(3, 3) / 9)
    check(s, [np.arange(9.0).reshape(3, 3) / 9], optimize(s.graph))


def test_a_forked_child_starts_threads_of_its_own():
    # the parent's spawns go on in a thread while it forks; the child must not join them
    x = np.ones((256, 256))
    done = threading.Event()
    function = Function(lambda a: ops.matmul(a, a))

    def work():
        while not done.is_set():
            function(x)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        codes = [child_s_code(x) for _ in range(10)]
    finally:
        done.set()
        thread.join()
    assert codes == [0] * 10


def child_s_code(x):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1]
    signal.alarm(20)  # rather than for ever
    right = [(Function(lambda a: ops.matmul(a, a))(x) == 256).all() for _ in range(20)]
    os._exit(0 if all(right) else 1)


def test_plans_of_one_arena_share_a_scratchpad():
    arena, x = Arena(), np.ones(3)
    step = traced(lambda a: a + 1.0, x)
    plan = build(optimize(step.graph), LOWERINGS)
    one, two = (Executor(plan, [], arena, 2, 1 << 18) for _ in range(2))
    assert one._scratch is two._scratch
