"""What operations on single elements share: one formula is their meaning on arrays and what kernels compute."""

import abc
from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType, f64
from xdsl.ir import SSAValue
from xdsl.irdl import ParsePropInAttrDict, operand_def, result_def

from qmlir.dialects.dtypes import dtype_of
from qmlir.dialects.elementary.lanes import Lanes, N
from qmlir.dialects.interfaces import Array, ScalarOp, Shape, broadcast_shape, element_of, shape_of
from qmlir.dialects.nn.base import Elements, NNOp, is_unsigned


class PointwiseOp(NNOp, abc.ABC):
    """y[i] = formula(each operand at i), shapes broadcast as in numpy.

    (C1) the shapes broadcast
    """

    @abc.abstractmethod
    def formula(self, *operands: N) -> N:
        """The result's element from the operands', written once for arrays and for kernels.

        Integers come without a sign of their own: ask `self.unsigned`.
        """

    @property
    def unsigned(self) -> bool:
        """Whether the data are unsigned integers, or booleans."""
        return is_unsigned(element_of(self.data_operands()[0]))

    def infer_shapes(self) -> Sequence[Shape]:
        shapes = map(shape_of, self.operands)
        return [reduce(lambda a, b: broadcast_shape(self, a, b), shapes)]  # C1

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        y = self.formula(*map(Lanes, inputs)).array
        shape = np.broadcast_shapes(*(x.shape for x in inputs))
        return (np.broadcast_to(y, shape).view(dtype_of(self.result_element(element_of(self.data_operands()[0])))),)


class UnaryOp(PointwiseOp, abc.ABC):
    """y[i] = f(x[i])."""

    x = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


class FunctionOp(UnaryOp, ScalarOp, abc.ABC):
    """A real function of one element; floats are computed in f64 and rounded once."""

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    @abc.abstractmethod
    def function(self, x: N) -> N:
        """The function on f64."""

    def scalar(self, x: Array) -> Array:
        return self.function(Lanes(x)).array

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return self.function(x.to(f64)).to(x.element)


class StepOp(FunctionOp, abc.ABC):
    """A function with steps. In a table a step lies where the f32 argument, not the exact one, crosses it."""

    def scalar(self, x: Array) -> Array:
        return super().scalar(x.astype(np.float32).astype(np.float64))


class OperandPairOp(PointwiseOp, abc.ABC):
    """An operation of two operands."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def data_operands(self) -> Sequence[SSAValue]:
        return (self.lhs, self.rhs)
