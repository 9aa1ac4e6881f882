"""The pass `call-layers`: the entry function tells another function where each layer begins and ends.

Enters: an entry function of straight code (attribute `qmlir.inputs`), whose calls carry the numbers of layers. Leaves:
the same calls in the same order, and between them calls of a function that is defined elsewhere (`qmlir.told`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from qmlir.dialects.loops import VIEWS
from qmlir.errors import PipelineError
from qmlir.ir.facts import EXTERNAL, INPUTS, LAYER, SCRATCH, TOLD, TOLD_LAYERS, TOLD_RESULTS
from qmlir.ir.native import is_identifier
from qmlir.ir.passes import option
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.types import is_memref


@dataclass(frozen=True)
class CallLayersPass(ModulePass):
    """Calls a function before the first call of each layer and behind its last: with a number, and with 1 or 0.

    The layers that are computed by calls are numbered from 0 on, in the order of their first calls. Behind a layer, the
    third argument is the address of its result, an index; `qmlir.told_results` has the tensor's name and its type.

    Before:

        func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
          func.call @f(%x, %y) {qmlir.layer = 7 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
          func.return
        }

    After, with `function=net_layer`, in a module with `qmlir.told = "net_layer"`, the operations of the layers,
    `qmlir.told_layers = array<i64: 7>`, and `qmlir.told_results = [["", memref<4xf32>]]`:

        func.func private @net_layer(i32, i32, index) -> () attributes {qmlir.external}
        func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
          %0 = arith.constant 0 : i32
          %1 = arith.constant 1 : i32
          %2 = arith.constant 0 : index
          func.call @net_layer(%0, %1, %2) : (i32, i32, index) -> ()
          func.call @f(%x, %y) {qmlir.layer = 7 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
          %3 = arith.constant 0 : i32
          %4 = "memref.extract_aligned_pointer_as_index"(%y) : (memref<4xf32>) -> index
          func.call @net_layer(%0, %3, %4) : (i32, i32, index) -> ()
          func.return
        }

    Layers that take turns, some rows each, begin and end with each turn. Their results, and others that never lie in
    memory as a whole, have no address: it is 0, and `qmlir.told_results` has `unit` for them.
    """

    name = "call-layers"

    function: str = option(
        "qmlir_layer", "the name of the function, which takes two integers of 32 bits and the address of a result"
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not is_identifier(self.function):
            raise PipelineError(self.name, "function must be an identifier of C", got=self.function)
        functions = {f.sym_name.data: f for f in op.body.block.ops if isinstance(f, func.FuncOp)}
        if self.function in functions:
            need = f"needs a module without a function {self.function}"
            raise PipelineError(self.name, need, got="one of that name")
        entries = [f for f in functions.values() if INPUTS.on(f)]
        if len(entries) != 1 or len(entries[0].body.blocks) != 1:
            need = f"needs one function of straight code with the attribute {INPUTS}"
            raise PipelineError(self.name, need, got=f"{len(entries)}")
        calls = [call for call in entries[0].body.block.ops if isinstance(call, func.CallOp) and LAYER.on(call)]
        turns = [(operation, list(layer)) for operation, layer in groupby(calls, LAYER.required)]
        numbers: dict[int, int] = {}
        results: dict[int, SSAValue | None] = {}
        for operation, layer in turns:
            again = operation in numbers
            numbers.setdefault(operation, len(numbers))
            results[operation] = None if again else _result(layer, functions)
        for operation, layer in turns:
            self._surround(numbers[operation], layer, results[operation])
        arguments = [i32, i32, IndexType()]
        declared = func.FuncOp(self.function, FunctionType.from_lists(arguments, []), Region(), visibility="private")
        EXTERNAL.put(declared)
        TOLD.put(op, self.function)
        TOLD_LAYERS.put(op, list(numbers))
        TOLD_RESULTS.put(op, ArrayAttr(_described(results[operation]) for operation in numbers))
        op.body.block.insert_op_before(declared, next(iter(functions.values())))

    def _surround(self, number: int, calls: Sequence[func.CallOp], result: SSAValue | None) -> None:
        """Inserts the calls before and behind those of a layer."""
        block = calls[0].parent
        assert block is not None
        layer, begins, ends = (arith.ConstantOp(IntegerAttr(n, i32)) for n in (number, 1, 0))
        nowhere = arith.ConstantOp(IntegerAttr(0, IndexType()))
        block.insert_ops_before([layer, begins, nowhere, self._told(layer, begins, nowhere)], calls[0])
        behind: list[Operation] = [ends, self._told(layer, ends, nowhere)]
        if result is not None:
            where = memref.ExtractAlignedPointerAsIndexOp.get(result)
            behind = [ends, where, self._told(layer, ends, where)]
        block.insert_ops_after(behind, calls[-1])

    def _told(self, *arguments: Operation) -> Operation:
        return func.CallOp(self.function, [argument.results[0] for argument in arguments], [])


def _result(calls: Sequence[func.CallOp], functions: dict[str, func.FuncOp]) -> SSAValue | None:
    """The buffer of the result that the calls of a layer write; None if they do not write the whole of one buffer."""
    written: list[SSAValue] = []
    for call in calls:
        kernel = functions.get(call.callee.root_reference.data)
        scratch = 0 if kernel is None else SCRATCH.of(kernel) or 0
        buffers = [operand for operand in call.operands if is_memref(operand.type)]
        if len(buffers) <= scratch:
            return None
        written.append(buffers[len(buffers) - 1 - scratch])
    root = _whole(written[-1])
    parts = [value for value in written if _whole(value) is root]
    if any(_elements(value) == _elements(root) for value in parts):
        return root
    return root if sum(map(_elements, parts)) == _elements(root) else None


def _whole(buffer: SSAValue) -> SSAValue:
    """The buffer that a kernel's argument is a part or another form of: it begins where the plan has placed it."""
    while isinstance(buffer.owner, VIEWS) and not isinstance(buffer.owner, memref.ViewOp):
        buffer = buffer.owner.operands[0]
    return buffer


def _elements(buffer: SSAValue) -> int:
    return prod(_type(buffer).get_shape())


def _type(buffer: SSAValue) -> MemRefType[Attribute]:
    assert is_memref(buffer.type)
    return buffer.type


def _described(result: SSAValue | None) -> Attribute:
    """The name and the type of a result's tensor."""
    return UnitAttr() if result is None else ArrayAttr([StringAttr(tensor_name(result)), _type(result)])
