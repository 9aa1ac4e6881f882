"""Divides a network with observers into pieces, from which ranges are learned one after another.

A compiled network has its weights in memory twice: as constants, and in the order in which its kernels read them. And
all tensors that are observed in a call live until the call ends. Of a network in pieces, only the piece that runs takes
this memory; what later pieces read is carried for each call.

    token ─► piece 0 ─► x, cos, sin ─► piece 1 ─► x', cos, sin ─► …
              k0, v0                    k7, v7            states of a piece live from call to call

A piece is a stretch of the function, and ends where little is carried. Each state is read and written in one piece, so
that a piece can run all calls before the next piece begins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, FunctionType, IntegerType, ModuleOp, TensorType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.signature import defined_functions, main_function
from qmlir.ir.states import states_of

LARGE = 128 << 20
"""About the bytes of a piece: of its weights, and of all tensors that it computes in a call."""

CARRIED = 1 << 26
"""The most bytes that are carried for a call from piece to piece."""


@dataclass(frozen=True)
class Piece:
    """A stretch of a function.

    network     the module with the function
    operations  the operations that compute the results, without constants
    inputs      the values that they read: arguments of the function, states among them, and results of earlier pieces
    results     the values that are observed, next values of states, or read by later pieces; no inputs among them
    states      the states that it reads or writes: value before a call → value behind it
    observed    each observed tensor's name and value, in the order of the observers
    """

    network: ModuleOp
    operations: Sequence[Operation]
    inputs: Sequence[SSAValue]
    results: Sequence[SSAValue]
    states: Mapping[SSAValue, SSAValue]
    observed: Sequence[tuple[str, SSAValue]]

    def module(self) -> ModuleOp:
        """Returns a network by itself, from the inputs to the results, with the constants that the operations read."""
        block = Block(arg_types=[v.type for v in self.inputs])
        values: dict[SSAValue, SSAValue] = dict(zip(self.inputs, block.args, strict=True))
        for op in self.operations:
            constants = dict.fromkeys(v.owner for v in op.operands if isinstance(v.owner, ConstantOp))
            block.add_ops(c.clone(values) for c in constants if c.y not in values)
            block.add_op(op.clone(values))
        block.add_op(func.ReturnOp(*(values[v] for v in self.results)))
        type = FunctionType.from_lists([v.type for v in self.inputs], [v.type for v in self.results])
        called = [op.clone() for op in self.network.ops if isinstance(op, func.FuncOp) and op.is_declaration]
        return ModuleOp([*called, func.FuncOp("main", type, Region(block))], dict(self.network.attributes))


def pieces_of(observed: ModuleOp, size: int | None = None) -> list[Piece]:
    """Returns the pieces of a network; none if it is small, or cannot be divided.

    Args:
        observed: A float network with observers; it stays unchanged.
        size: About the bytes of a piece; None for `LARGE`.
    """
    if len(defined_functions(observed)) > 1:
        return []
    stretch = _Stretch(main_function(observed))
    if not stretch.divides():
        return []
    ends = stretch.ends(LARGE if size is None else size)
    return [] if len(ends) < 2 else [_piece(observed, stretch, a, b) for a, b in pairwise([0, *ends])]


class _Stretch:
    """A function as a row of operations that compute; constants stand where they are read.

    operations  the operations
    observers   the observers
    place       value → the place of the operation that computes it, or that is the first to read an argument
    last        value → the last place where it is read
    states      argument → next value, of the states
    """

    def __init__(self, function: func.FuncOp):
        block = function.body.block
        end = block.last_op
        assert isinstance(end, func.ReturnOp)
        self.observers = [o for o in block.ops if isinstance(o, ObserveOp)]
        self.operations = [o for o in block.ops if not isinstance(o, ObserveOp | ConstantOp | func.ReturnOp)]
        self.states: dict[SSAValue, SSAValue] = {
            block.args[i]: end.operands[state.index] for i, state in states_of(function).items()
        }
        self.place: dict[SSAValue, int] = {r: i for i, op in enumerate(self.operations) for r in op.results}
        self.last = dict(self.place)
        for i, op in enumerate(self.operations):
            for value in op.operands:
                if not isinstance(value.owner, ConstantOp):
                    self.place.setdefault(value, i)
                    self.last[value] = i
        for argument in block.args:
            self.place.setdefault(argument, 0)
            self.last.setdefault(argument, 0)

    def divides(self) -> bool:
        """Whether stretches of the function can be networks by themselves, and count its tensors as the whole would."""
        names = {o.tensor.data for o in self.observers}  # values of one name are counted together
        seen = all(o.value in self.place for o in self.observers)
        return seen and len(names) == len(self.observers) and not any(op.regions for op in self.operations)

    def ends(self, size: int) -> list[int]:
        """The places behind each piece."""
        if not self.operations:
            return []
        count, weights = len(self.operations), set[SSAValue]()
        carried, held = self._carried(), self._held_together()
        found, taken, best = list[int](), 0, 0
        for end, op in enumerate(self.operations, 1):
            read = {v for v in op.operands if isinstance(v.owner, ConstantOp)} - weights
            weights |= read
            taken += sum(map(bytes_of, (*read, *op.results)))
            fits = end < count and end not in held and carried[end] <= CARRIED
            if fits and 2 * taken >= size and (best == 0 or carried[end] <= carried[best]):
                best = end
            if best and taken >= size:
                found.append(best)
                behind = self.operations[best:end]
                weights = {v for o in behind for v in o.operands if isinstance(v.owner, ConstantOp)}
                taken = sum(map(bytes_of, weights)) + sum(bytes_of(r) for o in behind for r in o.results)
                best = 0
        return [*found, count]

    def _carried(self) -> list[int]:
        """For each place, the bytes of a call that the operations from there on read from those before."""
        changes = [0] * (len(self.operations) + 1)
        for value, last in self.last.items():
            begin = 0 if isinstance(value, BlockArgument) else self.place[value] + 1
            if last >= begin and value not in self.states:
                changes[begin] += bytes_of(value)
                changes[last + 1] -= bytes_of(value)
        total, found = 0, list[int]()
        for change in changes:
            total += change
            found.append(total)
        return found

    def _held_together(self) -> set[int]:
        """The places where a state would be read on one side and written on the other."""
        found = set[int]()
        for argument, value in self.states.items():
            places = [self.place[argument], self.last[argument]]
            places += [self.place[value]] if value in self.place else [0, len(self.operations)]
            found.update(range(min(places) + 1, max(places) + 1))
        return found


def _piece(observed: ModuleOp, stretch: _Stretch, begin: int, end: int) -> Piece:
    """Returns the piece of the operations at places from `begin` on and before `end`."""
    operations = stretch.operations[begin:end]
    made = dict.fromkeys(r for op in operations for r in op.results)
    states = {a: v for a, v in stretch.states.items() if begin <= stretch.place[a] < end}
    seen = [(o.tensor.data, o.value) for o in stretch.observers if begin <= stretch.place[o.value] < end]
    later = [v for v in made if stretch.last[v] >= end]
    wanted = dict.fromkeys(v for v in [*(v for _, v in seen), *states.values(), *later] if v in made)
    needed, kept = set(wanted), list[Operation]()
    for op in reversed(operations):
        if not needed.isdisjoint(op.results):
            kept.append(op)
            needed.update(op.operands)
    read = {v: None for op in reversed(kept) for v in op.operands if not isinstance(v.owner, ConstantOp)}
    inputs = [*dict.fromkeys(v for v in (*read, *states, *states.values(), *(v for _, v in seen)) if v not in made)]
    return Piece(observed, kept[::-1], inputs, [*wanted], states, seen)


def bytes_of(value: SSAValue) -> int:
    """The bytes of a tensor of floats, integers or truth values."""
    if not isinstance(value.type, TensorType):
        return 0
    element = element_of(value)
    width = element.bitwidth if isinstance(element, AnyFloat | IntegerType) else 64
    return prod(shape_of(value)) * -(-width // 8)
