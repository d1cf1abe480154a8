"""How much of a core's peak the kernels reach: ``python benchmarks/kernels.py [--threads N]``.

Each figure is the best of many short runs, as a percentage of the multiply-adds that the
same core does in registers, measured in the same minutes.
"""

from __future__ import annotations

import argparse

import numpy as np

from uniflexflow._core import dispatch, gemm
from uniflexflow._core.runner import Runner, aligned
from uniflexflow.machine import host
from uniflexflow.plan.kernel_call import KernelCall

GEMM = [  # batch, m, n, k
    (1, 512, 512, 512),
    (1, 1024, 1024, 1024),
    (1, 1000, 1000, 1000),
    (1, 2048, 2048, 2048),
    (1, 128, 512, 784),
    (1, 784, 512, 128),
    (1, 128, 784, 512),
    (1, 2048, 1024, 256),
    (1, 32, 64, 13),
    (1, 32, 64, 64),
    (1, 64, 64, 32),
    (64, 128, 128, 64),
    (1, 1024, 10, 512),
    (1, 1, 1024, 1024),
    (1, 1024, 1, 1024),
]


def random(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    array = aligned(int(np.prod(shape)) * np.dtype(dtype).itemsize).view(dtype).reshape(shape)
    array[...] = np.random.default_rng(0).standard_normal(shape)
    return array


def seconds(runner: Runner, budget: float = 0.15) -> float:
    """Best time of one run."""
    once = max(runner.run(), 1e-7)
    repetitions = max(1, int(0.002 / once))
    rounds = max(3, int(budget / (once * repetitions)))
    return min(runner.run(repetitions) / repetitions for _ in range(rounds))


def gemm_seconds(
    dtype: str, sizes: tuple[int, int, int, int], ta: bool, tb: bool, threads: int, **force
) -> float:
    batch, m, n, k = sizes
    a = random((batch, k, m) if ta else (batch, m, k), dtype)
    b = random((batch, n, k) if tb else (batch, k, n), dtype)
    c = random((batch, m, n), dtype)
    call = KernelCall("matmul", **gemm.lower_sizes(dtype, batch, m, n, k, ta, tb, **force))
    return seconds(Runner(call, [c], [a, b], threads))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    args = parser.parse_args()
    peak = dispatch.measure_peak(args.dtype)
    print(f"{host().name}, {dispatch.selected()}, {args.dtype}, {args.threads} threads")
    print(f"peak of a core: {peak / 1e9:.1f} GFLOP/s; below: % of {args.threads} times that")
    print(f"{'batch    m    n    k':<24}" + "".join(f"{t:>9}" for t in ("nn", "nt", "tn", "tt")))
    for sizes in GEMM:
        row = "{:5d}{:5d}{:5d}{:5d}    ".format(*sizes)
        for ta, tb in ((0, 0), (0, 1), (1, 0), (1, 1)):
            peak = max(peak, dispatch.measure_peak(args.dtype))
            time = gemm_seconds(args.dtype, sizes, bool(ta), bool(tb), args.threads)
            row += f"{200 * np.prod(sizes) / time / peak / args.threads:8.1f}%"
        print(f"{row}  {time * 1e6:10.2f} us (tt)")


if __name__ == "__main__":
    main()
