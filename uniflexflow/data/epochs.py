"""Epochs of a source: how many steps each has, and where in the data it stands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from uniflexflow.data.array_source import ArraySource
from uniflexflow.data.batch import is_batches, warn_ran_out
from uniflexflow.data.batch_source import BatchSource


class Epochs:
    """Cuts passes over the data into epochs.

    Without ``steps`` an epoch is one pass. With it, an epoch takes that many batches
    from where the last one ended; at the end of the data it ends early, with a warning.

    Parameters
    ----------
    source : ArraySource or BatchSource
    steps : int, optional
        ``steps_per_epoch``.
    first_epoch : int
    """

    def __init__(self, source: Any, steps: int | None = None, first_epoch: int = 0):
        if steps is not None and (not isinstance(steps, int) or steps < 1):
            raise ValueError(f"The number of steps must be a positive integer; got {steps!r}.")
        self.source = source
        self.limit = steps
        self._pass = 0 if source.one_shot else first_epoch
        self._position = 0
        self._items: Iterator[Any] | None = None

    @property
    def steps(self) -> int | None:
        """Steps of an epoch, as far as known."""
        return self.limit if self.limit is not None else self.source.num_batches

    def epoch(self, epoch: int, done: int = 0) -> Iterator[tuple[int, Any, list[Any]]]:
        """Give the batches of an epoch, of which ``done`` were given before."""
        source, limit, steps = self.source, self.limit, done
        if limit is None and not source.one_shot:
            self.close()
            self._pass, self._position = epoch, done
        source.on_epoch_begin()
        if self._items is None:
            self._items = source.run(self._pass, self._position)
        items = self._items
        while limit is None or steps < limit:
            item = next(items, None)
            if item is None:
                self._next_pass()
                if limit is not None:
                    warn_ran_out(steps)
                break
            steps += 1
            self._position += 1
            yield item
        else:
            if source.num_batches is not None and self._position >= source.num_batches:
                self._next_pass()
        source.on_epoch_end()

    def _next_pass(self) -> None:
        self.close()
        self._pass += 1
        self._position = 0

    def close(self) -> None:
        """End what reads ahead."""
        if self._items is not None:
            self._items.close()  # type: ignore[attr-defined]
            self._items = None

    def rewind(self) -> None:
        """Go to the beginning of the data, if that can be done."""
        if not self.source.one_shot:
            self.close()
            self._pass = self._position = 0

    def set_seed(self, seed: int) -> None:
        """Take another order of the samples."""
        self.source.set_seed(seed)

    def get_state(self) -> dict[str, int]:
        """Return where in the data the next batch lies."""
        return {"pass": self._pass, "position": self._position}

    def set_state(self, state: dict[str, int]) -> None:
        """Go to where ``get_state`` was called."""
        self.close()
        self._pass, self._position = int(state["pass"]), int(state["position"])


def make_source(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    steps: int | None = None,
    shuffle: Any = False,
    class_weight: dict[int, float] | None = None,
    where: str = "fit",
    **settings: Any,
) -> ArraySource | BatchSource:
    """Return the source for what ``fit`` and its kin may be given as data.

    Raises
    ------
    ValueError
        If arguments don't go with that kind of data.
    """
    if not is_batches(x):
        return ArraySource(
            x,
            y,
            sample_weight,
            batch_size=batch_size,
            steps=steps,
            shuffle=shuffle,
            class_weight=class_weight,
            where=where,
            **settings,
        )
    kind = type(x).__name__
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"{where}: when `x` gives batches (here a {kind}), `{name}` must not be passed: "
                "the batches contain it."
            )
    if batch_size is not None:
        raise ValueError(
            f"{where}: when `x` gives batches (here a {kind}), `batch_size` must not be passed: "
            "the batches have their own size."
        )
    if shuffle == "batch":
        raise ValueError(f"{where}: `shuffle='batch'` is only supported for arrays, not a {kind}.")
    return BatchSource(x, class_weight=class_weight, shuffle=shuffle, where=where, **settings)
