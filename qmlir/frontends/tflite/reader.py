"""Reads a model file: flatbuffers within their bounds, tensors, operators."""

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs]

from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError
from qmlir.frontends.foreign import read_bytes
from qmlir.frontends.tflite.flexbuffers import read_map
from qmlir.frontends.tflite.parameters import Parameters, malformed, plain, wide_scales
from qmlir.frontends.tflite.sparse import SparsityError, dense, read_sparsity
from qmlir.ir.budget import BUDGET, Budget
from qmlir.ir.interfaces import Array, Shape

# ---------------------------------------------------------------------------------------------------------------
# Checks that bytes are a flatbuffer of TFLite's schema: every offset, size and string that is read lies in the file.
#
# The flatbuffers library has a verifier in C++ only, and its Python bindings read wherever an offset points. Therefore
# the reader uses the bindings only after `verify` has walked all parts of the file that the reader follows. `MODEL`
# lists these parts of TFLite's schema as data: field number → type of the field.


MOST_DEPTH = 16
"""The deepest nesting of tables that is accepted; the schema nests six tables at most."""


class Malformed(Exception):
    """Raised when the bytes are not a flatbuffer of the schema; the message says what was found."""


@dataclass(frozen=True)
class Scalar:
    """A field that holds a number of `size` bytes."""

    size: int


@dataclass(frozen=True)
class Vector:
    """A field that holds a vector: of tables if `of` is given, else of numbers of `size` bytes."""

    size: int = 4
    of: "Table | None" = None


@dataclass(frozen=True)
class String:
    """A field that holds UTF-8 text."""


@dataclass(frozen=True)
class Table:
    """A field that holds a table, or the root table: field number → type. Other fields are not checked."""

    fields: Mapping[int, "Field"] = field(default_factory=dict[int, "Field"])


Field = Scalar | Vector | String | Table

_ANY = Table()
_INTS, _LONGS, _BYTES = Vector(4), Vector(8), Vector(1)
_QUANTIZATION = Table({0: _INTS, 1: _INTS, 2: _INTS, 3: _LONGS, 4: Scalar(1), 5: _ANY, 6: Scalar(4)})
_DIMENSION = Table({
    0: Scalar(1), 1: Scalar(4), 2: Scalar(1), 3: Table({0: _BYTES}), 4: Scalar(1), 5: Table({0: _BYTES}),
})  # fmt: skip
_SPARSITY = Table({0: _INTS, 1: _INTS, 2: Vector(of=_DIMENSION)})
_TENSOR = Table({
    0: _INTS, 1: Scalar(1), 2: Scalar(4), 3: String(), 4: _QUANTIZATION, 5: Scalar(1), 6: _SPARSITY, 7: _INTS,
    8: Scalar(1),
})  # fmt: skip
_OPERATOR = Table(
    {
        0: Scalar(4), 1: _INTS, 2: _INTS, 3: Scalar(1), 4: _ANY, 5: _BYTES, 6: Scalar(1), 7: _BYTES, 8: _INTS,
        9: Scalar(8), 10: Scalar(8), 11: Scalar(1), 12: _ANY,
    }
)  # fmt: skip
_SUBGRAPH = Table({0: Vector(of=_TENSOR), 1: _INTS, 2: _INTS, 3: Vector(of=_OPERATOR), 4: String()})
_CODE = Table({0: Scalar(1), 1: String(), 2: Scalar(4), 3: Scalar(4)})
_MAP = Table({0: String(), 1: Scalar(4)})
_SIGNATURE = Table({0: Vector(of=_MAP), 1: Vector(of=_MAP), 2: String(), 4: Scalar(4)})
_BUFFER = Table({0: _BYTES, 1: Scalar(8), 2: Scalar(8)})
_METADATA = Table({0: String(), 1: Scalar(4)})

