"""Modules in, MLIR text out, with large weights in a safetensors file beside it.

`write_modules(Path("net.mlir"), [module])` writes `net.mlir` and, when a weight has more than 64 elements,
`net.safetensors`; both appear together or not at all. `source.parse_text` reads them back bit for bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from qmlir.dialects.qmlir import names_of
from qmlir.dialects.weights import Array, WeightsMode, WeightsPrinter
from qmlir.errors import QmlirError
from qmlir.files import write_together

SEPARATOR = "// -----\n"
"""The line between modules in one file; `--split-input-file` splits there."""


@dataclass(frozen=True)
class TextForm:
    """How a module is written.

    generic    operations in the generic form
    debuginfo  with the location of each operation
    weights    where weights of more than 64 elements go
    """

    generic: bool = False
    debuginfo: bool = False
    weights: WeightsMode = WeightsMode.SIDE_FILE


def write_modules(path: Path, modules: Sequence[ModuleOp], form: TextForm = TextForm()) -> None:
    """Write modules to one file, and their large weights to a file of the same name ending in `.safetensors`.

    Raises:
        FileError: A file cannot be written; neither has changed.
    """
    side_file = path.with_suffix(".safetensors")
    arrays: dict[str, Array] = {}
    text = _text(modules, form, side_file.name, arrays)
    writers: dict[Path, Callable[[Path], object]] = {path: lambda to: to.write_text(text, encoding="utf-8")}
    if arrays:
        writers[side_file] = lambda to: _write_arrays(to, arrays)
    write_together(writers)


def self_contained_text(modules: Sequence[ModuleOp], form: TextForm = TextForm()) -> str:
    """The text of modules that needs no side file.

    Raises:
        QmlirError: A side file was asked for and needed.
    """
    arrays: dict[str, Array] = {}
    text = _text(modules, form, "", arrays)
    if arrays:
        raise QmlirError(
            "cannot be printed by itself: large weights go to a file beside it",
            where="the module",
            got=f"{len(arrays)} such weights",
            remedy="write it with -o FILE, or use --inline-weights or --elide-weights",
        )
    return text


def _text(modules: Sequence[ModuleOp], form: TextForm, side_file: str, arrays: dict[str, Array]) -> str:
    """The modules as text; what goes to the side file is added to `arrays`."""
    out = StringIO()
    for index, module in enumerate(modules):
        out.write(SEPARATOR if index else "")
        WeightsPrinter(
            out,
            print_generic_format=form.generic,
            print_debuginfo=form.debuginfo,
            mode=form.weights,
            side_file=side_file,
            key_of=_tensor_name,
            side_arrays=arrays,
        ).print_op(module)
        out.write("\n")
    return out.getvalue()


def _tensor_name(op: Operation | None) -> str:
    """The name of the weights an operation holds, for people who open the side file."""
    names = names_of(op) if op is not None else None
    return names.tensors.data[0].data if names is not None and names.tensors.data else ""


def _write_arrays(path: Path, arrays: dict[str, Array]) -> None:
    from safetensors.numpy import save_file  # only those who write weights need it

    save_file(arrays, path)
