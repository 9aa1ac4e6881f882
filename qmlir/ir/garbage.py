"""Collects garbage rarely while IR is built.

The IR is a graph of long-lived objects with cycles (operations, blocks, uses), of which hardly any become garbage while
it grows. Python's collector nevertheless looks through the youngest objects after each 700 new ones, and through all
of them again and again: 600 times for MobileNetV2, a fifteenth of the compilation. What does become garbage, whole
networks with their weights, is collected where a step is over.
"""

import ctypes
import gc
import sys
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from qmlir.ir.shared_state import WhileNeeded

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

OBJECTS = 50_000
"""New objects after which the youngest are looked through; ResNet-50 makes half a million that stay."""


def _collect_rarely() -> Callable[[], None]:
    before = gc.get_threshold()
    if 0 < before[0] < OBJECTS:
        gc.set_threshold(OBJECTS, *before[1:])
    return lambda: gc.set_threshold(*before)


WEIGHTS = 64 << 20
"""Bytes of a network's constants from which on garbage is collected as soon as a step is over."""


def collect_weights(module: "ModuleOp") -> None:
    """Collects garbage where a step has left a network like this one, if its constants are large.

    A network that nobody needs any more consists of cycles, and keeps its weights until garbage is collected: half a
    gigabyte of a language model, where looking through all objects takes a third of a second. A process that has
    switched the collector off keeps them.
    """
    from qmlir.ir.weights import WeightsAttr  # not for cached networks, which are loaded without the IR

    constants = (a.data for op in module.walk() for a in op.properties.values() if isinstance(a, WeightsAttr))
    if gc.isenabled() and sum({id(w): prod(w.shape) * w.dtype.itemsize for w in constants}.values()) >= WEIGHTS:
        gc.collect()
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
        if trim is not None:  # glibc keeps what arrays of some megabytes took
            trim(0)


def release_weights(module: "ModuleOp") -> None:
    """Drops the arrays of constants that can be made again, such as the floats of a file's blocks of few bits."""
    from qmlir.ir.weights import WeightsAttr

    for op in module.walk():
        for attribute in op.properties.values():
            if isinstance(attribute, WeightsAttr):
                attribute.data.release()


collected_rarely = WhileNeeded(_collect_rarely)
"""Collects garbage rarely; a process that has switched the collector off, or made it rarer still, keeps its setting."""
