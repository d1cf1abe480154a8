"""Runs one operation's kernel on arrays, for the tests of kernel families."""

import numpy as np

from uniflexflow import ir
from uniflexflow._core import LOWERINGS
from uniflexflow._core.runner import run_call
from uniflexflow.ops.registry import OPS
from uniflexflow.runtime.reference import run_node


def node_of(name, arrays, **attrs):
    values = [ir.leaf(a.shape, a.dtype.name, "x") for a in arrays]
    out = ir.apply(OPS[name], *values, **attrs)
    return (out[0] if isinstance(out, tuple) else out).node


def unaligned(array):
    """A copy that starts one element after a cache line."""
    raw = np.empty(array.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + array.itemsize
    out = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def compute(node, arrays, threads=1, inplace=None):
    """Run the node's kernel into memory full of 0x5a: an element it forgets shows.

    ``inplace`` names an output and the input whose memory it gets.
    """
    lower = LOWERINGS["chain" if node.op.elementwise else node.op.name]
    outs = []
    for value in node.outputs:
        fill = np.frombuffer(b"\x5a" * 8, value.dtype if value.dtype != "bool" else "int8")[0]
        outs.append(unaligned(np.full(value.shape, fill).astype(value.dtype)))
    arrays = [unaligned(a) for a in arrays]
    if inplace is not None:
        outs[inplace[0]] = arrays[inplace[1]]
    run_call(lower(node), outs, arrays, threads)
    return outs


def check(name, *arrays, ulp=0, scale=None, **attrs):
    """Compare the kernel with the reference, and two threads with one, bit by bit.

    ``ulp`` allows that many units in the last place of the reference's magnitude, or of
    ``scale`` where it is larger.
    """
    arrays = [np.asarray(a) for a in arrays]
    node = node_of(name, arrays, **attrs)
    got = compute(node, arrays)
    for one, two in zip(got, compute(node, arrays, threads=2)):
        assert one.tobytes() == two.tobytes(), f"{name}: two threads give other numbers"
    for out, ref in zip(got, run_node(node, arrays)):
        if ref.dtype.name == "bfloat16":  # NumPy's comparisons don't know its NaN
            assert out.dtype == ref.dtype and not ulp
            out, ref = out.astype("float32"), ref.astype("float32")
        if not ulp:
            np.testing.assert_array_equal(out, ref, err_msg=f"{name} {attrs}")
            continue
        size = np.abs(np.where(np.isfinite(ref), ref, 1))
        if scale is not None:
            size = np.maximum(size, scale)
        special = ~np.isfinite(ref)
        np.testing.assert_array_equal(out[special], ref[special], err_msg=f"{name} {attrs}")
        with np.errstate(invalid="ignore"):
            far = np.abs(out.astype(float) - ref.astype(float))
        wrong = far > ulp * np.spacing(size.astype(ref.dtype))
        assert not wrong[~special].any(), (
            f"{name} {attrs}: {out[wrong & ~special][:5]} instead of {ref[wrong & ~special][:5]}"
        )
    return got
