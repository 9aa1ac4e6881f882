"""States that are made of parts whose ranges differ, and are read in parts: each part keeps a scale of its own.

The file of a recurrent cell often has one state for its output, within ±1, and for its memory, which reaches hundreds.
One scale leaves the output a few bits, once for each call. Such a state stays float. Operations that compute its parts
dequantize them, and what reads a part of it quantizes that part by the scale that the part had.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.calib import Observation, ObserveOp
from qmlir.dialects.nn import ConcatOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.ir.facts import POLICY
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.states import state_values

MOVING = (ConcatOp, ReshapeOp, SliceOp, TransposeOp)
"""The data movement that joins parts to a state, and parts a state."""

NARROWER = 2.0**-4
"""A part is much narrower than another if its largest magnitude is below this share of the other's."""


@dataclass
class StateParts:
    """The parts of states that keep scales of their own.

    moving  the operations that join and part the states, on floats
    reads   value that is a part of a state, as operations read it → the value of which it is the last
    """

    moving: dict[Operation, None] = field(default_factory=dict[Operation, None])
    reads: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])


def parts_of_states(block: Block, observed: Mapping[SSAValue, Observation]) -> StateParts:
    """Finds the states of a block that are joined of parts of which one is much narrower, and are read in parts."""
    found = StateParts()
    for argument, after in state_values(block):
        parts, joining = _joined(after)
        if len(parts) < 2 or any(v not in observed for v in parts):
            continue
        largest = [max(map(abs, observed[v].bounds)) for v in parts]
        if not 0 < min(largest) < NARROWER * max(largest):
            continue
        reads, parting = _parted(argument, _places(after, parts))
        if reads and parting.keys().isdisjoint(joining):
            found.moving |= joining | parting
            found.reads |= {value: parts[part] for value, part in reads.items()}
    return found


def _joined(after: SSAValue) -> tuple[list[SSAValue], dict[Operation, None]]:
    """The values that data movement joins to the next value of a state, which alone they make, and that movement."""
    parts: dict[SSAValue, None] = {}
    joining: dict[Operation, None] = {}
    waiting = [after]
    while waiting:
        value = waiting.pop()
        op = value.owner
        if isinstance(op, MOVING) and not isinstance(op, SliceOp) and (value is after or len(_readers(value)) == 1):
            joining[op] = None
            waiting += op.operands
        else:
            parts[value] = None
    return list(parts), joining


def _places(after: SSAValue, parts: list[SSAValue]) -> Array:
    """For each element of a state, the index of the part that it is of."""

    def marked(value: SSAValue) -> Array:
        if value in parts:
            return np.full(shape_of(value), parts.index(value), np.float32)
        assert isinstance(value.owner, Operation)
        return np.asarray(value.owner.evaluate(*map(marked, value.owner.operands))[0])  # pyright: ignore

    return marked(after)


def _parted(argument: SSAValue, places: Array) -> tuple[dict[SSAValue, int], dict[Operation, None]]:
    """What readers get of a state, each with its part, and the movement before; empty if one has two parts."""
    reads: dict[SSAValue, int] = {}
    parting: dict[Operation, None] = {}
    waiting: list[tuple[SSAValue, Array]] = [(argument, places)]
    while waiting:
        value, here = waiting.pop()
        readers = _readers(value)
        whole = np.unique(here)
        moved = [o for o in readers if isinstance(o, MOVING) and len(o.operands) == 1 and not POLICY.on(o)]
        if len(moved) < len(readers):
            if len(whole) > 1:
                return {}, {}
            reads[value] = int(whole[0])
        for op in moved:
            parting[op] = None
            waiting.append((op.results[0], np.asarray(op.evaluate(here)[0])))
    return reads, parting


def _readers(value: SSAValue) -> list[Operation]:
    return [u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)]
