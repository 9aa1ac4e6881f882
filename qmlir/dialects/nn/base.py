"""The base classes of all nn operations: which element types they accept, and the types of their results.

On plain tensors, `evaluate` defines the meaning of an operation. On quantized tensors, its lowering to qint defines
its exact meaning. The nominal meaning (dequantize → evaluate → quantize) is derived the same way for all operations.

Float results are reproducible bit for bit: sums run in a fixed order, in the element type, and each product and each
sum is rounded separately. Integers wrap around, as in numpy. The CPU lowering emits exactly these operations.

Plain element types are f32, f64, iN (signed), uiN (unsigned), i1 (bool), and the halves f16 and bf16. An operation on
halves computes in f32 and rounds its results once (numerics/halves.py); `round-halves` spells that out for the CPU. All
other types, such as f8E5M2, are storage types: `nn.cast` and data movement accept them, but no operation computes on
them.
"""

import abc
from collections.abc import Callable, Sequence
from enum import Flag
from functools import wraps
from math import prod
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.quantizable import QuantizableOp
from qmlir.dialects.quant.rules import SameScale
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.fact import restated
from qmlir.ir.interfaces import Array, UnaryTensorOp, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.types import dtype_of, is_integer
from qmlir.numerics.elementary.lanes import Lanes, N
from qmlir.numerics.halves import HALF_FORMATS

COMPUTED_WIDTHS = (8, 16, 32, 64)
"""Widths in bits of the integer types that operations compute on."""


class Elements(Flag):
    """Kinds of element types; an operation's `ELEMENTS` lists the kinds that it accepts.

    Almost all that accepts f32 also accepts halves (`NNOp.TAKES_HALVES`), which are computed in f32.
    """

    F32 = 1
    F64 = 2
    SIGNED = 4
    UNSIGNED = 8
    BOOL = 16
    QUANTIZED = 32

    FLOATS = F32 | F64
    INTEGERS = SIGNED | UNSIGNED
    NUMBERS = FLOATS | INTEGERS
    PLAIN = NUMBERS | BOOL

    def __str__(self) -> str:
        *others, last = (f"all {_NAMES[kind]}" for kind in self)
        return f"{', '.join(others)} or {last}" if others else last

    @staticmethod
    def of(element: Attribute) -> "Elements":
        """The kind of an element type; `Elements(0)`, no kind, for a type that is moved but not computed with."""
        match element:
            case UniformType():
                return Elements.QUANTIZED
            case Float32Type() | Float16Type() | BFloat16Type():
                return Elements.F32
            case Float64Type():
                return Elements.F64
            case IntegerType() if element.width.data == 1:
                return Elements.BOOL
            case IntegerType() if element.width.data in COMPUTED_WIDTHS:
                return Elements.UNSIGNED if is_unsigned(element) else Elements.SIGNED
            case _:
                return Elements(0)


_NAMES = {
    Elements.F32: "f32",
    Elements.F64: "f64",
    Elements.SIGNED: "iN",
    Elements.UNSIGNED: "uiN",
    Elements.BOOL: "i1",
    Elements.QUANTIZED: "quantized",
}


class ElementsError(VerifyException):
    """Raised when data operands have an element type that the operation does not accept, or different types."""


def is_unsigned(element: Attribute) -> bool:
    """Whether a type is an unsigned integer; signless integers count as signed, i1 as unsigned."""
    if not is_integer(element):
        return False
    return element.signedness.data is Signedness.UNSIGNED or element.width.data == 1


def is_float(value: SSAValue) -> bool:
    """Whether a tensor's elements are f32, the only float type that can be quantized."""
    return isinstance(element_of(value), Float32Type)


def is_half(value: SSAValue) -> bool:
    """Whether a tensor's elements are f16 or bf16."""
    return isinstance(element_of(value), Float16Type | BFloat16Type)


def is_quantized(value: SSAValue) -> bool:
    """Whether a tensor's elements have a quantized type."""
    return isinstance(element_of(value), UniformType)


def with_floats(op: Operation, operands: Sequence[SSAValue], element: Attribute) -> Operation:
    """Makes the operation that `op` is on other operands, its float results as `element`; it is in no block yet.

    This is how an operation on f32 and the same operation on halves are made of each other.
    """
    floats = (Float32Type, Float16Type, BFloat16Type)
    types = [TensorType(element, shape_of(r)) if isinstance(element_of(r), floats) else r.type for r in op.results]
    properties, attributes = dict(op.properties), restated(op)
    new = op.create(operands=operands, result_types=types, properties=properties, attributes=attributes)
    new.location = op.location
    return new


Evaluation = Callable[..., tuple[Array, ...]]
"""A method `evaluate`, which computes an operation's results from arrays."""


def _rounding_halves(evaluate: Evaluation) -> Evaluation:
    """Wraps a method `evaluate` so that it computes on halves in f32, and rounds results that are halves once."""

    @wraps(evaluate)
    def rounded(op: "NNOp", *inputs: Array) -> tuple[Array, ...]:
        if not any(x.dtype in HALF_FORMATS for x in inputs):
            return evaluate(op, *inputs)
        wide = [x.astype(np.float32) if x.dtype in HALF_FORMATS else x for x in inputs]
        types = [TensorType(f32, shape_of(v)) if is_half(v) else v.type for v in op.operands]
        results = evaluate(with_floats(op, Block(arg_types=types).args, f32), *wide)
        formats = [HALF_FORMATS.get(dtype_of(element_of(r))) for r in op.results]
        return tuple(y if f is None else f.rounded(np.asarray(y)) for f, y in zip(formats, results, strict=True))

    return rounded


