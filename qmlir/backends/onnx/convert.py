"""The entry of the ONNX exporter: writes a function in one walk in program order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from xdsl.dialects import func
from xdsl.ir import Operation

from qmlir.backends.forms import Forms, refusing
from qmlir.backends.onnx import casts, contraction, elementwise, movement, reduction
from qmlir.backends.onnx.graph import Graph
from qmlir.backends.onnx.integer import spelled_out
from qmlir.backends.onnx.model import write_model
from qmlir.backends.onnx.qoperator import on_integers
from qmlir.backends.onnx.values import Values, stored_dtype
from qmlir.dialects.inputs import InputNotes
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.errors import FileError, OptionError
from qmlir.formats.onnx import WRITTEN
from qmlir.ir.interfaces import shape_of
from qmlir.ir.signature import signature_of

_OWN = Forms[Values].of(casts.exports, contraction.exports, elementwise.exports, movement.exports, reduction.exports)

EXPORTS = _OWN.replaced({op: elementwise.as_operator for op in WRITTEN if op not in _OWN.entries})
"""The forms on real values; the row of an operation in formats/onnx.py counts if no family has a form of it."""

OLDEST_OPSET = 13
"""The first opset whose QuantizeLinear has scales along an axis."""

NEWEST_OPSET = onnx.defs.onnx_opset_version()
"""The newest opset that the installed onnx package knows."""

DEFAULT_OPSET = min(26, NEWEST_OPSET)
"""The newest opset that onnxruntime 1.31 runs, if the onnx package knows it."""


def require_opset(opset: int) -> None:
    """Checks that files can be written for a version of ONNX's operators.

    Raises:
        OptionError: There is no such opset, or it is too old.
    """
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise OptionError("opset", f"must lie in {OLDEST_OPSET} … {NEWEST_OPSET}", got=str(opset))


FORMATS: dict[str, Callable[[Forms[Values]], Forms[Values]]] = {
    "onnx-qdq": lambda exports: exports,
    "onnx-qoperator": on_integers,
    "onnx-integer": spelled_out,
}
"""Format → function that returns the table of its forms, given the forms on real values."""


def _unless_empty(form: Callable[[Any, Values], None]) -> Callable[[Any, Values], None]:
    """Returns a form of elementwise operations that writes results without elements as constants.

    onnxruntime's default optimizations make operators on integers of those between casts, and QLinearAdd and QLinearMul
    crash on an empty tensor beside a scalar.
    """

    def write(op: Operation, values: Values) -> None:
        result = op.results[0]
        if 0 in shape_of(result):
            values.hold(result, values.graph.constant(np.zeros(shape_of(result), stored_dtype(result))))
        else:
            form(op, values)

    return write


def export_onnx(
    function: func.FuncOp,
    path: Path,
    *,
    opset: int = DEFAULT_OPSET,
    format: str = "onnx-qdq",
    unsigned: bool = False,
) -> list[Path]:
    """Writes a network as an ONNX file.

    Args:
        function: The function, on the nn level (float or quantized); for `onnx-integer` on the qint level.
        path: The .onnx file; weights of more than `LARGEST` bytes (model.py) go to a file beside it.
        opset: The version of ONNX's operators.
        format: A name in `FORMATS`.
        unsigned: For `onnx-qdq`, whether signed bytes between operations are stored as unsigned bytes (values.py).

    First dimensions that were symbolic in the source model are symbolic in the file, or a warning says why they cannot
    be.

    Returns:
        The files written, all or none.

    Raises:
        FileError: The path does not end in .onnx, or cannot be written.
        OptionError: There is no such opset.
        UnsupportedError: The format cannot express an operation or a type.
    """
    if path.suffix != ".onnx":
        remedy = "leave out the format" if path.suffix == ".tflite" else "let it end in .onnx"
        raise FileError(path, f"must be the name of an .onnx file for the format {format}", remedy=remedy)
    require_opset(opset)
    graph = Graph(opset)
    values = Values(graph, unsigned=unsigned and format == "onnx-qdq")
    signature, notes = signature_of(function), InputNotes.of(function.parent_op())
    for argument, spec in zip(function.body.block.args, signature.flat().inputs, strict=True):
        values.hold(argument, graph.input(spec.dtype))

    def enter(name: str) -> None:
        graph.scope = name

    forms = FORMATS[format](EXPORTS)
    forms = forms.replaced({o: _unless_empty(form) for o, form in forms.entries.items() if issubclass(o, PointwiseOp)})
    results = forms.walk(function, values, enter)
    assert function.body.block.last_op is not None
    with refusing(function.body.block.last_op):
        return write_model(graph, [values.integers(o) for o in results], signature, path, notes)
