"""`#qmlir.weights`: constant data as an attribute around a read-only array.

xDSL's dense attributes unpack every element to print, compare or fold; a network of 25 M weights is unusable in
them. Here the array is the attribute: cloning shares it, equality tries identity first, the hash looks at shape,
type and a few bytes, and the text form depends on size and on who prints:

    #qmlir.weights<tensor<3xf32>, [1.0, -0.5, 0x7fc00000]>                 at most 64 elements: always inline
    #qmlir.weights<tensor<8x5x5x1xf32>, "net.safetensors#conv1.weight">    `-o net.mlir`: a side file, mapped on load
    #qmlir.weights<tensor<8x5x5x1xf32>, "0x0000803f…">                      `--inline-weights`: little-endian bytes
    #qmlir.weights<tensor<8x5x5x1xf32>, elided>                             anything else; cannot be parsed back
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from io import StringIO
from math import prod
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qmlir.dialects.dtypes import bits_dtype, dtype_of, element_type_of, is_numpys_own
from qmlir.errors import FileError

Array = npt.NDArray[Any]

INLINE_LIMIT = 64
"""Arrays with at most this many elements print their values whoever prints them."""

_HASHED_BYTES = 64


class Weights:
    """A read-only C-contiguous array in the machine's byte order, with cheap equality and hash.

    An array that nobody can write to, such as a mapped file's, is held as it is; any other is copied, so that its owner
    may go on writing to it.
    """

    __slots__ = ("_hash", "array")

    array: Array

    def __init__(self, array: Array):
        native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
        make = np.array if _is_writeable(array) else np.asarray
        self.array = make(array, native, order="C")
        self.array.flags.writeable = False
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Weights):
            return False
        a, b = self.array, other.array
        if a.dtype != b.dtype or a.shape != b.shape or hash(self) != hash(other):
            return False
        return a is b or np.array_equal(_bytes_of(a), _bytes_of(b))

    def __hash__(self) -> int:
        if self._hash is None:
            start = self.array.reshape(-1)[: _HASHED_BYTES // max(1, self.array.itemsize)]
            self._hash = hash((self.array.shape, self.array.dtype.str, start.tobytes()))
        return self._hash


def _is_writeable(array: Array) -> bool:
    """Whether an array's memory can be written to, through the array or through one that it is a view of."""
    view: object = array
    while isinstance(view, np.ndarray):
        if view.flags.writeable:
            return True
        view = cast(object, view.base)
    return False


def _bytes_of(array: Array) -> Array:
    """An array's bytes, 1-d: NaNs equal themselves there, and −0.0 is not 0.0."""
    return array.reshape(-1).view(np.uint8)


class WeightsMode(Enum):
    """How a printer writes arrays above `INLINE_LIMIT`."""

    ELIDED = "elided"
    INLINE = "inline"
    SIDE_FILE = "side file"


@runtime_checkable
class HasWeightsFolder(Protocol):
    """A parsing context that knows in which folder the side files of its module lie."""

    weights_folder: Path | None


@irdl_attr_definition
class WeightsAttr(Data[Weights]):
    """Constant data; see the module docstring for its text forms."""

    name = "qmlir.weights"

    def __init__(self, data: Weights | Array):
        super().__init__(data if isinstance(data, Weights) else Weights(data))

    @property
    def array(self) -> Array:
        """The values, read-only."""
        return self.data.array

    @property
    def type(self) -> TensorType[Attribute]:
        """The tensor type of the values as stored."""
        return TensorType(element_type_of(self.array.dtype), self.array.shape)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Weights:
        with parser.in_angle_brackets():
            start = parser.pos
            tensor = parser.parse_type()
            if not isinstance(tensor, TensorType):
                parser.raise_error("expected the tensor type of the weights", start)
            tensor = cast(TensorType[Attribute], tensor)
            try:
                dtype = dtype_of(tensor.element_type)
            except KeyError:
                parser.raise_error(f"weights cannot hold elements of type {tensor.element_type}", start)
            shape = tensor.get_shape()
            if DYNAMIC_INDEX in shape:
                parser.raise_error(f"weights need a shape without unknown dimensions, got {tensor}", start)
            parser.parse_punctuation(",")
            at = parser.pos
            if parser.parse_optional_keyword("elided"):
                parser.raise_error("these weights were elided when the module was printed; write it with -o", at)
            if (text := parser.parse_optional_str_literal()) is None:
                values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_value(parser, dtype))
                array = np.array(values, dtype)
            elif text.startswith("0x"):
                array = _from_hexadecimal(parser, text[2:], dtype, at)
            else:
                array = _from_side_file(parser, text, dtype, shape)
            if array.size != prod(shape):
                parser.raise_error(f"expected {prod(shape)} values for {tensor}, got {array.size}", at)
            if dtype.kind == "b" and (_bytes_of(array) > 1).any():
                parser.raise_error("weights of type i1 must be bytes 0 and 1", at)
            return Weights(array.reshape(shape))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.type)
            printer.print_string(", ")
            array = self.array
            mode = printer.mode if isinstance(printer, WeightsPrinter) else WeightsMode.ELIDED
            if array.size <= INLINE_LIMIT:
                printer.print_string("[" + ", ".join(_value_text(v) for v in array.reshape(-1)) + "]")
            elif isinstance(printer, WeightsPrinter) and mode is WeightsMode.SIDE_FILE:
                printer.print_string_literal(printer.side_file_reference(self.data))
            elif mode is WeightsMode.INLINE:
                printer.print_string(f'"0x{array.tobytes().hex()}"')
            else:
                printer.print_string("elided")


