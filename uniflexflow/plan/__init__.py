"""From graph to plan: lowering, memory, and the flat list of instructions."""

from uniflexflow.plan.build import build
from uniflexflow.plan.kernel_call import KernelCall
from uniflexflow.plan.plan import Instruction, Place, Plan

__all__ = ["Instruction", "KernelCall", "Place", "Plan", "build"]
