"""``uff.utils``: what Keras users look for there; nothing internal lives here."""

from uniflexflow.data import PyDataset, pack_x_y_sample_weight, unpack_x_y_sample_weight
from uniflexflow.saving import (
    CustomObjectScope,
    custom_object_scope,
    deserialize_keras_object,
    get_custom_objects,
    get_registered_name,
    get_registered_object,
    register_keras_serializable,
    serialize_keras_object,
)
from uniflexflow.training.display import (
    disable_interactive_logging,
    enable_interactive_logging,
    is_interactive_logging_enabled,
)
from uniflexflow.training.progress import Progbar
from uniflexflow.utils.files import get_file
from uniflexflow.utils.labels import normalize, pad_sequences, to_categorical
from uniflexflow.utils.plotting import model_to_dot, plot_model
from uniflexflow.utils.session import (
    clear_session,
    is_keras_tensor,
    set_random_seed,
    standardize_dtype,
)
from uniflexflow.utils.splitting import split_dataset

Sequence = PyDataset

__all__ = [
    "CustomObjectScope",
    "Progbar",
    "PyDataset",
    "Sequence",
    "clear_session",
    "custom_object_scope",
    "deserialize_keras_object",
    "disable_interactive_logging",
    "enable_interactive_logging",
    "get_custom_objects",
    "get_file",
    "get_registered_name",
    "get_registered_object",
    "is_interactive_logging_enabled",
    "is_keras_tensor",
    "model_to_dot",
    "normalize",
    "pack_x_y_sample_weight",
    "pad_sequences",
    "plot_model",
    "register_keras_serializable",
    "serialize_keras_object",
    "set_random_seed",
    "split_dataset",
    "standardize_dtype",
    "to_categorical",
    "unpack_x_y_sample_weight",
]
