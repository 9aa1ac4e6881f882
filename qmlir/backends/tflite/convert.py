"""The entry of the TFLite exporter: writes a function on the nn level in one walk in program order."""

import warnings
from pathlib import Path

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.backends.forms import Forms, refusing
from qmlir.backends.tflite import casts, contraction, elementwise, movement, reduction
from qmlir.backends.tflite.batch import Drawn, Fixed, with_free_batch
from qmlir.backends.tflite.graph import Graph, Tensor
from qmlir.backends.tflite.model import finished, write_model
from qmlir.backends.tflite.values import Values, declared
from qmlir.dialects.batches import with_batch
from qmlir.dialects.inputs import InputNotes
from qmlir.errors import FileError, QmlirWarning, UnsupportedError
from qmlir.formats.tflite import WRITTEN
from qmlir.ir.signature import signature_of
from qmlir.policies.runtime_kernels import mixes_bytes

_OWN = Forms[Values].of(casts.exports, contraction.exports, elementwise.exports, movement.exports, reduction.exports)

EXPORTS = _OWN.replaced({op: elementwise.as_operator for op in WRITTEN if op not in _OWN.entries})
"""The forms of all operations; the row of an operation in formats/tflite.py counts if no family has a form of it."""


def export_tflite(function: func.FuncOp, path: Path) -> list[Path]:
    """Writes a network on the nn level, float or quantized, as a TFLite file.

    First dimensions that were dynamic in the source model are dynamic in the file, or a warning says why they cannot
    be.

    Args:
        function: The function; quantized values become integers with their scales and zero points.
        path: The .tflite file.

    Returns:
        The file written.

    Raises:
        FileError: The path does not end in .tflite, or cannot be written.
        UnsupportedError: TFLite cannot express an operation or a type.
    """
    if path.suffix != ".tflite":
        raise FileError(path, "must be the name of a .tflite file", remedy="let it end in .tflite")
    signature, notes = signature_of(function).flat(), InputNotes.of(function.parent_op())
    free: Drawn | None = None
    stays = ""
    if notes.symbols:
        try:
            free = _with_free_batch(function, notes)
        except (Fixed, UnsupportedError) as reason:
            stays = str(reason)
    graph, ends = free or _drawn(function)
    if stays:  # what TFLite cannot express at any batch has been refused by now
        warnings.warn(notes.stays(path, stays), QmlirWarning)
    with refusing(_end(function)):
        return write_model(graph, ends, signature, path, notes.reading.by_key())


def _with_free_batch(function: func.FuncOp, notes: InputNotes) -> Drawn:
    """Returns the graph of a network whose batch is any number; raises Fixed or UnsupportedError if it cannot be."""
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    if notes.mixes:
        raise Fixed(notes.mixes)
    return with_free_batch(lambda samples: _drawn(with_batch(module, function, samples)[1]))


def _drawn(function: func.FuncOp) -> Drawn:
    """Returns the finished graph of a network, and the tensors of its outputs."""
    graph = Graph()
    values = Values(graph, mixes_bytes(function))
    with refusing(function):
        for argument in function.body.block.args:
            _enter(argument, values)

    def scope(name: str) -> None:
        graph.scope = name

    results = EXPORTS.walk(function, values, scope)
    with refusing(_end(function)):
        return graph, finished(graph, [_leave(value, values) for value in results], signature_of(function).flat())


def _end(function: func.FuncOp) -> Operation:
    end = function.body.block.last_op
    assert end is not None, "a walk ends at func.return"
    return end


def _enter(argument: SSAValue, values: Values) -> None:
    """Adds an input of the network in the signature's type, and a QUANTIZE if the value is stored otherwise."""
    outside, inside = declared(argument), values.form(argument)
    x = values.graph.input(outside)
    values.hold(argument, x if outside == inside else values.graph.operator("QUANTIZE", [x], inside))


def _leave(value: SSAValue, values: Values) -> Tensor:
    """Returns the tensor of a result in the signature's type, behind a QUANTIZE if the value is stored otherwise.

    Sums of 32 bits get their scale.
    """
    y, outside = values.stored(value), declared(value)
    if y.dtype == outside.dtype == np.int32 and y.form != outside:
        return values.graph.seen_as(y, outside)
    return y if y.form == outside else values.graph.operator("QUANTIZE", [y], outside)
