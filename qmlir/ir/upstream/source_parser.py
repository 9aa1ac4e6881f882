"""A parser of MLIR text that records places and reports errors where they occur.

xDSL's parser forgets where an operation came from unless the text has `loc(…)`. It also reports many errors at the
token *after* the wrong token, often a line too late. Everything a user reads about a module starts with
`file:line:col`, so `SourceParser`

* gives each operation the location of its name; an explicit `loc` wins;
* reports a construct that ends at the end of a line on that line, an unknown operation at its name, an attribute that
  does not verify at the attribute, and an undefined value at its first use.

The file is unnecessary once xDSL's parser keeps the places of operations and reports errors at the wrong token.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc, UnregisteredOp
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Location, Position, Span, Token
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qmlir.errors import near_misses
from qmlir.ir.upstream.parser import UpstreamParser
from qmlir.ir.upstream.tosa_0_80 import MISSING, RENAMED


def one_line(error: Exception | str) -> str:
    """Returns the message of an exception as one line, without notes, where xDSL puts a dump of the module."""
    text = error if isinstance(error, str) else error.msg if isinstance(error, ParseError) else str(error)
    return " ".join(text.split())


class SourceParser(UpstreamParser):
    """A parser that records locations and reports errors where they occur."""

    _name: StringAttr
    _line_starts: list[Position]
    _previous: Span
    _first_use: dict[str, Span]
    _op_names: list[Span | None]

    def __init__(self, ctx: Context, text: str, name: str) -> None:
        # `super` already reads the first token, so it may raise ParseError.
        self._name = StringAttr(name)
        self._line_starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
        self._first_use = {}
        self._op_names = []
        super().__init__(ctx, text, name)
        self._previous = self._current_token.span

    def parse_operation(self) -> Operation:
        start = self._current_token.span
        self._op_names.append(None)
        try:
            op = super().parse_operation()
        except VerifyException as error:  # a constructor called by the operation's own `parse`
            raise ParseError(self._op_names[-1] or start, one_line(error)) from None
        at = (self._op_names.pop() or start).start
        if isinstance(op.location, UnknownLoc):
            line = self._line_of(at)
            op.location = FileLineColLoc(self._name, IntAttr(line), IntAttr(at - self._line_starts[line - 1] + 1))
        return op

    def parse_optional_type(self) -> TypeAttribute | None:
        start = self._current_token.span
        try:
            return super().parse_optional_type()
        except VerifyException as error:
            raise ParseError(start, one_line(error)) from None

    def parse_optional_attribute(self) -> Attribute | None:
        start = self._current_token.span
        try:
            return super().parse_optional_attribute()
        except VerifyException as error:
            raise ParseError(start, one_line(error)) from None

    def resolve_operand(self, operand: UnresolvedOperand, type: Attribute) -> SSAValue[Attribute]:
        self._first_use.setdefault(operand.operand_name, operand.span)
        return super().resolve_operand(operand, type)

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        if self._current_token.kind == MLIRTokenKind.EOF:
            return ModuleOp([])  # nothing but comments: an empty module, as in mlir-opt
        try:
            return super().parse_module(allow_implicit_module)
        except ParseError as error:
            undefined = next((n for n in self.forward_ssa_references if n in self._first_use), None)
            if undefined is not None and error.msg.startswith("values used but not defined"):
                raise ParseError(self._first_use[undefined], f"%{undefined} is used but not defined") from None
            raise

    def raise_error(
        self, msg: str, at_position: Span | Position | None = None, end_position: Position | None = None
    ) -> NoReturn:
        token = self._current_token.span
        if at_position is None or at_position is token:
            # The parser detects the error at the next token. If that token is on a later line, the error is before it.
            line_is_over = self._line_of(token.start) > self._line_of(self._previous.start)
            at_position = self._previous if line_is_over and msg != "Could not parse entire input!" else token
        if end_position is not None and isinstance(at_position, Position):
            at_position = Span(at_position, end_position, self.lexer.input)
        super().raise_error(msg, at_position)

    @property
    def location(self) -> Location:
        """The location of the current token."""
        return self._current_token.span.get_location()

    def _consume_token(self, expected_kind: MLIRTokenKind | None = None) -> Token[MLIRTokenKind, str]:
        self._previous = self._current_token.span
        return super()._consume_token(expected_kind)

    def _line_of(self, position: Position) -> int:
        return bisect_right(self._line_starts, position)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        self._op_names[-1] = self._previous  # the name, which the parser has just read
        stack: Sequence[str] = self._parser_state.dialect_stack
        if (op_type := self.ctx.get_optional_op(name, dialect_stack=stack)) is not None:
            return op_type
        if name in RENAMED:
            return _renamed(name)
        if name in MISSING:
            remedy = "cut the network in front of it, and compute it in your program"
            self.raise_error(f"{name} is an operation of TOSA that is not read; {remedy}", self._previous)
        dialect = name.partition(".")[0] + "."
        remedy = near_misses(name, [op.name for op in self.ctx.loaded_ops if op.name.startswith(dialect)])
        self.raise_error(f"operation {name} is not registered" + (f"; {remedy}" if remedy else ""), self._previous)


def _renamed(name: str) -> type[Operation]:
    """Returns the class of an operation that 1.0 lacks, which parses the custom syntax of TOSA too."""

    def parse(parser: Parser) -> Operation:
        from qmlir.ir.upstream.tosa.base import parse_operation

        return parse_operation(name, parser)

    made = UnregisteredOp.with_name(name)
    made.parse = parse
    return made
