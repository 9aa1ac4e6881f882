"""Cones: the operations through which one tensor, and no other, determines another tensor."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.nn import AddOp, ConstantOp, DivOp, MulOp, SubOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.functions import LinearOp
from qmlir.dialects.nn.queries import constant_of
from qmlir.ir.interfaces import Array
from qmlir.transforms.nn.name_functions.axes import Layout
from qmlir.transforms.nn.name_functions.probes import MOVED

LONGEST, OF_FUNCTIONS, OF_LINES = 32, 12, 5
"""The most operations of a cone: of any, of one that ends with a function of one element, and with relu or a clamp."""

Places = Mapping[Operation, float]
"""The place of each operation that probes can pass, in its block."""


@dataclass(frozen=True)
class Cone:
    """The operations between two tensors; only they read their results, except for that of the last.

    base        the first tensor
    operations  the operations, each before its readers
    """

    base: SSAValue
    operations: Sequence[Operation]

    @property
    def end(self) -> SSAValue:
        """The last tensor."""
        return self.operations[-1].results[0]

    @property
    def computing(self) -> list[Operation]:
        """The operations that do not only move or convert elements."""
        return [op for op in self.operations if not isinstance(op, MOVED)]

    def constants(self) -> list[ConstantOp]:
        """The constants that the operations read."""
        found = (constant_of(v) for op in self.operations for v in op.operands)
        return [*dict.fromkeys(c for c in found if c is not None)]

    def numbers(self) -> list[float]:
        """The different numbers among the constants of one element."""
        arrays: list[Array] = [c.value.array for c in self.constants()]
        numbers = {float(a.reshape(-1)[0]) for a in arrays if a.size == 1 and a.dtype.kind == "f"}
        return sorted(n for n in numbers if np.isfinite(n))


@dataclass(frozen=True)
class Named:
    """Operations that may take the place of a cone.

    cost   how many of them compute
    plain  whether the named operation is the last of them that computes
    write  makes them; none exists before, since even an operation in no block counts as a reader of its operands
    """

    cost: int
    plain: bool
    write: Callable[[], list[Operation]]


def cones(end: Operation, places: Places) -> Iterator[Cone]:
    """The cones that end with an operation, the smallest first.

    Operations are taken in reverse order. Whenever only one tensor is left that those taken read, all ways from the
    network's inputs to the last operation lead through it. Of two tensors that probes cannot pass, both are needed.
    """
    waiting: dict[SSAValue, float] = {end.results[0]: places[end]}
    others: set[SSAValue] = set()
    taken: list[Operation] = []
    most = OF_LINES if isinstance(end, LinearOp) else OF_FUNCTIONS if isinstance(end, FunctionOp) else LONGEST
    bends = False
    while waiting and len(taken) < most and len(others) < 2:
        last = max(waiting, key=waiting.__getitem__)
        op = last.owner
        assert isinstance(op, Operation)
        del waiting[last]
        taken.append(op)
        bends |= not isinstance(op, (*MOVED, AddOp, SubOp)) and not is_multiple(op)
        for value in op.operands:
            if isinstance(owner := value.owner, Operation) and owner in places:
                waiting[value] = places[owner]
            elif constant_of(value) is None:
                others.add(value)
        if bends and len(waiting) + len(others) == 1:
            (base,) = (*waiting, *others)
            cone = Cone(base, taken[::-1])
            if is_float(base) and is_closed(cone):
                yield cone


def is_multiple(op: Operation) -> bool:
    """Whether an operation multiplies or divides by a constant; with sums alone it computes no function with a name."""
    if isinstance(op, DivOp):
        return constant_of(op.rhs) is not None
    return isinstance(op, MulOp) and any(constant_of(value) is not None for value in op.operands)


def is_closed(cone: Cone) -> bool:
    """Whether nothing else reads what a cone's operations compute before its end."""
    own = set(cone.operations)
    inner = (r for op in cone.operations[:-1] for r in op.results)
    return all(use.operation in own for r in inner for use in r.uses)


def constant_along(array: Array, layout: Layout, sizes: Sequence[int]) -> Array:
    """An array [1, *axes] with the dimensions of a layout, without leading dimensions of size 1."""
    if array.size == 1:
        return array.reshape(())
    own = array[0]
    for axes in layout:  # a dimension in which some axis varies has all its elements
        if any(own.shape[a] > 1 for a in axes):
            own = np.broadcast_to(own, [sizes[a] if a in axes else n for a, n in enumerate(own.shape)])
    own = own.transpose([a for axes in layout for a in axes])
    varying = iter(own.shape)
    shape = [prod(next(varying) for _ in axes) for axes in layout]
    while shape and shape[0] == 1:
        shape = shape[1:]
    return own.reshape(shape)
