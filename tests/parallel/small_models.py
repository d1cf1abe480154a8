"""Small models as steps over variables: one for each way that tensors meet the batch.

Each function returns ``make``, which gives fresh variables and the step over them; all
in float64, with initial numbers that depend on the model alone.
"""

import numpy as np

import uniflexflow as uff
from uniflexflow import ops
from uniflexflow.ops.variable import Variable


class Weights:
    """Variables with numbers drawn in order."""

    def __init__(self):
        self.rng = np.random.default_rng(11)
        self.made = []

    def __call__(self, *shape, name=None, value=None):
        array = self.rng.normal(size=shape) / np.sqrt(shape[0]) if value is None else value
        self.made.append(Variable(array, name=name or f"w{len(self.made)}"))
        return self.made[-1]


def adam(loss, weights, slots):
    """Update by moments, clipped by the global norm: uses each gradient more than once."""
    grads = uff.gradients(loss, weights)
    norm = ops.sqrt(sum(ops.sum(g * g) for g in grads))
    scale = 1.0 / ops.maximum(norm, 1.0)
    for w, g, (m, v) in zip(weights, grads, slots):
        g = g * scale
        m.assign(0.9 * m.value + 0.1 * g)
        v.assign(0.99 * v.value + 0.01 * g * g)
        w.assign(w.value - 0.05 * m.value / (ops.sqrt(v.value) + 1e-3))


def sgd(loss, weights):
    """Update by gradients alone: linear all the way."""
    for w, g in zip(weights, uff.gradients(loss, weights)):
        w.assign(w.value - 0.1 * g)


def slots_of(new, weights):
    return [(new(value=np.zeros(w.shape)), new(value=np.zeros(w.shape))) for w in weights]


def perceptron():
    """Dense layers, sample weights, an L2 term, metric sums."""
    new = Weights()
    w1, b1, w2 = new(5, 7), new(value=np.zeros(7)), new(7, 3)
    total, count = new(value=np.zeros(())), new(value=np.zeros(()))
    slots = slots_of(new, [w1, b1, w2])

    def step(x, y, weight):
        h = ops.relu(ops.matmul(x, w1) + b1)
        error = ops.sum((ops.matmul(h, w2) - y) ** 2, axis=-1)
        loss = ops.sum(error * weight) / ops.sum(weight) + 0.01 * ops.sum(w1.value * w1.value)
        adam(loss, [w1, b1, w2], slots)
        total.assign(total.value + ops.sum(error * weight))
        count.assign(count.value + ops.sum(weight))
        return loss, total.value / count.value, error

    return new.made, step


def normalised():
    """Statistics over the batch, moving averages, dropout."""
    new = Weights()
    w1, gamma, beta, w2 = new(5, 6), new(value=np.ones(6)), new(value=np.zeros(6)), new(6, 3)
    mean, var = new(value=np.zeros(6)), new(value=np.ones(6))
    seed = Variable(np.array([3, 0], "int64"), name="seed", trainable=False)

    def step(x, y, weight):
        h = ops.matmul(x, w1)
        m = ops.mean(h, axis=0)
        v = ops.mean((h - m) ** 2, axis=0)
        h = (h - m) * ops.rsqrt(v + 1e-3) * gamma + beta
        mean.assign(0.9 * mean.value + 0.1 * m)
        var.assign(0.9 * var.value + 0.1 * v)
        key = seed.value
        keep = ops.random.random_uniform(key, h.shape, "float64") >= 0.4
        seed.assign(key + np.array([0, 1], "int64"))
        h = ops.where(keep, h / 0.6, 0.0)
        loss = ops.mean((ops.matmul(ops.tanh(h), w2) - y) ** 2)
        sgd(loss, [w1, gamma, beta, w2])
        return loss, h

    return [*new.made, seed], step


def sequence():
    """Axes merged and parted, a transpose, softmax, one weight used twice."""
    new = Weights()
    embed, out = new(5, 4), new(4, 3)

    def step(x, y, weight):
        steps = ops.reshape(x, (-1, 5))  # (batch * 1, 5), then a time axis of 6 from outer sums
        t = ops.reshape(ops.matmul(steps, embed), (x.shape[0], 1, 4))
        t = t * np.arange(1.0, 7.0).reshape(1, 6, 1)
        scores = ops.matmul(t, ops.transpose(t, (0, 2, 1)))
        scores = scores - ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True))
        e = ops.exp(scores)
        attention = e / ops.sum(e, axis=-1, keepdims=True)
        mixed = ops.reshape(ops.matmul(attention, t), (-1, 4))  # (batch * 6, 4)
        back = ops.matmul(mixed, ops.transpose(embed.value))  # tied
        tokens = ops.matmul(mixed, out)
        loss = ops.mean(ops.sum(back**2, -1)) + ops.mean(ops.sum(tokens, -1) ** 2) * ops.mean(y)
        sgd(loss, [embed, out])
        return loss, tokens

    return new.made, step


