"""The pass `call-layers`: the entry function tells another function where each layer begins and ends.

Enters: an entry function of straight code (attribute `qmlir.inputs`), whose calls carry the numbers of layers. Leaves:
the same calls in the same order, and between them calls of a function that is defined elsewhere (`qmlir.told`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass

from qmlir.errors import PipelineError
from qmlir.ir.facts import EXTERNAL, INPUTS, LAYER, TOLD, TOLD_LAYERS
from qmlir.ir.native import is_identifier
from qmlir.ir.passes import option


@dataclass(frozen=True)
class CallLayersPass(ModulePass):
    """Calls a function before the first call of each layer and behind its last: with a number, and with 1 or 0.

    The layers that are computed by calls are numbered from 0 on, in the order of their first calls.

    Before:

        func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
          func.call @f(%x, %y) {qmlir.layer = 7 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
          func.return
        }

    After, with `function=net_layer`, in a module with `qmlir.told = "net_layer"` and the operations of the layers,
    `qmlir.told_layers = array<i64: 7>`:

        func.func private @net_layer(i32, i32) -> () attributes {qmlir.external}
        func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
          %0 = arith.constant 0 : i32
          %1 = arith.constant 1 : i32
          func.call @net_layer(%0, %1) : (i32, i32) -> ()
          func.call @f(%x, %y) {qmlir.layer = 7 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
          %2 = arith.constant 0 : i32
          func.call @net_layer(%0, %2) : (i32, i32) -> ()
          func.return
        }

    Layers that take turns, some rows each, begin and end with each turn.
    """

    name = "call-layers"

    function: str = option("qmlir_layer", "the name of the function, which takes two integers of 32 bits")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not is_identifier(self.function):
            raise PipelineError(self.name, "function must be an identifier of C", got=self.function)
        functions = [f for f in op.body.block.ops if isinstance(f, func.FuncOp)]
        if any(f.sym_name.data == self.function for f in functions):
            need = f"needs a module without a function {self.function}"
            raise PipelineError(self.name, need, got="one of that name")
        entries = [f for f in functions if INPUTS.on(f)]
        if len(entries) != 1 or len(entries[0].body.blocks) != 1:
            need = f"needs one function of straight code with the attribute {INPUTS}"
            raise PipelineError(self.name, need, got=f"{len(entries)}")
        calls = [call for call in entries[0].body.block.ops if isinstance(call, func.CallOp) and LAYER.on(call)]
        numbers: dict[int, int] = {}
        for operation, layer in groupby(calls, LAYER.required):
            self._surround(numbers.setdefault(operation, len(numbers)), list(layer))
        declared = func.FuncOp(self.function, FunctionType.from_lists([i32, i32], []), Region(), visibility="private")
        EXTERNAL.put(declared)
        TOLD.put(op, self.function)
        TOLD_LAYERS.put(op, list(numbers))
        op.body.block.insert_op_before(declared, functions[0])

    def _surround(self, number: int, calls: Sequence[func.CallOp]) -> None:
        """Inserts the calls before and behind those of a layer."""
        block = calls[0].parent
        assert block is not None
        layer = arith.ConstantOp(IntegerAttr(number, i32))
        block.insert_ops_before([layer, *self._told(layer, 1)], calls[0])
        block.insert_ops_after([*self._told(layer, 0)], calls[-1])

    def _told(self, layer: arith.ConstantOp, begins: int) -> list[Operation]:
        side = arith.ConstantOp(IntegerAttr(begins, i32))
        return [side, func.CallOp(self.function, [layer.result, side.result], [])]
