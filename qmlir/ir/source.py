"""Parses MLIR text into a module and records the place of every operation in the text.

xDSL's parser forgets where an operation came from unless the text has `loc(…)`. It also reports many errors at the
token *after* the wrong token, often a line too late. Everything a user reads about a module starts with
`file:line:col`, so `SourceParser`

* gives each operation the location of its name (`location_of` reads it back; an explicit `loc` wins). Rewrites that
  clone an operation keep the location, as in mlir-opt, and `--mlir-print-debuginfo` prints it;
* reports a construct that ends at the end of a line on that line, an unknown operation at its name, an attribute that
  does not verify at the attribute, and an undefined value at its first use.

Drivers and the Python API call `parse_text`. It raises only `SourceError`, or a typed error of qmlir from inside an
attribute (such as a missing side file).
"""

import re
import traceback
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn, cast

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc, UnregisteredOp
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.parser import UnresolvedOperand
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Location, Position, Span, Token
from xdsl.utils.mlir_lexer import MLIRTokenKind

from qmlir.errors import FileError, QmlirError
from qmlir.errors.near_misses import near_misses
from qmlir.ir.context import make_context
from qmlir.ir.upstream.parser import UpstreamParser
from qmlir.ir.upstream.tosa_0_80 import RENAMED


class SourceError(QmlirError):
    """Raised for an error in MLIR text: a syntax error, or an operation that does not verify.

    location  file, line and column, or None for an operation that was not parsed from text
    message   what is wrong, without the location
    """

    location: Location | None
    message: str

    def __init__(self, message: str, location: Location | None, *, remedy: str | None = None) -> None:
        self.location, self.message = location, message if remedy is None else f"{message}; {remedy}"
        super().__init__(message, where=str(location) if location else None, remedy=remedy)


def one_line(error: Exception | str) -> str:
    """Returns the message of an exception as one line, without notes, where xDSL puts a dump of the module."""
    text = error if isinstance(error, str) else error.msg if isinstance(error, ParseError) else str(error)
    return " ".join(text.split())


def location_of(op: Operation) -> Location | None:
    """Returns the place in the parsed text of an operation, or of the nearest enclosing operation that has one."""
    at: Operation | None = op
    while at is not None:
        if isinstance(at.location, FileLineColLoc):
            return Location(at.location.filename.data, at.location.line.data, at.location.column.data)
        at = at.parent_op()
    return None


class SourceParser(UpstreamParser):
    """A parser that records locations and reports errors where they occur; see the module docstring."""

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
            return UnregisteredOp.with_name(name)
        dialect = name.partition(".")[0] + "."
        remedy = near_misses(name, [op.name for op in self.ctx.loaded_ops if op.name.startswith(dialect)])
        self.raise_error(f"operation {name} is not registered" + (f"; {remedy}" if remedy else ""), self._previous)


def parse_text(ctx: Context, text: str, name: str, *, first_line: int = 1) -> ModuleOp:
    """Parses MLIR text into a module, which is not verified yet.

    Args:
        ctx: The context with the dialects; a `QmlirContext` also has the folder of side files.
        text: One module, or operations, which are put into a module.
        name: The file's name, for locations.
        first_line: The number of the text's first line, if the text is a piece of a file.

    Raises:
        SourceError: The text is not valid MLIR, or uses an operation or a type that is not registered.
    """
    text = "\n" * (first_line - 1) + text
    parser = None
    try:
        parser = SourceParser(ctx, text, name)
        return parser.parse_module()
    except ParseError as error:
        raise SourceError(one_line(error), cast("Span[str]", error.span).get_location()) from error
    except RecursionError:
        raise SourceError("this is nested too deeply", parser.location if parser else None) from None
    except Exception as error:
        if parser is None or not _is_xdsls(error):
            raise
        raise SourceError(f"xDSL cannot read this: {one_line(error)}", parser.location) from error


def _is_xdsls(error: Exception) -> bool:
    """Whether an exception comes from xDSL, whose parser does not check everything it reads."""
    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((n for n in reversed(frames) if n.startswith(("qmlir.", "xdsl."))), "").startswith("xdsl.")


def read_mlir(path: Path) -> ModuleOp:
    """Reads the module of an .mlir file, whose side file lies in the same folder; the module is not verified yet."""
    context = make_context()
    context.weights_folder = path.parent
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(path, "must be a readable file", got=(error.strerror or str(error)).lower()) from None
    except UnicodeDecodeError:
        raise FileError(path, "must be MLIR text", got="bytes that are not UTF-8") from None
    return parse_text(context, text, str(path))
