"""Operations bound by memory: ``python benchmarks/kernels_memory.py [NAME ...] [--threads N]``.

Each operation is a function of its own, traced, fused and planned as in a training step. The
bytes that it needs are those of its operands, results and variables, each read or written once.
That over the sum of its instructions' best times is compared with a copy of arrays that are
larger than the caches (``machine.measure``). A function that takes more passes over its data
than it needs, or computes longer than memory takes, shows as a low share.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow._core import dispatch
from uniflexflow.compiler import Function, Step
from uniflexflow.ir import Value, apply
from uniflexflow.machine import host
from uniflexflow.machine.measure import copy_bandwidth
from uniflexflow.ops.registry import OPS

ELEMENTS = 1 << 23  # of a float32 operand of 32 MB
CHANNELS = (16, 64, 128, 256, 512, 2048)
BUDGET = 0.25  # seconds for one figure
POOLS = {
    "2x2": {"window": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0))},
    "3x3 by 2": {"window": (3, 3), "strides": (2, 2), "padding": ((0, 1), (0, 1))},
}

Case = tuple[str, Callable[..., Any], list[np.ndarray]]


def op(name: str, *inputs: Value, **attrs: Any) -> Any:
    """Return the primitive's result."""
    return apply(OPS[name], *inputs, **attrs)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, "float32")


def chains(n: int) -> Iterator[Case]:
    x, y, z = (numbers(n) for _ in range(3))
    yield "relu", lambda a: op("relu", a), [x]
    yield "add, relu", lambda a, b: ops.relu(a + b), [x, y]
    yield "relu_gradient", lambda g, a: op("relu_gradient", g, a), [x, y]
    yield "gelu", lambda a: uff.activations.gelu(a), [x]
    yield "gelu gradient", lambda a, g: uff.gradients(uff.activations.gelu(a), [a], g), [x, y]
    yield "dropout", lambda a: uff.random.dropout(a, 0.1, seed=1), [x]
    yield "random uniform", lambda: uff.random.uniform((n,), seed=1), []
    yield "random normal", lambda: uff.random.normal((n,), seed=1), []
    yield "random truncated normal", lambda: uff.random.truncated_normal((n,), seed=1), []
    yield "multiply, add, add", lambda a, b, c: a * b + c + a, [x, y, z]


