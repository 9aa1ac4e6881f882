"""What all operations of TOSA share: the type of shapes, the syntax, and the base of the classes."""

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self, cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    UnrankedTensorType,
    UnregisteredOp,
    i32,
    i64,
)
from xdsl.dialects.tosa import NanMode, NanModeAttr, RoundingMode, RoundingModeAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrConstraint,
    BaseAttr,
    IntConstraint,
    IRDLOperation,
    VerificationContext,
    irdl_attr_definition,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.types import stored_type
from qmlir.ir.upstream.tosa.resize_mode import ResizeMode, ResizeModeAttr
from qmlir.ir.upstream.tosa_0_80 import is_of_0_80, unregistered

# ---------------------------------------------------------------------------------------------------------------
# `!tosa.shape<N>`: the type of a shape of N sizes, which operations such as `tosa.reshape` take as an operand.


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """The type of a shape with `rank` dimensions.

    (S1) the rank is not negative
    """

    name = "tosa.shape"

    rank: IntAttr

    @classmethod
    def of(cls, rank: int) -> "ShapeType":
        """Returns the type of shapes of a rank."""
        return cls(IntAttr(rank))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.rank.data))

    def verify(self) -> None:
        if self.rank.data < 0:  # S1
            raise VerifyException(f"!tosa.shape needs a rank that is not negative, got {self.rank.data}")


# ---------------------------------------------------------------------------------------------------------------
# Parses TOSA's custom syntax in both of upstream's versions; operations are printed in the generic form.
#
# The same operation in LLVM 20 to 23, and in later versions:
#
#     %y = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<2x3xi32>) -> tensor<2x1xi32>
#     %y = tosa.reduce_sum %x axis(1) : (tensor<2x3xi32>) -> tensor<2x1xi32>
#
# This module parses both. Each of upstream's versions rejects the other's text, but both parse the generic form, which
# is therefore the form that is printed:
#
#     %y = "tosa.reduce_sum"(%x) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32>


Read = Callable[[AttrParser], Attribute]


def _integers(type: IntegerType) -> Read:
    """Returns a parser of `[1, 2]` as an array of integers of a type."""
    return lambda parser: DenseArrayBase.from_list(
        type, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    )


ENUMS: dict[str, Read] = {
    "nan_mode": lambda parser: NanModeAttr(parser.parse_str_enum(NanMode)),
    "rounding_mode": lambda parser: RoundingModeAttr(parser.parse_str_enum(RoundingMode)),
    "mode": lambda parser: ResizeModeAttr(parser.parse_str_enum(ResizeMode)),
}
"""Properties that are written as a bare word, and the functions that parse the word."""

CLAUSES: dict[str, Read] = {
    "axis": lambda parser: IntegerAttr(parser.parse_integer(), i32),
    "perms": _integers(i32),
    **dict.fromkeys(("pad", "out_pad", "stride", "dilation", "kernel"), _integers(i64)),
}
"""Properties whose clause `name(value)` omits the type, and their parsers; other clauses hold a complete attribute."""


def _entry(parser: Parser) -> tuple[str, Attribute]:
    """Parses `key = value` and returns the key and the value; the value is required."""
    name = parser.parse_identifier()
    if parser.parse_optional_punctuation("=") is None:
        parser.raise_error(f"'{name}' needs a value")
    word = ENUMS.get(name)
    # A value that is not a bare word is a complete attribute: `#tosa.nan_mode<IGNORE>`, `"BILINEAR"`.
    if word is not None and (value := parser.parse_optional_attribute()) is not None:
        return name, value
    return name, word(parser) if word is not None else parser.parse_attribute()


def _clause(parser: Parser, name: str) -> tuple[str, Attribute]:
    """Parses the rest of a clause, `(value)` or `<WORD>`, after its name; returns the name and the value."""
    if name in ENUMS:
        with parser.in_angle_brackets():
            return name, ENUMS[name](parser)
    with parser.in_parens():
        return name, CLAUSES[name](parser) if name in CLAUSES else parser.parse_attribute()


def parse_operation(cls: type[IRDLOperation] | str, parser: Parser) -> Operation:
    """Parses an operation after its name: operands, properties in either syntax, and the function type.

    An operation of TOSA 0.80 is returned as an unregistered operation; one that only 0.80 has is given by its name.
    """
    position = parser.pos
    operands = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    given: dict[str, Attribute] = {}
    while (name := parser.parse_optional_identifier()) is not None:
        given.update([_clause(parser, name)])
    entries = parser.parse_optional_comma_separated_list(parser.Delimiter.BRACES, lambda: _entry(parser))
    given.update(entries or [])
    parser.parse_punctuation(":")
    type = parser.parse_function_type()
    values = parser.resolve_operands(operands or [], type.inputs.data, position)
    if isinstance(cls, str):
        return UnregisteredOp.with_name(cls).create(operands=values, result_types=type.outputs.data, attributes=given)
    known = cls.get_irdl_definition().properties
    made = cls.create(
        operands=values,
        result_types=type.outputs.data,
        properties={k: v for k, v in given.items() if k in known},
        attributes={k: v for k, v in given.items() if k not in known},
    )
    return unregistered(made) if is_of_0_80(made) else made


# ---------------------------------------------------------------------------------------------------------------
# The base of all TOSA operations: parsing, and checks of operand shapes and element types.
#
# Unlike qmlir's own dialects, TOSA has dynamic dimensions and tensors of unknown rank; an unknown size or rank passes
# every check. Elements may be quantized; checks then use their storage type.


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

    def check_result(self, shape: Iterable[int] | None) -> None:
        """Checks that the first result has a shape; a shape of None is not known and not checked."""
        result = self.results[0]
        if shape is not None and not fits(sizes(result), shape := tuple(shape)):
            self.fail(f"must yield a tensor of shape {text(shape)}, got {result.type}")

    def check_same(self, value: SSAValue) -> None:
        """Checks that the first result has the element type and the shape of a value."""
        self.check_element(element(value), result=self.results[0])
        self.check_result(sizes(value))

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
        if not fits(sizes(zero_point), (1,)):
            self.fail(f"needs {name} of one element, got {zero_point.type}")
        self.check_element(element(data), **{name: zero_point})
        values = constant_value(zero_point)
        if isinstance(values, DenseIntOrFPElementsAttr) and element(data) not in NARROW:
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
