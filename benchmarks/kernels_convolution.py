"""How much of a core's peak convolutions reach: ``python benchmarks/kernels_convolution.py``.

Each figure is the best of many short runs, as a percentage of the multiply-adds that the
cores in use do in registers, measured in the same minutes. ``data`` and ``weight`` are the
two gradients. Pooling, which is bound by memory, is given in bytes moved a second. One
thread is timed by its own clock, so other work on the machine counts less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterator
from typing import Any

from kernels import random, seconds

from uniflexflow._core import convolution, dispatch, pooling
from uniflexflow._core.runner import Runner
from uniflexflow.ir import Node, apply, leaf
from uniflexflow.machine import host
from uniflexflow.ops.registry import OPS
from uniflexflow.ops.window import resolve_padding

CONVOLUTIONS = [  # name, batch, size, channels, filters, window, stride, padding
    ("convnet 1", 128, 28, 1, 32, 3, 1, "valid"),
    ("convnet 2", 128, 13, 32, 64, 3, 1, "valid"),
    ("resnet20 16", 128, 32, 16, 16, 3, 1, "same"),
    ("resnet20 16-32 /2", 128, 32, 16, 32, 3, 2, "same"),
    ("resnet20 32", 128, 16, 32, 32, 3, 1, "same"),
    ("resnet50 stem /2", 8, 224, 3, 64, 7, 2, "same"),
    ("resnet50 1x1 64-256", 8, 56, 64, 256, 1, 1, "valid"),
    ("resnet50 1x1 256-512 /2", 8, 56, 256, 512, 1, 2, "valid"),
    ("resnet50 1x1 2048-512", 8, 7, 2048, 512, 1, 1, "valid"),
    ("resnet50 3x3 64", 8, 56, 64, 64, 3, 1, "same"),
    ("resnet50 3x3 128 /2", 8, 56, 128, 128, 3, 2, "same"),
    ("resnet50 3x3 256", 8, 14, 256, 256, 3, 1, "same"),
    ("resnet50 3x3 512", 8, 7, 512, 512, 3, 1, "same"),
    ("vgg16 3-64", 2, 224, 3, 64, 3, 1, "same"),
    ("vgg16 64", 2, 224, 64, 64, 3, 1, "same"),
    ("vgg16 512", 8, 14, 512, 512, 3, 1, "same"),
]
# Every other kind of layer in ResNet-50 and VGG-16, and the rest of ResNet-20: ``--all``.
OTHERS = [
    ("resnet20 3-16", 128, 32, 3, 16, 3, 1, "same"),
    ("resnet20 1x1 16-32 /2", 128, 32, 16, 32, 1, 2, "same"),
    ("resnet20 32-64 /2", 128, 16, 32, 64, 3, 2, "same"),
    ("resnet20 1x1 32-64 /2", 128, 16, 32, 64, 1, 2, "same"),
    ("resnet20 64", 128, 8, 64, 64, 3, 1, "same"),
    ("resnet50 1x1 64-64", 8, 56, 64, 64, 1, 1, "valid"),
    ("resnet50 1x1 256-64", 8, 56, 256, 64, 1, 1, "valid"),
    ("resnet50 1x1 256-128", 8, 56, 256, 128, 1, 1, "valid"),
    ("resnet50 3x3 128", 8, 28, 128, 128, 3, 1, "same"),
    ("resnet50 1x1 512-128", 8, 28, 512, 128, 1, 1, "valid"),
    ("resnet50 1x1 128-512", 8, 28, 128, 512, 1, 1, "valid"),
    ("resnet50 1x1 512-256", 8, 28, 512, 256, 1, 1, "valid"),
    ("resnet50 1x1 512-1024 /2", 8, 28, 512, 1024, 1, 2, "valid"),
    ("resnet50 3x3 256 /2", 8, 28, 256, 256, 3, 2, "same"),
    ("resnet50 1x1 1024-256", 8, 14, 1024, 256, 1, 1, "valid"),
    ("resnet50 1x1 256-1024", 8, 14, 256, 1024, 1, 1, "valid"),
    ("resnet50 1x1 1024-512", 8, 14, 1024, 512, 1, 1, "valid"),
    ("resnet50 1x1 1024-2048 /2", 8, 14, 1024, 2048, 1, 2, "valid"),
    ("resnet50 3x3 512 /2", 8, 14, 512, 512, 3, 2, "same"),
    ("resnet50 1x1 512-2048", 8, 7, 512, 2048, 1, 1, "valid"),
    ("vgg16 64-128", 2, 112, 64, 128, 3, 1, "same"),
    ("vgg16 128", 2, 112, 128, 128, 3, 1, "same"),
    ("vgg16 128-256", 2, 56, 128, 256, 3, 1, "same"),
    ("vgg16 256", 2, 56, 256, 256, 3, 1, "same"),
    ("vgg16 256-512", 2, 28, 256, 512, 3, 1, "same"),
    ("vgg16 512 on 28", 2, 28, 512, 512, 3, 1, "same"),
]
POOLS = [  # name, batch, size, channels, window, stride, padding
    ("convnet 1", 128, 26, 32, 2, 2, "valid"),
    ("convnet 2", 128, 11, 64, 2, 2, "valid"),
    ("resnet50 stem", 8, 112, 64, 3, 2, "same"),
]


def make(name: str, shapes: list[tuple[int, ...]], dtype: str, **attrs: Any) -> Node:
    return apply(OPS[name], *[leaf(s, dtype, "x") for s in shapes], **attrs).node


def run(lowerings: dict[str, Any], node: Node, threads: int) -> tuple[float, int]:
    """Return the best time of one run, and the operations it does."""
    call = lowerings[node.op.name](node)
    spec = node.outputs[0].spec
    inputs = [random(v.shape, v.dtype) for v in node.inputs]
    runner = Runner(call, [random(spec.shape, spec.dtype)], inputs, threads)
    return own_seconds(runner) if threads == 1 else seconds(runner), call.flops


def own_seconds(runner: Runner, budget: float = 0.2) -> float:
    """Best time of one run on this thread's clock, which stands still while it waits."""
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 1000):
        start = time.thread_time()
        runner.run()
        times.append(time.thread_time() - start)
    return min(times)


