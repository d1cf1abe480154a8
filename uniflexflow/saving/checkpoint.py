"""Training checkpoints: all that a run needs to continue as if it had never stopped.

A checkpoint is one HDF5 file with a seal (``sealed``):

- ``/model/<path>/vars/<i>``: the weights, in the layout of weight files
- ``/optimizer/<i>``: iterations, learning rate (unless scheduled), slots
- ``/state/<i>``: random generators and states of layers
- ``/progress/<i>``: arrays in the progress
- ``/text/<name>``, JSON: ``index`` (names, shapes, dtypes of all these), ``progress``,
  ``random``, and ``sums``: block sizes, which decide in which order sums are added up
- root attributes ``format`` and ``version``

It is written beside its place and renamed; the one before stays as ``<name>.previous`` and
is read if the new one is damaged. Rank 0 writes and reads, and tells the others.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from typing import Any

import h5py
import numpy as np

from uniflexflow import random
from uniflexflow._core.block_sizes import block_sizes
from uniflexflow.parallel import world
from uniflexflow.saving import hdf5, plain_data, sealed
from uniflexflow.saving.atomic import atomic_file, on_root, remove_leftovers, sync_folder
from uniflexflow.saving.sealed import DamagedFileError
from uniflexflow.saving.weight_paths import seeds_and_states, walk

FORMAT, VERSION = "uniflexflow-checkpoint", 1
PREVIOUS = ".previous"


def _variables(model: Any) -> dict[str, Any]:
    """Return all variables of a training by their paths in the file."""
    found = {
        f"model/{entry.group}/{i}": v
        for entry in walk(model)
        for i, v in enumerate(entry.variables)
    }
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None:
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        found |= {f"optimizer/{i}": v for i, v in enumerate(optimizer.variables)}
    known = {id(v) for v in found.values()}
    seeds = [v for v in seeds_and_states(model) if id(v) not in known]
    return found | {f"state/{i}": v for i, v in enumerate(seeds)}


def _describe(variables: dict[str, Any]) -> dict[str, Any]:
    return {path: [v.path, list(v.shape), v.dtype] for path, v in variables.items()}


# -- writing -----------------------------------------------------------------------------


def save_checkpoint(path: Any, model: Any, progress: Any = None) -> None:
    """Write a training checkpoint; all ranks call it, rank 0 writes.

    Parameters
    ----------
    path : str or path
    model : Model
        Built, and compiled if its optimizer is to be kept.
    progress : nested structure of plain data and arrays, optional
        Where the training stands; given back by ``load_checkpoint``.

    Raises
    ------
    OSError
        If the file can't be written; the checkpoint that was there stays.
    TypeError
        If the progress holds anything else.
    """
    path = os.fspath(path)
    on_root(lambda: _write(path, model, progress, path + PREVIOUS))


def _write(path: str, model: Any, progress: Any, keep_as: str | None) -> None:
    variables = _variables(model)
    arrays: list[np.ndarray] = []
    plain = plain_data.split(progress, arrays, "progress")
    contents = {name: v.array for name, v in variables.items()}
    contents |= {f"progress/{i}": a for i, a in enumerate(arrays)}
    listed = _describe(variables)
    listed |= {f"progress/{i}": ["", list(a.shape), a.dtype.name] for i, a in enumerate(arrays)}
    texts = {
        "index": json.dumps(listed),
        "progress": json.dumps(plain),
        "random": json.dumps(random.get_global_state()),
        "sums": json.dumps(block_sizes()),
    }
    # as datasets: attributes are limited to 64 KiB
    contents |= {f"text/{k}": np.frombuffer(v.encode(), np.uint8) for k, v in texts.items()}
    with atomic_file(path, "save_checkpoint", keep_as) as file:
        sealed.write_sealed(file, contents, {"format": FORMAT, "version": VERSION})


# -- reading -----------------------------------------------------------------------------


def checkpoint_exists(path: Any) -> bool:
    """Say whether there is a checkpoint at a path, whole or not; the same on all ranks."""
    path = os.fspath(path)
    return bool(on_root(lambda: os.path.exists(path) or os.path.exists(path + PREVIOUS)))


def load_checkpoint(path: Any, model: Any) -> Any:
    """Put a model, its optimizer and all random state back; all ranks call it.

    Nothing changes unless everything fits. If the file is damaged, the checkpoint before
    it is taken, with a warning. A warning also says if block sizes were others when it was
    written: the training goes on with sums in another order.

    Parameters
    ----------
    path : str or path
    model : Model
        Built and compiled as the one that was saved.

    Returns
    -------
    progress : nested structure
        What ``save_checkpoint`` was given.

    Raises
    ------
    FileNotFoundError
        If there is none.
    DamagedFileError
        If no whole one is left; names the files and what is damaged.
    ValueError
        If it is of another model; names the variables and their shapes.
    """
    path = os.fspath(path)
    return _load([path, path + PREVIOUS], model, f"there is no checkpoint at {path!r}")


def _load(candidates: list[str], model: Any, missing: str) -> Any:
    variables = _variables(model)

    def read() -> tuple[Any, Any, list[np.ndarray], Any, str, list[str]]:
        failures: list[str] = []
        for candidate in candidates:
            if not os.path.exists(candidate):
                continue
            try:
                sealed.verify(candidate)
            except DamagedFileError as error:
                failures.append(str(error))
                continue
            return (*_read(candidate, variables), candidate, failures)
        if failures:
            raise DamagedFileError(
                f"load_checkpoint: no whole checkpoint is left: {'; '.join(failures)}"
            )
        raise FileNotFoundError(f"load_checkpoint: {missing}.")

    progress, state, arrays, sums, used, failures = on_root(read)
    for failure in failures:
        warnings.warn(
            f"load_checkpoint: {failure}. The checkpoint before it, {used!r}, is used instead.",
            stacklevel=3,
        )
    comm = world()
    if comm.rank == 0:
        _warn_of_other_sums(used, sums)
    if comm.size > 1:
        for variable in variables.values():
            comm.bcast(variable.array)
    random.set_global_state(state)
    return plain_data.join(progress, arrays)


def _warn_of_other_sums(path: str, theirs: Any) -> None:
    """Say so if a training can't go on bit by bit because sums are cut otherwise here."""
    mine = block_sizes()
    if theirs is None or theirs == mine:  # None: a file from before they were noted
        return
    names = [n for n in mine if not isinstance(theirs, dict) or theirs.get(n) != mine[n]]
    there = theirs if isinstance(theirs, dict) else {}
    shown = "; ".join(f"{n} {there.get(n)} there, {mine[n]} here" for n in names)
    warnings.warn(
        f"load_checkpoint: {path!r} was written with other block sizes ({shown}): sums are added "
        "in another order from here on, so the training agrees with one that was never "
        "interrupted to rounding, not bit by bit. For the same bits, resume on the same kind of "
        "machine, with the same sizes (`python -m uniflexflow.machine tune`) and UNIFLEXFLOW_ISA.",
        stacklevel=4,
    )


