"""Changes of what a whole process shares, for as long as some thread needs them.

qmlir is a guest in the programs that import it: importing it changes nothing of the process or of xDSL. What makes its
own work faster (`garbage.py`, `upstream/definitions.py`) holds while that work runs, and what was there before returns.
"""

from collections.abc import Callable
from contextlib import ContextDecorator
from threading import Lock


class WhileNeeded(ContextDecorator):
    """A change of the process, as a context manager and a decorator of functions.

    Blocks may nest, and run in several threads at a time: the first that begins makes the change, and the last that
    ends takes it back.
    """

    def __init__(self, change: Callable[[], Callable[[], None]]) -> None:
        """Takes what makes the change; it returns what takes the change back."""
        self._change = change
        self._lock, self._running = Lock(), 0
        self._take_back: Callable[[], None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._running:
                self._take_back = self._change()
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._running -= 1
            if not self._running and self._take_back is not None:
                self._take_back()
