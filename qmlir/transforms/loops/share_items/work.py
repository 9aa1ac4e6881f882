"""How much work a call of a kernel is, estimated from the kernel's loops.

The unit is about one instruction on up to 32 bytes. Kernels of trained networks take 0.07 to 0.3 ns for it, mostly 0.1
to 0.2, on a processor of 2021 with AVX2. A loop costs its trips times its body. Bounds of inner loops often depend on
the place in outer loops (the border of an image, the last tile), so index arithmetic is evaluated for the middle of
each loop around it: one walk over the kernel, and no loop is run. A loop whose bounds depend on data counts as one
trip.
"""

import operator
from collections.abc import Callable, Mapping

from xdsl.dialects import arith, func, math, scf, vector
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from qmlir.dialects.simd import DotI16PairsOp, MulAddShiftRoundOp, MulShiftRoundOp
from qmlir.ir.types import is_vector

REGISTER = 32
"""Bytes that one instruction computes."""

COSTS: Mapping[type[Operation], int] = {
    **dict.fromkeys((arith.ConstantOp, scf.YieldOp, vector.BitcastOp, vector.BroadcastOp, vector.ExtractOp), 0),
    DotI16PairsOp: 2,
    MulShiftRoundOp: 8,
    MulAddShiftRoundOp: 13,
    **dict.fromkeys((arith.DivfOp, arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, math.SqrtOp), 8),
}
"""Instructions that an operation takes for each register of its result, if it is not one."""


def work_of(kernel: func.FuncOp, items: int, functions: Mapping[str, func.FuncOp]) -> int:
    """The work of a call of `kernel`, whose last two arguments are a range of items, on all of [0, items).

    `functions` are the functions that it may call, by their symbols.
    """
    *_, begin, end = kernel.args
    return round(_Estimate({begin: 0, end: items}, functions).block(kernel.body.block))


class _Estimate:
    """Estimates blocks; `numbers` holds the indices that are known at the place that stands for all others."""

    def __init__(self, numbers: dict[SSAValue, int], functions: Mapping[str, func.FuncOp]):
        self.numbers = numbers
        self.functions = functions

    def block(self, block: Block) -> float:
        """The work of running a block once."""
        return sum(self.operation(op) for op in block.ops)

    def operation(self, op: Operation) -> float:
        """The work of an operation; notes its result if that is an index whose operands are known."""
        if isinstance(op, scf.ForOp):
            return self.loop(op)
        if isinstance(op, scf.IfOp):
            return max(self.block(region.block) for region in op.regions if region.blocks)
        if isinstance(op, func.CallOp) and (callee := self.functions.get(op.callee.string_value())) is not None:
            known: dict[SSAValue, int] = {}
            for inside, outside in zip(callee.args, op.arguments, strict=True):
                if outside in self.numbers:
                    known[inside] = self.numbers[outside]
            others = {name: f for name, f in self.functions.items() if f is not callee}  # recursion counts as nothing
            return _Estimate(known, others).block(callee.body.block)
        if op.results and isinstance(op.results[0].type, IndexType | IntegerType):
            self.evaluate(op)
        touched = [value.type for value in (*op.results, *op.operands[: 0 if op.results else 1])]
        registers = sum(-(-_bytes(type) // REGISTER) for type in touched)
        return registers * COSTS.get(type(op), 1)

    def loop(self, op: scf.ForOp) -> float:
        """The trips of a loop times the work of its body in the middle of them."""
        lower, upper, step = (self.numbers.get(value) for value in (op.lb, op.ub, op.step))
        trips = 1
        if lower is not None and upper is not None and step is not None and step > 0:
            trips = max(0, -(-(upper - lower) // step))
            self.numbers[op.body.block.args[0]] = lower + trips // 2 * step
        return trips * self.block(op.body.block) if trips else 0

    def evaluate(self, op: Operation) -> None:
        """Notes the result of an operation on known numbers."""
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
            self.numbers[op.result] = op.value.value.data
            return
        known = [self.numbers[value] for value in op.operands if value in self.numbers]
        if len(known) < len(op.operands):
            return
        if isinstance(op, arith.CmpiOp):
            self.numbers[op.result] = int(COMPARISONS[op.predicate.value.data](*known))
        elif (arithmetic := ARITHMETIC.get(type(op))) is not None:
            self.numbers[op.results[0]] = arithmetic(*known)


def _quotient(a: int, b: int) -> int:
    return a // b if b else 0


def _remainder(a: int, b: int) -> int:
    return a % b if b else 0


def _chosen(condition: int, a: int, b: int) -> int:
    return a if condition else b


def _unsigned(compare: Callable[[int, int], bool]) -> Callable[[int, int], bool]:
    return lambda a, b: compare(a % 2**64, b % 2**64)


ARITHMETIC: Mapping[type[Operation], Callable[..., int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.DivUIOp: _quotient,
    arith.RemUIOp: _remainder,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.SelectOp: _chosen,
}
"""What index arithmetic computes, of numbers that are not so large that they wrap around."""

_ORDERS: tuple[Callable[[int, int], bool], ...] = (operator.lt, operator.le, operator.gt, operator.ge)

COMPARISONS = (operator.eq, operator.ne, *_ORDERS, *(_unsigned(order) for order in _ORDERS))
"""The predicates of `arith.cmpi` by number."""


def _bytes(type: Attribute) -> int:
    """The bytes of a value that an instruction computes or stores; an index takes none, as it becomes an address."""
    if is_vector(type):
        (lanes,) = type.get_shape()
        return lanes * _bytes(type.element_type)
    return -(-type.bitwidth // 8) if isinstance(type, IntegerType | AnyFloat) else 0
