"""Rows of recurrent layers over whole sequences; see ``op_case``."""

import numpy as np
from op_case import Case, given, real

from uniflexflow.ops import recurrent


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def over_steps(step, x, states, mask=None, back=False):
    """Run each sequence by itself, leaving out the steps that the mask leaves out."""
    out = np.zeros((len(x), x.shape[1], states[0].shape[1]))
    last = [np.array(s) for s in states]
    for i, sequence in enumerate(x):
        at = [s[i] for s in states]
        order = range(len(sequence))
        for t in reversed(order) if back else order:
            if mask is None or mask[i, t]:
                at = step(sequence[t], *at)
            out[i, t] = at[0]
        for s, new in zip(last, at):
            s[i] = new
    return [out, *last]


def lstm(x, kernel, h, c, mask=None, back=False):
    def step(x, h, c):
        i, f, g, o = np.split(x + h @ kernel, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    return over_steps(step, x, (h, c), mask, back)


def gru(x, kernel, bias, h, mask=None, back=False):
    def step(x, h):
        (xz, xr, xa), (hz, hr, ha) = np.split(x, 3), np.split(h @ kernel + bias, 3)
        z = sigmoid(xz + hz)
        return (z * h + (1 - z) * np.tanh(xa + sigmoid(xr + hr) * ha),)

    return over_steps(step, x, (h,), mask, back)


def simple_rnn(x, kernel, h, mask=None, back=False):
    return over_steps(lambda x, h: (np.tanh(x + h @ kernel),), x, (h,), mask, back)


B, N = 3, 2
MASK = given([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 0]], "bool")
STATE = real(B, N)
KINDS = {
    "lstm": (recurrent.lstm, lstm, 4, [], [STATE, STATE]),
    "gru": (recurrent.gru, gru, 3, [real(3 * N)], [STATE]),
    "simple_rnn": (recurrent.simple_rnn, simple_rnn, 1, [], [STATE]),
}


def _rows(name):
    fn, plain, gates, bias, states = KINDS[name]
    inputs = [real(B, 4, gates * N), real(N, gates * N, low=-1, high=1), *bias, *states]
    first = len(inputs)  # of the arguments after the states: mask, direction
    wide = [real(2, 3, gates * 40), real(40, gates * 40, low=-0.3, high=0.3)]
    wide += [real(gates * 40) for _ in bias] + [real(2, 40) for _ in states]
    one = [real(1, 3, gates * 20), real(20, gates * 20), *[real(gates * 20) for _ in bias]]
    one += [real(1, 20) for _ in states]
    return [
        Case(name, fn, inputs, plain, terms=8),
        Case(f"{name} mask", fn, [*inputs, MASK], plain, terms=8),
        Case(f"{name} backwards", lambda *xs: fn(*xs, None, True), inputs,
             lambda *xs: plain(*xs, None, True), terms=8),
        Case(f"{name} mask backwards", lambda *xs: fn(*xs, True), [*inputs, MASK],
             lambda *xs: plain(*xs, True), terms=8),
        # the last state alone, and nothing of the others
        Case(f"{name} last", lambda *xs: fn(*xs)[1], inputs, lambda *xs: plain(*xs)[1], terms=8),
        Case(f"{name} one step", lambda x, *xs: fn(x[:, :1], *xs), inputs,
             lambda x, *xs: plain(x[:, :1], *xs), terms=4),
        Case(f"{name} of one state for all", lambda *xs: fn(*xs[: first - 1], xs[-1][:1]), inputs,
             lambda *xs: plain(*xs[: first - 1], np.tile(xs[-1][:1], (B, 1))), terms=8),
        Case(f"{name} wide", fn, wide, plain, terms=200, gradient=False),
        Case(f"{name} one sequence", fn, one, plain, terms=100),
    ]  # fmt: skip


CASES = [row for name in KINDS for row in _rows(name)]
