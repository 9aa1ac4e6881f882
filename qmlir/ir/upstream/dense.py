"""Upstream's `dense` and `dense_resource` constants as shared bytes, and splats as a single element.

The file is unnecessary once xDSL's constants hold any element type, share their bytes when they are cloned, and keep a
splat as one element.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    Float80Type,
    Float128Type,
    IndexType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.printer import Printer

from qmlir.ir.resources import hexadecimal_bytes
from qmlir.ir.types import is_integer
from qmlir.numerics import Array

# ---------------------------------------------------------------------------------------------------------------
# Large splat constants, such as `dense<0.0> : tensor<4294967296xf32>`, held as a single element instead of 16 GB.


SPLAT_LIMIT = 1 << 20
"""The size in bytes above which a constant with equal elements is held as a single element."""


class _Open:
    """A base that allows a class to derive from an xDSL attribute class, which is final."""

    def __init_subclass__(cls) -> None:
        pass


class Splat(_Open, DenseIntOrFPElementsAttr[Any]):
    """A constant with equal elements that take more than `SPLAT_LIMIT` bytes, held as a single element.

    Only functions that return all elements (`get_values`, `held_bytes`) create them. Constants of the same type are
    equal if and only if their elements are equal, because `dense` turns every such buffer into a `Splat`.
    """

    @property
    def __class__(self) -> type[DenseIntOrFPElementsAttr[Any]]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The class that xDSL sees: its constraints compare an attribute's class instead of calling `isinstance`."""
        return DenseIntOrFPElementsAttr

    def __len__(self) -> int:
        return prod(self.get_shape())

    def iter_values(self) -> Any:
        return repeat(self.get_element_type().unpack(self.data.data, 1)[0], len(self))

    def iter_attrs(self) -> Any:
        return repeat(self.one().get_attrs()[0], len(self))

    def get_values(self) -> Any:
        return tuple(self.iter_values())

    def get_attrs(self) -> Any:
        return tuple(self.iter_attrs())

    def is_splat(self) -> bool:
        return True

    def one(self) -> DenseIntOrFPElementsAttr[Any]:
        """Returns the constant with a single element of the same value."""
        return DenseIntOrFPElementsAttr[Any](TensorType(self.get_element_type(), [1]), self.data)

    def print_without_type(self, printer: Printer) -> None:
        self.one().print_without_type(printer)


# ---------------------------------------------------------------------------------------------------------------
# Upstream's `dense` and `dense_resource` constants of any element type, as shared bytes instead of Python numbers.
#
# In the IR these constants are xDSL's `DenseIntOrFPElementsAttr`, which every pass knows. xDSL parses and prints each
# element as a Python number; 25 M elements take 8 s and 2 GB. The functions here build the attribute around a
# `memoryview` instead, which is shared, and convert all bytes at once. A `WeightsPrinter` prints a constant of more
# than 64 elements as:
#
#     dense<"0x0000803F…"> : tensor<8x5x5x1xf32>      as mlir-opt prints it
#     dense<1.0> : tensor<8x5x5x1xf32>                 a splat, in every mode
#     dense_resource<conv1> : tensor<8x5x5x1xf32>      WeightsMode.RESOURCE; the bytes stand after the module
#     dense_resource<__elided__> : tensor<8x5x5x1xf32> WeightsMode.ELIDED, as mlir-opt elides
#
# The elements have two layouts. *Held* is xDSL's layout in memory: integers are sign-extended to 1, 2, 4 or 8 bytes,
# and a true i1 is −1. *Written* is upstream's layout in hexadecimal text: an element takes as many bytes as its bits
# need, unused bits of the last byte are zero, and i1 is packed eight to a byte. The layouts differ only for types whose
# width is not 8, 16, 32 or 64 bits, such as i1, i4 and i24.
#
# xDSL has a slow path left: if an operation does not verify, xDSL prints the whole module into the exception's notes
# with its own printer, each element as a Python number (25 M elements: 10 s and 2 GB before the message appears).


Dense: TypeAlias = DenseIntOrFPElementsAttr[Any]

LISTED = 64
"""Constants of at most this many elements are printed as lists of numbers in every mode."""

HEX_LIMIT = 100
"""Upstream prints up to this many elements as a list, and more elements as hexadecimal digits."""

HELD_LIMIT = 1 << 30
"""The most bytes into which a splat constant is expanded."""

ELIDED = "__elided__"
"""The resource key that stands for elided elements."""


