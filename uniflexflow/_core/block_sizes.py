"""What decides in which order kernels add up sums, as plain data: for checkpoints.

Sums are added up in the same order, so a training has the same bits, where these are equal.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from uniflexflow._core import dispatch
from uniflexflow._core.convolution_plan import blocks_in_use
from uniflexflow._core.gemm import SIZES, micro_tile
from uniflexflow.machine import host
from uniflexflow.machine.blocks import gemm_blocks


def block_sizes() -> dict[str, Any]:
    """Return the instruction set and the block sizes in use."""
    kernels = dispatch.selected()
    return {
        "kernels": kernels,
        **{
            f"gemm_{dtype}": list(gemm_blocks(host(), kernels, size, *micro_tile(dtype)))
            for dtype, size in SIZES.items()
        },
        **dataclasses.asdict(blocks_in_use()),
    }
