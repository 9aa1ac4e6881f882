"""What an operation on tensors must say about itself, whatever its level.

Everything that is true of an operation everywhere stands on its class: the shapes its operands imply and its
meaning on numpy arrays. Verification of result types, construction, constant folding and the reference backend
are derived from these two, once.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.types import UniformType

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


def tensor_type(value: SSAValue) -> TensorType[Attribute]:
    """The type of a value known to be a tensor."""
    type = value.type
    assert isinstance(type, TensorType)
    return cast(TensorType[Attribute], value.type)


def shape_of(value: SSAValue) -> Shape:
    """The static shape of a tensor value."""
    return tensor_type(value).get_shape()


def element_of(value: SSAValue) -> Attribute:
    """The element type of a tensor value."""
    return tensor_type(value).element_type


class TensorOp(IRDLOperation, abc.ABC):
    """A pure operation on statically shaped tensors that carries its own meaning.

    (T1) every dimension of its operands and results is known
    (T2) a type quantized per axis has its axis within the rank, and as many scales as the dimension there is long
    (T3) each result has the shape and the element type that the operands imply
    """

    traits = traits_def(Pure())

    @abc.abstractmethod
    def infer_shapes(self) -> Sequence[Shape]:
        """The shape of each result, from operands and properties alone; raises VerifyException if they do not fit."""

    @abc.abstractmethod
    def infer_elements(self) -> Sequence[Attribute | None]:
        """The element type of each result, from operands and properties alone; None where it is free."""

    @abc.abstractmethod
    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        """The results on numpy arrays; bit for bit what every back end computes."""

    def verify_(self) -> None:
        """Checks (T1) to (T3); what `infer_shapes` and `infer_elements` require comes with T3."""
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
        if not isinstance(element, UniformType) or element.axis is None:
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
        """Builds the operation with the result types its operands imply.

        Args:
            operands: As the operation declares them; an empty sequence for an absent optional operand.
            properties: Entries that are None are left out.
            element: The element type of results that are free to choose, such as a quantized result's.
            attributes: Discardable attributes, such as names.

        Raises:
            VerifyException: The operands do not fit together; they are left as they were.
        """
        present = {k: v for k, v in (properties or {}).items() if v is not None}
        count = len(cls.get_irdl_definition().results)
        # Shapes are methods of the operation: ask a provisional one, whose result types nobody has read yet.
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


class ScalarOp(TensorOp, abc.ABC):
    """An operation that maps each element by itself; its `scalar` also makes its lookup tables."""

    @abc.abstractmethod
    def scalar(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The function on float64 values."""


# ---------------------------------------------------------------------------------------------------------------
# Shapes that operations of the float and of the integer level imply alike


def broadcast_shape(op: TensorOp, lhs: Shape, rhs: Shape) -> Shape:
    """The common shape of two operands, as in numpy; raises VerifyException if there is none."""
    try:
        return np.broadcast_shapes(lhs, rhs)
    except ValueError:
        raise VerifyException(f"'{op.name}' shapes do not broadcast: {list(lhs)} and {list(rhs)}") from None


def fully_connected_shape(op: TensorOp, x: Shape, w: Shape) -> Shape:
    """[N, O] of x [N, I] and w [O, I]; raises VerifyException if they are not of this form."""
    if len(x) != 2 or len(w) != 2 or x[1] != w[1]:
        raise VerifyException(f"'{op.name}' needs x [N, I] and w [O, I], got {list(x)} and {list(w)}")
    return x[0], w[0]


def matmul_shape(op: TensorOp, lhs: Shape, rhs: Shape) -> Shape:
    """[B…, M, N] of [B…, M, K] and [B…, K, N]; raises VerifyException if they do not fit or do not broadcast."""
    if len(lhs) < 2 or len(rhs) < 2 or lhs[-1] != rhs[-2]:
        raise VerifyException(f"'{op.name}' needs [B…, M, K] and [B…, K, N], got {list(lhs)} and {list(rhs)}")
    try:
        batch = np.broadcast_shapes(lhs[:-2], rhs[:-2])
    except ValueError:
        raise VerifyException(f"'{op.name}' batch dimensions do not broadcast: {list(lhs)} and {list(rhs)}") from None
    return *batch, lhs[-2], rhs[-1]
