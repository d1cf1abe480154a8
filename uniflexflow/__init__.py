"""UniFlexFlow: deep learning for CPUs and many-core machines, with the Keras API."""

from uniflexflow import (
    activations,
    callbacks,
    compiler,
    config,
    constraints,
    datasets,
    distribution,
    dtype_policies,
    initializers,
    layers,
    losses,
    metrics,
    mixed_precision,
    models,
    ops,
    optimizers,
    random,
    regularizers,
    saving,
    tree,
    utils,
)
from uniflexflow.callbacks import Profiler
from uniflexflow.dtype_policies import DTypePolicy
from uniflexflow.layers import Input, InputSpec, Layer
from uniflexflow.layers.remat import RematScope, remat
from uniflexflow.losses import Loss
from uniflexflow.machine import show_config
from uniflexflow.metrics import Metric
from uniflexflow.models import Model, Sequential
from uniflexflow.ops.symbolic import KerasTensor
from uniflexflow.ops.variable import Variable
from uniflexflow.optimizers import Optimizer
from uniflexflow.passes.differentiate import gradients

__version__ = "0.1.0"
__all__ = [
    "DTypePolicy",
    "Input",
    "InputSpec",
    "KerasTensor",
    "Layer",
    "Loss",
    "Metric",
    "Model",
    "Optimizer",
    "Profiler",
    "RematScope",
    "Sequential",
    "Variable",
    "activations",
    "callbacks",
    "compiler",
    "config",
    "constraints",
    "datasets",
    "distribution",
    "dtype_policies",
    "gradients",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "mixed_precision",
    "models",
    "ops",
    "optimizers",
    "random",
    "regularizers",
    "remat",
    "saving",
    "show_config",
    "tree",
    "utils",
]
