"""Upstream's `dense` and `dense_resource`: constants of any element type, as bytes that nobody copies.

In the IR they are xDSL's `DenseIntOrFPElementsAttr`, which every pass knows. xDSL makes a Python number of each element
to parse or to print one; 25 M elements take 8 s and 2 GB. What is made here is around a `memoryview` instead, shared
by all that hold it, and read and written at once. The text of one of more than 64 elements, by a `WeightsPrinter`:

    dense<"0x0000803F…"> : tensor<8x5x5x1xf32>      as mlir-opt prints it
    dense<1.0> : tensor<8x5x5x1xf32>                 a splat, whatever the mode
    dense_resource<conv1> : tensor<8x5x5x1xf32>      WeightsMode.RESOURCE; the bytes stand behind the module
    dense_resource<__elided__> : tensor<8x5x5x1xf32> WeightsMode.ELIDED, as mlir-opt elides

Two layouts of the same elements meet here. *Held*, as xDSL unpacks them: integers sign-extended to 1, 2, 4 or 8 bytes,
a true i1 as −1. *Written*, as upstream does in hexadecimal: as many bytes as the bits need, the rest of the last one
zero, i1 packed eight to a byte. They differ for i1, i4, i24 and their like only.

One slow path is left, in xDSL: where an operation does not verify, it prints the whole module into the exception's
notes with its own printer, every element a Python number (25 M elements: 10 s and 2 GB on the way to the message).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
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

from qmlir.dialects.loops import is_integer
from qmlir.dialects.splats import SPLAT_LIMIT, Splat
from qmlir.resources import hexadecimal_bytes

Array = npt.NDArray[Any]

Dense: TypeAlias = DenseIntOrFPElementsAttr[Any]

LISTED = 64
"""Constants of at most this many elements are lists of numbers in every text."""

HEX_LIMIT = 100
"""Upstream prints up to this many elements as a list, more as hexadecimal digits."""

HELD_LIMIT = 1 << 30
"""The most bytes of a constant that is written out from one value."""

ELIDED = "__elided__"
"""The key of a resource that a printer left out."""


@dataclass(frozen=True)
class _Layout:
    """How the elements of a type lie in bytes.

    bits     of an element
    held     bytes of an element in xDSL's layout
    written  bytes of an element in upstream's
    signed   whether a wider integer repeats the sign
    """

    bits: int
    held: int
    written: int
    signed: bool

    @property
    def packed(self) -> bool:
        """Whether upstream puts eight elements into a byte."""
        return self.bits == 1

    @property
    def alignment(self) -> int:
        """Bytes that an element lies at multiples of."""
        return 1 if self.written & (self.written - 1) else self.written

    @property
    def same(self) -> bool:
        """Whether both layouts are the same."""
        return self.bits == 8 * self.held


def _layout_of(element: Attribute) -> _Layout:
    """The layouts of an element type.

    Raises:
        ValueError: Nothing here can hold its elements.
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
    """Bytes of which a memoryview can be hashed: it hashes them itself, but asks first whether their owner could be."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def splat(type: Any, one: bytes) -> Dense:
    """The attribute of a ranked type whose elements are all the same.

    Args:
        type: A ranked type of known shape.
        one: An element as held.
    """
    count = prod(type.get_shape())
    if count * len(one) > SPLAT_LIMIT:
        return Splat(type, BytesAttr(one))
    return dense(type, one * count)


def dense(type: Any, data: Any) -> Dense:
    """The attribute of a ranked type around a buffer of elements as held, which nobody may write to any more."""
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
    """The attribute of a ranked type around an array of its elements, which is copied if somebody may write to it."""
    held = -array.astype(np.int8) if array.dtype.kind == "b" else array
    held = held.copy() if held.flags.writeable else np.ascontiguousarray(held)
    return dense(type, held.reshape(-1).view(np.uint8).data)


def retyped(constant: Dense, type: Any) -> Dense:
    """The same bytes as a constant of a type whose elements take as many bytes."""
    return (Splat if isinstance(constant, Splat) else DenseIntOrFPElementsAttr)(type, constant.data)


def is_large(constant: Dense) -> bool:
    """Whether it is for the printer to say where the elements go."""
    return len(constant) > LISTED


def wants_care(constant: Dense) -> bool:
    """Whether `print_dense` is to print it: xDSL would take its time, or lose a bit."""
    return is_large(constant) or needs_bits(constant)


def needs_bits(constant: Dense) -> bool:
    """Whether a list of numbers would lose something: NaNs change their bits on the way through Python's floats."""
    element, data = constant.get_element_type(), bytes(constant.data.data)
    return isinstance(element, AnyFloat) and bytes(element.pack(element.unpack(data, len(constant)))) != data


def held_bytes(constant: Dense) -> Array:
    """The elements as held, uint8 [n · bytes of an element], read-only.

    Raises:
        ValueError: It is a splat that takes more than `HELD_LIMIT` bytes.
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
    """What `dense<[…]> : type` stands for, and `dense<1.0> : type`.

    xDSL takes the 0x7FC00000 of a NaN for a number, and takes its time: 42 s for a million elements.

    Args:
        type: A ranked type of known shape.
        text: What stands between `<` and `>`.

    Returns:
        The attribute; None if the text is not a list of that shape of numbers of that type.
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
    """The brackets and commas of a list of a shape: `[[,],[,]]` for [2, 2]."""
    text = ""
    for size in reversed(shape):
        text = "[" + ",".join([text] * size) + "]"
    return text


