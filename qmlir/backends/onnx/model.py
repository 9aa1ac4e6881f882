"""Writes a finished graph as a file: names tensors and nodes, and stores more than 2 GB of weights beside the file."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

from qmlir.backends.forms import Names
from qmlir.backends.onnx.batch import make_symbolic
from qmlir.backends.onnx.graph import Graph, Node, Tensor, tensor_type
from qmlir.backends.onnx.propagation import keep_float_weights, quantize_moved
from qmlir.dialects.inputs import InputNotes
from qmlir.errors import QmlirWarning
from qmlir.formats.onnx_states import STATES
from qmlir.formats.onnx_states import written as written_states
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.ir.traversal import contributing
from qmlir.ir.types import is_numpys_own
from qmlir.running.files import write_together

LARGEST = 2**31 - 2**24
"""The most bytes of constants in a file; protobuf allows 2^31 bytes, and the nodes need a part of them."""

ALIGNMENT = 4096
"""The alignment in bytes of weights in the file beside the model, so that a reader can memory-map them."""

PRODUCER = "qmlir"


def write_model(
    graph: Graph, outputs: Sequence[Tensor], signature: Signature, path: Path, notes: InputNotes
) -> list[Path]:
    """Writes a graph as an ONNX file.

    Args:
        graph: The graph; its inputs are those of the signature, in order, states included.
        outputs: One tensor for each output of the signature, states included.
        signature: The names and shapes of the inputs and outputs; its states are named in the file's metadata.
        path: The file; if the weights exceed `LARGEST` bytes, they go to `<path>.data`.
        notes: The symbols of the inputs' first dimensions, which become symbolic again, or a warning says why they stay
            1; and how samples are read, which the file keeps as metadata.

    Returns:
        The files written.
    """
    states, signature = signature.states, signature.flat()
    keep_float_weights(graph)
    ends = quantize_moved(graph, _ends(graph, outputs, signature))
    graph.nodes[:] = contributing(
        graph.nodes, ends, lambda n: (t for t in n.inputs if t is not None), lambda n: n.outputs
    )
    names = _names(graph, ends, signature)
    beside = path.with_name(f"{path.name}.data")
    external = sum(array.nbytes for array in graph.constants.values()) > LARGEST
    initializers, written = _initializers(graph, names, beside.name if external else None)
    body = onnx.helper.make_graph(
        [_node(node, names) for node in graph.nodes],
        path.stem,
        [_info(names[t], spec) for t, spec in zip(graph.inputs, signature.inputs, strict=True)],
        [_info(names[t], spec) for t, spec in zip(ends, signature.outputs, strict=True)],
        initializers,
    )
    opsets = [onnx.helper.make_opsetid("", graph.opset)]
    opsets += [onnx.helper.make_opsetid(d, 1) for d in sorted({node.domain for node in graph.nodes} - {""})]
    model = onnx.helper.make_model(
        body, opset_imports=opsets, producer_name=PRODUCER, ir_version=onnx.helper.find_min_ir_version_for(opsets[:1])
    )
    if states:
        following = {i: names[tensor] for i, tensor in enumerate(ends)}
        model.metadata_props.add(key=STATES, value=written_states(states, following))
    if notes.symbols and (reason := notes.mixes or make_symbolic(model, notes.symbols)):
        warnings.warn(notes.stays(path, reason), QmlirWarning)
    for key, text in notes.reading.by_key().items():
        model.metadata_props.add(key=key, value=text)
    writers: dict[Path, Callable[[Path], object]] = {path: lambda file: file.write_bytes(model.SerializeToString())}
    if external:
        writers[beside] = lambda file: _write_arrays(file, written)
    write_together(writers)
    return list(writers)


def _ends(graph: Graph, outputs: Sequence[Tensor], signature: Signature) -> list[Tensor]:
    """Returns a tensor for each output; copies a tensor that is also an input, a constant or another output."""
    ends: list[Tensor] = []
    for tensor, spec in zip(outputs, signature.outputs, strict=True):
        graph.scope = spec.name
        ends.append(graph.node("Identity", tensor) if tensor.node is None or tensor in ends else tensor)
    return ends


def _names(graph: Graph, ends: Sequence[Tensor], signature: Signature) -> dict[Tensor, str]:
    """Returns a unique name for each tensor and makes node names unique.

    If an output has the name of an input, the output gets a suffix.
    """
    names = {tensor: spec.name for tensor, spec in zip(graph.inputs, signature.inputs, strict=True)}
    unique = Names([*names.values()])
    names |= {tensor: unique.unique(spec.name) for tensor, spec in zip(ends, signature.outputs, strict=True)}
    for tensor in [*graph.constants, *(t for node in graph.nodes for t in node.outputs)]:
        if tensor not in names:
            names[tensor] = unique.unique(tensor.wanted)
    called = Names()
    for node in graph.nodes:
        node.wanted = called.unique(node.wanted)
    return names


def _node(node: Node, names: dict[Tensor, str]) -> onnx.NodeProto:
    inputs = ["" if t is None else names[t] for t in node.inputs]
    while inputs and not inputs[-1]:
        inputs.pop()
    outputs = [names[t] for t in node.outputs]
    return onnx.helper.make_node(node.kind, inputs, outputs, node.wanted, domain=node.domain, **node.attributes)


def _info(name: str, spec: TensorSpec) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, tensor_type(spec.dtype), spec.shape)


def _initializers(
    graph: Graph, names: dict[Tensor, str], beside: str | None
) -> tuple[list[onnx.TensorProto], list[tuple[int, Array]]]:
    """Returns the initializers, and the (offset, array) pairs of the file `beside`.

    The initializers are the constants that nodes read. If `beside` is given, it names the file for large constants.
    """
    read = {t for node in graph.nodes for t in node.inputs}
    protos: list[onnx.TensorProto] = []
    written: list[tuple[int, Array]] = []
    end = 0
    for tensor, array in graph.constants.items():
        if tensor not in read:
            continue
        if beside is None or array.nbytes < ALIGNMENT or not is_numpys_own(array.dtype):
            protos.append(onnx.numpy_helper.from_array(array, names[tensor]))
            continue
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        end = offset + array.nbytes
        proto = onnx.TensorProto(
            name=names[tensor], data_type=tensor_type(array.dtype), dims=array.shape,
            data_location=onnx.TensorProto.EXTERNAL,
        )  # fmt: skip
        for key, value in (("location", beside), ("offset", offset), ("length", array.nbytes)):
            proto.external_data.add(key=key, value=str(value))
        protos.append(proto)
        written.append((offset, array))
    return protos, written


def _write_arrays(file: Path, arrays: Sequence[tuple[int, Array]]) -> None:
    with file.open("wb") as stream:
        for offset, array in arrays:
            stream.seek(offset)
            stream.write(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).data)
