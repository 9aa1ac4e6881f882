"""Reads a Caffe2 net and returns a decoded net, or raises a typed error that names the file.

No error of protobuf reaches a user: every fault of the file (missing, cut off, another format, lacking what every net
has) is a `FileError` here. Faults of single operators are found when the operators are imported.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, i8, i32
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, UnsupportedError
from qmlir.frontends.caffe2.schema import DTYPES, NET, element_name
from qmlir.frontends.foreign import read_bytes
from qmlir.frontends.function import sized
from qmlir.ir.types import element_type_of
from qmlir.running.files import note_file

TEXT = (".pbtxt", ".prototxt")
"""Endings of the names of files that hold a net as text; all other files hold it in protobuf's binary form."""

VALUES = "values"
"""The argument with the elements of a tensor, which stays an array."""

_SAVE_AGAIN = "save the net again"

UINT8 = IntegerType(8, Signedness.UNSIGNED)

_STORAGES: Mapping[str, IntegerType] = {"uint8": UINT8, "int8": i8, "int32": i32}
"""Storage types of quantized inputs, by numpy's names."""


@dataclass(frozen=True)
class Operator:
    """An operator of a net.

    kind       Caffe2's name of the operator
    name       its name; empty if the exporter gave none
    inputs     the names of the tensors that it reads
    outputs    the names of the tensors that it defines
    arguments  its arguments by name: a number, bytes, a tuple of these, an array (`VALUES`), or a protobuf message
    """

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Net:
    """A decoded net.

    file       its name in errors
    operators  its operators, in program order
    inputs     the tensors that it declares as coming from outside: data and weights
    outputs    the tensors that it declares as results
    types      the types that the file states for inputs
    """

    file: str
    operators: tuple[Operator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType[Attribute]]


def read_net(source: Path | str | bytes, *, text: bool = False) -> Net:
    """Reads a net.

    Args:
        source: The path of a file, whose ending says whether it is text (`TEXT`), or the bytes of a file.
        text: Whether bytes are a net as text.

    Raises:
        FileError: The file cannot be read, or is no net.
    """
    file, data = "<net>", source
    if not isinstance(data, bytes):
        path = Path(data)
        note_file(path)
        file, text, data = str(source), path.suffix in TEXT, read_bytes(path, "a Caffe2 net")
    proto = _parsed_text(data, file) if text else _parsed(data, file)
    operators = tuple(_operator(op, file) for op in proto.op)
    inputs, outputs = _names(proto.external_input, file), _names(proto.external_output, file)
    types = dict(_input_types(proto, file))
    if not operators and not inputs and not outputs and data.strip():
        raise _no_net(file, "a message without operators and outputs: another format or a part of a file")
    return Net(file, operators, inputs, outputs, types)


def _no_net(file: str, got: str) -> FileError:
    return FileError(file, "must be a Caffe2 net", got=got, remedy=_SAVE_AGAIN)


def _parsed(data: bytes, file: str) -> Any:
    try:
        return NET.FromString(data)
    except DecodeError:
        raise _no_net(file, "another format or a part of a file") from None


def _parsed_text(data: bytes, file: str) -> Any:
    try:
        return text_format.Parse(data.decode("utf-8"), NET(), allow_unknown_field=True)
    except RecursionError:
        raise _no_net(file, "nets that are nested too deeply") from None
    except UnicodeDecodeError:
        raise _no_net(file, "text that is not UTF-8") from None
    except (text_format.ParseError, ValueError, ArithmeticError, LookupError, TypeError) as error:
        raise _no_net(file, f"text that cannot be read: {' '.join(str(error).split())}") from None


# ---------------------------------------------------------------------------------------------------------------
# Decoded fields


def _text(value: str | bytes, file: str) -> str:
    """Returns a name; protobuf returns a name that is not UTF-8 as bytes."""
    if isinstance(value, bytes):
        raise FileError(file, "must hold names in UTF-8", got="other bytes", remedy=_SAVE_AGAIN)
    return value


