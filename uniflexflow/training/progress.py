"""The progress display.

On a terminal a bar is redrawn in place, as Keras shows it. Anywhere else (a file, a
batch log) there are plain lines without control characters: one when an epoch ends,
and one every ``LINE_INTERVAL`` seconds within a long epoch.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping
from typing import Any

from uniflexflow.training import display

#: Seconds between two plain lines of one epoch.
LINE_INTERVAL = 30.0


class Progbar:
    """A bar that shows how far something is.

    Parameters
    ----------
    target : int or None
        Total number of steps; None if unknown.
    width : int
        Of the bar, in characters.
    verbose : int
        0 silent, 1 a bar, 2 one line at the end.
    interval : float
        Seconds between two redraws.
    stateful_metrics : iterable of str, optional
        Names of values to be shown as they are; others are averaged over the steps.
    unit_name : str
    stateless_metrics : iterable of str, optional
        Names of values to be averaged, all others being shown as they are; instead of
        ``stateful_metrics``.
    title : str
        What plain lines begin with, for example ``"Epoch 1/3"``.

    Attributes
    ----------
    due : float
        Time (of ``time.perf_counter``) before which ``update`` shows nothing new.

    Examples
    --------
    >>> bar = Progbar(3, verbose=0)
    >>> for i in range(3):
    ...     bar.update(i + 1, [("loss", 0.5)])
    """

    def __init__(
        self,
        target: int | None,
        width: int = 20,
        verbose: int = 1,
        interval: float = 0.05,
        stateful_metrics: Iterable[str] | None = None,
        unit_name: str = "step",
        stateless_metrics: Iterable[str] | None = None,
        title: str = "",
    ):
        if stateful_metrics is not None and stateless_metrics is not None:
            raise ValueError(
                "Progbar: only one of `stateful_metrics` and `stateless_metrics` may be given."
            )
        self.target = target
        self.width = width
        self.verbose = verbose
        self.unit_name = unit_name
        self.title = title
        self._stateful = None if stateless_metrics is not None else set(stateful_metrics or ())
        self._stateless = set(stateless_metrics or ())
        self.live = display.is_live()
        self.interval = interval if self.live else LINE_INTERVAL
        self._values: dict[str, list[float]] = {}
        self._seen = 0
        self._first_time: tuple[float, int] | None = None
        self._start = time.perf_counter()
        self._shown_width = 0
        self._done = False
        self.due = self._start if self.live else self._start + self.interval

    def update(self, current: int, values: Any = None, finalize: bool | None = None) -> None:
        """Set the number of steps done, and show it if it is time to.

        Parameters
        ----------
        current : int
        values : list of (name, number), or dict
        finalize : bool, optional
            Whether this is the last update; by default if the target is reached.
        """
        if finalize is None:
            finalize = self.target is not None and current >= self.target
        items = values.items() if isinstance(values, Mapping) else values or ()
        for name, value in items:
            self._note(name, value, max(current - self._seen, 1), finalize)
        self._seen = current
        now = time.perf_counter()
        if self._first_time is None:
            # the first step makes the plan, and is left out of the time per step
            self._first_time = (now, current)
        if self.verbose == 0 or self._done:
            return
        if not finalize and (self.verbose == 2 or now < self.due):
            return
        self.due = now + self.interval
        self._done = bool(finalize)
        if self.live and self.verbose == 1:
            self._draw(current, now, finalize)
        else:
            title = f"{self.title} - " if self.title and not self.live else ""
            line = f"{title}{self._count(current)} - {self._status(current, now, finalize)}"
            display.print_line(line)

    def add(self, n: int, values: Any = None) -> None:
        """Add to the number of steps done."""
        self.update(self._seen + n, values)

    def _note(self, name: str, value: Any, steps: int, finalize: bool) -> None:
        averaged = name in self._stateless if self._stateful is None else name not in self._stateful
        value = float(value)
        if averaged and not finalize and name in self._values:
            self._values[name][0] += value * steps
            self._values[name][1] += steps
        elif averaged and not finalize:
            self._values[name] = [value * steps, steps]
        else:
            self._values[name] = [value, 1]

    # -- what is shown -----------------------------------------------------------------

    def _count(self, current: int) -> str:
        if not self.target:
            return f"{current:7d}/Unknown"
        return f"{current:{len(str(self.target))}d}/{self.target}"

    def _status(self, current: int, now: float, finalize: bool) -> str:
        per_step = self._time_per_step(current, now)
        if self.target and not finalize:
            clock = _duration(per_step * (self.target - current))
        else:
            clock = f"{now - self._start:.0f}s"
        return " - ".join([clock, _per_unit(per_step, self.unit_name), *self._shown_values()])

    def _shown_values(self) -> list[str]:
        return [f"{k}: {_number(v / max(1, n))}" for k, (v, n) in self._values.items()]

    def _time_per_step(self, current: int, now: float) -> float:
        first, steps = self._first_time or (now, current)
        if current > steps:
            return (now - first) / (current - steps)
        return (now - self._start) / max(current, 1)

    def _draw(self, current: int, now: float, finalize: bool) -> None:
        if self.target:
            filled = min(self.width, int(self.width * current / self.target))
            count = self._count(current)
            head = (
                f"\x1b[1m{count}\x1b[0m \x1b[32m{'━' * filled}\x1b[0m"
                f"\x1b[37m{'━' * (self.width - filled)}\x1b[0m"
            )
            width = len(count) + 1 + self.width
        else:
            head = self._count(current)
            width = len(head)
        per_step = self._time_per_step(current, now)
        if self.target and not finalize:
            clock = _duration(per_step * (self.target - current))
        else:
            clock = f"{now - self._start:.0f}s"
        tail = " - ".join([_per_unit(per_step, self.unit_name), *self._shown_values()])
        if not finalize:  # a line that wraps could not be redrawn
            room = shutil.get_terminal_size().columns - width - len(clock) - 3
            tail = tail[: max(room, 0)]
        width += len(clock) + len(tail) + 2
        padding = " " * max(0, self._shown_width - width)
        self._shown_width = width
        end = "\n" if finalize else ""
        display.write(f"\r{head} \x1b[1m{clock}\x1b[0m {tail}{padding}{end}")


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) > 1e-3 else f"{value:.4e}"


def _duration(seconds: float) -> str:
    seconds = int(seconds)
    if seconds > 3600:
        return f"{seconds // 3600}:{seconds % 3600 // 60:02d}:{seconds % 60:02d}"
    if seconds > 60:
        return f"{seconds // 60}:{seconds % 60:02d}"
    return f"{seconds}s"


def _per_unit(seconds: float, unit: str) -> str:
    if seconds >= 1 or seconds == 0:
        return f"{seconds:.0f}s/{unit}"
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.0f}ms/{unit}"
    return f"{seconds * 1e6:.0f}us/{unit}"
