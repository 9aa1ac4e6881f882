"""Data movement: constants, shapes, permutations, padding and slices."""

import abc
from collections.abc import Sequence
from math import isnan, prod
from typing import ClassVar, cast

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
from xdsl.ir import Attribute
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.quantizable import ALL_STORAGES, QuantizableOp
from qmlir.dialects.quant.rules import SameScale
from qmlir.dialects.quant.types import UniformType, storage_tensor
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Array, ComposedOp, Shape, TensorOp, UnaryTensorOp, element_of, shape_of
from qmlir.ir.samples import Axes, MixesSamples, kept_axis, moved_axis, only_first
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import fixed_point

# ---------------------------------------------------------------------------------------------------------------
# Constants and data movement: the operations that compute nothing.
#
# They accept elements of any type (float, quantized or integer) and are used on every level that has tensors, nn and
# qint alike. On a quantized type `evaluate` moves the stored integers, which moves the real values they represent.


@irdl_op_definition
class ConstantOp(TensorOp):
    """A constant tensor; if its type is quantized, `value` holds the stored integers.

    (C1) `value` has the result's type, or the result's storage type if the result is quantized
    """

    name = "nn.constant"
    value = prop_def(WeightsAttr)
    y = result_def(TensorType)

    traits = traits_def(ConstantLike())
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
        return [self.value.shape]

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [None if isinstance(element_of(self.y), UniformType) else self.value.type.element_type]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.value.array,)

    def verify_(self) -> None:
        super().verify_()
        element = element_of(self.y)
        if isinstance(element, UniformType) and np.dtype(element.numpy_dtype) != self.value.dtype:  # C1
            raise VerifyException(
                f"'{self.name}' of type {self.y.type} must hold {storage_tensor(self.y.type)}, got {self.value.type}"
            )


class MovementOp(QuantizableOp, abc.ABC):
    """An operation that moves elements of any type unchanged; in `operands`, indices follow the data."""

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    SIZES: ClassVar[str] = ""
    """The property that holds the sizes of the result, which a batch makes longer; empty if none does."""

    y = result_def(TensorType)

    traits = traits_def(SameScale())

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [element_of(self.operands[0])]


@irdl_op_definition
class ReshapeOp(UnaryTensorOp, MovementOp):
    """The same elements in row-major order under another shape.

    (C1) the new shape has no negative dimension and as many elements as the old shape
    """

    name = "nn.reshape"
    SIZES: ClassVar[str] = "shape"

    shape = prop_def(DenseArrayBase.constr(i64))

    def infer_shapes(self) -> Sequence[Shape]:
        shape = tuple(self.shape.get_values())
        if min(shape, default=0) < 0 or prod(shape) != prod(shape_of(self.x)):  # C1
            raise VerifyException(f"'{self.name}' cannot turn {list(shape_of(self.x))} into {list(shape)}")
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        axis, outer = moved_axis(only_first(axes), 1, shape_of(self.x), shape_of(self.y))
        if outer != 1:
            raise MixesSamples("gives rows to each sample that are no neighbours")
        return axis

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].reshape(self.infer_shapes()[0]),)


@irdl_op_definition
class TransposeOp(UnaryTensorOp, MovementOp):
    """Dimension i of the result is dimension permutation[i] of the operand.

    (C1) the permutation names each dimension once
    """

    name = "nn.transpose"
    permutation = prop_def(DenseArrayBase.constr(i64))

    def infer_shapes(self) -> Sequence[Shape]:
        x, permutation = shape_of(self.x), self.permutation.get_values()
        if sorted(permutation) != list(range(len(x))):  # C1
            raise VerifyException(f"'{self.name}' needs a permutation of {len(x)} dimensions, got {list(permutation)}")
        return [tuple(x[p] for p in permutation)]

    def sample_axis(self, axes: Axes) -> int:
        return list(self.permutation.get_values()).index(only_first(axes))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0].transpose(self.permutation.get_values()).copy(order="C"),)


