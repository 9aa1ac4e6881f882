"""Reads a model file, and the data that it keeps in other files; old versions become newer ones."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import numpy_helper, shape_inference, version_converter

from qmlir.errors import FileError
from qmlir.frontends.foreign import read_bytes
from qmlir.frontends.onnx.arguments import without_negative_sizes
from qmlir.frontends.onnx.ordering import ordered
from qmlir.frontends.onnx.types import element_dtype, element_name
from qmlir.ir.budget import Budget
from qmlir.ir.interfaces import Array
from qmlir.ir.types import bits_dtype
from qmlir.running.files import OutsideError, inside, note_file

# ---------------------------------------------------------------------------------------------------------------
# Converts models of operator sets before 7 to operator set 7, by ONNX's own converter and a correction.
#
# Before operator set 7, broadcasting was an attribute, operators named the inputs that they overwrite,
# BatchNormalization had another form, and the slopes of PRelu belonged to channels; in operator set 7 they broadcast
# from the last axis. ONNX's converter ignores the axis from which an operand broadcasts; this module adds the missing
# dimensions.


OLDEST_OPSET = 7
"""The oldest operator set that the converters in this package support."""


def converted(model: onnx.ModelProto, version: int, file: str) -> onnx.ModelProto:
    """Returns an old model converted to operator set 7; the given model is left as it is.

    Raises:
        FileError: ONNX cannot convert the model.
    """
    try:
        inferred = shape_inference.infer_shapes(model)
        _shape_operands(inferred.graph)
        return version_converter.convert_version(inferred, OLDEST_OPSET)
    except Exception as error:  # the converter is C++, and its exceptions have no common type
        raise FileError(
            file,
            f"must use operator set {OLDEST_OPSET} or newer, or be one that ONNX can convert to it",
            got=f"operator set {version}, and {' '.join(str(error).split())}",
            remedy="export the model again",
        ) from None


def _shape_operands(graph: onnx.GraphProto) -> None:
    """Appends dimensions of size 1 to operands that broadcast from an axis, as numpy's broadcasting requires.

    Such operands are the second operand of an operator with `broadcast` and `axis`, and the slopes of PRelu (axis 1).

    Raises:
        ValueError: The rank of such an operand, or of the operand that it broadcasts against, is unknown.
    """
    infos = (*graph.input, *graph.value_info, *graph.output)
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in infos if i.type.tensor_type.HasField("shape")}
    ranks |= {t.name: len(t.dims) for t in graph.initializer}
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        axis = _axis(node)
        if axis is not None:
            rank, own = (ranks.get(name) for name in node.input)
            if rank is None or own is None:
                name = node.name or node.output[0]
                raise ValueError(f"{node.op_type} {name!r} broadcasts from an axis of tensors of unknown rank")
            axes = list(range(own, rank - axis % max(rank, 1)))
            if axes:
                shaped = f"{node.output[0]}.shaped"
                graph.node.append(onnx.helper.make_node("Unsqueeze", [node.input[1]], [shaped], axes=axes))
                node.input[1] = shaped
        graph.node.append(node)


def _axis(node: onnx.NodeProto) -> int | None:
    """Returns the axis from which the second operand broadcasts, and removes its attribute; None for the last axis."""
    if len(node.input) != 2:
        return None
    if node.op_type == "PRelu":
        return 1
    axis = next((a for a in node.attribute if a.name == "axis"), None)
    if axis is None or not any(a.name == "broadcast" and a.i for a in node.attribute):
        return None
    node.attribute.remove(axis)
    return axis.i


# ---------------------------------------------------------------------------------------------------------------
# Reads an ONNX file and returns a decoded model, or raises a typed error that names the file.
#
# No error of protobuf reaches a user: every fault of the file (missing, a folder, cut off, another format, lacking
# fields that every model has) is a `FileError` here. Faults of single nodes are found when the nodes are imported.


_SAVE_AGAIN = "save or download the model again"


@dataclass(frozen=True)
class Model:
    """A decoded model.

    proto    the model, its nodes in order (ordering.py); the import does not change it
    file     the model's name in errors: its path, or `<model>` if it was not read from a path
    folder   the folder of its external data; None if it was not read from a path
    opsets   operator set version of each domain; the default domain is ""
    budget   the budget of constants computed at import
    """

    proto: onnx.ModelProto
    file: str
    folder: Path | None
    opsets: dict[str, int]
    budget: Budget

    def array(self, tensor: onnx.TensorProto) -> Array:
        """Returns the values of a tensor of the model.

        Raises:
            FileError: The tensor's data do not match its type and shape, or its external data are missing or not in the
                model's folder.
        """
        try:
            if min(tensor.dims, default=0) < 0:
                raise ValueError(f"a shape of {list(tensor.dims)}")
            if not is_external(tensor):
                return numpy_helper.to_array(tensor)
            if self.folder is None:
                raise FileError(
                    self.file, f'keeps "{tensor.name}" in a file beside it', remedy="load the model by its path"
                )
            return external_array(tensor, Path(self.file))
        except (OSError, ExternalError) as error:
            raise FileError(
                self.file,
                f'needs the external data of "{tensor.name}"',
                got=_one_line(error),
                remedy="copy the side file into the model's folder",
            ) from None
        except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
            raise FileError(
                self.file, f'must hold the values of "{tensor.name}" as it declares them', got=_one_line(error),
                remedy=_SAVE_AGAIN,
            ) from None  # fmt: skip

    def dense(self, sparse: onnx.SparseTensorProto) -> Array:
        """Returns a sparse tensor as a dense array.

        Raises:
            FileError: The tensor's values and indices do not fit its shape, or it exceeds the budget.
        """
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        shape = tuple(int(d) for d in sparse.dims)
        try:
            if not shape or min(shape) < 0:
                raise ValueError(f"a shape of {list(shape)}")
            if not self.budget.take(shape, values.itemsize):
                raise ValueError(self.budget.refusal(shape))
            result = np.zeros(shape, values.dtype)
            if indices.ndim == 2:
                indices = np.ravel_multi_index(tuple(indices.T), shape)
            if values.ndim != 1 or indices.shape != values.shape or np.any((indices < 0) | (indices >= result.size)):
                raise ValueError(f"indices of shape {list(indices.shape)} for {values.size} values")
            result.reshape(-1)[indices] = values
        except (ValueError, TypeError, IndexError, MemoryError) as error:
            raise FileError(
                self.file, f'must hold the values of "{sparse.values.name}" as it declares them', got=_one_line(error),
                remedy=_SAVE_AGAIN,
            ) from None  # fmt: skip
        return result

    def initializers(self, graph: onnx.GraphProto) -> Iterator[tuple[str, Array]]:
        """Yields the name and the values of each initializer of a graph, dense and sparse."""
        for tensor in graph.initializer:
            yield tensor.name, self.array(tensor)
        for sparse in graph.sparse_initializer:
            yield sparse.values.name, self.dense(sparse)


def notes_of(source: Path | onnx.ModelProto) -> dict[str, str]:
    """Returns the metadata of a model: texts by their names.

    Raises:
        FileError: The file cannot be read or is not an ONNX model.
    """
    model = source if isinstance(source, onnx.ModelProto) else read_model(source).proto
    return {each.key: each.value for each in model.metadata_props}


def read_model(source: Path | str | bytes | onnx.ModelProto, budget: Budget | None = None) -> Model:
    """Reads a model.

    Args:
        source: A path, the bytes of a file, or a model in memory, which is left as it is.
        budget: The budget of constants computed at import; by default a `Budget` of its default size.

    Raises:
        FileError: The source is not an ONNX model that qmlir can read.
    """
    file, folder = "<model>", None
    if isinstance(source, str | Path):
        path = Path(source)
        file, folder = str(source), path.parent
        source = read_bytes(path, "an ONNX file")
    proto = without_negative_sizes(source if isinstance(source, onnx.ModelProto) else _decode(source, file))
    opsets = _opsets(proto, file)
    if opsets.get("", OLDEST_OPSET) < OLDEST_OPSET:
        proto = converted(proto, opsets[""], file)
        opsets = _opsets(proto, file)
    return Model(ordered(proto), file, folder, opsets, budget or Budget())


def _decode(data: bytes, file: str) -> onnx.ModelProto:
    if not data:
        raise FileError(file, "must be an ONNX model", got="an empty file", remedy=_SAVE_AGAIN)
    try:
        proto = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise FileError(
            file, "must be an ONNX model", got="another format or a part of a file", remedy=_SAVE_AGAIN
        ) from None
    # Random bytes and cut-off files sometimes decode, but not to a message that has all of these fields.
    for field, present in (
        ("a graph", proto.HasField("graph")),
        ("an IR version", proto.ir_version > 0),
        ("outputs", len(proto.graph.output) > 0),
        ("operator set versions", len(proto.opset_import) > 0),
    ):
        if not present:
            raise FileError(
                file, "must be an ONNX model", got=f"one without {field}: another format or a part of a file",
                remedy=_SAVE_AGAIN,
            )  # fmt: skip
    if _has_broken_text(proto):
        raise FileError(file, "must hold names in UTF-8", got="other bytes", remedy=_SAVE_AGAIN)
    return proto


def _has_broken_text(message: Message) -> bool:
    """Whether some name is not UTF-8, which protobuf then returns as bytes; the data of tensors are not checked."""
    if isinstance(message, onnx.TensorProto):
        return isinstance(message.name, bytes)
    for field, value in message.ListFields():
        if field.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE):
            continue
        for item in [value] if isinstance(value, str | bytes | Message) else value:
            if isinstance(item, bytes) or (isinstance(item, Message) and _has_broken_text(item)):
                return True
    return False


def _opsets(proto: onnx.ModelProto, file: str) -> dict[str, int]:
    """Checks the operator set versions, and returns the version of each domain."""
    if not proto.graph.output:
        raise FileError(file, "must hold a graph with outputs", got="none", remedy=_SAVE_AGAIN)
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}
    default, newest = opsets.get(""), onnx.defs.onnx_opset_version()
    if default is None and any(n.domain in ("", "ai.onnx") for n in proto.graph.node):
        raise FileError(file, "must say which operator set it uses", got="none", remedy=_SAVE_AGAIN)
    if default is not None and not 1 <= default <= newest:
        raise FileError(
            file, f"must use an operator set from 1 to {newest}, the newest that the installed onnx knows",
            got=str(default), remedy="install a newer onnx" if default > newest else _SAVE_AGAIN,
        )  # fmt: skip
    return opsets


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# ---------------------------------------------------------------------------------------------------------------
# External data: tensors that a model keeps in files beside it, mapped and only from the model's own folder.
#
# A model is untrusted input, so the locations of its data must not point to arbitrary files of this machine.


PACKED = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""Bits per element of the types that are packed into bytes; such tensors are unpacked, all others are mapped."""


