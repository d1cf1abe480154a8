"""How targets, losses, metrics and weights are matched to a model's outputs.

``compile`` and ``fit`` take them as one thing, a list, or a dict by output name; here
all become lists with one entry per output, in the order of the outputs.
"""

from __future__ import annotations

from typing import Any

from uniflexflow import tree


def output_names_of(y_pred: Any, model_names: list[str] | None) -> list[str]:
    """Return a name for each output: the model's, a dict's keys, or made-up ones."""
    if isinstance(y_pred, dict):
        if model_names and set(model_names) == set(y_pred):
            return list(model_names)
        return sorted(y_pred)
    n = len(tree.flatten(y_pred))
    if model_names and len(model_names) == n:
        return list(model_names)
    return [f"output_{i + 1}" for i in range(n)]


def flat_outputs(y_pred: Any, names: list[str]) -> list[Any]:
    """Return the outputs in the order of their names."""
    if isinstance(y_pred, dict):
        return [y_pred[name] for name in names]
    return tree.flatten(y_pred)


def per_output(structure: Any, names: list[str], what: str, wanted: list[bool]) -> list[Any]:
    """Return one entry of targets or weights per output; None where there is none.

    Parameters
    ----------
    structure : tensor, list, tuple or dict of tensors, or None
    names : list of str
    what : str
        For errors.
    wanted : list of bool
        Which outputs need an entry; with a list of just as many, these get them.

    Raises
    ------
    ValueError
        If the structure doesn't match the outputs.
    """
    n = len(names)
    if structure is None:
        return [None] * n
    if isinstance(structure, dict):
        if n == 1 and len(structure) == 1:
            return list(structure.values())
        unknown = sorted(set(structure) - set(names))
        if unknown:
            raise ValueError(
                f"y_true and y_pred have different structures: `{what}` has the keys "
                f"{sorted(structure)}; expected those of the outputs, {names}."
            )
        return [structure.get(name) for name in names]
    flat = tree.flatten(structure)
    if len(flat) == n:
        return flat
    if len(flat) == sum(wanted):
        given = iter(flat)
        return [next(given) if want else None for want in wanted]
    raise ValueError(
        f"y_true and y_pred have different structures: `{what}` has {len(flat)} part(s), "
        f"the model has {n} output(s): {names}."
    )


def spread(identifiers: Any, names: list[str], what: str) -> list[Any]:
    """Return one entry of a ``compile`` argument per output.

    A dict has entries by output name, a list one per output, anything else is for all.

    Raises
    ------
    ValueError
        If a list has another length, or a dict names other outputs.
    """
    n = len(names)
    if isinstance(identifiers, dict) and not _is_config(identifiers):
        unknown = [key for key in identifiers if key not in names]
        if unknown:
            raise ValueError(
                f"`{what}` has the keys {list(identifiers)}, of which {unknown} are no outputs; "
                f"expected keys among the output names {names}."
            )
        return [identifiers.get(name) for name in names]
    if isinstance(identifiers, (list, tuple)):
        if len(identifiers) != n:
            raise ValueError(
                f"`{what}` has {len(identifiers)} entries for {n} output(s) {names}: "
                f"{identifiers!r}; expected one per output."
            )
        return list(identifiers)
    return [identifiers] * n


def _is_config(x: dict[Any, Any]) -> bool:
    """Say whether a dict is the serialised form of one object."""
    return "class_name" in x and "config" in x


def kind_of_targets(y_true: Any, y_pred: Any) -> str:
    """Say what 'accuracy' and 'crossentropy' mean for tensors of these shapes.

    Returns
    -------
    {"binary", "sparse_categorical", "categorical"}
    """
    if y_pred.shape and y_pred.shape[-1] == 1:
        return "binary"
    lower = len(y_true.shape) < len(y_pred.shape)
    if lower or (y_true.shape[-1] == 1 and y_pred.shape[-1] > 1):
        return "sparse_categorical"
    return "categorical"
