"""External data: tensors that a model keeps in files beside it, mapped and only from the model's own folder.

A model is untrusted input, so the locations of its data must not point to arbitrary files of this machine.
"""

import sys
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from qmlir.frontends.onnx.types import element_dtype, element_name
from qmlir.ir.dtypes import bits_dtype
from qmlir.ir.interfaces import Array

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
    path = _inside(model.parent, entries.get("location", ""))
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


def _inside(folder: Path, location: str) -> Path:
    """Returns the path of a file in the model's folder; links must not lead outside, and `..` is not allowed."""
    if not location or "\0" in location:
        raise ExternalError("no location")
    path = folder / location
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise ExternalError(f'the location "{location}", which is outside the model\'s folder')
    try:
        resolved = path.resolve()
        if not resolved.is_relative_to(folder.resolve()):
            raise ExternalError(f'the location "{location}", a link to outside the model\'s folder')
        if not resolved.is_file():  # reading a pipe would wait for a writer, reading a device might never end
            raise ExternalError(f'no file "{location}"')
    except (OSError, RuntimeError) as error:  # the name is too long, or links form a circle
        raise ExternalError(f'the location "{location[:80]}": {error}') from None
    return resolved


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
