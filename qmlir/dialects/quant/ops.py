"""The casts between float, quantized and stored values, with upstream's assembly, verifiers and names.

    %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.1:3>>     quantize
    %y = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.1:3>> to tensor<4xf32>     dequantize
    %i = quant.scast %q : tensor<4x!quant.uniform<i8:f32, 0.1:3>> to tensor<4xi8>      the stored integers, or back

As upstream, a cast takes a scalar or a tensor, including tensors of dynamic or unknown shape. Two things differ on
purpose. Upstream's lowering of `qcast` truncates; here `qcast` rounds (fixed_point.quantize). Upstream folds a `dcast`
of a `qcast`, and a `qcast` of a `dcast`; here such a pair marks a value as quantized until the pass `quantize-ops`
consumes it, so only `scast` folds.
"""

import abc
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.foreign import UNRANKED, QuantizedType, Shape, SubChannelType, shape_of, verify_blocks
from qmlir.dialects.quant.types import LayerOrAxisType, UniformType
from qmlir.errors import QmlirError
from qmlir.ir.facts import QUANTIZATION, REST, UNSIGNED
from qmlir.ir.samples import Axes, only_first
from qmlir.ir.types import element_type
from qmlir.numerics import Array, fixed_point

REST_BELOW = 8
"""The elements that a runtime's kernel of a cast takes at once; the rest at the end of a tensor are fewer."""

MATCHING_SHAPES = "input and result are both scalars or both tensors with matching shape"


class CastOp(IRDLOperation, abc.ABC):
    """Base of the elementwise casts between float, quantized and stored values: one input, one result.

    (Q1) each side is a scalar or a tensor of the element kind that the cast requires there
    (Q2) input and result are both scalars, or both tensors with the same shape
    (Q3) a per-axis type is used on a tensor, its axis is within the rank if the rank is known, and the size of that
         dimension, if known, is the number of scales
    (Q4) the float or integer type on one side is the expressed or storage type of the quantized type on the other
    (Q5) a sub-channel type is used on a tensor that has the rank of its scales and no empty dimensions; each
         dimension whose size is known has as many blocks as the type has scales along it
    """

    input = operand_def(Attribute)
    result = result_def(Attribute)

    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    @property
    @abc.abstractmethod
    def quantized_type(self) -> QuantizedType:
        """The quantized element type, of the input or of the result."""

    @property
    def quantized(self) -> UniformType:
        """The quantized element type, for casts that the compiler can compute.

        Raises:
            QmlirError: The type is not a `UniformType`: the compiler only reads and prints the others (foreign.py).
        """
        type = self.quantized_type
        if isinstance(type, UniformType):
            return type
        raise QmlirError(
            "needs one scale, or one for each index of one axis, and integers as storage",
            where=self.name,
            got=str(type),
            remedy="quantize per tensor or per axis",
        )

    @abc.abstractmethod
    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        """Computes the result on numpy arrays; quantized values are given as stored integers in `numpy_dtype`."""

    def sample_axis(self, axes: Axes) -> int:
        """Returns the axis along which the samples of a batch lie in the result: that of the input."""
        return only_first(axes)

    @abc.abstractmethod
    def verify_elements(self) -> None:
        """Checks Q1 and Q4."""

    def verify_(self) -> None:
        input_type, result_type = self.input.type, self.result.type
        input_shape, result_shape = shape_of(input_type), shape_of(result_type)
        self.verify_elements()
        if input_shape != result_shape:  # Q2
            raise VerifyException(f"'{self.name}' {MATCHING_SHAPES}: got {input_type} and {result_type}")
        match self.quantized_type:
            case SubChannelType() as blocks:
                verify_blocks(self.name, blocks, input_shape)
            case LayerOrAxisType(axis=int()) as channels:
                self._verify_axis(channels, input_shape)
            case _:
                pass

    def _verify_axis(self, quantized: LayerOrAxisType, shape: Shape) -> None:
        """Checks Q3."""
        axis = quantized.axis
        assert axis is not None
        if shape is None:
            raise VerifyException(f"'{self.name}' scalar types may not use per-axis quantization: got {quantized}")
        if shape == UNRANKED:
            return
        if axis >= len(shape):
            raise VerifyException(
                f"'{self.name}' quantized dimension must be less than tensor rank: "
                f"got dimension {axis} of rank {len(shape)}"
            )
        length, count = shape[axis], len(quantized.scales)
        if length not in (DYNAMIC_INDEX, count):
            raise VerifyException(
                f"'{self.name}' quantized dimension size does not match number of scales: "
                f"dimension {axis} has size {length}, and there are {count} scales"
            )

    def _verify_ways(self, known: Collection[str]) -> None:
        """Checks Q6."""
        for fact in (QUANTIZATION, REST):
            if (way := fact.of(self)) is not None and way not in known:
                raise VerifyException(f"'{self.name}' {fact} must be one of {', '.join(known)}, got {way}")
        if REST.on(self) and isinstance(type := self.quantized_type, UniformType) and type.is_per_axis:
            raise VerifyException(f"'{self.name}' {REST} needs one scale for all elements, got {type}")

    def _with_rest(self, x: Array, compute: Callable[[Array, str], Array]) -> Array:
        """Computes a tensor in the way of the cast, and its last elements, fewer than eight, in a way of their own."""
        y = compute(x, self.quantization)
        count = x.size % REST_BELOW
        if self.rest is not None and count:
            y = np.array(y, order="C")
            y.reshape(-1)[-count:] = compute(x.reshape(-1)[-count:], self.rest)
        return y

    @property
    def quantization(self) -> str:
        """How the cast computes and rounds, "exact" by default."""
        return QUANTIZATION.of(self) or "exact"

    @property
    def rest(self) -> str | None:
        """How the cast computes the last elements, fewer than eight; None if as the others."""
        return REST.of(self)

    def _require(self, value: SSAValue, position: str, kind: str, holds: Callable[[Attribute], bool]) -> None:
        """Checks Q1 for the input or the result."""
        if not holds(element_type(value.type)):
            raise VerifyException(f"'{self.name}' {position} #0 must be scalar or tensor of {kind}, got {value.type}")

    def _require_expressed(self, value: SSAValue) -> None:
        """Checks Q4 for the float side of the cast."""
        if element_type(value.type) != self.quantized_type.expressed:
            raise VerifyException(
                f"'{self.name}' expressed type in quantized type expected to match float type: "
                f"got {self.quantized_type.expressed} and {element_type(value.type)}"
            )


