"""Formulas of numerics as C: a number that writes down each operation that a formula applies to it.

    a, multiplier, shift = numbers("a", "multiplier", "shift")
    result = contract.formula(a, multiplier, shift)
    result.statements                  # "const int64_t t0 = multiply(a, multiplier);", …

`Expression` is one more type of numbers in which a formula can be computed, beside arrays (elementary/lanes.py) and the
values of CPU kernels: a rounding contract is stated once and becomes C by being called. It has the operations that the
contracts of devices use. Integers are int64_t that wrap around; floats of 32 bits are their bits in a uint32_t, because
the model has no floats (float32.c).
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from qmlir.numerics.elementary.lanes import F32, I32, I64, DType

C_TYPES = {I64: "int64_t", I32: "int32_t", F32: "uint32_t"}
"""Element type → the C type of its numbers."""

_CONVERSIONS = {
    (I64, I32): "(int32_t)(uint32_t)({})",
    (I32, I64): "(int64_t)({})",
    (I64, F32): "float32_of({})",
    (F32, I64): "integer_of({})",
}
"""From one element type to another."""


_ONE = "INT64_C(1)"


class Expression:
    """A number of the C code: a variable, a parameter or a constant.

    text        how the code names it
    dtype       its element type
    statements  the list to which each operation adds its statement; shared by all numbers of a formula
    """

    def __init__(self, text: str, dtype: DType, statements: list[str]):
        self.text, self.dtype, self.statements = text, dtype, statements

    @property
    def is_float(self) -> bool:
        """Whether the number is a float."""
        return self.dtype == F32

    def _named(self, text: str, dtype: DType) -> "Expression":
        """A new variable that holds the value of an expression."""
        name = f"t{len(self.statements)}"
        self.statements.append(f"const {C_TYPES[dtype]} {name} = {text};")
        return Expression(name, dtype, self.statements)

    def to_variable(self) -> "Expression":
        """The same number as a variable of its own."""
        return self._named(self.text, self.dtype)

    def _call(self, function: str, *others: "Expression | int") -> "Expression":
        """The result of a C function of integers of 64 bits."""
        operands = [self, *map(self.same, others)]
        assert all(operand.dtype == I64 for operand in operands), function
        return self._named(f"{function}({', '.join(operand.text for operand in operands)})", I64)

    def _operator(self, sign: str, other: "Expression | int") -> "Expression":
        rhs = self.same(other)
        assert self.dtype == rhs.dtype == I64, sign
        return self._named(f"{self.text} {sign} {rhs.text}", I64)

    def same(self, other: "Expression | int") -> "Expression":
        """Returns `other` itself if it is an expression; a Python integer becomes a constant of 64 bits."""
        return other if isinstance(other, Expression) else Expression(f"INT64_C({other})", I64, self.statements)

    def __add__(self, other: "Expression | int") -> "Expression":
        return self._call("add", other)

    def __sub__(self, other: "Expression | int") -> "Expression":
        return self._call("subtract", other)

    def __mul__(self, other: "Expression | int") -> "Expression":
        if isinstance(other, Expression) and self.dtype == other.dtype == F32:
            return self._named(f"float32_product({self.text}, {other.text})", F32)
        return self._call("multiply", other)

    def __radd__(self, other: int) -> "Expression":
        return self.same(other) + self

    def __rsub__(self, other: int) -> "Expression":
        return self.same(other) - self

    def __rmul__(self, other: int) -> "Expression":
        return self.same(other) * self

    def __and__(self, other: "Expression | int") -> "Expression":
        return self._operator("&", other)

    def __or__(self, other: "Expression | int") -> "Expression":
        return self._operator("|", other)

    def __xor__(self, other: "Expression | int") -> "Expression":
        return self._operator("^", other)

    def __lshift__(self, other: "Expression | int") -> "Expression":
        if self.text == _ONE:
            return self.same(other)._call("power_of_2")
        return self._call("shift_left", other)

    def __rshift__(self, other: "Expression | int") -> "Expression":
        return self._call("shift_right", other)

    def logical_shift(self, other: "Expression | int") -> "Expression":
        """Right shift that fills the high bits with zeros."""
        return self._call("shift_right_zeros", other)

    def maximum(self, other: "Expression | int") -> "Expression":
        """The greater of two integers."""
        return self._call("greater", other)

    def minimum(self, other: "Expression | int") -> "Expression":
        """The lesser of two integers."""
        return self._call("lesser", other)

    def equals(self, other: "Expression | int") -> "Expression":
        """1 if two integers are equal, else 0."""
        return self._operator("==", other)

    def less(self, other: "Expression | int") -> "Expression":
        """1 if the integer is less than the other, else 0."""
        return self._operator("<", other)

    def choose(self, yes: "Expression | int", no: "Expression") -> "Expression":
        """One of two integers: `yes` unless this is 0."""
        return self._named(f"{self.text} ? {no.same(yes).text} : {no.text}", I64)

    def negative(self) -> "Expression":
        """The integer with the other sign."""
        return 0 - self

    def round_even(self) -> "Expression":
        """The nearest whole number of a float, ties to even, as a float."""
        assert self.is_float
        return self._named(f"float32_round_even({self.text})", F32)

    def to(self, dtype: DType) -> "Expression":
        """Converts to another element type: integers are truncated or extended, floats rounded to nearest even."""
        return self if dtype == self.dtype else self._named(_CONVERSIONS[self.dtype, dtype].format(self.text), dtype)


def formula_in_c(
    formula: Callable[..., Any], parameters: Sequence[tuple[str, DType]], result: str, indent: str
) -> list[str]:
    """The statements that compute a formula.

    Args:
        formula: A function of as many numbers as there are parameters.
        parameters: The C text and the element type of each parameter.
        result: The C text that the result, as int64_t, is assigned to.
        indent: The beginning of each line.
    """
    statements: list[str] = []
    computed: Expression = formula(*(Expression(text, dtype, statements) for text, dtype in parameters))
    whole = computed.to(I64)
    return [f"{indent}{statement}" for statement in (*statements, f"{result} = {whole.text};")]


def function_in_c(
    name: str,
    formula: Callable[..., Any],
    parameters: Sequence[str],
    results: Sequence[str] = (),
    table: str | None = None,
) -> list[str]:
    """A C function of integers of 64 bits, which computes a formula.

    Args:
        name: Its name.
        formula: A function of as many numbers as there are parameters, and of a reader of the table if there is one.
        parameters: The names of the parameters.
        results: The names of the pointers, behind the other parameters, to which the results are stored; without any,
            the function returns its only result.
        table: The name of a parameter behind the numbers, a table of integers of 16 bits.
    """
    statements: list[str] = []

    def reader(at: Expression) -> Expression:
        return Expression(f"(int16_t)word_of_16({table} + 2 * (size_t){at.text})", I64, statements).to_variable()

    given = [Expression(parameter, I64, statements) for parameter in parameters]
    computed: Any = formula(*given, *([] if table is None else [reader]))
    if results:
        kind, ends = "void", [f"*{name} = {number.text};" for name, number in zip(results, computed, strict=True)]
    else:
        kind, ends = "int64_t", [f"return {computed.text};"]
    declared = [f"int64_t {parameter}" for parameter in parameters]
    declared += [] if table is None else [f"const uint8_t *{table}"]
    declared += [f"int64_t *{result}" for result in results]
    head = f"static inline {kind} {name}({', '.join(declared)}) {{"
    return [head, *(f"  {statement}" for statement in (*_used(statements, ends), *ends)), "}", ""]


def _used(statements: Sequence[str], ends: Sequence[str]) -> list[str]:
    """The statements without those whose variable no later one reads: compilers warn of them."""
    read, kept = set(_VARIABLE.findall(" ".join(ends))), list[str]()
    for statement in reversed(statements):
        declared, _, text = statement.partition(" = ")
        if declared.split()[-1] in read:
            read.update(_VARIABLE.findall(text))
            kept.append(statement)
    return kept[::-1]


_VARIABLE = re.compile(r"\bt\d+\b")
