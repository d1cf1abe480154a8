"""Objects to what JSON can hold, and back.

An object becomes a dict of its module, class name and configuration, as Keras writes
it. Reading one makes only objects of this package, from a fixed list of rooms, and
those that the user registered or passed as ``custom_objects`` (``registry``): a name in
a file never leads to an import.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from uniflexflow import dtype_policies
from uniflexflow.layers.auto_config import is_builtin
from uniflexflow.saving.registry import (
    CustomObjectScope,
    get_registered_name,
    get_registered_object,
    is_registered,
)

# Keras's public module -> our room; the longest name that fits is taken.
_ROOMS = {
    "layers": "layers",
    "models": "models",
    "initializers": "initializers",
    "regularizers": "regularizers",
    "constraints": "constraints",
    "activations": "activations",
    "optimizers.schedules": "optimizers.schedules",
    "optimizers": "optimizers",
    "losses": "losses",
    "metrics": "metrics",
    "random": "random",
    "callbacks": "callbacks",
}
_live: list[bool] = [False]


@contextlib.contextmanager
def live_functions() -> Iterator[None]:
    """Within the block, functions stay as they are: for copies within one process."""
    before, _live[0] = _live[0], True
    try:
        yield
    finally:
        _live[0] = before


def keras_module(cls: type) -> str:
    """Return the public module that Keras users know a class of ours from."""
    room = cls.__module__.removeprefix("uniflexflow.")
    if room.startswith("models"):
        if cls.__name__ == "Functional":
            return "keras.src.models.functional"
        return "keras"
    for keras_name, ours in _ROOMS.items():
        if room == ours or room.startswith(ours + "."):
            return f"keras.{keras_name}"
    return "keras"


def serialize_keras_object(obj: Any) -> Any:
    """Return what JSON can hold of an object.

    Raises
    ------
    TypeError
        For what has no configuration.
    ValueError
        For a lambda: code is not written to files.
    """
    if obj is None or isinstance(obj, (str, bool, int, float)):
        return obj
    if isinstance(obj, np.generic):
        return obj.item()
    if isinstance(obj, np.ndarray):
        return {
            "class_name": "__numpy__",
            "config": {"value": obj.tolist(), "dtype": obj.dtype.name},
        }
    if isinstance(obj, (list, tuple)):
        return [serialize_keras_object(x) for x in obj]
    if isinstance(obj, dict):
        return {str(k): serialize_keras_object(v) for k, v in obj.items()}
    if isinstance(obj, slice):
        parts = {"start": obj.start, "stop": obj.stop, "step": obj.step}
        return {"class_name": "__slice__", "config": parts}
    if obj is Ellipsis:
        return {"class_name": "__ellipsis__", "config": {}}
    if isinstance(obj, bytes):
        return {"class_name": "__bytes__", "config": {"value": obj.decode("latin-1")}}
    if isinstance(obj, (types.FunctionType, types.BuiltinFunctionType)):
        return _serialize_function(obj)
    if isinstance(obj, type) or not hasattr(obj, "get_config"):
        raise TypeError(
            f"serialize_keras_object: {obj!r} of type {type(obj).__name__} has no "
            "configuration; give its class a get_config() method, or register it."
        )
    cls = type(obj)
    if is_builtin(cls):
        module, registered_name = keras_module(cls), None
        if cls.__name__ == "Functional":
            registered_name = "Functional"
    else:
        module, registered_name = cls.__module__, get_registered_name(cls)
    data = {
        "module": module,
        "class_name": cls.__name__,
        "config": obj.get_config(),
        "registered_name": registered_name,
    }
    build_config = getattr(obj, "get_build_config", lambda: None)()
    if build_config:
        data["build_config"] = serialize_keras_object(build_config)
    if getattr(obj, "compiled", False) and hasattr(obj, "get_compile_config"):
        compile_config = obj.get_compile_config()
        if compile_config is not None:
            data["compile_config"] = serialize_keras_object(compile_config)
    return data


def _serialize_function(fn: Any) -> Any:
    if _live[0]:
        return fn
    if fn.__name__ == "<lambda>":
        raise ValueError(
            "serialize_keras_object: a lambda can't be written to a configuration: files hold "
            "no code. Use a named function, decorated with "
            "@uff.saving.register_keras_serializable()."
        )
    return {
        "module": "builtins" if is_registered(fn) else fn.__module__,
        "class_name": "function",
        "config": get_registered_name(fn),
        "registered_name": "function" if is_registered(fn) else fn.__name__,
    }


def serialize_argument(value: Any) -> Any:
    """Return what JSON can hold of a layer's argument; our activations by their names."""
    if callable(value) and not hasattr(value, "get_config"):
        from uniflexflow import activations

        name = activations.name_of(value)
        if name is not None:
            return name
    if isinstance(value, (list, tuple)):
        return [serialize_argument(v) for v in value]
    return serialize_keras_object(value)


