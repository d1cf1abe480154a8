"""Kernels on bfloat16 against the same ones on float32: ``python benchmarks/bfloat16.py PART``.

PART is gemm, convolution or chain. Each figure is float32's best time over bfloat16's, runs of
both alternating: above 1, bfloat16 is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from kernels import random

from uniflexflow import ir, ops
from uniflexflow._core import LOWERINGS, gemm
from uniflexflow._core.runner import Runner
from uniflexflow.compiler import Traced, optimize
from uniflexflow.ops.registry import OPS
from uniflexflow.plan.kernel_call import KernelCall

DTYPES = ("float32", "bfloat16")
GEMM = [  # m, n, k
    (512, 512, 512),
    (1024, 1024, 1024),
    (128, 512, 784),
    (512, 3072, 768),
    (32, 64, 64),
    (1024, 10, 512),
    (1, 1024, 1024),
]
CONVOLUTION = [  # images, kernel, stride, padding
    ((8, 56, 56, 64), (3, 3, 64, 64), 1, 1),
    ((8, 28, 28, 128), (3, 3, 128, 128), 1, 1),
    ((8, 7, 7, 512), (3, 3, 512, 512), 1, 1),
    ((8, 56, 56, 64), (1, 1, 64, 256), 1, 0),
    ((8, 14, 14, 1024), (1, 1, 1024, 256), 1, 0),
    ((4, 112, 112, 3), (7, 7, 3, 64), 2, 3),
    ((64, 28, 28, 1), (3, 3, 1, 32), 1, 1),
]
CHAIN: dict[str, Callable[..., Any]] = {
    "x + y": lambda x, y: x + y,
    "relu(2 x + y)": lambda x, y: ops.relu(x * 2.0 + y),
    "x sigmoid(y)": lambda x, y: x * ops.sigmoid(y),
    "sum(x y)": lambda x, y: ops.sum(x * y),
}


def gemm_runner(dtype: str, sizes: tuple[int, ...], ta: bool, tb: bool, threads: int) -> Runner:
    m, n, k = sizes
    operands = [random((k, m) if ta else (m, k), dtype), random((n, k) if tb else (k, n), dtype)]
    call = KernelCall("matmul", **gemm.lower_sizes(dtype, 1, m, n, k, ta, tb))
    return Runner(call, [random((m, n), dtype)], operands, threads)


def node_runner(node: ir.Node, threads: int) -> Runner:
    lower = LOWERINGS["chain" if node.op.elementwise else node.op.name]
    outs, operands = ([random(v.shape, v.dtype) for v in vs] for vs in (node.outputs, node.inputs))
    return Runner(lower(node), outs, operands, threads)


def convolution_runner(dtype: str, name: str, case: tuple[Any, ...], threads: int) -> Runner:
    x, k, stride, padding = case
    out = [(n + 2 * padding - w) // stride + 1 for n, w in zip(x[1:3], k)]
    g = (x[0], *out, k[3])
    operands, shape = {
        "conv2d": ((x, k), None),
        "conv2d_data_gradient": ((g, k), x),
        "conv2d_weight_gradient": ((x, g), k),
    }[name]
    attrs = {"shape": shape} if shape else {}
    values = [ir.leaf(s, dtype, "x") for s in operands]
    made = ir.apply(
        OPS[name],
        *values,
        strides=(stride, stride),
        padding=((padding, padding),) * 2,
        dilations=(1, 1),
        groups=1,
        **attrs,
    )
    return node_runner(made.node, threads)


def chain_runner(dtype: str, fn: Callable[..., Any], threads: int) -> Runner:
    graph = optimize(Traced(fn, [np.ones(1 << 23, dtype)] * 2, "chain").graph)
    return node_runner(graph.compute_nodes[0], threads)


def ratio(make: Callable[[str], Runner]) -> str:
    runners = [make(dtype) for dtype in DTYPES]
    best = [runner.run() for runner in runners]
    for _ in range(12):
        for i, runner in enumerate(runners):
            repetitions = max(1, int(0.003 / best[i]))
            best[i] = min(best[i], runner.run(repetitions) / repetitions)
    return f"{best[0] * 1e3:9.3f} ms {best[0] / best[1]:5.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["gemm", "convolution", "chain"])
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    n = args.threads
    if args.part == "gemm":
        for sizes in GEMM:
            forms = ((False, False), (False, True), (True, False))
            cells = [ratio(lambda d, s=sizes, f=f: gemm_runner(d, s, *f, n)) for f in forms]
            print(f"{sizes!s:20}", *cells, flush=True)
    elif args.part == "convolution":
        names = ("conv2d", "conv2d_data_gradient", "conv2d_weight_gradient")
        for case in CONVOLUTION:
            cells = [ratio(lambda d, c=case, a=a: convolution_runner(d, a, c, n)) for a in names]
            print(f"{case[0]!s:20}{case[1]!s:18}", *cells, flush=True)
    else:
        for name, fn in CHAIN.items():
            print(f"{name:16}", ratio(lambda d, fn=fn: chain_runner(d, fn, n)), flush=True)


if __name__ == "__main__":
    main()
