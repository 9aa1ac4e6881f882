"""Formulas of the numerics on symbolic integers, so that a solver proves them for all arguments at once.

A formula takes any type with the operations of `Arithmetic` (numerics/elementary/lanes.py). On `Bits` it builds terms
over bit vectors of 64 bits, with the semantics of the loops level, which is that of the processor. So what is proved is
the code that the compiler writes and the reference computes, not a copy of it.

Products of two unknown numbers are hard for solvers of bit vectors. A product is therefore a new unknown, in the range
that follows from the ranges of its factors; the `Proof` checks that the factors lie in these. Whatever holds for all
numbers in a range holds for the products among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import z3

from qmlir.numerics.elementary.lanes import DType

WIDTH = 64
WIDE = 100
"""The width of sums of shifted products and of shifted accumulators, which none of them exhausts."""

Range = tuple[int, int]

Term: TypeAlias = Any
Truth: TypeAlias = Any
"""z3's bit vectors and truth values, whose operators z3 does not type."""


@dataclass(frozen=True)
class Product:
    """A product of two unknown numbers, as one unknown."""

    lhs: Term
    rhs: Term
    value: Term


@dataclass
class Proof:
    """What is assumed, and what has to follow from it.

    factors   the ranges of the factors of each product, in the order of the formula; None to multiply bits as they are
    assumed   what is assumed about unknowns
    owed      what has to hold besides the claim: no intermediate result overflows its width
    bounded   ranges of products that are narrower than their factors' ranges tell, by place; the caller shows why
    products  the products so far
    """

    factors: Sequence[tuple[Range, Range]] | None = ()
    assumed: list[Truth] = field(default_factory=list)
    owed: list[Truth] = field(default_factory=list)
    bounded: Mapping[int, Range] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)

    def unknown(self, name: str, within: Range) -> Any:
        """A number in a range, as `Bits`; Any, because `Bits` has the integer part of `Arithmetic` only."""
        term = z3.BitVec(name, WIDTH)
        self.assumed += _within(term, within)
        return Bits(self, term)

    def number(self, value: int) -> Any:
        return Bits(self, z3.BitVecVal(value, WIDTH))

    def counterexample(self, claim: Truth, seconds: float = 600) -> z3.ModelRef | None:
        """Unknowns for which the claim or something owed does not hold; None if there are none.

        Raises:
            TimeoutError: The solver does not know.
        """
        solver = z3.SolverFor("QF_BV")
        solver.set("timeout", int(seconds * 1000))
        solver.add(*self.assumed, z3.Not(z3.And(claim, *self.owed)))
        found = solver.check()
        if found == z3.unknown:
            raise TimeoutError(solver.reason_unknown())
        return None if found == z3.unsat else solver.model()

    def multiplied(self, lhs: Term, rhs: Term) -> Term:
        if self.factors is None:
            self.owed += [z3.BVMulNoOverflow(lhs, rhs, True), z3.BVMulNoUnderflow(lhs, rhs)]
            return lhs * rhs
        place = len(self.products)
        left, right = self.factors[place]
        self.owed += [*_within(lhs, left), *_within(rhs, right)]
        ends = self.bounded.get(place) or [a * b for a in left for b in right]
        assert -(1 << WIDTH - 1) <= min(ends) <= max(ends) < 1 << WIDTH - 1, "a product leaves 64 bits"
        value = z3.BitVec(f"product{place}", WIDTH)
        self.assumed += _within(value, (min(ends), max(ends)))
        self.products.append(Product(lhs, rhs, value))
        return value


def _within(term: Term, within: Range) -> list[Truth]:
    return [term >= within[0], term <= within[1]]


class Bits:
    """A symbolic integer of 64 bits, or a truth value, with the operations that integer formulas use."""

    def __init__(self, proof: Proof, term: Any):
        self.proof, self.term = proof, term

    def _of(self, term: Any) -> "Bits":
        return Bits(self.proof, term)

    def same(self, other: "Bits | float") -> "Bits":
        return other if isinstance(other, Bits) else self.proof.number(int(other))

    def _owes(self, *facts: Truth) -> None:
        self.proof.owed += facts

    def __add__(self, other: "Bits | float") -> "Bits":
        a, b = self.term, self.same(other).term
        self._owes(z3.BVAddNoOverflow(a, b, True), z3.BVAddNoUnderflow(a, b))
        return self._of(a + b)

    def __sub__(self, other: "Bits | float") -> "Bits":
        a, b = self.term, self.same(other).term
        self._owes(z3.BVSubNoOverflow(a, b), z3.BVSubNoUnderflow(a, b, True))
        return self._of(a - b)

    def __radd__(self, other: float) -> "Bits":
        return self.same(other) + self

    def __rsub__(self, other: float) -> "Bits":
        return self.same(other) - self

    def __mul__(self, other: "Bits | float") -> "Bits":
        return self._of(self.proof.multiplied(self.term, self.same(other).term))

    def __and__(self, other: "Bits | int") -> "Bits":
        return self._of(self.term & self.same(other).term)

    def __or__(self, other: "Bits | int") -> "Bits":
        return self._of(self.term | self.same(other).term)

    def __xor__(self, other: "Bits | int") -> "Bits":
        return self._of(self.term ^ self.same(other).term)

    def __lshift__(self, other: "Bits | int") -> "Bits":
        """A shift to the left loses no bit."""
        by = self._count(other)
        shifted = self.term << by
        self._owes(shifted >> by == self.term)
        return self._of(shifted)

    def __rshift__(self, other: "Bits | int") -> "Bits":
        return self._of(self.term >> self._count(other))

    def logical_shift(self, other: "Bits | int") -> "Bits":
        return self._of(z3.LShR(self.term, self._count(other)))

    def _count(self, other: "Bits | int") -> Term:
        """The count of a shift, below the width: processors do not agree on others."""
        by = self.same(other).term
        self._owes(z3.ULT(by, WIDTH))
        return by

    def maximum(self, other: "Bits | float") -> "Bits":
        b = self.same(other).term
        return self._of(z3.If(self.term > b, self.term, b))

    def minimum(self, other: "Bits | float") -> "Bits":
        b = self.same(other).term
        return self._of(z3.If(self.term < b, self.term, b))

    def equals(self, other: "Bits | float") -> "Bits":
        return self._of(self.term == self.same(other).term)

    def less(self, other: "Bits | float") -> "Bits":
        return self._of(self.term < self.same(other).term)

    def choose(self, yes: "Bits | float", no: "Bits") -> "Bits":
        return self._of(z3.If(self.term, self.same(yes).term, no.term))

    def negative(self) -> "Bits":
        return self.same(0) - self

    def truncated_quotient(self, other: "Bits") -> "Bits":
        """A new unknown r with r · divisor ≤ dividend < (r + 1) · divisor; the caller states what follows."""
        value = z3.BitVec("quotient", WIDTH)
        self.proof.products.append(Product(other.term, self.term, value))
        return self._of(value)

    def to(self, dtype: DType) -> "Bits":
        """A conversion to a narrower type keeps the number."""
        bits = 8 * dtype.itemsize
        if bits < WIDTH:
            narrow = z3.Extract(bits - 1, 0, self.term)
            self._owes(z3.SignExt(WIDTH - bits, narrow) == self.term)
        return self


def whole(term: Term) -> Term:
    """A term with room for sums and shifts."""
    return z3.SignExt(WIDE - term.size(), term)