MODEL = Table(
    {
        0: Scalar(4), 1: Vector(of=_CODE), 2: Vector(of=_SUBGRAPH), 3: String(), 4: Vector(of=_BUFFER),
        6: Vector(of=_METADATA), 7: Vector(of=_SIGNATURE),
    }
)  # fmt: skip
"""The table Model of TFLite, with its fields numbered as in schema.fbs."""


def verify(data: bytes, schema: Table = MODEL) -> None:
    """Checks that a file is a flatbuffer of a schema.

    Raises:
        Malformed: A field of the schema lies outside the file, or holds text that is not UTF-8.
    """
    _Verifier(data).table(_Verifier(data).offset(0), schema, 0)


class _Verifier:
    """Walks a flatbuffer and checks every place before it reads there.

    visits   the number of tables that may still be visited. It begins with the most tables that fit into the file, so
             that a small file whose tables are shared cannot take long
    """

    def __init__(self, data: bytes):
        self.data, self.visits = data, len(data) // 4

    def number(self, at: int, code: str) -> int:
        """Returns the little-endian number at a place; `code` is its format in `struct`."""
        self.inside(at, struct.calcsize(code))
        return struct.unpack_from(code, self.data, at)[0]

    def inside(self, at: int, size: int) -> None:
        if at < 0 or at + size > len(self.data):
            raise Malformed(f"{size} bytes at {at} of {len(self.data)}")

    def offset(self, at: int) -> int:
        """Returns the place that the unsigned offset at a place points to."""
        return at + self.number(at, "<I")

    def table(self, at: int, schema: Table, depth: int) -> None:
        """Checks a table and the fields of it that its schema lists."""
        self.visits -= 1
        if self.visits < 0 or depth > MOST_DEPTH:
            raise Malformed("tables that hold more than the file has room for")
        vtable = at - self.number(at, "<i")
        length, size = self.number(vtable, "<H"), self.number(vtable + 2, "<H")
        self.inside(vtable, length)
        self.inside(at, size)
        if length < 4 or length % 2 or size < 4:
            raise Malformed(f"a table with a description of {length} bytes")
        for number, kind in schema.fields.items():
            where = self.number(vtable + 4 + 2 * number, "<H") if 4 + 2 * number < length else 0
            if where:
                self.field(at + where, kind, depth)

    def field(self, at: int, kind: Field, depth: int) -> None:
        match kind:
            case Scalar():
                self.inside(at, kind.size)
            case String():
                self.text(self.offset(at))
            case Vector():
                self.vector(self.offset(at), kind, depth)
            case Table():
                self.table(self.offset(at), kind, depth + 1)

    def vector(self, at: int, kind: Vector, depth: int) -> None:
        count = self.number(at, "<I")
        self.inside(at + 4, count * kind.size)
        if kind.of is not None:
            for i in range(count):
                self.table(self.offset(at + 4 + 4 * i), kind.of, depth + 1)

    def text(self, at: int) -> None:
        count = self.number(at, "<I")
        self.inside(at + 4, count)
        try:
            self.data[at + 4 : at + 4 + count].decode()
        except UnicodeDecodeError:
            raise Malformed(f"text at {at} that is no UTF-8") from None


# ---------------------------------------------------------------------------------------------------------------
# Reads a .tflite file into plain data, whose sizes, indices and quantization parameters are checked.
#
# Model ── subgraphs ── tensors     shape, element type, constant data if any, quantized type if any
#                    └─ operators   builtin name, options by name, indices of inputs and outputs


IDENTIFIER = b"TFL3"
CUSTOM = "CUSTOM."
"""What the kind of a custom operator begins with."""

ABSENT = -1
"""The tensor index that stands for an absent optional input."""

Options = dict[str, Any]

schema: Any = tflite
"""The schema's Python bindings, which have no type annotations."""