def _read(path: str, variables: dict[str, Any]) -> tuple[Any, Any, list[np.ndarray], Any]:
    """Read a whole file into the variables; return progress, random state, arrays, sums."""
    where = "load_checkpoint"
    with hdf5.opened(path, path, where) as file:
        if file.attrs.get("format") != FORMAT:
            raise ValueError(f"{where}: {path!r} is no training checkpoint.")
        if file.attrs["version"] != VERSION:
            raise ValueError(
                f"{where}: {path!r} has version {file.attrs['version']} of the format; this "
                f"library reads version {VERSION}."
            )
        index = json.loads(_text(file, "index", path))
        arrays_there = [n for n in index if n.startswith("progress/")]
        _compare(index, variables, path, where)
        new = []
        for name, variable in variables.items():
            dataset = hdf5.member(file, name, path, where)
            what = f"variable '{variable.path}'"
            array = hdf5.read(dataset, variable.shape, variable.dtype, path, where, what)
            new.append((variable, array))
        arrays = []
        for name in arrays_there:
            dataset = hdf5.member(file, name, path, where)
            _, shape, dtype = index[name]
            arrays.append(hdf5.read(dataset, tuple(shape), dtype, path, where, name))
        progress = json.loads(_text(file, "progress", path))
        state = json.loads(_text(file, "random", path))
        sums = json.loads(_text(file, "sums", path)) if "text/sums" in file else None
    for variable, array in new:
        variable.array[...] = array
    return progress, state, arrays, sums


