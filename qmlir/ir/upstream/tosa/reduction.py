"""TOSA's reductions along an axis; the result keeps the axis with a length of 1, except for argmax."""

import abc

from xdsl.dialects.builtin import IntegerAttr, i1, i32
from xdsl.dialects.tosa import NanModeAttr
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def

from qmlir.ir.upstream.tosa.base import TENSOR, TosaOp, element, is_integer, sizes


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
        if shape is not None:
            self.check_result((*shape[:axis], *((1,) if shape else ()), *shape[axis + 1 :]))  # R2


class LogicalReductionOp(ReductionOp, abc.ABC):
    """Base of the reductions of truth values.

    (R3) the elements are i1
    """

    def verify_(self) -> None:
        super().verify_()
        self.check_element(i1, input=self.input)  # R3


@irdl_op_definition
class ReduceAllOp(LogicalReductionOp):
    """Whether all elements along `axis` are true."""

    name = "tosa.reduce_all"


@irdl_op_definition
class ReduceAnyOp(LogicalReductionOp):
    """Whether any element along `axis` is true."""

    name = "tosa.reduce_any"


@irdl_op_definition
class ReduceMaxOp(ReductionOp):
    """The greatest element along `axis`."""

    name = "tosa.reduce_max"
    nan_mode = opt_prop_def(NanModeAttr)


@irdl_op_definition
class ReduceMinOp(ReductionOp):
    """The least element along `axis`."""

    name = "tosa.reduce_min"
    nan_mode = opt_prop_def(NanModeAttr)


@irdl_op_definition
class ReduceProductOp(ReductionOp):
    """The product of the elements along `axis`."""

    name = "tosa.reduce_product"


@irdl_op_definition
class ReduceSumOp(ReductionOp):
    """The sum of the elements along `axis`."""

    name = "tosa.reduce_sum"


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
        if shape is not None:
            self.check_result((*shape[:axis], *shape[axis + 1 :]))  # R2
