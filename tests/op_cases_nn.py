"""Rows of activations, losses' parts, normalisation and attention; see ``op_case``."""

import math

import numpy as np
from op_case import Case, away, given, real, truth, whole

from uniflexflow import ops

S = (3, 5)
erf = np.vectorize(math.erf)
EPS = 1e-7


def with_(f, *args, **kwargs):
    return lambda x: f(x, *args, **kwargs)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(x, 0)


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def elu(x, a=1.0):
    return np.where(x > 0, x, a * np.expm1(np.minimum(x, 0)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


WIDE = given([-90.0, -20.0, -1.0, 0.0, 1.0, 20.0, 90.0])
ACTIVATIONS = [
    Case("relu6", ops.relu6, [real(*S, low=0.2, high=8)], lambda x: np.clip(x, 0, 6)),
    Case("leaky_relu", ops.leaky_relu, [away(*S)], lambda x: np.where(x > 0, x, 0.2 * x)),
    Case("elu", ops.elu, [away(*S)], elu),
    Case("elu alpha", with_(ops.elu, 0.5), [away(*S)], with_(elu, 0.5)),
    Case("elu wide", ops.elu, [WIDE], elu, gradient=False),
    Case("selu", ops.selu, [away(*S)], lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
    Case("celu", with_(ops.celu, 2.0), [away(*S)],
         lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2))),
    Case("gelu", ops.gelu, [real(*S)], gelu_tanh),
    Case("gelu exact", with_(ops.gelu, approximate=False), [real(*S)],
         lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
    Case("silu", ops.silu, [real(*S)], lambda x: x * sigmoid(x)),
    Case("mish", ops.mish, [real(*S)], lambda x: x * np.tanh(softplus(x))),
    Case("softsign", ops.softsign, [away(*S)], lambda x: x / (1 + np.abs(x))),
    Case("log_sigmoid", ops.log_sigmoid, [real(*S)], lambda x: -softplus(-x)),
    Case("log_sigmoid wide", ops.log_sigmoid, [WIDE], lambda x: -softplus(-x)),
    Case("hard_sigmoid", ops.hard_sigmoid, [real(*S)], lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    Case("hard_silu", ops.hard_silu, [real(*S)], lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    Case("hard_tanh", ops.hard_tanh, [away(*S, kinks=(-1, 1))], lambda x: np.clip(x, -1, 1)),
    Case("hard_shrink", ops.hard_shrink, [away(*S, kinks=(-0.5, 0.5))],
         lambda x: np.where(np.abs(x) > 0.5, x, 0)),
    Case("soft_shrink", ops.soft_shrink, [away(*S, kinks=(-0.5, 0.5))],
         lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.5, 0)),
    Case("tanh_shrink", ops.tanh_shrink, [real(*S)], lambda x: x - np.tanh(x)),
    Case("squareplus", ops.squareplus, [real(*S)], lambda x: (x + np.sqrt(x * x + 4)) / 2),
    Case("threshold", with_(ops.threshold, 0.5, -3.0), [away(*S, kinks=(0.5,))],
         lambda x: np.where(x > 0.5, x, -3.0)),
    Case("glu", ops.glu, [real(3, 6)], lambda x: x[:, :3] * sigmoid(x[:, 3:])),
    Case("sigmoid wide", ops.sigmoid, [WIDE], sigmoid),
    Case("softplus wide", ops.softplus, [WIDE], softplus),
]  # fmt: skip

T = (2, 3, 4)
SOFTMAX = [
    *[Case(f"softmax {a}", with_(ops.softmax, a), [real(*T)], with_(softmax, a), terms=24)
      for a in (-1, 0, 1, (0, 2), None)],
    *[Case(f"log_softmax {a}", with_(ops.log_softmax, a), [real(*T)],
           lambda x, a=a: np.log(softmax(x, a)), terms=24) for a in (-1, 0, (1, 2))],
    *[Case(f"logsumexp {a}", with_(ops.logsumexp, a, keepdims=k), [real(*T)],
           lambda x, a=a, k=k: np.log(np.sum(np.exp(x), axis=a, keepdims=k)), terms=24)
      for a, k in [(-1, False), (0, True), ((0, 1), False), (None, False)]],
    Case("softmax wide", ops.softmax, [given([[1000.0, 999.0, -1000.0], [-1e30, 0.0, 1.0]])],
         softmax, gradient=False),
    Case("log_softmax wide", ops.log_softmax, [given([[1000.0, 999.0, -1000.0]])],
         lambda x: x - 1000 - np.log1p(np.exp(-1.0)), gradient=False),
    Case("logsumexp of -inf", with_(ops.logsumexp, -1),
         [given([[-np.inf, -np.inf], [0.0, -np.inf]])],
         lambda x: np.array([-np.inf, 0.0]), gradient=False),
    Case("softmax long", ops.softmax, [real(3, 1000)], softmax, terms=1000, gradient=False),
    Case("softmax one", ops.softmax, [real(3, 1)], softmax),
]  # fmt: skip


def cce(t, p, axis=-1):
    p = p / p.sum(axis=axis, keepdims=True)
    return -np.sum(t * np.log(np.clip(p, EPS, 1 - EPS)), axis=axis)


def sparse(t, log_p):
    return -np.take_along_axis(log_p, t.astype(int)[..., None], -1)[..., 0]


def bce(t, p):
    p = np.clip(p, EPS, 1 - EPS)
    return -(t * np.log(p) + (1 - t) * np.log(1 - p))


P = real(3, 4, low=0.1, high=1)
LABELS = whole(3, high=4)
CROSSENTROPIES = [
    Case("categorical_crossentropy", ops.categorical_crossentropy, [P, P], cce, terms=4),
    Case("categorical_crossentropy logits",
         lambda t, x: ops.categorical_crossentropy(t, x, from_logits=True), [P, real(3, 4)],
         lambda t, x: -np.sum(t * np.log(softmax(x)), -1), terms=4),
    Case("categorical_crossentropy axis 1",
         lambda t, x: ops.categorical_crossentropy(t, x, from_logits=True, axis=1),
         [real(2, 4, 3), real(2, 4, 3)], lambda t, x: -np.sum(t * np.log(softmax(x, 1)), 1),
         terms=4),
    Case("sparse_categorical_crossentropy", ops.sparse_categorical_crossentropy, [LABELS, P],
         lambda t, p: sparse(t, np.log(p / p.sum(-1, keepdims=True)))),
    Case("sparse_categorical_crossentropy column", ops.sparse_categorical_crossentropy,
         [whole(3, 1, high=4), P],
         lambda t, p: sparse(t[:, 0], np.log(p / p.sum(-1, keepdims=True)))),
    Case("sparse_categorical_crossentropy uint8", ops.sparse_categorical_crossentropy,
         [whole(3, high=4, dtype="uint8"), P],
         lambda t, p: sparse(t, np.log(p / p.sum(-1, keepdims=True)))),
    Case("sparse_categorical_crossentropy float labels", ops.sparse_categorical_crossentropy,
         [given([0.0, 3.0, 1.0]), P],
         lambda t, p: sparse(t, np.log(p / p.sum(-1, keepdims=True))), gradient=False),
    Case("sparse_categorical_crossentropy logits",
         lambda t, x: ops.sparse_categorical_crossentropy(t, x, from_logits=True),
         [whole(2, 3, high=4), real(2, 3, 4)], lambda t, x: sparse(t, np.log(softmax(x)))),
    Case("sparse_categorical_crossentropy axis 1",
         lambda t, x: ops.sparse_categorical_crossentropy(t, x, from_logits=True, axis=1),
         [whole(2, 3, high=4), real(2, 4, 3)],
         lambda t, x: sparse(t, np.log(softmax(np.moveaxis(x, 1, -1))))),
    Case("sparse_categorical_crossentropy int64 labels",
         lambda t, x: ops.sparse_categorical_crossentropy(t, x, from_logits=True),
         [whole(3, high=4, dtype="int64"), real(3, 4)], lambda t, x: sparse(t, np.log(softmax(x)))),
    Case("sparse_categorical_crossentropy of large logits",
         lambda t, x: ops.sparse_categorical_crossentropy(t, x, from_logits=True),
         [given([0, 2], "int32"), given([[1000.0, 999.0, -1000.0]] * 2)],
         lambda t, x: np.log1p(np.exp(-1.0)) + np.array([0.0, 2000.0]), gradient=False),
    Case("sparse_categorical_crossentropy no class",
         lambda t, x: ops.sparse_categorical_crossentropy(t, x, from_logits=True),
         [given([1, 4], "int32"), given([[0.0, 0, 0, 0]] * 2)],
         lambda t, x: np.array([np.log(4.0), np.nan]), gradient=False),
    Case("binary_crossentropy", ops.binary_crossentropy,
         [real(*S, low=0, high=1), real(*S, low=0.1, high=0.9)], bce),
    Case("binary_crossentropy logits",
         lambda t, x: ops.binary_crossentropy(t, x, from_logits=True),
         [real(*S, low=0, high=1), real(*S)], lambda t, x: bce(t, sigmoid(x))),
    Case("binary_crossentropy logits at 0",
         lambda t, x: ops.binary_crossentropy(t, x, from_logits=True),
         [given([0.0, 1.0, 1.0]), given([0.0, 0.0, 30.0])],
         lambda t, x: softplus(x) - t * x),
    Case("binary_crossentropy of whole targets",
         lambda t, x: ops.binary_crossentropy(t, x, from_logits=True),
         [whole(*S, high=2), real(*S)],
         lambda t, x: bce(t, sigmoid(x))),
]  # fmt: skip


def normalized(x, axes, eps=1e-3):
    d = x - x.mean(axes, keepdims=True)
    return d / np.sqrt((d * d).mean(axes, keepdims=True) + eps)


def at(vector, axis, ndim):
    return vector.reshape([-1 if i == axis else 1 for i in range(ndim)])


NORMALIZATION = [
    Case("moments", with_(ops.moments, [0, 1]), [real(*T)],
         lambda x: [x.mean((0, 1)), x.var((0, 1))], terms=6),
    Case("moments keepdims", with_(ops.moments, 1, keepdims=True), [real(*T)],
         lambda x: [x.mean(1, keepdims=True), x.var(1, keepdims=True)], terms=6),
    *[Case(f"batch_normalization {a}",
           lambda x, m, v, o, s, a=a: ops.batch_normalization(x, m, v, a, o, s, 1e-2),
           [real(*T), real(n), real(n, low=0.5), real(n), real(n)],
           lambda x, m, v, o, s, a=a: (x - at(m, a, 3)) / np.sqrt(at(v, a, 3) + 1e-2)
           * at(s, a, 3) + at(o, a, 3)) for a, n in [(2, 4), (1, 3)]],
    Case("batch_normalization by its moments",
         lambda x: ops.batch_normalization(x, *ops.moments(x, 0), 1), [real(6, 3)],
         lambda x: normalized(x, 0), terms=6),
    Case("layer_normalization", lambda x, g, b: ops.layer_normalization(x, g, b),
         [real(*T), real(4), real(4)], lambda x, g, b: normalized(x, -1) * g + b, terms=4),
    Case("layer_normalization two axes",
         lambda x, g, b: ops.layer_normalization(x, g, b, axis=[1, 2]),
         [real(*T), real(3, 4), real(3, 4)], lambda x, g, b: normalized(x, (1, 2)) * g + b,
         terms=12),
    Case("layer_normalization inner axis", lambda x, g: ops.layer_normalization(x, g, axis=1),
         [real(*T), real(3)], lambda x, g: normalized(x, 1) * g[:, None], terms=3),
    Case("rms_normalization", ops.rms_normalization, [real(*T), real(4)],
         lambda x, s: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-7) * s, terms=4),
    *[Case(f"normalize {o}", with_(ops.normalize, axis=1, order=o), [away(*T)],
           lambda x, o=o: x / np.linalg.norm(x, o, axis=1, keepdims=True), terms=3)
      for o in (1, 2, 3)],
    Case("normalize of zeros", ops.normalize, [given([[0.0, 0.0], [3.0, 4.0]])],
         lambda x: np.array([[0, 0], [0.6, 0.8]]), gradient=False),
]  # fmt: skip


def attend(q, k, v, bias=0.0, mask=True, scale=None, causal=False):
    scores = np.einsum("bqnh,bknh->bnqk", q, k) * (scale or q.shape[-1] ** -0.5) + bias
    allowed = np.broadcast_to(mask, scores.shape)
    if causal:
        allowed = allowed & np.tri(*scores.shape[-2:], dtype=bool)
    return np.einsum("bnqk,bknh->bqnh", softmax(np.where(allowed, scores, -1e30)), v)


Q, K, V = real(2, 3, 2, 4), real(2, 5, 2, 4), real(2, 5, 2, 3)
ATTENTION = [
    Case("attention", ops.dot_product_attention, [Q, K, V], attend, terms=5),
    Case("attention scale", lambda q, k, v: ops.dot_product_attention(q, k, v, scale=0.3),
         [Q, K, V], lambda q, k, v: attend(q, k, v, scale=0.3), terms=5),
    Case("attention causal", lambda q, k, v: ops.dot_product_attention(q, k, v, is_causal=True),
         [Q, K, V], lambda q, k, v: attend(q, k, v, causal=True), terms=5),
    Case("attention mask", lambda q, k, v, m: ops.dot_product_attention(q, k, v, mask=m),
         [Q, K, V, given([[[[1, 1, 0, 0, 0]]], [[[0, 1, 1, 1, 0]]]], "bool")],
         lambda q, k, v, m: attend(q, k, v, mask=m), terms=5),
    Case("attention mask of none", lambda q, k, v, m: ops.dot_product_attention(q, k, v, mask=m),
         [Q, K, V, given(np.zeros((2, 1, 3, 5)), "bool")],
         lambda q, k, v, m: np.broadcast_to(v.mean(1, keepdims=True), (2, 3, 2, 3)), terms=5),
    Case("attention bias", lambda q, k, v, b: ops.dot_product_attention(q, k, v, bias=b),
         [Q, K, V, real(2, 3, 5)], attend, terms=5),
    Case("attention of one key head", ops.dot_product_attention,
         [Q, real(2, 5, 1, 4), real(2, 5, 1, 3)],
         lambda q, k, v: attend(q, k.repeat(2, 2), v.repeat(2, 2)), terms=5),
    Case("attention with a bias, a mask and causal",
         lambda q, k, v, b, m: ops.dot_product_attention(q, k, v, b, m, is_causal=True),
         [Q, K, V, real(2, 1, 1, 5), given([[[1, 1, 1, 0, 1]], [[1, 0, 1, 1, 1]]], "bool")],
         lambda q, k, v, b, m: attend(q, k, v, b, m, causal=True), terms=5),
    Case("attention of which some targets see nothing",
         lambda q, k, v, m: ops.dot_product_attention(q, k, v, mask=m, is_causal=True),
         [Q, K, V, given([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 0, 1, 1, 1]], "bool")],
         lambda q, k, v, m: np.concatenate([v.mean(1, keepdims=True),
                                            attend(q, k, v, mask=m, causal=True)[:, 1:]], 1),
         terms=5),
    Case("attention of groups of heads, causal",
         lambda q, k, v: ops.dot_product_attention(q, k, v, is_causal=True),
         [real(2, 3, 4, 4), K, V],
         lambda q, k, v: attend(q, k.repeat(2, 2), v.repeat(2, 2), causal=True), terms=5),
    Case("attention of more targets than sources, causal",
         lambda q, k, v: ops.dot_product_attention(q, k, v, is_causal=True),
         [real(1, 5, 2, 4), real(1, 3, 2, 4), real(1, 3, 2, 4)],
         lambda q, k, v: attend(q, k, v, causal=True), terms=5),
    Case("attention beyond the tiles' width",
         lambda q, k, v, b: ops.dot_product_attention(q, k, v, b, scale=0.02, is_causal=True),
         [real(1, 2, 2, 257), real(1, 3, 1, 257), real(1, 3, 1, 2), real(3)],
         lambda q, k, v, b: attend(q, k.repeat(2, 2), v.repeat(2, 2), b, scale=0.02, causal=True),
         terms=257),
    Case("attention with a mask and causal",
         lambda q, k, v, m: ops.dot_product_attention(q, k, v, mask=m, is_causal=True),
         [Q, K, V, truth(2, 2, 3, 5)], lambda q, k, v, m: attend(q, k, v, mask=m, causal=True),
         terms=5, gradient=False),
]  # fmt: skip

CASES = [*ACTIVATIONS, *SOFTMAX, *CROSSENTROPIES, *NORMALIZATION, *ATTENTION]
