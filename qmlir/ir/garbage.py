"""Collects garbage rarely while IR is built.

The IR is a graph of long-lived objects with cycles (operations, blocks, uses), of which hardly any become garbage while
it grows. Python's collector nevertheless looks through the youngest objects after each 700 new ones, and through all
of them again and again: 600 times for MobileNetV2, a fifteenth of the compilation.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

OBJECTS = 50_000
"""New objects after which the youngest are looked through; ResNet-50 makes half a million that stay."""

_lock = Lock()
_running = 0
_before = gc.get_threshold()


@contextmanager
def collected_rarely() -> Generator[None]:
    """Collects garbage rarely while the block runs; blocks may nest, and run in several threads at a time.

    A process that has switched the collector off, or made it rarer still, keeps its setting.
    """
    global _running, _before
    with _lock:
        if not _running:
            _before = gc.get_threshold()
            if 0 < _before[0] < OBJECTS:
                gc.set_threshold(OBJECTS, *_before[1:])
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                gc.set_threshold(*_before)