DTYPES: dict[int, np.dtype[Any]] = {
    schema.TensorType.FLOAT32: np.dtype(np.float32),
    schema.TensorType.FLOAT16: np.dtype(np.float16),
    schema.TensorType.FLOAT64: np.dtype(np.float64),
    schema.TensorType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    schema.TensorType.BOOL: np.dtype(np.bool_),
    schema.TensorType.INT8: np.dtype(np.int8),
    schema.TensorType.INT16: np.dtype(np.int16),
    schema.TensorType.INT32: np.dtype(np.int32),
    schema.TensorType.INT64: np.dtype(np.int64),
    schema.TensorType.UINT8: np.dtype(np.uint8),
    schema.TensorType.UINT16: np.dtype(np.uint16),
    schema.TensorType.UINT32: np.dtype(np.uint32),
    schema.TensorType.UINT64: np.dtype(np.uint64),
}
"""TensorType → numpy type, for the element types that the reader supports."""

NIBBLES = schema.TensorType.INT4
"""TensorType of signed 4-bit numbers: two in a byte, the first in the low half. Constants are read as int8."""

_MOST_RANK = 8


@dataclass(frozen=True)
class Tensor:
    """A tensor of a subgraph.

    name      unique in its subgraph, not empty
    shape     static
    dtype     the element type; None for a type that the reader does not support
    kind      the schema's name of the element type
    constant  the elements of a constant; None for a computed tensor
    type      the quantized type; None for plain numbers
    axis      the quantized axis that the file states, also of a tensor with one scale; else 0
    scales    the scales of quantized 64-bit integers, for which there is no quantized type; else empty
    dynamic   whether the file leaves dimensions open, so that `shape` is only an example
    batch     whether the file leaves the first dimension open, and has 1 as an example
    variable  whether the tensor is state that persists between calls
    """

    name: str
    shape: Shape
    dtype: np.dtype[Any] | None
    kind: str
    constant: Array | None
    type: UniformType | None
    axis: int
    scales: tuple[float, ...]
    dynamic: bool
    batch: bool
    variable: bool


@dataclass(frozen=True)
class Operator:
    """An operator: `kind` is the schema's name, or CUSTOM.<its code>; inputs are tensor indices or `ABSENT`.

    `intermediates` are the tensors inside a recurrent operator; the file states only their types. `data` holds the
    options of a custom operator as they stand in the file.
    """

    kind: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Options | None
    options_kind: str
    intermediates: tuple[int, ...] = ()
    data: bytes = b""


@dataclass(frozen=True)
class Subgraph:
    """A function of the file; `inputs` and `outputs` are indices into `tensors`."""

    tensors: list[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Operator]


@dataclass(frozen=True)
class Signature:
    """The name of a subgraph's signature, and the names of the subgraph's inputs and outputs by tensor index."""

    key: str
    subgraph: int
    inputs: dict[int, str]
    outputs: dict[int, str]


@dataclass(frozen=True)
class Model:
    """A file; its first subgraph is the main function, and its notes are texts of its metadata by their names."""

    file: str
    subgraphs: list[Subgraph]
    signatures: list[Signature]
    notes: Mapping[str, str]


def read_model(source: Path | str | bytes) -> Model:
    """Reads and checks a model.

    Raises:
        FileError: The file cannot be read, is not a TFLite file, or contradicts itself.
    """
    file = "the model" if isinstance(source, bytes) else str(source)
    data = source if isinstance(source, bytes) else read_bytes(Path(source), "a TFLite file")
    if data[4:8] != IDENTIFIER:
        raise FileError(file, f"must be a TFLite file: bytes 4 to 8 are {IDENTIFIER.decode()}", got=repr(data[4:8]))
    try:
        verify(data)
        return _Reader(file, data).model()
    except Malformed as error:
        raise FileError(file, "must be a whole flatbuffer", got=str(error), remedy="copy or export it again") from None


