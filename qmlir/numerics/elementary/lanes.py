"""The arithmetic in which formulas are written once: on numpy arrays here, on values of CPU kernels elsewhere.

A formula such as

    def softplus(x: N) -> N:
        return x.maximum(0.0) + log1p(exp(0.0 - x.magnitude()))

takes any type with the operators of `Arithmetic`. On `Lanes`, a thin wrapper around a numpy array, the formula computes
the result of `evaluate`. On `Value` (codegen/value.py), it emits the operations of a CPU kernel. Both are the same
IEEE operations in the same order, so both give the same bits, independent of the installed math libraries.

Integers are signless, as on the loops level: operations for which signedness matters take an `unsigned` argument.
Integers wrap around; a quotient or a remainder by zero is 0. Comparisons yield i1; float comparisons follow IEEE and
are false if an operand is NaN.
"""

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from qmlir.numerics import Array

DType = np.dtype[Any]

F64, F32, I64, I32, I16 = (np.dtype(name) for name in ("float64", "float32", "int64", "int32", "int16"))
"""Element types that formulas convert to."""


class Arithmetic(Protocol):
    """The operations that formulas may use; the other operand is a value of the same type or a Python number."""

    @property
    def dtype(self) -> DType:
        """The element type; integers are signed."""
        ...

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        ...

    def __add__(self, other: Self | float, /) -> Self: ...
    def __sub__(self, other: Self | float, /) -> Self: ...
    def __mul__(self, other: Self | float, /) -> Self: ...
    def __truediv__(self, other: Self | float, /) -> Self: ...
    def __radd__(self, other: float, /) -> Self: ...
    def __rsub__(self, other: float, /) -> Self: ...
    def __rmul__(self, other: float, /) -> Self: ...
    def __rtruediv__(self, other: float, /) -> Self: ...
    def __and__(self, other: Self | int, /) -> Self: ...
    def __or__(self, other: Self | int, /) -> Self: ...
    def __xor__(self, other: Self | int, /) -> Self: ...
    def __lshift__(self, other: Self | int, /) -> Self: ...
    def __rshift__(self, other: Self | int, /) -> Self: ...
    def logical_shift(self, other: Self | int, /) -> Self: ...
    def quotient(self, other: Self, /, *, unsigned: bool = False) -> Self: ...
    def truncated_quotient(self, other: Self, /) -> Self: ...
    def remainder(self, other: Self, /, *, unsigned: bool = False) -> Self: ...
    def maximum(self, other: Self | float, /, *, unsigned: bool = False) -> Self: ...
    def minimum(self, other: Self | float, /, *, unsigned: bool = False) -> Self: ...
    def maximum_number(self, other: Self | float, /) -> Self: ...
    def minimum_number(self, other: Self | float, /) -> Self: ...
    def equals(self, other: Self | float, /) -> Self: ...
    def less(self, other: Self | float, /, *, unsigned: bool = False) -> Self: ...
    def less_equal(self, other: Self | float, /, *, unsigned: bool = False) -> Self: ...
    def is_nan(self) -> Self: ...
    def choose(self, yes: Self | float, no: Self, /) -> Self: ...
    def negative(self) -> Self: ...
    def magnitude(self) -> Self: ...
    def with_sign_of(self, other: Self, /) -> Self: ...
    def round_even(self) -> Self: ...
    def floor(self) -> Self: ...
    def ceiling(self) -> Self: ...
    def square_root(self) -> Self: ...
    def to(self, dtype: DType, /, *, unsigned: bool = False) -> Self: ...
    def bits(self, dtype: DType, /) -> Self: ...
    def same(self, other: Self | float, /) -> Self: ...


N = TypeVar("N", bound=Arithmetic)
"""The type of numbers in a formula: `Lanes`, or `Value` of codegen/value.py."""


_SIGNALLING = {np.add, np.subtract, np.multiply, np.divide}
"""Functions for which numpy warns of floats that overflow, underflow or are not numbers."""


