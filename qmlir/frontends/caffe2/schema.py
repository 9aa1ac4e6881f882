"""The messages of a Caffe2 net, as protobuf descriptors that are built from a table when the module is imported.

`NET` is the class of nets; all other messages are reached through its fields. The table has the fields that an import
reads, under the numbers by which files name them. Protobuf keeps or skips other fields, so newer files can be read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

_PACKAGE = "qmlir.caffe2"

_Field = descriptor_pb2.FieldDescriptorProto

_TYPES = {
    "bytes": _Field.TYPE_BYTES,
    "double": _Field.TYPE_DOUBLE,
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
}

REPEATED = "*"
"""The mark behind a type that stands for a list."""

MESSAGES: Mapping[str, Sequence[tuple[int, str, str]]] = {
    "TensorProto": [(1, "dims", "int64*"), (2, "data_type", "DataType"), (7, "name", "string")],
    "QTensorProto": [
        (1, "dims", "int64*"),
        (3, "scale", "double"),
        (4, "bias", "double"),
        (7, "name", "string"),
        (8, "data_type", "DataType"),
        (9, "scales", "double*"),
        (10, "biases", "double*"),
        (11, "axis", "int32"),
    ],
    "Argument": [
        (1, "name", "string"),
        (2, "f", "float"),
        (3, "i", "int64"),
        (4, "s", "bytes"),
        (5, "floats", "float*"),
        (6, "ints", "int64*"),
        (7, "strings", "bytes*"),
        (8, "n", "NetDef"),
        (9, "nets", "NetDef*"),
        (10, "t", "TensorProto"),
        (11, "tensors", "TensorProto*"),
        (12, "qtensors", "QTensorProto*"),
    ],
    "OperatorDef": [
        (1, "input", "string*"),
        (2, "output", "string*"),
        (3, "name", "string"),
        (4, "type", "string"),
        (5, "arg", "Argument*"),
    ],
    "NetDef": [
        (1, "name", "string"),
        (2, "op", "OperatorDef*"),
        (6, "arg", "Argument*"),
        (7, "external_input", "string*"),
        (8, "external_output", "string*"),
    ],
}
"""Message → its fields: number, name, and type with a mark."""

ELEMENTS: Mapping[str, tuple[int, str]] = {
    "UNDEFINED": (0, ""),
    "FLOAT": (1, "float32"),
    "INT32": (2, "int32"),
    "BYTE": (3, "uint8"),
    "STRING": (4, ""),
    "BOOL": (5, "bool"),
    "UINT8": (6, "uint8"),
    "INT8": (7, "int8"),
    "UINT16": (8, "uint16"),
    "INT16": (9, "int16"),
    "INT64": (10, "int64"),
    "FLOAT16": (12, "float16"),
    "DOUBLE": (13, "float64"),
    "ZERO_COLLISION_HASH": (14, ""),
}
"""Name of an element type → its number in files, and numpy's name; empty if it is not numbers."""

DTYPES: Mapping[int, str] = {number: dtype for number, dtype in ELEMENTS.values() if dtype}
"""Number of an element type → numpy's name."""


def element_name(number: int) -> str:
    """Returns Caffe2's name of an element type."""
    return next((name for name, (own, _) in ELEMENTS.items() if own == number), f"type {number}")


def _file() -> descriptor_pb2.FileDescriptorProto:
    """Describes the messages of the table in protobuf's own terms."""
    file = descriptor_pb2.FileDescriptorProto(name="qmlir/caffe2.proto", package=_PACKAGE, syntax="proto2")
    types = file.enum_type.add(name="DataType")
    for name, (number, _) in ELEMENTS.items():
        types.value.add(name=name, number=number)
    for message, fields in MESSAGES.items():
        entry = file.message_type.add(name=message)
        for number, name, marked in fields:
            kind = marked.rstrip(REPEATED)
            label = _Field.LABEL_REPEATED if kind != marked else _Field.LABEL_OPTIONAL
            field = entry.field.add(name=name, number=number, label=label)
            if kind in _TYPES:
                field.type = _TYPES[kind]
                continue
            field.type = _Field.TYPE_MESSAGE if kind in MESSAGES else _Field.TYPE_ENUM
            field.type_name = f".{_PACKAGE}.{kind}"
            if kind == "DataType":
                field.default_value = "INT32" if message == "QTensorProto" else "FLOAT"
    return file


def _net_class() -> type[Message]:
    """Makes the class of nets in a pool of its own, where no other package's messages can have the same names."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    descriptor: Any = pool.FindMessageTypeByName(f"{_PACKAGE}.NetDef")
    return message_factory.GetMessageClass(descriptor)


NET: Any = _net_class()
"""The class of nets."""