@irdl_op_definition
class QuantizeCastOp(CastOp):
    """Quantizes: q = clamp(rint(x / scale) + zero_point, storage_min, storage_max), in float64, half to even.

    NaN gives the zero point. The attribute `qmlir.quantization` may select another way to divide and round from
    `fixed_point.QUANTIZATIONS`, and `qmlir.rest` another for the last elements, fewer than eight.

    (Q6) `qmlir.quantization` and `qmlir.rest`, if present, are names in `fixed_point.QUANTIZATIONS`; the second is for
         one scale only
    """

    name = "quant.qcast"

    @property
    def quantized_type(self) -> QuantizedType:
        return cast(QuantizedType, element_type(self.result.type))

    def verify_elements(self) -> None:
        self._require(self.input, "operand", "floating-point", _is_float)
        self._require(self.result, "result", "quantized type", _is_quantized)
        self._require_expressed(self.input)
        self._verify_ways(fixed_point.QUANTIZATIONS)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), q = inputs, self.quantized

        def compute(x: Array, by: str) -> Array:
            scale, zero_point = q.parameters_along(x.ndim)
            return fixed_point.quantize(x, scale, zero_point, q.storage_min, q.storage_max, q.numpy_dtype, by)

        return (self._with_rest(x, compute),)


@irdl_op_definition
class DequantizeCastOp(CastOp):
    """Dequantizes: x = (q − zero_point) · scale, in float64, rounded once to the expressed type.

    The attribute `qmlir.quantization` may select another way from `fixed_point.DEQUANTIZATIONS`, and `qmlir.rest`
    another for the last elements, fewer than eight.

    (Q6) `qmlir.quantization` and `qmlir.rest`, if present, are names in `fixed_point.DEQUANTIZATIONS`; the second is
         for one scale only
    """

    name = "quant.dcast"

    @property
    def quantized_type(self) -> QuantizedType:
        return cast(QuantizedType, element_type(self.input.type))

    def verify_elements(self) -> None:
        self._require(self.input, "operand", "quantized type", _is_quantized)
        self._require(self.result, "result", "floating-point", _is_float)
        self._require_expressed(self.result)
        self._verify_ways(fixed_point.DEQUANTIZATIONS)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (stored,), q = inputs, self.quantized

        def compute(stored: Array, by: str) -> Array:
            scale, zero_point = q.parameters_along(stored.ndim)
            return fixed_point.dequantize(stored, scale, zero_point, _float_dtype(q.expressed), by, self.sign_shift)

        return (self._with_rest(stored, compute),)

    @property
    def sign_shift(self) -> int:
        """How much larger the stored integers and the zero point are in the source model, which has them unsigned."""
        return UNSIGNED.of(self) or 0


