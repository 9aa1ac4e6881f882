"""`#qmlir.weights`: constant data as an attribute around a read-only numpy array.

xDSL's dense attributes unpack every element to print, compare or fold, which is unusable for a network of 25 M weights.
This attribute wraps the array itself: clones share it, equality compares identity first, and the hash uses the shape,
the dtype and the first bytes. The text form depends on the size and on the printer's mode:

    #qmlir.weights<tensor<3xf32>, [1.0, -0.5, 0x7fc00000]>                 at most 64 elements: always inline
    #qmlir.weights<tensor<8x5x5x1xf32>, "net.safetensors#conv1.weight">    `-o net.mlir`: a side file, mapped on load
    #qmlir.weights<tensor<8x5x5x1xf32>, "0x0000803f…">                      `--weights=inline`: little-endian bytes
    #qmlir.weights<tensor<8x5x5x1xf32>, dense_resource<conv1>>              `--weights=resource`: after the module
    #qmlir.weights<tensor<8x5x5x1xf32>, elided>                             all other cases; cannot be parsed again

A type with more scales than that is printed once, before the module, as an alias: `!scales0 = !quant.uniform<…>`. The
scales of layers would be most of a language model's text, each at the constant and at the layer that reads it.

In the generic form, which mlir-opt reads, `--weights=resource` prints upstream's `dense_resource<conv1> : tensor<…>` in
place of the attribute, because mlir-opt drops a resource if it knows no use of it. The parser restores the attribute.
"""

import hashlib
import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import Enum
from io import StringIO
from math import prod
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.ir import Attribute, Data, Operation, SSAValue
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from qmlir.ir.resources import Resource, resources_text
from qmlir.ir.side_file import AffineArray, side_array
from qmlir.ir.types import bits_dtype, dtype_of, element_type_of, is_numpys_own
from qmlir.ir.upstream.dense import LISTED, Array, Dense, print_dense, wants_care
from qmlir.numerics import native
from qmlir.numerics.affine import Affine

SIDE_SUFFIX = ".safetensors"
"""The suffix of side files."""

INLINE_LIMIT = LISTED
"""Arrays with at most this many elements are printed inline in every mode."""

_HASHED_BYTES = 64

_ESCAPED = re.compile(r'["\\]|[^ -~]')
"""Characters of a string literal that may need escaping."""


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character == "\\":
        return "\\\\"
    if character != '"' and character.isprintable():
        return character
    return "".join(f"\\{byte:02X}" for byte in character.encode())


_RESOURCE_KEY = re.compile(r"^(?![A-Za-z_])|[^\w$.]", re.ASCII)
"""Characters that a resource key must not contain, and starts that it must not have; `_` replaces them."""


