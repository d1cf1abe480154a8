"""Layers, by Keras's names; one file per family."""

from uniflexflow.layers.activation import ELU, Activation, LeakyReLU, PReLU, ReLU, Softmax
from uniflexflow.layers.base import Layer
from uniflexflow.layers.core import Dense, Embedding, Identity, Lambda, Masking
from uniflexflow.layers.input_layer import Input, InputLayer
from uniflexflow.layers.input_spec import InputSpec
from uniflexflow.layers.regularization import (
    ActivityRegularization,
    Dropout,
    GaussianDropout,
    GaussianNoise,
    SpatialDropout1D,
    SpatialDropout2D,
)
from uniflexflow.layers.reshaping import (
    Cropping1D,
    Cropping2D,
    Flatten,
    Permute,
    RepeatVector,
    Reshape,
    UpSampling1D,
    UpSampling2D,
    ZeroPadding1D,
    ZeroPadding2D,
)

__all__ = [
    "ELU",
    "Activation",
    "ActivityRegularization",
    "Cropping1D",
    "Cropping2D",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "GaussianDropout",
    "GaussianNoise",
    "Identity",
    "Input",
    "InputLayer",
    "InputSpec",
    "Lambda",
    "Layer",
    "LeakyReLU",
    "Masking",
    "PReLU",
    "Permute",
    "ReLU",
    "RepeatVector",
    "Reshape",
    "Softmax",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "UpSampling1D",
    "UpSampling2D",
    "ZeroPadding1D",
    "ZeroPadding2D",
]
