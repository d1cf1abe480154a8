"""Which classes and functions of the user's a file may name.

A file never makes us import anything: it names objects of this package, or those that
were registered or passed as ``custom_objects``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_by_name: dict[str, Any] = {}  # "package>name" -> object
_names: dict[Any, str] = {}
_scopes: list[dict[str, Any]] = []


def register_keras_serializable(
    package: str = "Custom", name: str | None = None
) -> Callable[[Any], Any]:
    """Return a decorator that lets files name a class or function.

    Parameters
    ----------
    package : str
    name : str, optional
        Default: the object's name. It is known as ``package>name``.

    Examples
    --------
    >>> @register_keras_serializable("mine")
    ... def twice(x):
    ...     return 2 * x
    >>> get_registered_name(twice)
    'mine>twice'
    """

    def register(obj: Any) -> Any:
        if isinstance(obj, type) and not hasattr(obj, "get_config"):
            raise ValueError(
                f"register_keras_serializable: class {obj.__name__} has no get_config() method."
            )
        full = f"{package}>{name or obj.__name__}"
        _by_name[full] = obj
        _names[obj] = full
        return obj

    return register


def get_registered_name(obj: Any) -> str:
    """Return the name that an object was registered under, else its own name."""
    try:
        return _names.get(obj) or obj.__name__
    except TypeError:  # unhashable
        return obj.__name__


def is_registered(obj: Any) -> bool:
    """Say whether a class or function was registered."""
    try:
        return obj in _names
    except TypeError:
        return False


def get_registered_object(name: str, custom_objects: dict[str, Any] | None = None) -> Any:
    """Return the object of that name, or None.

    ``custom_objects`` come first, then those of the scopes, then registered ones.
    """
    for table in (custom_objects or {}, *reversed(_scopes), _by_name):
        if name in table:
            return table[name]
    return None


class CustomObjectScope:
    """Within the ``with`` block, files and names may stand for these objects.

    Parameters
    ----------
    custom_objects : dict of str to object
    """

    def __init__(self, custom_objects: dict[str, Any] | None):
        self.custom_objects = dict(custom_objects or {})

    def __enter__(self) -> CustomObjectScope:
        _scopes.append(self.custom_objects)
        return self

    def __exit__(self, *_: object) -> None:
        _scopes.pop()


custom_object_scope = CustomObjectScope


def get_custom_objects() -> dict[str, Any]:
    """Return the dict of registered objects, which may be changed."""
    return _by_name
