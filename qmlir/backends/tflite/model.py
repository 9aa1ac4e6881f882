"""Writes a finished graph as a file: drops unneeded operators, names all tensors, and builds the flatbuffer."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs]

from qmlir.backends.forms import Names
from qmlir.backends.tflite.graph import Graph, Operator, Parameters, Tensor
from qmlir.errors import FileError, UnsupportedError
from qmlir.formats.tflite import options_of
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.ir.traversal import contributing
from qmlir.running.files import write_whole

schema: Any = tflite
"""The schema's Python bindings, which have no type annotations."""

VERSION = 3
IDENTIFIER = b"TFL3"
SIGNATURE = "serving_default"
PRODUCER = "qmlir"
ALIGNMENT = 16
"""The alignment of constants in bytes, as the schema requires."""

LARGEST = 2**31 - 2**24
"""The most bytes of constants in a file; a flatbuffer has at most 2^31 bytes."""

UNIONS = ("BuiltinOptions", "BuiltinOptions2")
"""The schema's unions of tables of options; an operator has its table in one of them."""

OLD_CODES = 127
"""The value of the deprecated one-byte operator code for operators whose code does not fit."""


def finished(graph: Graph, outputs: Sequence[Tensor], signature: Signature) -> list[Tensor]:
    """Returns a tensor for each output, none of which is an input, a constant or another output.

    The graph keeps only the operators that the outputs depend on.

    Args:
        graph: The graph; its inputs are those of the signature, in order.
        outputs: One tensor for each output of the signature.
        signature: The names of the inputs and outputs.
    """
    ends = _ends(graph, outputs, signature)
    graph.operators[:] = contributing(graph.operators, ends, lambda o: o.inputs, lambda o: o.outputs)
    return ends


def write_model(
    graph: Graph, ends: Sequence[Tensor], signature: Signature, path: Path, notes: Mapping[str, str]
) -> list[Path]:
    """Writes a graph as a TFLite file.

    Args:
        graph: The graph, finished.
        ends: One tensor for each output of the signature.
        signature: The names of the inputs and outputs.
        path: The file.
        notes: Texts that the file keeps as metadata, by their names.

    Returns:
        The file written.

    Raises:
        FileError: The file cannot be written, or would be too large for a flatbuffer.
        UnsupportedError: A tensor is of a type that TFLite lacks.
    """
    operators = graph.operators
    read = [t for o in operators for t in (*o.inputs, *o.outputs)]
    tensors = list(dict.fromkeys([*graph.inputs, *read, *ends]))
    if sum(t.data.nbytes for t in tensors if t.data is not None) > LARGEST:
        raise FileError(path, "must hold less than 2 GB of constants", remedy="quantize the network")
    names = _names(graph.inputs, ends, tensors, signature)
    write_whole(path, _Writer(tensors, names, notes).model(operators, graph.inputs, ends, signature))
    return [path]


def _ends(graph: Graph, outputs: Sequence[Tensor], signature: Signature) -> list[Tensor]:
    """Returns a tensor for each output; copies a tensor that is also an input, a constant or another output."""
    ends: list[Tensor] = []
    for tensor, spec in zip(outputs, signature.outputs, strict=True):
        graph.scope = spec.name
        ends.append(graph.seen_as(tensor, tensor.form) if not tensor.made or tensor in ends else tensor)
    return ends


def _names(
    inputs: Sequence[Tensor], ends: Sequence[Tensor], tensors: Sequence[Tensor], signature: Signature
) -> dict[Tensor, str]:
    """Returns a unique name for each tensor; if an output has the name of an input, the output gets a suffix."""
    names, unique = dict[Tensor, str](), Names()
    specs: list[tuple[Tensor, TensorSpec]] = [
        *zip(inputs, signature.inputs, strict=True), *zip(ends, signature.outputs, strict=True)
    ]  # fmt: skip
    wishes = [*((t, spec.name) for t, spec in specs), *((t, t.wanted) for t in tensors)]
    for tensor, wanted in wishes:
        if tensor not in names:
            names[tensor] = unique.unique(wanted)
    return names


