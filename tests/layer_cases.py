"""The table of layers: one row or more for each.

A row says how a layer is made, what it is called on, and what must come out. ``full``
has every argument of its constructor, none at its default: a configuration must bring
all of them back.
"""

from layer_case import LayerCase

from uniflexflow import layers as L
from uniflexflow.constraints import MaxNorm
from uniflexflow.initializers import Constant, HeNormal, RandomNormal, RandomUniform
from uniflexflow.regularizers import L1, L2

SEQ, IMG = (3, 5, 4), (2, 6, 7, 4)


def weight(*names):
    """Non-default initializer, regularizer and constraint for each kind of weight."""
    out = {}
    for i, name in enumerate(names):
        out[f"{name}_initializer"] = RandomNormal(0.1, 0.3, seed=i + 1)
        out[f"{name}_regularizer"] = L2(0.02 + i)
        out[f"{name}_constraint"] = MaxNorm(1.5 + i)
    return out


ACTIVITY = {"activity_regularizer": L1(0.03)}
CORE = [
    LayerCase(
        L.Dense,
        {"units": 5, "activation": "relu"},
        output=(3, 5),
        num_weights=2,
        full={
            "units": 3,
            "activation": "tanh",
            "use_bias": False,
            **weight("kernel", "bias"),
            **ACTIVITY,
        },
    ),
    LayerCase(L.Dense, {"units": 2}, [SEQ], (3, 5, 2), 2, note="steps"),
    LayerCase(
        L.EinsumDense,
        {"equation": "abc,cde->abde", "output_shape": (None, 2, 3), "bias_axes": "de"},
        [SEQ],
        (3, 5, 2, 3),
        2,
        full={
            "equation": "ab,bc->ac",
            "output_shape": 3,
            "activation": "tanh",
            "bias_axes": "c",
            **weight("kernel", "bias"),
        },
        full_shapes=[(3, 4)],
    ),
    LayerCase(
        L.EinsumDense,
        {"equation": "...x,xy->...y", "output_shape": 6, "activation": "relu"},
        [SEQ],
        (3, 5, 6),
        1,
        note="ellipsis",
    ),
    LayerCase(
        L.Embedding,
        {"input_dim": 7, "output_dim": 4},
        [(3, 5)],
        (3, 5, 4),
        1,
        full={"input_dim": 9, "output_dim": 3, "mask_zero": True, **weight("embeddings")},
        integers=7,
    ),
    LayerCase(L.Identity, output=(3, 4)),
    LayerCase(L.Masking, {}, [SEQ], SEQ, full={"mask_value": 0.5}),
    LayerCase(L.Flatten, {}, [SEQ], (3, 20), full={"data_format": "channels_last"}),
    LayerCase(
        L.Reshape, {"target_shape": (2, -1)}, [SEQ], (3, 2, 10), full={"target_shape": (10, 2)}
    ),
    LayerCase(L.Permute, {"dims": (2, 1)}, [SEQ], (3, 4, 5), full={"dims": (2, 1)}),
    LayerCase(L.RepeatVector, {"n": 3}, output=(3, 3, 4), full={"n": 2}),
    LayerCase(
        L.ZeroPadding1D,
        {"padding": 2},
        [SEQ],
        (3, 9, 4),
        full={"padding": (2, 3), "data_format": "channels_last"},
    ),
    LayerCase(
        L.ZeroPadding2D,
        {},
        [IMG],
        (2, 8, 9, 4),
        full={"padding": ((1, 2), (0, 3)), "data_format": "channels_last"},
    ),
    LayerCase(L.Cropping1D, {"cropping": 1}, [SEQ], (3, 3, 4), full={"cropping": (2, 0)}),
    LayerCase(
        L.Cropping2D,
        {"cropping": 1},
        [IMG],
        (2, 4, 5, 4),
        full={"cropping": ((1, 2), (0, 3)), "data_format": "channels_last"},
    ),
    LayerCase(L.UpSampling1D, {}, [SEQ], (3, 10, 4), full={"size": 3}),
    LayerCase(
        L.UpSampling2D,
        {},
        [IMG],
        (2, 12, 14, 4),
        full={"size": (3, 2), "data_format": "channels_last", "interpolation": "nearest"},
    ),
    LayerCase(L.Rescaling, {"scale": 0.5}, output=(3, 4), full={"scale": 0.5, "offset": -1.0}),
    LayerCase(
        L.Normalization,
        {"mean": 0.3, "variance": 2.0},
        output=(3, 4),
        full={"axis": None, "mean": 0.3, "variance": 2.0, "invert": True},
    ),
    # Keras does not use the weights before adapt() or a file has set them
    LayerCase(L.Normalization, {}, output=(3, 4), num_weights=3, in_keras=False, note="weights"),
]
ACTIVATIONS = [
    LayerCase(L.Activation, {"activation": "gelu"}, output=(3, 4), full={"activation": "elu"}),
    LayerCase(
        L.ReLU,
        {},
        output=(3, 4),
        full={"max_value": 0.5, "negative_slope": 0.1, "threshold": 0.2},
    ),
    LayerCase(
        L.ReLU,
        {"max_value": 0.5, "negative_slope": 0.1, "threshold": 0.2},
        output=(3, 4),
        note="all",
    ),
    LayerCase(L.LeakyReLU, {}, output=(3, 4), full={"negative_slope": 0.1}),
    LayerCase(L.ELU, {}, output=(3, 4), full={"alpha": 0.7}),
    LayerCase(
        L.PReLU,
        {"alpha_initializer": RandomUniform(seed=1)},
        [SEQ],
        SEQ,
        1,
        full={"shared_axes": [1], **weight("alpha")},
    ),
    LayerCase(L.Softmax, {}, output=(3, 4), full={"axis": 1}, full_shapes=[SEQ]),
    LayerCase(L.Softmax, {"axis": (1, 2)}, [SEQ], SEQ, note="axes"),
]
CONV_FULL = {
    "kernel_size": 2,
    "strides": 2,
    "padding": "same",
    "data_format": "channels_last",
    "dilation_rate": 1,
    "activation": "tanh",
    "use_bias": False,
    **ACTIVITY,
}
CONVOLUTIONS = [
    LayerCase(
        L.Conv1D,
        {"filters": 6, "kernel_size": 3},
        [SEQ],
        (3, 3, 6),
        2,
        full={"filters": 2, "groups": 2, **CONV_FULL, **weight("kernel", "bias")},
    ),
    LayerCase(
        L.Conv1D,
        {"filters": 6, "kernel_size": 2, "padding": "causal", "dilation_rate": 2},
        [SEQ],
        (3, 5, 6),
        2,
        note="causal",
    ),
    LayerCase(
        L.Conv2D,
        {"filters": 5, "kernel_size": 3, "activation": "relu"},
        [IMG],
        (2, 4, 5, 5),
        2,
        full={"filters": 2, "groups": 2, **CONV_FULL, **weight("kernel", "bias")},
    ),
    LayerCase(
        L.Conv2D,
        {"filters": 6, "kernel_size": (3, 2), "strides": (2, 1), "padding": "same"},
        [IMG],
        (2, 3, 7, 6),
        2,
        note="same",
    ),
    LayerCase(
        L.Conv2D,
        {"filters": 2, "kernel_size": 2, "dilation_rate": 2, "use_bias": False},
        [IMG],
        (2, 4, 5, 2),
        1,
        note="dilated",
    ),
    LayerCase(
        L.Conv2D,
        {"filters": 6, "kernel_size": 2, "groups": 2},
        [IMG],
        (2, 5, 6, 6),
        2,
        note="groups",
    ),
    LayerCase(
        L.DepthwiseConv1D,
        {"kernel_size": 3, "depth_multiplier": 2},
        [SEQ],
        (3, 3, 8),
        2,
        full={"depth_multiplier": 2, **CONV_FULL, **weight("depthwise", "bias")},
    ),
    LayerCase(
        L.DepthwiseConv2D,
        {"kernel_size": 3, "padding": "same"},
        [IMG],
        IMG,
        2,
        full={"depth_multiplier": 2, **CONV_FULL, **weight("depthwise", "bias")},
    ),
    LayerCase(
        L.SeparableConv1D,
        {"filters": 5, "kernel_size": 2},
        [SEQ],
        (3, 4, 5),
        3,
        full={
            "filters": 2,
            "depth_multiplier": 2,
            **CONV_FULL,
            **weight("depthwise", "pointwise", "bias"),
        },
    ),
    LayerCase(
        L.SeparableConv2D,
        {"filters": 5, "kernel_size": 3},
        [IMG],
        (2, 4, 5, 5),
        3,
        full={
            "filters": 2,
            "depth_multiplier": 2,
            **CONV_FULL,
            **weight("depthwise", "pointwise", "bias"),
        },
    ),
    LayerCase(
        L.Conv1DTranspose,
        {"filters": 3, "kernel_size": 3, "strides": 2},
        [SEQ],
        (3, 11, 3),
        2,
        full={"filters": 2, "output_padding": 1, **CONV_FULL, **weight("kernel", "bias")},
    ),
    LayerCase(
        L.Conv2DTranspose,
        {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"},
        [IMG],
        (2, 12, 14, 3),
        2,
        full={"filters": 2, "output_padding": 1, **CONV_FULL, **weight("kernel", "bias")},
    ),
]
POOL_FULL = {"pool_size": 3, "strides": 2, "padding": "same", "data_format": "channels_last"}
GLOBAL_FULL = {"data_format": "channels_last", "keepdims": True}
POOLING = [
    LayerCase(L.MaxPooling1D, {}, [SEQ], (3, 2, 4), full=POOL_FULL),
    LayerCase(L.MaxPooling2D, {}, [IMG], (2, 3, 3, 4), full=POOL_FULL),
    LayerCase(
        L.MaxPooling2D,
        {"pool_size": 3, "strides": 2, "padding": "same"},
        [IMG],
        (2, 3, 4, 4),
        note="same",
    ),
    LayerCase(L.AveragePooling1D, {"pool_size": 2}, [SEQ], (3, 2, 4), full=POOL_FULL),
    LayerCase(L.AveragePooling2D, {"pool_size": 2}, [IMG], (2, 3, 3, 4), full=POOL_FULL),
    LayerCase(
        L.AveragePooling2D,
        {"pool_size": 3, "strides": 2, "padding": "same"},
        [IMG],
        (2, 3, 4, 4),
        note="same",
    ),
    LayerCase(L.GlobalMaxPooling1D, {}, [SEQ], (3, 4), full=GLOBAL_FULL),
    LayerCase(L.GlobalMaxPooling2D, {}, [IMG], (2, 4), full=GLOBAL_FULL),
    LayerCase(L.GlobalAveragePooling1D, {}, [SEQ], (3, 4), full=GLOBAL_FULL),
    LayerCase(L.GlobalAveragePooling2D, {}, [IMG], (2, 4), full=GLOBAL_FULL),
]
AFFINE_FULL = {"epsilon": 0.1, "center": False, "scale": False, **weight("beta", "gamma")}
NORMALIZATION = [
    LayerCase(
        L.BatchNormalization,
        {},
        [IMG],
        IMG,
        4,
        full={
            "axis": 1,
            "momentum": 0.5,
            **AFFINE_FULL,
            "moving_mean_initializer": Constant(0.2),
            "moving_variance_initializer": Constant(1.7),
            "synchronized": True,
        },
        training=True,
    ),
    LayerCase(
        L.BatchNormalization, {"scale": False}, output=(3, 4), num_weights=3, note="inference"
    ),
    LayerCase(
        L.BatchNormalization,
        {"axis": 1, "momentum": 0.9},
        [SEQ],
        SEQ,
        4,
        training=True,
        note="axis",
    ),
    LayerCase(L.LayerNormalization, {}, [SEQ], SEQ, 2, full={"axis": [1, 2], **AFFINE_FULL}),
    LayerCase(L.LayerNormalization, {"axis": [1, 2]}, [SEQ], SEQ, 2, note="axes"),
    LayerCase(L.RMSNormalization, {}, [SEQ], SEQ, 1, full={"axis": [1, 2], "epsilon": 0.1}),
    LayerCase(L.UnitNormalization, {}, [SEQ], SEQ, full={"axis": [1, 2]}),
    LayerCase(
        L.GroupNormalization,
        {"groups": 2},
        [IMG],
        IMG,
        2,
        full={"groups": 3, "axis": 1, **AFFINE_FULL},
    ),
]
NOISE = [
    LayerCase(
        L.Dropout,
        {"rate": 0.4},
        [SEQ],
        SEQ,
        full={"rate": 0.5, "noise_shape": (None, 1, None), "seed": 5},
        random=True,
    ),
    LayerCase(
        L.SpatialDropout1D, {"rate": 0.4}, [SEQ], SEQ, full={"rate": 0.5, "seed": 5}, random=True
    ),
    LayerCase(
        L.SpatialDropout2D,
        {"rate": 0.4},
        [IMG],
        IMG,
        full={"rate": 0.5, "data_format": "channels_last", "seed": 5},
        random=True,
    ),
    LayerCase(
        L.GaussianNoise,
        {"stddev": 0.4},
        output=(3, 4),
        full={"stddev": 0.5, "seed": 5},
        random=True,
    ),
    LayerCase(
        L.GaussianDropout, {"rate": 0.4}, output=(3, 4), full={"rate": 0.3, "seed": 5}, random=True
    ),
    LayerCase(L.ActivityRegularization, {"l1": 0.1}, output=(3, 4), full={"l1": 0.1, "l2": 0.2}),
]
CELL_FULL = {
    "units": 3,
    "activation": "sigmoid",
    "use_bias": False,
    "dropout": 0.2,
    "recurrent_dropout": 0.3,
    "seed": 5,
    **weight("kernel", "recurrent", "bias"),
}
RNN_FULL = {
    "return_sequences": True,
    "return_state": True,
    "go_backwards": True,
    "stateful": True,
    "unroll": True,
}
RECURRENT = [
    LayerCase(
        L.SimpleRNN, {"units": 3}, [SEQ], (3, 3), 3, full={**CELL_FULL, **RNN_FULL, **ACTIVITY}
    ),
    LayerCase(
        L.LSTM,
        {"units": 3},
        [SEQ],
        (3, 3),
        3,
        full={
            **CELL_FULL,
            **RNN_FULL,
            **ACTIVITY,
            "recurrent_activation": "hard_sigmoid",
            "unit_forget_bias": False,
        },
    ),
    LayerCase(
        L.LSTM,
        {"units": 3, "return_sequences": True, "return_state": True, "go_backwards": True},
        [SEQ],
        [(3, 5, 3), (3, 3), (3, 3)],
        3,
        note="all",
    ),
    LayerCase(
        L.GRU,
        {"units": 3, "bias_initializer": RandomNormal(seed=3)},
        [SEQ],
        (3, 3),
        3,
        full={
            **CELL_FULL,
            **RNN_FULL,
            **ACTIVITY,
            "recurrent_activation": "hard_sigmoid",
            "reset_after": False,
        },
    ),
    LayerCase(
        L.GRU,
        {"units": 3, "reset_after": False, "return_sequences": True},
        [SEQ],
        (3, 5, 3),
        3,
        note="reset before",
    ),
    LayerCase(
        L.RNN,
        {"cell": [L.LSTMCell(3), L.GRUCell(2)], "return_sequences": True},
        [SEQ],
        (3, 5, 2),
        6,
        full={
            "cell": L.SimpleRNNCell(3, seed=2, kernel_initializer=HeNormal(seed=1)),
            "zero_output_for_mask": True,
            **RNN_FULL,
        },
    ),
    LayerCase(
        L.Bidirectional,
        {"layer": L.LSTM(3, return_sequences=True)},
        [SEQ],
        (3, 5, 6),
        6,
        full={
            "layer": L.GRU(3, return_sequences=True),
            "merge_mode": "mul",
            "backward_layer": L.LSTM(3, return_sequences=True, go_backwards=True),
        },
    ),
    LayerCase(
        L.Bidirectional,
        {"layer": L.GRU(3, return_state=True), "merge_mode": "ave"},
        [SEQ],
        [(3, 3), (3, 3), (3, 3)],
        6,
        note="state",
    ),
    LayerCase(
        L.TimeDistributed,
        {"layer": L.Dense(2, activation="tanh")},
        [SEQ],
        (3, 5, 2),
        2,
        full={"layer": L.Dense(3, use_bias=False)},
    ),
]
HEADS_FULL = {
    "num_heads": 2,
    "key_dim": 3,
    "value_dim": 2,
    "dropout": 0.3,
    "use_bias": False,
    "output_shape": 5,
    "attention_axes": 1,
    "flash_attention": False,
    "seed": 5,
    **weight("kernel", "bias"),
    **ACTIVITY,
}
ATTENTION = [
    LayerCase(
        L.MultiHeadAttention,
        {"num_heads": 2, "key_dim": 3},
        [SEQ, (3, 6, 4)],
        SEQ,
        8,
        full=HEADS_FULL,
    ),
    LayerCase(
        L.MultiHeadAttention,
        {"num_heads": 2, "key_dim": 3, "output_shape": 7},
        [SEQ, SEQ, (3, 5, 2)],
        (3, 5, 7),
        8,
        call={"use_causal_mask": True},
        note="causal",
    ),
    LayerCase(
        L.MultiHeadAttention,
        {"num_heads": 2, "key_dim": 3, "value_dim": 5},
        [SEQ, SEQ],
        SEQ,
        8,
        call={"use_causal_mask": True},
        in_keras=False,  # Keras on JAX fails for value_dim != key_dim
        note="values",
    ),
    LayerCase(
        L.Attention,
        {"use_scale": True},
        [SEQ, (3, 6, 4)],
        SEQ,
        1,
        full={"use_scale": True, "score_mode": "concat", "dropout": 0.3, "seed": 5},
        as_list=True,
    ),
]
MERGING = [
    *[
        LayerCase(layer, {}, [SEQ, SEQ, (3, 4)], SEQ, as_list=True, note="broadcast")
        for layer in (L.Add, L.Multiply, L.Average, L.Maximum, L.Minimum)
    ],
    LayerCase(L.Subtract, {}, [SEQ, SEQ], SEQ, as_list=True),
    LayerCase(
        L.Concatenate,
        {},
        [SEQ, (3, 5, 2)],
        (3, 5, 6),
        full={"axis": 1},
        full_shapes=[SEQ, SEQ],
        as_list=True,
    ),
    LayerCase(
        L.Dot,
        {"axes": 2},
        [SEQ, (3, 6, 4)],
        (3, 5, 6),
        full={"axes": (1, 2), "normalize": True},
        full_shapes=[SEQ, (3, 6, 5)],
        as_list=True,
    ),
    LayerCase(
        L.Dot,
        {"axes": 1, "normalize": True},
        [(3, 4), (3, 4)],
        (3, 1),
        as_list=True,
        note="vectors",
    ),
]
CASES = [
    *CORE,
    *ACTIVATIONS,
    *CONVOLUTIONS,
    *POOLING,
    *NORMALIZATION,
    *NOISE,
    *RECURRENT,
    *ATTENTION,
    *MERGING,
]

# Public classes without a row, and why.
NO_ROW = {
    "Layer": "the base class",
    "Wrapper": "a base class",
    "InputLayer": "has no call; tests/models",
    "InputSpec": "no layer",
    "Lambda": "its function has no configuration; tests/layers/test_core.py",
    "SimpleRNNCell": "called with states; tests/layers/test_recurrent.py",
    "GRUCell": "called with states; tests/layers/test_recurrent.py",
    "LSTMCell": "called with states; tests/layers/test_recurrent.py",
    "StackedRNNCells": "called with states; tests/layers/test_recurrent.py",
}
# Arguments that give a start and are no part of the configuration, or have one value.
NOT_IN_FULL = {
    "weights",
    "use_cudnn",
    "data_format",
    "interpolation",
    "dilation_rate",
    "attention_axes",
    "flash_attention",
    "autocast",
    "name",
    "trainable",
    "dtype",
}

__all__ = ["CASES", "NOT_IN_FULL", "NO_ROW", "LayerCase"]
