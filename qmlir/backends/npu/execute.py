"""Every command's footprint and effect: the meaning of isa/commands.py, and a witness that knows no compiler.

A command is first taken for what it touches (`footprint`), so that bounds and races are judged before anything is read,
then executed.
"""

from collections.abc import Callable
from typing import Any

from qmlir.backends.npu.contraction import convolve, window_footprint
from qmlir.backends.npu.machine import Footprint, Machine, context_footprint, set_context
from qmlir.backends.npu.movement import fill, fill_footprint, move, move_footprint
from qmlir.backends.npu.vector import (
    arithmetic,
    arithmetic_footprint,
    pool,
    pool_footprint,
    post,
    post_footprint,
    reduce,
    reduce_footprint,
)
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

_RULES: dict[type[Command], tuple[Callable[[Any, Machine], Footprint], Callable[[Any, Machine], None]]] = {
    SetContext: (context_footprint, set_context),
    Move: (move_footprint, move),
    Fill: (fill_footprint, fill),
    Convolve: (window_footprint, convolve),
    ConvolveDepthwise: (window_footprint, convolve),
    Post: (post_footprint, post),
    Arithmetic: (arithmetic_footprint, arithmetic),
    Pool: (pool_footprint, pool),
    Reduce: (reduce_footprint, reduce),
}
"""Command → what it touches, and what it does. What is not here touches nothing."""


def footprint(command: Command, machine: Machine) -> Footprint:
    """What a command reads and writes.

    Raises:
        Fault: A number in it is out of its range.
    """
    rule = _RULES.get(type(command))
    return Footprint() if rule is None else rule[0](command, machine)


def execute(command: Command, machine: Machine) -> None:
    """Does to memory and contexts what a command says."""
    rule = _RULES.get(type(command))
    if rule is not None:
        rule[1](command, machine)