def _names(values: Iterable[str | bytes], file: str) -> tuple[str, ...]:
    return tuple(_text(v, file) for v in values)


def _operator(proto: Any, file: str) -> Operator:
    arguments = {_text(arg.name, file): _value(arg) for arg in proto.arg}
    kind, name = _text(proto.type, file), _text(proto.name, file)
    inputs, outputs = _names(proto.input, file), _names(proto.output, file)
    if not kind:
        raise _no_net(file, f"an operator without a type, which defines {list(outputs)[:4]}")
    return Operator(kind, name, inputs, outputs, arguments)


def _value(arg: Any) -> Any:
    """Returns the value of an argument; an empty tuple if it has none, since empty lists leave no trace in a file."""
    for field in ("f", "i", "s", "n", "t"):
        if arg.HasField(field):
            return getattr(arg, field)
    for field, dtype in (("floats", np.float32), ("ints", np.int64)):
        if numbers := getattr(arg, field):
            if arg.name == VALUES:
                return np.fromiter(numbers, dtype, len(numbers))
            return tuple(numbers)
    return tuple(arg.strings) or tuple(arg.nets) or tuple(arg.tensors) or tuple(arg.qtensors)


# ---------------------------------------------------------------------------------------------------------------
# The types of inputs that a net states, as exporters for accelerators write them.


def _input_types(proto: Any, file: str) -> Iterable[tuple[str, TensorType[Attribute]]]:
    """Yields the name and the type of each input that the net describes."""
    for arg in proto.arg:
        if arg.name == "input_shape_info":
            yield from ((_text(t.name, file), _plain_type(t, file)) for t in arg.tensors)
        elif arg.name == "input_qshape_info":
            yield from ((_text(t.name, file), _quantized_type(t, file)) for t in arg.qtensors)


def _dims(proto: Any, file: str) -> tuple[int, ...]:
    dims = tuple(proto.dims)
    if min(dims, default=0) < 0:
        raise FileError(file, f'dimensions of "{proto.name}" must be at least 0', got=str(min(dims)))
    try:
        return sized(dims)
    except UnsupportedError as refusal:
        raise FileError(file, f'input "{proto.name}" must fit into a memory', got=refusal.need) from None


def _dtype(proto: Any, file: str) -> str:
    if proto.data_type not in DTYPES:
        raise FileError(file, f'"{proto.name}" must be numbers', got=element_name(proto.data_type))
    return DTYPES[proto.data_type]


def _plain_type(proto: Any, file: str) -> TensorType[Attribute]:
    return TensorType(element_type_of(_dtype(proto, file)), _dims(proto, file))


def _quantized_type(proto: Any, file: str) -> TensorType[Attribute]:
    """Returns the type of a quantized input; the scales of several channels lie along the axis that the file names."""
    dims, dtype = _dims(proto, file), _dtype(proto, file)
    scales, points = list(proto.scales) or [proto.scale], list(proto.biases) or [proto.bias]
    storage = _STORAGES.get(dtype)
    if storage is None:
        raise FileError(file, f'"{proto.name}" must be quantized as uint8, int8 or int32', got=dtype)
    if len(scales) != len(points) or any(p != int(p) for p in points if np.isfinite(p)):
        raise FileError(file, f'"{proto.name}" must have a whole zero point for each scale', got=str(points[:4]))
    try:
        if len(scales) == 1:
            return TensorType(UniformType.per_tensor(storage, scales[0], int(points[0])), dims)
        if proto.axis >= len(dims) or dims[proto.axis] != len(scales):
            raise VerifyException(f"{len(scales)} scales along axis {proto.axis}")
        return TensorType(UniformType.per_axis(storage, proto.axis, scales, [int(p) for p in points]), dims)
    except (VerifyException, ValueError, ArithmeticError) as error:
        got = " ".join(str(error).split())
        raise FileError(file, f'"{proto.name}" must have usable scales and zero points', got=got) from None
