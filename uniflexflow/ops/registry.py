"""The table of primitive operations, filled by the family files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from uniflexflow.ir import OpDef, TensorSpec

OPS: dict[str, OpDef] = {}

_BFLOAT16 = np.dtype("bfloat16")


def primitive(name: str, **rules: Any) -> OpDef:
    """Make an operation and put its row in the table; see ``ir.OpDef`` for the rules."""
    if name in OPS:
        raise ValueError(f"operation {name!r} is already defined")
    rules["reference"] = _over_bfloat16(rules["infer"], rules["reference"])
    OPS[name] = OpDef(name, **rules)
    return OPS[name]


def _over_bfloat16(infer: Callable[..., Any], reference: Callable[..., Any]) -> Callable[..., Any]:
    """Give a reference its meaning on bfloat16: computed in float32, rounded once."""

    @functools.wraps(reference)
    def run(*arrays: Any, **attrs: Any) -> Any:
        if not any([getattr(x, "dtype", None) == _BFLOAT16 for x in arrays]):
            return reference(*arrays, **attrs)
        wide = [x.astype("float32") if x.dtype == _BFLOAT16 else x for x in arrays]
        outs = reference(*wide, **attrs)
        specs = infer(*[TensorSpec(x.shape, x.dtype.name) for x in arrays], **attrs)
        if isinstance(specs, TensorSpec):
            return _kept_as(outs, specs.dtype)
        return tuple([_kept_as(x, s.dtype) for x, s in zip(outs, specs, strict=True)])

    return run


def _kept_as(x: Any, dtype: str) -> np.ndarray:
    """Round a float32 result whose spec is bfloat16; leave the others, which are checked."""
    x = np.asarray(x)
    rounded = dtype == "bfloat16" and x.dtype == np.float32
    return x.astype(_BFLOAT16) if rounded else x
