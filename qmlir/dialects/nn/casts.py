"""Conversions between element types."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import AnyFloat, BoolAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.quantizable import QuantizableOp
from qmlir.ir.interfaces import Array, Shape, UnaryTensorOp, element_of, shape_of
from qmlir.ir.samples import Axes, only_first
from qmlir.ir.types import dtype_of, is_numpys_own
from qmlir.ir.types import is_integer as is_integer_type
from qmlir.numerics.halves import HALF_FORMATS


class ConversionOp(UnaryTensorOp, QuantizableOp, abc.ABC):
    """An operation that gives its elements another type; no data operand, as neither type may be quantized."""

    WHY_FLOAT: ClassVar[str] = "it gives other types to plain numbers"

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]

    def sample_axis(self, axes: Axes) -> int:
        return only_first(axes)

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [None]

    def data_operands(self) -> Sequence[SSAValue]:
        return ()


@irdl_op_definition
class CastOp(ConversionOp):
    """Converts numbers to another element type.

    to an integer      integers keep their low bits; floats are rounded toward zero and saturate, NaN gives 0; for
                       types below 8 bits, floats are converted to i32, of which the low bits are kept
    to i1              whether the number differs from zero; NaN does
    to a float         rounded to nearest, ties to even; to bf16 and narrower types through f32; ±inf beyond the range
                       (from f32 to f16 and bf16 by the rules of numerics/halves.py)
    to float8, float4  with `saturate`, numbers beyond the range become the largest number of the type, with their sign;
                       without it, the type's infinity, or NaN

    (C1) neither type is quantized, and numpy (with ml_dtypes) has a dtype for both
    """

    name = "nn.cast"
    saturate = prop_def(BoolAttr, default_value=BoolAttr.from_bool(True))

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
class BitcastOp(ConversionOp):
    """Reinterprets the bits of each element as another element type.

    (C1) both types have the same number of bits
    """

    name = "nn.bitcast"

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
    """Width in bits of an integer or float element type; None for any other type."""
    if is_integer_type(element):
        return element.width.data
    return element.bitwidth if isinstance(element, AnyFloat) else None


def converted(x: Array, dtype: np.dtype[Any], *, saturate: bool = True) -> Array:
    """Converts an array to a dtype by the rules of `CastOp`."""
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        if not is_numpys_own(x.dtype):  # numpy does not compute on ml_dtypes' types
            x = x.astype(np.int8 if is_integer(x.dtype) else np.float32)
        if dtype.kind == "b":
            return x != 0
        if is_integer(dtype):
            if x.dtype.kind == "f":
                x = _truncated(x, dtype if is_numpys_own(dtype) else np.dtype(np.int32))
            return x.astype(dtype)
        if dtype in HALF_FORMATS and x.dtype == np.float32:
            return HALF_FORMATS[dtype].rounded(x)
        if is_numpys_own(dtype):
            return x.astype(dtype)
        x = x.astype(np.float32)
        x = np.where(np.isnan(x), np.float32(np.nan), x)  # NaN with one sign: converting it to float4 gives a zero
        if saturate and dtype.itemsize == 1:
            most = np.float32(float(cast(Any, ml_dtypes.finfo(dtype)).max))
            x = np.clip(x, -most, most)  # np.clip keeps NaN
        return x.astype(dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype holds integers, including int4 and similar types of ml_dtypes."""
    return dtype.kind in "iu" or (not is_numpys_own(dtype) and dtype.name.lstrip("u").startswith("int"))


def _truncated(x: Array, dtype: np.dtype[Any]) -> Array:
    """Rounds floats toward zero and saturates to an integer dtype; NaN gives 0."""
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    whole = np.trunc(x.astype(np.float64))
    whole = np.where(np.isnan(whole), 0.0, whole)
    inside = (whole >= low) & (whole < float(high + 1))  # float64 represents 2^63, not 2^63 − 1
    kept = np.where(inside, whole, 0.0)
    wide = kept.astype(np.uint64 if low == 0 else np.int64)
    return np.where(inside, wide, np.where(whole < 0, low, high).astype(wide.dtype)).astype(dtype)


def power_of_two(x: Array, *, up: bool, saturate: bool) -> Array:
    """Rounds positive numbers to a power of two, upward or downward, as float8_e8m0fnu.

    Beyond the type's range the result is the largest or smallest power with `saturate`, else NaN. NaN, zero and
    negative numbers give NaN.
    """
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    fraction, exponent = np.frexp(x.astype(np.float64))
    bits = exponent - 1 + ((fraction > 0.5) if up else 0) + 127
    limited = np.clip(bits, 0, 254) if saturate else np.where((bits < 0) | (bits > 254), 255, bits)
    limited = np.where(np.isposinf(x.astype(np.float64)), 254 if saturate else 255, limited)
    limited = np.where(x.astype(np.float64) > 0, limited, 255)
    return limited.astype(np.uint8).view(dtype)