def _length(shape: Sequence[int]) -> int:
    """Characters of a list's brackets and commas."""
    length = 0
    for size in reversed(shape):
        length = size * length + max(size - 1, 0) + 2
    return length


def _float_words(element: AnyFloat, words: Sequence[str]) -> bytes:
    """Floats as held: decimals with a point, and bit patterns."""
    patterns = {i: int(w, 16) for i, w in enumerate(words) if w[:2] in ("0x", "0X")}
    if not all(i in patterns or "." in w for i, w in enumerate(words)):
        raise ValueError
    data = bytearray(element.pack([0.0 if i in patterns else float(w) for i, w in enumerate(words)]))
    size = element.compile_time_size
    for i, bits in patterns.items():
        data[i * size : (i + 1) * size] = bits.to_bytes(size, "little")
    return bytes(data)


def _integer_words(element: Attribute, words: Sequence[str]) -> bytes:
    """Integers as held; a word for a truth is one of i1."""
    if not (is_integer(element) or isinstance(element, IndexType)):
        raise ValueError
    if is_integer(element) and element.width.data == 1:
        return bytes(_TRUTH[w] for w in words)
    numbers = [int(w, 0) for w in words]
    if is_integer(element):
        numbers = [element.get_normalized_value(n) for n in numbers]
    return bytes(element.pack(numbers))


def from_hexadecimal(type: Any, digits: str) -> Dense:
    """What `dense<"0x…"> : type` stands for, given the digits behind 0x.

    Raises:
        ValueError: They are no hexadecimal digits, or not as many as the type wants; the message says what is wanted.
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
    """What `dense_resource<key> : type` stands for, given the bytes that the resource holds.

    Raises:
        ValueError: They are not as many as the type wants.
    """
    layout, count = _layout_of(type.element_type), prod(type.get_shape())
    raw = np.frombuffer(data, np.uint8)
    if len(raw) != count * layout.written:
        raise ValueError(f"{type} takes {count * layout.written} bytes, got {len(raw)}")
    if layout.packed and (raw > 1).any():
        raise ValueError("elements of i1 must be bytes 0 and 1")
    return dense(type, data if layout.same else _held(raw, layout).data)


def _bits(raw: Array, count: int) -> Array:
    """i1 elements from upstream's bytes: packed, or one to a byte (LLVM 22 and later). bool [count]."""
    if len(raw) == -(-count // 8):
        return np.unpackbits(raw, count=count, bitorder="little").astype(bool)
    if len(raw) == count and (raw <= 1).all():
        return raw.astype(bool)
    raise ValueError(f"{count} elements of i1 take {-(-count // 8)} bytes, got {len(raw)}")


def _held(raw: Array, layout: _Layout) -> Array:
    """Elements from upstream's layout to xDSL's; both uint8, 1-d."""
    if layout.same:
        return raw
    wide = np.zeros((len(raw) // layout.written, layout.held), np.uint8)
    wide[:, : layout.written] = raw.reshape(-1, layout.written)
    unused = 8 * layout.held - layout.bits
    numbers = wide.reshape(-1).view(f"{'i' if layout.signed else 'u'}{layout.held}")
    return (numbers << unused >> unused).view(np.uint8)


def _written(constant: Dense, layout: _Layout) -> Array:
    """Elements in upstream's layout, for those that it does not pack. uint8 [n]."""
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
    """Prints a constant that is large, or that needs its bits.

    Args:
        printer: Where to.
        constant: What.
        listed: Whether the elements are printed at all.
        resource_key: Stores bytes with their alignment, and names them; None prints them in their place.
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
    elif layout.packed:  # as packed bits before LLVM 22, as bytes since: words are read by all
        words = np.where(held_bytes(constant), "true", "false").tolist()
        printer.print_string(f"dense<{_nested(words, constant.get_shape())}>")
    elif len(constant) > HEX_LIMIT or needs_bits(constant):
        printer.print_string(f'dense<"0x{_written(constant, layout).tobytes().hex().upper()}">')
    else:
        constant.print_without_type(printer)
    printer.print_string(" : ")
    printer.print_attribute(constant.type)


def _splat(constant: Dense) -> Dense | None:
    """One element, if all are the same to the bit."""
    if isinstance(constant, Splat):
        return constant.one()
    elements = held_bytes(constant).reshape(len(constant), -1)
    return dense(TensorType(constant.get_element_type(), [1]), elements[0]) if _all_the_same(elements) else None


def _all_the_same(elements: Array) -> bool:
    """Whether all rows are equal to the bit."""
    return bool((elements[-1] == elements[0]).all() and (elements == elements[0]).all())


def _nested(words: Sequence[str], shape: Sequence[int]) -> str:
    """The words in brackets, row-major: `[[a, b], [c, d]]`."""
    if not shape:
        return words[0]
    step = len(words) // shape[0]
    return "[" + ", ".join(_nested(words[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])) + "]"
