"""Rows of the convolution and pooling families; see ``op_case``."""

import math

import numpy as np
from op_case import Case, distinct, real

from uniflexflow import ops
from uniflexflow.ir import apply
from uniflexflow.ops.convolution import CONV2D_BIAS
from uniflexflow.ops.dispatch import op
from uniflexflow.ops.pooling import MAX_POOL2D_GATHER

# -- the same, one window at a time ------------------------------------------------


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def begin(size, window, stride, dilation, padding):
    """Where windows begin along one axis; negative where they begin in the padding."""
    span = (window - 1) * dilation + 1
    if padding == "valid":
        return range(0, size - span + 1, stride)
    count = math.ceil(size / stride)
    before = max((count - 1) * stride + span - size, 0) // 2
    return [i * stride - before for i in range(count)]


def windows(x, size, strides, dilation, padding):
    """Give (row, column, [(i, j, pixels under that tap)]) for each window."""
    (kh, kw), (sh, sw), (dh, dw) = pair(size), pair(strides), pair(dilation)
    for r, top in enumerate(begin(x.shape[1], kh, sh, dh, padding)):
        for c, left in enumerate(begin(x.shape[2], kw, sw, dw, padding)):
            yield (
                r,
                c,
                [
                    (i, j, x[:, top + i * dh, left + j * dw])
                    for i in range(kh)
                    for j in range(kw)
                    if 0 <= top + i * dh < x.shape[1] and 0 <= left + j * dw < x.shape[2]
                ],
            )


def fill(x, values):
    """Put values (row, column, (batch, channels)) into an array."""
    values = list(values)
    shape = (x.shape[0], values[-1][0] + 1, values[-1][1] + 1, values[-1][2].shape[-1])
    out = np.zeros(shape)
    for r, c, value in values:
        out[:, r, c] = value
    return out


def convolved(x, k, strides=1, padding="valid", dilation_rate=1):
    groups, f = x.shape[3] // k.shape[2], k.shape[3]
    per_group = f // groups

    def at(taps):
        total = np.zeros((x.shape[0], f))
        for i, j, pixels in taps:
            for q in range(f):
                c = q // per_group * k.shape[2]
                total[:, q] += pixels[:, c : c + k.shape[2]] @ k[i, j, :, q]
        return total

    return fill(
        x, [(r, c, at(t)) for r, c, t in windows(x, k.shape[:2], strides, dilation_rate, padding)]
    )


def depthwise(x, k, **options):
    return convolved(x, k.reshape(*k.shape[:2], 1, -1), **options)


def transposed(x, k, strides=1, padding="valid", dilation_rate=1):
    """Each input element times the kernel, added where it belongs."""
    (sh, sw), (dh, dw) = pair(strides), pair(dilation_rate)
    sizes = []
    for n, w, s, d in zip(x.shape[1:3], k.shape[:2], (sh, sw), (dh, dw)):
        span = (w - 1) * d + 1
        sizes.append((n * s, span) if padding == "same" else (n * s + max(span - s, 0), span))
    full = np.zeros((x.shape[0], *[n + 2 * span for n, span in sizes], k.shape[2]))
    starts = [
        begin(n, w, s, d, padding)[0]
        for (n, _), w, s, d in zip(sizes, k.shape[:2], (sh, sw), (dh, dw))
    ]
    (height, span_h), (width, span_w) = sizes
    for r in range(x.shape[1]):
        for c in range(x.shape[2]):
            for i in range(k.shape[0]):
                for j in range(k.shape[1]):
                    full[
                        :,
                        span_h + starts[0] + r * sh + i * dh,
                        span_w + starts[1] + c * sw + j * dw,
                    ] += x[:, r, c] @ k[i, j].T
    return full[:, span_h : span_h + height, span_w : span_w + width]


def pooled(combine):
    def pool(x, pool_size, strides=None, padding="valid"):
        strides = pool_size if strides is None else strides
        return fill(
            x,
            [
                (r, c, combine([pixels for _, _, pixels in t], axis=0))
                for r, c, t in windows(x, pool_size, strides, 1, padding)
            ],
        )

    return pool


largest, averaged = pooled(np.max), pooled(np.mean)


def with_height(f):
    """Do for sequences what ``f`` does for images."""
    return lambda x, *args, **options: f(x[:, None], *args, **options)[:, 0]


def gathered(x, v):
    """Return v at the place of x's maximum in each 2x2 window."""
    out = np.zeros((x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]))
    for b, r, c, q in np.ndindex(out.shape):
        block = x[b, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2, q]
        i, j = np.unravel_index(np.argmax(block), block.shape)
        out[b, r, c, q] = v[b, 2 * r + i, 2 * c + j, q]
    return out


_two = {"window": (2, 2), "strides": (2, 2), "padding": ((0, 0), (0, 0))}


@op
def gather_two(x, v):
    y = ops.max_pool(x, 2)
    return apply(MAX_POOL2D_GATHER, x, y, v, **_two)


@op
def conv_bias_relu(x, k, bias):
    return apply(
        CONV2D_BIAS,
        x,
        k,
        bias,
        strides=(1, 1),
        padding=((1, 1), (1, 1)),
        dilations=(1, 1),
        groups=1,
        activation="relu",
    )


