"""Base classes of elementwise operations: one formula defines both their meaning on arrays and their kernels."""

import abc
import math
from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import ParsePropInAttrDict, operand_def, result_def

from qmlir.dialects.nn.base import Elements, NNOp, is_unsigned
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import Array, ScalarOp, Shape, broadcast_shape, element_of, shape_of
from qmlir.numerics.elementary.lanes import F64, Lanes, N

_BLOCK = 1 << 16
"""How many elements `UnaryOp.evaluate` computes at a time."""


class PointwiseOp(NNOp, abc.ABC):
    """y[i] = formula(the operands' elements at i); shapes broadcast as in numpy.

    (C1) the shapes broadcast
    """

    @abc.abstractmethod
    def formula(self, *operands: N) -> N:
        """Computes a result element from the operands' elements, for arrays and for generated kernels alike.

        Integer operands are signless; `self.unsigned` tells whether to read them as unsigned.
        """

    @property
    def unsigned(self) -> bool:
        """Whether the data operands are unsigned integers or booleans."""
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

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        """Computes block by block, because a correctly rounded function needs a dozen 64-bit temporaries an element."""
        (x,) = inputs
        if x.size <= _BLOCK:
            return super().evaluate(x)
        y = np.empty(x.size, dtype_of(self.result_element(element_of(self.x))))
        elements = x.reshape(-1)
        for start in range(0, x.size, _BLOCK):
            (y[start : start + _BLOCK],) = super().evaluate(elements[start : start + _BLOCK])
        return (y.reshape(x.shape),)


class FunctionOp(UnaryOp, ScalarOp, abc.ABC):
    """A real function of one element; floats are computed in f64 and rounded once."""

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    DOMAIN: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """The closed interval on which the function has a value, finite or infinite; float arguments outside give NaN."""

    @abc.abstractmethod
    def function(self, x: N) -> N:
        """The function on an f64 argument."""

    def scalar(self, x: Array) -> Array:
        """The function on dequantized f64 arguments; arguments outside the domain are clipped to its nearest end.

        A stored integer represents all numbers that round to it: with a scale of 0.0076, the argument 1.0 of an arc
        sine is stored as 1.0024, outside the domain.
        """
        return self.function(Lanes(np.clip(x, *self.DOMAIN))).array

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return self.function(x.to(F64)).to(x.dtype)


class StepOp(FunctionOp, abc.ABC):
    """A function with jumps; a lookup table places each jump where the argument, rounded to f32, crosses it."""

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
