"""The float network that a quantized one approximates, for devices that quantize it by rules of their own."""

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.rewriter import Rewriter

from qmlir.compiler import main_function
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.ir.types import with_element
from qmlir.numerics.fixed_point import dequantize


def floats_of(module: ModuleOp) -> ModuleOp:
    """The network on float32, with the real number that each stored integer of a constant stands for.

    Args:
        module: A quantized network whose tensors have one scale each, without casts.
    """
    module = module.clone()
    function = main_function(module)
    for value in [*function.body.block.args, *(r for op in function.body.block.ops for r in op.results)]:
        if not is_quantized(value):
            continue
        if isinstance(op := value.owner, ConstantOp):
            kind = uniform(value)
            real = dequantize(op.value.array, np.array(kind.scales), np.array(kind.zero_points))
            Rewriter.replace_op(op, ConstantOp(real, attributes=op.attributes))
        else:
            Rewriter.replace_value_with_new_type(value, with_element(value.type, f32))
    function.update_function_type()
    module.verify()
    return module
