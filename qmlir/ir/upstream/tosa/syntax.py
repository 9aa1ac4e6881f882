"""Parses TOSA's custom syntax in both of upstream's versions; operations are printed in the generic form.

The same operation in LLVM 20 to 23, and in later versions:

    %y = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<2x3xi32>) -> tensor<2x1xi32>
    %y = tosa.reduce_sum %x axis(1) : (tensor<2x3xi32>) -> tensor<2x1xi32>

This module parses both. Each of upstream's versions rejects the other's text, but both parse the generic form, which
is therefore the form that is printed:

    %y = "tosa.reduce_sum"(%x) <{axis = 1 : i32}> : (tensor<2x3xi32>) -> tensor<2x1xi32>
"""

from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i32, i64
from xdsl.dialects.tosa import NanMode, NanModeAttr, RoundingMode, RoundingModeAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation
from xdsl.parser import AttrParser, Parser

from qmlir.ir.upstream.tosa_0_80 import is_of_0_80, unregistered

Read = Callable[[AttrParser], Attribute]


def _any(parser: AttrParser) -> Attribute:
    return parser.parse_attribute()


def _keyword(parser: AttrParser) -> Attribute:
    """Parses a bare word, such as the mode of a resize."""
    return StringAttr(parser.parse_identifier())


def _i32(parser: AttrParser) -> Attribute:
    return IntegerAttr(parser.parse_integer(), i32)


def _i32s(parser: AttrParser) -> Attribute:
    return DenseArrayBase.from_list(
        i32, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    )


def _i64s(parser: AttrParser) -> Attribute:
    return DenseArrayBase.from_list(
        i64, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    )


ENUMS: dict[str, Read] = {
    "nan_mode": lambda parser: NanModeAttr(parser.parse_str_enum(NanMode)),
    "rounding_mode": lambda parser: RoundingModeAttr(parser.parse_str_enum(RoundingMode)),
    "mode": _keyword,
}
"""Properties that are written as a bare word, and the functions that parse the word."""

CLAUSES: dict[str, Read] = {
    "axis": _i32,
    "perms": _i32s,
    **dict.fromkeys(("pad", "out_pad", "stride", "dilation", "kernel"), _i64s),
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
        return name, CLAUSES.get(name, _any)(parser)


Op = TypeVar("Op", bound=IRDLOperation)


def parse_operation(cls: type[Op], parser: Parser) -> Operation:
    """Parses an operation after its name: operands, properties in either syntax, and the function type.

    An operation of TOSA 0.80 is returned as an unregistered operation.
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
    known = cls.get_irdl_definition().properties
    made = cls.create(
        operands=parser.resolve_operands(operands or [], type.inputs.data, position),
        result_types=type.outputs.data,
        properties={k: v for k, v in given.items() if k in known},
        attributes={k: v for k, v in given.items() if k not in known},
    )
    return unregistered(made) if is_of_0_80(made) else made