def normalisation(n: int) -> Iterator[Case]:
    for c in CHANNELS:
        x, y, g, h = (numbers(max(1, n // c), c) for _ in range(4))
        m, s, b = (numbers(c) for _ in range(3))

        def sums(x: Any, y: Any, g: Any, m: Any) -> Any:
            given = op("relu_gradient", g, y)
            return ops.sum(given, axis=0), ops.sum(given * (x - m), axis=0)

        def backward(x: Any, y: Any, g: Any, m: Any, s: Any, b: Any) -> Any:
            return op("relu_gradient", g, y) * s + (x - m) * b

        yield f"variance, {c} channels", lambda x, m: ops.sum(ops.square(x - m), axis=0), [x, m]
        yield (
            f"batch norm, {c} channels",
            lambda x, h, m, s, b: ops.relu((x - m) * s + b + h),
            [x, h, m, s, b],
        )
        yield f"batch norm sums, {c} channels", sums, [x, y, g, m]
        yield f"batch norm gradient, {c} channels", backward, [x, y, g, m, s, b]
        yield f"sum of columns, {c}", lambda x: ops.sum(x, axis=0), [x]
        yield f"sum of rows of {c}", lambda x: ops.sum(x, axis=1), [x]
        yield (
            f"layer norm variance, rows of {c}",
            lambda x, m: ops.sum(ops.square(x - m), axis=1),
            [x, numbers(len(x), 1)],
        )


def rows(n: int) -> Iterator[Case]:
    for count, classes in ((2048, 4096), (512, 50257), (ELEMENTS // 1000, 1000), (128, 10)):
        count, classes = max(128, count * n // ELEMENTS), min(n, classes)
        x, one = numbers(count, classes), numbers(count)
        labels = (np.arange(count) % classes).astype("int32")
        name = f"{count} x {classes}"
        yield f"softmax, {name}", lambda x: ops.softmax(x), [x]
        yield f"log softmax, {name}", lambda x: ops.log_softmax(x), [x]
        yield f"argmax, {name}", lambda x: ops.argmax(x, axis=-1), [x]
        yield (
            f"cross-entropy, {name}",
            lambda x, t: op("sparse_softmax_crossentropy", x, t),
            [x, labels],
        )
        yield (
            f"cross-entropy gradient, {name}",
            lambda *x: op("sparse_softmax_crossentropy_gradient", *x),
            [x, labels, one, one, one],
        )
        yield f"dense cross-entropy, {name}", lambda *x: op("softmax_crossentropy", *x), [x, x]
        yield (
            f"dense cross-entropy gradient, {name}",
            lambda *x: op("softmax_crossentropy_gradient", *x),
            [x, x, one, one, one],
        )


def updates(n: int) -> Iterator[Case]:
    for name, optimizer in (
        ("SGD with momentum", uff.optimizers.SGD(0.1, momentum=0.9)),
        ("Adam", uff.optimizers.Adam(0.001)),
    ):
        weights = uff.Variable(numbers(n))
        optimizer.build([weights])

        def update(g: Any, optimizer: Any = optimizer, weights: Any = weights) -> None:
            optimizer.apply([g], [weights])

        yield name, update, [numbers(n)]
    table, width = uff.Variable(numbers(max(1, n // 128), 128)), 128
    adam = uff.optimizers.Adam(0.001)
    adam.build([table])

    def embedding(g: Any, indices: Any) -> None:
        adam.apply(uff.gradients(ops.take(table, indices, axis=0), [table], g), [table])

    indices = np.random.default_rng(0).integers(0, len(table.numpy()), 2560).astype("int32")
    yield "Adam, embedding gradient", embedding, [numbers(2560, width), indices]


def pooling(n: int) -> Iterator[Case]:
    side = 56 if n >= ELEMENTS else 8
    for c in (64, 256):
        images = max(1, n // (side * side * c))
        x, g = numbers(images, side, side, c), numbers(images, side // 2, side // 2, c)
        for name, how in POOLS.items():
            what = f"pool {name}, {c} channels"
            y = OPS["max_pool2d"].reference(x[:1], **how)
            y = np.concatenate([y] * images)
            yield f"max {what}", lambda x, how=how: op("max_pool2d", x, **how), [x]
            yield f"average {what}", lambda x, how=how: op("avg_pool2d", x, **how), [x]
            yield (
                f"max {what}, gradient",
                lambda x, y, g, how=how: op("max_pool2d_gradient", x, y, g, **how),
                [x, y, g],
            )
            yield (
                f"average {what}, gradient",
                lambda g, how=how, s=x.shape: op("avg_pool2d_gradient", g, shape=s, **how),
                [g],
            )
        yield f"global max pool, {c} channels", lambda x: ops.max(x, axis=(1, 2)), [x]
        yield f"global average pool, {c} channels", lambda x: ops.mean(x, axis=(1, 2)), [x]


def movement(n: int) -> Iterator[Case]:
    side = int(n**0.5)
    for a, b in ((side, side), (side - 7, side + 3)):
        yield f"transpose {a} x {b}", lambda x: ops.transpose(x, (1, 0)), [numbers(a, b)]
    x = numbers(max(1, n // (128 * 8 * 64)), 128, 8, 64)
    yield "transpose of heads", lambda x: ops.transpose(x, (0, 2, 1, 3)), [x]
    yield "transpose of keys", lambda x: ops.transpose(x, (0, 2, 3, 1)), [x]
    x = numbers(max(1, n // (56 * 56 * 64)), 56, 56, 64)
    yield "transpose to channels first", lambda x: ops.transpose(x, (0, 3, 1, 2)), [x]
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    yield "pad of an image", lambda x: ops.pad(x, around), [x]
    yield "concatenate of channels", lambda x: ops.concatenate([x, x], axis=-1), [x]
    yield "crop of an image", lambda x: x[:, 1:-1, 1:-1], [x]
    yield "cumulative sum of rows", lambda x: ops.cumsum(x, axis=-1), [x]


def indices(n: int) -> Iterator[Case]:
    table = numbers(max(1, n // 128), 128)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(table)).astype("int32")
    yield "rows of a table", lambda x, i: ops.take(x, i, axis=0), [table, chosen]
    g = numbers(len(chosen), 128)
    yield (
        "gradient of rows of a table",
        lambda g, i: op("take_gradient", g, i, axis=0, shape=table.shape),
        [g, chosen],
    )
    labels = rng.integers(0, 1000, max(1, n // 1000)).astype("int32")
    yield "one hot, 1000 classes", lambda i: ops.one_hot(i, 1000), [labels]


FAMILIES = (chains, normalisation, rows, updates, pooling, movement, indices)


def cases(elements: int = ELEMENTS, chosen: tuple[str, ...] = ()) -> Iterator[Case]:
    """Yield name, function and arguments of each operation on operands of about such a size."""
    for family in FAMILIES:
        for case in family(elements):
            if not chosen or any(word in case[0] for word in chosen):
                yield case


def needed_bytes(step: Step, feeds: list[np.ndarray]) -> int:
    """Return the bytes of all that goes in and comes out, each once."""
    traced = step.traced
    arrays = [*feeds, *(v.array for v in (*traced.variables, *traced.updated))]
    return sum(a.nbytes for a in arrays) + sum(v.spec.nbytes for v in step.graph.outputs)


def best_seconds(step: Step, feeds: list[np.ndarray], budget: float = BUDGET) -> float:
    """Return the sum of the instructions' best times."""
    count = len(step.plan.instructions)
    best, taken, starts = np.full(count, np.inf), np.zeros(count), np.zeros(count)
    step.run_views(feeds)
    begin, rounds = time.perf_counter(), 0
    while rounds < 3 or time.perf_counter() - begin < budget:
        step.run_timed(feeds, taken, starts)
        best = np.minimum(best, taken)
        rounds += 1
    return float(best.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="words of the operations' names; default: all")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", "1")))
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    copy = copy_bandwidth(args.threads)
    print(
        f"{host().name}, {dispatch.selected()}, {args.threads} threads, copy {copy / 1e9:.1f} GB/s"
    )
    for name, fn, arrays in cases(chosen=tuple(args.names)):
        step, feeds = Function(fn, "memory").step(*arrays)
        nbytes, seconds = needed_bytes(step, feeds), best_seconds(step, feeds)
        speed = nbytes / seconds
        print(
            f"{name:<40}{nbytes / 1e6:8.1f} MB{seconds * 1e6:10.0f} us{speed / 1e9:8.1f} GB/s"
            f"{100 * speed / copy:6.0f} % of the copy, {len(step.plan.instructions)} instructions",
            flush=True,
        )


if __name__ == "__main__":
    main()