class Lanes:
    """A numpy array with an element type of the loops level: a float, a signless integer, or i1."""

    __slots__ = ("array",)

    def __init__(self, array: Array):
        array = np.asarray(array)
        self.array = array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array

    @property
    def dtype(self) -> DType:
        """The element type; integers are signed."""
        return self.array.dtype

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return self.array.dtype.kind not in "ib"

    def _with(self, function: Callable[[Array, Array], Any], other: "Lanes | float") -> "Lanes":
        operands = self.array, self.same(other).array
        if function not in _SIGNALLING or self.array.dtype.kind != "f":  # errstate takes longer than a short array
            return Lanes(function(*operands))
        with np.errstate(all="ignore"):
            return Lanes(function(*operands))

    def _unsigned(self) -> Array:
        return self.array.view(f"u{self.array.itemsize}")

    def same(self, other: "Lanes | float") -> "Lanes":
        """Returns `other` itself if it is `Lanes`; a Python number becomes a scalar of this value's element type."""
        return other if isinstance(other, Lanes) else Lanes(np.array(other, self.array.dtype))

    # -- arithmetic --------------------------------------------------------------------------------------------

    def __add__(self, other: "Lanes | float") -> "Lanes":
        return self._with(np.add, other)

    def __sub__(self, other: "Lanes | float") -> "Lanes":
        return self._with(np.subtract, other)

    def __mul__(self, other: "Lanes | float") -> "Lanes":
        return self._with(np.multiply, other)

    def __truediv__(self, other: "Lanes | float") -> "Lanes":
        return self._with(np.divide, other)

    def __radd__(self, other: float) -> "Lanes":
        return self.same(other) + self

    def __rsub__(self, other: float) -> "Lanes":
        return self.same(other) - self

    def __rmul__(self, other: float) -> "Lanes":
        return self.same(other) * self

    def __rtruediv__(self, other: float) -> "Lanes":
        return self.same(other) / self

    def __and__(self, other: "Lanes | int") -> "Lanes":
        return self._with(np.bitwise_and, other)

    def __or__(self, other: "Lanes | int") -> "Lanes":
        return self._with(np.bitwise_or, other)

    def __xor__(self, other: "Lanes | int") -> "Lanes":
        return self._with(np.bitwise_xor, other)

    def __lshift__(self, other: "Lanes | int") -> "Lanes":
        return self._with(np.left_shift, other)

    def __rshift__(self, other: "Lanes | int") -> "Lanes":
        """Arithmetic right shift."""
        return self._with(np.right_shift, other)

    def logical_shift(self, other: "Lanes | int") -> "Lanes":
        """Logical right shift: shifts in zeros."""
        return Lanes(self._unsigned() >> self.same(other)._unsigned())

    def quotient(self, other: "Lanes", *, unsigned: bool = False) -> "Lanes":
        """Integer quotient rounded toward zero; 0 for a divisor of 0. The least integer divided by −1 is itself."""
        a, b, safe = self._division(other, unsigned)
        floor = a // safe
        toward_zero = floor + ((a % safe != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
        whole = toward_zero if unsigned else np.where(b == -1, np.negative(a), toward_zero)
        return Lanes(np.where(b == 0, a.dtype.type(0), whole))

    def truncated_quotient(self, other: "Lanes") -> "Lanes":
        """Integer quotient rounded toward zero, by a divisor that is neither 0 nor −1."""
        return self.quotient(other)

    def remainder(self, other: "Lanes", *, unsigned: bool = False) -> "Lanes":
        """The remainder of `quotient`, with the dividend's sign; 0 for a divisor of 0."""
        a, _, safe = self._division(other, unsigned)
        return Lanes(np.fmod(a, safe))  # divides by 1 where the divisor is 0 or −1, so the remainder is 0 there

    def _division(self, other: "Lanes", unsigned: bool) -> tuple[Array, Array, Array]:
        """Returns dividend, divisor, and a safe divisor: 1 in place of 0 and −1, which can trap on some machines."""
        a, b = (self._unsigned(), other._unsigned()) if unsigned else (self.array, other.array)
        unsafe = (b == 0) if unsigned else (b == 0) | (b == -1)
        return a, b, np.where(unsafe, b.dtype.type(1), b)

    def maximum(self, other: "Lanes | float", *, unsigned: bool = False) -> "Lanes":
        """The greater operand; NaN if either is NaN, and 0 for the operands 0 and −0."""
        rhs = self.same(other)
        if unsigned:
            return Lanes(np.maximum(self._unsigned(), rhs._unsigned()))
        greater = np.maximum(self.array, rhs.array)
        if greater.dtype.kind == "f" and rhs.array.ndim == 0 and rhs.array == 0 and not np.signbit(rhs.array):
            return Lanes(greater + rhs.array)  # the common case, relu: the addition of 0 turns each −0 into 0
        return Lanes(_of_zeros(self.array, rhs.array, greater, np.add))

    def minimum(self, other: "Lanes | float", *, unsigned: bool = False) -> "Lanes":
        """The lesser operand; NaN if either is NaN, and −0 for the operands 0 and −0."""
        rhs = self.same(other)
        if unsigned:
            return Lanes(np.minimum(self._unsigned(), rhs._unsigned()))
        return Lanes(_of_zeros(self.array, rhs.array, np.minimum(self.array, rhs.array), lambda a, b: -(-a - b)))

    def maximum_number(self, other: "Lanes | float") -> "Lanes":
        """The greater float; `other` if self is NaN. `other` must not be NaN."""
        return self._with(np.fmax, other)

    def minimum_number(self, other: "Lanes | float") -> "Lanes":
        """The lesser float; `other` if self is NaN. `other` must not be NaN."""
        return self._with(np.fmin, other)

    def negative(self) -> "Lanes":
        """−self: for a float, the sign bit is flipped; for an integer, 0 − self."""
        return Lanes(np.negative(self.array))

    def magnitude(self) -> "Lanes":
        """|self|; the magnitude of the least integer is that integer itself."""
        return Lanes(np.abs(self.array))

    def with_sign_of(self, other: "Lanes") -> "Lanes":
        """The magnitude of this float with the sign of `other`."""
        return self._with(np.copysign, other)

    def round_even(self) -> "Lanes":
        """The nearest integer as a float, ties to even."""
        return Lanes(np.rint(self.array))

    def floor(self) -> "Lanes":
        """The greatest integer not above self, as a float."""
        return Lanes(np.floor(self.array))

    def ceiling(self) -> "Lanes":
        """The least integer not below self, as a float."""
        return Lanes(np.ceil(self.array))

    def square_root(self) -> "Lanes":
        """The correctly rounded square root; NaN for negative numbers."""
        with np.errstate(invalid="ignore"):
            return Lanes(np.sqrt(self.array))

    # -- comparison --------------------------------------------------------------------------------------------

    def equals(self, other: "Lanes | float") -> "Lanes":
        return self._with(np.equal, other)

    def less(self, other: "Lanes | float", *, unsigned: bool = False) -> "Lanes":
        if unsigned:
            return Lanes(self._unsigned() < self.same(other)._unsigned())
        return self._with(np.less, other)

    def less_equal(self, other: "Lanes | float", *, unsigned: bool = False) -> "Lanes":
        if unsigned:
            return Lanes(self._unsigned() <= self.same(other)._unsigned())
        return self._with(np.less_equal, other)

    def is_nan(self) -> "Lanes":
        """Whether a float is not a number."""
        return Lanes(np.isnan(self.array))

    def choose(self, yes: "Lanes | float", no: "Lanes") -> "Lanes":
        """`yes` where this i1 is true, else `no`."""
        return Lanes(np.where(self.array, no.same(yes).array, no.array))

    # -- types -------------------------------------------------------------------------------------------------

    def to(self, dtype: DType, *, unsigned: bool = False) -> "Lanes":
        """Converts to another element type: integers are extended or truncated, floats rounded to nearest even.

        Args:
            dtype: The new element type; a float that is converted to an integer must fit it.
            unsigned: Whether the integer, source or result, is unsigned.
        """
        source = self.array
        if unsigned and source.dtype.kind == "i":
            source = self._unsigned()
        elif unsigned and dtype.kind == "i":
            dtype = np.dtype(f"u{dtype.itemsize}")
        with np.errstate(all="ignore"):
            return Lanes(source.astype(dtype, copy=False))

    def bits(self, dtype: DType) -> "Lanes":
        """Reinterprets the bits as another type of the same width."""
        return Lanes(self.array.view(dtype))


def _of_zeros(a: Array, b: Array, result: Array, function: Callable[[Array, Array], Any]) -> Array:
    """Returns `result`, with `function(a, b)` where both float operands are zeros, which numpy does not order."""
    if result.dtype.kind != "f" or (b.ndim == 0 and b != 0):
        return result
    return np.where((a == 0) & (b == 0), function(a, b), result)
