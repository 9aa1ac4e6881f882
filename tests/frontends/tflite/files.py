"""Small .tflite files of one operator or a few, written with the schema's own builders, and LiteRT to run them.

data = model([T("x", (1, 4)), T("y", (1, 4))], [Op("RELU", [0], [1])], [0], [1])
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import flatbuffers.flexbuffers as flexbuffers
import numpy as np
import tflite as bindings
from ai_edge_litert.interpreter import Interpreter, OpResolverType

schema: Any = bindings

Array = np.ndarray
CODES = {np.dtype(t).name: getattr(schema.TensorType, np.dtype(t).name.upper()) for t in (
    np.float32, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8)}  # fmt: skip
CODES["bool"] = schema.TensorType.BOOL

RESOURCE = schema.TensorType.RESOURCE
"""The element type of handles of variables."""


Level = int | tuple[Sequence[int], Sequence[int], str]
"""A level of a sparse tensor: the size of a dense one; segments, indices and the type of both of a compressed one."""


@dataclass
class Sparsity:
    """Where the values of a sparse tensor lie: order of traversal, dimensions of blocks, levels."""

    order: Sequence[int]
    block_map: Sequence[int]
    levels: Sequence[Level]


@dataclass
class T:
    """A tensor: constant where it has data; quantized where it has scales; sparse where it says where data lie."""

    name: str
    shape: Sequence[int]
    dtype: Any = np.float32
    data: Any = None
    scale: Sequence[float] = ()
    zero: Sequence[int] = ()
    axis: int = 0
    buffer: int | None = None
    signature: Sequence[int] = ()
    variable: bool = False
    sparsity: Sparsity | None = None


@dataclass
class Op:
    """An operator by its name in the schema, or CUSTOM and a name; options by name in the schema's case.

    Options of a custom operator are numbers, or bytes as they are in the file; `inner` are its intermediate tensors.
    """

    kind: str
    inputs: Sequence[int]
    outputs: Sequence[int]
    options_kind: str = ""
    options: Mapping[str, Any] | bytes = field(default_factory=dict)
    version: int = 1
    inner: Sequence[int] = ()


def constant(name: str, data: Any, dtype: Any = None, **parameters: Any) -> T:
    """A constant tensor."""
    array = np.asarray(data, dtype)
    return T(name, array.shape, array.dtype, array, **parameters)


Graph = tuple[Sequence[T], Sequence[Op], Sequence[int], Sequence[int]]
"""A subgraph: tensors, operators, inputs, outputs."""

Names = Mapping[str, int]


def model(
    tensors: Sequence[T], operators: Sequence[Op], inputs: Sequence[int], outputs: Sequence[int], *,
    others: Sequence[Graph] = (), signature: tuple[Names, Names] | None = None,
    signatures: Mapping[str, tuple[int, Names, Names]] | None = None, version: int = 3, identifier: bytes = b"TFL3",
    metadata: Mapping[str, bytes] | None = None,
) -> bytes:  # fmt: skip
    """A file.

    Args:
        tensors: Of the first subgraph, as what follows.
        operators: In order.
        inputs: Indices of tensors.
        outputs: Indices of tensors.
        others: More subgraphs.
        signature: Names of the inputs and the outputs of the first subgraph.
        signatures: The subgraph of each key, and names of its inputs and outputs.
        version: Of the schema.
        identifier: What says that it is a TFLite file.
        metadata: Further buffers by name.
    """
    b = flatbuffers.Builder(4096)
    graphs: list[Graph] = [(tensors, operators, inputs, outputs), *others]
    every = [t for graph in graphs for t in graph[0]]
    contents = [b"", *(np.ascontiguousarray(t.data).tobytes() for t in every if t.data is not None)]
    buffers = [_buffer(b, c) for c in (*contents, *(metadata or {}).values())]
    entries = [_metadata(b, name, len(contents) + i) for i, name in enumerate(metadata or {})]
    numbers = iter(range(1, len(contents)))
    kinds = list(dict.fromkeys((o.kind, o.version) for graph in graphs for o in graph[1]))
    subgraphs = [_subgraph(b, graph, numbers, kinds) for graph in graphs]
    codes = [_code(b, *kind) for kind in kinds]
    named = dict(signatures or {})
    if signature:
        named["serving_default"] = (0, *signature)
    written = [_signature(b, key, *parts) for key, parts in named.items()]
    parts = {
        "OperatorCodes": _offsets(b, codes), "Subgraphs": _offsets(b, subgraphs), "Buffers": _offsets(b, buffers),
        **({"SignatureDefs": _offsets(b, written)} if written else {}),
        **({"Metadata": _offsets(b, entries)} if entries else {}),
    }  # fmt: skip
    schema.ModelStart(b)
    schema.ModelAddVersion(b, version)
    for add, value in parts.items():
        getattr(schema, f"ModelAdd{add}")(b, value)
    b.Finish(schema.ModelEnd(b), file_identifier=identifier)
    return bytes(b.Output())


def _subgraph(b: Any, graph: Graph, numbers: Iterator[int], kinds: Sequence[tuple[str, int]]) -> int:
    tensors, operators, inputs, outputs = graph
    written = [_tensor(b, t, next(numbers) if t.data is not None else 0) for t in tensors]
    ops = [_operator(b, o, kinds.index((o.kind, o.version))) for o in operators]
    name = b.CreateString("main")
    lists = [_offsets(b, written), _ints(b, inputs), _ints(b, outputs), _offsets(b, ops)]
    schema.SubGraphStart(b)
    for add, value in zip(("Tensors", "Inputs", "Outputs", "Operators"), lists, strict=True):
        getattr(schema, f"SubGraphAdd{add}")(b, value)
    schema.SubGraphAddName(b, name)
    return schema.SubGraphEnd(b)


def _metadata(b: Any, name: str, buffer: int) -> int:
    text = b.CreateString(name)
    schema.MetadataStart(b)
    schema.MetadataAddName(b, text)
    schema.MetadataAddBuffer(b, buffer)
    return schema.MetadataEnd(b)


def _buffer(b: Any, content: bytes) -> int:
    data = b.CreateByteVector(content) if content else None
    schema.BufferStart(b)
    if data is not None:
        schema.BufferAddData(b, data)
    return schema.BufferEnd(b)


def _tensor(b: Any, t: T, buffer: int) -> int:
    name, shape, quantization = b.CreateString(t.name), _ints(b, t.shape), None
    signature = _ints(b, t.signature) if t.signature else None
    sparsity = None if t.sparsity is None else _sparsity(b, t.sparsity)
    if t.scale:
        scales = b.CreateNumpyVector(np.array(t.scale, np.float32))
        zeros = b.CreateNumpyVector(np.array(list(t.zero) or [0] * len(t.scale), np.int64))
        schema.QuantizationParametersStart(b)
        schema.QuantizationParametersAddScale(b, scales)
        schema.QuantizationParametersAddZeroPoint(b, zeros)
        schema.QuantizationParametersAddQuantizedDimension(b, t.axis)
        quantization = schema.QuantizationParametersEnd(b)
    schema.TensorStart(b)
    schema.TensorAddShape(b, shape)
    schema.TensorAddType(b, CODES[np.dtype(t.dtype).name] if not isinstance(t.dtype, int) else t.dtype)
    schema.TensorAddBuffer(b, buffer if t.buffer is None else t.buffer)
    schema.TensorAddName(b, name)
    schema.TensorAddHasRank(b, True)
    schema.TensorAddIsVariable(b, t.variable)
    if quantization is not None:
        schema.TensorAddQuantization(b, quantization)
    if signature is not None:
        schema.TensorAddShapeSignature(b, signature)
    if sparsity is not None:
        schema.TensorAddSparsity(b, sparsity)
    return schema.TensorEnd(b)


def _sparsity(b: Any, sparsity: Sparsity) -> int:
    levels = _offsets(b, [_level(b, level) for level in sparsity.levels])
    order, blocks = _ints(b, sparsity.order), _ints(b, sparsity.block_map)
    schema.SparsityParametersStart(b)
    schema.SparsityParametersAddTraversalOrder(b, order)
    schema.SparsityParametersAddBlockMap(b, blocks)
    schema.SparsityParametersAddDimMetadata(b, levels)
    return schema.SparsityParametersEnd(b)


def _level(b: Any, level: Level) -> int:
    if isinstance(level, int):
        schema.DimensionMetadataStart(b)
        schema.DimensionMetadataAddFormat(b, schema.DimensionType.DENSE)
        schema.DimensionMetadataAddDenseSize(b, level)
        return schema.DimensionMetadataEnd(b)
    *numbers, kind = level
    vectors: list[int] = []
    for values in numbers:
        written = b.CreateNumpyVector(np.array(values, kind))
        getattr(schema, f"{kind.title()}VectorStart")(b)
        getattr(schema, f"{kind.title()}VectorAddValues")(b, written)
        vectors.append(getattr(schema, f"{kind.title()}VectorEnd")(b))
    code = getattr(schema.SparseIndexVector, f"{kind.title()}Vector")
    schema.DimensionMetadataStart(b)
    schema.DimensionMetadataAddFormat(b, schema.DimensionType.SPARSE_CSR)
    schema.DimensionMetadataAddArraySegmentsType(b, code)
    schema.DimensionMetadataAddArraySegments(b, vectors[0])
    schema.DimensionMetadataAddArrayIndicesType(b, code)
    schema.DimensionMetadataAddArrayIndices(b, vectors[1])
    return schema.DimensionMetadataEnd(b)


def _operator(b: Any, o: Op, code: int) -> int:
    inputs, outputs, options, custom = _ints(b, o.inputs), _ints(b, o.outputs), None, None
    if o.kind.startswith("CUSTOM.") and o.options:
        data = o.options if isinstance(o.options, bytes) else bytes(flexbuffers.Dumps(dict(o.options)))
        custom = b.CreateByteVector(data)
    if o.options_kind and not isinstance(o.options, bytes):
        values = {k: _field(b, v) for k, v in o.options.items()}
        getattr(schema, f"{o.options_kind}Start")(b)
        for name, value in values.items():
            getattr(schema, f"{o.options_kind}Add{name}")(b, value)
        options = getattr(schema, f"{o.options_kind}End")(b)
    inner = _ints(b, o.inner) if o.inner else None
    schema.OperatorStart(b)
    schema.OperatorAddOpcodeIndex(b, code)
    schema.OperatorAddInputs(b, inputs)
    schema.OperatorAddOutputs(b, outputs)
    if options is not None:
        schema.OperatorAddBuiltinOptionsType(b, getattr(schema.BuiltinOptions, o.options_kind))
        schema.OperatorAddBuiltinOptions(b, options)
    if custom is not None:
        schema.OperatorAddCustomOptions(b, custom)
    if inner is not None:
        schema.OperatorAddIntermediates(b, inner)
    return schema.OperatorEnd(b)


def _field(b: Any, value: Any) -> Any:
    if isinstance(value, str):
        return b.CreateString(value)
    return _numbers(b, value) if isinstance(value, Sequence) else value


def _code(b: Any, kind: str, version: int) -> int:
    custom = b.CreateString(kind.removeprefix("CUSTOM.")) if kind.startswith("CUSTOM.") else None
    number = getattr(schema.BuiltinOperator, kind.partition(".")[0])
    schema.OperatorCodeStart(b)
    schema.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, 127))
    schema.OperatorCodeAddBuiltinCode(b, number)
    schema.OperatorCodeAddVersion(b, version)
    if custom is not None:
        schema.OperatorCodeAddCustomCode(b, custom)
    return schema.OperatorCodeEnd(b)


def _signature(b: Any, key: str, subgraph: int, inputs: Names, outputs: Names) -> int:
    lists = []
    for maps in (inputs, outputs):
        entries = []
        for name, index in maps.items():
            text = b.CreateString(name)
            schema.TensorMapStart(b)
            schema.TensorMapAddName(b, text)
            schema.TensorMapAddTensorIndex(b, index)
            entries.append(schema.TensorMapEnd(b))
        lists.append(_offsets(b, entries))
    name = b.CreateString(key)
    schema.SignatureDefStart(b)
    schema.SignatureDefAddSubgraphIndex(b, subgraph)
    schema.SignatureDefAddInputs(b, lists[0])
    schema.SignatureDefAddOutputs(b, lists[1])
    schema.SignatureDefAddSignatureKey(b, name)
    return schema.SignatureDefEnd(b)


def _ints(b: Any, values: Sequence[int]) -> int:
    return b.CreateNumpyVector(np.array(values, np.int32))


def _numbers(b: Any, values: Sequence[float]) -> int:
    floats = any(isinstance(v, float) for v in values)
    return b.CreateNumpyVector(np.array(values, np.float32 if floats else np.int32))


def _offsets(b: Any, values: Sequence[int]) -> int:
    b.StartVector(4, len(values), 4)
    for value in reversed(values):
        b.PrependUOffsetTRelative(value)
    return b.EndVector()


RESOLVERS = {
    "litert-reference": OpResolverType.BUILTIN_REF,
    "litert-xnnpack": OpResolverType.AUTO,
    "litert-builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
}
"""LiteRT's kernels, by the numerics that follow them."""


def interpreter(source: bytes | str, numerics: str) -> Interpreter:
    """LiteRT with a model, ready to run on the kernels of one of `RESOLVERS`."""
    content: Any = {"model_content": source} if isinstance(source, bytes) else {"model_path": source}
    made = Interpreter(**content, experimental_op_resolver_type=RESOLVERS[numerics])
    made.allocate_tensors()
    return made


def run(interpreter: Interpreter, inputs: Sequence[Array]) -> list[Array]:
    """What LiteRT computes."""
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def litert(source: bytes | str, inputs: Sequence[Array], *, reference: bool = True) -> list[Array]:
    """What LiteRT computes, with its reference kernels or as it does by default."""
    return run(interpreter(source, "litert-reference" if reference else "litert-xnnpack"), inputs)
