"""``uff.mixed_precision``: dtype policies under the names that Keras has kept for old scripts."""

from __future__ import annotations

from typing import Any

from uniflexflow.dtype_policies import DTypePolicy, dtype_policy, set_dtype_policy

__all__ = [
    "DTypePolicy",
    "Policy",
    "dtype_policy",
    "global_policy",
    "set_dtype_policy",
    "set_global_policy",
]

Policy = DTypePolicy
global_policy = dtype_policy
set_global_policy = set_dtype_policy


def __getattr__(name: str) -> Any:
    if name == "LossScaleOptimizer":
        raise AttributeError(
            "mixed_precision.LossScaleOptimizer: losses need no scaling with bfloat16, which has "
            "the range of float32, and float16 is not supported; use your optimizer as it is, with "
            "set_dtype_policy('mixed_bfloat16')."
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
