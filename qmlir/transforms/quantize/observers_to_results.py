"""`observers-to-results`: turns a network with observers into a profiling network, which returns observed tensors."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from qmlir.dialects.calib import ObserveOp


@dataclass(frozen=True)
class ObserversToResultsPass(ModulePass):
    """Appends each observed tensor to the function's results, in program order, and removes the observers.

    ```mlir
    calib.observe %0 {name = "r"} : tensor<4xf32>
    func.return %1 : tensor<2xf32>
    // becomes
    func.return %1, %0 : tensor<2xf32>, tensor<4xf32>
    ```
    """

    name = "observers-to-results"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in (f for f in op.walk() if isinstance(f, func.FuncOp) and not f.is_declaration):
            observers = [o for o in function.body.block.ops if isinstance(o, ObserveOp)]
            end = function.body.block.last_op
            assert isinstance(end, func.ReturnOp)
            values = [*end.operands, *(o.value for o in observers)]
            Rewriter.replace_op(end, func.ReturnOp(*values))
            function.function_type = FunctionType.from_lists(
                function.function_type.inputs.data, [v.type for v in values]
            )
            if function.res_attrs is not None:
                named = list(function.res_attrs.data)
                function.res_attrs = ArrayAttr([*named, *[DictionaryAttr({})] * len(observers)])
            for observer in observers:
                Rewriter.erase_op(observer)