def convolutions(
    dtype: str, threads: int, chosen: Collection[str] | None = None
) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield each convolution's name, and (share of the peak, seconds) of its three kernels."""
    for name, n, size, c, f, k, stride, padding in CONVOLUTIONS + OTHERS:
        if name not in (chosen if chosen is not None else {row[0] for row in CONVOLUTIONS}):
            continue
        widths = resolve_padding("benchmark", padding, (size, size), (k, k), (stride, stride))
        attrs = dict(strides=(stride, stride), padding=widths, dilations=(1, 1), groups=1)
        x, kernel = (n, size, size, c), (k, k, c, f)
        forward = make("conv2d", [x, kernel], dtype, **attrs)
        y = forward.outputs[0].shape
        nodes = [
            forward,
            make("conv2d_data_gradient", [y, kernel], dtype, shape=x, **attrs),
            make("conv2d_weight_gradient", [x, y], dtype, shape=kernel, **attrs),
        ]
        found = []
        for node in nodes:
            taken, flops = run(convolution.LOWERINGS, node, threads)
            peak = dispatch.measure_peak(dtype) * threads
            found.append((flops / taken / peak, taken))
        yield name, found


def pools(dtype: str, threads: int) -> None:
    for name, n, size, c, k, stride, padding in POOLS:
        widths = resolve_padding("benchmark", padding, (size, size), (k, k), (stride, stride))
        attrs = dict(window=(k, k), strides=(stride, stride), padding=widths)
        x = (n, size, size, c)
        forward = make("max_pool2d", [x], dtype, **attrs)
        y = forward.outputs[0].shape
        row = ""
        for node in (
            forward,
            make("max_pool2d_gradient", [x, y, y], dtype, **attrs),
            make("avg_pool2d", [x], dtype, **attrs),
            make("avg_pool2d_gradient", [y], dtype, shape=x, **attrs),
        ):
            taken, _ = run(pooling.LOWERINGS, node, threads)
            moved = sum(v.spec.nbytes for v in (*node.inputs, *node.outputs))
            row += f"{moved / taken / 1e9:12.1f} GB/s"
        print(f"{name:<26}{row}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--all", action="store_true", help="every kind of layer")
    parser.add_argument("--layers", nargs="*", help="only those whose names contain one of these")
    args = parser.parse_args()
    names = [row[0] for row in (CONVOLUTIONS + OTHERS if args.all or args.layers else CONVOLUTIONS)]
    if args.layers:
        names = [name for name in names if any(part in name for part in args.layers)]
    for threads in args.threads:
        print(f"{host().name}, {dispatch.selected()}, {args.dtype}, {threads} threads")
        peak = dispatch.measure_peak(args.dtype)
        print(f"peak of a core: {peak / 1e9:.1f} GFLOP/s; below: % of {threads} times that")
        print(f"{'':26}" + "".join(f"{t:>21}" for t in ("forward", "data", "weight")))
        for name, found in convolutions(args.dtype, threads, names):
            row = "".join(f"{100 * share:8.1f}%{taken * 1e3:9.2f} ms" for share, taken in found)
            print(f"{name:<26}{row}", flush=True)
        if args.layers:
            continue
        titles = ("max", "its gradient", "mean", "its gradient")
        print(f"{'':26}" + "".join(f"{t:>17}" for t in titles))
        pools(args.dtype, threads)


if __name__ == "__main__":
    main()
