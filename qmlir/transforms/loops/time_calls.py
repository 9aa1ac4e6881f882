"""The pass `time-calls`: the entry function measures how long each of its calls takes.

Enters: an entry function of straight code (attribute `qmlir.inputs`), before its memory is planned. Leaves: the same
calls in the same order, and readings of a counter between them, which an additional output receives. The kernels and
what they compute stay the same.
"""

from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i64,
)
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from qmlir.dialects.qmlir import ClockOp
from qmlir.errors import PipelineError
from qmlir.ir.facts import ARENA_SIZE, INPUTS, LAYER, TIMED
from qmlir.ir.passes import option


@dataclass(frozen=True)
class TimeCallsPass(ModulePass):
    """Reads a counter before the first call of the entry function and after each call.

    Before:

        func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
          func.call @f(%x, %y) {qmlir.layer = 7 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
          func.return
        }

    After, in a module with `qmlir.timed = array<i64: 7>`, the number of the layer that each call computes:

        func.func @main(%x: memref<4xf32>, %y: memref<4xf32>, %clock: memref<2xi64>)
            attributes {qmlir.inputs = 1 : i64} {
          %0 = arith.constant 0 : index
          %1 = qmlir.clock "cycle"
          memref.store %1, %clock[%0] : memref<2xi64>
          func.call @f(%x, %y) {qmlir.layer = 7 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
          %2 = arith.constant 1 : index
          %3 = qmlir.clock "cycle"
          memref.store %3, %clock[%2] : memref<2xi64>
          func.return
        }
    """

    name = "time-calls"

    counter: Literal["cycle", "steady"] = option(
        "cycle", "the counter: cycle (x86), or steady where user code may not read the other (AArch64)"
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if ARENA_SIZE.on(op):
            raise PipelineError(self.name, "must run before plan-memory", got="a module whose memory is planned")
        if TIMED.on(op):
            raise PipelineError(self.name, "must run once", got="a module whose calls are timed")
        entries = [f for f in op.body.block.ops if isinstance(f, func.FuncOp) and INPUTS.on(f)]
        if len(entries) != 1:
            raise PipelineError(self.name, f"needs one function with the attribute {INPUTS}", got=f"{len(entries)}")
        if len(entries[0].body.blocks) != 1:
            raise PipelineError(self.name, "needs an entry function of straight code")
        layers = _time(entries[0], self.counter)
        TIMED.put(op, layers)


def _time(entry: func.FuncOp, counter: str) -> list[int]:
    """Inserts the readings and the output that receives them; returns the layer that each call computes."""
    block = entry.body.block
    calls = [op for op in block.ops if isinstance(op, func.CallOp)]
    clock = block.insert_arg(MemRefType(i64, [len(calls) + 1]), len(block.args))
    clock.name_hint = "clock"
    entry.function_type = FunctionType.from_lists(block.arg_types, entry.function_type.outputs.data)
    if entry.arg_attrs is not None:
        entry.arg_attrs = ArrayAttr([*entry.arg_attrs, DictionaryAttr({})])

    def reading(index: int) -> list[Operation]:
        place = arith.ConstantOp(IntegerAttr(index, IndexType()))
        time = ClockOp(counter)
        return [place, time, memref.StoreOp.get(time.result, clock, [place.result])]

    first = block.first_op if not calls else calls[0]
    assert first is not None
    block.insert_ops_before(reading(0), first)
    for number, call in enumerate(calls, 1):
        block.insert_ops_after(reading(number), call)
    return [_layer(call) for call in calls]


def _layer(call: func.CallOp) -> int:
    number = LAYER.of(call)
    return -1 if number is None else number
