"""Upstream MLIR's `quant` dialect: quantized types and the casts around them, and nothing more.

types      `!quant.uniform`                          ops      `quant.qcast`, `quant.dcast`, `quant.scast`
numerics   fixed point, numpy only                   schemas  from a range to a scale and a zero point, numpy only
rules      how an operation ties the scales of its operands and results together, as op traits
"""

from xdsl.ir import Dialect

from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType

QUANT = Dialect("quant", [QuantizeCastOp, DequantizeCastOp, StorageCastOp], [UniformType])
