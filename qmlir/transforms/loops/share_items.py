"""The pass `share-items`: decides which calls of kernels several threads share.

Enters: an entry function (attribute `qmlir.inputs`) that calls kernels on ranges of items. Leaves: the same, with the
attribute `qmlir.threads` on the calls whose items are to be divided among so many threads; loops-to-llvm makes calls of
the pool of them (backends/cpu/pool.py). With one thread nothing changes.

By default the least work of a share is some 3 to 5 µs. A loop costs the pool 0.1 to 0.7 µs while its workers look for
work; where one sleeps, the caller spends some 5 µs in the system to wake it; and results move from one processor's
cache to another's.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func, math, scf, vector
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from qmlir.dialects.loops import MOST_THREADS
from qmlir.dialects.qmlir import ConstantBufferOp
from qmlir.dialects.simd import (
    AddBytesOp,
    AddWordsOp,
    DotI16PairsOp,
    LookupBytesOp,
    MulAddShiftRoundOp,
    MulShiftRoundOp,
)
from qmlir.errors import OptionError, PipelineError
from qmlir.ir.facts import INPUTS, PARALLEL, THREADS
from qmlir.ir.passes import option
from qmlir.ir.signature import batch_of
from qmlir.ir.types import is_vector


@dataclass(frozen=True)
class ShareItemsPass(ModulePass):
    """Marks the calls of the entry that are worth being shared; each share has at least `least-work` to do.

    Before:

        func.call @conv_0(%x, %w, %y, %c0, %c56) : (memref<…>, memref<…>, memref<…>, index, index) -> ()
        func.call @add_0(%y, %z, %c0, %c1) : (memref<…>, memref<…>, index, index) -> ()

    After:

        func.call @conv_0(%x, %w, %y, %c0, %c56) {qmlir.threads = 2 : i64} : (…) -> ()
        func.call @add_0(%y, %z, %c0, %c1) : (memref<…>, memref<…>, index, index) -> ()

    An entry that `batch-samples` has marked gets the attribute, too: threads share the samples of a batch.

    Not shared are calls of functions without the attribute `qmlir.parallel`, whose last two arguments need not be a
    range of items, and calls on ranges that do not begin at 0 or whose end is computed.
    """

    name = "share-items"

    threads: int = option(1, "threads that a call of the network may use")
    least_work: int = option(25_000, "the least work of a share, in instructions on 32 bytes")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not 1 <= self.threads <= MOST_THREADS:
            raise OptionError("threads", f"must be a number from 1 to {MOST_THREADS}", got=str(self.threads))
        if self.least_work < 1:
            raise OptionError("least-work", "must be positive", got=str(self.least_work))
        functions = [f for f in op.body.block.ops if isinstance(f, func.FuncOp)]
        entries = [f for f in functions if INPUTS.on(f)]
        if not entries:
            raise PipelineError(self.name, f"needs one function with the attribute {INPUTS}", got="0")
        defined = {f.sym_name.data: f for f in functions if not f.is_declaration}
        for entry in entries if self.threads > 1 else ():
            if batch_of(entry) is not None:
                THREADS.put(entry, self.threads)
        for entry in entries:
            from_memory = _constant_bytes(entry.body.block.ops) > CACHED
            for call in entry.walk():
                if isinstance(call, func.CallOp) and (kernel := defined.get(call.callee.string_value())) is not None:
                    sharers = self._sharers(kernel, call, defined, from_memory) if PARALLEL.on(kernel) else 1
                    if sharers > 1:
                        THREADS.put(call, sharers)

    def _sharers(
        self, kernel: func.FuncOp, call: func.CallOp, functions: Mapping[str, func.FuncOp], from_memory: bool
    ) -> int:
        """How many threads are to share the items of a call, whose constants may be too many for caches."""
        begin, items = (_number(value) for value in call.arguments[-2:])
        if begin != 0 or items is None or min(self.threads, items) < 2:
            return 1
        work = work_of(kernel, items, functions)
        if from_memory:
            work = max(work, _constant_bytes(v.owner for v in call.arguments) * FROM_MEMORY // REGISTER)
        return min(self.threads, items, work // self.least_work)


def _constant_bytes(owners: Iterable[Operation | Block]) -> int:
    """The bytes of the constants among operations."""
    return sum(op.value.array.nbytes for op in {*owners} if isinstance(op, ConstantBufferOp))


def _number(value: SSAValue) -> int | None:
    """The number of a constant; None if the value is computed."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None


# ---------------------------------------------------------------------------------------------------------------
# How much work a call of a kernel is, estimated from the kernel's loops.
#
# The unit is about one instruction on up to 32 bytes. Kernels of trained networks take 0.07 to 0.3 ns for it, mostly
# 0.1 to 0.2, on a processor of 2021 with AVX2. A loop costs its trips times its body. Bounds of inner loops often
# depend on the place in outer loops (the border of an image, the last tile), so index arithmetic is evaluated for the
# middle of each loop around it: one walk over the kernel and the functions that it calls, and no loop is run. A loop
# whose bounds depend on data counts as one trip.


REGISTER = 32
"""Bytes that one instruction computes."""

CACHED = 4 << 20
"""Bytes of an entry's constants up to which they are taken to stay in a processor's cache from call to call."""

FROM_MEMORY = 12
"""Instructions that a processor executes while it reads 32 bytes from memory, at 16 GB/s.

A layer that reads each weight once, as those of a decoder of one row do, waits for its weights."""

COSTS: Mapping[type[Operation], int] = {
    **dict.fromkeys((arith.ConstantOp, scf.YieldOp, vector.BitcastOp, vector.BroadcastOp, vector.ExtractOp), 0),
    DotI16PairsOp: 2,
    MulShiftRoundOp: 8,
    MulAddShiftRoundOp: 13,
    AddBytesOp: 36,
    AddWordsOp: 18,
    **dict.fromkeys((arith.DivfOp, arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp, math.SqrtOp), 8),
}
"""Instructions that an operation takes for each register of its result, if it is not one."""

ROW, ROW_COST = 16, 3
"""Entries of a table of bytes, and the instructions that they take for each register of what is looked up."""


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
        if isinstance(op, LookupBytesOp):
            return registers * ROW_COST * -(-_bytes(op.table.type) // ROW)
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
        return prod(type.get_shape()) * _bytes(type.element_type)
    return -(-type.bitwidth // 8) if isinstance(type, IntegerType | AnyFloat) else 0