class _Reader:
    """Reads one file; its methods convert tables of the bindings to plain data and check them."""

    def __init__(self, file: str, data: bytes):
        self.file, self.data, self.root = file, data, schema.Model.GetRootAs(data)
        self.parameters, self.budget = Parameters(file), Budget()

    def error(self, need: str, got: object) -> FileError:
        return malformed(self.file, need, got)

    def model(self) -> Model:
        if self.root.Version() != 3:
            raise self.error("must be of schema version 3", self.root.Version())
        if not self.root.SubgraphsLength():
            raise self.error("must have a subgraph", "none")
        subgraphs = [self.subgraph(self.root.Subgraphs(i)) for i in range(self.root.SubgraphsLength())]
        signatures = [self.signature(self.root.SignatureDefs(i), subgraphs)
                      for i in range(self.root.SignatureDefsLength())]  # fmt: skip
        self.parameters.warn()
        return Model(self.file, subgraphs, signatures, self.notes())

    def notes(self) -> dict[str, str]:
        """Returns the metadata that qmlir writes: texts under names that begin with `qmlir.`."""
        found: dict[str, str] = {}
        for i in range(self.root.MetadataLength()):
            entry = self.root.Metadata(i)
            name, buffer = (entry.Name() or b"").decode(errors="replace"), entry.Buffer()
            if name.startswith("qmlir.") and buffer < self.root.BuffersLength():
                found[name] = bytes(plain(self.root.Buffers(buffer).DataAsNumpy())).decode(errors="replace")
        return found

    def signature(self, signature: Any, subgraphs: Sequence[Subgraph]) -> Signature:
        at: int = signature.SubgraphIndex()
        if at >= len(subgraphs):
            raise self.error("a signature must name a subgraph", at)
        inputs = [signature.Inputs(j) for j in range(signature.InputsLength())]
        outputs = [signature.Outputs(j) for j in range(signature.OutputsLength())]
        tensors = len(subgraphs[at].tensors)
        for entry in (*inputs, *outputs):
            if entry.TensorIndex() >= tensors:
                raise self.error(f"a signature must name one of {tensors} tensors", entry.TensorIndex())
        return Signature(_text(signature.SignatureKey()), at, _entries(inputs), _entries(outputs))

    def subgraph(self, graph: Any) -> Subgraph:
        names = _unique(_text(graph.Tensors(i).Name()) for i in range(graph.TensorsLength()))
        tensors = [self.tensor(graph.Tensors(i), name) for i, name in enumerate(names)]
        count = len(tensors)
        inputs = self.indices(graph.InputsAsNumpy(), count, "an input of a subgraph")
        outputs = self.indices(graph.OutputsAsNumpy(), count, "an output of a subgraph")
        operators = [self.operator(graph.Operators(i), count) for i in range(graph.OperatorsLength())]
        if len(set(inputs)) != len(inputs):
            raise self.error("the inputs of a subgraph must differ", list(inputs))
        return Subgraph(tensors, inputs, outputs, operators)

    def indices(self, values: Any, count: int, what: str, least: int = 0) -> tuple[int, ...]:
        """Returns tensor indices after a check that they lie in [least, count)."""
        found = tuple(int(v) for v in plain(values))
        for index in found:
            if not least <= index < count:
                raise self.error(f"{what} must be one of {count} tensors", index)
        return found

    # Tensors

    def tensor(self, tensor: Any, name: str) -> Tensor:
        shape = tuple(int(d) for d in plain(tensor.ShapeAsNumpy()))
        if min(shape, default=0) < 0 or len(shape) > _MOST_RANK or math.prod(float(d) for d in shape) >= 2**31:
            raise self.error(f'the shape of tensor "{name}" must be static, of at most {_MOST_RANK} dimensions', shape)
        signature = plain(tensor.ShapeSignatureAsNumpy())
        kind, dtype = _name(schema.TensorType, tensor.Type()), DTYPES.get(tensor.Type())
        if tensor.Type() == NIBBLES and tensor.Buffer():
            dtype = np.dtype(np.int8)
        constant = self.constant(tensor, name, shape, dtype, kind)
        if tensor.Type() == NIBBLES and constant is None:
            dtype = None
        # An empty shape without the field HasRank means a shape that the converter did not know.
        unknown = (not shape and not tensor.HasRank()) or any(int(d) < 0 for d in signature)
        batch = [int(d) for d in signature][:1] == [-1] and shape[:1] == (1,)
        type = self.parameters.type_of(tensor.Quantization(), name, shape, dtype)
        scales = wide_scales(tensor.Quantization()) if dtype == np.int64 else ()
        axis = tensor.Quantization().QuantizedDimension() if type is not None else 0
        return Tensor(name, shape, dtype, kind, constant, type, axis, scales, unknown, batch, bool(tensor.IsVariable()))

    def constant(self, tensor: Any, name: str, shape: Shape, dtype: np.dtype[Any] | None, kind: str) -> Array | None:
        if tensor.Buffer() >= self.root.BuffersLength():
            raise self.error(f'the buffer of tensor "{name}" must be one of {self.root.BuffersLength()}',
                             tensor.Buffer())  # fmt: skip
        buffer = self.root.Buffers(tensor.Buffer())
        data = buffer.DataAsNumpy()
        if buffer.Offset() > 1:  # the data lie behind the flatbuffer, which cannot exceed 2 GB
            offset, size = buffer.Offset(), buffer.Size()
            if offset + size > len(self.data):
                raise self.error(f'the buffer of tensor "{name}" must lie in the file', f"{size} bytes at {offset}")
            data = np.frombuffer(self.data, np.uint8, size, offset)
        data = plain(data)
        if tensor.Buffer() == 0 or (not data.size and math.prod(shape)):
            return None
        nibbles = tensor.Type() == NIBBLES
        if dtype is None or (nibbles and tensor.Sparsity() is not None):
            return np.zeros(0, np.uint8)  # not supported: an operator that uses the constant is refused
        if tensor.Sparsity() is not None:
            return self.sparse(tensor.Sparsity(), data, name, shape, dtype)
        size = -(-math.prod(shape) // 2) if nibbles else math.prod(shape) * dtype.itemsize
        if data.size != size:
            raise self.error(
                f'the buffer of tensor "{name}" of {kind} {list(shape)} must have '
                f"{size} bytes", data.size,
            )  # fmt: skip
        if nibbles:
            return _unpacked(data)[: math.prod(shape)].reshape(shape)
        if dtype.kind == "b":
            return (data != 0).reshape(shape)
        return data.view(dtype).reshape(shape) if data.ctypes.data % dtype.itemsize == 0 else (
            np.frombuffer(data.tobytes(), dtype).reshape(shape)
        )  # fmt: skip

    def sparse(self, parameters: Any, data: Array, name: str, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """Returns a constant of which the file holds the values that are not 0, and where they lie."""
        if not self.budget.take(shape, dtype.itemsize):
            raise self.error(f'the sparse tensor "{name}" must fit {BUDGET} bytes with others', list(shape))
        values = np.frombuffer(data.tobytes()[: data.size // dtype.itemsize * dtype.itemsize], dtype)
        try:
            return dense(read_sparsity(parameters), values, shape)
        except SparsityError as error:
            raise self.error(f'the sparsity of tensor "{name}" must be one of the schema', str(error)) from None

    # Operators

    def operator(self, operator: Any, tensors: int) -> Operator:
        if operator.OpcodeIndex() >= self.root.OperatorCodesLength():
            raise self.error(
                f"the code of an operator must be one of {self.root.OperatorCodesLength()}", operator.OpcodeIndex()
            )
        code = self.root.OperatorCodes(operator.OpcodeIndex())
        # Old files hold the code in the deprecated byte only; new files hold it there too if it fits.
        number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        kind = _name(schema.BuiltinOperator, number)
        is_custom = number == schema.BuiltinOperator.CUSTOM
        if is_custom:
            kind = f"{CUSTOM}{_text(code.CustomCode())}"
        options_kind = _name(schema.BuiltinOptions, operator.BuiltinOptionsType())
        inputs = self.indices(operator.InputsAsNumpy(), tensors, f"an input of {kind}", least=ABSENT)
        outputs = self.indices(operator.OutputsAsNumpy(), tensors, f"an output of {kind}")
        data = plain(operator.CustomOptionsAsNumpy()).tobytes() if is_custom else b""
        options = _custom_options(data) if is_custom else self.options(operator, options_kind)
        what = f"an intermediate tensor of {kind}"
        inner = self.indices(operator.IntermediatesAsNumpy(), tensors, what, least=ABSENT)
        return Operator(kind, code.Version(), inputs, outputs, options, options_kind, inner, data)

    def options(self, operator: Any, kind: str) -> Options | None:
        """Returns the options by name in snake case; None if there are none or the schema does not know them."""
        table, cls = operator.BuiltinOptions(), getattr(schema, kind, None)
        if table is None or kind == "NONE" or cls is None:
            return None
        options = cls()
        options.Init(table.Bytes, table.Pos)
        try:
            return {name: _option(options, accessor) for name, accessor in accessors(kind).items()}
        except (ValueError, IndexError, TypeError) as error:  # the bindings' own checks of vectors and scalars
            raise Malformed(
                f"options of {_name(schema.BuiltinOptions, operator.BuiltinOptionsType())}: {error}"
            ) from None
        except Exception as error:
            if type(error).__name__ == "error":  # struct.error
                raise Malformed(f"options of {kind}: {error}") from None
            raise


def _custom_options(data: bytes) -> Options | None:
    """Returns the options of a custom operator; None if they are not names with numbers."""
    try:
        return dict(read_map(data)) if data else None
    except ValueError:
        return None


@cache
def accessors(kind: str) -> dict[str, str]:
    """Maps the field names of options table `kind`, in snake case, to the accessors of the bindings."""
    members = cast(list[str], [*getattr(schema, kind).__dict__])
    names = [n for n in members if _is_field(n)]
    return {
        re.sub(r"(?<!^)(?=[A-Z])", "_", n).lower(): (f"{n}AsNumpy" if f"{n}AsNumpy" in names else n)
        for n in names
        if not n.endswith("AsNumpy")
    }


def _is_field(member: str) -> bool:
    """Whether a member of a table's class in the bindings reads a field."""
    others = r"_.*|[a-z].*|Init|GetRoot.*|.*(IsNone|Length|HasIdentifier)"
    return not re.fullmatch(others, member)


def _option(options: Any, accessor: str) -> Any:
    value = getattr(options, accessor)()
    if accessor.endswith("AsNumpy"):
        return tuple(plain(value).tolist())
    return value


def _entries(maps: list[Any]) -> dict[int, str]:
    return {e.TensorIndex(): _text(e.Name()) for e in maps if e.Name()}


def _unpacked(data: Array) -> Array:
    """Unpacks two signed 4-bit numbers from each byte, as int8."""
    pairs = np.stack([data << 4, data & 0xF0], axis=-1).view(np.int8) >> 4
    return pairs.reshape(-1)


def type_name(code: int) -> str:
    """Returns the schema's name of an element type, in lower case for messages."""
    return _name(schema.TensorType, code).lower()


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()


@cache
def _names(enum: type) -> dict[int, str]:
    return {v: k for k, v in vars(enum).items() if isinstance(v, int)}


def _name(enum: type, value: int) -> str:
    """Returns the schema's name of a value of an enumeration."""
    return _names(enum).get(value, f"{enum.__name__} {value}")


def _unique(names: Iterator[str]) -> list[str]:
    """Makes tensor names unique: an empty or repeated name gets the tensor's index as a suffix."""
    found: dict[str, None] = {}
    for index, name in enumerate(names):
        base = name or "tensor"
        unique = base if name and base not in found else f"{base};{index}"
        while unique in found:
            unique += ";"
        found[unique] = None
    return list(found)