def _value_text(value: Any) -> str:
    if value.dtype.kind == "b":
        return "true" if value else "false"
    if not is_numpys_own(value.dtype):
        return hex(int.from_bytes(value.tobytes(), "little"))
    if value.dtype.kind != "f":
        return str(value)
    if not np.isfinite(value):
        return "0x" + value.tobytes()[::-1].hex()
    text = repr(value.item()) if value.dtype == np.float64 else str(value)
    mantissa, _, exponent = text.partition("e")  # MLIR wants a point in every float
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def _parse_value(parser: AttrParser, dtype: np.dtype[Any]) -> Any:
    """One value of a list, as a numpy scalar.

    In a list of floats a hexadecimal integer is a bit pattern (0x7fc00000): NaN and infinities have no decimal form,
    and values of types that numpy lacks are always written so.
    """
    at = parser.pos
    if dtype.kind == "b":
        return parser.parse_boolean()
    value = parser.parse_number(allow_boolean=False)
    patterns = dtype.kind == "f" or not is_numpys_own(dtype)
    bits = bits_dtype(dtype) if patterns else dtype
    if isinstance(value, int):
        if patterns and parser.lexer.input.slice(at, at + 2) != "0x":
            parser.raise_error(f"{value} is not a value of {dtype.name}: a float has a point, as {value}.0", at)
        if np.iinfo(bits).min <= value <= np.iinfo(bits).max:
            return np.array([value], bits).view(dtype)[0]
    elif dtype.kind == "f" and is_numpys_own(dtype):
        with np.errstate(over="ignore"):
            nearest = dtype.type(value)
        if np.isfinite(nearest):
            return nearest
    parser.raise_error(f"{value} is not a value of {dtype.name}", at)


def _from_hexadecimal(parser: AttrParser, digits: str, dtype: np.dtype[Any], at: int) -> Array:
    try:
        return np.frombuffer(bytes.fromhex(digits), dtype)
    except ValueError:
        parser.raise_error(f"expected two hexadecimal digits for each byte, {dtype.itemsize} bytes for a value", at)


# ---------------------------------------------------------------------------------------------------------------
# Side files


_SAFETENSORS = {
    "BOOL": "?",
    **{f"F{8 * n}": f"<f{n}" for n in (2, 4, 8)},
    **{f"I{8 * n}": f"<i{n}" for n in (1, 2, 4, 8)},
    **{f"U{8 * n}": f"<u{n}" for n in (1, 2, 4, 8)},
}
"""The format's names of the types that numpy has too."""


