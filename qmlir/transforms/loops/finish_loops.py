"""The pass `finish-loops`: completes the lowering to loops by removing all tensors from main functions.

Enters: a main function whose tensor operations have become calls of kernels, with casts where a tensor meets a buffer
(see kernel.py). Leaves: no tensors; main takes memrefs, and its results are trailing arguments that `memref.copy`
fills. Operations that no lowering knew are refused here; the error lists all of them.
"""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qmlir.codegen.kernel import LEFTOVERS, erase_dead, is_kernel, storage_memref
from qmlir.dialects.qmlir import OpaqueOp
from qmlir.errors import PipelineError, UnsupportedError
from qmlir.ir.facts import INPUTS, STATE
from qmlir.ir.rewriting import node_name
from qmlir.ir.types import is_memref


class FinishLoopsPass(ModulePass):
    """Folds the casts between tensors and buffers, and makes the results of main trailing memref arguments.

    Before:

        func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
          %x' = builtin.unrealized_conversion_cast %x : tensor<4xf32> to memref<4xf32>
          …
          %y = builtin.unrealized_conversion_cast %y' : memref<4xf32> to tensor<4xf32>
          func.return %y : tensor<4xf32>
        }

    After:

        func.func @main(%x': memref<4xf32>, %out: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
          …
          memref.copy %y', %out : memref<4xf32> to memref<4xf32>
          func.return
        }
    """

    name = "finish-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.body.block.ops if isinstance(f, func.FuncOp) and not is_kernel(f)]
        mains = [f for f in functions if not f.is_declaration and not INPUTS.on(f)]
        for function in mains:
            _refuse_leftovers(function)
        for function in mains:
            _finish(function)


def _refuse_leftovers(function: func.FuncOp) -> None:
    """Refuses a function that still has operations on tensors.

    Raises:
        UnsupportedError: One operation is left.
        PipelineError: Several operations are left; the message names all of them.
    """
    left = [op for op in function.body.block.ops if _on_tensors(op)]
    if not left:
        return
    names = [f'{op.name} "{node_name(op)}"' for op in left]
    remedy = "quantized operations want nn-to-qint first; see `qmlir import` for unknown ones"
    if any(isinstance(op, func.CallOp) for op in left):
        remedy = "calls want inline first, on the whole network"
    if len(left) == 1:
        raise UnsupportedError.at(left[0].name, node_name(left[0]), "has no lowering to loops", remedy=remedy)
    raise PipelineError(
        "finish-loops", f"{len(left)} operations have no lowering to loops: {', '.join(names)}", remedy=remedy
    )


def _on_tensors(op: Operation) -> bool:
    if isinstance(op, UnrealizedConversionCastOp | func.ReturnOp):
        return False
    return isinstance(op, OpaqueOp) or any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def _finish(function: func.FuncOp) -> None:
    block = function.body.block
    inputs = len(block.args)
    terminator = block.last_op
    assert isinstance(terminator, func.ReturnOp)
    results = list(terminator.operands)

    for argument in block.args:
        if isinstance(argument.type, TensorType):
            _retype(argument)
    for op in list(block.ops):
        if isinstance(op, UnrealizedConversionCastOp):
            _fold(op)

    outputs = [storage_memref(r.type) for r in results]
    for i, (type, value) in enumerate(zip(outputs, list(terminator.operands), strict=True)):
        out = block.insert_arg(type, len(block.args))
        out.name_hint = f"out{i}"
        block.insert_op_before(memref.CopyOp(_buffer_of(value), out), terminator)
    block.insert_op_before(func.ReturnOp(), terminator)
    terminator.detach()
    terminator.erase()
    erase_dead(function, LEFTOVERS)

    function.function_type = FunctionType.from_lists([arg.type for arg in block.args], [])
    INPUTS.put(function, inputs)
    _move_names(function, inputs, len(outputs))


def _retype(argument: SSAValue) -> None:
    """Makes a tensor argument a memref; all its uses are casts, which are folded later."""
    Rewriter.replace_value_with_new_type(argument, storage_memref(argument.type))


def _fold(cast: UnrealizedConversionCastOp) -> None:
    """Replaces a cast back to a buffer by the buffer itself."""
    (source,), (result,) = cast.inputs, cast.outputs
    if is_memref(result.type):
        result.replace_all_uses_with(_buffer_of(source))


def _buffer_of(value: SSAValue) -> SSAValue:
    """The memref behind a tensor."""
    while isinstance(value.owner, UnrealizedConversionCastOp):
        value = value.owner.inputs[0]
    return value


def _move_names(function: func.FuncOp, inputs: int, outputs: int) -> None:
    """Moves the attributes of the results to the arguments that replace the results.

    The marks of states are dropped: whoever calls the code keeps the states, and has their places in its signature.
    """

    def entries(attribute: ArrayAttr[DictionaryAttr] | None, count: int) -> Sequence[DictionaryAttr]:
        return attribute.data if attribute is not None else [DictionaryAttr({})] * count

    both: list[DictionaryAttr] = [*entries(function.arg_attrs, inputs), *entries(function.res_attrs, outputs)]
    both = [DictionaryAttr(STATE.without(d.data)) for d in both]
    function.arg_attrs = ArrayAttr(both) if any(d.data for d in both) else None
    function.res_attrs = None
