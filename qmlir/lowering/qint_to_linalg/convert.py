"""`qint-to-linalg`: an integer network in upstream's dialects, for other compilers.

Enters: qint, the data movement of nn, constants, and casts of `quant` where the integers meet floats. Leaves: the same
functions in `func`, `linalg`, `arith`, `tensor` and `math` only, with plain integers where quantized types were; names
and decisions are gone, as upstream knows no such attributes. What runs the result gets `evaluate`'s bits: integer
arithmetic throughout, and f64 in the casts, without any fast-math flag.

Float islands have no way out: whoever wants one quantizes without them (`--quantize=fail-on-float=true`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from qmlir.dialects.loops import is_integer
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.quant.types import quantized_element
from qmlir.lowering.qint_to_linalg import casts, contraction, elementwise, lookup, pooling, requantize, shape
from qmlir.lowering.qint_to_linalg.structured import TensorCode

Rule: TypeAlias = Callable[..., SSAValue]
"""(code, operation, its operands as lowered) → what stands for its result."""

RULES: Mapping[type[Operation], Rule] = {
    **contraction.RULES,
    **requantize.RULES,
    **elementwise.RULES,
    **pooling.RULES,
    **lookup.RULES,
    **shape.RULES,
    **casts.RULES,
}


@dataclass(frozen=True)
class QIntToLinalgPass(ModulePass):
    """Rewrites integer networks to linalg, arith, tensor and math, for upstream's tools.

    ```mlir
    %acc = qint.fully_connected %x, %w {zero_point = 3 : i32} : tensor<1x4xi8>, tensor<3x4xi8> -> tensor<1x3xi32>
    // becomes
    %empty = tensor.empty() : tensor<1x3xi32>
    %zeros = linalg.fill ins(%0 : i32) outs(%empty : tensor<1x3xi32>) -> tensor<1x3xi32>
    %acc = linalg.generic {indexing_maps = […], iterator_types = ["parallel", "parallel", "reduction"]}
           ins(%x, %w : tensor<1x4xi8>, tensor<3x4xi8>) outs(%zeros : tensor<1x3xi32>) {
      ^bb0(%x: i8, %w: i8, %acc: i32): …   // %acc + (%x − 3) · %w in i32
    }
    ```
    """

    name = "qint-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in list(op.body.block.ops):
            if isinstance(function, func.FuncOp) and not function.is_declaration:
                _convert(function)


def _convert(function: func.FuncOp) -> None:
    old = function.body.block
    new = Block(arg_types=[_plain(t) for t in function.function_type.inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=True))
    for op in old.ops:
        code = TensorCode(new, op)
        operands = [values[o] for o in op.operands]
        if isinstance(op, func.ReturnOp):
            new.add_op(func.ReturnOp(*operands))
        elif (rule := RULES.get(type(op))) is not None:
            values[op.results[0]] = result = rule(code, op, *operands)
            if result.name_hint is None:
                result.name_hint = op.results[0].name_hint
        elif isinstance(op, MovementOp) or op.name.startswith("qint."):
            code.refuse("has no form in linalg yet")
        else:
            code.refuse(
                "has no form in linalg: only integers, data movement and casts leave",
                remedy="run --nn-to-qint first; --quantize=fail-on-float=true tells what stays float",
            )
    signature = ([a.type for a in new.args], [_plain(t) for t in function.function_type.outputs])
    made = func.FuncOp(function.sym_name.data, signature, Region(new), function.sym_visibility)
    made.location = function.location
    parent = cast(Block, function.parent)
    parent.insert_op_before(made, function)
    function.detach()
    function.erase()


def _plain(type: Attribute) -> Attribute:
    """A type as upstream computes on it: stored integers for quantized elements, no sign on integers."""
    if not isinstance(type, TensorType):
        return type
    tensor = cast(TensorType[Attribute], type)
    quantized, element = quantized_element(tensor), tensor.element_type
    if quantized is not None:
        element = quantized.storage_type
    elif is_integer(element):
        element = IntegerType(element.width.data)
    return TensorType(element, tensor.get_shape())
