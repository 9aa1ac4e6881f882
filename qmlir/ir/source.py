"""Parses MLIR text into a module and records the place of every operation in the text.

`location_of` reads the place back. Rewrites that clone an operation keep it, as in mlir-opt, and
`--mlir-print-debuginfo` prints it.

Drivers and the Python API call `parse_text`. It raises only `SourceError`, or a typed error of qmlir from inside an
attribute (such as a missing side file).
"""

import traceback
from pathlib import Path
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, NameLoc
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Location, Span

from qmlir.errors import FileError, QmlirError
from qmlir.ir.context import make_context
from qmlir.ir.upstream.source_parser import SourceParser, one_line
from qmlir.running.files import settle


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


def location_of(op: Operation) -> Location | None:
    """Returns the place in the parsed text of an operation, or of the nearest enclosing operation that has one."""
    at: Operation | None = op
    while at is not None:
        place = at.location.location if isinstance(at.location, NameLoc) else at.location
        if isinstance(place, FileLineColLoc) and place.column.data:  # a node of a model has no column
            return Location(place.filename.data, place.line.data, place.column.data)
        at = at.parent_op()
    return None


FORMER = ("qmlir.groups", "qmlir.codebook", "qmlir.block")
"""Attribute keys of weights of few bits in text of version 0.4.0 and before, which `qmlir.levels` stands for now."""


def parse_text(ctx: Context, text: str, name: str, *, first_line: int = 1) -> ModuleOp:
    """Parses MLIR text into a module, which is not verified yet.

    Args:
        ctx: The context with the dialects; a `QmlirContext` also has the folder of side files.
        text: One module, or operations, which are put into a module.
        name: The file's name, for locations.
        first_line: The number of the text's first line, if the text is a piece of a file.

    Raises:
        SourceError: The text is not valid MLIR, uses an operation or a type that is not registered, or states weights
            of few bits as former versions did.
    """
    text = "\n" * (first_line - 1) + text
    _refuse_former(text, name)
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


def _refuse_former(text: str, name: str) -> None:
    for key in FORMER:
        if (at := text.find(f"{key} = ")) >= 0:
            place = Span(at, at + len(key), Input(text, name)).get_location()
            remedy = "quantize the model again from its own file, and save the module anew"
            raise SourceError(f"{key} is how earlier versions wrote what qmlir.levels states", place, remedy=remedy)


def _is_xdsls(error: Exception) -> bool:
    """Whether an exception comes from xDSL, whose parser does not check everything it reads."""
    frames = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return next((n for n in reversed(frames) if n.startswith(("qmlir.", "xdsl."))), "").startswith("xdsl.")


def read_mlir(path: Path) -> ModuleOp:
    """Reads the module of an .mlir file, whose side file lies in the same folder; the module is not verified yet."""
    context = make_context()
    context.weights_folder = path.parent
    try:
        settle(path)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(path, "must be a readable file", got=error) from None
    except UnicodeDecodeError:
        raise FileError(path, "must be MLIR text", got="bytes that are not UTF-8") from None
    return parse_text(context, text, str(path))
