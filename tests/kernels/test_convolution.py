"""Convolution kernels against the references in float64, on every instruction set."""

import numpy as np
import pytest

from uniflexflow import ir
from uniflexflow._core import convolution, convolution_plan
from uniflexflow._core.runner import run_call
from uniflexflow.ops.registry import OPS
from uniflexflow.ops.window import resolve_padding, window_count
from uniflexflow.runtime.reference import run_node

DTYPES = ("float32", "float64")
UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}
NAMES = ("conv2d", "conv2d_data_gradient", "conv2d_weight_gradient")


@pytest.fixture
def every_core(monkeypatch):
    """Wake all cores, however small the problem."""
    monkeypatch.setattr(convolution_plan, "CORE_FLOPS", 1)


class Problem:
    """Images, a kernel and a gradient that fit together."""

    def __init__(self, images, kernel, strides=(1, 1), padding="valid", dilations=(1, 1), groups=1):
        if isinstance(padding, str):
            padding = resolve_padding("test", padding, images[1:3], kernel[:2], strides, dilations)
        axes = zip(images[1:3], kernel[:2], strides, padding, dilations)
        out = [window_count(*each) for each in axes]
        self.attrs = dict(strides=strides, padding=padding, dilations=dilations, groups=groups)
        self.shapes = {"x": images, "k": kernel, "g": (images[0], *out, kernel[3])}

    def draw(self, rng, dtype):
        self.arrays = {k: rng.standard_normal(s).astype(dtype) for k, s in self.shapes.items()}
        return self

    def node(self, name, arrays=None, **more):
        arrays = arrays or self.arrays
        operands = {
            "conv2d": "xk",
            "conv2d_bias": "xkb",
            "conv2d_data_gradient": "gk",
            "conv2d_weight_gradient": "xg",
        }[name]
        result = {"conv2d_data_gradient": "x", "conv2d_weight_gradient": "k"}.get(name)
        attrs = {**self.attrs, **more}
        if result:
            attrs["shape"] = self.shapes[result]
        operands = [arrays[o] for o in operands]
        values = [ir.leaf(a.shape, a.dtype.name, "x") for a in operands]
        return ir.apply(OPS[name], *values, **attrs).node, operands

    def compute(self, name, threads=1, **more):
        """Run the kernel into an array of NaN: an element it forgets shows."""
        node, operands = self.node(name, **more)
        out = np.full(node.outputs[0].shape, np.nan, node.outputs[0].dtype)
        run_call(convolution.LOWERINGS[name](node), [out], operands, threads)
        return out

    def reference(self, name, arrays, **more):
        node, operands = self.node(name, arrays, **more)
        return run_node(node, operands)[0]

    def check(self, name, **more):
        """Compare with the error bound of a sum of n products: (n + 2) * u * |A| * |B|."""
        result = self.compute(name, **more)
        wide = {k: a.astype("float64") for k, a in self.arrays.items()}
        want = self.reference(name, wide, **more)
        sizes = {k: abs(a) for k, a in wide.items()}
        size = self.reference(name, sizes, **{k: None for k in more})
        terms = {
            "conv2d": "k",
            "conv2d_bias": "k",
            "conv2d_data_gradient": "k",
            "conv2d_weight_gradient": "g",
        }[name]
        count = np.prod(self.shapes[terms][:3])
        if name == "conv2d_data_gradient":
            count = np.prod(self.shapes["k"][:2]) * self.shapes["k"][3]
        bound = (count + 2) * UNIT[result.dtype.name] * size
        assert np.all(abs(result - want) <= bound), (name, abs(result - want).max())
        return result


