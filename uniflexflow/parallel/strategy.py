"""A strategy: how a model is spread over ranks, as a value beside the model.

``compile(distribution=...)`` takes one. It names a mesh and, where the default does not
do, which loop index of an operation a mesh axis splits. It can be written by hand,
saved, compared and replayed: it is a JSON file.
"""

from __future__ import annotations

import fnmatch
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uniflexflow.ir import Node
from uniflexflow.parallel.mesh import Mesh
from uniflexflow.parallel.rows import batch_rows

FORMAT = 1
_FOLLOW = "follow"
_REPLICATE = "replicate"


@dataclass(frozen=True)
class Choice:
    """What a mesh axis splits in some operations.

    Attributes
    ----------
    axis : str
        The mesh axis.
    index : str, int or None
        Label of the loop index, as the operation's row names it (``"n"`` of a matrix
        product is its output feature); ``"follow"``: the index by which the operands
        come split; None: compute it whole on every rank.
    layer, operation : str
        Patterns with ``*`` for the layer's path and the operation's name.
    """

    axis: str
    index: Any
    layer: str = "*"
    operation: str = "*"

    def fits(self, node: Node) -> bool:
        """Say whether the choice is about this node."""
        return fnmatch.fnmatchcase(node.op.name, self.operation) and fnmatch.fnmatchcase(
            node.scope, self.layer
        )


