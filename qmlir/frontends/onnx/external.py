"""Tensors that a model keeps in files beside it: mapped, not read, and only from the model's own folder.

A model is a file that others wrote: where its data lie may not be anywhere on this machine.
"""

import sys
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from qmlir.dialects.dtypes import bits_dtype
from qmlir.dialects.interfaces import Array
from qmlir.frontends.onnx.types import element_dtype, element_name

PACKED = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""Bits of the elements of which a file has several in a byte; they are unpacked, the others mapped."""


class ExternalError(Exception):
    """What is wrong with a tensor's external data."""


def is_external(tensor: onnx.TensorProto) -> bool:
    """Whether a tensor's values are in another file."""
    return tensor.HasField("data_location") and tensor.data_location == onnx.TensorProto.EXTERNAL


def external_array(tensor: onnx.TensorProto, model: Path) -> Array:
    """The values of a tensor with external data, as a read-only map of the file.

    Args:
        tensor: What describes it.
        model: The model's file, in whose folder the data must lie.

    Raises:
        ExternalError: There is no such file in the folder, or it does not hold the tensor.
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
    """The values of a tensor as ONNX stores it, least significant byte first.

    Args:
        stored: The bytes of the file under the type of the elements, as if this machine stored them so too.
        byteorder: The order of this machine, `little` or `big`; under `little` the array is returned as it is.
    """
    if byteorder == "little" or stored.itemsize == 1:
        return stored
    return stored.view(bits_dtype(stored.dtype)).byteswap().view(stored.dtype)


def _inside(folder: Path, location: str) -> Path:
    """The path of a file in the model's folder; what links and `..` make of it has to be there as well."""
    if not location or "\0" in location:
        raise ExternalError("no location")
    path = folder / location
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise ExternalError(f'the location "{location}", which is outside the model\'s folder')
    try:
        resolved = path.resolve()
        if not resolved.is_relative_to(folder.resolve()):
            raise ExternalError(f'the location "{location}", a link to outside the model\'s folder')
        if not resolved.is_file():  # a pipe would wait for a writer, a device never end
            raise ExternalError(f'no file "{location}"')
    except (OSError, RuntimeError) as error:  # too long a name, links in a circle
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
