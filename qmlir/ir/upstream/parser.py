"""Parses MLIR text that upstream's tools print, in time and memory in proportion to the text.

The file is unnecessary once xDSL's parser reads these forms, and its lexer does not backtrack.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyDenseElement,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    FusedLoc,
    IndexType,
    IntegerAttr,
    LocationAttr,
    NoneAttr,
    RankedStructure,
    TensorType,
    UnitAttr,
    UnregisteredAttr,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSet
from xdsl.irdl import AttrConstraint, base
from xdsl.parser import Parser, ParserState
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Input, Position, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from qmlir.errors import near_misses
from qmlir.ir.resources import FileMetadata, contents, file_metadata
from qmlir.ir.types import dtype_of
from qmlir.ir.upstream import GEP_INBOUNDS
from qmlir.ir.upstream.dense import ELIDED, Dense, from_hexadecimal, from_list, from_resource, held_bytes, splat
from qmlir.ir.upstream.tosa_0_80 import QUANTIZATION, is_of_0_80, unregistered
from qmlir.ir.weights import WeightsAttr

# ---------------------------------------------------------------------------------------------------------------
# A parser of MLIR text whose time and memory stay in proportion to the text, even if the text is hostile.
#
#     "missing quote                       xDSL's pattern for strings backtracks exponentially; ours never backtracks
#     tuple<tuple<…>>, ((…)), {…{…}…}      nested at most NESTING deep: xDSL's parser, printer and hashes are recursive
#     !b = tuple<!a, !a>, !c = …<!b, !b>   the expanded size of aliases is bounded, as in XML parsers
#     "gr\C3\B6\C3\9Fe"                      a string with escaped UTF-8 is text, not bytes
#     99…9, i99…9, tensor<1x1x…x1xf32>     integers of DIGITS, types of WIDTH bits, shapes of RANK dimensions at most
#
# mlir-opt bounds widths and sizes too; the other bounds are far above what any tool writes.


NESTING = 64
"""The most levels of nested attributes, types, locations and regions."""

DIGITS = 1000
"""The most digits of an integer."""

WIDTH = 3000
"""The most bits of an integer type; its bounds then have fewer than `DIGITS` decimal digits."""

RANK = 64
"""The most dimensions of a shape: numpy's arrays have no more."""

SIZE = (1 << 63) - 1
"""The largest size of a dimension and the largest number of elements of a constant, as in mlir-opt."""

EXPANDED = 1 << 22
"""Characters to which the aliases in a text of any length may expand."""

AMPLIFIED = 16
"""The factor by which expanding its aliases may lengthen a text, where that is more than `EXPANDED` characters."""

LOCATION = 1 << 20
"""Characters to which one alias of a location may expand; their sum is unbounded, as nobody reads all locations."""

T = TypeVar("T")


