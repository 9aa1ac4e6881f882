"""Reads an ONNX file and returns a decoded model, or raises a typed error that names the file.

No error of protobuf reaches a user: every fault of the file (missing, a folder, cut off, another format, lacking fields
that every model has) is a `FileError` here. Faults of single nodes are found when the nodes are imported.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import numpy_helper

from qmlir.errors import FileError
from qmlir.frontends.onnx.external import ExternalError, external_array, is_external
from qmlir.frontends.onnx.old_versions import OLDEST_OPSET, converted
from qmlir.ir.budget import Budget
from qmlir.ir.interfaces import Array

_SAVE_AGAIN = "save or download the model again"


@dataclass(frozen=True)
class Model:
    """A decoded model.

    proto    the model; the import does not change it
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
        source = _read_bytes(path)
    proto = source if isinstance(source, onnx.ModelProto) else _decode(source, file)
    opsets = _opsets(proto, file)
    if opsets.get("", OLDEST_OPSET) < OLDEST_OPSET:
        proto = converted(proto, opsets[""], file)
        opsets = _opsets(proto, file)
    return Model(proto, file, folder, opsets, budget or Budget())


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileError(path, "there is no such file", remedy="check the path") from None
    except IsADirectoryError:
        raise FileError(path, "must be an ONNX file", got="a folder", remedy="name the .onnx file in it") from None
    except OSError as error:
        raise FileError(path, "must be readable", got=error.strerror or "an error", remedy="check the path") from None


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
