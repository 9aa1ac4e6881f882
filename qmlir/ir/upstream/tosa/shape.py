"""TOSA's constants and data movement."""

from math import prod
from typing import cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IndexType,
    IntegerAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.upstream.tosa.base import (
    SHAPE,
    TENSOR,
    ShapeType,
    TosaOp,
    constant_shape,
    element,
    fits,
    known,
    numbers,
    sizes,
    text,
)


def tensor_of(values: Attribute) -> TensorType[Attribute]:
    """Returns the tensor type of constant values; raises VerifyException if they are not a tensor's."""
    type = values.get_type() if isinstance(values, DenseIntOrFPElementsAttr | DenseResourceAttr) else None
    if not isinstance(type, TensorType):
        raise VerifyException(f"a constant tensor is needed, got {values}")
    return cast(TensorType[Attribute], type)


@irdl_op_definition
class ConstOp(TosaOp):
    """A constant tensor.

    (S1) the values have the result's shape and element type
    """

    name = "tosa.const"
    values = prop_def(DenseIntOrFPElementsAttr | DenseResourceAttr)
    output = result_def(TENSOR)

    traits = traits_def(ConstantLike())

    def verify_(self) -> None:
        given = tensor_of(self.values)
        if not fits(sizes(self.output), given.get_shape()) or element(self.output) != given.element_type:  # S1
            self.fail(f"must have the type of its values {given}, got {self.output.type}")


@irdl_op_definition
class ConstShapeOp(TosaOp):
    """A constant shape.

    (S1) the values are a 1-D tensor of index with as many elements as the shape's rank
    """

    name = "tosa.const_shape"
    values = prop_def(DenseIntOrFPElementsAttr)
    output = result_def(SHAPE)

    traits = traits_def(ConstantLike())

    def verify_(self) -> None:
        given = tensor_of(self.values)
        fit = isinstance(given.element_type, IndexType) and len(given.get_shape()) == 1
        if not fit or self.output.type != ShapeType.of(given.get_shape()[0]):  # S1
            self.fail(f"needs a 1-D tensor of index with an element for each dimension, got {given} for "
                      f"{self.output.type}")  # fmt: skip


@irdl_op_definition
class IdentityOp(TosaOp):
    """Returns its operand unchanged.

    (S1) operand and result have the same shape and element type
    """

    name = "tosa.identity"
    input1 = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_same(self.input1)  # S1


@irdl_op_definition
class ConcatOp(TosaOp):
    """Concatenates its operands along `axis`.

    (S1) there is at least one operand, and the axis lies within the rank
    (S2) operands and result agree in element type and in every other dimension
    """

    name = "tosa.concat"
    input1 = var_operand_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i32))
    output = result_def(TENSOR)

    def verify_(self) -> None:
        axis = self.axis.value.data
        if not self.input1:  # S1
            self.fail("needs an operand")
        shapes = [shape for x in self.input1 if (shape := sizes(x)) is not None]
        for x in self.input1:
            self.check_axis(axis, x)  # S1
            self.check_element(element(self.output), operand=x)  # S2
        if len(shapes) < len(self.input1):
            return
        lengths = [shape[axis] if shape else 1 for shape in shapes]
        whole = sum(lengths) if all(map(known, lengths)) else -1
        for shape in shapes:
            if not fits(sizes(self.output), (*shape[:axis], whole, *shape[axis + 1 :])):  # S2
                kinds = ", ".join(str(x.type) for x in self.input1)
                self.fail(f"needs operands that differ along axis {axis} only, got {kinds} to {self.output.type}")


@irdl_op_definition
class PadOp(TosaOp):
    """Pads with `pad_const`; `padding` has two numbers for each dimension: the elements before and after.

    (S1) the padding has two numbers for each dimension, 0 or more
    (S2) pad_const has one element, of the operand's type
    (S3) the result has the operand's element type and its padded shape
    """

    name = "tosa.pad"
    input1 = operand_def(TENSOR)
    padding = operand_def(SHAPE)
    pad_const = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_element(element(self.input1), pad_const=self.pad_const, result=self.output)  # S2 S3
        if not fits(sizes(self.pad_const), (1,)):  # S2
            self.fail(f"needs a pad_const of one element, got {self.pad_const.type}")
        shape = sizes(self.input1)
        if shape is None:
            return
        self.check_shape_rank(2 * len(shape), padding=self.padding)  # S1
        padding = constant_shape(self.padding)
        if padding is None:
            return
        if min(padding, default=0) < 0:  # S1
            self.fail(f"needs padding that is not negative, got {list(padding)}")
        widened = zip(padding[::2], shape, padding[1::2], strict=True)
        self.check_result(low + size + high if known(size) else size for low, size, high in widened)  # S3