class _Writer:
    """Writes one flatbuffer; each object in it must be written before the objects that refer to it."""

    def __init__(self, tensors: Sequence[Tensor], names: Mapping[Tensor, str], notes: Mapping[str, str]):
        size = sum(t.data.nbytes for t in tensors if t.data is not None)
        self.builder: Any = flatbuffers.Builder(size + 4096)
        self.tensors, self.names, self.notes = tensors, names, notes
        self.numbers = {tensor: i for i, tensor in enumerate(tensors)}

    def model(
        self, operators: Sequence[Operator], inputs: Sequence[Tensor], ends: Sequence[Tensor], signature: Signature
    ) -> bytes:
        """Returns the bytes of the file."""
        codes = list(dict.fromkeys((o.kind, o.version) for o in operators))
        buffers, places = [self.table("Buffer", {})], list[int]()  # the first buffer is empty, as the schema asks
        for tensor in self.tensors:
            places.append(0 if tensor.data is None else len(buffers))
            if tensor.data is not None:
                buffers.append(self.table("Buffer", {"Data": self.content(tensor)}))
        metadata: list[int] = []
        for name, text in self.notes.items():
            given = self.builder.CreateByteVector(text.encode())
            buffers.append(self.table("Buffer", {"Data": given}))
            metadata.append(
                self.table("Metadata", {"Name": self.builder.CreateString(name), "Buffer": len(buffers) - 1})
            )
        tensors = [self.tensor(t, place) for t, place in zip(self.tensors, places, strict=True)]
        ops = [self.operator(o, codes.index((o.kind, o.version))) for o in operators]
        subgraph = self.table("SubGraph", {
            "Tensors": self.offsets(tensors), "Inputs": self.indices(inputs), "Outputs": self.indices(ends),
            "Operators": self.offsets(ops), "Name": self.builder.CreateString("main"),
        })  # fmt: skip
        root = self.table("Model", {
            "Version": VERSION, "OperatorCodes": self.offsets([self.code(*c) for c in codes]),
            "Subgraphs": self.offsets([subgraph]), "Description": self.builder.CreateString(PRODUCER),
            **({"Metadata": self.offsets(metadata)} if metadata else {}),
            "Buffers": self.offsets(buffers), "SignatureDefs": self.offsets([self.signature(inputs, ends, signature)]),
        })  # fmt: skip
        self.builder.Finish(root, file_identifier=IDENTIFIER)
        return bytes(self.builder.Output())

    def content(self, tensor: Tensor) -> int:
        """Writes the aligned bytes of a constant and returns their offset."""
        assert tensor.data is not None
        data = tensor.data.tobytes()
        self.builder.Prep(ALIGNMENT, len(data))
        return self.builder.CreateByteVector(data)

    def tensor(self, tensor: Tensor, buffer: int) -> int:
        parameters, free = tensor.form.parameters, tensor.free
        open_sizes = [-1 if i in free else size for i, size in enumerate(tensor.shape)]
        return self.table("Tensor", {
            "Shape": self.ints(tensor.shape), "Type": type_code(tensor), "Buffer": buffer,
            "Name": self.builder.CreateString(self.names[tensor]), "HasRank": True,
            **({"ShapeSignature": self.ints(open_sizes)} if free else {}),
            **({} if parameters is None else {"Quantization": self.quantization(parameters)}),
        })  # fmt: skip

    def quantization(self, parameters: Parameters) -> int:
        return self.table("QuantizationParameters", {
            "Scale": self.builder.CreateNumpyVector(np.array(parameters.scales, np.float32)),
            "ZeroPoint": self.builder.CreateNumpyVector(np.array(parameters.zero_points, np.int64)),
            "QuantizedDimension": parameters.axis or 0,
        })  # fmt: skip

    def operator(self, operator: Operator, code: int) -> int:
        """Writes an operator and returns its offset; list options become vectors of int32."""
        kind, given = options_of(operator.kind), dict[str, Any]()
        if kind:
            values = {k: self.ints(v) if isinstance(v, list) else v for k, v in operator.options.items()}  # pyright: ignore[reportUnknownArgumentType]
            union = next(u for u in UNIONS if hasattr(getattr(schema, u), kind))
            given = {f"{union}Type": getattr(getattr(schema, union), kind), union: self.table(kind, values)}
        return self.table("Operator", {
            "OpcodeIndex": code, "Inputs": self.indices(operator.inputs), "Outputs": self.indices(operator.outputs),
            **given,
        })  # fmt: skip

    def code(self, kind: str, version: int) -> int:
        number = getattr(schema.BuiltinOperator, kind)
        values = {"DeprecatedBuiltinCode": min(number, OLD_CODES), "BuiltinCode": number, "Version": version}
        return self.table("OperatorCode", values)

    def signature(self, inputs: Sequence[Tensor], ends: Sequence[Tensor], signature: Signature) -> int:
        def entries(tensors: Sequence[Tensor], specs: Sequence[TensorSpec]) -> int:
            return self.offsets([
                self.table("TensorMap", {"Name": self.builder.CreateString(s.name), "TensorIndex": self.numbers[t]})
                for t, s in zip(tensors, specs, strict=True)
            ])  # fmt: skip

        return self.table("SignatureDef", {
            "Inputs": entries(inputs, signature.inputs), "Outputs": entries(ends, signature.outputs),
            "SignatureKey": self.builder.CreateString(SIGNATURE), "SubgraphIndex": 0,
        })  # fmt: skip

    # Wrappers of the bindings' functions

    def table(self, kind: str, values: Mapping[str, Any]) -> int:
        """Writes a table of the schema with these fields and returns its offset."""
        function: Callable[[str], Any] = lambda name: getattr(schema, f"{kind}{name}")  # noqa: E731
        function("Start")(self.builder)
        for name, value in values.items():
            function(f"Add{name}")(self.builder, value)
        return function("End")(self.builder)

    def ints(self, values: Sequence[int]) -> int:
        return self.builder.CreateNumpyVector(np.array(values, np.int32))

    def indices(self, tensors: Sequence[Tensor]) -> int:
        return self.ints([self.numbers[t] for t in tensors])

    def offsets(self, values: Sequence[int]) -> int:
        self.builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            self.builder.PrependUOffsetTRelative(value)
        return self.builder.EndVector()


def type_code(tensor: Tensor) -> int:
    """Returns the schema's TensorType of a tensor.

    Raises:
        UnsupportedError: The schema lacks the element type.
    """
    code = getattr(schema.TensorType, tensor.dtype.name.upper(), None)
    if code is None:
        raise UnsupportedError(
            "must have elements that TFLite has", tensor.dtype.name, "cast them to a type that it has"
        )
    return code
