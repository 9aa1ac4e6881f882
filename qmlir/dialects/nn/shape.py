"""Constants and data movement: the operations that compute nothing.

They accept elements of any type (float, quantized or integer) and are used on every level that has tensors, nn and
qint alike. On a quantized type `evaluate` moves the stored integers, which moves the real values they represent.
"""

import abc
from collections.abc import Sequence
from math import isnan, prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.rules import SameScale
from qmlir.dialects.quant.types import UniformType, storage_tensor
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import Array, Shape, TensorOp, element_of, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import fixed_point


@irdl_op_definition
class ConstantOp(TensorOp):
    """A constant tensor; if its type is quantized, `value` holds the stored integers.

    (C1) `value` has the result's type, or the result's storage type if the result is quantized
    """

    name = "nn.constant"
    value = prop_def(WeightsAttr)
    y = result_def(TensorType)

    traits = traits_def(ConstantLike())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$value attr-dict `:` type($y)"

    def __init__(
        self,
        value: WeightsAttr | Array,
        type: TensorType[Attribute] | None = None,
        attributes: dict[str, Attribute] | None = None,
    ):
        weights = value if isinstance(value, WeightsAttr) else WeightsAttr(value)
        super().__init__(result_types=[type or weights.type], properties={"value": weights}, attributes=attributes)

    def infer_shapes(self) -> Sequence[Shape]:
        return [self.value.array.shape]

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [None if isinstance(element_of(self.y), UniformType) else self.value.type.element_type]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.value.array,)

    def verify_(self) -> None:
        super().verify_()
        element = element_of(self.y)
        if isinstance(element, UniformType) and np.dtype(element.numpy_dtype) != self.value.array.dtype:  # C1
            raise VerifyException(
                f"'{self.name}' of type {self.y.type} must hold {storage_tensor(self.y.type)}, got {self.value.type}"
            )


class MovementOp(TensorOp, abc.ABC):
    """An operation that moves elements of any type unchanged."""

    y = result_def(TensorType)

    traits = traits_def(SameScale())
    irdl_options = (ParsePropInAttrDict(),)

    def data_operands(self) -> Sequence[SSAValue]:
        """The operands whose elements move; they come first, and operands of indices follow them."""
        return self.operands

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [element_of(self.operands[0])]


@irdl_op_definition
class ReshapeOp(MovementOp):
    """The same elements in row-major order under another shape.

    (C1) the new shape has no negative dimension and as many elements as the old shape
    """

    name = "nn.reshape"
    x = operand_def(TensorType)
    shape = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        shape = tuple(self.shape.get_values())
        if min(shape, default=0) < 0 or prod(shape) != prod(shape_of(self.x)):  # C1
            raise VerifyException(f"'{self.name}' cannot turn {list(shape_of(self.x))} into {list(shape)}")
        return [shape]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].reshape(self.infer_shapes()[0]),)


@irdl_op_definition
class TransposeOp(MovementOp):
    """Dimension i of the result is dimension permutation[i] of the operand.

    (C1) the permutation names each dimension once
    """

    name = "nn.transpose"
    x = operand_def(TensorType)
    permutation = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        x, permutation = shape_of(self.x), self.permutation.get_values()
        if sorted(permutation) != list(range(len(x))):  # C1
            raise VerifyException(f"'{self.name}' needs a permutation of {len(x)} dimensions, got {list(permutation)}")
        return [tuple(x[p] for p in permutation)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].transpose(self.permutation.get_values()).copy(order="C"),)


@irdl_op_definition
class BroadcastOp(MovementOp):
    """The operand repeated along missing dimensions and dimensions of size 1, as in numpy broadcasting.

    (C1) the operand broadcasts to the shape
    """

    name = "nn.broadcast"
    x = operand_def(TensorType)
    shape = prop_def(DenseArrayBase.constr(i64))

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        x, shape = shape_of(self.x), tuple(self.shape.get_values())
        own = shape[len(shape) - len(x) :] if len(x) <= len(shape) else None
        if own is None or any(size not in (1, wanted) for size, wanted in zip(x, own, strict=True)):  # C1
            raise VerifyException(f"'{self.name}' cannot repeat {list(x)} to {list(shape)}")
        if min(shape, default=0) < 0:  # C1
            raise VerifyException(f"'{self.name}' needs a shape without negative dimensions, got {list(shape)}")
        return [shape]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.broadcast_to(inputs[0], self.infer_shapes()[0]).copy(),)