class BoundedLexer(MLIRLexer):
    """xDSL's lexer in linear time, with integers of at most `DIGITS` digits."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: Position) -> MLIRToken:
        if (literal := self._unescaped_characters_regex.match(self.input.content, start_pos)) is None:
            need = r"a string needs a quote at its end, on the same line, and knows the escapes \n \t \\ \" \00 to \FF"
            raise ParseError(Span(start_pos, start_pos + 1, self.input), need)
        self.pos = literal.end()
        text = literal[0]
        is_text = "\\" not in text or (text.isascii() and _HIGH_BYTE.search(text.replace("\\\\", "")) is None)
        kind = MLIRTokenKind.STRING_LIT if is_text else MLIRTokenKind.BYTES_LIT
        return Token(kind, StringLiteral(start_pos, self.pos, self.input))

    def _lex_number(self, start_pos: Position) -> MLIRToken:
        token = super()._lex_number(start_pos)
        self._judge(token, token.span.end - start_pos if token.kind is MLIRTokenKind.INTEGER_LIT else 0)
        return token

    def _lex_prefixed_ident(self, start_pos: Position) -> MLIRToken:
        token = super()._lex_prefixed_ident(start_pos)
        if "0" <= (self.input.at(start_pos + 1) or "") <= "9":  # `%0#1` names a result by a number
            self._judge(token, token.span.end - start_pos - 1)
        return token

    def _judge(self, token: MLIRToken, digits: int) -> None:
        if digits > DIGITS:
            raise ParseError(_start_of(token.span), f"a number has at most {DIGITS} digits, got {digits}")
        if not token.text.isascii():
            raise ParseError(_start_of(token.span), f"a number is written in the digits 0 to 9, got {token.text}")


_HIGH_BYTE = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
"""An escape of a byte that is not ASCII, in text from which escaped backslashes were removed."""


def _start_of(span: Span[str]) -> Span[str]:
    return Span(span.start, span.start + 1, span.input)


@dataclass(frozen=True)
class _Extent:
    """The expanded form of an alias: its levels of nesting, and its characters with all its aliases written out."""

    depth: int
    size: int


class BoundedParser(Parser):
    """xDSL's parser with bounds on nesting, numbers, shapes and aliases.

    _depth     levels around the current token
    _deepest   the most levels since the current alias definition began
    _expanded  characters to which the aliases used since then expand, apart from locations
    _located   characters to which the locations used since then expand
    """

    _depth: int
    _deepest: int
    _expanded: int
    _located: int
    _extents: dict[str, _Extent]

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        self._depth = self._deepest = self._expanded = self._located = 0
        self._extents = {}
        super().__init__(ctx, "", name)
        # Reads the first token, so it may raise ParseError.
        self._parser_state = ParserState(BoundedLexer(Input(text, name)))

    # -- nesting ---------------------------------------------------------------------------------------------------

    def _nested(self, parse: Callable[[], T]) -> T:
        """Runs `parse` one level deeper and returns its result."""
        self._depth += 1
        try:
            self._reach(self._depth)
            return parse()
        finally:
            self._depth -= 1

    def _reach(self, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > NESTING:
            self.raise_error(f"this is nested more than {NESTING} levels deep")

    def parse_operation(self) -> Operation:
        return self._nested(super().parse_operation)

    def _parse_location(self) -> LocationAttr:
        return self._nested(super()._parse_location)

    def _parse_optional_array_attr(self) -> ArrayAttr | None:
        return self._nested(super()._parse_optional_array_attr)

    def _parse_builtin_dict_attr(self) -> DictionaryAttr:
        return self._nested(super()._parse_builtin_dict_attr)

    def parse_optional_function_type(self) -> FunctionType | None:
        return self._nested(super().parse_optional_function_type)

    def _parse_tensor_literal(self) -> Any:
        return self._nested(super()._parse_tensor_literal)

    def parse_affine_map(self) -> AffineMap:
        map = self._shallow(super().parse_affine_map)
        self._judge_expressions(map.results)
        return map

    def parse_affine_set(self) -> AffineSet:
        found = self._shallow(super().parse_affine_set)
        self._judge_expressions([side for each in found.constraints for side in (each.lhs, each.rhs)])
        return found

    def parse_affine_map_of_ssa_ids(self) -> tuple[AffineMap, Sequence[SSAValue[IndexType]]]:
        map, operands = self._shallow(super().parse_affine_map_of_ssa_ids)
        self._judge_expressions(map.results)
        return map, operands

    def _shallow(self, parse: Callable[[], T]) -> T:
        """Runs `parse` and reports too deep nesting; xDSL's expression parser counts no levels and overflows."""
        try:
            return parse()
        except RecursionError:
            self._reach(NESTING + 1)
            raise

    def _judge_expressions(self, expressions: "tuple[AffineExpr, ...] | list[AffineExpr]") -> None:
        level = list(expressions)
        for depth in range(self._depth, NESTING + 2):
            if level:
                self._reach(depth)
            level = [
                side for each in level for side in (getattr(each, "lhs", None), getattr(each, "rhs", None)) if side
            ]

    # -- aliases ---------------------------------------------------------------------------------------------------

    def _parse_alias_def(self) -> None:
        name, start = self._current_token.text, self.pos
        deepest, expanded, located = self._deepest, self._expanded, self._located
        self._deepest, self._expanded, self._located = self._depth, 0, 0
        super()._parse_alias_def()
        size = self.pos - start + self._expanded + self._located
        self._extents[name] = _Extent(self._deepest - self._depth, size)
        self._deepest, self._expanded, self._located = max(deepest, self._deepest), expanded, located

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        start = self.pos
        parse = super()._parse_extended_type_or_attribute
        found = self._nested(lambda: parse(attr_or_dialect_name, is_type))
        if self.pos == start:  # the name was all of it
            self._use(("!" if is_type else "#") + attr_or_dialect_name)
        return found

    def _use(self, alias: str) -> None:
        """Counts the levels and characters of an alias where it is used, and refuses the text if they are too many."""
        if (extent := self._extents.get(alias)) is None:
            return
        self._reach(self._depth + extent.depth)
        if isa(self.attribute_aliases.get(alias), LocationAttr):
            self._located += extent.size
            too_many = extent.size > LOCATION
        else:
            self._expanded += extent.size
            too_many = self._expanded > max(EXPANDED, AMPLIFIED * self.lexer.input.len)
        if too_many:
            size = max(extent.size, self._expanded)
            self.raise_error(f"aliases up to {alias} stand for {size} characters, which is out of proportion")

    # -- strings ---------------------------------------------------------------------------------------------------

    def parse_optional_str_literal(self) -> str | None:
        token = self._current_token
        if token.kind not in (MLIRTokenKind.STRING_LIT, MLIRTokenKind.BYTES_LIT):
            return None
        try:
            text = contents(token.text).decode()
        except UnicodeDecodeError:
            return None
        self._consume_token()
        return text

    def parse_optional_bytes_literal(self) -> bytes | None:
        token = self._parse_optional_token(MLIRTokenKind.BYTES_LIT)
        return None if token is None else contents(token.text)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.kind is MLIRTokenKind.BARE_IDENT and (integer := _INTEGER_TYPE.fullmatch(token.text)) is not None:
            if len(integer[1]) > DIGITS or not 1 <= int(integer[1]) <= WIDTH:
                self.raise_error(f"an integer type has 1 to {WIDTH} bits", _start_of(token.span))
        return super()._parse_optional_integer_or_float_type()

    def _parse_optional_builtin_parametrized_type(self) -> TypeAttribute | None:
        token = self._current_token
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text not in _BUILTIN_TYPES:
            return None
        # xDSL reads all of `x2x3x4xf32` again for each of its sizes.
        shape = _SHAPE.match(self.lexer.input.content, token.span.end)
        if shape is not None and shape[0].count("x") > RANK:
            self.raise_error(f"a shape has at most {RANK} dimensions, got {shape[0].count('x')}", token.span)
        return self._nested(super()._parse_optional_builtin_parametrized_type)

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        at = self._current_token.span
        size = super().parse_shape_dimension(allow_dynamic)
        if size > SIZE:
            self.raise_error(f"the size of a dimension is at most {SIZE}", at)
        return size


