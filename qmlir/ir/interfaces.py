"""The interface of tensor operations on every level: result types inferred from operands, and evaluation on numpy.

The class of an operation defines two things: the shapes and element types that its operands imply, and its meaning on
numpy arrays. Verification of result types, construction, constant folding and the reference backend are derived from
these.
"""

import abc
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, ParsePropInAttrDict, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.fact import restated
from qmlir.ir.samples import Axes, MixesSamples
from qmlir.ir.types import IntegerElement
from qmlir.numerics import Array

Shape = tuple[int, ...]


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """Returns the type of a value that must be a tensor."""
    type = value.type
    assert isinstance(type, TensorType)
    return cast(TensorType[Attribute], value.type)


def shape_of(value: SSAValue) -> Shape:
    """Returns the static shape of a tensor value."""
    return tensor_type(value).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """Returns the element type of a tensor value."""
    return tensor_type(value).element_type


class TensorOp(IRDLOperation, abc.ABC):
    """Base of the pure operations on tensors of static shape, which infer their result types and evaluate themselves.

    (T1) every dimension of the operands and results is static
    (T2) the axis of a per-axis quantized type is within the rank, and the size of that dimension is the number of
         scales
    (T3) each result has the shape and the element type that the operands imply
    """

    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    @abc.abstractmethod
    def infer_shapes(self) -> Sequence[Shape]:
        """Returns each result's shape, from operands and properties only; raises VerifyException if they do not fit."""

    @abc.abstractmethod
    def infer_elements(self) -> Sequence[Attribute | None]:
        """Returns each result's element type, from operands and properties only; None if they do not imply a type."""

    @abc.abstractmethod
    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        """Computes the results on numpy arrays; every back end computes the same bits."""

    def sample_axis(self, axes: Axes) -> int:
        """Returns the axis along which the samples of a batch lie in each result (samples.py).

        Args:
            axes: The axis of the samples of each operand, not None for at least one of them.

        Raises:
            MixesSamples: A result depends on several samples, or nothing is known of the operation.
        """
        raise MixesSamples("is not known to keep samples apart")

    def verify_(self) -> None:
        """Checks (T1) to (T3), and with T3 the requirements of `infer_shapes` and `infer_elements`."""
        for value in (*self.operands, *self.results):
            self._verify_tensor(tensor_type(value))
        shapes, elements = self.infer_shapes(), self.infer_elements()
        for i, (result, shape, element) in enumerate(zip(self.results, shapes, elements, strict=True)):
            implied = TensorType(element_of(result) if element is None else element, shape)
            if result.type != implied:  # T3
                raise VerifyException(
                    f"'{self.name}' result #{i} must be {implied} as its operands imply, got {result.type}"
                )

    def _verify_tensor(self, type: TensorType[Attribute]) -> None:
        shape, element = type.get_shape(), type.element_type
        if DYNAMIC_INDEX in shape:  # T1
            raise VerifyException(f"'{self.name}' needs static shapes, got {type}; bind symbolic dimensions on load")
        if not isinstance(element, IntegerElement) or element.axis is None:
            return
        if element.axis >= len(shape) or shape[element.axis] != len(element.scales):  # T2
            raise VerifyException(
                f"'{self.name}' has {len(element.scales)} scales along axis {element.axis} of a tensor of shape "
                f"{list(shape)}; need one for each index of an axis it has"
            )

    @classmethod
    def make(
        cls,
        operands: Sequence[SSAValue | Sequence[SSAValue]],
        properties: Mapping[str, Attribute | None] | None = None,
        *,
        element: Attribute | None = None,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Self:
        """Builds the operation with the result types that its operands imply.

        Args:
            operands: The operands as the operation declares them; an empty sequence for an absent optional operand.
            properties: The properties; entries that are None are left out.
            element: The element type of results for which the operands imply none, such as a quantized result; by
                default that of the first operand.
            attributes: Discardable attributes, such as names.

        Raises:
            VerifyException: The operands do not fit together; they stay unchanged.
        """
        present = {k: v for k, v in (properties or {}).items() if v is not None}
        count = len(cls.get_irdl_definition().results)
        # Shape inference is a method of the operation: call it on a provisional operation with placeholder results.
        probe = cls(operands=operands, result_types=[TensorType(element or element_of(_first(operands)), [])] * count,
                    properties=present)  # fmt: skip
        types: list[TensorType[Attribute]] = []
        try:
            for shape, inferred in zip(probe.infer_shapes(), probe.infer_elements(), strict=True):
                kind = element if inferred is None else inferred
                types.append(TensorType(kind if kind is not None else element_of(_first(operands)), shape))
        finally:
            probe.erase()
        return cls(operands=operands, result_types=types, properties=present, attributes=attributes)


def _first(operands: Sequence[SSAValue | Sequence[SSAValue]]) -> SSAValue:
    first = operands[0]
    return first if isinstance(first, SSAValue) else first[0]


class ComposedOp(TensorOp, abc.ABC):
    """Base of the operations with one result that others compute exactly, for whatever has no form of this one."""

    @abc.abstractmethod
    def parts(self) -> Sequence[TensorOp]:
        """Returns new operations outside of any block, each of one result, the last of which computes the result."""


@contextmanager
def parts_of(op: ComposedOp) -> Generator[Sequence[TensorOp]]:
    """Yields the operations that make up an operation, the last under its names, and erases them afterwards."""
    parts = op.parts()
    try:
        parts[-1].attributes |= restated(op)
        yield parts
    finally:
        for part in reversed(parts):
            part.erase()


class UnaryTensorOp(TensorOp, abc.ABC):
    """Base of the operations from one tensor, x, to one tensor, y."""

    x = operand_def(TensorType)
    y = result_def(TensorType)

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"


class BinaryTensorOp(TensorOp, abc.ABC):
    """Base of the operations from two tensors, lhs and rhs, to one tensor, y."""

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    y = result_def(TensorType)

    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"


class ScalarOp(TensorOp, abc.ABC):
    """Base of the operations that map each element independently; lookup tables are built from `scalar`."""

    @abc.abstractmethod
    def scalar(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Applies the function to float64 values."""


# ---------------------------------------------------------------------------------------------------------------
# Shape inference that operations of the float level and of the integer level share


def broadcast_shape(op: TensorOp, lhs: Shape, rhs: Shape) -> Shape:
    """Returns the shape to which two operands broadcast, as in numpy; raises VerifyException if they do not."""
    try:
        return np.broadcast_shapes(lhs, rhs)
    except ValueError:
        raise VerifyException(f"'{op.name}' shapes do not broadcast: {list(lhs)} and {list(rhs)}") from None


def fully_connected_shape(op: TensorOp, x: Shape, w: Shape) -> Shape:
    """Returns the result shape [N, O] for x [N, I] and w [O, I]; raises VerifyException for other shapes."""
    if len(x) != 2 or len(w) != 2 or x[1] != w[1]:
        raise VerifyException(f"'{op.name}' needs x [N, I] and w [O, I], got {list(x)} and {list(w)}")
    return x[0], w[0]


def matmul_shape(op: TensorOp, lhs: Shape, rhs: Shape) -> Shape:
    """Returns the shape [B…, M, N] for [B…, M, K] and [B…, K, N]; raises VerifyException if the operands do not fit."""
    if len(lhs) < 2 or len(rhs) < 2 or lhs[-1] != rhs[-2]:
        raise VerifyException(f"'{op.name}' needs [B…, M, K] and [B…, K, N], got {list(lhs)} and {list(rhs)}")
    try:
        batch = np.broadcast_shapes(lhs[:-2], rhs[:-2])
    except ValueError:
        raise VerifyException(f"'{op.name}' batch dimensions do not broadcast: {list(lhs)} and {list(rhs)}") from None
    return *batch, lhs[-2], rhs[-1]
