"""What is known of a machine: a small value that can be written down as text."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Machine:
    """One node as its tiled operations see it.

    Attributes
    ----------
    name : str
    cores : int
        Cores that this process may use.
    line_bytes : int
        A cache line.
    l1d_bytes, l1d_ways, l2_bytes, l2_ways, l3_bytes : int
        Caches; of the second and third level, one core's share. 0 where there is none.
    scratch_bytes : int
        Scratchpad of a slave core; on a machine with caches, a part of the second level.
    """

    name: str
    cores: int
    line_bytes: int
    l1d_bytes: int
    l1d_ways: int
    l2_bytes: int
    l2_ways: int
    l3_bytes: int
    scratch_bytes: int

    def __str__(self) -> str:
        return "\n".join(f"{f.name} = {getattr(self, f.name)}" for f in fields(self)) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Machine:
        """Read what ``str(machine)`` wrote; ``#`` starts a comment.

        Raises
        ------
        ValueError
            If a field is missing, unknown or not a number.
        """
        kinds = {f.name: f.type for f in fields(cls)}
        found: dict[str, str | int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            line = line.split("#")[0].strip()
            if not line:
                continue
            key, _, value = (part.strip() for part in line.partition("="))
            if key not in kinds:
                raise ValueError(
                    f"Machine.from_text: line {number}: unknown field {key!r}; "
                    f"expected one of {', '.join(kinds)}."
                )
            try:
                found[key] = int(value) if kinds[key] == "int" else value
            except ValueError:
                raise ValueError(
                    f"Machine.from_text: line {number}: {key} is {value!r}; expected an integer."
                ) from None
        missing = [key for key in kinds if key not in found]
        if missing:
            raise ValueError(f"Machine.from_text: missing fields: {', '.join(missing)}.")
        return cls(**found)
