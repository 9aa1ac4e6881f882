"""The effect of every command, as isa/commands.py defines it; independent of the compiler.

The footprint of a command is computed first (devices/footprints.py). Bounds and races are therefore checked before any
byte is read; then the command is executed.
"""

from collections.abc import Callable
from typing import Any

from qmlir.backends.npu.contraction import convolve
from qmlir.backends.npu.machine import Machine, set_context
from qmlir.backends.npu.movement import fill, move
from qmlir.backends.npu.vector import arithmetic, pool, post, reduce
from qmlir.isa.commands import (
    Arithmetic,
    Convolve,
    ConvolveDepthwise,
    Fill,
    Move,
    Pool,
    Post,
    Reduce,
    SetContext,
)
from qmlir.isa.encoding import Command

_RULES: dict[type[Command], Callable[[Any, Machine], None]] = {
    SetContext: set_context,
    Move: move,
    Fill: fill,
    Convolve: convolve,
    ConvolveDepthwise: convolve,
    Post: post,
    Arithmetic: arithmetic,
    Pool: pool,
    Reduce: reduce,
}
"""Command → the function that executes it; a command that is not listed has no effect."""


def execute(command: Command, machine: Machine) -> None:
    """Executes a command: changes memories and contexts."""
    rule = _RULES.get(type(command))
    if rule is not None:
        rule(command, machine)