EDGES = {
    "one pixel": Problem((1, 1, 1, 1), (1, 1, 1, 1)),
    "no image": Problem((0, 5, 5, 3), (3, 3, 3, 4)),
    "no channel": Problem((2, 5, 5, 0), (3, 3, 0, 4)),
    "odd everything": Problem((3, 7, 11, 5), (3, 5, 5, 17), padding="same"),
    "valid": Problem((2, 9, 8, 16), (3, 3, 16, 32)),
    "kernel beyond the image": Problem((2, 3, 2, 4), (7, 5, 4, 6), padding="same"),
    "kernel of even size": Problem((2, 6, 7, 3), (2, 4, 3, 9), padding="same"),
    "padding on one side": Problem((2, 5, 5, 3), (3, 3, 3, 4), padding=((2, 0), (0, 3))),
    "padding beyond the window": Problem((1, 4, 4, 3), (2, 2, 3, 4), padding=((3, 2), (2, 3))),
    "stride 2": Problem((2, 9, 8, 6), (3, 3, 6, 8), strides=(2, 2), padding="same"),
    "stride 3": Problem((2, 11, 10, 3), (3, 3, 3, 5), strides=(3, 3)),
    "stride beyond the window": Problem((2, 9, 10, 3), (2, 1, 3, 5), strides=(3, 4)),
    "pixels never used": Problem((1, 6, 6, 2), (1, 1, 2, 3), strides=(4, 4)),
    "strides differ": Problem((1, 9, 8, 4), (3, 3, 4, 5), strides=(1, 3), padding="same"),
    "dilated": Problem((2, 9, 12, 5), (3, 2, 5, 4), dilations=(2, 3)),
    "dilated same": Problem((2, 7, 6, 5), (3, 3, 5, 4), padding="same", dilations=(3, 2)),
    "dilated and strided": Problem((1, 12, 13, 2), (3, 3, 2, 3), (2, 3), "same", (2, 2)),
    "stride divides dilation": Problem((1, 12, 13, 2), (3, 2, 2, 3), (2, 2), "same", (4, 2)),
    "pointwise": Problem((2, 5, 6, 20), (1, 1, 20, 33)),
    "few channels": Problem((3, 75, 101, 3), (3, 3, 3, 9), padding="same"),
    "few channels strided": Problem((2, 70, 29, 3), (7, 7, 3, 10), (2, 3), padding="same"),
    "few channels dilated": Problem((2, 9, 230, 1), (5, 4, 1, 3), (1, 2), "same", (2, 3)),
    "few channels pointwise": Problem((2, 9, 35, 3), (1, 1, 3, 20)),
    "few channels of wide steps": Problem((2, 11, 40, 4), (2, 3, 4, 6), strides=(3, 5)),
    "few channels beyond the image": Problem((1, 3, 4, 3), (6, 7, 3, 4), padding="same"),
    "few channels valid": Problem((1, 140, 13, 2), (3, 6, 2, 5), (3, 1)),
    "pointwise strided": Problem((3, 6, 7, 300), (1, 1, 300, 300), strides=(2, 2)),
    "pointwise strided tiles": Problem((2, 33, 70, 24), (1, 1, 24, 130), strides=(2, 3)),
    "pointwise strided groups": Problem((1, 9, 9, 40), (1, 1, 20, 64), strides=(3, 2), groups=2),
    "pointwise product": Problem((1, 3, 5, 257), (1, 1, 257, 1021)),
    "many channels": Problem((1, 4, 5, 150), (3, 3, 150, 20), padding="same"),
    "chunks not even": Problem((1, 3, 4, 131), (3, 3, 131, 7), padding="same"),
    "many filters": Problem((1, 4, 4, 3), (3, 3, 3, 141)),
    "long row": Problem((1, 2, 700, 3), (2, 3, 3, 4), padding="same"),
    "long column": Problem((1, 700, 1, 3), (3, 1, 3, 4), padding="same"),
    "sequence": Problem((3, 1, 37, 6), (1, 5, 6, 4), padding="same"),
    "tiles of several images": Problem((7, 5, 5, 4), (3, 3, 4, 18), padding="same"),
    "parts of the sum": Problem((40, 12, 12, 3), (3, 3, 3, 5)),
    "groups": Problem((2, 5, 6, 12), (3, 3, 4, 15), padding="same", groups=3),
    "groups of three": Problem((2, 5, 6, 9), (3, 3, 3, 9), padding="same", groups=3),
    "groups of wide panels": Problem((2, 5, 4, 8), (3, 3, 4, 66), groups=2),
    "groups of two": Problem((2, 9, 8, 18), (3, 3, 2, 18), (2, 2), "same", groups=9),
    "groups of four": Problem((3, 7, 11, 20), (3, 3, 4, 20), padding="same", groups=5),
    "groups of eight": Problem((1, 7, 6, 24), (5, 2, 8, 24), padding="same", groups=3),
    "groups of nineteen": Problem((2, 9, 15, 38), (3, 3, 19, 38), (1, 2), "same", (2, 1), 2),
    "groups pointwise": Problem((2, 3, 9, 48), (1, 1, 16, 72), groups=3),
    "depthwise": Problem((2, 6, 7, 21), (3, 3, 1, 21), padding="same", groups=21),
    "depthwise strided": Problem((2, 9, 8, 40), (3, 3, 1, 40), (2, 2), "same", groups=40),
    "depthwise valid": Problem((1, 9, 8, 8), (5, 3, 1, 8), groups=8),
    "depthwise multiplied": Problem((2, 6, 7, 5), (3, 2, 1, 15), padding="same", groups=5),
    "depthwise dilated": Problem((1, 9, 9, 3), (3, 3, 1, 6), (1, 2), "same", (2, 2), groups=3),
    "depthwise wide": Problem((2, 8, 16, 35), (7, 7, 1, 35), padding="same", groups=35),
    "depthwise wide strided": Problem((1, 13, 29, 19), (7, 7, 1, 19), (2, 2), "same", groups=19),
    "depthwise long": Problem((1, 1, 900, 9), (1, 5, 1, 9), padding="same", groups=9),
    "depthwise long multiplied": Problem((1, 1, 90, 7), (1, 4, 1, 21), padding="same", groups=7),
    "depthwise many filters": Problem((1, 9, 11, 70), (7, 5, 1, 210), padding="same", groups=70),
    "depthwise filters strided": Problem((1, 9, 8, 6), (5, 3, 1, 12), (2, 2), "same", groups=6),
    "depthwise few": Problem((2, 9, 30, 2), (3, 3, 1, 2), (1, 2), "same", groups=2),
    "depthwise rows": Problem((3, 40, 20, 16), (3, 3, 1, 16), padding="same", groups=16),
    "depthwise beyond the image": Problem((3, 2, 3, 9), (5, 7, 1, 9), padding="same", groups=9),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("edge", EDGES)
def test_against_reference(isa, rng, edge, dtype, name):
    EDGES[edge].draw(rng, dtype).check(name)


@pytest.mark.parametrize("activation", [None, "relu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "edge",
    [
        "odd everything",
        "pointwise product",
        "many channels",
        "groups",
        "depthwise",
        "depthwise multiplied",
        "no channel",
        "long row",
    ],
)
def test_bias(isa, rng, edge, dtype, activation):
    problem = EDGES[edge].draw(rng, dtype)
    problem.arrays["b"] = rng.standard_normal(problem.shapes["k"][3]).astype(dtype)
    result = problem.check("conv2d_bias", activation=activation)
    assert (result < 0).any() == (activation is None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("edge", EDGES)
def test_threads_change_nothing(isa, rng, every_core, edge, name):
    problem = EDGES[edge].draw(rng, "float32")
    one = problem.compute(name)
    for threads in (2, 3, 5):
        np.testing.assert_array_equal(problem.compute(name, threads), one)


@pytest.mark.parametrize("edge", ["stride 2", "many channels", "parts of the sum", "depthwise"])
@pytest.mark.parametrize("name", NAMES)
def test_scratchpad_changes_nothing(rng, edge, name):
    problem = EDGES[edge].draw(rng, "float32")
    node, operands = problem.node(name)
    results = []
    for scratch in (1 << 18, 1 << 20):
        out = np.full(node.outputs[0].shape, np.nan, "float32")
        run_call(convolution.LOWERINGS[name](node), [out], operands, 2, scratch)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_nan_stays_in_its_windows(isa, rng):
    problem = Problem((1, 6, 6, 3), (3, 3, 3, 4)).draw(rng, "float32")
    problem.arrays["b"] = np.zeros(4, "float32")
    problem.arrays["x"][0, 0, 0, 1] = np.nan
    for name, more in (("conv2d", {}), ("conv2d_bias", {"activation": "relu"})):
        hit = np.isnan(problem.compute(name, **more))
        assert hit[0, 0, 0].all() and hit.sum() == 4


def test_random_shapes(isa, rng, every_core):
    for trial in range(60):
        groups = int(rng.choice([1, 1, 2, 3]))
        kernel = (
            *map(int, rng.integers(1, 6, 2)),
            int(rng.choice([1, 2, 5, 16, 40])),
            groups * int(rng.choice([1, 3, 8, 17, 40])),
        )
        images = (int(rng.integers(1, 5)), *map(int, rng.integers(5, 20, 2)), groups * kernel[2])
        problem = Problem(
            images,
            kernel,
            tuple(map(int, rng.integers(1, 4, 2))),
            "same",
            tuple(map(int, rng.integers(1, 3, 2))),
            groups,
        )
        for name in NAMES:
            problem.draw(rng, DTYPES[trial % 2]).check(name)


@pytest.mark.parametrize("name", NAMES)
def test_products_are_left_to_gemm(name):
    def kernel(problem):
        arrays = {k: np.empty(s, "float32") for k, s in problem.shapes.items()}
        return convolution.LOWERINGS[name](problem.node(name, arrays)[0]).name

    assert kernel(EDGES["pointwise product"]) == f"{name}_product_float32"
    others = (
        EDGES["pointwise"],
        Problem((1, 3, 5, 257), (1, 1, 257, 1021), strides=(2, 2)),
        Problem((1, 3, 5, 257), (1, 1, 257, 1021), padding=((1, 0), (0, 0))),
        Problem((1, 3, 5, 6), (1, 1, 3, 6), groups=2),
    )
    assert {kernel(problem) for problem in others} == {f"{name}_float32"}


def test_window_too_large():
    problem = Problem((1, 400, 400, 1), (300, 300, 1, 1)).draw(np.random.default_rng(0), "float32")
    for name in ("conv2d", "conv2d_weight_gradient"):
        with pytest.raises(ValueError, match="Use a smaller kernel or dilation"):
            convolution.LOWERINGS[name](problem.node(name)[0])
