"""Recurrent kernels against the references in float64, on every instruction set."""

import dataclasses

import numpy as np
import pytest
from lowered import compute, node_of

from uniflexflow import machine
from uniflexflow._core import recurrent
from uniflexflow._core.gemm import micro_tile
from uniflexflow.runtime.reference import run_node

NAMES = tuple(recurrent.LOWERINGS)
GATES = {"lstm": 4, "gru": 3, "simple_rnn": 1}
# of one step; the recurrences below don't amplify
TOLERANCE = {"float32": 3e-6, "float64": 3e-15}


def operands(rng, name, batch, steps, units, sequences=True, masked=False):
    """Draw a primitive's inputs, in float64: what a gradient gets comes from the forward pass."""
    kind = name.removesuffix("_gradient")
    gates = GATES[kind]

    def draw(*shape, scale=1.0):
        return rng.normal(size=shape) * scale

    x = draw(batch, steps, gates * units)
    kernel = draw(units, gates * units, scale=0.5 / np.sqrt(units))
    states = [draw(batch, units) for _ in range(2 if kind == "lstm" else 1)]
    bias = [draw(gates * units)] if kind == "gru" else []
    mask = [rng.random((batch, steps)) < 0.7] if masked else []
    forward = [x, kernel, *bias, *states, *mask]
    if name == kind:
        return forward
    outs = run_node(node_of(kind, forward, go_backwards=False), forward)
    grads = [draw(batch, units) for _ in states]
    grads += [draw(batch, steps, units)] if sequences else []
    if kind == "lstm":
        _, _, _, cs, gate = outs
        return [gate, cs, kernel, states[1], *grads, *mask]
    if kind == "gru":
        _, hs, gate, inner = outs
        return [gate, inner, hs, kernel, states[0], *grads, *mask]
    return [outs[1], kernel, *grads, *mask]


def check(name, arrays, dtype, **attrs):
    """Compare with the reference in float64, and two threads with one, bit by bit."""
    if name.endswith("_gradient"):
        attrs.setdefault("sequences", True)
    attrs.setdefault("go_backwards", False)
    arrays = [x.astype(dtype) if x.dtype != bool else x for x in arrays]
    wide = [x.astype("float64") if x.dtype != bool else x for x in arrays]
    node = node_of(name, arrays, **attrs)
    got = compute(node, arrays)
    for one, two in zip(got, compute(node, arrays, threads=2)):
        assert one.tobytes() == two.tobytes(), f"{name}: two threads give other numbers"
    expected = run_node(node_of(name, wide, **attrs), wide)
    steps, units = arrays[0].shape[1], node.outputs[-1].shape[-1]
    for out, want in zip(got, expected):
        scale = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        room = TOLERANCE[dtype] * scale * (1 + 0.1 * steps) * (1 + units / 100)
        np.testing.assert_allclose(out, want, rtol=0, atol=room, err_msg=f"{name} {attrs}")
    return got


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
def test_edges(isa, rng, name, dtype):
    mr, nr = micro_tile(dtype)
    for batch in (0, 1, 2, mr + 1, 4 * mr + 1):
        for units in (1, nr - 1, nr, 2 * nr + 3):
            check(name, operands(rng, name, batch, 3, units), dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_directions_and_masks(isa, rng, name, masked, go_backwards, dtype):
    for batch in (1, 5):
        for steps in (1, 2, 7):
            for sequences in {True, not name.endswith("_gradient")}:
                arrays = operands(rng, name, batch, steps, 20, sequences, masked)
                attrs = {"sequences": sequences} if name.endswith("_gradient") else {}
                check(name, arrays, dtype, go_backwards=go_backwards, **attrs)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", NAMES)
def test_sums_and_batches_in_pieces(isa, rng, name, dtype):
    check(name, operands(rng, name, recurrent.MOST_ROWS * 2 + 3, 2, 24), dtype)
    check(name, operands(rng, name, 3, 2, 400, masked=True), dtype)
    check(name, operands(rng, name, 1, 2, 150, masked=True), dtype)


@pytest.mark.parametrize("scratch", [64 * 1024, 96 * 1024])
@pytest.mark.parametrize("name", NAMES)
def test_a_small_scratchpad(rng, monkeypatch, name, scratch):
    """States that don't fit lie in the workspace; the numbers are the same."""
    arrays = operands(rng, name, 61, 2, 500)
    large = check(name, arrays, "float32")
    small = dataclasses.replace(machine.host(), scratch_bytes=scratch)
    monkeypatch.setattr(recurrent, "host", lambda: small)
    for a, b in zip(large, check(name, arrays, "float32")):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_special_values_stay_in_their_sequence(isa, rng, name, value):
    arrays = operands(rng, name, 7, 4, 20)
    arrays[0][3, 1, 5] = value
    with np.errstate(all="ignore"):
        got = check(name, arrays, "float32")
    others = [0, 1, 2, 4, 5, 6]
    assert all(np.isfinite(x[others]).all() for x in got)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_that_does_not_count_is_not_looked_at(isa, rng, name):
    arrays = operands(rng, name, 4, 3, 20, masked=True)
    arrays[-1][:, 1] = False
    arrays[0][:, 1] = np.nan
    states = [x for x in check(name, arrays, "float32") if x.ndim == 2]
    assert all(np.isfinite(x).all() for x in states)


@pytest.mark.parametrize("name", NAMES)
def test_gates_over_inputs(isa, rng, name):
    """A plan may put one operand's memory under another: the numbers are the same."""
    arrays = [x.astype("float32") for x in operands(rng, name, 9, 4, 40)]
    attrs = {"sequences": True} if name.endswith("_gradient") else {}
    node = node_of(name, arrays, go_backwards=False, **attrs)
    apart = compute(node, arrays)
    ((out, source),) = recurrent.lower(node).inplace
    together = compute(node, arrays, inplace=(out, source))
    for a, b in zip(apart, together):
        assert a.tobytes() == b.tobytes()