def whole_batch():
    """What needs the whole batch at one place: extremes, an order, a product of samples."""
    new = Weights()
    w = new(5, 4)
    best = new(value=np.zeros(4))

    def step(x, y, weight):
        h = ops.matmul(x, w)
        top = ops.max(h, axis=0)
        alike = ops.matmul(h, ops.transpose(h))  # (batch, batch)
        order = ops.argmax(alike, axis=0)
        first = h[0]
        turned = ops.flip(h, axis=0)
        loss = ops.mean(alike**2) + ops.mean(top) + ops.sum(first) + ops.mean((h - turned) ** 2)
        sgd(loss * 0.05, [w])
        best.assign(ops.maximum(best.value, top))
        return loss, order, ops.any(h > 1.0), ops.all(h > -9.0, axis=0)

    return new.made, step


def generated():
    """A batch that comes from random numbers alone, and meets the fed one only at times."""
    new = Weights()
    w, critic = new(4, 5), new(5, 1)
    seed = Variable(np.array([5, 0], "int64"), name="seed", trainable=False)

    def step(x, y, weight):
        key = seed.value
        seed.assign(key + np.array([0, 1], "int64"))
        z = ops.random.random_uniform(key, (x.shape[0], 4), "float64")
        fake = ops.tanh(ops.matmul(z, w))
        both = ops.concatenate([x, fake], axis=0)
        loss = ops.mean(ops.matmul(both, critic) ** 2) + ops.mean(fake) - ops.mean(x * fake)
        sgd(loss, [w, critic])
        return loss, fake

    return [*new.made, seed], step


def remembered():
    """State with a row per sample, kept from batch to batch."""
    new = Weights()
    w = new(5, 4)
    last = new(value=np.zeros((13, 4)), name="last")

    def step(x, y, weight):
        if x.shape[0] != 13:
            return (ops.mean(x),)
        h = ops.tanh(ops.matmul(x, w) + 0.5 * last.value)
        last.assign(h)
        loss = ops.mean((h - 1.0) ** 2)
        sgd(loss, [w])
        return loss, h

    return new.made, step


def recomputed():
    """Statistics of the batch, dropout and an inner region, computed again for gradients."""
    new = Weights()
    w1, gamma, w2, w3 = new(5, 6), new(value=np.ones(6)), new(6, 6), new(6, 3)
    mean = new(value=np.zeros(6))
    seed = Variable(np.array([3, 0], "int64"), name="seed", trainable=False)

    @uff.remat
    def inner(h):
        return h + ops.tanh(ops.matmul(ops.tanh(h), w2))

    @uff.remat
    def block(x):
        h = ops.matmul(x, w1)
        m = ops.mean(h, axis=0)
        mean.assign(0.9 * mean.value + 0.1 * m)
        h = (h - m) * ops.rsqrt(ops.mean((h - m) ** 2, axis=0) + 1e-3) * gamma
        key = seed.value
        keep = ops.random.random_uniform(key, h.shape, "float64") >= 0.4
        seed.assign(key + np.array([0, 1], "int64"))
        return inner(ops.where(keep, h / 0.6, 0.0))

    def step(x, y, weight):
        h = block(x)
        loss = ops.mean((ops.matmul(h, w3) - y) ** 2)
        sgd(loss, [w1, gamma, w2, w3])
        return loss, h

    return [*new.made, seed], step


MODELS = [perceptron, normalised, sequence, whole_batch, generated, remembered, recomputed]


def batches():
    """Batches of 13, 13, 2 and 1: over 4 ranks uneven, then with ranks that have none."""
    rng = np.random.default_rng(5)
    return [
        [rng.normal(size=(n, 5)), rng.normal(size=(n, 3)), rng.uniform(0.5, 2.0, size=n)]
        for n in (13, 13, 2, 1, 13)
    ]
