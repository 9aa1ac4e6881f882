"""Upstream MLIR's `quant` dialect: quantized types and the casts around them, and nothing more.

types      `!quant.uniform` with integer storage     ops      `quant.qcast`, `quant.dcast`, `quant.scast`
foreign    upstream's other types: read and checked  reader   finds the type a `!quant.uniform` text describes
numerics   fixed point, numpy only                   schemas  from a range to a scale and a zero point, numpy only
rules      how an operation ties the scales of its operands and results together, as op traits
"""

from xdsl.ir import Dialect

from qmlir.dialects.quant.foreign import AnyType, CalibratedType, UniformSyntax
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp

QUANT = Dialect("quant", [QuantizeCastOp, DequantizeCastOp, StorageCastOp], [UniformSyntax, AnyType, CalibratedType])