class NNOp(QuantizableOp, abc.ABC):
    """An operation of a network.

    (N1) its data operands all have one plain type, or are all quantized; the kind of each is in `ELEMENTS`
    (N2) its results have the type that `result_element` returns; data results are quantized if its data operands are
    """

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.QUANTIZED
    """The kinds of element types that its data operands may have."""

    TAKES_HALVES: ClassVar[bool] = True
    """Whether an operation that accepts f32 also accepts halves."""

    YIELDS: ClassVar[Attribute | None] = None
    """The element type of results that are truth values or indices, whatever the data; None if the results are data."""

    def data_results(self) -> Sequence[SSAValue]:
        return self.results if self.YIELDS is None else ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not hasattr(cls.evaluate, "__wrapped__"):
            cls.evaluate = _rounding_halves(cls.evaluate)

    def result_element(self, data: Attribute) -> Attribute:
        """The element type of the results when the data operands have the plain type `data`."""
        return data if self.YIELDS is None else self.YIELDS

    def infer_elements(self) -> Sequence[Attribute | None]:
        elements = [element_of(o) for o in self.data_operands()]
        first = elements[0]
        kinds = {Elements.of(e) for e in elements}
        alike = kinds == {Elements.QUANTIZED} or all(e == first for e in elements)
        halves = not self.TAKES_HALVES and any(map(is_half, self.operands))
        if halves or not alike or not all(k and k in self.ELEMENTS for k in kinds):  # N1
            got = ", ".join(str(element_of(o)) for o in (self.operands if halves else self.data_operands()))
            raise ElementsError(f"'{self.name}' needs operands that are {self.ELEMENTS}, got {got}")
        if not isinstance(first, UniformType) or self.YIELDS is not None:
            return [self.result_element(first)] * len(self.results)
        keeps = self.has_trait(SameScale, value_if_unregistered=False)
        return [first if keeps else None] * len(self.results)

    def verify_(self) -> None:
        super().verify_()
        for result in self.data_results():
            if is_quantized(result) != is_quantized(self.data_operands()[0]):  # N2
                raise VerifyException(
                    f"'{self.name}' must yield quantized values from quantized operands and f32 from f32, "
                    f"got {element_of(result)} from {element_of(self.data_operands()[0])}"
                )


class AxisOp(UnaryTensorOp, NNOp, abc.ABC):
    """An operation on the elements along one axis, or along the dimensions from one axis on.

    (C1) the axis lies within the rank
    """

    axis = prop_def(IntegerAttr.constr(i64))

    def split(self) -> tuple[int, int, int]:
        """The operand's shape as (before, along, behind), where the `along` elements are combined."""
        shape, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(shape):  # C1
            raise VerifyException(f"'{self.name}' axis must lie in [0, {len(shape)}), got {axis}")
        return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [self.axis.value.data])


class Clamped(NNOp, abc.ABC):
    """An operation with a fused clamp: `min` and `max` are real values; an absent bound does not limit the result.

    On quantized types, the stored result lies between the stored integers nearest to the bounds (half to even). This
    equals quantizing the clamped real value, because quantizing is monotonic.

    (N3) neither bound is NaN, min ≤ max, and bounds are present only on float or quantized data
    """

    lower = opt_prop_def(FloatAttr[AnyFloat], prop_name="min")
    upper = opt_prop_def(FloatAttr[AnyFloat], prop_name="max")

    def bounds(self) -> tuple[float | None, float | None]:
        """The clamp's (min, max); None for an absent bound."""
        return (
            self.lower.value.data if self.lower is not None else None,
            self.upper.value.data if self.upper is not None else None,
        )

    def clamp(self, y: Array) -> Array:
        """Applies the fused clamp to a float array."""
        return y if self.bounds() == (None, None) else self.clamped(Lanes(y)).array

    def clamped(self, y: N) -> N:
        """Applies the fused clamp to floats, as array elements or as values of a generated kernel."""
        low, high = self.bounds()
        y = y if low is None else y.maximum(low)
        return y if high is None else y.minimum(high)

    def verify_(self) -> None:
        super().verify_()
        low, high = self.bounds()
        kind = Elements.of(element_of(self.data_operands()[0]))
        if (low, high) != (None, None) and kind in Elements.INTEGERS | Elements.BOOL:  # N3
            raise VerifyException(f"'{self.name}' clamps floats, got {element_of(self.data_operands()[0])}")
        if low is not None and high is not None and low > high:  # N3
            raise VerifyException(f"'{self.name}' clamps to an empty range: min {low} is above max {high}")
        if any(b is not None and np.isnan(b) for b in (low, high)):  # N3
            raise VerifyException(f"'{self.name}' needs numbers as bounds, got min {low} and max {high}")


def bound(value: float | None) -> FloatAttr[Float32Type] | None:
    """A clamp bound as a property value; None for an absent bound."""
    return None if value is None else FloatAttr(value, f32)
