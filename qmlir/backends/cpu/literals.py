"""LLVM IR text of types, constants and names; floats are written as their bits, so that nothing is rounded."""

import re
import struct
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute

from qmlir.ir.predicates import is_integer, is_vector

FLOAT_NAMES: Mapping[type[Attribute], str] = {
    Float16Type: "half",
    BFloat16Type: "bfloat",
    Float32Type: "float",
    Float64Type: "double",
}


def type_text(type: Attribute) -> str:
    """The LLVM text of a type.

    Raises:
        KeyError: The type has no LLVM text here.
    """
    if is_integer(type):
        return f"i{type.width.data}"
    if isinstance(type, llvm.LLVMPointerType):
        return "ptr"
    if is_vector(type):
        (lanes,) = type.get_shape()
        return f"<{lanes} x {type_text(type.element_type)}>"
    if isinstance(type, llvm.LLVMVoidType):
        return "void"
    return FLOAT_NAMES[type.__class__]


def float_text(value: float, type: Attribute) -> str:
    """The text of a float constant, written as its bits so that nothing is rounded."""
    if isinstance(type, Float64Type):
        return f"0x{struct.pack('>d', value).hex().upper()}"
    if isinstance(type, Float32Type):  # LLVM writes a float as the double of the same value
        (single,) = struct.unpack(">f", struct.pack(">f", value))
        return f"0x{struct.pack('>d', single).hex().upper()}"
    if isinstance(type, Float16Type):
        return f"0xH{struct.pack('>e', value).hex().upper()}"
    raise KeyError(type)


def constant_text(value: Attribute) -> str:
    """The text of a constant's value, without its type."""
    if isinstance(value, IntegerAttr):
        integer = value.value.data
        if value.get_type() == IntegerType(1):
            return "true" if integer else "false"
        return str(integer)
    if isinstance(value, FloatAttr):
        number: float = value.value.data
        return float_text(number, value.get_type())
    if isinstance(value, DenseIntOrFPElementsAttr):
        dense = cast(DenseIntOrFPElementsAttr[Any], value)
        element: Attribute = dense.get_element_type()
        name = type_text(element)
        numbers: Iterable[Any] = islice(dense.iter_values(), 1) if dense.is_splat() else dense.get_values()
        if isinstance(element, AnyFloat):
            texts = [float_text(number, element) for number in numbers]
        elif element == IntegerType(1):
            texts = ["true" if number else "false" for number in numbers]
        else:
            texts = [str(number) for number in numbers]
        if len(set(texts)) == 1:
            return f"splat ({name} {texts[0]})"
        return "<" + ", ".join(f"{name} {text}" for text in texts) + ">"
    raise KeyError(value)


def symbol(name: str) -> str:
    """A global name, quoted and escaped if LLVM requires it."""
    if re.fullmatch(r"[A-Za-z_.$][\w.$]*", name, re.ASCII):
        return name
    escaped = "".join(
        chr(b) if b < 128 and (chr(b).isalnum() or chr(b) in "._-$") else f"\\{b:02X}" for b in name.encode()
    )
    return f'"{escaped}"'
