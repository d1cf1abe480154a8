"""The mesh: ranks as points of a grid with named axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis as one rank sees it: its name, its length, the rank's place on it."""

    name: str
    size: int
    rank: int

    def __str__(self) -> str:
        return f"{self.name}[{self.rank}/{self.size}]"


@dataclass(frozen=True)
class Mesh:
    """Named axes and their lengths, the last one running fastest.

    Examples
    --------
    >>> mesh = Mesh((("data", 2), ("model", 3)))
    >>> mesh.size
    6
    >>> mesh.coordinates(4)
    {'data': 1, 'model': 1}
    """

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        names = [name for name, _ in self.axes]
        if len(set(names)) != len(names) or any(size < 1 for _, size in self.axes):
            raise ValueError(
                f"Mesh: the axes are {self.axes}; expected different names and sizes of 1 or more."
            )

    @classmethod
    def of(cls, axes: Mapping[str, int]) -> Mesh:
        """Make a mesh of a mapping, in its order."""
        return cls(tuple((str(name), int(size)) for name, size in axes.items()))

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return math.prod(size for _, size in self.axes)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return a rank's place on each axis."""
        places = {}
        for name, size in reversed(self.axes):
            rank, places[name] = divmod(rank, size)
        return {name: places[name] for name, _ in self.axes}

    def axis(self, name: str, rank: int) -> MeshAxis:
        """Return one axis as ``rank`` sees it."""
        return MeshAxis(name, dict(self.axes)[name], self.coordinates(rank)[name])

    def neighbours(self, name: str, rank: int) -> tuple[int, ...]:
        """Return the ranks on the same line along an axis, in order."""
        mine = self.coordinates(rank)
        del mine[name]

        def on_line(other: int) -> bool:
            there = self.coordinates(other)
            return all(there[k] == v for k, v in mine.items())

        return tuple(r for r in range(self.size) if on_line(r))
