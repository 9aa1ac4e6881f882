"""The float network that a quantized one stands for: the numbers of its integers, in their ranges, without rounding."""

import numpy as np
from xdsl.dialects.builtin import FloatAttr, ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.compiler import main_function
from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.verify import verify


def nominal(module: ModuleOp) -> ModuleOp:
    """A float network for one that is quantized throughout, from its inputs on.

    What changes scales or reads stored integers reads numbers instead, and what saturates is clamped.
    """
    found = module.clone()
    function = main_function(found)
    block = function.body.block
    for op in block.ops:
        if isinstance(op, WeightedOp):
            _set_bias(op)
    for argument in block.args:
        _make_float(argument)
    for op in list(block.ops):
        if isinstance(op, nn.RequantizeOp | StorageCastOp):
            op.results[0].replace_all_uses_with(op.operands[0])
            Rewriter.erase_op(op)
        elif isinstance(op, nn.ConstantOp):
            _set_numbers(op)
        elif op.results and isinstance(element := quantized_element(op.results[0].type), UniformType):
            _clamp(op, element)
    function.update_function_type()
    function.arg_attrs = None  # how the integers of inputs are called
    verify(found)
    return found


def _set_bias(op: WeightedOp) -> None:
    """Steps of s_x · s_w become numbers."""
    if (bias := op.stored_bias()) is not None:
        steps = uniform(op.x).scale * np.array(uniform(op.w).scales)
        op.operands[2] = _constant(bias * steps, op)


def _set_numbers(op: nn.ConstantOp) -> None:
    element, array = quantized_element(op.y.type), op.value.array
    if isinstance(element, UniformType):
        scales, zero_points = element.parameters_along(array.ndim)
        op.y.replace_all_uses_with(_constant((array - zero_points) * scales, op))
        Rewriter.erase_op(op)


def _constant(real: Array, before: Operation) -> SSAValue:
    """A constant of float32 numbers in front of an operation."""
    made = nn.ConstantOp(real.astype(np.float32))
    Rewriter.insert_op(made, InsertPoint.before(before))
    return made.y


def _make_float(value: SSAValue) -> SSAValue:
    return Rewriter.replace_value_with_new_type(value, TensorType(f32, shape_of(value)))


def _clamp(op: Operation, element: UniformType) -> None:
    """The result in floats, between the ends of the range that its integers have."""
    ends = (FloatAttr((end - element.zero_point) * element.scale, f32)
            for end in (element.storage_min, element.storage_max))  # fmt: skip
    y = _make_float(op.results[0])
    clamp = nn.ClampOp.make([y], dict(zip(("min", "max"), ends, strict=True)))
    Rewriter.insert_op(clamp, InsertPoint.after(op))
    y.replace_uses_with_if(clamp.y, lambda use: use.operation is not clamp)