@irdl_op_definition
class StorageCastOp(CastOp, HasFolderInterface):
    """Reinterprets quantized values as their stored integers, or integers as quantized values, without computation.

    Integers are signless, as upstream: the stored 200 of a `u8` type becomes −56 as an `i8`. An `scast` followed by
    the inverse `scast` folds.
    """

    name = "quant.scast"

    @property
    def to_storage(self) -> bool:
        """Whether the cast goes from the quantized to the integer type."""
        return _is_quantized(element_type(self.input.type))

    @property
    def quantized_type(self) -> QuantizedType:
        return cast(QuantizedType, element_type((self.input if self.to_storage else self.result).type))

    def verify_elements(self) -> None:
        kind = "signless integer or quantized type"
        self._require(self.input, "operand", kind, lambda e: _is_quantized(e) or _is_signless(e))
        self._require(self.result, "result", kind, lambda e: _is_quantized(e) or _is_signless(e))
        input_element, result_element = element_type(self.input.type), element_type(self.result.type)
        if _is_quantized(input_element) == _is_quantized(result_element):  # Q1
            raise VerifyException(
                f"'{self.name}' input must be integer and result must be quantized, or vice versa: "
                f"got {input_element} and {result_element}"
            )
        integer = result_element if self.to_storage else input_element
        if integer != self.quantized_type.storage_type:  # Q4
            raise VerifyException(
                f"'{self.name}' storage type in quantized type expected to match integer type: "
                f"got {self.quantized_type.storage_type} and {integer}"
            )

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        source = self.input.owner
        if isinstance(source, StorageCastOp) and source.input.type == self.result.type:
            return [source.input]
        return None

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), q = inputs, self.quantized
        bits = q.storage_width
        wide = x.astype(np.int64) & ((1 << bits) - 1)
        signed = q.is_signed or self.to_storage
        wide = wide - ((wide >> bits - 1) << bits) if signed else wide
        container = q.numpy_dtype if not self.to_storage else np.dtype(f"int{q.numpy_dtype.itemsize * 8}")
        return (wide.astype(container),)


def _float_dtype(expressed: Attribute) -> np.dtype[Any]:
    """Returns the numpy type of an expressed type; raises QmlirError if numpy has no such type."""
    known: dict[type[Attribute], str] = {Float16Type: "float16", Float32Type: "float32", Float64Type: "float64"}
    if type(expressed) not in known:
        raise QmlirError("numpy has no type for it", where=f"quant.dcast to {expressed}", remedy="express it as f32")
    return np.dtype(known[type(expressed)])


def _is_float(element: Attribute) -> bool:
    return isinstance(element, AnyFloat)


def _is_quantized(element: Attribute) -> bool:
    return isinstance(element, QuantizedType)


def _is_signless(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and cast(IntegerType, element).signedness.data == Signedness.SIGNLESS
