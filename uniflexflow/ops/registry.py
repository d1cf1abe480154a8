"""The table of primitive operations, filled by the family files."""

from __future__ import annotations

from typing import Any

from uniflexflow.ir import OpDef

OPS: dict[str, OpDef] = {}


def primitive(name: str, **rules: Any) -> OpDef:
    """Make an operation and put its row in the table; see ``ir.OpDef`` for the rules."""
    if name in OPS:
        raise ValueError(f"operation {name!r} is already defined")
    OPS[name] = OpDef(name, **rules)
    return OPS[name]
