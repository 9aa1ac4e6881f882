"""Tells which conversions between plain integers and quantized numbers are computed on integers.

The element types of `nn.cast` are plain, so a quantized network has casts beside it:

    quant.qcast(nn.cast(x))   x of iN or i1 becomes quantized: a table of the integers within the range, or a choice
    nn.cast(quant.dcast(q))   q becomes iN: a table of the numbers rounded toward zero; or i1: whether q is not zero

Both have the results of the casts on floats. The quantizer asks here to write the ledger, nn-to-qint to lower.
"""

import math

from xdsl.dialects.builtin import i1, i8, i16, i32, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn import CastOp
from qmlir.dialects.nn.quantizable import uniform, widest
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of

INTEGERS = (i8, i16, i32, i64)


def quantized_integers(op: QuantizeCastOp) -> SSAValue | None:
    """The integers or truth values that a quantize cast gets through a conversion to f32; None for other operands."""
    cast = op.input.owner
    if not isinstance(cast, CastOp) or not _has_table(uniform(op.result)):
        return None
    element = element_of(cast.x)
    tabled = element in INTEGERS and table_width(uniform(op.result)) is not None
    return cast.x if element == i1 or tabled else None


def converted_integers(op: CastOp) -> SSAValue | None:
    """The quantized value that is converted to integers of at most 32 bits or truth values; None for other values."""
    back = op.x.owner
    if not isinstance(back, DequantizeCastOp) or not _has_table(type := uniform(back.input)):
        return None
    return back.input if element_of(op.y) in (i1, *INTEGERS) and _reach(type) < 1 << 31 else None


def _has_table(type: UniformType) -> bool:
    """Whether a table can have an entry for each integer of a type."""
    return type.storage_width <= 16 and not type.is_per_axis


def table_width(result: UniformType) -> int | None:
    """The width in bits, 8 or 16, of integers that reach beyond the range of a type; None if more are needed."""
    return next((width for width in (8, 16) if _reach(result) + 1 < 1 << width - 1), None)


def _reach(type: UniformType) -> int:
    """The largest magnitude of a type's numbers, rounded up."""
    return math.ceil(widest(type) * type.scale)
