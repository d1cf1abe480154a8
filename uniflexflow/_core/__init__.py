"""Compiled rooms: tiled operations (Cython) over tile kernels (C, ``tile/``)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

#: Modules with tiled operations; each has a table LOWERINGS (see plan.kernel_call), and may
#: have a set NATIVE_BFLOAT16, and a table WIDENED: operations of that set, each with a function
#: that says of a node whether it has no kernel for bfloat16 nevertheless.
FAMILIES = (
    "attention",
    "chain",
    "chain_reduce",
    "chain_rows",
    "convolution",
    "crossentropy",
    "gemm",
    "indexing",
    "movement",
    "pooling",
    "random",
    "recurrent",
    "reduce",
    "softmax",
)


def _collect() -> tuple[dict[str, Callable[..., Any]], frozenset[str], dict[str, Any]]:
    merged: dict[str, Callable[..., Any]] = {}
    native: set[str] = set()
    widened: dict[str, Callable[..., bool]] = {}
    for family in FAMILIES:
        try:
            module = importlib.import_module(f"uniflexflow._core.{family}")
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("uniflexflow._core."):
                raise
            raise ImportError(
                f"uniflexflow: the compiled part is missing ({error.name}): run "
                "`pip install -e .` (or `python setup.py build_ext --inplace`) in the source "
                "folder; it needs a C compiler."
            ) from error
        twice = merged.keys() & module.LOWERINGS.keys()
        if twice:
            raise RuntimeError(f"operations {sorted(twice)} have two lowerings; see {family}.pyx")
        merged |= module.LOWERINGS
        native |= getattr(module, "NATIVE_BFLOAT16", set())
        widened |= getattr(module, "WIDENED", {})
    return merged, frozenset(native), widened


#: LOWERINGS: name of a primitive -> its lowering. Elementwise primitives are all lowered by
#: "chain". NATIVE_BFLOAT16: primitives that read and write bfloat16; the others are widened.
LOWERINGS, NATIVE_BFLOAT16, _WIDENED = _collect()


def takes_bfloat16(node: Any) -> bool:
    """Whether this node has a kernel that reads and writes bfloat16."""
    name = node.op.name
    return name in NATIVE_BFLOAT16 and not (name in _WIDENED and _WIDENED[name](node))
