"""Collects garbage rarely while IR is built.

The IR is a graph of long-lived objects with cycles (operations, blocks, uses), of which hardly any become garbage while
it grows. Python's collector nevertheless looks through the youngest objects after each 700 new ones, and through all
of them again and again: 600 times for MobileNetV2, a fifteenth of the compilation.
"""

import gc
from collections.abc import Callable

from qmlir.ir.shared_state import WhileNeeded

OBJECTS = 50_000
"""New objects after which the youngest are looked through; ResNet-50 makes half a million that stay."""


def _collect_rarely() -> Callable[[], None]:
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS:
        gc.set_threshold(OBJECTS, *before[1:])
    return lambda: gc.set_threshold(*before)


collected_rarely = WhileNeeded(_collect_rarely)
"""Collects garbage rarely; a process that has switched the collector off, or made it rarer still, keeps its setting."""
