"""Typed scalars and vectors of the loops level that support Python's operators; `Code` in code.py creates them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.dialects import arith, math, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.ir.types import dtype_of, element_type_of, is_integer, is_vector, vector_of
from qmlir.ir.upstream import arith as conversions

if TYPE_CHECKING:
    from qmlir.codegen.code import Code

Number: TypeAlias = "Value | int | float"
"""An operand: a value, or a Python number that becomes a constant of the other operand's type."""

Kind: TypeAlias = type[Operation]
"""A class of operations."""

INDEX = IndexType()

_NO_WRAP_FLAGS = arith.IntegerOverflowAttr("none")
_NO_FASTMATH = arith.FastMathFlagsAttr("none")
_PREDICATES = {name: IntegerAttr(i, i64) for i, name in enumerate(arith.CMPI_COMPARISON_OPERATIONS)}
_FLOAT_PREDICATES = {name: IntegerAttr(i, i64) for i, name in enumerate(arith.CMPF_COMPARISON_OPERATIONS)}


class Value:
    """A scalar or a 1-D vector; its number is `known` if it is fixed while the code is written (indices only)."""

    __slots__ = ("_ssa", "code", "known", "type")

    def __init__(self, code: "Code", type: Attribute, ssa: SSAValue | None = None, known: int | None = None):
        self.code = code
        self.type = type
        self.known = known
        self._ssa = ssa

    @property
    def ssa(self) -> SSAValue:
        """The value in the IR; a known number becomes a constant operation on first access."""
        if self._ssa is None:
            assert self.known is not None
            self._ssa = self.code.constant_ssa(self.known, self.type)
        return self._ssa

    @property
    def element(self) -> Attribute:
        """The element type of a vector, or the type of a scalar."""
        return self.type.element_type if is_vector(self.type) else self.type

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as numpy's."""
        return dtype_of(self.element)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floats."""
        return isinstance(self.element, AnyFloat)

    @property
    def lanes(self) -> int | None:
        """The number of lanes of a vector, None for a scalar."""
        return self.type.get_shape()[0] if is_vector(self.type) else None

    # -- arithmetic --------------------------------------------------------------------------------------------

    def __add__(self, other: Number) -> "Value":
        rhs = self._index_number(other)
        if rhs == 0:
            return self
        if self.known == 0 and isinstance(other, Value):
            return other
        if self.known is not None and rhs is not None:
            return self.code.index(self.known + rhs)
        return self._binary(arith.AddiOp, arith.AddfOp, other)

    def __sub__(self, other: Number) -> "Value":
        rhs = self._index_number(other)
        if rhs == 0:
            return self
        if self.known is not None and rhs is not None:
            return self.code.index(self.known - rhs)
        return self._binary(arith.SubiOp, arith.SubfOp, other)

    def __mul__(self, other: Number) -> "Value":
        rhs = self._index_number(other)
        if rhs == 1:
            return self
        if self.known == 1 and isinstance(other, Value):
            return other
        if 0 in (rhs, self.known):
            return self.code.index(0)
        if self.known is not None and rhs is not None:
            return self.code.index(self.known * rhs)
        return self._binary(arith.MuliOp, arith.MulfOp, other)

    def __truediv__(self, other: Number) -> "Value":
        assert isinstance(self.element, AnyFloat)
        return self._binary(arith.DivfOp, arith.DivfOp, other)

    def __floordiv__(self, other: Number) -> "Value":
        """Quotient of two indices, rounded down; self must not be negative and other must be positive."""
        rhs = self._index_number(other)
        if rhs == 1:
            return self
        if self.known is not None and rhs is not None:
            return self.code.index(self.known // rhs)
        return self._binary(arith.DivUIOp, arith.DivUIOp, other)

    def __mod__(self, other: Number) -> "Value":
        """Remainder of two indices; self must not be negative and other must be positive."""
        rhs = self._index_number(other)
        if rhs == 1:
            return self.code.index(0)
        if self.known is not None and rhs is not None:
            return self.code.index(self.known % rhs)
        return self._binary(arith.RemUIOp, arith.RemUIOp, other)

    def quotient(self, other: "Value", *, unsigned: bool = False) -> "Value":
        """Integer quotient rounded toward zero; division by 0 gives 0, and the least integer by −1 gives itself."""
        safe = self._divisor(other, unsigned)
        kind = arith.DivUIOp if unsigned else arith.DivSIOp
        quotient = self._binary(kind, kind, safe)
        if not unsigned:
            quotient = other.equals(-1).choose(0 - self, quotient)
        return other.equals(0).choose(0, quotient)

    def remainder(self, other: "Value", *, unsigned: bool = False) -> "Value":
        """Remainder of the division that `quotient` does, with the dividend's sign; division by 0 gives 0."""
        kind = arith.RemUIOp if unsigned else arith.RemSIOp
        return self._binary(kind, kind, self._divisor(other, unsigned))

    def _divisor(self, other: "Value", unsigned: bool) -> "Value":
        """The divisor with 0, and −1 of signed integers, replaced by 1: a processor may trap on these divisors."""
        safe = other.equals(0).choose(1, other)
        return safe if unsigned else other.equals(-1).choose(1, safe)

    def truncated_quotient(self, other: Number) -> "Value":
        """Integer quotient rounded toward zero, by a divisor that is neither 0 nor −1."""
        return self._binary(arith.DivSIOp, arith.DivSIOp, other)

    def __and__(self, other: Number) -> "Value":
        return self._binary(arith.AndIOp, arith.AndIOp, other)

    def __or__(self, other: Number) -> "Value":
        return self._binary(arith.OrIOp, arith.OrIOp, other)

    def __xor__(self, other: Number) -> "Value":
        return self._binary(arith.XOrIOp, arith.XOrIOp, other)

    def __lshift__(self, other: Number) -> "Value":
        return self._binary(arith.ShLIOp, arith.ShLIOp, other)

    def __rshift__(self, other: Number) -> "Value":
        """Arithmetic shift: the quotient by 2^other, rounded down."""
        return self._binary(arith.ShRSIOp, arith.ShRSIOp, other)

    def logical_shift(self, other: Number) -> "Value":
        """Right shift that fills the high bits with zeros."""
        return self._binary(arith.ShRUIOp, arith.ShRUIOp, other)

    def __radd__(self, other: float) -> "Value":
        return self.same(other) + self

    def __rsub__(self, other: float) -> "Value":
        return self.same(other) - self

    def __rmul__(self, other: float) -> "Value":
        return self.same(other) * self

    def __rtruediv__(self, other: float) -> "Value":
        return self.same(other) / self

    def fused_multiply_add(self, factor: "Value", addend: "Value") -> "Value":
        """self · factor + addend of floats, rounded once."""
        lanes = next((v.lanes for v in (self, factor, addend) if v.lanes is not None), None)
        operands = [v.spread(lanes).ssa for v in (self, factor, addend)]
        return self.code.emit(math.FmaOp, operands, addend.spread(lanes).type, {"fastmath": _NO_FASTMATH})

    def maximum(self, other: Number, *, unsigned: bool = False) -> "Value":
        """The greater of two values; NaN if either value is NaN."""
        rhs = self._index_number(other)
        if self.known is not None and rhs is not None:
            return self.code.index(max(self.known, rhs))
        return self._binary(arith.MaxUIOp if unsigned else arith.MaxSIOp, arith.MaximumfOp, other)

    def minimum(self, other: Number, *, unsigned: bool = False) -> "Value":
        """The lesser of two values; NaN if either value is NaN."""
        rhs = self._index_number(other)
        if self.known is not None and rhs is not None:
            return self.code.index(min(self.known, rhs))
        return self._binary(arith.MinUIOp if unsigned else arith.MinSIOp, arith.MinimumfOp, other)

    def maximum_number(self, other: Number) -> "Value":
        """The greater of two floats; `other` if self is NaN. `other` must not be NaN."""
        return self._binary(arith.MaxnumfOp, arith.MaxnumfOp, other)

    def minimum_number(self, other: Number) -> "Value":
        """The lesser of two floats; `other` if self is NaN. `other` must not be NaN."""
        return self._binary(arith.MinnumfOp, arith.MinnumfOp, other)

    def round_even(self) -> "Value":
        """The nearest integer as a float, ties to even."""
        return self._unary(math.RoundEvenOp)

    def floor(self) -> "Value":
        """The greatest integer that is not above self, as a float."""
        return self._unary(math.FloorOp)

    def ceiling(self) -> "Value":
        """The least integer that is not below self, as a float."""
        return self._unary(math.CeilOp)

    def square_root(self) -> "Value":
        """The square root of a float, correctly rounded; NaN below zero."""
        return self._unary(math.SqrtOp)

    def negative(self) -> "Value":
        """−self: flips the sign bit of a float, computes 0 − self for an integer."""
        return self._unary(arith.NegfOp) if isinstance(self.element, AnyFloat) else 0 - self

    def magnitude(self) -> "Value":
        """|self|; the least integer stays as it is."""
        return self._unary(math.AbsFOp) if isinstance(self.element, AnyFloat) else self.maximum(0 - self)

    def with_sign_of(self, other: "Value") -> "Value":
        """The magnitude of this float with the sign of `other`."""
        return self._binary(math.CopySignOp, math.CopySignOp, other)

    # -- comparison of scalars -----------------------------------------------------------------------------------

    def __lt__(self, other: Number) -> "Value":
        return self.less(other)

    def __ge__(self, other: Number) -> "Value":
        return self._compare("sge", "oge", other)

    def below(self, other: Number) -> "Value":
        """Whether 0 ≤ self < other: one unsigned comparison."""
        return self.less(other, unsigned=True)

    def equals(self, other: Number) -> "Value":
        """Whether both values are the same number; false if either value is NaN."""
        return self._compare("eq", "oeq", other)

    def less(self, other: Number, *, unsigned: bool = False) -> "Value":
        """Whether self < other; false if either value is NaN."""
        return self._compare("ult" if unsigned else "slt", "olt", other)

    def less_equal(self, other: Number, *, unsigned: bool = False) -> "Value":
        """Whether self ≤ other; false if either value is NaN."""
        return self._compare("ule" if unsigned else "sle", "ole", other)

    def is_nan(self) -> "Value":
        """Whether a float is not a number."""
        return self._compare("ne", "uno", self)

    def choose(self, yes: Number, no: "Value") -> "Value":
        """`yes` if self, an i1, is true, else `no`."""
        chosen = no.same(yes)
        return self.code.emit(arith.SelectOp, [self.ssa, chosen.ssa, no.ssa], no.type)

    # -- types ---------------------------------------------------------------------------------------------------

    def to(self, element: Attribute | np.dtype[Any], *, unsigned: bool = False) -> "Value":
        """Converts to another element type: integers are extended or truncated, floats rounded to nearest even.

        A float that is converted to an integer must fit that integer. If `unsigned` is set, the integer type, source or
        result, is read as unsigned. An i1 counts as 0 or 1.
        """
        have, element = self.element, _element(element)
        if have == element:
            return self
        if isinstance(have, IndexType) or isinstance(element, IndexType):
            return self.code.emit(arith.IndexCastOp, [self.ssa], element)
        type = vector_of(element, self.lanes) if self.lanes else element
        if is_integer(have) and is_integer(element):
            narrower = element.width.data < have.width.data
            wider = conversions.ExtUIOp if unsigned or have == i1 else conversions.ExtSIOp
            kind = conversions.TruncIOp if narrower else wider
        elif is_integer(have):
            kind = conversions.UIToFPOp if unsigned or have == i1 else conversions.SIToFPOp
        elif is_integer(element):
            kind = conversions.FPToUIOp if unsigned else conversions.FPToSIOp
        else:
            assert isinstance(have, AnyFloat)
            assert isinstance(element, AnyFloat)
            kind = arith.TruncFOp if element.bitwidth < have.bitwidth else arith.ExtFOp
        return self.code.emit(kind, [self.ssa], type)

    def bits(self, element: Attribute | np.dtype[Any]) -> "Value":
        """Reinterprets the bits as another element type; the number of lanes of a vector changes with the width."""
        element = _element(element)
        if self.lanes is None:
            return self.code.emit(arith.BitcastOp, [self.ssa], element)
        lanes = self.lanes * _width(self.element) // _width(element)
        return self.code.emit(vector.BitcastOp, [self.ssa], vector_of(element, lanes))

    def lane(self, position: int) -> "Value":
        """One lane of a vector."""
        place = DenseArrayBase.from_list(i64, [position])
        return self.code.emit(vector.ExtractOp, [self.ssa], self.element, {"static_position": place})

    def with_lanes(self, scalars: Sequence["Value"]) -> "Value":
        """A vector of scalars, one for each lane of this vector, which gives the type."""
        whole = self
        for position, scalar in enumerate(scalars):
            place = DenseArrayBase.from_list(i64, [position])
            operands = [scalar.ssa, whole.ssa]
            whole = self.code.emit(vector.InsertOp, operands, self.type, {"static_position": place})
        return whole

    def shuffle(self, other: "Value", places: Sequence[int]) -> "Value":
        """The lanes of two vectors of one type at `places`; those of the second vector come after the first's."""
        assert self.type == other.type
        type, mask = vector_of(self.element, len(places)), DenseArrayBase.from_list(i64, places)
        return self.code.emit(vector.ShuffleOp, [self.ssa, other.ssa], type, {"mask": mask})

    def lanes_from(self, first: int, count: int) -> "Value":
        """`count` neighbouring lanes of a vector, from lane `first` on."""
        return self.shuffle(self, range(first, first + count))

    def interleave(self, other: "Value", first: int = 0, count: int | None = None) -> "Value":
        """`count` lanes of two vectors of one type in turn, from lane `first` on: self[0], other[0], self[1], …"""
        assert self.lanes is not None
        count = self.lanes - first if count is None else count
        return self.shuffle(other, [lane for i in range(first, first + count) for lane in (i, self.lanes + i)])

    def spread(self, lanes: int | None) -> "Value":
        """Broadcasts a scalar to a vector of `lanes` lanes; returns self if lanes is None or self is a vector."""
        if lanes is None or self.lanes is not None:
            return self
        return self.code.emit(vector.BroadcastOp, [self.ssa], vector_of(self.type, lanes))

    def same(self, other: Number) -> "Value":
        """`other` as a value of this value's type: a number becomes a constant, a scalar is broadcast to the lanes."""
        if isinstance(other, Value):
            return other.spread(self.lanes)
        if self.type == INDEX:
            return self.code.index(int(other))
        return self.code.constant(other, self.type)

    # -- inside ------------------------------------------------------------------------------------------------

    def _index_number(self, other: Number) -> int | None:
        """The number of `other` if self is an index and `other` is known, else None."""
        if self.type != INDEX:
            return None
        return other.known if isinstance(other, Value) else int(other)

    def _unary(self, kind: Kind) -> "Value":
        return self.code.emit(kind, [self.ssa], self.type, {"fastmath": _NO_FASTMATH})

    def _binary(self, on_integers: Kind, on_floats: Kind, other: Number) -> "Value":
        if isinstance(other, Value) and other.lanes is not None and self.lanes is None:
            return self.spread(other.lanes)._binary(on_integers, on_floats, other)
        rhs = self.same(other)
        assert rhs.type == self.type, f"{self.type} and {rhs.type}"
        if isinstance(self.element, AnyFloat):
            return self.code.emit(on_floats, [self.ssa, rhs.ssa], self.type, {"fastmath": _NO_FASTMATH})
        properties: dict[str, Attribute] = {"overflowFlags": _NO_WRAP_FLAGS} if on_integers in _OVERFLOWING else {}
        return self.code.emit(on_integers, [self.ssa, rhs.ssa], self.type, properties)

    def _compare(self, on_integers: str, on_floats: str, other: Number) -> "Value":
        assert self.lanes is None, "xDSL compares scalars only"
        operands = [self.ssa, self.same(other).ssa]
        if isinstance(self.element, AnyFloat):
            properties: dict[str, Attribute] = {"predicate": _FLOAT_PREDICATES[on_floats], "fastmath": _NO_FASTMATH}
            return self.code.emit(arith.CmpfOp, operands, i1, properties)
        return self.code.emit(arith.CmpiOp, operands, i1, {"predicate": _PREDICATES[on_integers]})


_OVERFLOWING = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)


def _element(type: Attribute | np.dtype[Any]) -> Attribute:
    """An element type that formulas name as numpy's, as MLIR's."""
    return type if isinstance(type, Attribute) else element_type_of(type)


def _width(element: Attribute) -> int:
    if is_integer(element):
        return element.width.data
    assert isinstance(element, AnyFloat)
    return element.bitwidth