@irdl_op_definition
class ConcatOp(MovementOp):
    """The operands concatenated along `axis`.

    (C1) there is at least one operand; all have the same element type, and the same sizes along the other dimensions
    """

    name = "nn.concat"
    inputs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr.constr(i64))

    assembly_format = "$inputs attr-dict `:` type($inputs) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        shapes, axis = [shape_of(x) for x in self.inputs], self.axis.value.data
        fits = bool(shapes) and 0 <= axis < len(shapes[0])
        rest = {(*s[:axis], *s[axis + 1 :], element_of(x)) for s, x in zip(shapes, self.inputs, strict=True)}
        if not fits or len({len(s) for s in shapes}) != 1 or len(rest) != 1:  # C1
            kinds = ", ".join(str(x.type) for x in self.inputs)
            raise VerifyException(
                f"'{self.name}' needs operands that differ along axis {axis} only, got {kinds or 'none'}"
            )
        return [(*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.concatenate(inputs, axis=self.axis.value.data),)


@irdl_op_definition
class PadOp(MovementOp):
    """Adds `low[i]` elements before and `high[i]` after the operand along each dimension i.

    `value` is the real value of the new elements: a float for float and quantized tensors, an integer for integer
    tensors. In a quantized tensor the new elements are `value` quantized to the tensor's type, saturated to its range.

    (C1) `low` and `high` have one entry, not negative, for each dimension
    (C2) `value` is a float for float and quantized tensors, and for integer tensors an integer that their type holds
    (C3) a quantized tensor is not padded with NaN
    """

    name = "nn.pad"
    x = operand_def(TensorType)
    low = prop_def(DenseArrayBase.constr(i64))
    high = prop_def(DenseArrayBase.constr(i64))
    value = prop_def(FloatAttr[AnyFloat] | IntegerAttr)

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def pads(self) -> list[tuple[int, int]]:
        """(low, high) for each dimension."""
        return list(zip(self.low.get_values(), self.high.get_values(), strict=True))

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if not len(self.low) == len(self.high) == len(x) or min(min(p) for p in [*self.pads(), (0, 0)]) < 0:  # C1
            raise VerifyException(f"'{self.name}' needs {len(x)} paddings low and high, none negative")
        if isinstance(self.value, FloatAttr) != self.takes_real_value():  # C2
            raise VerifyException(f"'{self.name}' of {element_of(self.x)} cannot pad with {self.value}")
        element = element_of(self.x)
        if isinstance(element, IntegerType) and not _holds(
            cast(IntegerType, element), int(self.value.value.data)
        ):  # C2
            raise VerifyException(f"'{self.name}' of {element} cannot pad with {self.value}, which it does not hold")
        if isinstance(element, UniformType) and isnan(float(self.value.value.data)):  # C3
            raise VerifyException(f"'{self.name}' of quantized values cannot pad with NaN")
        return [tuple(low + size + high for size, (low, high) in zip(x, self.pads(), strict=True))]

    def takes_real_value(self) -> bool:
        """Whether the elements represent real numbers (float or quantized), so that the padding value is a float."""
        return not isinstance(element_of(self.x), IntegerType)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (np.pad(x, self.pads(), constant_values=self.stored_value()),)

    def stored_value(self) -> Array:
        """The padding value as it is stored in the operand's array, as a 0-d array."""
        value, element = np.array(self.value.value.data), element_of(self.x)
        if not isinstance(element, UniformType):
            return value.astype(dtype_of(element))
        limits = element.storage_min, element.storage_max
        return fixed_point.quantize(value, element.scale, element.zero_point, *limits, np.dtype(element.numpy_dtype))


def _holds(element: IntegerType, value: int) -> bool:
    """Whether an integer type holds a value; signless types are signed, and i1 holds 0 and, for true, 1 or −1."""
    bits = element.width.data
    if element.signedness.data == Signedness.UNSIGNED:
        return 0 <= value < 1 << bits
    return -(1 << bits - 1) <= value < 1 << bits - 1 or (bits == 1 and value == 1)