_INTEGER_TYPE = re.compile(r"[su]?i([0-9]+)")
_BUILTIN_TYPES = ("vector", "memref", "tensor", "complex", "tuple")
_SHAPE = re.compile(r"\s*<\s*(?:\[?[0-9]+\]?x|\?x)*+")


# ---------------------------------------------------------------------------------------------------------------
# Parses MLIR text that upstream's tools print and that xDSL's parser cannot read, or reads too slowly.
#
#     loc(#loc3), with `#loc3 = loc("net.py":7:1)` behind the module    the definition is read ahead at the first use
#     loc(fused<"cse">[…]), loc("net.py":7:1 to 9:20)                    metadata and the end of a range are dropped:
#                                                                        xDSL's locations have no place for them
#     dense<"0x0000803F…"> : tensor<25000000xf32>                        held as bytes (dense.py); i1 is packed,
#     dense<1.0> : tensor<25000000xf32>                                  i4 and i24 are in upstream's bytes
#     dense_resource<conv1> : tensor<…>, the `{-# … #-}` behind it       held as bytes too (resources.py)
#     "llvm.getelementptr"(%p, %i) <{…}>, as LLVM 19 prints it           properties that LLVM 19 lacks are added
#     "tosa.conv2d"(%x, %w, %b) {quantization_info = …}                  operations of version 0.80 are kept as written
#     "func.call"(%x) <{callee = @f, no_inline}>                         `no_inline` becomes an attribute: xDSL's calls
#                                                                        and functions have no such property
#
# In operations of qmlir's dialects, and in attributes called `qmlir.…`, such constants become `#qmlir.weights`.


_OURS = frozenset(("nn", "qint", "qmlir"))
"""Dialects whose operations hold constants as `#qmlir.weights`."""

