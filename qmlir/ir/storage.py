"""Writes modules to disk or to a stream: as text, with large weights in a .safetensors file beside it.

`write_module(module, Path("net.mlir"))` writes `net.mlir` and, if a weight has more than 64 elements,
`net.safetensors`. Both files appear whole or not at all; `source.parse_text` reads them back bit for bit. mlir-opt does
not read side files: for mlir-opt, `TextForm.weights` puts weights into the text or behind it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.errors import QmlirError
from qmlir.ir.levels import levels_of
from qmlir.ir.resources import resources_text
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.side_file import AffineArray, write_side_file
from qmlir.ir.upstream.text import UpstreamPrinter
from qmlir.ir.weights import SIDE_SUFFIX, Array, WeightsAttr, WeightsMode, WeightsPrinter
from qmlir.numerics.affine import Affine
from qmlir.running.files import write_together

SEPARATOR = "// -----\n"
"""The line between modules in one file; `--split-input-file` splits there."""


@dataclass(frozen=True)
class TextForm:
    """The form in which a module is written.

    generic    whether operations have the generic form
    locations  whether the location of each operation is written
    weights    where weights of more than 64 elements go
    upstream   whether to spell the text as mlir-opt does (upstream/text.py)
    """

    generic: bool = False
    locations: bool = False
    weights: WeightsMode = WeightsMode.SIDE_FILE
    upstream: bool = False


def write_module(module: ModuleOp, path: Path, form: TextForm | None = None) -> list[Path]:
    """Writes a module to `path` and, if `form` asks for it, its large weights to the side file of the same stem.

    Returns:
        The files written.
    """
    return write_modules([module], path, form or TextForm())


def write_modules(modules: Sequence[ModuleOp], path: Path, form: TextForm) -> list[Path]:
    """Writes several modules to one file, and their large weights to one side file of the same stem.

    Returns:
        The files written: the text, and the side file if there is one.

    Raises:
        FileError: A file cannot be written.
    """
    side = path.with_suffix(SIDE_SUFFIX)
    text, arrays = _text_of(modules, form, side.name)
    writers: dict[Path, Callable[[Path], object]] = {path: lambda to: to.write_text(text, encoding="utf-8")}
    if arrays:
        writers[side] = lambda to: write_side_file(arrays, to)
    write_together(writers)
    return list(writers)


def self_contained_text(modules: Sequence[ModuleOp], form: TextForm) -> str:
    """Returns the text of modules that need no side file.

    Raises:
        QmlirError: `form` sends large weights to a side file, and the modules have large weights.
    """
    text, arrays = _text_of(modules, form, "")
    if arrays:
        raise QmlirError(
            "cannot be printed by itself: its large weights go to a file beside it",
            where="the module",
            got=f"{len(arrays)} of them",
            remedy="write it with -o FILE, or use --weights=inline, --weights=resource or --weights=elide",
        )
    return text


def _text_of(modules: Sequence[ModuleOp], form: TextForm, side_file: str) -> tuple[str, dict[str, Array | AffineArray]]:
    """Returns the text of modules, and the weights that belong in the side file, by key."""
    out, arrays = StringIO(), dict[str, Array | AffineArray]()
    for index, module in enumerate(modules):
        out.write(SEPARATOR if index else "")
        printer = (UpstreamPrinter if form.upstream else WeightsPrinter)(
            out,
            print_generic_format=form.generic,
            print_debuginfo=form.locations,
            mode=form.weights,
            side_file=side_file,
            key_of=_key,
            affine_of=_affine_of,
            side_arrays=arrays,
        )
        if isinstance(printer, UpstreamPrinter):
            printer.print_module(module)
        else:
            printer.print_op(module)
        out.write("\n" + resources_text(printer.resources))
    return out.getvalue(), arrays


def _key(op: Operation | None) -> str:
    return tensor_name(op.results[0]) if op is not None and op.results else ""


def _affine_of(op: Operation | None, array: Array) -> Affine | None:
    """The affine levels that a constant states about its numbers, if `array` is these."""
    if op is None or not any(
        isinstance(value, WeightsAttr) and value.array is array for value in op.properties.values()
    ):
        return None
    levels = levels_of(op)
    return levels if isinstance(levels, Affine) else None
