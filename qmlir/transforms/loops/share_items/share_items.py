"""The pass `share-items`: decides which calls of kernels several threads share.

Enters: an entry function (attribute `qmlir.inputs`) that calls kernels on ranges of items. Leaves: the same, with the
attribute `qmlir.threads` on the calls whose items are to be divided among so many threads; loops-to-llvm makes calls of
the pool of them (backends/cpu/pool.py). With one thread nothing changes.

By default the least work of a share is some 3 to 5 µs. A loop costs the pool 0.1 to 0.7 µs while its workers look for
work; where one sleeps, the caller spends some 5 µs in the system to wake it; and results move from one processor's
cache to another's.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from qmlir.codegen.kernel import PARALLEL
from qmlir.dialects.loops import INPUTS, MOST_THREADS, THREADS
from qmlir.errors import OptionError, PipelineError
from qmlir.ir.passes import option
from qmlir.transforms.loops.share_items.work import work_of


@dataclass(frozen=True)
class ShareItemsPass(ModulePass):
    """Marks the calls of the entry that are worth being shared; each share has at least `least-work` to do.

    Before:

        func.call @conv_0(%x, %w, %y, %c0, %c56) : (memref<…>, memref<…>, memref<…>, index, index) -> ()
        func.call @add_0(%y, %z, %c0, %c1) : (memref<…>, memref<…>, index, index) -> ()

    After:

        func.call @conv_0(%x, %w, %y, %c0, %c56) {qmlir.threads = 2 : i64} : (…) -> ()
        func.call @add_0(%y, %z, %c0, %c1) : (memref<…>, memref<…>, index, index) -> ()

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
        entries = [f for f in functions if INPUTS in f.attributes]
        if len(entries) != 1:
            raise PipelineError(self.name, f"needs one function with the attribute {INPUTS}", got=f"{len(entries)}")
        defined = {f.sym_name.data: f for f in functions if not f.is_declaration}
        for call in entries[0].walk():
            if isinstance(call, func.CallOp) and (kernel := defined.get(call.callee.string_value())) is not None:
                sharers = self._sharers(kernel, call, defined) if PARALLEL in kernel.attributes else 1
                if sharers > 1:
                    call.attributes[THREADS] = IntegerAttr(sharers, i64)

    def _sharers(self, kernel: func.FuncOp, call: func.CallOp, functions: Mapping[str, func.FuncOp]) -> int:
        """How many threads are to share the items of a call."""
        begin, items = (_number(value) for value in call.arguments[-2:])
        if begin != 0 or items is None or min(self.threads, items) < 2:
            return 1
        return min(self.threads, items, work_of(kernel, items, functions) // self.least_work)


def _number(value: SSAValue) -> int | None:
    """The number of a constant; None if the value is computed."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return value.owner.value.value.data
    return None
