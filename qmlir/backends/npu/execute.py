"""Every command's effect: the meaning of isa/commands.py, and a witness that knows no compiler.

A command is first taken for what it touches (device/footprints.py), so that bounds and races are judged before anything
is read, then executed.
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
"""Command → what it does. What is not here does nothing."""


def execute(command: Command, machine: Machine) -> None:
    """Does to memory and contexts what a command says."""
    rule = _RULES.get(type(command))
    if rule is not None:
        rule(command, machine)