# -- rows --------------------------------------------------------------------------


def conv_case(name, x, k, fn=ops.conv, expect=convolved, **options):
    terms = math.prod(k) // k[-1]
    if fn is ops.conv_transpose:
        terms = math.prod(k[:2]) * k[-1]
    return Case(
        name,
        lambda a, b: fn(a, b, **options),
        [real(*x), real(*k)],
        lambda a, b: expect(a, b, **options),
        terms=terms,
    )


def pool_case(name, draw, fn, expect, **options):
    return Case(name, lambda x: fn(x, **options), [draw], lambda x: expect(x, **options), terms=9)


CASES: list[Case] = [
    conv_case("conv", (2, 5, 6, 3), (3, 3, 3, 4)),
    conv_case("conv same", (2, 5, 6, 3), (3, 2, 3, 4), padding="same"),
    conv_case("conv strided", (2, 7, 6, 2), (3, 3, 2, 3), strides=2, padding="same"),
    conv_case("conv strides beyond the window", (1, 7, 8, 2), (1, 2, 2, 3), strides=(2, 3)),
    conv_case("conv dilated", (1, 7, 7, 2), (3, 2, 2, 3), dilation_rate=(2, 3)),
    conv_case("conv dilated same", (1, 5, 4, 2), (3, 3, 2, 2), padding="same", dilation_rate=2),
    conv_case("conv pointwise", (2, 3, 4, 5), (1, 1, 5, 3)),
    conv_case("conv window over all", (2, 4, 3, 2), (4, 3, 2, 5)),
    conv_case("conv grouped", (2, 4, 4, 6), (3, 3, 2, 9), padding="same"),
    Case(
        "conv of sequences",
        lambda x, k: ops.conv(x, k, strides=2, padding="same"),
        [real(2, 9, 3), real(3, 3, 4)],
        lambda x, k: convolved(x[:, None], k[None], strides=(1, 2), padding="same")[:, 0],
        terms=9,
    ),
    conv_case("depthwise_conv", (2, 5, 6, 3), (3, 3, 3, 1), ops.depthwise_conv, depthwise),
    conv_case(
        "depthwise_conv multiplied",
        (2, 5, 6, 3),
        (3, 2, 3, 2),
        ops.depthwise_conv,
        depthwise,
        padding="same",
    ),
    conv_case(
        "depthwise_conv strided",
        (1, 7, 6, 9),
        (3, 3, 9, 1),
        ops.depthwise_conv,
        depthwise,
        strides=2,
        padding="same",
    ),
    Case(
        "separable_conv",
        ops.separable_conv,
        [real(1, 5, 4, 2), real(3, 2, 2, 2), real(1, 1, 4, 3)],
        lambda x, d, p: convolved(depthwise(x, d), p),
        terms=24,
    ),
    conv_case("conv_transpose", (2, 3, 4, 3), (3, 3, 2, 3), ops.conv_transpose, transposed),
    conv_case(
        "conv_transpose same",
        (1, 3, 4, 3),
        (3, 3, 2, 3),
        ops.conv_transpose,
        transposed,
        strides=2,
        padding="same",
    ),
    conv_case(
        "conv_transpose gaps", (1, 3, 4, 2), (2, 1, 3, 2), ops.conv_transpose, transposed, strides=3
    ),
    Case(
        "conv2d_bias",
        conv_bias_relu,
        [real(2, 4, 5, 3), real(3, 3, 3, 4), real(4)],
        lambda x, k, b: np.maximum(convolved(x, k, padding="same") + b, 0),
        gradient=False,
        terms=28,
    ),
    pool_case("max_pool", distinct(2, 4, 6, 3), ops.max_pool, largest, pool_size=2),
    pool_case(
        "max_pool rest uncovered", distinct(1, 5, 7, 2), ops.max_pool, largest, pool_size=(2, 3)
    ),
    pool_case(
        "max_pool overlapping",
        distinct(2, 5, 6, 2),
        ops.max_pool,
        largest,
        pool_size=3,
        strides=2,
        padding="same",
    ),
    pool_case("max_pool gaps", distinct(1, 7, 7, 2), ops.max_pool, largest, pool_size=2, strides=3),
    pool_case(
        "max_pool of sequences",
        distinct(2, 7, 3),
        ops.max_pool,
        with_height(lambda x, pool_size: largest(x, (1, pool_size))),
        pool_size=3,
    ),
    Case("max_pool2d_gather", gather_two, [distinct(2, 4, 6, 3), real(2, 4, 6, 3)], gathered),
    pool_case("average_pool", real(2, 4, 6, 3), ops.average_pool, averaged, pool_size=2),
    pool_case(
        "average_pool same",
        real(2, 5, 6, 2),
        ops.average_pool,
        averaged,
        pool_size=3,
        strides=2,
        padding="same",
    ),
    pool_case(
        "average_pool rest uncovered",
        real(1, 5, 7, 2),
        ops.average_pool,
        averaged,
        pool_size=(2, 3),
    ),
]
