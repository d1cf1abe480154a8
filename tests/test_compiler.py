"""Functions over tensors: which calls may share a plan, and which threads may call."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow.compiler import Function
from uniflexflow.ops.dtypes import epsilon, set_epsilon
from uniflexflow.ops.variable import Trace


def test_zeros_of_both_signs_have_plans_of_their_own():
    one = np.ones(2, np.float32)
    for zero in (0.0, -0.0):
        assert uff.ops.divide(one, zero).tolist() == [np.copysign(np.inf, zero)] * 2


def test_a_nan_is_one_argument():
    add = Function(lambda x, y: uff.ops.add(x, y))
    one = np.ones(2, np.float32)
    assert add.step(one, float("nan"))[0] is add.step(one, float("nan"))[0]


@pytest.fixture
def settings():
    before = uff.config.floatx(), epsilon()
    yield
    uff.config.set_floatx(before[0])
    set_epsilon(before[1])


def test_the_default_float_type_is_part_of_a_signature(settings):
    whole = np.arange(3, dtype=np.int32)
    for dtype in ("float32", "float64"):
        uff.config.set_floatx(dtype)
        assert uff.ops.add(whole, 0.5).dtype == dtype


def test_epsilon_is_part_of_a_signature(settings):
    truth, wrong = np.ones((1, 1), np.float64), np.zeros((1, 1), np.float64)
    for small in (1e-7, 1e-3):
        set_epsilon(small)
        loss = uff.ops.binary_crossentropy(truth, wrong)
        np.testing.assert_allclose(loss, -np.log(small), rtol=1e-12)  # a few roundings


@pytest.mark.parametrize("dtype", ["float16", "int16", "complex64"])
def test_dtypes_that_tensors_lack_are_refused(dtype):
    with pytest.raises(ValueError, match=f"dtype '{dtype}' is not supported; expected one of"):
        uff.ops.negative(np.ones(2, dtype))


@pytest.mark.parametrize("dtype", [">f4", "<f4"])
def test_arrays_of_either_order_of_bytes(dtype):
    assert uff.ops.add(np.arange(3, dtype=dtype), 1.0).tolist() == [1, 2, 3]


def test_large_constants_and_results_are_not_kept():
    eye = Function(lambda n: uff.ops.eye(n) + 1.0, max_bytes=1 << 16)
    for n in (10, 20):
        assert eye(n).shape == (n, n)
        assert 0 < eye.held_bytes() <= 1 << 16
    assert eye(200).shape == (200, 200)  # 160,000 bytes of each
    assert eye.held_bytes() == 0
    assert eye(10).sum() == 110


def test_the_memory_of_a_variable_may_be_an_argument_of_its_own_update():
    variable = uff.Variable(np.arange(4.0))

    def step(x):
        variable.assign(variable * 2.0)
        return x + 1.0

    assert Function(step)(variable.value).tolist() == [1, 2, 3, 4]
    assert variable.numpy().tolist() == [0, 2, 4, 6]


def test_another_thread_computes_while_one_traces():
    with Trace(), ThreadPoolExecutor(1) as pool:
        out = pool.submit(uff.ops.add, np.ones(3, np.float32), 1.0).result()
    assert isinstance(out, np.ndarray)
    assert out.tolist() == [2, 2, 2]


def test_threads_may_call_one_function():
    function = Function(lambda x: uff.ops.cumsum(uff.ops.exp(x) * 0.5, axis=-1))
    start = threading.Barrier(4)

    def run(number):
        x = np.full((256, 256), number, np.float64)
        expected = np.cumsum(np.exp(x) * 0.5, axis=-1)
        start.wait()
        return [np.abs(function(x) / expected - 1).max() for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        errors = np.array(list(pool.map(run, range(4))))
    assert errors.max() < 1e-12  # 256 additions in float64


def test_a_layer_is_called_in_one_thread_while_another_traces():
    seen = []

    class Seen(uff.Layer):
        def call(self, x, training=None):
            seen.append(training)
            return x

    class Outer(uff.Layer):
        def call(self, x, training=None):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(Seen(), np.ones((2, 1), np.float32)).result()
            return x

    Outer()(np.ones((2, 1), np.float32), training=True)
    assert seen == [None]
