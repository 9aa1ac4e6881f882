"""Between element types."""

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import AnyFloat, BoolAttr, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.dtypes import dtype_of, is_numpys_own
from qmlir.dialects.interfaces import Array, Shape, TensorOp, element_of, shape_of
from qmlir.dialects.loops import is_integer as is_integer_type
from qmlir.dialects.nn.base import is_quantized


@irdl_op_definition
class CastOp(TensorOp):
    """The same numbers in another element type.

    to an integer      from an integer the low bits; from a float rounded toward zero, the nearest integer of the type
                       for what lies beyond its range, 0 for NaN; below 8 bits the low bits of the i32
    to i1              whether it is not zero; NaN is not
    to a float         rounded to nearest, ties to even; to bf16 and narrower by way of f32; beyond the range ±inf
    to float8, float4  with `saturate` the largest number of the type beyond its range, else what the type has there:
                       an infinity, or NaN

    (C1) neither type is quantized, and numpy has a form of both
    """

    name = "nn.cast"
    x = operand_def(TensorType)
    saturate = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [None]

    def verify_(self) -> None:
        super().verify_()
        for value in (self.x, self.y):
            try:
                dtype_of(element_of(value))
            except KeyError:
                remedy = "use quant.qcast and quant.dcast" if is_quantized(value) else "there is none"
                raise VerifyException(  # C1
                    f"'{self.name}' needs types that numpy has a form of, got {element_of(value)}; {remedy}"
                ) from None

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (converted(x, dtype_of(element_of(self.y)), saturate=bool(self.saturate)),)


@irdl_op_definition
class BitcastOp(TensorOp):
    """The same bits under another element type.

    (C1) both types have as many bits, and numpy has a form of both
    """

    name = "nn.bitcast"
    x = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [None]

    def verify_(self) -> None:
        super().verify_()
        widths = [_width(element_of(v)) for v in (self.x, self.y)]
        if None in widths or len(set(widths)) != 1:  # C1
            raise VerifyException(
                f"'{self.name}' needs types of as many bits, got {element_of(self.x)} and {element_of(self.y)}"
            )

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].view(dtype_of(element_of(self.y))),)


def _width(element: Attribute) -> int | None:
    """Bits of a plain element type."""
    if is_integer_type(element):
        return element.width.data
    return element.bitwidth if isinstance(element, AnyFloat) else None


def converted(x: Array, dtype: np.dtype[Any], *, saturate: bool = True) -> Array:
    """An array as another type, as `CastOp` says."""
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        if not is_numpys_own(x.dtype):  # numpy cannot compute with it
            x = x.astype(np.int8 if is_integer(x.dtype) else np.float32)
        if dtype.kind == "b":
            return x != 0
        if is_integer(dtype):
            if x.dtype.kind == "f":
                x = _truncated(x, dtype if is_numpys_own(dtype) else np.dtype(np.int32))
            return x.astype(dtype)
        if is_numpys_own(dtype):
            return x.astype(dtype)
        x = x.astype(np.float32)
        x = np.where(np.isnan(x), np.float32(np.nan), x)  # of one sign: float4 makes a zero of it
        if saturate and dtype.itemsize == 1:
            most = np.float32(float(cast(Any, ml_dtypes.finfo(dtype)).max))
            x = np.clip(x, -most, most)  # NaN stays
        return x.astype(dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype holds integers, int4 and its like among them."""
    return dtype.kind in "iu" or (not is_numpys_own(dtype) and dtype.name.lstrip("u").startswith("int"))


def _truncated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Floats rounded toward zero and saturated; NaN gives 0."""
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    whole = np.trunc(x.astype(np.float64))
    whole = np.where(np.isnan(whole), 0.0, whole)
    inside = (whole >= low) & (whole < float(high + 1))  # 2^63 − 1 is no float64, 2^63 is
    kept = np.where(inside, whole, 0.0)
    wide = kept.astype(np.uint64 if low == 0 else np.int64)
    return np.where(inside, wide, np.where(whole < 0, low, high).astype(wide.dtype)).astype(dtype)


def power_of_two(x: Array, *, up: bool, saturate: bool) -> Array:
    """Positive numbers as the next power of two above or below, in float8_e8m0fnu.

    Beyond its range the largest or smallest power if it saturates, else NaN; NaN and what is not positive is NaN.
    """
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    fraction, exponent = np.frexp(x.astype(np.float64))
    bits = exponent - 1 + ((fraction > 0.5) if up else 0) + 127
    limited = np.clip(bits, 0, 254) if saturate else np.where((bits < 0) | (bits > 254), 255, bits)
    limited = np.where(np.isposinf(x.astype(np.float64)), 254 if saturate else 255, limited)
    limited = np.where(x.astype(np.float64) > 0, limited, 255)
    return limited.astype(np.uint8).view(dtype)
