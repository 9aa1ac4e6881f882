"""`strip-func-quant-types`: makes functions take and return stored integers in place of quantized values.

Inside a function nothing changes: a `quant.scast` converts each quantized argument and each quantized result. Callers
that know nothing of quantized types can call the function then.
"""

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.errors import PipelineError
from qmlir.ir.states import set_state, states_of, stored_state
from qmlir.ir.types import element_type, stored_type


class StripFuncQuantTypesPass(ModulePass):
    """Replaces quantized types in function signatures, calls and returns by the types of their stored integers.

    ```mlir
    func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5>>) {
      "test.op"(%x) : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> ()
    // becomes
    func.func @f(%x: tensor<4xi8>) {
      %0 = quant.scast %x : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5>>
      "test.op"(%0) : (tensor<4x!quant.uniform<i8:f32, 0.5>>) -> ()
    ```

    Functions, calls and returns of the whole module change together, so it stays consistent; another operation with a
    function type that names quantized types (`func.constant`) is refused, and so are quantized types that are not
    stored as integers, as no cast converts them to their stored values.
    """

    name = "strip-func-quant-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        operations = list(op.walk())
        for operation in operations:
            _refuse_function_values(operation)
            if isinstance(operation, func.FuncOp):
                _require_integers(operation)
        for operation in operations:
            match operation:
                case func.FuncOp():
                    _strip_function(operation)
                case func.ReturnOp():
                    _store_operands(operation)
                case func.CallOp():
                    _store_operands(operation)
                    for result in tuple(operation.results):
                        _store_value(result, InsertPoint.after(operation))
                case _:
                    pass
        for operation in op.walk(reverse=True):
            if isinstance(operation, StorageCastOp) and not operation.result.uses:
                Rewriter.erase_op(operation)


def _refuse_function_values(op: Operation) -> None:
    """Refuses functions on quantized types that are values: this pass cannot follow the uses of such a value.

    Raises:
        PipelineError: The operation has an operand or a result with such a function type.
    """
    for type in (v.type for v in (*op.operands, *op.results)):
        if isinstance(type, FunctionType) and _stripped(type) != type:
            raise PipelineError(
                StripFuncQuantTypesPass.name,
                "functions on quantized types must not be values",
                got=str(type),
                remedy="call functions by name",
            )


def _require_integers(function: func.FuncOp) -> None:
    type = function.function_type
    for t in (*type.inputs, *type.outputs):
        if stored_type(t) != t and not isinstance(element_type(stored_type(t)), IntegerType):
            raise PipelineError(
                StripFuncQuantTypesPass.name,
                f"quantized types of function {function.sym_name.data} must be stored as integers",
                got=str(t),
                remedy="use !quant.uniform with integer storage",
            )


def _stripped(type: FunctionType) -> FunctionType:
    return FunctionType.from_lists([stored_type(t) for t in type.inputs], [stored_type(t) for t in type.outputs])


def _strip_function(function: func.FuncOp) -> None:
    for index, state in states_of(function).items():
        set_state(function, index, stored_state(function.function_type.inputs.data[index], state))
    function.function_type = _stripped(function.function_type)
    if (entry := function.body.blocks.first) is not None:
        for argument in tuple(entry.args):
            _store_value(argument, InsertPoint.at_start(entry))


def _store_value(value: SSAValue, where: InsertPoint) -> None:
    """Gives a quantized value its stored type, and its uses a cast back to the quantized type."""
    type, hint = value.type, value.name_hint
    if stored_type(type) == type:
        return
    stored = Rewriter.replace_value_with_new_type(value, stored_type(type))
    stored.name_hint = hint
    cast = StorageCastOp(stored, type)
    stored.replace_uses_with_if(cast.result, lambda use: use.operation is not cast)
    Rewriter.insert_op(cast, where)


def _store_operands(op: func.CallOp | func.ReturnOp) -> None:
    for index, operand in enumerate(op.operands):
        if stored_type(operand.type) != operand.type:
            op.operands[index] = _stored(operand)


def _stored(value: SSAValue) -> SSAValue:
    """The stored integers of a quantized value, cast where it is defined."""
    owner = value.owner
    if isinstance(owner, StorageCastOp):  # usually of an argument or of a call's result: its input holds the integers
        return owner.input
    cast = StorageCastOp(value, stored_type(value.type))
    Rewriter.insert_op(cast, InsertPoint.after(owner) if isinstance(owner, Operation) else InsertPoint.at_start(owner))
    return cast.result