@irdl_op_definition
class BroadcastOp(UnaryTensorOp, MovementOp):
    """The operand repeated along missing dimensions and dimensions of size 1, as in numpy broadcasting.

    (C1) the operand broadcasts to the shape
    """

    name = "nn.broadcast"
    SIZES: ClassVar[str] = "shape"

    shape = prop_def(DenseArrayBase.constr(i64))

    def infer_shapes(self) -> Sequence[Shape]:
        x, shape = shape_of(self.x), tuple(self.shape.get_values())
        own = shape[len(shape) - len(x) :] if len(x) <= len(shape) else None
        if own is None or any(size not in (1, wanted) for size, wanted in zip(x, own, strict=True)):  # C1
            raise VerifyException(f"'{self.name}' cannot repeat {list(x)} to {list(shape)}")
        if min(shape, default=0) < 0:  # C1
            raise VerifyException(f"'{self.name}' needs a shape without negative dimensions, got {list(shape)}")
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        own, shape = shape_of(self.x), shape_of(self.y)
        place = len(shape) - len(own) + only_first(axes)
        if shape[place] != own[only_first(axes)]:
            raise MixesSamples("repeats elements along the axis on which the samples lie")
        return place

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

    def sample_axis(self, axes: Axes) -> int:
        found = {axis for axis in axes if axis is not None}
        if len(found) != 1:
            raise MixesSamples("joins tensors whose samples lie along different axes")
        (axis,) = found
        if axis == self.axis.value.data:
            raise MixesSamples("joins tensors along the axis on which the samples lie")
        if None in axes and shape_of(self.y)[axis] != 1:
            raise MixesSamples("joins samples of several elements with a tensor that is the same for all samples")
        return axis

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.concatenate(inputs, axis=self.axis.value.data),)


class FillingOp(UnaryTensorOp, MovementOp, abc.ABC):
    """A data movement that puts new elements, all of one value, beside those of its operand.

    `value` is the real value of the new elements: a float for float and quantized tensors, an integer for integer
    tensors. In a quantized tensor the new elements are `value` quantized to the tensor's type, saturated to its range.

    (F1) `value` is a float for float and quantized tensors, and for integer tensors an integer that their type holds
    (F2) a quantized tensor is not padded with NaN
    """

    value = prop_def(FloatAttr[AnyFloat] | IntegerAttr)

    def infer_elements(self) -> Sequence[Attribute | None]:
        element = element_of(self.x)
        if isinstance(self.value, FloatAttr) != self.takes_real_value():  # F1
            raise VerifyException(f"'{self.name}' of {element} cannot pad with {self.value}")
        if isinstance(element, IntegerType) and not _holds(
            cast(IntegerType, element), int(self.value.value.data)
        ):  # F1
            raise VerifyException(f"'{self.name}' of {element} cannot pad with {self.value}, which it does not hold")
        if isinstance(element, UniformType) and isnan(float(self.value.value.data)):  # F2
            raise VerifyException(f"'{self.name}' of quantized values cannot pad with NaN")
        return super().infer_elements()

    def takes_real_value(self) -> bool:
        """Whether the elements represent real numbers (float or quantized), so that the new elements' value is one."""
        return not isinstance(element_of(self.x), IntegerType)

    def real_value(self) -> FloatAttr[AnyFloat] | None:
        """The value of the new elements where it is a real number; None where it is an integer."""
        return self.value if isinstance(self.value, FloatAttr) else None

    def stored_value(self) -> Array:
        """The value of the new elements as it is stored in the operand's array, as a 0-d array."""
        value, element = np.array(self.value.value.data), element_of(self.x)
        if not isinstance(element, UniformType):
            return value.astype(dtype_of(element))
        limits = element.storage_min, element.storage_max
        return fixed_point.quantize(value, element.scale, element.zero_point, *limits, np.dtype(element.numpy_dtype))


@irdl_op_definition
class PadOp(FillingOp):
    """Adds `low[i]` elements before and `high[i]` after the operand along each dimension i.

    (C1) `low` and `high` have one entry, not negative, for each dimension
    """

    name = "nn.pad"
    low = prop_def(DenseArrayBase.constr(i64))
    high = prop_def(DenseArrayBase.constr(i64))

    def pads(self) -> list[tuple[int, int]]:
        """(low, high) for each dimension."""
        return list(zip(self.low.get_values(), self.high.get_values(), strict=True))

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if not len(self.low) == len(self.high) == len(x) or min(min(p) for p in [*self.pads(), (0, 0)]) < 0:  # C1
            raise VerifyException(f"'{self.name}' needs {len(x)} paddings low and high, none negative")
        return [tuple(low + size + high for size, (low, high) in zip(x, self.pads(), strict=True))]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [i for i, amounts in enumerate(self.pads()) if any(amounts)])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (np.pad(x, self.pads(), constant_values=self.stored_value()),)


