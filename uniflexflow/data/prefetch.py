"""Work ahead: the next batches are made in a background thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

_END = object()


class Prefetch:
    """An iterator whose items are made by a thread, at most ``depth`` ahead.

    Whatever the making raises is raised where the item is asked for. ``close`` ends
    the thread, also when not all items were taken.
    """

    def __init__(self, make: Callable[[], Iterator[Any]], depth: int = 2):
        self._queue: queue.Queue[Any] = queue.Queue(depth)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(make,), daemon=True)
        self._thread.start()

    def _work(self, make: Callable[[], Iterator[Any]]) -> None:
        try:
            items = make()
            for item in items:
                if not self._put((item, None)):
                    return
            self._put((_END, None))
        except BaseException as error:  # handed over to the thread that asks
            self._put((_END, error))

    def _put(self, entry: Any) -> bool:
        while not self._closed.is_set():
            try:
                self._queue.put(entry, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def __iter__(self) -> Prefetch:
        return self

    def __next__(self) -> Any:
        item, error = self._queue.get()
        if item is _END:
            self._queue.put((_END, None))
            if error is not None:
                raise error
            raise StopIteration
        return item

    def close(self) -> None:
        """End the thread and wait for it."""
        self._closed.set()
        self._thread.join()
