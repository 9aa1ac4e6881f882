"""Frontends: each reads one model file format and returns a module in the nn dialect."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qmlir.errors import OptionError
from qmlir.frontends.cut import WHOLE, Cut
from qmlir.frontends.foreign import is_saved_model, refusal
from qmlir.ir.reading import ReadingNotes

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.numerics import Array


CAFFE2 = (".pb", ".pbtxt", ".prototxt")
"""Endings of the files of Caffe2 nets: binary, and as text."""

GGUF = ".gguf"
"""The ending of the files of language models in GGUF."""

IMPORTED = (".onnx", ".tflite", GGUF, *CAFFE2)
"""Endings of the files that hold a network of another framework."""


def read_network(
    path: Path, bind: Mapping[str, int], constants: Mapping[str, "Array"], signature: str | None, fold_budget: int,
    weights: Path | None = None, shapes: Mapping[str, str] | None = None, cut: Cut = WHOLE,
) -> "ModuleOp":  # fmt: skip
    """Reads a network from an .onnx, .tflite, .gguf or .mlir file, or a Caffe2 net; see `qmlir.load` for the arguments.

    Raises:
        FileError: The file is of another kind, or cannot be read.
        OptionError: An option is given for a file of another kind than it is for.
    """
    if signature is not None and path.suffix in (".mlir", ".onnx", GGUF, *CAFFE2):
        raise OptionError(
            "signature", "is for .tflite files: others have one graph", got=signature, remedy="leave it out"
        )
    for option, given in (("weights", weights), ("shape", ", ".join(shapes or ()))):
        if given and path.suffix not in CAFFE2:
            raise OptionError(
                option, "is for Caffe2 nets: others hold their weights and the shapes of their inputs", got=str(given),
                remedy="leave it out",
            )  # fmt: skip
    if path.suffix in (".mlir", GGUF) and (given := cut.given()):
        option, names = next(iter(given.items()))
        raise OptionError(
            option, "cuts .onnx and .tflite files and Caffe2 nets: in an .mlir file, the function can be edited",
            got=", ".join(names), remedy="leave it out, or cut the model's own file",
        )  # fmt: skip
    if path.suffix == GGUF:
        from qmlir.frontends.gguf import load_gguf

        if constants:
            raise OptionError(
                "constant", "is for .onnx files and Caffe2 nets: all inputs of a .gguf file's network change",
                got=", ".join(constants), remedy="leave it out",
            )  # fmt: skip
        return load_gguf(path, bind=bind)
    if path.suffix == ".mlir":
        from qmlir.ir.source import read_mlir
        from qmlir.ir.verify import verify

        module = read_mlir(path)
        verify(module)
        return module
    if path.suffix == ".onnx":
        from qmlir.frontends.onnx import load_onnx

        return load_onnx(path, bind=bind, constants=constants, fold_budget=fold_budget, cut=cut)
    if path.suffix == ".tflite":
        from qmlir.frontends.tflite import load_tflite

        return load_tflite(path, bind=bind, constants=constants, signature=signature, fold_budget=fold_budget, cut=cut)
    if path.suffix in CAFFE2 and not is_saved_model(path):
        from qmlir.frontends.caffe2 import load_caffe2

        if bind:
            raise OptionError(
                "bind", "is for .onnx files: a Caffe2 net has no symbolic dimensions", got=", ".join(bind),
                remedy="give the shapes of its inputs by --shape, or shapes in Python",
            )  # fmt: skip
        return load_caffe2(path, weights, shapes=shapes, constants=constants, fold_budget=fold_budget, cut=cut)
    raise refusal(path)


def reading_notes_of(path: Path) -> ReadingNotes:
    """Returns what a model's file says about reading samples; only the text of an .mlir file is read, and metadata.

    Raises:
        FileError: The file cannot be read.
    """
    match path.suffix:
        case ".mlir":
            from qmlir.dialects.inputs import reading_notes
            from qmlir.ir.source import read_mlir

            return reading_notes(read_mlir(path))
        case ".onnx":
            from qmlir.frontends.onnx.reader import notes_of

            return ReadingNotes.from_keys(notes_of(path))
        case ".tflite":
            from qmlir.frontends.tflite.reader import read_model

            return ReadingNotes.from_keys(read_model(path).notes)
        case _:
            return ReadingNotes()