@irdl_op_definition
class ReshapeOp(TosaOp):
    """Gives the same elements, in row-major order, another shape.

    (S1) the shape, if it is constant, is the result's
    (S2) operand and result have the same element type and number of elements
    """

    name = "tosa.reshape"
    input1 = operand_def(TENSOR)
    shape = operand_def(SHAPE)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_element(element(self.input1), result=self.output)  # S2
        before, after, shape = sizes(self.input1), sizes(self.output), constant_shape(self.shape)
        if after is not None:
            self.check_shape_rank(len(after), shape=self.shape)  # S1
        if shape is not None:
            self.check_result(size if size >= 0 else -1 for size in shape)  # S1
        if before is not None and after is not None and all(map(known, (*before, *after))):
            if prod(before) != prod(after):  # S2
                self.fail(f"cannot turn {prod(before)} elements into {prod(after)}: {text(before)} to {text(after)}")


@irdl_op_definition
class ReverseOp(TosaOp):
    """Reverses the order of the elements along `axis`.

    (S1) the axis lies within the rank
    (S2) operand and result have the same shape and element type
    """

    name = "tosa.reverse"
    input1 = operand_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i32))
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_axis(self.axis.value.data, self.input1)  # S1
        self.check_same(self.input1)  # S2


@irdl_op_definition
class SliceOp(TosaOp):
    """Takes `size` elements from index `start` on, along each dimension.

    (S1) start and size have a number for each dimension
    (S2) the slice lies within the operand
    (S3) the result has the operand's element type, and the size as its shape
    """

    name = "tosa.slice"
    input1 = operand_def(TENSOR)
    start = operand_def(SHAPE)
    size = operand_def(SHAPE)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_element(element(self.input1), result=self.output)  # S3
        shape, start, size = sizes(self.input1), constant_shape(self.start), constant_shape(self.size)
        if shape is None:
            return
        self.check_shape_rank(len(shape), start=self.start, size=self.size)  # S1
        if size is not None:
            self.check_result(s if s >= 0 else -1 for s in size)  # S3
        if size is not None and start is not None:
            for a, count, length in zip(start, size, shape, strict=True):
                if a < 0 or count < -1 or count == 0 or (known(length) and a + max(count, 0) > length):  # S2
                    self.fail(f"needs a slice within {text(shape)}, got {list(size)} elements from {list(start)} on")


@irdl_op_definition
class TileOp(TosaOp):
    """Repeats the operand `multiples` times along each dimension.

    (S1) multiples has a number for each dimension
    (S2) the result has the operand's element type, and the operand's shape times the multiples
    """

    name = "tosa.tile"
    input1 = operand_def(TENSOR)
    multiples = operand_def(SHAPE)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_element(element(self.input1), result=self.output)  # S2
        shape, multiples = sizes(self.input1), constant_shape(self.multiples)
        if shape is None:
            return
        self.check_shape_rank(len(shape), multiples=self.multiples)  # S1
        if multiples is not None:
            self.check_result(  # S2
                size * times if known(size) and times > 0 else -1 for size, times in zip(shape, multiples, strict=True)
            )


@irdl_op_definition
class TransposeOp(TosaOp):
    """Permutes dimensions: dimension i of the result is dimension perms[i] of the operand.

    (S1) perms contains each dimension once
    (S2) the result has the operand's element type, and the operand's shape permuted
    """

    name = "tosa.transpose"
    input1 = operand_def(TENSOR)
    perms = prop_def(DenseArrayBase.constr(i32))
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_element(element(self.input1), result=self.output)  # S2
        shape, perms = sizes(self.input1), numbers(self.perms)
        if shape is None:
            return
        if sorted(perms) != list(range(len(shape))):  # S1
            self.fail(f"needs a permutation of {len(shape)} dimensions, got {list(perms)}")
        self.check_result(shape[p] for p in perms)  # S2


MOVEMENTS = (
    *(ConstOp, ConstShapeOp, IdentityOp, ConcatOp, PadOp, ReshapeOp, ReverseOp, SliceOp, TileOp),
    TransposeOp,
)
"""All operations of this file."""