class Weights:
    """A read-only C-contiguous array in the machine's byte order, with cheap equality and hash.

    A read-only array, such as that of a memory-mapped file, is not copied. A writeable array is copied, so that its
    owner may modify it afterwards. An array that can be made again, such as the floats of a file's blocks of few bits,
    may be released: it is made anew when somebody asks for it.

    shape  the sizes of its dimensions
    dtype  its element type
    """

    __slots__ = ("__weakref__", "_array", "_hash", "_made_again", "dtype", "shape")

    def __init__(self, array: Array, made_again: Callable[[], Array] | None = None):
        """Takes an array; `made_again` returns the same array whenever it is called, or is None."""
        make = np.array if _is_writeable(array) else np.asarray
        self._array: Array | None = make(array, native(array.dtype), order="C")
        self._array.flags.writeable = False
        self._made_again = made_again
        self.shape, self.dtype = self._array.shape, self._array.dtype
        self._hash: int | None = None

    @property
    def array(self) -> Array:
        """The array."""
        if self._array is None:
            assert self._made_again is not None
            self._array = self._made_again()
        return self._array

    def release(self) -> None:
        """Drops an array that can be made again; whoever has it keeps it."""
        if self._made_again is not None:
            hash(self)  # which looks at the first bytes
            self._array = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Weights):
            return False
        if self.dtype != other.dtype or self.shape != other.shape or hash(self) != hash(other):
            return False
        a, b = self.array, other.array
        return a is b or np.array_equal(_bytes_of(a), _bytes_of(b))

    def __hash__(self) -> int:
        if self._hash is None:
            start = self.array.reshape(-1)[: _HASHED_BYTES // max(1, self.dtype.itemsize)]
            self._hash = hash((self.shape, self.dtype.str, start.tobytes()))
        return self._hash


def _is_writeable(array: Array) -> bool:
    """Whether an array's memory can be written, through the array itself or through a base array that it views."""
    view: object = array
    while isinstance(view, np.ndarray):
        if view.flags.writeable:
            return True
        view = cast(object, view.base)
    return False


def sealed(array: Array) -> Array:
    """Returns an array that its maker hands over: nobody writes it from here on, so no constant has to copy it."""
    view: object = array
    while isinstance(view, np.ndarray):
        view.flags.writeable = False
        view = cast(object, view.base)
    return array


def _bytes_of(array: Array) -> Array:
    """Returns an array's bytes, 1-D, for exact comparison: a NaN equals itself, and −0.0 differs from 0.0."""
    return array.reshape(-1).view(np.uint8)


class WeightsMode(Enum):
    """How a printer writes arrays with more than `INLINE_LIMIT` elements."""

    SIDE_FILE = "file"
    INLINE = "inline"
    RESOURCE = "resource"
    ELIDED = "elide"


@runtime_checkable
class ReadsResources(Protocol):
    """The protocol of a parser that knows the resources in its file."""

    def parse_resource(self) -> memoryview:
        """Parses `<key>` and returns the bytes of the resource with that key."""
        ...


ReadArray = Callable[[str, str, np.dtype[Any], tuple[int, ...]], Array]
"""(name of a side file, key, element type, shape) → the array."""


@runtime_checkable
class HasWeightsFolder(Protocol):
    """The protocol of a parsing context that knows its module's side files: their folder, or what reads them."""

    weights_folder: Path | None
    read_weights: ReadArray | None


@irdl_attr_definition
class WeightsAttr(Data[Weights]):
    """Constant data in a read-only array; see the module docstring for its text forms."""

    name = "qmlir.weights"

    def __init__(self, data: Weights | Array):
        super().__init__(data if isinstance(data, Weights) else Weights(data))

    @property
    def array(self) -> Array:
        """The values, read-only."""
        return self.data.array

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the array's dimensions."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The array's element type."""
        return self.data.dtype

    @property
    def is_large(self) -> bool:
        """Whether the printer's mode decides where the values are written: above `INLINE_LIMIT` elements."""
        return prod(self.shape) > INLINE_LIMIT

    @property
    def type(self) -> TensorType[Attribute]:
        """The tensor type of the stored values."""
        return TensorType(element_type_of(self.dtype), self.shape)

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
            if isinstance(parser, ReadsResources) and parser.parse_optional_keyword("dense_resource"):
                array = _from_resource(parser, parser.parse_resource(), dtype, at)
            elif (text := parser.parse_optional_str_literal()) is None:
                values = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_value(parser, dtype))
                array = np.array(values, dtype)
            elif text.startswith("0x"):
                array = _from_hexadecimal(parser, text[2:], dtype, at)
            else:
                file, key = _reference(text)
                array = _from_side_file(parser.ctx, file, key, dtype, shape)
            if array.size != prod(shape):
                parser.raise_error(f"expected {prod(shape)} values for {tensor}, got {array.size}", at)
            if dtype.kind == "b" and (_bytes_of(array) > 1).any():
                parser.raise_error("weights of type i1 must be bytes 0 and 1", at)
            try:
                return Weights(array.reshape(shape))
            except ValueError as error:  # a shape with a 0 and sizes whose product overflows numpy
                parser.raise_error(f"{tensor}: {error}", start)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.type)
            printer.print_string(", ")
            array = self.array
            mode = printer.mode if isinstance(printer, WeightsPrinter) else WeightsMode.ELIDED
            if not self.is_large:
                printer.print_string("[" + ", ".join(_value_text(v) for v in array.reshape(-1)) + "]")
            elif isinstance(printer, WeightsPrinter) and mode is WeightsMode.SIDE_FILE:
                printer.print_string_literal(printer.side_file_reference(array))
            elif mode is WeightsMode.INLINE:
                printer.print_string(f'"0x{array.tobytes().hex()}"')
            elif isinstance(printer, WeightsPrinter) and mode is WeightsMode.RESOURCE:
                printer.print_string(f"dense_resource<{printer.resource_key(array, array.itemsize)}>")
            else:
                printer.print_string("elided")


