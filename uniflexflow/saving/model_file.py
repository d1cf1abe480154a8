"""Model files, ``.keras``: a zip of the configuration and the weights, as Keras has it."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from typing import Any

from uniflexflow.saving.atomic import atomic_file, on_root
from uniflexflow.saving.serialization import deserialize_keras_object, serialize_keras_object
from uniflexflow.saving.weights import (
    WEIGHTS_IN_ARCHIVE,
    read_archive,
    read_weights,
    weights_image,
)

#: Version of Keras whose format this is.
KERAS_VERSION = "3.15.1"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def save_model(model: Any, filepath: Any, overwrite: bool = True) -> None:
    """Write a model: its configuration, weights, random generators, and optimizer if compiled.

    The file is written beside its place and renamed, by rank 0.

    Parameters
    ----------
    model : Model
    filepath : str or path
        Ends in ``.keras``.
    overwrite : bool

    Raises
    ------
    FileExistsError
        If the file exists and ``overwrite`` is False.
    """
    path = os.fspath(filepath)
    if not path.endswith(".keras"):
        raise ValueError(
            "save_model: the filename must end in `.keras` (for weights alone, use "
            f"`save_weights` and `.weights.h5`). Received: filepath={path}"
        )

    def write() -> None:
        if not overwrite and os.path.exists(path):
            raise FileExistsError(f"save_model: {path!r} exists; pass overwrite=True.")
        config = json.dumps(serialize_keras_object(model))
        metadata = {
            "keras_version": KERAS_VERSION,
            "date_saved": time.strftime("%Y-%m-%d@%H:%M:%S"),
        }
        weights = weights_image(model, with_state=True)
        with (
            atomic_file(path, "save_model") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
        ):
            archive.writestr(zipfile.ZipInfo("metadata.json", _EPOCH), json.dumps(metadata))
            archive.writestr(zipfile.ZipInfo("config.json", _EPOCH), config)
            archive.writestr(zipfile.ZipInfo(WEIGHTS_IN_ARCHIVE, _EPOCH), weights.getbuffer())

    on_root(write)


def load_model(
    filepath: Any,
    custom_objects: dict[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> Any:
    """Make a model from a ``.keras`` file, of this library or of Keras.

    A file makes only objects of this library, and those registered or passed: it never
    leads to an import, and code in it is not run.

    Parameters
    ----------
    filepath : str or path
    custom_objects : dict of str to class or function, optional
    compile : bool
        Whether to compile it as it was, and read the optimizer's state.
    safe_mode : bool
        Must be True.

    Raises
    ------
    ValueError
        If the file names what is not known, or its weights don't fit.
    """
    if not safe_mode:
        raise ValueError(
            "load_model: safe_mode=False is not supported: code in files is never run. Replace "
            "lambdas by functions decorated with @uff.saving.register_keras_serializable()."
        )
    path = os.fspath(filepath)
    if not path.endswith(".keras"):
        raise ValueError(
            f"load_model: expected a file that ends in `.keras`; received filepath={path}. For "
            "weights, build the model and use its load_weights method."
        )
    members = ["config.json", WEIGHTS_IN_ARCHIVE]
    text, weights = read_archive(path, members, "load_model")
    config = json.loads(text)
    if not compile and isinstance(config, dict):
        config.pop("compile_config", None)
    model = deserialize_keras_object(config, custom_objects)
    if model.built:
        image = io.BytesIO(weights)
        read_weights(model, image, path, "load_model", False, optimizer=compile, with_state=True)
    return model
