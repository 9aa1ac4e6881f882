"""`quantize-states`: stores a state as the integers from which its next value is dequantized.

A state (ir/states.py) whose next value is the result of a `quant.dcast` passes between calls as floats that are
integers times a scale. The pass makes it pass as these integers: argument and result get the quantized type, and
readers of the floats a `quant.dcast` of the argument. No bit changes, since quantizing a dequantized integer gives it
back.

Enters: a network behind `quantize-bias`. Leaves: casts that `cancel-casts` removes. A state whose next value is float
stays float.
"""

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.ir.interfaces import tensor_type
from qmlir.ir.signature import defined_functions
from qmlir.ir.states import StateAttr, set_state, states_of
from qmlir.ir.weights import WeightsAttr


class QuantizeStatesPass(ModulePass):
    """Gives states the quantized type of their next values.

    ```mlir
    func.func @main(%s: tensor<4xf32> {qmlir.state = #qmlir.state<0>}) -> tensor<4xf32> {
      …
      %2 = quant.dcast %1 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
      func.return %2 : tensor<4xf32>
    // becomes
    func.func @main(%s: tensor<4x!quant.uniform<i8:f32, 0.5>> {qmlir.state = #qmlir.state<0>})
        -> tensor<4x!quant.uniform<i8:f32, 0.5>> {
      %0 = quant.dcast %s : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
      …
      func.return %1 : tensor<4x!quant.uniform<i8:f32, 0.5>>
    ```
    """

    name = "quantize-states"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            end = function.body.block.last_op
            assert isinstance(end, func.ReturnOp)
            for index, state in states_of(function).items():
                argument, back = function.body.block.args[index], end.operands[state.index].owner
                if isinstance(back, DequantizeCastOp) and back.result.type == argument.type:
                    set_state(function, index, _quantized(argument, back, state))
                    _store(argument, back)
                    end.operands[state.index] = back.input
            function.update_function_type()


def _quantized(argument: BlockArgument, back: DequantizeCastOp, state: StateAttr) -> StateAttr:
    """Returns the mark of a state whose reset value is in the integers that `back` dequantizes."""
    if not isinstance(state.reset, WeightsAttr):
        return state
    cast = QuantizeCastOp(argument, back.input.type)
    (stored,) = cast.evaluate(state.reset.array)
    cast.erase()
    return StateAttr.of(state.index, stored)


def _store(argument: BlockArgument, back: DequantizeCastOp) -> None:
    """Gives an argument the type of stored values, and its readers the floats."""
    floats, hint = tensor_type(argument), argument.name_hint
    stored = Rewriter.replace_value_with_new_type(argument, back.input.type)
    stored.name_hint = hint
    cast = DequantizeCastOp(stored, floats)
    stored.replace_uses_with_if(cast.result, lambda use: use.operation is not cast)
    Rewriter.insert_op(cast, InsertPoint.at_start(argument.block))
