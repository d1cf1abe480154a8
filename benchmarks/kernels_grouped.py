"""Depthwise and grouped convolutions: ``python benchmarks/kernels_grouped.py [NAME ...]``.

Forward pass, data gradient and weight gradient of the shapes of MobileNet, EfficientNet,
ConvNeXt and ResNeXt. GB/s count each operand once; GFLOP/s count all taps of the window, also
those on the border. Both are compared with what the machine does at most, a copy of arrays
larger than the caches and multiply-adds in registers: the larger share is the last number.
Operands that fit into the caches may pass the copy.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

from kernels import random, seconds
from kernels_convolution import make, own_seconds

from uniflexflow._core import convolution, dispatch
from uniflexflow._core.runner import Runner
from uniflexflow.ir import Node
from uniflexflow.machine import host
from uniflexflow.machine.measure import copy_bandwidth
from uniflexflow.ops.window import resolve_padding, window_count

PASSES = ("forward", "data", "weight")


class Case(NamedTuple):
    """One convolution; a multiplier stands for depthwise, ``groups`` for grouped."""

    name: str
    batch: int
    size: int
    channels: int
    window: int
    stride: int = 1
    padding: str = "same"
    dilation: int = 1
    multiplier: int = 1
    groups: int = 0

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of images, kernel and results."""
        groups = self.groups or self.channels
        filters = self.channels * (1 if self.groups else self.multiplier)
        x = (self.batch, self.size, self.size, self.channels)
        kernel = (self.window, self.window, self.channels // groups, filters)
        out = window_count(self.size, self.window, self.stride, self.widths[0], self.dilation)
        return x, kernel, (self.batch, out, out, filters)

    @property
    def widths(self) -> Any:
        twice = [(v, v) for v in (self.size, self.window, self.stride, self.dilation)]
        size, window, stride, dilation = twice
        return resolve_padding("benchmark", self.padding, size, window, stride, dilation)


CASES = (
    Case("depthwise 3x3, 32 of 112", 8, 112, 32, 3),
    Case("depthwise 3x3, 64 of 112, by 2", 8, 112, 64, 3, 2),
    Case("depthwise 3x3, 128 of 56", 8, 56, 128, 3),
    Case("depthwise 3x3, 128 of 56, by 2", 8, 56, 128, 3, 2),
    Case("depthwise 3x3, 256 of 28", 8, 28, 256, 3),
    Case("depthwise 3x3, 512 of 14", 8, 14, 512, 3),
    Case("depthwise 3x3, 512 of 14, by 2", 8, 14, 512, 3, 2),
    Case("depthwise 3x3, 1024 of 7", 8, 7, 1024, 3),
    Case("depthwise 3x3, 96 of 56, valid", 8, 56, 96, 3, padding="valid"),
    Case("depthwise 3x3, 128 of 56, dilated", 8, 56, 128, 3, dilation=2),
    Case("depthwise 5x5, 144 of 56, by 2", 8, 56, 144, 5, 2),
    Case("depthwise 5x5, 240 of 28", 8, 28, 240, 5),
    Case("depthwise 5x5, 672 of 14", 8, 14, 672, 5),
    Case("depthwise 7x7, 96 of 56", 8, 56, 96, 7),
    Case("depthwise 7x7, 192 of 28", 8, 28, 192, 7),
    Case("depthwise 7x7, 384 of 14", 8, 14, 384, 7),
    Case("depthwise 7x7, 768 of 7", 8, 7, 768, 7),
    Case("depthwise 3x3, 64 of 56, twice", 8, 56, 64, 3, multiplier=2),
    Case("depthwise 3x3, 256 of 14, twice", 8, 14, 256, 3, multiplier=2),
    Case("grouped 3x3, 32 of 4, 56", 8, 56, 128, 3, groups=32),
    Case("grouped 3x3, 32 of 8, 28", 8, 28, 256, 3, groups=32),
    Case("grouped 3x3, 32 of 8, 56, by 2", 8, 56, 256, 3, 2, groups=32),
    Case("grouped 3x3, 32 of 16, 14", 8, 14, 512, 3, groups=32),
    Case("grouped 3x3, 32 of 32, 7", 8, 7, 1024, 3, groups=32),
    Case("grouped 3x3, 4 of 16, 56", 8, 56, 64, 3, groups=4),
    Case("grouped 3x3, 4 of 64, 28", 8, 28, 256, 3, groups=4),
    Case("grouped 3x3, 2 of 64, 28", 8, 28, 128, 3, groups=2),
    Case("grouped 1x1, 8 of 32, 28", 8, 28, 256, 1, groups=8),
)


def nodes(case: Case, dtype: str) -> list[Node]:
    """Return forward pass, data gradient and weight gradient."""
    x, kernel, y = case.shapes
    attrs = dict(
        strides=(case.stride,) * 2,
        padding=case.widths,
        dilations=(case.dilation,) * 2,
        groups=case.groups or case.channels,
    )
    return [
        make("conv2d", [x, kernel], dtype, **attrs),
        make("conv2d_data_gradient", [y, kernel], dtype, shape=x, **attrs),
        make("conv2d_weight_gradient", [x, y], dtype, shape=kernel, **attrs),
    ]


def cases(words: tuple[str, ...] = ()) -> Iterator[Case]:
    """Yield the cases whose names have one of these words; all if there are none."""
    yield from (c for c in CASES if not words or any(word in c.name for word in words))


def needed_bytes(node: Node) -> int:
    """Return the bytes of operands and result, each once."""
    return sum(v.spec.nbytes for v in (*node.inputs, *node.outputs))


def taken_seconds(node: Node, threads: int, budget: float = 0.1) -> tuple[float, int]:
    """Return the best time of one run, and its operations."""
    call = convolution.LOWERINGS[node.op.name](node)
    out = node.outputs[0]
    inputs = [random(v.shape, v.dtype) for v in node.inputs]
    runner = Runner(call, [random(out.shape, out.dtype)], inputs, threads)
    if threads == 1:  # its own clock stands still while others run
        return own_seconds(runner, budget), call.flops
    return seconds(runner, budget), call.flops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="words of the names; default: all")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64"])
    parser.add_argument("--seconds", type=float, default=0.1, help="for each figure")
    args = parser.parse_args()
    for threads in args.threads:
        copy = copy_bandwidth(threads)
        peak = dispatch.measure_peak(args.dtype) * threads
        print(
            f"{host().name}, {dispatch.selected()}, {args.dtype}, {threads} threads: "
            f"copy {copy / 1e9:.1f} GB/s, peak {peak / 1e9:.1f} GFLOP/s"
        )
        print(f"{'':34}" + "".join(f"{'GB/s':>11}{'GFLOP/s':>8}{p:>8}" for p in PASSES))
        for case in cases(tuple(args.names)):
            row = ""
            for node in nodes(case, args.dtype):
                taken, flops = taken_seconds(node, threads, args.seconds)
                speed, rate = needed_bytes(node) / taken, flops / taken
                share = max(speed / copy, rate / peak)
                row += f"{speed / 1e9:11.1f}{rate / 1e9:8.1f}{100 * share:7.0f}%"
            print(f"{case.name:<34}{row}", flush=True)


if __name__ == "__main__":
    main()