@irdl_op_definition
class DilateOp(FillingOp, ComposedOp):
    """Puts dilations[i] − 1 elements between neighbours along each dimension i, and none before or behind all.

    (C1) `dilations` has one entry, at least 1, for each dimension
    """

    name = "nn.dilate"
    dilations = prop_def(DenseArrayBase.constr(i64))

    def infer_shapes(self) -> Sequence[Shape]:
        x, dilations = shape_of(self.x), self.dilations.get_values()
        if len(dilations) != len(x) or min(dilations, default=1) < 1:  # C1
            raise VerifyException(f"'{self.name}' needs {len(x)} dilations of at least 1, got {list(dilations)}")
        return [tuple((size - 1) * d + 1 if size else 0 for size, d in zip(x, dilations, strict=True))]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [i for i, step in enumerate(self.dilations.get_values()) if step != 1])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        y = np.full(self.infer_shapes()[0], self.stored_value())
        y[tuple(slice(None, None, d) for d in self.dilations.get_values())] = inputs[0]
        return (y,)

    def parts(self) -> Sequence[TensorOp]:
        """For each dimension: rows of its elements are padded on the right, joined, and cut behind the last element."""
        shape, found, x = list(shape_of(self.x)), list[TensorOp](), self.x

        def add(op: type[MovementOp], properties: dict[str, Attribute]) -> None:
            nonlocal x
            found.append(op.make([x], properties))
            x = found[-1].results[0]

        for axis, d in enumerate(self.dilations.get_values()):
            size, before, after = shape[axis], prod(shape[:axis]), prod(shape[axis + 1 :])
            if d > 1 and size > 1:
                shape[axis] = (size - 1) * d + 1
                add(ReshapeOp, {"shape": ints((before * size, after))})
                add(PadOp, {"low": ints((0, 0)), "high": ints((0, (d - 1) * after)), "value": self.value})
                add(ReshapeOp, {"shape": ints((before, size * d, after))})
                sizes = {"sizes": ints((before, shape[axis], after))}
                add(SliceOp, {"offsets": ints((0, 0, 0)), **sizes, "strides": ints((1, 1, 1))})
        add(ReshapeOp, {"shape": ints(shape)})
        return found


def _holds(element: IntegerType, value: int) -> bool:
    """Whether an integer type holds a value; signless types are signed, and i1 holds 0 and, for true, 1 or −1."""
    bits = element.width.data
    if element.signedness.data == Signedness.UNSIGNED:
        return 0 <= value < 1 << bits
    return -(1 << bits - 1) <= value < 1 << bits - 1 or (bits == 1 and value == 1)


@irdl_op_definition
class SliceOp(UnaryTensorOp, MovementOp):
    """Element i of the result along each dimension is element offset + i · stride of the operand.

    (C1) each dimension has one offset, one size and one stride; no stride is 0, no size is negative
    (C2) every element of the result lies inside the operand
    """

    name = "nn.slice"
    SIZES: ClassVar[str] = "sizes"

    offsets = prop_def(DenseArrayBase.constr(i64))
    sizes = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))

    def steps(self) -> list[tuple[int, int, int]]:
        """(offset, size, stride) for each dimension."""
        values = (self.offsets.get_values(), self.sizes.get_values(), self.strides.get_values())
        return list(zip(*values, strict=True))

    def infer_shapes(self) -> Sequence[Shape]:
        x, sizes = shape_of(self.x), tuple(self.sizes.get_values())
        counts = {len(self.offsets), len(sizes), len(self.strides)}
        if counts != {len(x)} or 0 in self.strides.get_values() or min(sizes, default=0) < 0:  # C1
            raise VerifyException(
                f"'{self.name}' needs {len(x)} offsets, sizes that are not negative, and strides that are not 0"
            )
        for extent, (offset, size, stride) in zip(x, self.steps(), strict=True):
            if size and not (0 <= offset < extent and 0 <= offset + (size - 1) * stride < extent):  # C2
                raise VerifyException(
                    f"'{self.name}' takes {size} elements from {offset} in steps of {stride} out of {extent}"
                )
        return [sizes]

    def sample_axis(self, axes: Axes) -> int:
        whole = [(0, size, 1) for size in shape_of(self.x)]
        return kept_axis(axes, [i for i, step in enumerate(self.steps()) if step != whole[i]])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0][tuple(_python_slice(*step) for step in self.steps())].copy(),)


def _python_slice(offset: int, size: int, stride: int) -> slice:
    stop = offset + size * stride
    return slice(offset, stop if stop >= 0 else None, stride) if size else slice(0, 0)
