"""Random graphs over a few shapes, with variables that are updated: food for pass tests."""

from __future__ import annotations

import numpy as np

from uniflexflow import ops
from uniflexflow.compiler import Traced
from uniflexflow.ops.variable import Variable

_ROWS, _COLUMNS = 6, 5
_UNARY = [ops.negative, ops.tanh, ops.relu, ops.square, ops.sigmoid, ops.abs]
_BINARY = [ops.add, ops.subtract, ops.multiply, ops.maximum]


def random_step(seed: int, num_ops: int = 25, dtype: str = "float64"):
    """Return (traced, feeds): a random step with three variables and two feeds."""
    rng = np.random.default_rng(seed)
    shapes = [(_ROWS, _COLUMNS), (_ROWS, _COLUMNS), (_COLUMNS,)]
    variables = [
        Variable(rng.standard_normal(s).astype(dtype), name=f"v{i}") for i, s in enumerate(shapes)
    ]
    feeds = [rng.standard_normal((_ROWS, _COLUMNS)).astype(dtype) for _ in range(2)]

    def step(a, b):
        pool = [a, b, *[v.value for v in variables], a * 0.5]

        def pick(shape=None):
            fits = [x for x in pool if shape is None or x.shape == shape]
            return fits[rng.integers(len(fits))]

        for _ in range(num_ops):
            kind = rng.integers(8)
            if kind < 2:
                new = _UNARY[rng.integers(len(_UNARY))](pick())
            elif kind < 5:
                new = _BINARY[rng.integers(len(_BINARY))](pick(), pick((_ROWS, _COLUMNS)))
            elif kind == 5:
                new = ops.mean(pick((_ROWS, _COLUMNS)), axis=int(rng.integers(2)), keepdims=True)
            elif kind == 6:
                new = ops.matmul(pick((_ROWS, _COLUMNS)), ops.transpose(pick((_ROWS, _COLUMNS))))
                new = ops.tanh(new[:, :_COLUMNS])
            else:
                x = pick((_ROWS, _COLUMNS))
                new = ops.reshape(ops.reshape(x, (-1,)) * 0.3, (_ROWS, _COLUMNS))
            if new.shape in ((_ROWS, _COLUMNS), (_COLUMNS,), (1, _COLUMNS), (_ROWS, 1)):
                pool.append(new)
            if rng.random() < 0.2:
                variable = variables[rng.integers(3)]
                fits = [x for x in pool if x.shape == variable.shape]
                variable.assign(fits[rng.integers(len(fits))])
                pool.append(variable.value)
        outputs = [pick() for _ in range(3)] + [ops.sum(pick())]
        return outputs

    return Traced(step, tuple(feeds), f"random_{seed}"), feeds


def arrays_of(traced, feeds):
    """Return one array per graph input: the feeds and copies of the variables."""
    return [*feeds, *[v.numpy() for v in traced.variables]]
