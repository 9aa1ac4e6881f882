"""Reductions along one axis, and pools over windows."""

import abc

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i1, i16, i32, i64
from xdsl.dialects.tosa import NanModeAttr
from xdsl.ir import TypeAttribute
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from qmlir.ir.upstream import named
from qmlir.ir.upstream.tosa.base import TENSOR, TosaOp, element, fits, is_integer, numbers, sizes
from qmlir.ir.upstream.tosa.contraction import ACCUMULATORS, SlidingOp

# ---------------------------------------------------------------------------------------------------------------
# TOSA's reductions along an axis; the result keeps the axis with a length of 1, except for argmax.


class ReductionOp(TosaOp, abc.ABC):
    """Base of the operations that reduce all elements along `axis` to a single element.

    (R1) the axis lies within the rank
    (R2) the result has the input's element type, and the input's shape with a 1 at the axis
    """

    input = operand_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i32))
    output = result_def(TENSOR)

    def verify_(self) -> None:
        axis = self.axis.value.data
        self.check_axis(axis, self.input)  # R1
        self.check_element(element(self.input), result=self.output)  # R2
        shape = sizes(self.input)
        self.check_result(shape and (*shape[:axis], 1, *shape[axis + 1 :]))  # R2


class LogicalReductionOp(ReductionOp, abc.ABC):
    """Base of the reductions of truth values.

    (R3) the elements are i1
    """

    def verify_(self) -> None:
        super().verify_()
        self.check_element(i1, input=self.input)  # R3


class ExtremumReductionOp(ReductionOp, abc.ABC):
    """Base of the reductions that select an element."""

    nan_mode = opt_prop_def(NanModeAttr)


ReduceAllOp = named("tosa.reduce_all", LogicalReductionOp, "Whether all elements along `axis` are true.")
ReduceAnyOp = named("tosa.reduce_any", LogicalReductionOp, "Whether any element along `axis` is true.")
ReduceMaxOp = named("tosa.reduce_max", ExtremumReductionOp, "The greatest element along `axis`.")
ReduceMinOp = named("tosa.reduce_min", ExtremumReductionOp, "The least element along `axis`.")
ReduceProductOp = named("tosa.reduce_product", ReductionOp, "The product of the elements along `axis`.")
ReduceSumOp = named("tosa.reduce_sum", ReductionOp, "The sum of the elements along `axis`.")


@irdl_op_definition
class ArgMaxOp(TosaOp):
    """The index of the greatest element along `axis`; of equal elements, the first.

    (R1) the axis lies within the rank
    (R2) the result has the input's shape without the axis, and integers as elements
    """

    name = "tosa.argmax"
    input = operand_def(TENSOR)
    axis = prop_def(IntegerAttr.constr(i32))
    nan_mode = opt_prop_def(NanModeAttr)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        axis = self.axis.value.data
        self.check_axis(axis, self.input)  # R1
        if not is_integer(element(self.output)):  # R2
            self.fail(f"must yield integers, got {self.output.type}")
        shape = sizes(self.input)
        self.check_result(shape and (*shape[:axis], *shape[axis + 1 :]))  # R2


# ---------------------------------------------------------------------------------------------------------------
# TOSA's pooling operations, over the two spatial axes of [N, H, W, C].


class PoolOp(SlidingOp, abc.ABC):
    """Base of the pooling operations: input [N,H,W,C], output [N,OH,OW,C]; pad is top, bottom, left, right.

    (P1) input and result have rank 4, the same element type, and the same numbers of images and channels
    (P2) there are two kernel sizes, two strides and four paddings; each kernel size is at least 1 and larger than the
         paddings along its dimension
    """

    kernel = prop_def(DenseArrayBase.constr(i64))
    stride = prop_def(DenseArrayBase.constr(i64))
    pad = prop_def(DenseArrayBase.constr(i64))
    output = result_def(TENSOR)

    def verify_(self) -> None:
        data = self.operands[0]
        self.check_rank(4, input=data, result=self.output)  # P1
        self.check_element(element(data), result=self.output)  # P1
        if (len(self.kernel), len(self.stride), len(self.pad)) != (2, 2, 4):  # P2
            counts = f"{len(self.kernel)}, {len(self.stride)} and {len(self.pad)}"
            self.fail(f"needs 2 kernel sizes, 2 strides and 4 paddings, got {counts}")
        kernel, pad = numbers(self.kernel), numbers(self.pad)
        if min(kernel) < 1 or max(pad[:2]) >= kernel[0] or max(pad[2:]) >= kernel[1]:  # P2
            self.fail(f"needs a kernel of at least 1 that is larger than the padding, got {kernel} and {pad}")
        self.check_windows(kernel, numbers(self.stride), pad, (1, 1))
        before, after = sizes(data), sizes(self.output)
        if before is not None and after is not None and not fits((after[0], after[3]), (before[0], before[3])):  # P1
            self.fail(f"must keep images and channels, got {self.output.type} from {data.type}")


@irdl_op_definition
class AvgPool2DOp(PoolOp):
    """The mean of each window's elements inside the image, by a reciprocal multiplier as in the TOSA specification.

    (P3) each zero point has one element, of the element type of its input or output, and is 0 unless that has 8 bits
    (P4) acc_type is an accumulator type that TOSA allows for the input's element type
    """

    name = "tosa.avg_pool2d"
    input = operand_def(TENSOR)
    input_zp = operand_def(TENSOR)
    output_zp = operand_def(TENSOR)
    acc_type = prop_def(TypeAttribute)

    def verify_(self) -> None:
        super().verify_()
        self.check_zero_point("input_zp", self.input_zp, self.input)  # P3
        self.check_zero_point("output_zp", self.output_zp, self.output)  # P3
        self.check_accumulator(self.acc_type, {**ACCUMULATORS, i16: (i32,)})  # P4


@irdl_op_definition
class MaxPool2DOp(PoolOp):
    """The maximum of each window's elements inside the image."""

    name = "tosa.max_pool2d"
    input = operand_def(TENSOR)
    nan_mode = opt_prop_def(NanModeAttr)


REDUCTIONS = (
    *(ReduceAllOp, ReduceAnyOp, ReduceMaxOp, ReduceMinOp, ReduceProductOp, ReduceSumOp),
    *(ArgMaxOp, AvgPool2DOp, MaxPool2DOp),
)
"""All operations of this file."""