def is_object_config(value: Any) -> bool:
    """Say whether a dict stands for an object."""
    return isinstance(value, dict) and "class_name" in value and "config" in value


def deserialize_arguments(value: Any) -> Any:
    """Make the objects that stand within a configuration."""
    if is_object_config(value):
        return deserialize_keras_object(value)
    if isinstance(value, dict):
        return {k: deserialize_arguments(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(deserialize_arguments(v) for v in value)
    return value


def deserialize_keras_object(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """Make an object from what ``serialize_keras_object`` returned.

    Parameters
    ----------
    config : nested structure
    custom_objects : dict of str to class or function, optional

    Raises
    ------
    ValueError
        If it names a class that is neither ours nor registered, or holds code.
    """
    if custom_objects:
        with CustomObjectScope(custom_objects):
            return deserialize_keras_object(config)
    if isinstance(config, (list, tuple)):
        return [deserialize_keras_object(x) for x in config]
    if not isinstance(config, dict):
        return config
    if not is_object_config(config):
        return {k: deserialize_keras_object(v) for k, v in config.items()}
    name, inner = config["class_name"], config["config"]
    if name in _SPECIAL:
        return _SPECIAL[name](inner)
    if name == "__lambda__":
        raise ValueError(
            "deserialize_keras_object: the configuration holds the code of a lambda, which is "
            "not run. Replace the lambda by a registered function."
        )
    if name == "function":
        return _find_function(inner, config)
    if name in ("DTypePolicy", "FloatDTypePolicy"):
        return dtype_policies.deserialize(config)
    cls = _find_class(config)
    if not isinstance(cls, type) and not hasattr(cls, "from_config"):
        return cls(**inner) if isinstance(inner, dict) else cls
    obj = cls.from_config(inner)
    if config.get("build_config") and hasattr(obj, "build_from_config"):
        obj.build_from_config(config["build_config"])
    if config.get("compile_config") and hasattr(obj, "compile_from_config"):
        obj.compile_from_config(config["compile_config"])
    return obj


_SPECIAL = {
    "__numpy__": lambda c: np.array(c["value"], dtype=c["dtype"]),
    "__tensor__": lambda c: np.array(c["value"], dtype=c["dtype"]),
    "__bytes__": lambda c: c["value"].encode("latin-1"),
    "__slice__": lambda c: slice(
        *[deserialize_keras_object(c.get(k)) for k in ("start", "stop", "step")]
    ),
    "__ellipsis__": lambda c: Ellipsis,
}


def _find_function(name: Any, config: dict[str, Any]) -> Any:
    from uniflexflow import activations

    for candidate in (name, config.get("registered_name")):
        if isinstance(candidate, str):
            found = get_registered_object(candidate)
            if found is not None:
                return found
    if name in activations.ALL:
        return activations.ALL[name]
    for room in ("losses", "metrics"):
        found = _in_room(room, name)
        if found is not None:
            return found
    raise ValueError(
        f"deserialize_keras_object: function {name!r} is not known: files don't make us import "
        "anything. Decorate it with @uff.saving.register_keras_serializable() or pass it in "
        "`custom_objects`."
    )


def _in_room(room: str, name: str) -> Any:
    """Return a public object of one of our rooms, or None."""
    module = importlib.import_module(f"uniflexflow.{room}")
    public = getattr(module, "__all__", None)
    obj = getattr(module, name, None) if public is None or name in public else None
    if isinstance(obj, (type, types.FunctionType)) and is_builtin(obj):
        return obj
    return None


def _find_class(config: dict[str, Any]) -> Any:
    module, name = config.get("module") or "", config["class_name"]
    registered = config.get("registered_name")
    for candidate in (registered, name):
        if isinstance(candidate, str):
            found = get_registered_object(candidate)
            if found is not None:
                return found
    if registered and ">" in registered:
        # a registered object may be in scope by its bare name
        found = get_registered_object(registered.split(">", 1)[1])
        if found is not None:
            return found
    if not isinstance(name, str) or not isinstance(module, str):
        raise ValueError(f"deserialize_keras_object: malformed configuration {config!r}.")
    root, _, rest = module.partition(".")
    if root in ("keras", "uniflexflow", ""):
        rest = rest.removeprefix("src").removeprefix(".")
        rooms = [ours for theirs, ours in _ROOMS.items() if (rest + ".").startswith(theirs + ".")]
        if not rest:
            rooms = ["models", "layers"] if root else list(_ROOMS.values())
        for room in rooms:
            found = _in_room(room, name)
            if found is not None:
                return found
    raise ValueError(
        f"deserialize_keras_object: class {name!r} of module {module!r} is not known: files "
        "don't make us import anything. Decorate the class with "
        "@uff.saving.register_keras_serializable() before loading, or pass it in "
        "`custom_objects`."
    )
