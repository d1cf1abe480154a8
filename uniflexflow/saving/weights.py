"""Weight files, ``.weights.h5``, in Keras's layout."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from typing import Any

import h5py

from uniflexflow.saving import hdf5
from uniflexflow.saving.atomic import atomic_file, on_root
from uniflexflow.saving.weight_paths import Entry, seeds_and_states, walk

OPTIMIZER = "optimizer"
#: What Keras doesn't keep, and leaves alone: random generators, states of layers.
STATE = "uniflexflow/state"
WEIGHTS_IN_ARCHIVE = "model.weights.h5"


def write_entries(file: h5py.File, entries: list[Entry]) -> None:
    """Write entries to an open file."""
    for entry in entries:
        group = file.create_group(entry.group)
        group.attrs["name"] = entry.name
        for i, variable in enumerate(entry.variables):
            hdf5.write(group, str(i), variable.array)


def weights_image(model: Any, with_state: bool = False) -> io.BytesIO:
    """Return a weight file in memory; ``with_state``: with random generators' states."""
    entries = walk(model)
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        entries.append(Entry(OPTIMIZER, optimizer.name, optimizer.variables))
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        write_entries(file, entries)
        for i, variable in enumerate(seeds_and_states(model) if with_state else ()):
            hdf5.write(file, f"{STATE}/{i}", variable.array)
    return image


def _require_built(model: Any, where: str) -> None:
    if not model.built:
        raise ValueError(
            f"{where}: model '{model.name}' has no weights yet: it is not built. Call it on data, "
            "or give it an Input, or call build(input_shape) first."
        )


def save_weights(model: Any, filepath: Any, overwrite: bool = True) -> None:
    """Write a model's weights, and its optimizer's state if it is compiled.

    The file is written beside its place and renamed, by rank 0.

    Parameters
    ----------
    model : Model
    filepath : str or path
        Ends in ``.weights.h5``.
    overwrite : bool

    Raises
    ------
    FileExistsError
        If the file exists and ``overwrite`` is False.
    """
    path = os.fspath(filepath)
    if not path.endswith(".weights.h5"):
        raise ValueError(
            f"save_weights: the filename must end in `.weights.h5`. Received: filepath={path}"
        )
    _require_built(model, "save_weights")

    def write() -> None:
        if not overwrite and os.path.exists(path):
            raise FileExistsError(f"save_weights: {path!r} exists; pass overwrite=True.")
        image = weights_image(model)
        with atomic_file(path, "save_weights") as file:
            file.write(image.getbuffer())

    on_root(write)


def load_weights(
    model: Any, filepath: Any, skip_mismatch: bool = False, *, optimizer: bool = True
) -> None:
    """Read a model's weights, and its optimizer's state if it is compiled.

    Nothing of the model changes if anything doesn't fit.

    Parameters
    ----------
    model : Model
    filepath : str or path
        A ``.weights.h5`` file, or a ``.keras`` file.
    skip_mismatch : bool
        Leave out layers whose weights don't fit, with a warning.
    optimizer : bool
        Whether its state is read too.

    Raises
    ------
    ValueError
        If the file doesn't fit the model; names the file, the layer and the shapes.
    """
    path = os.fspath(filepath)
    _require_built(model, "load_weights")
    if path.endswith(".keras"):
        (content,) = read_archive(path, [WEIGHTS_IN_ARCHIVE], "load_weights")
        source = io.BytesIO(content)
        read_weights(model, source, path, "load_weights", skip_mismatch, optimizer)
    elif path.endswith((".weights.h5", ".hdf5")):
        if not os.path.exists(path):
            raise FileNotFoundError(f"load_weights: there is no file {path!r}.")
        read_weights(model, path, path, "load_weights", skip_mismatch, optimizer)
    else:
        raise ValueError(
            "load_weights: expected a file that ends in `.weights.h5` or `.keras`; received "
            f"filepath={path}. Weights in the `.h5` format of Keras 2 and sharded ones "
            "(`.weights.json`) are not supported."
        )


def read_archive(path: str, members: list[str], where: str) -> list[bytes]:
    """Return members of a zip file, unless one would unpack to far more than it holds.

    Raises
    ------
    OSError
        If the file is cut off or damaged.
    ValueError
        If a member is missing or refused.
    """
    contents = []
    try:
        with zipfile.ZipFile(path) as archive:
            for member in members:
                if member not in archive.namelist():
                    raise ValueError(f"{where}: {path!r} is no model file: it has no {member!r}.")
                info = archive.getinfo(member)
                if info.file_size > 100 * max(info.compress_size, 1) and info.file_size > 2**24:
                    raise ValueError(
                        f"{where}: {path!r} is refused: {member!r} would unpack from "
                        f"{info.compress_size:,} to {info.file_size:,} bytes."
                    )
                try:
                    contents.append(archive.read(info))
                except zipfile.BadZipFile as error:
                    raise OSError(f"{where}: {member!r} in {path!r} is damaged: {error}") from error
    except zipfile.BadZipFile as error:
        raise OSError(
            f"{where}: {path!r} is not a whole model file: {error}; it may have been cut off while "
            "it was written or copied"
        ) from error
    return contents


