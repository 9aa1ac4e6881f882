r"""A parser of MLIR text whose time and memory stay in proportion to the text, even if the text is hostile.

    "missing quote                       xDSL's pattern for strings backtracks exponentially; ours never backtracks
    tuple<tuple<…>>, ((…)), {…{…}…}      nested at most NESTING deep: xDSL's parser, printer and hashes are recursive
    !b = tuple<!a, !a>, !c = …<!b, !b>   the expanded size of aliases is bounded, as in XML parsers
    "gr\C3\B6\C3\9Fe"                      a string with escaped UTF-8 is text, not bytes
    99…9, i99…9, tensor<1x1x…x1xf32>     integers of DIGITS, types of WIDTH bits, shapes of RANK dimensions at most

mlir-opt bounds widths and sizes too; the other bounds are far above what any tool writes.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, IndexType, LocationAttr
from xdsl.ir import Operation, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSet
from xdsl.parser import Parser, ParserState
from xdsl.utils.exceptions import ParseError
from xdsl.utils.hints import isa
from xdsl.utils.lexer import Input, Position, Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

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

_ESCAPE = re.compile(rb'\\(n|t|"|\\|[0-9A-Fa-f]{2})')
_SHORT = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


def _contents(literal: str) -> bytes:
    """Returns the bytes of a string literal; xDSL takes seconds for a million escapes, several times per literal."""
    raw = literal[1:-1].encode()
    return _ESCAPE.sub(lambda m: _SHORT.get(m[1]) or bytes.fromhex(m[1].decode()), raw) if b"\\" in raw else raw


def _start_of(span: Span[str]) -> Span[str]:
    return Span(span.start, span.start + 1, span.input)


@dataclass(frozen=True)
class _Extent:
    """The expanded form of an alias: its levels of nesting, and its characters with all its aliases written out."""

    depth: int
    size: int


class BoundedParser(Parser):
    """xDSL's parser with the bounds of the module docstring.

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
            text = _contents(token.text).decode()
        except UnicodeDecodeError:
            return None
        self._consume_token()
        return text

    def parse_optional_bytes_literal(self) -> bytes | None:
        token = self._parse_optional_token(MLIRTokenKind.BYTES_LIT)
        return None if token is None else _contents(token.text)

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