def map_side_file(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file, mapped, not read: the file's pages are loaded as they are touched.

    The safetensors package copies each tensor on access; the format (a length, a JSON header, raw bytes) is small
    enough to map here. Tensors of types that numpy lacks are left out.

    Raises:
        FileError: The file is not there, cannot be read, is no safetensors file, or ends before its tensors do.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if 8 + length >= size:
                raise ValueError
            header = cast(object, json.loads(file.read(length)))
        if not isinstance(header, dict):
            raise ValueError
        entries = cast(dict[str, dict[str, Any]], header)
        data: Array = np.memmap(path, np.uint8, "r", offset=8 + length)
        return {k: _slice_of(data, e) for k, e in entries.items() if k != "__metadata__" and e["dtype"] in _SAFETENSORS}
    except FileNotFoundError:
        raise FileError(
            path, "needs to be there: the module's weights lie in it", remedy="copy it beside the .mlir file"
        ) from None
    except OSError as error:
        raise FileError(path, "must be a readable file", got=(error.strerror or str(error)).lower()) from None
    except (ValueError, KeyError, TypeError):
        raise FileError(
            path, "must be a safetensors file", got="something else or a part of one", remedy="write the module again"
        ) from None


def _slice_of(data: Array, entry: dict[str, Any]) -> Array:
    """The tensor that a header's entry describes; ValueError or TypeError if the entry makes no sense."""
    dtype, shape = np.dtype(_SAFETENSORS[entry["dtype"]]), tuple(int(d) for d in entry["shape"])
    begin, end = entry["data_offsets"]
    if not 0 <= begin <= end <= data.size or end - begin != prod(shape) * dtype.itemsize:
        raise ValueError
    return data[begin:end].view(dtype).reshape(shape)


_mapped: dict[tuple[str, int, int], dict[str, Array]] = {}


def _from_side_file(parser: AttrParser, reference: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    file, _, key = reference.partition("#")
    folder = parser.ctx.weights_folder if isinstance(parser.ctx, HasWeightsFolder) else None
    path = (folder or Path()) / file
    stat = path.stat() if path.exists() else None
    identity = (str(path.absolute()), stat.st_mtime_ns if stat else 0, stat.st_size if stat else 0)
    if identity not in _mapped:
        _mapped.clear()  # one file is open at a time; parsing a module touches one
        _mapped[identity] = map_side_file(path)
    array = _mapped[identity].get(key)
    if array is not None and not is_numpys_own(dtype) and array.dtype == bits_dtype(dtype):
        array = array.view(dtype)  # the file has its bits
    if array is None or array.dtype != dtype or array.shape != shape:
        raise FileError(
            path,
            f'must hold the tensor "{key}" as {dtype.name} of shape {list(shape)}',
            got="none of that name" if array is None else f"{array.dtype.name} of shape {list(array.shape)}",
            remedy="write the module and its side file again",
        )
    return array


# ---------------------------------------------------------------------------------------------------------------
# Printing


@dataclass(eq=False, repr=False)
class WeightsPrinter(Printer):
    """A printer that writes large weights as `mode` says and remembers which it sent to the side file."""

    mode: WeightsMode = field(default=WeightsMode.ELIDED, kw_only=True)
    side_file: str = field(default="", kw_only=True)
    """File name of the side file, without a folder: it lies beside the module."""
    key_of: Callable[[Operation | None], str] | None = field(default=None, kw_only=True)
    side_arrays: dict[str, Array] = field(default_factory=dict[str, Array], kw_only=True)
    """What the module just printed expects to find in the side file."""
    _keys: dict[int, str] = field(default_factory=dict[int, str], kw_only=True)
    _current: Operation | None = field(default=None, kw_only=True)

    def print_op(self, op: Operation) -> None:
        outer, self._current = self._current, op
        super().print_op(op)
        self._current = outer

    def print_string_literal(self, string: str) -> None:
        """Letters beyond ASCII stay as they are: xDSL would escape them, and read the escapes back as bytes."""
        escaped = (f"\\{ord(c):02X}" if c < " " or c in '"\x7f' else "\\\\" if c == "\\" else c for c in string)
        self.print_string('"' + "".join(escaped) + '"')

    def side_file_reference(self, weights: Weights) -> str:
        """The reference `file#key` of an array, which is stored once however often it is printed."""
        identity = id(weights.array)
        if identity not in self._keys:
            wanted = (self.key_of(self._current) if self.key_of else "") or "weights"
            key, n = wanted, 1
            while key in self.side_arrays:
                key, n = f"{wanted}.{n}", n + 1
            self._keys[identity] = key
            self.side_arrays[key] = weights.array
        return f"{self.side_file}#{self._keys[identity]}"


def module_text(module: Operation, mode: WeightsMode, *, generic: bool = False) -> str:
    """A module as text, weights elided or inline."""
    out = StringIO()
    WeightsPrinter(out, mode=mode, print_generic_format=generic).print_op(module)
    return out.getvalue() + "\n"