def read_weights(
    model: Any,
    source: Any,
    path: str,
    where: str,
    skip_mismatch: bool,
    optimizer: bool,
    with_state: bool = False,
) -> None:
    """Read weights from an open file object or a path."""
    entries = walk(model)
    with hdf5.opened(source, path, where) as file:
        arrays: list[tuple[Any, Any]] = []
        problems = []
        for entry in entries:
            try:
                arrays += _read_entry(file, entry, path, where)
            except ValueError as error:
                problems.append(str(error))
        known = {f"{e.group}/{i}" for e in entries for i in range(len(e.variables))}
        extra = [
            name
            for name in hdf5.list_datasets(file, path, where)
            if name not in known and not name.startswith((f"{OPTIMIZER}/", f"{STATE}/"))
        ]
        spare = [name for name in extra if not any(name.startswith(e.group) for e in entries)]
        if spare:
            problems.append(
                f"{where}: {path!r} has weights that model '{model.name}' has no layer for: "
                f"{', '.join(spare[:5])}{' ...' if len(spare) > 5 else ''}."
            )
        if problems and not skip_mismatch:
            more = f"\n({len(problems) - 1} more layers don't fit.)" if len(problems) > 1 else ""
            raise ValueError(problems[0] + more)
        for problem in problems:
            warnings.warn(f"{problem} Skipped.", stacklevel=4)
        state = []
        if optimizer and getattr(model, "optimizer", None) is not None:
            state = _optimizer_state(file, model, path, where)
        if with_state:
            state += _seeds_and_states(file, model, path, where)
        for variable, array in arrays + state:
            variable.array[...] = array


def _read_entry(file: h5py.File, entry: Entry, path: str, where: str) -> list[tuple[Any, Any]]:
    what = f"layer '{entry.name}' ({entry.path or 'the model itself'})"
    group = hdf5.member(file, entry.group, path, where)
    count = 0 if group is None else len(group)
    if count != len(entry.variables):
        expected = ", ".join(f"{v.name} {v.shape}" for v in entry.variables)
        raise ValueError(
            f"{where}: {what} has {len(entry.variables)} variables ({expected}), but {path!r} has "
            f"{count} for it."
        )
    return [
        (v, _read_one(group, str(i), v, path, where, f"variable '{v.name}' of {what}"))
        for i, v in enumerate(entry.variables)
    ]


def _read_one(group: Any, key: str, variable: Any, path: str, where: str, what: str) -> Any:
    dataset = hdf5.member(group, key, path, where)
    if dataset is None:
        raise ValueError(f"{where}: {path!r} lacks {what} ({group.name}/{key}).")
    return hdf5.read(dataset, variable.shape, variable.dtype, path, where, what)


def _optimizer_state(file: h5py.File, model: Any, path: str, where: str) -> list[tuple[Any, Any]]:
    group = hdf5.member(file, f"{OPTIMIZER}/vars", path, where)
    if group is None:
        return []
    optimizer = model.optimizer
    if not optimizer.built and len(group) != len(optimizer.variables):
        optimizer.build(model.trainable_variables)  # as it was when it was saved
    variables = optimizer.variables
    if len(group) < len(variables):  # it was saved before its first step: there are no slots
        first = [v for v in variables if v.name in ("iteration", "learning_rate")]
        variables = first if len(group) == len(first) else variables
    try:
        if len(group) != len(variables):
            raise ValueError(
                f"it has {len(variables)} variables whereas the saved optimizer has {len(group)}"
            )
        return [
            (v, _read_one(group, str(i), v, path, where, f"optimizer variable '{v.name}'"))
            for i, v in enumerate(variables)
        ]
    except ValueError as error:
        warnings.warn(
            f"Skipping variable loading for optimizer '{optimizer.name}': {error} ({path!r}).",
            stacklevel=5,
        )
        return []


def _seeds_and_states(file: h5py.File, model: Any, path: str, where: str) -> list[tuple[Any, Any]]:
    group = hdf5.member(file, STATE, path, where)
    variables = seeds_and_states(model)
    if group is None or len(group) != len(variables):
        return []  # a file of Keras, or a state that is made at the first call
    return [
        (v, _read_one(group, str(i), v, path, where, f"state '{v.path}'"))
        for i, v in enumerate(variables)
    ]
