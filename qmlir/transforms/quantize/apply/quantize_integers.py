"""`quantize-integers`: quantizes integers that a network converts to floats without computing a float.

Masks and token types enter networks as int64, and a Cast makes floats of them. Where these floats are quantized, the
integers can be quantized themselves:

    qcast(cast(i)) → requantize(scast(cast(clamp(i))))

An integer i is i · 1: it is clamped to 8 or 16 bits, stored as a quantized value of scale 1, and requantized. The bits
suffice if they hold all integers within the range of the quantized type, since integers beyond saturate.
"""

import math

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects.nn import CastOp, ConstantOp, MaximumOp, MinimumOp, RequantizeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.quant.ops import QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import replace
from qmlir.ir.types import dtype_of, is_integer
from qmlir.policies.legality import target_of
from qmlir.transforms.quantize.apply.on_floats import follows
from qmlir.transforms.quantize.apply.quantize_ops import decide_quantized
from qmlir.transforms.quantize.ranges.scale_group import real_range


class QuantizeIntegersPass(ModulePass):
    """Quantizes integers without floats where a quantize cast reads integers that were cast to floats.

    ```mlir
    %0 = nn.cast %keep : tensor<4xi1> -> tensor<4xf32>
    %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
    // becomes
    %0 = nn.cast %keep : tensor<4xi1> -> tensor<4xi8>
    %1 = quant.scast %0 : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.0>>
    %2 = nn.requantize %1 : tensor<4x!quant.uniform<i8:f32, 1.0>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
    ```
    """

    name = "quantize-integers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        for cast in [o for o in op.walk() if isinstance(o, QuantizeCastOp)]:
            made, element = cast.input.owner, element_of(cast.result)
            if not isinstance(made, CastOp) or not isinstance(element, UniformType) or follows(cast):
                continue
            if element.is_per_axis:  # integers have one scale
                continue
            if not is_float(made.y) or not is_integer(element_of(made.x)) or (new := _stored(made.x, element)) is None:
                continue
            requantize = RequantizeOp.make([new[-1].results[0]], element=element)
            replace(PatternRewriter(cast), cast, [*new, requantize], absorbing=[made], doing=requantize)
            decide_quantized(requantize, target)


def _stored(value: SSAValue, element: UniformType) -> list[Operation] | None:
    """The operations that store integers as quantized values of scale 1; None if 16 bits do not hold what they need."""
    low, high = real_range(element)
    given, shape = element_of(value), shape_of(value)
    if element.is_per_axis or not is_integer(given):
        return None
    width = next((w for w in (8, 16) if -(1 << w - 1) <= math.ceil(low) and math.floor(high) < 1 << w - 1), None)
    if width is None:
        return None
    new: list[Operation] = []
    dtype, limits = dtype_of(given), (1 - (1 << width - 1), (1 << width - 1) - 1)
    signed = given.signedness.data != Signedness.UNSIGNED
    if given.width.data > width or (given.width.data == width and not signed):
        for bound, limit in ((MinimumOp, limits[1]), (MaximumOp, limits[0]))[: 2 if signed else 1]:
            constant = ConstantOp(np.array(limit, dtype))
            new += [constant, bound.make([new[-1].results[0] if new else value, constant.y])]
    if given != IntegerType(width):
        new.append(CastOp.make([new[-1].results[0] if new else value], element=IntegerType(width)))
    whole = UniformType.per_tensor(IntegerType(width), 1.0, 0)
    return [*new, StorageCastOp(new[-1].results[0] if new else value, TensorType(whole, shape))]