@dataclass(frozen=True)
class _Layout:
    """The layouts of an element type: held (xDSL's, in memory) and written (upstream's, in hexadecimal text).

    bits     number of bits of an element
    held     bytes of an element in xDSL's layout
    written  bytes of an element in upstream's layout
    signed   whether integers are sign-extended to the held bytes
    """

    bits: int
    held: int
    written: int
    signed: bool

    @property
    def packed(self) -> bool:
        """Whether upstream packs eight elements into a byte."""
        return self.bits == 1

    @property
    def alignment(self) -> int:
        """The alignment of an element in bytes in upstream's layout."""
        return 1 if self.written & (self.written - 1) else self.written

    @property
    def same(self) -> bool:
        """Whether both layouts are equal."""
        return self.bits == 8 * self.held


def _layout_of(element: Attribute) -> _Layout:
    """Returns the layouts of an element type.

    Raises:
        ValueError: Constants cannot hold elements of this type.
    """
    if is_integer(element) and element.width.data <= 64:
        bits, held = element.width.data, element.compile_time_size
        return _Layout(bits, held, -(-bits // 8), element.signedness.data is not Signedness.UNSIGNED)
    if isinstance(element, ComplexType):
        part = _layout_of(cast(ComplexType[Any], element).element_type)
        if part.same:
            return _Layout(2 * part.bits, 2 * part.held, 2 * part.held, signed=False)
    if isinstance(element, AnyFloat | IndexType) and not isinstance(element, Float80Type | Float128Type):
        size = element.compile_time_size
        return _Layout(8 * size, size, size, signed=False)
    raise ValueError(f"constants cannot hold elements of type {element}")


# ---------------------------------------------------------------------------------------------------------------
# Buffers → attributes


class _Bytes(np.ndarray[tuple[int], np.dtype[np.uint8]]):
    """A uint8 array whose memoryview is hashable: memoryview requires that its owner is hashable too."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def splat(type: Any, one: bytes) -> Dense:
    """Builds the attribute of a constant whose elements are all equal.

    Args:
        type: The constant's ranked type, with static shape.
        one: The bytes of an element in the held layout.
    """
    count = prod(type.get_shape())
    if count * len(one) > SPLAT_LIMIT:
        return Splat(type, BytesAttr(one))
    return dense(type, one * count)


def dense(type: Any, data: Any) -> Dense:
    """Builds the attribute of a ranked type around a buffer in the held layout, which must not change any more."""
    if prod(type.get_shape()) <= LISTED:
        return DenseIntOrFPElementsAttr[Any](type, BytesAttr(bytes(data)))
    held = np.frombuffer(data, np.uint8)
    if held.nbytes > SPLAT_LIMIT:
        elements = held.reshape(-1, type.element_type.compile_time_size)
        if _all_the_same(elements):
            return Splat(type, BytesAttr(elements[0].tobytes()))
    shared = np.frombuffer(data, np.uint8).view(_Bytes).data.toreadonly()
    return DenseIntOrFPElementsAttr[Any](type, BytesAttr(cast(bytes, shared)))


def dense_of(type: Any, array: Array) -> Dense:
    """Builds the attribute of a ranked type around an array of its elements; a writeable array is copied."""
    held = -array.astype(np.int8) if array.dtype.kind == "b" else array
    held = held.copy() if held.flags.writeable else np.ascontiguousarray(held)
    return dense(type, held.reshape(-1).view(np.uint8).data)


def retyped(constant: Dense, type: Any) -> Dense:
    """Reinterprets a constant's bytes as another type whose elements take the same number of bytes."""
    return (Splat if isinstance(constant, Splat) else DenseIntOrFPElementsAttr)(type, constant.data)


def is_large(constant: Dense) -> bool:
    """Whether the printer's mode decides where the elements are written: above `LISTED` elements."""
    return len(constant) > LISTED


def wants_care(constant: Dense) -> bool:
    """Whether `print_dense` must print the constant, because xDSL would be slow or lose bits."""
    return is_large(constant) or needs_bits(constant)


def needs_bits(constant: Dense) -> bool:
    """Whether a list of numbers would lose bits: NaNs may change their bits in a conversion to Python floats."""
    element, data = constant.get_element_type(), bytes(constant.data.data)
    return isinstance(element, AnyFloat) and bytes(element.pack(element.unpack(data, len(constant)))) != data


def held_bytes(constant: Dense) -> Array:
    """Returns the elements in the held layout, uint8 [n · bytes of an element], read-only; a splat is expanded.

    Raises:
        ValueError: The constant is a splat that would take more than `HELD_LIMIT` bytes.
    """
    one = np.frombuffer(constant.data.data, np.uint8)
    if not isinstance(constant, Splat):
        return one
    size = len(constant) * len(one)
    if size > HELD_LIMIT:
        raise ValueError(f"{constant.type} takes {size} bytes when written out, at most {HELD_LIMIT} are possible")
    all = np.broadcast_to(one, (len(constant), len(one))).reshape(-1)
    all.flags.writeable = False
    return all


# ---------------------------------------------------------------------------------------------------------------
# Upstream's bytes → attributes, and back


def from_list(type: Any, text: str) -> Dense | None:
    """Parses the constants `dense<[…]> : type` and `dense<1.0> : type`.

    xDSL's parser takes the bit pattern 0x7FC00000 of a NaN for a number, and needs 42 s for a million elements.

    Args:
        type: The constant's ranked type, with static shape.
        text: The text between `<` and `>`.

    Returns:
        The attribute; None if the text is not a number of that type, or a list of such numbers with that shape.
    """
    words, element = _WORD.findall(text), cast(Attribute, type.element_type)
    structure, shape = "".join(_STRUCTURE.findall(text)), type.get_shape()
    if len(words) != (prod(shape) if structure else 1):
        return None
    if structure and (len(structure) != _length(shape) or structure != _structure(shape)):
        return None
    try:
        data = _float_words(element, words) if isinstance(element, AnyFloat) else _integer_words(element, words)
    except (KeyError, ValueError, OverflowError, NotImplementedError):
        return None
    return dense(type, data) if structure else splat(type, data)


_WORD = re.compile(r"[\w.+-]+")
_STRUCTURE = re.compile(r"[\[\],]")
_TRUTH = {"true": 0xFF, "1": 0xFF, "-1": 0xFF, "false": 0, "0": 0}


def _structure(shape: Sequence[int]) -> str:
    """Returns the brackets and commas of a nested list with a shape: `[[,],[,]]` for [2, 2]."""
    text = ""
    for size in reversed(shape):
        text = "[" + ",".join([text] * size) + "]"
    return text


def _length(shape: Sequence[int]) -> int:
    """Returns the number of brackets and commas of a nested list with a shape."""
    length = 0
    for size in reversed(shape):
        length = size * length + max(size - 1, 0) + 2
    return length


def _float_words(element: AnyFloat, words: Sequence[str]) -> bytes:
    """Converts words to floats in the held layout; a word is a decimal with a point, or a hexadecimal bit pattern."""
    patterns = {i: int(w, 16) for i, w in enumerate(words) if w[:2] in ("0x", "0X")}
    if not all(i in patterns or "." in w for i, w in enumerate(words)):
        raise ValueError
    data = bytearray(element.pack([0.0 if i in patterns else float(w) for i, w in enumerate(words)]))
    size = element.compile_time_size
    for i, bits in patterns.items():
        data[i * size : (i + 1) * size] = bits.to_bytes(size, "little")
    return bytes(data)


def _integer_words(element: Attribute, words: Sequence[str]) -> bytes:
    """Converts words to integers in the held layout; for i1, the words `true` and `false` are allowed."""
    if not (is_integer(element) or isinstance(element, IndexType)):
        raise ValueError
    if is_integer(element) and element.width.data == 1:
        return bytes(_TRUTH[w] for w in words)
    numbers = [int(w, 0) for w in words]
    if is_integer(element):
        numbers = [element.get_normalized_value(n) for n in numbers]
    return bytes(element.pack(numbers))


def from_hexadecimal(type: Any, digits: str) -> Dense:
    """Parses the constant `dense<"0x…"> : type` from the digits after 0x.

    Raises:
        ValueError: The text is not hexadecimal, or its number of digits does not fit the type; the message says what
            the type needs.
    """
    layout, count = _layout_of(type.element_type), prod(type.get_shape())
    raw = np.frombuffer(hexadecimal_bytes(digits), np.uint8)
    if layout.packed:
        if len(raw) == 1 and raw[0] in (0, 0xFF):
            return splat(type, raw.tobytes())
        return dense(type, (-_bits(raw, count).astype(np.int8)).data)
    if len(raw) == layout.written != count * layout.written:
        return splat(type, _held(raw, layout).tobytes())
    if len(raw) == count * layout.written:
        held = _held(raw, layout)
    else:
        raise ValueError(
            f"{type} takes {count * layout.written} bytes, or {layout.written} for a splat, got {len(raw)}"
        )
    return dense(type, held.data)


def from_resource(type: Any, data: Any) -> Dense:
    """Builds the constant `dense_resource<key> : type` from the bytes of the resource.

    Raises:
        ValueError: The number of bytes does not fit the type, or a byte of an i1 is not 0 or 1.
    """
    layout, count = _layout_of(type.element_type), prod(type.get_shape())
    raw = np.frombuffer(data, np.uint8)
    if len(raw) != count * layout.written:
        raise ValueError(f"{type} takes {count * layout.written} bytes, got {len(raw)}")
    if layout.packed and (raw > 1).any():
        raise ValueError("elements of i1 must be bytes 0 and 1")
    return dense(type, data if layout.same else _held(raw, layout).data)


def _bits(raw: Array, count: int) -> Array:
    """Unpacks i1 elements, bool [count], from upstream's bytes: eight to a byte, or, since LLVM 22, one to a byte."""
    if len(raw) == -(-count // 8):
        return np.unpackbits(raw, count=count, bitorder="little").astype(bool)
    if len(raw) == count and (raw <= 1).all():
        return raw.astype(bool)
    raise ValueError(f"{count} elements of i1 take {-(-count // 8)} bytes, got {len(raw)}")


def _held(raw: Array, layout: _Layout) -> Array:
    """Converts elements from the written to the held layout; both are uint8, 1-D."""
    if layout.same:
        return raw
    wide = np.zeros((len(raw) // layout.written, layout.held), np.uint8)
    wide[:, : layout.written] = raw.reshape(-1, layout.written)
    unused = 8 * layout.held - layout.bits
    numbers = wide.reshape(-1).view(f"{'i' if layout.signed else 'u'}{layout.held}")
    return (numbers << unused >> unused).view(np.uint8)


def _written(constant: Dense, layout: _Layout) -> Array:
    """Converts elements to the written layout, uint8, 1-D; the layout must not be packed."""
    if layout.same:
        return held_bytes(constant)
    narrow = held_bytes(constant).reshape(-1, layout.held)[:, : layout.written].copy()
    if layout.bits % 8:
        narrow[:, -1] &= (1 << layout.bits % 8) - 1
    return narrow.reshape(-1)


# ---------------------------------------------------------------------------------------------------------------
# Printing


def print_dense(
    printer: Printer, constant: Dense, *, listed: bool, resource_key: Callable[[Array, int], str] | None
) -> None:
    """Prints a constant that is large, or whose bits a list of numbers would lose (`wants_care`).

    Args:
        printer: The printer to write to.
        constant: The constant.
        listed: Whether the elements of a large constant are printed; otherwise they are elided.
        resource_key: A function that stores bytes with an alignment as a resource and returns its key; with None, the
            elements are printed in place.
    """
    layout = _layout_of(constant.get_element_type())
    one = _splat(constant)
    if one is not None and not needs_bits(one):
        one.print_without_type(printer)
    elif one is not None and isinstance(constant, Splat):
        printer.print_string(f'dense<"0x{_written(one, layout).tobytes().hex().upper()}">')
    elif resource_key is not None and is_large(constant):
        data = held_bytes(constant) & 1 if layout.packed else _written(constant, layout)
        printer.print_string(f"dense_resource<{resource_key(data, layout.alignment)}>")
    elif not listed and is_large(constant):
        printer.print_string(f"dense_resource<{ELIDED}>")
    elif layout.packed:  # hexadecimal i1 is packed before LLVM 22 and a byte each since; all versions parse words
        words = np.where(held_bytes(constant), "true", "false").tolist()
        printer.print_string(f"dense<{_nested(words, constant.get_shape())}>")
    elif len(constant) > HEX_LIMIT or needs_bits(constant):
        printer.print_string(f'dense<"0x{_written(constant, layout).tobytes().hex().upper()}">')
    else:
        constant.print_without_type(printer)
    printer.print_string(" : ")
    printer.print_attribute(constant.type)


def _splat(constant: Dense) -> Dense | None:
    """Returns a constant with a single element if all elements have the same bits; else None."""
    if isinstance(constant, Splat):
        return constant.one()
    elements = held_bytes(constant).reshape(len(constant), -1)
    return dense(TensorType(constant.get_element_type(), [1]), elements[0]) if _all_the_same(elements) else None


def _all_the_same(elements: Array) -> bool:
    """Whether all rows have the same bits."""
    return bool((elements[-1] == elements[0]).all() and (elements == elements[0]).all())


def _nested(words: Sequence[str], shape: Sequence[int]) -> str:
    """Joins words in nested brackets, in row-major order: `[[a, b], [c, d]]`."""
    if not shape:
        return words[0]
    step = len(words) // shape[0]
    return "[" + ", ".join(_nested(words[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])) + "]"