class ExternalError(Exception):
    """Raised when the external data of a tensor are missing, outside the folder or malformed."""


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's values are in another file."""
    return tensor.HasField("data_location") and tensor.data_location == onnx.TensorProto.EXTERNAL


def external_array(tensor: onnx.TensorProto, model: Path) -> Array:
    """Returns the values of a tensor with external data, as a read-only map of the file unless they are packed.

    Args:
        tensor: The tensor's description in the model.
        model: The model's file; the data must lie in its folder.

    Raises:
        ExternalError: The folder has no such file, or the file does not hold the tensor.
    """
    entries = {e.key: e.value for e in tensor.external_data}
    try:
        path = inside(model.parent, entries.get("location", ""))
    except OutsideError as error:
        raise ExternalError(str(error)) from None
    note_file(path)
    if path == model.resolve():
        raise ExternalError(f'the location "{entries["location"]}", which is the model itself')
    dtype, shape = element_dtype(tensor.data_type), tuple(int(d) for d in tensor.dims)
    if dtype is None or dtype.kind == "O":
        raise ExternalError(f"elements of type {element_name(tensor.data_type)}")
    offset = _number(entries, "offset", 0)
    bits = PACKED.get(dtype.name, 8 * dtype.itemsize)
    needed = -(-prod(shape) * bits // 8)
    size = path.stat().st_size
    if _number(entries, "length", needed) != needed:
        raise ExternalError(f"{entries['length']} bytes for {dtype.name} of shape {list(shape)}")
    if offset + needed > size:
        raise ExternalError(f"a file of {size} bytes, of which it needs those up to {offset + needed}")
    if dtype.name in PACKED:
        return _unpacked(tensor, path, offset, needed)
    if needed == 0:
        return np.empty(shape, dtype)
    return in_machine_order(np.memmap(path, dtype, "r", offset, shape).view(np.ndarray), sys.byteorder)


def in_machine_order(stored: Array, byteorder: str) -> Array:
    """Converts a tensor from ONNX's little-endian byte order to this machine's byte order.

    Args:
        stored: The bytes of the file, viewed as the element type.
        byteorder: The byte order of this machine, `little` or `big`; for `little` the array is returned as it is.
    """
    if byteorder == "little" or stored.itemsize == 1:
        return stored
    return stored.view(bits_dtype(stored.dtype)).byteswap().view(stored.dtype)


def _number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ExternalError(f'the {key} "{text[:40]}"')
    return int(text)


def _unpacked(tensor: onnx.TensorProto, path: Path, offset: int, needed: int) -> Array:
    with path.open("rb") as file:
        file.seek(offset)
        whole = onnx.TensorProto(dims=tensor.dims, data_type=tensor.data_type, raw_data=file.read(needed))
    return numpy_helper.to_array(whole)
