"""Carries out a request of `qmlir-opt`: reads and verifies the input, runs the passes, prints the result."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from qmlir.cli.arguments import Request
from qmlir.cli.diagnostics import Diagnostic, diagnose, diagnostic_of, expectations, mismatches, report
from qmlir.cli.pipeline import Stopwatch, run_pass
from qmlir.compiler import context_of, load
from qmlir.errors import FileError, OptionError
from qmlir.frontends import IMPORTED
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.ir.storage import self_contained_text, write_modules
from qmlir.ir.verify import verification_errors
from qmlir.running.files import settle

_SPLIT = re.compile(r"^// -----[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True)
class _Piece:
    """A piece of the input that is a module by itself, and the number of its first line in the file."""

    text: str
    first_line: int


class Run:
    """One run of `qmlir-opt`: the request and the state while it is carried out."""

    def __init__(self, request: Request, *, debug: bool) -> None:
        self.request = request
        self.debug = debug
        self.stopwatch = Stopwatch()
        self.file = "<stdin>" if request.input == "-" else request.input
        self.texts: dict[str, str] = {}

    def run(self) -> int:
        """Processes every piece, writes the result and returns the exit status."""
        wrong: list[Diagnostic] = []
        modules: list[ModuleOp] = []
        if Path(self.file).suffix in IMPORTED:
            pieces = [None]
        else:
            if given := [option for option, value in self.request.loading.items() if value]:
                flag = {"weights": "init-net", "shapes": "shape"}.get(given[0], given[0])
                raise OptionError(f"--{flag}", "is for model files of other frameworks", remedy="leave it out")
            self.texts[self.file] = _read_text(self.request.input)
            pieces = self._pieces(self.texts[self.file])
        for piece in pieces:
            module, diagnostics = self._process(piece)
            if module is not None and not diagnostics:
                modules.append(module)
            if self.request.verify_diagnostics and piece is not None:
                announced, malformed = expectations(piece.text, first_line=piece.first_line)
                diagnostics = malformed + mismatches(diagnostics, announced, self.file)
            wrong += diagnostics
        if self.request.output == "-" or not wrong:
            self._write(modules)
        if self.request.timing:
            sys.stderr.write(self.stopwatch.report())
        report(wrong, self.texts, with_lines=not self.request.verify_diagnostics)
        return 1 if wrong else 0

    def _pieces(self, text: str) -> list[_Piece]:
        if not self.request.split_input_file:
            return [_Piece(text, 1)]
        pieces: list[_Piece] = []
        line = 1
        for part in _SPLIT.split(text):
            pieces.append(_Piece(part, line))
            line += part.count("\n")
        return pieces

    def _process(self, piece: _Piece | None) -> tuple[ModuleOp | None, list[Diagnostic]]:
        """Returns the module after all passes, or its errors; a `piece` of None stands for a model file."""
        ctx = make_context()
        ctx.allow_unregistered = self.request.allow_unregistered
        ctx.weights_folder = Path() if self.request.input == "-" else Path(self.request.input).parent
        doing = "reading the input"
        try:
            with self.stopwatch.measure("(parse)"):
                if piece is None:
                    module = load(self.file, **self.request.loading)
                else:
                    module = parse_text(ctx, piece.text, self.file, first_line=piece.first_line)
                ctx.target = context_of(module).target  # a network quantized for a device rounds as that device does
            with self.stopwatch.measure("(verify)"):
                errors = verification_errors(module)
            for each in () if errors else self.request.passes:
                doing = f'pass "{each.name}"'
                verify = self.request.verify_each
                errors = run_pass(ctx, module, each, watch=self.request.watch, stopwatch=self.stopwatch, verify=verify)
                if errors:
                    break
            return module, [diagnostic_of(e, doing=doing) for e in errors]
        except Exception as error:
            return None, [diagnose(error, doing=doing, debug=self.debug)]

    def _write(self, modules: Sequence[ModuleOp]) -> None:
        with self.stopwatch.measure("(print)"):
            if self.request.output != "-":
                write_modules(modules, Path(self.request.output), self.request.form)
                return
            sys.stdout.write(self_contained_text(modules, self.request.form))
            sys.stdout.flush()


def _read_text(file: str) -> str:
    """Returns the text of a file, or of standard input for `-`."""
    try:
        if file == "-":
            return sys.stdin.read()
        settle(Path(file))
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise FileError(
            "<stdin>" if file == "-" else file,
            "must be MLIR text",
            got="binary data",
            remedy=f"model files are told by their suffix: {', '.join(IMPORTED)}",
        ) from None
