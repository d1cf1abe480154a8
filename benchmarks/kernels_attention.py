"""Attention and rows of softmax: ``python benchmarks/kernels_attention.py [--threads N]``.

Attention is given in percent of the multiply-adds that the cores in use do in registers, those
of hidden scores not counted, and beside it the time of the composition that has all scores in
memory. Both are the best of many runs in turn, forward, and forward with all gradients. Rows
are given in bytes that are read and written once, a second, beside those of a copy.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from kernels import random, seconds

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow._core import LOWERINGS, dispatch
from uniflexflow._core.runner import Runner
from uniflexflow.compiler import Function
from uniflexflow.ir import apply, leaf
from uniflexflow.machine import host
from uniflexflow.ops.attention import attention_weights, weighted_values
from uniflexflow.ops.registry import OPS

ATTENTION = [(16, 128, 4, 64), (2, 256, 12, 64), (4, 512, 4, 64), (1, 2048, 4, 64)]
ROWS = [(2048, 4096), (512, 50257), (8192, 128)]
BUDGET = 0.4  # seconds for one figure


def composite(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Return attention by whole matrices."""
    return weighted_values(attention_weights(q, k, None, None, q.shape[3] ** -0.5, causal), v)


def tiled(q: Any, k: Any, v: Any, causal: bool) -> Any:
    return ops.dot_product_attention(q, k, v, is_causal=causal)


def runs(fn: Callable[..., Any], arrays: list[np.ndarray], causal: bool) -> list[Any]:
    """Return a run of forward, and one of forward and backward."""
    q, k, v, _ = arrays

    def gradients(q: Any, k: Any, v: Any, g: Any) -> Any:
        return uff.gradients(fn(q, k, v, causal), [q, k, v], g)

    made = []
    for function, given in ((lambda *x: fn(*x, causal), [q, k, v]), (gradients, arrays)):
        step, feeds = Function(function, "attention").step(*given)
        made.append((step, feeds))
    return made


def in_turn(made: list[Any]) -> list[float]:
    best = [float("inf")] * len(made)
    start = time.perf_counter()
    while time.perf_counter() - start < BUDGET * len(made):
        for i, (step, feeds) in enumerate(made):
            before = time.perf_counter()
            step.run_views(feeds)
            best[i] = min(best[i], time.perf_counter() - before)
    return best


def attention(threads: int, peak: float) -> None:
    print(f"{'batch length heads dim':<26}{'forward':>20}{'with gradients':>22}{'composition':>24}")
    for batch, length, heads, dim in ATTENTION:
        for causal in (False, True):
            arrays = [random((batch, length, heads, dim), "float32") for _ in range(4)]
            made = [r for fn in (tiled, composite) for r in runs(fn, arrays, causal)]
            one, both, other, others = in_turn(made)
            flops = 4 * batch * heads * length * length * dim / (2 if causal else 1)
            share = [100 * n * flops / t / threads / peak for n, t in ((1, one), (3.5, both))]
            print(
                f"{batch:4d} {length:6d} {heads:5d} {dim:3d}{' causal' if causal else '':<7}"
                f"{one * 1e6:10.0f} us {share[0]:5.1f} %{both * 1e6:12.0f} us {share[1]:5.1f} %"
                f"{other * 1e6:12.0f} {others * 1e6:9.0f} us",
                flush=True,
            )


def rows(threads: int) -> None:
    for shape in ROWS:
        x, y = random(shape, "float32"), random(shape, "float32")
        labels = np.random.default_rng(0).integers(0, shape[1], shape[0]).astype("int32")
        one = random(shape[:1], "float32")
        copy = min(timed(np.copyto, y, x) for _ in range(9))
        line = f"{shape!s:<14} copy on one core {2 * x.nbytes / copy / 1e9:5.1f}"
        for name, out, given in (
            ("softmax", [y], [x]),
            ("sparse_softmax_crossentropy", [one, one.copy()], [x, labels]),
            ("sparse_softmax_crossentropy_gradient", [y], [y, labels, one, one, one]),
        ):
            leaves = [leaf(a.shape, a.dtype.name, "x") for a in given]
            made = apply(OPS[name], *leaves)
            node = (made[0] if isinstance(made, tuple) else made).node
            best = seconds(Runner(LOWERINGS[name](node), out, given, threads))
            line += f"; {name} {sum(a.nbytes for a in [*out, x]) / best / 1e9:.1f}"
        print(line, "GB/s", flush=True)


def timed(fn: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    fn(*args)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")))
    threads = parser.parse_args().threads
    os.environ["OMP_NUM_THREADS"] = str(threads)
    peak = dispatch.measure_peak()
    print(f"{host().name}, {dispatch.selected()}, float32, {threads} threads")
    attention(threads, peak)
    rows(threads)


if __name__ == "__main__":
    main()