@dataclass(frozen=True)
class Strategy:
    """How a model is spread over ranks.

    Parameters
    ----------
    mesh : mapping of str to int
        Named axes and their lengths; one length may be -1, "as many as there are".
    batch_axis : str
        The mesh axis that splits the batch.
    choices : sequence of Choice
        Exceptions; the first that fits an operation counts.
    rest : mapping of str to str
        Pattern of a variable's path -> how it rests between steps. Only
        ``"replicate"``, the default, is known.
    gradient_dtype : {None, "bfloat16"}
        In what form large float32 sums over the ranks, which are gradients, are sent: as
        they are, so that the sum is exact to rounding, or rounded to bfloat16 in half the
        bytes (see ``SerialCommunicator.allreduce_rounded``). Sums within a node's memory
        send nothing and are always exact.

    Examples
    --------
    >>> strategy = Strategy({"data": -1})
    >>> strategy.mesh_for(4).size
    4
    >>> Strategy.from_json(strategy.to_json()) == strategy
    True
    """

    mesh: Mapping[str, int] = field(default_factory=lambda: {"data": -1})
    batch_axis: str = "data"
    choices: Sequence[Choice] = ()
    rest: Mapping[str, str] = field(default_factory=dict)
    gradient_dtype: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mesh", {str(k): int(v) for k, v in self.mesh.items()})
        object.__setattr__(self, "choices", tuple(self.choices))
        if self.batch_axis not in self.mesh:
            raise ValueError(
                f"Strategy: batch_axis is {self.batch_axis!r}, the mesh has the axes "
                f"{sorted(self.mesh)}; expected one of them."
            )
        sizes = list(self.mesh.values())
        if sizes.count(-1) > 1 or any(n < 1 and n != -1 for n in sizes):
            raise ValueError(
                f"Strategy: the mesh is {dict(self.mesh)}; expected lengths of 1 or more, one "
                "of them -1 at most."
            )
        if self.gradient_dtype not in (None, "bfloat16"):
            raise ValueError(
                f"Strategy: gradient_dtype is {self.gradient_dtype!r}; expected None (as they are) "
                "or 'bfloat16'."
            )
        for choice in self.choices:
            if choice.axis not in self.mesh:
                raise ValueError(
                    f"Strategy: a choice is about mesh axis {choice.axis!r}; the mesh has "
                    f"{sorted(self.mesh)}."
                )
        for pattern, layout in self.rest.items():
            if layout != _REPLICATE:
                raise NotImplementedError(
                    f"Strategy: variables {pattern!r} should rest as {layout!r}; only "
                    f"{_REPLICATE!r} is supported."
                )

    def mesh_for(self, size: int) -> Mesh:
        """Return the mesh on ``size`` ranks.

        Raises
        ------
        ValueError
            If the mesh has another number of ranks.
        """
        fixed = math.prod(n for n in self.mesh.values() if n != -1)
        lengths = {k: size // fixed if n == -1 else n for k, n in self.mesh.items()}
        if math.prod(lengths.values()) != size:
            raise ValueError(
                f"Strategy: the mesh is {dict(self.mesh)}, but there are {size} ranks; start the "
                "program with as many ranks as the mesh has, or set an axis to -1."
            )
        return Mesh.of(lengths)

    def batch_rows(self, n: int, rank: int, size: int) -> tuple[int, int]:
        """Return which of a batch's ``n`` rows ``rank`` of ``size`` feeds."""
        axis = self.mesh_for(size).axis(self.batch_axis, rank)
        return batch_rows(n, axis.rank, axis.size)

    def choose(self, axis: str, node: Node) -> Any:
        """Return the index by which a mesh axis splits an operation."""
        for choice in self.choices:
            if choice.axis == axis and choice.fits(node):
                return choice.index
        return _FOLLOW

    # -- files ---------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the strategy as JSON text."""
        data = {
            "format": FORMAT,
            "mesh": dict(self.mesh),
            "batch_axis": self.batch_axis,
            "choices": [vars(choice) for choice in self.choices],
            "rest": dict(self.rest),
            "gradient_dtype": self.gradient_dtype,
        }
        return json.dumps(data, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Strategy:
        """Make a strategy of its JSON text.

        Raises
        ------
        ValueError
            If it is of another format or has unknown entries.
        """
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            found = data.get("format") if isinstance(data, dict) else type(data).__name__
            raise ValueError(f"Strategy: the file's format is {found!r}; expected {FORMAT}.")
        known = {"format", "mesh", "batch_axis", "choices", "rest", "gradient_dtype"}
        if set(data) - known:
            raise ValueError(
                f"Strategy: unknown entries {sorted(set(data) - known)}; expected {sorted(known)}."
            )
        try:
            choices = [Choice(**choice) for choice in data.get("choices", ())]
        except TypeError as error:
            raise ValueError(f"Strategy: a choice can't be read: {error}.") from error
        return cls(
            mesh=data["mesh"],
            batch_axis=data.get("batch_axis", "data"),
            choices=choices,
            rest=data.get("rest", {}),
            gradient_dtype=data.get("gradient_dtype"),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the strategy to a JSON file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Strategy:
        """Read a strategy from a JSON file."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


def DataParallel(gradient_dtype: str | None = None) -> Strategy:
    """Split the batch over all ranks; every rank has all weights. The default.

    Parameters
    ----------
    gradient_dtype : {None, "bfloat16"}
        See ``Strategy``.

    Returns
    -------
    Strategy

    Examples
    --------
    >>> DataParallel(gradient_dtype="bfloat16").gradient_dtype
    'bfloat16'
    """
    return Strategy(gradient_dtype=gradient_dtype)


def get(distribution: Strategy | str | os.PathLike[str] | Mapping[str, Any] | None) -> Strategy:
    """Return the strategy that ``compile(distribution=...)`` means.

    Parameters
    ----------
    distribution : Strategy, path, mapping or None
        A path of a JSON file, or its contents; None is data parallel over all ranks.

    Raises
    ------
    TypeError
        If it is something else.
    """
    if distribution is None:
        return DataParallel()
    if isinstance(distribution, Strategy):
        return distribution
    if isinstance(distribution, Mapping):
        return Strategy.from_json(json.dumps(dict(distribution)))
    if isinstance(distribution, (str, os.PathLike)):
        return Strategy.load(distribution)
    raise TypeError(
        f"distribution: received {distribution!r}; expected a uniflexflow.parallel.Strategy, the "
        "path of a strategy's JSON file, or None."
    )
