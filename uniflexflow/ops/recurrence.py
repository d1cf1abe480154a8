"""The meaning of recurrent layers: loops over the steps of a batch of sequences.

Each loop is written down once and works on NumPy arrays, as the reference of a primitive
of ``recurrent.py``, and on symbolic tensors, for derivatives of higher order. ``m`` has the
functions of either world.

What belongs to a step stays in the step's place in whichever direction steps are taken. A
loop ``*_back`` goes the other way and gives gradients; ``rest`` are the gradient of the
states after each step, if there is one (``sequences``), and the mask, if there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from uniflexflow.ops.contraction import matmul
from uniflexflow.ops.elementwise import sigmoid, tanh, where
from uniflexflow.ops.registry import OPS
from uniflexflow.ops.shaping import transpose
from uniflexflow.ops.slicing import concatenate, stack

ARRAYS = SimpleNamespace(
    matmul=np.matmul,
    tanh=np.tanh,
    sigmoid=OPS["sigmoid"].reference,
    where=np.where,
    stack=np.stack,
    concatenate=np.concatenate,
    transpose=np.transpose,
)
SYMBOLS = SimpleNamespace(
    matmul=matmul,
    tanh=tanh,
    sigmoid=sigmoid,
    where=where,
    stack=stack,
    concatenate=concatenate,
    transpose=transpose,
)


def _order(x: Any, go_backwards: bool) -> range:
    steps = range(x.shape[1])
    return steps[::-1] if go_backwards else steps


def _gates(z: Any, units: int) -> list[Any]:
    return [z[:, at : at + units] for at in range(0, z.shape[1], units)]


def _chosen(m: Any, mask: Any, t: int, new: Any, old: Any) -> Any:
    """Return ``new`` where step t counts, else ``old``."""
    return new if mask is None else m.where(mask[:, t : t + 1], new, old)


def _by_step(m: Any, found: dict[int, Any]) -> Any:
    return m.stack([found[t] for t in sorted(found)], axis=1)


def given(rest: Sequence[Any], sequences: bool) -> tuple[Any, Any]:
    """Split a gradient's last operands: the gradient of all steps' states, and the mask."""
    return (rest[0] if sequences else None), (rest[-1] if len(rest) > sequences else None)


def _before(states: Any, first: Any, t: int, go_backwards: bool) -> Any:
    """Return the state that step t starts from."""
    last = states.shape[1] - 1
    if go_backwards:
        return first if t == last else states[:, t + 1]
    return first if t == 0 else states[:, t - 1]


def lstm(
    m: Any, x: Any, recurrent: Any, h: Any, c: Any, mask: Any = None, *, go_backwards: bool
) -> tuple[Any, ...]:
    hs, cs, gates = {}, {}, {}
    for t in _order(x, go_backwards):
        zi, zf, zg, zo = _gates(x[:, t] + m.matmul(h, recurrent), h.shape[1])
        i, f, g, o = m.sigmoid(zi), m.sigmoid(zf), m.tanh(zg), m.sigmoid(zo)
        new = f * c + i * g
        h = hs[t] = _chosen(m, mask, t, o * m.tanh(new), h)
        c = cs[t] = _chosen(m, mask, t, new, c)
        gates[t] = m.concatenate([i, f, g, o], axis=1)
    return h, c, _by_step(m, hs), _by_step(m, cs), _by_step(m, gates)


def lstm_back(
    m: Any, gates: Any, cs: Any, recurrent: Any, c: Any, dh: Any, dc: Any, *rest: Any,
    sequences: bool, go_backwards: bool,
) -> tuple[Any, ...]:  # fmt: skip
    dhs, mask = given(rest, sequences)
    turned, dx = m.transpose(recurrent, (1, 0)), {}
    for t in _order(gates, not go_backwards):
        i, f, g, o = _gates(gates[:, t], c.shape[1])
        dh = dh if dhs is None else dh + dhs[:, t]
        y = m.tanh(cs[:, t])
        d = dc + dh * o * (1 - y * y)
        di, df = d * g * i * (1 - i), d * _before(cs, c, t, go_backwards) * f * (1 - f)
        dz = m.concatenate([di, df, d * i * (1 - g * g), dh * y * o * (1 - o)], axis=1)
        dz = dx[t] = _chosen(m, mask, t, dz, 0.0)
        dh = _chosen(m, mask, t, m.matmul(dz, turned), dh)
        dc = _chosen(m, mask, t, d * f, dc)
    return _by_step(m, dx), dh, dc


def gru(
    m: Any, x: Any, recurrent: Any, bias: Any, h: Any, mask: Any = None, *, go_backwards: bool
) -> tuple[Any, ...]:
    hs, gates, inner = {}, {}, {}
    for t in _order(x, go_backwards):
        xz, xr, xa = _gates(x[:, t], h.shape[1])
        hz, hr, n = _gates(m.matmul(h, recurrent) + bias, h.shape[1])
        z, r = m.sigmoid(xz + hz), m.sigmoid(xr + hr)
        a = m.tanh(xa + r * n)
        h = hs[t] = _chosen(m, mask, t, z * h + (1 - z) * a, h)
        gates[t], inner[t] = m.concatenate([z, r, a], axis=1), n
    return h, _by_step(m, hs), _by_step(m, gates), _by_step(m, inner)


def gru_back(
    m: Any, gates: Any, inner: Any, hs: Any, recurrent: Any, h: Any, dh: Any, *rest: Any,
    sequences: bool, go_backwards: bool,
) -> tuple[Any, ...]:  # fmt: skip
    dhs, mask = given(rest, sequences)
    turned, dx, dy = m.transpose(recurrent, (1, 0)), {}, {}
    for t in _order(gates, not go_backwards):
        z, r, a = _gates(gates[:, t], h.shape[1])
        dh = dh if dhs is None else dh + dhs[:, t]
        dz = dh * (_before(hs, h, t, go_backwards) - a) * z * (1 - z)
        da = dh * (1 - z) * (1 - a * a)
        dr = da * inner[:, t] * r * (1 - r)
        dx[t] = _chosen(m, mask, t, m.concatenate([dz, dr, da], axis=1), 0.0)
        dy[t] = _chosen(m, mask, t, m.concatenate([dz, dr, da * r], axis=1), 0.0)
        dh = _chosen(m, mask, t, dh * z + m.matmul(dy[t], turned), dh)
    return _by_step(m, dx), _by_step(m, dy), dh


def simple_rnn(
    m: Any, x: Any, recurrent: Any, h: Any, mask: Any = None, *, go_backwards: bool
) -> tuple[Any, ...]:
    hs = {}
    for t in _order(x, go_backwards):
        h = hs[t] = _chosen(m, mask, t, m.tanh(x[:, t] + m.matmul(h, recurrent)), h)
    return h, _by_step(m, hs)


def simple_rnn_back(
    m: Any, hs: Any, recurrent: Any, dh: Any, *rest: Any, sequences: bool, go_backwards: bool
) -> tuple[Any, ...]:
    dhs, mask = given(rest, sequences)
    turned, dx = m.transpose(recurrent, (1, 0)), {}
    for t in _order(hs, not go_backwards):
        dh = dh if dhs is None else dh + dhs[:, t]
        dx[t] = _chosen(m, mask, t, dh * (1 - hs[:, t] * hs[:, t]), 0.0)
        dh = _chosen(m, mask, t, m.matmul(dx[t], turned), dh)
    return _by_step(m, dx), dh
