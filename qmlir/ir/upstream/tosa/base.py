"""The base of all TOSA operations: parsing, and checks of operand shapes and element types.

Unlike qmlir's own dialects, TOSA has dynamic dimensions and tensors of unknown rank; an unknown size or rank passes
every check. Elements may be quantized; checks then use their storage type.
"""

import abc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self, cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AttrConstraint, BaseAttr, IntConstraint, IRDLOperation, VerificationContext, traits_def
from xdsl.parser import Parser
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.elements import stored_type
from qmlir.ir.upstream.tosa.syntax import parse_operation
from qmlir.ir.upstream.tosa.types import ShapeType


@dataclass(frozen=True)
class Conformant(AttrConstraint[TensorType[Attribute] | UnrankedTensorType[Attribute]]):
    """An IRDL constraint: a tensor, ranked or not, without dimensions of size 0, which TOSA forbids."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, TensorType | UnrankedTensorType):
            raise VerifyException(f"a tensor is needed, got {attr}")
        if isinstance(attr, TensorType) and 0 in cast(TensorType[Attribute], attr).get_shape():
            raise VerifyException(f"a tensor with elements is needed, got {attr}")

    def get_bases(self) -> set[type[Attribute]]:
        return {TensorType, UnrankedTensorType}

    def mapping_type_vars(self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]) -> "Conformant":
        return self


TENSOR = Conformant()
SHAPE = BaseAttr(ShapeType)

NARROW: tuple[Attribute, ...] = tuple(IntegerType(8, sign) for sign in Signedness)
"""The element types whose zero point may differ from 0: all integers of 8 bits."""

Sizes = tuple[int, ...] | None
"""A shape, in which unknown sizes are `DYNAMIC_INDEX`; None if the rank is unknown."""


def sizes(value: SSAValue) -> Sizes:
    """Returns the shape of a tensor value, as far as it is known."""
    type = value.type
    return cast(TensorType[Attribute], type).get_shape() if isinstance(type, TensorType) else None


def element(value: SSAValue) -> Attribute:
    """Returns a tensor value's element type; for quantized elements, their storage type."""
    type = stored_type(value.type)
    assert isinstance(type, TensorType | UnrankedTensorType)
    return cast(TensorType[Attribute] | UnrankedTensorType[Attribute], type).element_type


def is_integer(type: Attribute) -> bool:
    """Whether an element type is an integer."""
    return isinstance(type, IntegerType)


def is_float(type: Attribute) -> bool:
    """Whether an element type is a float."""
    return isinstance(type, AnyFloat)


def is_narrow(type: Attribute) -> bool:
    """Whether an element type is an integer of 8 bits."""
    return type in NARROW


def known(size: int) -> bool:
    """Whether a size is static."""
    return size != DYNAMIC_INDEX


def fits(got: Sizes, wanted: Iterable[int]) -> bool:
    """Whether two shapes may be equal, given that some sizes or the rank of `got` may be unknown."""
    if got is None:
        return True
    wanted = tuple(wanted)
    return len(got) == len(wanted) and all(a == b or not known(a) or not known(b) for a, b in zip(got, wanted))


def text(shape: Iterable[int]) -> str:
    """Formats a shape as in a tensor type: `2x?x3`."""
    return "x".join(str(size) if known(size) else "?" for size in shape) or "no dimensions"


def constant_value(value: SSAValue) -> Attribute | None:
    """Returns the values of a constant tensor or shape; None if the value is not constant."""
    return value.owner.properties.get("values") if isinstance(value.owner, IRDLOperation) else None


def constant_shape(value: SSAValue) -> tuple[int, ...] | None:
    """Returns the sizes in a constant shape; None if the shape is not constant."""
    values = constant_value(value)
    if not isinstance(values, DenseIntOrFPElementsAttr):
        return None
    return tuple(int(v) for v in values.get_values())


def numbers(array: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """Returns the integers of an array property."""
    return tuple(array.get_values())


class TosaOp(IRDLOperation, abc.ABC):
    """Base of the operations of TOSA 1.0.

    (T1) no tensor has a dimension of size 0
    """

    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        return cast(Self, parse_operation(cls, parser))  # or an unregistered operation, for text of version 0.80

    def fail(self, need: str) -> NoReturn:
        """Raises a VerifyException that names the operation and says what it needs."""
        raise VerifyException(f"'{self.name}' {need}")

    def check_rank(self, rank: int, **values: SSAValue) -> None:
        """Checks that the values, given by name, have a rank."""
        for name, value in values.items():
            shape = sizes(value)
            if shape is not None and len(shape) != rank:
                self.fail(f"needs {name} of rank {rank}, got {value.type}")

    def check_result(self, shape: Iterable[int]) -> None:
        """Checks that the first result has a shape."""
        shape, result = tuple(shape), self.results[0]
        if not fits(sizes(result), shape):
            self.fail(f"must yield a tensor of shape {text(shape)}, got {result.type}")

    def check_element(self, wanted: Attribute, **values: SSAValue) -> None:
        """Checks that the values, given by name, have an element type."""
        for name, value in values.items():
            if element(value) != wanted:
                self.fail(f"needs {name} of element type {wanted}, got {value.type}")

    def check_axis(self, axis: int, value: SSAValue) -> None:
        """Checks that an axis lies within a value's rank."""
        shape = sizes(value)
        if shape is not None and not 0 <= axis < max(len(shape), 1):
            self.fail(f"needs an axis within the rank of {value.type}, got {axis}")

    def check_shape_rank(self, rank: int, **values: SSAValue) -> None:
        """Checks that the shape operands, given by name, have `rank` sizes."""
        for name, value in values.items():
            if value.type != ShapeType.of(rank):
                self.fail(f"needs {name} of type {ShapeType.of(rank)}, got {value.type}")

    def check_zero_point(self, name: str, zero_point: SSAValue, data: SSAValue) -> None:
        """Checks that a zero point is a single element of the data's element type, and 0 unless that has 8 bits."""
        shape = sizes(zero_point)
        if not fits(shape, (1,)):
            self.fail(f"needs {name} of one element, got {zero_point.type}")
        self.check_element(element(data), **{name: zero_point})
        values = constant_value(zero_point)
        if isinstance(values, DenseIntOrFPElementsAttr) and not is_narrow(element(data)):
            if any(values.get_values()):
                self.fail(f"needs {name} of 0 for elements of type {element(data)}, got {values.get_values()[0]}")

    def broadcast(self, values: Sequence[SSAValue]) -> Sizes:
        """Returns the shape to which operands of the same rank broadcast; None if a rank is unknown."""
        shapes = [s for v in values if (s := sizes(v)) is not None]
        if len(shapes) < len(values):
            return None
        kinds = ", ".join(str(v.type) for v in values)
        if len({len(s) for s in shapes}) != 1:
            self.fail(f"needs operands of one rank, got {kinds}")
        result: list[int] = []
        for along in zip(*shapes, strict=True):
            others = {size for size in along if size != 1}
            given = {size for size in others if known(size)}
            if len(given) > 1:
                self.fail(f"needs operands whose shapes broadcast, got {kinds}")
            result.append(given.pop() if given else DYNAMIC_INDEX if others else 1)
        return tuple(result)
