"""Calls from machine code to the C functions of a program's operators, without Python between them.

A network calls a function with a pointer to each tensor. For an operator in C, that function has a few instructions: it
puts these pointers, the shapes and the attributes into tables, and passes them on (ir/native.py has the prototype). In
an object file the C function is an external symbol, which the program that links the object defines.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FloatAttr, StringAttr, TensorType
from xdsl.ir import Attribute


def native_symbol(entry: Attribute | None) -> str | None:
    """Returns the name of the C function of an operator; None for an operator in Python."""
    found = entry.data.get("symbol") if isinstance(entry, DictionaryAttr) else None
    return found.data if isinstance(found, StringAttr) else None


def native_symbols(functions: Mapping[str, Attribute]) -> list[str]:
    """Returns the names of the C functions among a module's external functions, sorted."""
    return sorted({symbol for each in functions.values() if (symbol := native_symbol(each)) is not None})


def declaration(symbol: str) -> str:
    """Returns the declaration of a C function in LLVM IR."""
    return f"declare void @{symbol}(ptr, ptr, ptr, ptr, ptr)\n"


def passing_on(name: str, entry: Attribute) -> str:
    """Returns the LLVM IR of the function that a network calls for an operator in C.

    Args:
        name: The function's name, as LLVM IR spells it.
        entry: What the function is, as the lowering to loops lists it on the module.
    """
    assert isinstance(entry, DictionaryAttr)
    inputs, outputs = (_shapes(entry.data[key]) for key in ("inputs", "outputs"))
    numbers = [cast("FloatAttr", n).value.data for n in cast("ArrayAttr", entry.data["numbers"]).data]
    shapes, count = [*inputs, *outputs], len(inputs) + len(outputs)
    lines = [f"define internal void @{name}({', '.join(f'ptr %x{i}' for i in range(count))}) {{"]
    given, made = range(len(inputs)), range(len(inputs), count)
    lines += _table("inputs", "ptr", [f"%x{i}" for i in given])
    lines += _table("outputs", "ptr", [f"%x{i}" for i in made])
    for i, shape in enumerate(shapes):
        lines += _table(f"shape{i}", "i64", [str(n) for n in shape])
    lines += _table("shapes", "ptr", [f"%shape{i}" for i in range(count)])
    lines += _table("ranks", "i64", [str(len(shape)) for shape in shapes])
    lines += _table("numbers", "i64", [str(_bits(number)) for number in numbers])
    tables = ", ".join(f"ptr %{table}" for table in ("inputs", "outputs", "shapes", "ranks", "numbers"))
    return "\n".join([*lines, f"  call void @{native_symbol(entry)}({tables})", "  ret void", "}", ""])


def _shapes(types: Attribute) -> list[tuple[int, ...]]:
    return [cast("TensorType[Any]", each).get_shape() for each in cast("ArrayAttr", types).data]


def _table(name: str, kind: str, values: Sequence[str]) -> list[str]:
    """Returns the lines that make a table on the stack."""
    lines = [f"  %{name} = alloca [{max(len(values), 1)} x {kind}], align 8"]
    for i, value in enumerate(values):
        lines.append(f"  %{name}.{i} = getelementptr {kind}, ptr %{name}, i64 {i}")
        lines.append(f"  store {kind} {value}, ptr %{name}.{i}")
    return lines


def _bits(number: float) -> int:
    """Returns the bits of a double, so that LLVM reads the same number."""
    import struct

    return int.from_bytes(struct.pack("<d", number), "little", signed=True)