_ALIAS = re.compile(r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?|//[^\n]*|^[ \t]*(?P<name>#[\w.$-]+)[ \t]*=', re.MULTILINE)
"""A string or a comment, or the definition of an alias."""


def _bounds(op: Operation) -> dict[str, Attribute]:
    """Returns the property that a GEP's text lacks: LLVM 19 prints `inbounds`, later versions print `noWrapFlags`."""
    flags = op.properties.get("noWrapFlags")
    if "inbounds" in op.properties:
        return {"noWrapFlags": IntegerAttr(GEP_INBOUNDS, i32)}
    if isinstance(flags, IntegerAttr) and flags.value.data & GEP_INBOUNDS == GEP_INBOUNDS:
        return {"inbounds": UnitAttr()}
    return {} if flags is not None else {"noWrapFlags": IntegerAttr(0, i32)}


def _segments(op: Operation) -> dict[str, Attribute]:
    """Returns the operand segments of a call whose text has none: all operands are the call's, none a bundle's."""
    known = "operandSegmentSizes" in op.properties
    return {} if known else {"operandSegmentSizes": DenseArrayBase.from_list(i32, [len(op.operands), 0])}


_COMPLETED: dict[str, Callable[[Operation], dict[str, Attribute]]] = {
    "llvm.getelementptr": _bounds,
    "llvm.call": _segments,
    "llvm.call_intrinsic": _segments,
}
"""Operation → a function that returns the properties which the printing version of LLVM lacked."""

_LIST = re.compile(r"[\w.+\-\[\],\s]+(?=>)")
"""Numbers and brackets up to the closing `>`."""


class UpstreamParser(BoundedParser):
    """A bounded parser that also reads the forms listed above, which upstream's tools print."""

    _metadata: FileMetadata
    _definitions: dict[str, int] | None
    _read_ahead: set[str]

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        # Reads the metadata and the first token, so it may raise ParseError.
        self._metadata = file_metadata(text, name)
        self._definitions = None
        self._read_ahead = set()
        super().__init__(ctx, text, name)

    # -- aliases and locations -------------------------------------------------------------------------------------

    def _parse_alias_def(self) -> None:
        name = self._current_token.text
        if name in self._read_ahead:
            self._read_ahead.remove(name)
            del self.attribute_aliases[name]
        super()._parse_alias_def()

    def _parse_location(self) -> LocationAttr:
        if self._current_token.kind == MLIRTokenKind.HASH_IDENT:
            return self._location_of_alias()
        if self._current_token.text == "fused":
            return self._nested(self._fused_location)
        location = super()._parse_location()
        if self.parse_optional_keyword("to") is not None:  # a range; the end's line is omitted if both are on one line
            self.parse_optional_integer(False, False)
            self.parse_punctuation(":")
            self.parse_integer(False, False)
        return location

    def _location_of_alias(self) -> LocationAttr:
        token = self._current_token
        name = token.text
        if name not in self.attribute_aliases:
            here = self.pos
            if (definition := self._alias_definitions().pop(name, None)) is None:
                self.raise_error(f"the location {name} is not defined", token.span)
            self._resume_from(definition)
            super()._parse_alias_def()
            self._read_ahead.add(name)
            self._resume_from(here)
        self._consume_token()
        location = self.attribute_aliases[name]
        if not isa(location, LocationAttr):
            self.raise_error(f"{name} is not a location", token.span)
        self._use(name)
        return location

    def _alias_definitions(self) -> dict[str, int]:
        """Returns the position in the text of each alias definition."""
        if self._definitions is None:
            found = _ALIAS.finditer(self.lexer.input.content)
            self._definitions = {m["name"]: m.start("name") for m in found if m["name"]}
        return self._definitions

    def _fused_location(self) -> LocationAttr:
        self._consume_token()
        if self.parse_optional_punctuation("<") is not None:
            self.parse_attribute()
            self.parse_punctuation(">")
        parts = self.parse_comma_separated_list(self.Delimiter.SQUARE, self._parse_location)
        return FusedLoc(tuple(parts), NoneAttr())

    # -- TOSA 0.80 -------------------------------------------------------------------------------------------------

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        op = super()._parse_generic_operation(op_type)
        return unregistered(op) if op.name.startswith("tosa.") and is_of_0_80(op) else op

    def _parse_dialect_type_or_attribute_body(
        self, attr_name: str, is_type: bool, is_opaque: bool, starting_opaque_pos: int | None
    ) -> Any:
        if attr_name in QUANTIZATION:
            made = UnregisteredAttr.with_name_and_type(attr_name, False)
            return made(attr_name, False, False, self._parse_dialect_symbol_body())
        return super()._parse_dialect_type_or_attribute_body(attr_name, is_type, is_opaque, starting_opaque_pos)

    # -- constants -------------------------------------------------------------------------------------------------

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        if (completed := _COMPLETED.get(op.name)) is not None:
            op.properties.update(completed(op))
        if op.name in ("func.call", "func.func") and (mark := op.properties.pop("no_inline", None)) is not None:
            op.attributes["no_inline"] = mark
        ours = op.name.partition(".")[0] in _OURS
        for held in (op.properties, op.attributes):
            for key, attribute in held.items():
                if ours or key.startswith("qmlir."):
                    held[key] = self._made(_as_weights, attribute, start=start)
        return op

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        token = self._current_token
        if token.kind == MLIRTokenKind.STRING_LIT:
            self._consume_token()
            self.parse_punctuation(">", " in dense attribute")
            digits = token.text[1:-1]
            if not digits.startswith("0x"):
                self.raise_error("expected hexadecimal digits behind 0x", token.span)
            return self._made(from_hexadecimal, self._dense_type(type), digits[2:], start=token.span.start)
        text = _LIST.match(self.lexer.input.content, token.span.start)
        if text is not None:
            self._resume_from(text.end())
            self.parse_punctuation(">", " in dense attribute")
            if (made := from_list(self._dense_type(type), text[0])) is not None:
                return made
        self._resume_from(start)
        return self._other_constant(type)

    def _other_constant(self, type: Any) -> DenseIntOrFPElementsAttr[Any]:
        """Parses a constant that only xDSL can read; a splat is read as one number, which xDSL would repeat."""
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        shape = [0] if self._current_token.text == ">" else self._parse_tensor_literal()[1]
        self.parse_punctuation(">", " in dense attribute")
        type, end = self._dense_type(type), self.pos
        self._resume_from(start)
        one = TensorType(type.element_type, [1])
        found = super().parse_dense_int_or_fp_elements_attr(type if shape else one)
        self._resume_from(end)
        return found if shape else splat(type, bytes(found.data.data))

    def _parse_builtin_dense_resource_attr(self) -> Any:
        start = self.pos
        data = self.parse_resource()
        return self._made(from_resource, self._dense_type(), data, start=start)

    def parse_resource(self) -> memoryview:
        """Reads `<key>` and returns the bytes of that resource."""
        self.parse_punctuation("<", " in dense_resource attribute")
        token = self._current_token
        if token.kind not in (MLIRTokenKind.BARE_IDENT, MLIRTokenKind.STRING_LIT):
            self.raise_error("expected the key of a resource")
        self._consume_token()
        key = contents(token.text).decode() if token.kind == MLIRTokenKind.STRING_LIT else token.text
        if (data := self._metadata.blobs.get(key)) is None:
            if key == ELIDED:
                self.raise_error("this constant was elided when the module was printed", token.span)
            remedy = near_misses(key, self._metadata.blobs) if self._metadata.blobs else None
            remedy = remedy or "print the module again without eliding its resources"
            self.raise_error(f"the file holds no resource {key}; {remedy}", token.span)
        self.parse_punctuation(">", " in dense_resource attribute")
        return data

    def _parse_dense_literal_type(self) -> Any:
        """Reads the type of a constant, as xDSL does, which builds the constraint on it anew for each constant."""
        type = self.expect(self.parse_optional_type, "Dense attribute must be typed!")
        if not _of_numbers().verifies(type):
            self.raise_error("Expected memref, vector or tensor type of integer, index, float, or complex type")
        if DYNAMIC_INDEX in cast(Any, type).get_shape():
            self.raise_error("Dense literal attribute should have a static shape.")
        return type

    def _dense_type(self, known: Any = None) -> Any:
        """Returns the type of a constant, and reads it unless it is known already."""
        start = self.pos
        if known is None:
            self.parse_punctuation(":", " in dense attribute")
            known = self._parse_dense_literal_type()
        if prod(known.get_shape()) > SIZE:
            self.raise_error(f"a constant has at most {SIZE} elements", start)
        return known

    def _made(self, make: Any, *arguments: Any, start: int) -> Any:
        """Returns the result of `make` on its arguments, and reports its errors at `start`."""
        try:
            return make(*arguments)
        except (ValueError, VerifyException) as error:
            self.raise_error(str(error), start)

    def _parse_file_metadata_dictionary(self) -> None:
        self._resume_from(self._metadata.ends[self.pos])  # the section was read before everything else


@cache
def _of_numbers() -> AttrConstraint[Attribute]:
    """Returns the constraint on the types of constants."""
    return base(cast(Any, RankedStructure[AnyDenseElement]))


def _as_weights(attribute: Attribute) -> Attribute:
    """Replaces every `dense` inside an attribute by `#qmlir.weights` around the same bytes, where that is possible.

    Raises:
        ValueError: A constant of one value is too large to be written out.
    """
    match attribute:
        case DenseIntOrFPElementsAttr():
            constant = cast(Dense, attribute)
            try:
                dtype = dtype_of(cast(Attribute, constant.get_element_type()))
            except KeyError:
                return constant
            stored = np.dtype(np.int8) if dtype.kind == "b" else dtype
            array = held_bytes(constant).view(stored).reshape(constant.get_shape())
            return WeightsAttr(array.astype(dtype, copy=False))
        case ArrayAttr():
            return ArrayAttr([_as_weights(each) for each in attribute])
        case DictionaryAttr():
            return DictionaryAttr({key: _as_weights(each) for key, each in attribute.data.items()})
        case _:
            return attribute
