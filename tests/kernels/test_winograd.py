"""Convolutions by Winograd's algorithm, against the direct sums and the algorithm's error bound."""

import dataclasses

import numpy as np
import pytest

import uniflexflow as uff
from uniflexflow import ir
from uniflexflow._core import convolution, winograd_plan
from uniflexflow._core.runner import run_call
from uniflexflow.machine import host
from uniflexflow.ops.registry import OPS
from uniflexflow.ops.window import resolve_padding
from uniflexflow.runtime.reference import run_node

NAMES = ("conv2d", "conv2d_data_gradient", "conv2d_weight_gradient")
OPERANDS = {"conv2d": "xk", "conv2d_data_gradient": "gk", "conv2d_weight_gradient": "xg"}
#: The transforms of tile/winograd.h, as Lavin and Gray print them.
IMAGES = np.array(
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
POINTS = np.array([0, 1, -1, 2, -2])
SCALES = np.array([1 / 4, -1 / 6, -1 / 6, 1 / 24, 1 / 24])


def window_matrix(size):
    """Return G for windows of this size: the powers of the points, scaled; infinity last."""
    return np.vstack([SCALES[:, None] * POINTS[:, None] ** np.arange(size), np.eye(size)[-1]])


def result_matrix(size):
    """Return A' for that many results."""
    return np.vstack([POINTS[:, None] ** np.arange(size), np.eye(size)[-1]]).T


@pytest.fixture(autouse=True)
def winograd(monkeypatch):
    monkeypatch.setattr(winograd_plan, "LEAST_CHANNELS", 16)
    uff.config.set_convolution_algorithm("winograd")
    yield
    uff.config.set_convolution_algorithm("direct")


@pytest.fixture(params=["private", "shared"])
def form(request, monkeypatch):
    """Blocks of a few tiles, so that there are several of them."""
    private = request.param == "private"
    room = host().scratch_bytes * 3 // 4 // (winograd_plan.POSITIONS * 4)

    def private_tiles(floats, least, unit=1):
        return min(12, room // floats) * private

    monkeypatch.setattr(winograd_plan, "_private_tiles", private_tiles)
    monkeypatch.setattr(winograd_plan, "_shared_tiles", lambda floats, least: 20)
    monkeypatch.setattr(winograd_plan, "CORE_FLOPS", 1)
    if private:
        monkeypatch.setattr(winograd_plan, "PART_BYTES", 1 << 40)
    return request.param


#: Images, filters, padding.
SHAPES = {
    "whole tiles": ((2, 8, 8, 16), 16, "same"),
    "cut tiles": ((3, 9, 7, 16), 32, "same"),
    "valid": ((2, 11, 14, 32), 16, "valid"),
    "one tile": ((1, 4, 4, 16), 16, "same"),
    "fewer results than a tile": ((1, 3, 3, 16), 16, "same"),
    "padding on one side": ((2, 7, 8, 16), 48, ((2, 0), (0, 1))),
    "padding beyond the window": ((1, 8, 8, 16), 16, ((3, 4), (0, 2))),
    "filters beyond a panel": ((1, 8, 6, 16), 80, "same"),
    "channels beyond a chunk": ((1, 6, 8, 912), 16, "same"),
    "filters beyond a cut": ((1, 6, 6, 144), 160, "same"),
    "many images": ((37, 4, 5, 16), 16, "same"),
}


class Problem:
    def __init__(self, images, filters, padding):
        if isinstance(padding, str):
            padding = resolve_padding("test", padding, images[1:3], (3, 3), (1, 1), (1, 1))
        out = [size + sum(pad) - 2 for size, pad in zip(images[1:3], padding)]
        self.attrs = dict(strides=(1, 1), padding=padding, dilations=(1, 1), groups=1)
        self.shapes = {
            "x": images,
            "k": (3, 3, images[3], filters),
            "g": (images[0], *out, filters),
        }

    def whole(self, rng):
        """Draw whole numbers, and most channels and filters 0, so that sums stay small."""
        self.arrays = {k: np.zeros(s, "float32") for k, s in self.shapes.items()}
        for key, array in self.arrays.items():
            for end in {0, 5, array.shape[-1] - 1}:
                array[..., end] = rng.integers(-1, 2, array.shape[:-1])
            if key == "k":
                dropped = np.ones(array.shape[2], bool)
                dropped[[0, 5, -1]] = False
                array[:, :, dropped] = 0
        return self

    def draw(self, rng):
        self.arrays = {k: rng.standard_normal(s).astype("float32") for k, s in self.shapes.items()}
        return self

    def node(self, name, arrays=None):
        arrays = arrays or self.arrays
        operands = [arrays[o] for o in OPERANDS[name]]
        result = {"conv2d_data_gradient": "x", "conv2d_weight_gradient": "k"}.get(name)
        more = {"shape": self.shapes[result]} if result else {}
        values = [ir.leaf(a.shape, a.dtype.name, "x") for a in operands]
        return ir.apply(OPS[name], *values, **self.attrs, **more).node, operands

    def compute(self, name, threads=1, scratch=0):
        """Run the kernel into an array of NaN: an element it forgets shows."""
        node, operands = self.node(name)
        out = np.full(node.outputs[0].shape, np.nan, "float32")
        call = convolution.LOWERINGS[name](node)
        assert call.name == f"{name}_winograd_float32"
        run_call(call, [out], operands, threads, scratch)
        return out

    def reference(self, name):
        node, operands = self.node(name, {k: a.astype("float64") for k, a in self.arrays.items()})
        return run_node(node, operands)[0]

    def bound(self, name):
        """Return the error bound: the algorithm on absolute values, times roundings.

        A sum of n products of transformed numbers has n roundings; the transforms, each two sums
        of at most 4 terms with factors that are themselves rounded, have 12 each.
        """
        x, k, g = (abs(self.arrays[key].astype("float64")) for key in "xkg")
        (top, bottom), (left, right) = self.attrs["padding"]
        images, results, window = IMAGES, result_matrix(4), window_matrix(3)
        if name == "conv2d_data_gradient":
            x, k = g, k[::-1, ::-1].swapaxes(2, 3)
            top, bottom, left, right = 2 - top, 2 - bottom, 2 - left, 2 - right
        # a large border of zeros, then only what is in the image
        border = 12
        x = np.pad(x, ((0, 0), (border, border), (border, border), (0, 0)))
        x = x[:, border - top :, border - left :]
        out = self.reference(name).shape[1:3]
        if name == "conv2d_weight_gradient":
            out = g.shape[1:3]
            window, results = window_matrix(4), result_matrix(3)
            g = np.pad(g, ((0, 0), (0, 4), (0, 4), (0, 0)))
        images, results, window = abs(images), abs(results), abs(window)
        made = 0 if name == "conv2d_weight_gradient" else np.zeros((x.shape[0], *out, k.shape[3]))
        for r in range(0, out[0], 4):
            for c in range(0, out[1], 4):
                v = np.einsum("pi,qj,nijc->npqc", images, images, x[:, r : r + 6, c : c + 6])
                if name == "conv2d_weight_gradient":
                    w = np.einsum("pi,qj,nijf->npqf", window, window, g[:, r : r + 4, c : c + 4])
                    m = np.einsum("npqc,npqf->pqcf", v, w)
                    made += np.einsum("ap,bq,pqcf->abcf", results, results, m)
                else:
                    u = np.einsum("pi,qj,ijcf->pqcf", window, window, k)
                    m = np.einsum("npqc,pqcf->npqf", v, u)
                    y = np.einsum("ap,bq,npqf->nabf", results, results, m)
                    made[:, r : r + 4, c : c + 4] = y[:, : out[0] - r, : out[1] - c]
        tiles = x.shape[0] * -(-out[0] // 4) * -(-out[1] // 4)
        terms = tiles if name == "conv2d_weight_gradient" else x.shape[3]
        return (terms + 36) * 2.0**-24 * made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_product_is_missing(isa, form, rng, shape, name):
    problem = Problem(*SHAPES[shape]).whole(rng)
    # each product is 1, 0 or -1, so one that is missing shows; 1/6 and 1/24 are rounded
    np.testing.assert_allclose(problem.compute(name), problem.reference(name), rtol=0, atol=0.01)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_error_bound(isa, form, rng, shape, name):
    problem = Problem(*SHAPES[shape]).draw(rng)
    error = abs(problem.compute(name) - problem.reference(name))
    assert np.all(error <= problem.bound(name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_threads_and_scratchpad_change_nothing(form, rng, shape, name):
    problem = Problem(*SHAPES[shape]).draw(rng)
    one = problem.compute(name)
    for threads in (2, 3, 5):
        np.testing.assert_array_equal(problem.compute(name, threads, 2 * host().scratch_bytes), one)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [16, 32, 64, 256])
def test_blocks_of_this_machine(isa, rng, channels, name):
    problem = Problem((40, 13, 14, channels), channels, "same").draw(rng)
    size = problem.reference(name).std()
    error = abs(problem.compute(name, 2) - problem.reference(name)).max()
    assert error <= 1e-4 * size


@pytest.mark.parametrize("activation", [None, "relu"])
def test_bias_and_activation(isa, form, rng, activation):
    problem = Problem((2, 9, 7, 16), 48, "same").draw(rng)
    bias = rng.standard_normal(48).astype("float32")
    _, operands = problem.node("conv2d")
    values = [ir.leaf(a.shape, "float32", "x") for a in (*operands, bias)]
    node = ir.apply(OPS["conv2d_bias"], *values, activation=activation, **problem.attrs).node
    out = np.full(node.outputs[0].shape, np.nan, "float32")
    run_call(convolution.LOWERINGS["conv2d_bias"](node), [out], [*operands, bias])
    want = problem.compute("conv2d") + bias
    np.testing.assert_array_equal(out, np.maximum(want, 0) if activation else want)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES[:2])
def test_nan_stays_in_its_tiles(isa, form, rng, name, number):
    problem = Problem((1, 12, 12, 16), 16, "same").draw(rng)
    clean = problem.compute(name)
    problem.arrays[OPERANDS[name][0]][0, 6, 6, 3] = number
    found = problem.compute(name)
    hit = np.isnan(found)
    assert hit[0, 5:8, 5:8].all()  # where a window meets it
    hit[0, 4:8, 4:8] = False
    assert not hit.any()
    np.testing.assert_array_equal(found[0, 8:], clean[0, 8:])
    np.testing.assert_array_equal(found[0, :, 8:], clean[0, :, 8:])


def test_nan_reaches_its_weights(isa, form, rng):
    problem = Problem((1, 12, 12, 16), 16, "same").draw(rng)
    problem.arrays["x"][0, 6, 6, 3] = np.nan
    hit = np.isnan(problem.compute("conv2d_weight_gradient"))
    assert hit[:, :, 3].all() and not np.delete(hit, 3, axis=2).any()


@pytest.mark.parametrize("name", NAMES)
def test_unaligned_operands(isa, form, rng, name):
    problem = Problem((2, 9, 7, 16), 32, "same").draw(rng)
    want = problem.compute(name)
    for key, array in problem.arrays.items():
        moved = np.empty(array.nbytes + 4, np.uint8)[4:].view("float32").reshape(array.shape)
        moved[...] = array
        problem.arrays[key] = moved
    np.testing.assert_array_equal(problem.compute(name), want)


@pytest.mark.parametrize("scratch", [1 << 18, 1 << 19, 1 << 20, 1 << 21])
@pytest.mark.parametrize("lanes, rows", [(8, 6), (16, 6), (32, 14)])
def test_cuts_are_whole_panels(monkeypatch, scratch, lanes, rows):
    machine = dataclasses.replace(host(), scratch_bytes=scratch, l3_bytes=0)
    monkeypatch.setattr(winograd_plan, "host", lambda: machine)
    for channels in range(16, 320, 16):
        for filters in range(16, 320, 16):
            ints, _, _ = winograd_plan.correlation(
                (8, 20, 20, channels), (20, 20), filters, (1, 1), (0,) * 5, lanes, rows
            )
            block, pitch, image, result, _, cut = ints[19:25]
            shared = ints[27]
            assert ints[18] == lanes and cut % lanes == 0 and block > 0
            assert image >= block * pitch and result >= block * (filters if shared else cut)
            if not shared:
                assert (image + result) * winograd_plan.POSITIONS * 4 < scratch * 15 // 16


def test_too_many_channels_stay_direct():
    most = host().scratch_bytes // winograd_plan.MOST_BYTES // 16 * 16
    attrs = dict(strides=(1, 1), dilations=(1, 1), groups=1)
    assert winograd_plan.applies(attrs, "float32", (3, 3, most, 32), (8, 8))
    assert not winograd_plan.applies(attrs, "float32", (3, 3, most + 16, 32), (8, 8))
    assert not winograd_plan.applies(attrs, "float32", (3, 3, 32, most + 16), (8, 8))


def test_the_most_channels(isa):
    most = host().scratch_bytes // winograd_plan.MOST_BYTES // 16 * 16
    for channels, filters in ((most, 32), (32, most)):
        problem = Problem((1, 4, 4, channels), filters, "same")
        problem.arrays = {k: np.ones(s, "float32") for k, s in problem.shapes.items()}
        for name in NAMES:
            got, want = problem.compute(name, 2), problem.reference(name)
            np.testing.assert_allclose(got, want, rtol=1e-4)  # sums of up to 1e5 products


def test_no_images(rng):
    problem = Problem((0, 8, 8, 16), 16, "same").draw(rng)
    for name in NAMES:
        np.testing.assert_array_equal(problem.compute(name), problem.reference(name))


DIRECT = {
    "other windows": dict(kernel=(5, 5, 32, 32)),
    "strides": dict(strides=(2, 2)),
    "dilated": dict(dilations=(2, 2)),
    "groups": dict(images=(2, 8, 8, 64), groups=2),
    "few channels": dict(images=(2, 8, 8, 16), kernel=(3, 3, 16, 32)),
    "channels that are no whole lines": dict(images=(2, 8, 8, 40), kernel=(3, 3, 40, 32)),
    "filters that are no whole lines": dict(kernel=(3, 3, 32, 40)),
    "tiles that are mostly empty": dict(images=(2, 3, 3, 32)),
    "float64": dict(dtype="float64"),
}


@pytest.mark.parametrize("what", DIRECT)
def test_others_stay_direct(monkeypatch, what):
    monkeypatch.undo()
    given = {
        "images": (2, 8, 8, 32),
        "kernel": (3, 3, 32, 32),
        "strides": (1, 1),
        "dilations": (1, 1),
        "groups": 1,
        "dtype": "float32",
        **DIRECT[what],
    }
    images, kernel, dtype = (given.pop(key) for key in ("images", "kernel", "dtype"))
    padding = ((0, 0), (0, 0)) if images[1] == 3 else ((1, 1), (1, 1))
    x, k = ir.leaf(images, dtype, "x"), ir.leaf(kernel, dtype, "k")
    node = ir.apply(OPS["conv2d"], x, k, padding=padding, **given).node
    kernel = "conv2d_grouped" if given["groups"] > 1 else "conv2d"
    assert convolution.LOWERINGS["conv2d"](node).name == f"{kernel}_{dtype}"


def test_direct_is_the_default():
    uff.config.set_convolution_algorithm("direct")
    node, _ = Problem(*SHAPES["whole tiles"]).draw(np.random.default_rng(0)).node("conv2d")
    assert convolution.LOWERINGS["conv2d"](node).name == "conv2d_float32"


def test_unknown_algorithm():
    with pytest.raises(ValueError, match=r"unknown algorithm 'fft'; expected one of \('direct'"):
        uff.config.set_convolution_algorithm("fft")
    assert uff.config.convolution_algorithm() == "winograd"


def trained_losses(algorithm):
    uff.config.set_convolution_algorithm(algorithm)
    uff.utils.set_random_seed(1)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 12, 12, 3)).astype("float32")
    y = rng.integers(0, 4, 64)
    layers = [
        uff.layers.Conv2D(16, 3, padding="same", activation="relu"),
        uff.layers.Conv2D(32, 3, padding="same", activation="relu"),
        uff.layers.Conv2D(32, 3, activation="relu"),
        uff.layers.GlobalAveragePooling2D(),
        uff.layers.Dense(4),
    ]
    model = uff.Sequential([uff.Input((12, 12, 3)), *layers])
    loss = uff.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(uff.optimizers.SGD(0.05, momentum=0.9), loss)
    return model.fit(x, y, batch_size=16, epochs=6, shuffle=False, verbose=0).history["loss"]


def test_training_is_the_same_but_for_roundings():
    fast, direct = trained_losses("winograd"), trained_losses("direct")
    assert fast != direct
    # 24 steps amplify roundings of 1e-6; a wrong gradient shows in the first digits
    np.testing.assert_allclose(fast, direct, rtol=1e-4)