def _reference(text: str) -> tuple[str, str]:
    """Returns the side file and the key of a reference `file#key`; the name of the file may have a `#` as well."""
    stem, suffix, key = text.rpartition(f"{SIDE_SUFFIX}#")
    if suffix:
        return stem + SIDE_SUFFIX, key
    file, _, key = text.partition("#")
    return file, key


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
    mantissa, _, exponent = text.partition("e")  # MLIR requires a decimal point in every float
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}e{exponent}" if exponent else mantissa


def _parse_value(parser: AttrParser, dtype: np.dtype[Any]) -> Any:
    """Parses a value of a list; returns a numpy scalar.

    In a list of floats, a hexadecimal integer is a bit pattern (0x7fc00000). NaN and infinities have no decimal form,
    and values of types that numpy lacks are always written as bit patterns.
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


def _from_side_file(context: object, file: str, key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if isinstance(context, HasWeightsFolder) and context.read_weights is not None:
        return context.read_weights(file, key, dtype, shape)
    folder = context.weights_folder if isinstance(context, HasWeightsFolder) else None
    return side_array(folder or Path(), file, key, dtype, shape)


def _from_resource(parser: AttrParser, data: memoryview, dtype: np.dtype[Any], at: int) -> Array:
    if data.nbytes % dtype.itemsize:
        parser.raise_error(f"expected {dtype.itemsize} bytes for a value, the resource holds {data.nbytes}", at)
    return np.frombuffer(data, dtype)


def _from_hexadecimal(parser: AttrParser, digits: str, dtype: np.dtype[Any], at: int) -> Array:
    try:
        return np.frombuffer(bytes.fromhex(digits), dtype)
    except ValueError:
        parser.raise_error(f"expected two hexadecimal digits for each byte, {dtype.itemsize} bytes for a value", at)


# ---------------------------------------------------------------------------------------------------------------
# Printing


ALIASED = "text_alias"
"""The property of a type that says how its aliases begin; empty if its text is short."""

_NUMBERED = re.compile(r"_\d+$")


@dataclass(eq=False, repr=False)
class WeightsPrinter(Printer):
    """A printer that writes large weights as `mode` says and collects arrays for the side file or the resources."""

    mode: WeightsMode = field(default=WeightsMode.ELIDED, kw_only=True)
    side_file: str = field(default="", kw_only=True)
    """File name of the side file, without a folder: the file lies next to the module."""
    key_of: Callable[[Operation | None], str] | None = field(default=None, kw_only=True)
    affine_of: Callable[[Operation | None, Array], Affine | None] | None = field(default=None, kw_only=True)
    """The affine levels that an operation states about an array that is printed with it."""
    side_arrays: dict[str, Array | AffineArray] = field(default_factory=dict[str, "Array | AffineArray"], kw_only=True)
    """Key → array that the printed module expects in the side file."""
    resources: dict[str, Resource] = field(default_factory=dict[str, Resource], kw_only=True)
    """Key → resource that the printed module expects after it."""
    _keys: dict[tuple[object, ...], str] = field(default_factory=dict[tuple[object, ...], str], kw_only=True)
    _current: Operation | None = field(default=None, kw_only=True)
    _aliases: dict[Attribute, str] | None = field(default=None, kw_only=True)
    """Long types in the order in which they are met → their aliases, while a module is printed."""

    @property
    def has_side_scales(self) -> bool:
        """Whether the scales of types may go to the side file: mlir-opt would not read the text."""
        return self.mode is WeightsMode.SIDE_FILE and not self.print_generic_format

    def print_op(self, op: Operation) -> None:
        if isinstance(op, ModuleOp) and self._current is None:
            self._print_module(op)
        else:
            self._print_op(op)

    def _print_module(self, module: ModuleOp) -> None:
        """Prints the aliases of types whose text is long, each once, and the module behind them."""
        out, self.stream, self._aliases = self.stream, StringIO(), {}
        self._print_op(module)
        text, aliases = self.stream.getvalue(), self._aliases
        self.stream, self._aliases = out, None
        for attribute, alias in aliases.items():
            self.print_string(f"{alias} = ")
            self.print_attribute(attribute)
            self.print_string("\n")
        self.print_string(text)

    def _print_op(self, op: Operation) -> None:
        outer, self._current = self._current, op
        super().print_op(op)
        self._current = outer

    def print_ssa_value(self, value: SSAValue) -> str:
        """Prints a value's name without the numbers at its end, as xDSL numbers equal names itself.

        It drops one number of a name, so that tmp_3_2 would be printed as tmp_3, and so would be the third tmp.
        """
        while value.name_hint is not None and _NUMBERED.search(value.name_hint):
            value.name_hint = value.name_hint  # the setter drops the last number
        return super().print_ssa_value(value)

    def print_attribute(self, attribute: Attribute) -> None:
        if self._aliases is not None and (named := str(getattr(attribute, ALIASED, ""))):
            self.print_string(self._aliases.setdefault(attribute, f"!{named}{len(self._aliases)}"))
        elif isinstance(attribute, WeightsAttr) and self.mode is WeightsMode.RESOURCE and attribute.is_large:
            key = self.resource_key(attribute.array, attribute.array.itemsize)
            self.print_string(f"dense_resource<{key}> : ")
            self.print_attribute(attribute.type)
        elif isinstance(attribute, DenseIntOrFPElementsAttr) and wants_care(constant := cast(Dense, attribute)):
            key_of = self.resource_key if self.mode is WeightsMode.RESOURCE else None
            print_dense(self, constant, listed=self.mode is not WeightsMode.ELIDED, resource_key=key_of)
        else:
            super().print_attribute(cast(Attribute, attribute))

    def print_string_literal(self, string: str) -> None:
        """Prints a string literal; unlike xDSL, keeps printable characters beyond ASCII unescaped.

        xDSL would escape these characters, and parse the escapes as bytes. Control characters for terminals or for the
        writing direction are escaped, because people read the names of a model.
        """
        self.print_string('"' + _ESCAPED.sub(_escape, string) + '"')

    def side_file_reference(self, array: Array) -> str:
        """Returns the reference `file#key` of an array; an array that is printed several times is stored once."""
        wanted = self._name().replace(f"{SIDE_SUFFIX}#", f"{SIDE_SUFFIX}_")  # which ends the name of a side file
        key = self._key(array, wanted, self.side_arrays)
        if key not in self.side_arrays:
            self.side_arrays[key] = array
            levels = self.affine_of(self._current, array) if self.affine_of else None
            if levels is not None and (stored := levels.stored(array)) is not None:
                scales, offsets = self._beside(f"{key}.scales", levels.scales), ""
                if len(levels.offsets):
                    offsets = self._beside(f"{key}.offsets", levels.offsets)
                self.side_arrays[key] = AffineArray(stored, levels, scales, offsets)
        return f"{self.side_file}#{key}"

    def _beside(self, wanted: str, numbers: Array) -> str:
        """The key of the scales or offsets of an array, which are stored once for all arrays that have them."""
        own = self._key(numbers, wanted, self.side_arrays)
        self.side_arrays[own] = numbers
        return own

    def resource_key(self, array: Array, alignment: int) -> str:
        """Returns the key of the resource with an array's bytes; an array that is printed several times is stored once.

        Args:
            array: An array of any dtype; the resource is its bytes.
            alignment: The alignment of the resource in bytes, a power of two.
        """
        key = self._key(array, _RESOURCE_KEY.sub("_", self._name()), self.resources)
        self.resources[key] = Resource(array, alignment)
        return key

    def _name(self) -> str:
        return (self.key_of(self._current) if self.key_of else "") or "weights"

    def _key(self, array: Array, wanted: str, taken: Container[str]) -> str:
        """Returns the key of an array: `wanted`, with a number appended if that key is in `taken`.

        A side file holds arrays of equal numbers once.
        """
        numbers = place = (array.ctypes.data, array.dtype, array.shape)
        if place in self._keys:
            return self._keys[place]
        if self.mode is WeightsMode.SIDE_FILE:
            stored = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            numbers = (hashlib.blake2b(stored.data).digest(), array.dtype, array.shape)
        if numbers not in self._keys:
            key, n = wanted, 1
            while key in taken:
                key, n = f"{wanted}.{n}", n + 1
            self._keys[numbers] = key
        self._keys[place] = self._keys[numbers]
        return self._keys[numbers]


def module_text(module: Operation, mode: WeightsMode, *, generic: bool = False) -> str:
    """Prints a module as text, with large weights elided, inline, or as resources after the module."""
    out = StringIO()
    printer = WeightsPrinter(out, mode=mode, print_generic_format=generic)
    printer.print_op(module)
    return out.getvalue() + "\n" + resources_text(printer.resources)
