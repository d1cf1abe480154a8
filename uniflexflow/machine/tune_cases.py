"""Shapes on which block sizes are compared: of the layers that training spends its time in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from uniflexflow._core import convolution, gemm
from uniflexflow.ir import Node, apply, leaf
from uniflexflow.ops.registry import OPS
from uniflexflow.plan.kernel_call import KernelCall

#: M, N, K, and which operand is transposed, as training does it: nn forward, nt for the
#: gradient of the inputs, tn for that of the weights.
PRODUCTS = (
    (768, 768, 768, "nn"),
    (2048, 1024, 256, "nt"),
    (256, 1024, 2048, "tn"),
    (512, 3072, 768, "nn"),
    (300, 300, 4000, "nn"),
)
#: Batch, size, channels, filters; windows of 3 x 3, and of one pixel.
WINDOWS = ((2, 56, 64, 64), (4, 28, 128, 128), (8, 14, 256, 256), (8, 7, 512, 512))
POINTS = ((2, 56, 64, 256), (4, 28, 512, 128), (8, 14, 1024, 256), (8, 7, 2048, 512))


@dataclass(frozen=True, eq=False)
class Case:
    """A kernel and its operands.

    Attributes
    ----------
    group : str
        Cases of a group are judged together.
    node : Node
    inputs, outputs : list of numpy.ndarray
    """

    group: str
    node: Node
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]

    def lower(self) -> KernelCall:
        """Return the kernel with the block sizes in use."""
        table = gemm.LOWERINGS if self.node.op.name in gemm.LOWERINGS else convolution.LOWERINGS
        return table[self.node.op.name](self.node)


def _case(group: str, name: str, shapes: list[tuple[int, ...]], dtype: str, **attrs: Any) -> Case:
    node = apply(OPS[name], *[leaf(s, dtype, "x") for s in shapes], **attrs).node
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape).astype(dtype) for v in node.inputs]
    return Case(group, node, inputs, [np.zeros(v.shape, v.dtype) for v in node.outputs])


def _product(dtype: str, m: int, n: int, k: int, form: str) -> Case:
    a, b = (k, m) if form[0] == "t" else (m, k), (n, k) if form[1] == "t" else (k, n)
    attrs = {"transpose_a": form[0] == "t", "transpose_b": form[1] == "t"}
    return _case(f"gemm_{dtype}", "matmul", [a, b], dtype, **attrs)


def _convolutions(sizes: tuple[int, int, int, int], window: int) -> list[Case]:
    n, size, channels, filters = sizes
    x, kernel = (n, size, size, channels), (window, window, channels, filters)
    y = (n, size, size, filters)
    pad = window // 2
    attrs = {
        "strides": (1, 1),
        "padding": ((pad, pad), (pad, pad)),
        "dilations": (1, 1),
        "groups": 1,
    }
    weight = "point" if window == 1 else "window"
    return [
        _case("forward", "conv2d", [x, kernel], "float32", **attrs),
        _case(weight, "conv2d_weight_gradient", [x, y], "float32", shape=kernel, **attrs),
    ]


def cases_of(quick: bool = False) -> list[Case]:
    """Return all cases, or fewer of each group."""
    products, windows, points = PRODUCTS, WINDOWS, POINTS
    if quick:
        products, windows, points = products[:3], windows[1:3], points[1:3]
    cases = [_product(dtype, *p) for dtype in ("float32", "float64") for p in products]
    for sizes in windows:
        cases += _convolutions(sizes, 3)
    for sizes in points:
        cases += _convolutions(sizes, 1)
    return cases
