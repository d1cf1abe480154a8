"""``uff.saving``: files and configurations; the only room that imports h5py.

- ``save_weights``, ``load_weights``: ``.weights.h5`` in Keras's layout
- ``save_model``, ``load_model``: ``.keras``, with the configuration
- ``save_checkpoint``, ``load_checkpoint``, ``CheckpointManager``: a training as it stands

**State of a callback.** A checkpoint keeps what ``callback.get_state()`` returns: a dict of
plain data (numbers, strings, None, lists, tuples, dicts) and NumPy arrays. When a run
is resumed, the callback of the same class at the same place gets it in
``set_state(state)``. Floats come back to the last bit. State that can be found anew from
the model or the logs need not be kept.
"""

from uniflexflow.saving.checkpoint import (
    CheckpointManager,
    checkpoint_exists,
    load_checkpoint,
    save_checkpoint,
)
from uniflexflow.saving.model_file import load_model, save_model
from uniflexflow.saving.registry import (
    CustomObjectScope,
    custom_object_scope,
    get_custom_objects,
    get_registered_name,
    get_registered_object,
    register_keras_serializable,
)
from uniflexflow.saving.sealed import DamagedFileError
from uniflexflow.saving.serialization import deserialize_keras_object, serialize_keras_object
from uniflexflow.saving.weights import load_weights, save_weights

__all__ = [
    "CheckpointManager",
    "CustomObjectScope",
    "DamagedFileError",
    "checkpoint_exists",
    "custom_object_scope",
    "deserialize_keras_object",
    "get_custom_objects",
    "get_registered_name",
    "get_registered_object",
    "load_checkpoint",
    "load_model",
    "load_weights",
    "register_keras_serializable",
    "save_checkpoint",
    "save_model",
    "save_weights",
    "serialize_keras_object",
]
