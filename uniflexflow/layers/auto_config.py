"""Configuration of a layer from the arguments of its constructor.

A layer of this package keeps each constructor argument as an attribute of that name,
so its configuration is read from the attributes. A user's class need not, so for it
the arguments themselves are kept as they were given.
"""

from __future__ import annotations

import inspect
from typing import Any

_PACKAGE = "uniflexflow."


def is_builtin(cls: type) -> bool:
    """Say whether a class is part of this package."""
    return cls.__module__.startswith(_PACKAGE)


def _owner(cls: type, method: str) -> type:
    return next(c for c in cls.__mro__ if method in c.__dict__)


def capture(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """Return all constructor arguments by name, defaults included.

    None if they can't be named: a constructor with ``*args`` that was given some, or
    arguments that don't fit it (the constructor will say so).
    """
    signature = inspect.signature(cls.__init__)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    config: dict[str, Any] = {}
    for name, parameter in list(signature.parameters.items())[1:]:
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            config.update(value)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            if value:
                return None
        else:
            config[name] = _copy(value)
    return config


def _copy(value: Any) -> Any:
    # the constructor may change the containers that it was given
    if type(value) is list:
        return [_copy(v) for v in value]
    if type(value) is dict:
        return {k: _copy(v) for k, v in value.items()}
    return value


def constructor_names(cls: type) -> list[str]:
    """List the names of a constructor's arguments, also those it passes on by ``**``."""
    names: list[str] = []
    for c in cls.__mro__:
        if "__init__" not in c.__dict__:
            continue
        parameters = list(inspect.signature(c.__init__).parameters.values())[1:]
        passes_on = False
        for p in parameters:
            if p.kind is p.VAR_KEYWORD:
                passes_on = True
            elif p.kind is not p.VAR_POSITIONAL and p.name not in names:
                names.append(p.name)
        if not passes_on:
            break
    return names


def config_arguments(layer: Any) -> dict[str, Any]:
    """Return the constructor arguments that make a layer like this one.

    Without ``name``, ``trainable`` and ``dtype``.
    """
    cls = type(layer)
    skip = ("name", "trainable", "dtype", *cls._not_in_config)
    maker = _owner(cls, "__init__")
    if is_builtin(maker):
        names = constructor_names(maker)
    elif not is_builtin(_owner(cls, "get_config")):
        # its own get_config adds the class's arguments to those of its base class
        base = next(c for c in cls.__mro__ if is_builtin(c))
        names = constructor_names(base)
    else:
        captured = layer._auto_config
        if captured is None:
            raise NotImplementedError(
                f"Layer '{layer.name}' of class {cls.__name__}: its constructor takes *args, "
                "so its configuration can't be found automatically. Override get_config()."
            )
        return {k: v for k, v in captured.items() if k not in skip}
    config = {n: getattr(layer, n) for n in names if n not in skip and hasattr(layer, n)}
    # of all layers: written only where they are set
    for name, default in (("activity_regularizer", None), ("autocast", True)):
        if config.get(name, 0) is default:
            del config[name]
    return config


#: Options of Keras's layers that ours don't have, and the values that leave them unused.
_UNUSED = {
    "quantization_config": (None,),
    "lora_rank": (None,),
    "lora_alpha": (None,),
    "use_gate": (False,),
    "rms_scaling": (False,),
    "renorm": (False,),
    "renorm_clipping": (None,),
    "renorm_momentum": (0.99,),
    "synchronized": (False,),
    "sparse": (False,),
    "ragged": (False,),
    "optional": (False,),
    "zero_output_for_mask": (False,),
    "flash_attention": (None,),
    "implementation": (1, 2),
}


def _without_unused(config: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {
        k: v
        for k, v in config.items()
        if k in names or k not in _UNUSED or not any(v is u or v == u for u in _UNUSED[k])
    }


def construct(cls: type, config: dict[str, Any]) -> Any:
    """Make an object from its configuration.

    ``name``, ``trainable`` and ``dtype`` that the constructor does not take are set
    afterwards.
    """
    config = dict(config)
    names = constructor_names(cls)
    later = {
        n: config.pop(n) for n in ("name", "trainable", "dtype") if n in config and n not in names
    }
    if is_builtin(cls):
        config = _without_unused(config, names)
    try:
        layer = cls(**config)
    except TypeError as error:
        raise TypeError(
            f"{cls.__name__}.from_config: the constructor does not take the configuration "
            f"{config}: {error}"
        ) from error
    if "name" in later:
        layer.name = later["name"]
    if "dtype" in later:
        layer.dtype_policy = later["dtype"]
    if "trainable" in later:
        layer.trainable = later["trainable"]
    return layer
