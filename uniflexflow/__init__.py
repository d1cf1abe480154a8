"""UniFlexFlow: deep learning for CPUs and many-core machines, with the Keras API."""

from uniflexflow import compiler, ops, random
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.ops.variable import Variable
from uniflexflow.passes.differentiate import gradients

__version__ = "0.1.0"
__all__ = ["KerasTensor", "Variable", "compiler", "gradients", "ops", "random"]