def _text(file: h5py.File, name: str, path: str) -> str:
    dataset = hdf5.member(file, f"text/{name}", path, "load_checkpoint")
    size = 0 if dataset is None else dataset.id.get_storage_size()
    if dataset is None or dataset.shape != (size,):
        raise ValueError(f"load_checkpoint: {path!r} has no {name!r}.")
    return dataset[()].tobytes().decode()


def _compare(index: dict[str, Any], variables: dict[str, Any], path: str, where: str) -> None:
    """Raise ValueError if a file is not of these variables."""
    there = {n: d for n, d in index.items() if not n.startswith("progress/")}
    problems = []
    for name, (own_path, shape, dtype) in _describe(variables).items():
        if name not in there:
            problems.append(f"it lacks {name} (variable '{own_path}', shape {tuple(shape)})")
        elif there[name][1:] != [shape, dtype]:
            theirs = there[name]
            problems.append(
                f"{name} is '{theirs[0]}' with shape {tuple(theirs[1])} and dtype {theirs[2]}, "
                f"expected '{own_path}' with shape {tuple(shape)} and dtype {dtype}"
            )
    spare = [n for n in there if n not in variables]
    problems += [f"it has {n} ('{there[n][0]}'), which is not expected" for n in spare]
    if problems:
        more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise ValueError(
            f"{where}: {path!r} was written for another model or optimizer: "
            f"{'; '.join(problems[:3])}{more}. Build and compile the model as it was, or remove "
            "the checkpoint."
        )


# -- several in a directory --------------------------------------------------------------


class CheckpointManager:
    """Numbered checkpoints in a directory, of which the last few are kept.

    Parameters
    ----------
    directory : str or path
        Made if it isn't there.
    keep : int
        How many; at least 2, so that there is one before the last.

    Examples
    --------
    >>> import tempfile, uniflexflow as uff
    >>> model = uff.Sequential([uff.Input((2,)), uff.layers.Dense(1)])
    >>> manager = CheckpointManager(tempfile.mkdtemp(), keep=2)
    >>> for step in (10, 20, 30):
    ...     _ = manager.save(model, {"step": step}, step)
    >>> manager.steps()
    [20, 30]
    >>> manager.load(model)
    {'step': 30}
    """

    def __init__(self, directory: Any, keep: int = 2):
        if keep < 2:
            raise ValueError(
                f"CheckpointManager: `keep` must be at least 2, so that one is left if the last "
                f"is damaged; received {keep!r}."
            )
        self.directory = os.fspath(directory)
        self.keep = keep
        on_root(lambda: os.makedirs(self.directory, exist_ok=True))

    def path(self, step: int) -> str:
        """Return where the checkpoint of a step lies."""
        return os.path.join(self.directory, f"checkpoint-{step:012d}.h5")

    def _steps(self) -> list[int]:
        matches = [re.fullmatch(r"checkpoint-(\d+)\.h5", n) for n in os.listdir(self.directory)]
        return sorted(int(m.group(1)) for m in matches if m)

    def steps(self) -> list[int]:
        """Return the numbers of the checkpoints that are there, rising."""
        return on_root(self._steps)

    def save(self, model: Any, progress: Any, step: int) -> str:
        """Write the checkpoint of a step, then remove those that are too many."""

        def write() -> None:
            remove_leftovers(self.directory, "checkpoint-")
            _write(self.path(step), model, progress, None)
            for old in self._steps()[: -self.keep]:
                os.remove(self.path(old))
            sync_folder(self.directory)

        on_root(write)
        return self.path(step)

    def load(self, model: Any) -> Any:
        """Put the last whole checkpoint back; return its progress.

        Raises
        ------
        FileNotFoundError, DamagedFileError, ValueError
            As ``load_checkpoint``.
        """
        paths = [self.path(step) for step in reversed(self.steps())]
        return _load(paths, model, f"there is no checkpoint in {self.directory!r}")
