"""What Winograd's convolutions give and cost: ``python benchmarks/kernels_winograd.py``.

For each layer and its gradients: how many times as fast as the direct kernel (both best of many
runs in turn), and the largest error of both against float64, in units of the results' standard
deviation.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from kernels_convolution import make

import uniflexflow as uff
from uniflexflow._core import convolution, dispatch
from uniflexflow._core.runner import Runner
from uniflexflow.ir import Node
from uniflexflow.machine import host

LAYERS = [  # name, batch, size, channels, filters
    ("resnet20 32", 128, 16, 32, 32),
    ("resnet20 64", 128, 8, 64, 64),
    ("resnet50 64", 8, 56, 64, 64),
    ("resnet50 128", 8, 28, 128, 128),
    ("resnet50 256", 8, 14, 256, 256),
    ("resnet50 512", 8, 7, 512, 512),
    ("vgg16 64", 8, 224, 64, 64),
    ("vgg16 128", 8, 112, 128, 128),
    ("vgg16 256", 8, 56, 256, 256),
    ("vgg16 512", 8, 28, 512, 512),
    ("vgg16 512, last", 8, 14, 512, 512),
]
ATTRS = dict(strides=(1, 1), padding=((1, 1), (1, 1)), dilations=(1, 1), groups=1)


def nodes(n: int, size: int, channels: int, filters: int, dtype: str) -> list[Node]:
    """Return a layer's forward pass and its two gradients."""
    x, y, kernel = (n, size, size, channels), (n, size, size, filters), (3, 3, channels, filters)
    return [
        make("conv2d", [x, kernel], dtype, **ATTRS),
        make("conv2d_data_gradient", [y, kernel], dtype, shape=x, **ATTRS),
        make("conv2d_weight_gradient", [x, y], dtype, shape=kernel, **ATTRS),
    ]


def runners(node: Node, inputs: list[np.ndarray], threads: int) -> list[tuple[Runner, np.ndarray]]:
    """Return how to run a node directly and by Winograd's algorithm, and where results go."""
    made = []
    for algorithm in ("direct", "winograd"):
        uff.config.set_convolution_algorithm(algorithm)
        call = convolution.LOWERINGS[node.op.name](node)
        spec = node.outputs[0].spec
        out = np.zeros(spec.shape, spec.dtype)
        made.append((Runner(call, [out], inputs, threads), out))
    uff.config.set_convolution_algorithm("direct")
    return made


def exact(node: Node, inputs: list[np.ndarray], threads: int) -> np.ndarray:
    """Return a float64 node's result for float32 inputs."""
    spec = node.outputs[0].spec
    out = np.zeros(spec.shape, spec.dtype)
    wide = [a.astype(spec.dtype) for a in inputs]
    Runner(convolution.LOWERINGS[node.op.name](node), [out], wide, threads).run()
    return out


def best_times(pair: list[tuple[Runner, np.ndarray]], budget: float) -> list[float]:
    """Run both in turn for ``budget`` seconds, at least three times."""
    best = [float("inf")] * len(pair)
    end, rounds = time.perf_counter() + budget, 0
    while rounds < 3 or time.perf_counter() < end:
        for i, (runner, _) in enumerate(pair):
            start = time.perf_counter()
            runner.run()
            best[i] = min(best[i], time.perf_counter() - start)
        rounds += 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--budget", type=float, default=0.5, help="seconds for each pair")
    parser.add_argument("--errors", action="store_true", help="compare with float64 too (slow)")
    args = parser.parse_args()
    print(
        f"{host().name}, {dispatch.selected()}; times as fast as the direct kernel, GFLOP/s of it"
    )
    titles = ("forward", "data gradient", "weight gradient")
    rng = np.random.default_rng(0)
    for threads in args.threads:
        print(f"{threads} threads{'':12}" + "".join(f"{t:>22}" for t in titles))
        for name, *sizes in LAYERS:
            row = f"{name:<20}"
            for node, wide in zip(nodes(*sizes, "float32"), nodes(*sizes, "float64")):
                inputs = [rng.standard_normal(v.shape, "float32") for v in node.inputs]
                pair = runners(node, inputs, threads)
                direct, fast = best_times(pair, args.budget)
                flops = convolution.LOWERINGS[node.op.name](node).flops
                row += f"{direct / fast:12.2f} ({flops / direct / 1e9:4.0f})   "
                if args.errors:
                    want = exact(wide, inputs, threads)
                    errors = [abs(out - want).max() / want.std() for _, out in pair]
                    row += f"errors {errors[0]:.1e} {errors[1]:.1e}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
