"""Writing loops-level code so that it reads like the formula it computes.

`Code` is a place where operations go, `Value` a typed scalar or vector with Python's operators, `Buffer` a memref with
`load` and `store`:

    with code.loop(0, n, step=16) as i:
        y.store(x.load(i, lanes=16) * scale + 1.0, i)
    total = code.fold(0, n, [zero], lambda i, sums: [sums[0] + x.load(i)])

Numbers become constants of the other operand's type, scalars are spread over the lanes of a vector, and index
arithmetic on known numbers costs nothing. Integers are signed. Floats are IEEE: every operator rounds by itself.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from xdsl.dialects import arith, math, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.dialects import arith as conversions
from qmlir.dialects import simd
from qmlir.dialects.loops import is_integer, is_memref, is_vector

Number: TypeAlias = "Value | int | float"
"""What an operator takes: a value, or a number that becomes a constant of the other operand's type."""

Kind: TypeAlias = type[Operation]
"""A class of operations."""

INDEX = IndexType()

WIDTHS = (16, 8)
"""Lanes of the vectors that `Code.spans` uses, widest first; what is left goes one by one."""

_NO_WRAP_FLAGS = arith.IntegerOverflowAttr("none")
_NO_FASTMATH = arith.FastMathFlagsAttr("none")
_PREDICATES = {name: IntegerAttr(i, i64) for i, name in enumerate(arith.CMPI_COMPARISON_OPERATIONS)}
_CACHE_LINE = IntegerAttr(64, i64)


class Value:
    """A scalar or a 1-D vector, or a number known while the code is written."""

    __slots__ = ("_ssa", "code", "known", "type")

    def __init__(self, code: "Code", type: Attribute, ssa: SSAValue | None = None, known: int | None = None):
        self.code = code
        self.type = type
        self.known = known
        self._ssa = ssa

    @property
    def ssa(self) -> SSAValue:
        """The value in the IR; known numbers become constants when they are first needed there."""
        if self._ssa is None:
            assert self.known is not None
            self._ssa = self.code.constant_ssa(self.known, self.type)
        return self._ssa

    @property
    def element(self) -> Attribute:
        """The type of one lane; a scalar's own type."""
        return self.type.element_type if is_vector(self.type) else self.type

    @property
    def lanes(self) -> int | None:
        """Lanes of a vector, None for a scalar."""
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
        """Quotient of an index by a positive one: neither may be negative."""
        rhs = self._index_number(other)
        if rhs == 1:
            return self
        if self.known is not None and rhs is not None:
            return self.code.index(self.known // rhs)
        return self._binary(arith.DivUIOp, arith.DivUIOp, other)

    def __mod__(self, other: Number) -> "Value":
        """Remainder of an index by a positive one: neither may be negative."""
        rhs = self._index_number(other)
        if rhs == 1:
            return self.code.index(0)
        if self.known is not None and rhs is not None:
            return self.code.index(self.known % rhs)
        return self._binary(arith.RemUIOp, arith.RemUIOp, other)

    def truncated_quotient(self, other: Number) -> "Value":
        """Integer quotient rounded toward zero."""
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
        """Right shift that brings in zeros."""
        return self._binary(arith.ShRUIOp, arith.ShRUIOp, other)

    def __radd__(self, other: float) -> "Value":
        return self.same(other) + self

    def __rsub__(self, other: float) -> "Value":
        return self.same(other) - self

    def __rmul__(self, other: float) -> "Value":
        return self.same(other) * self

    def __rtruediv__(self, other: float) -> "Value":
        return self.same(other) / self

    def maximum(self, other: Number) -> "Value":
        """The greater one; NaN where either is NaN."""
        rhs = self._index_number(other)
        if self.known is not None and rhs is not None:
            return self.code.index(max(self.known, rhs))
        return self._binary(arith.MaxSIOp, arith.MaximumfOp, other)

    def minimum(self, other: Number) -> "Value":
        """The lesser one; NaN where either is NaN."""
        rhs = self._index_number(other)
        if self.known is not None and rhs is not None:
            return self.code.index(min(self.known, rhs))
        return self._binary(arith.MinSIOp, arith.MinimumfOp, other)

    def maximum_number(self, other: Number) -> "Value":
        """The greater float; `other`, which is no NaN, where self is NaN."""
        return self._binary(arith.MaxnumfOp, arith.MaxnumfOp, other)

    def minimum_number(self, other: Number) -> "Value":
        """The lesser float; `other`, which is no NaN, where self is NaN."""
        return self._binary(arith.MinnumfOp, arith.MinnumfOp, other)

    def round_even(self) -> "Value":
        """The nearest integer as a float, ties to even."""
        return self._unary(math.RoundEvenOp)

    # -- comparison of scalars -----------------------------------------------------------------------------------

    def __lt__(self, other: Number) -> "Value":
        return self._compare("slt", other)

    def __ge__(self, other: Number) -> "Value":
        return self._compare("sge", other)

    def below(self, other: Number) -> "Value":
        """Whether 0 ≤ self < other: one unsigned comparison."""
        return self._compare("ult", other)

    def choose(self, yes: Number, no: "Value") -> "Value":
        """`yes` where this i1 is true, else `no`."""
        chosen = no.same(yes)
        return self.code.emit(arith.SelectOp, [self.ssa, chosen.ssa, no.ssa], no.type)

    # -- types ---------------------------------------------------------------------------------------------------

    def to(self, element: Attribute) -> "Value":
        """The same number in another type: integers sign-extended or truncated, floats rounded to nearest even."""
        have = self.element
        if have == element:
            return self
        if isinstance(have, IndexType) or isinstance(element, IndexType):
            return self.code.emit(arith.IndexCastOp, [self.ssa], element)
        type = VectorType(element, [self.lanes]) if self.lanes else element
        if is_integer(have) and is_integer(element):
            narrower = element.width.data < have.width.data
            kind = conversions.TruncIOp if narrower else conversions.ExtSIOp
        elif is_integer(have):
            kind = conversions.SIToFPOp
        elif is_integer(element):
            kind = conversions.FPToSIOp
        else:
            assert isinstance(have, AnyFloat)
            assert isinstance(element, AnyFloat)
            kind = arith.TruncFOp if element.bitwidth < have.bitwidth else arith.ExtFOp
        return self.code.emit(kind, [self.ssa], type)

    def bits(self, element: Attribute) -> "Value":
        """The same bits under another type; a vector's lanes multiply or divide."""
        if self.lanes is None:
            return self.code.emit(arith.BitcastOp, [self.ssa], element)
        lanes = self.lanes * _width(self.element) // _width(element)
        return self.code.emit(vector.BitcastOp, [self.ssa], VectorType(element, [lanes]))

    def lane(self, position: int) -> "Value":
        """One lane of a vector."""
        place = DenseArrayBase.from_list(i64, [position])
        return self.code.emit(vector.ExtractOp, [self.ssa], self.element, {"static_position": place})

    def spread(self, lanes: int | None) -> "Value":
        """A scalar in every lane of a vector; itself where lanes is None."""
        if lanes is None or self.lanes is not None:
            return self
        return self.code.emit(vector.BroadcastOp, [self.ssa], VectorType(self.type, [lanes]))

    def same(self, other: Number) -> "Value":
        """`other` in the type of this value."""
        if isinstance(other, Value):
            return other.spread(self.lanes)
        if self.type == INDEX:
            return self.code.index(int(other))
        return self.code.constant(other, self.type)

    # -- inside ------------------------------------------------------------------------------------------------

    def _index_number(self, other: Number) -> int | None:
        """The number `other` stands for, if this is an index and it is known."""
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

    def _compare(self, predicate: str, other: Number) -> "Value":
        assert self.lanes is None, "xDSL compares scalars only"
        operands = [self.ssa, self.same(other).ssa]
        return self.code.emit(arith.CmpiOp, operands, i1, {"predicate": _PREDICATES[predicate]})


_OVERFLOWING = (arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp)


def _width(element: Attribute) -> int:
    if is_integer(element):
        return element.width.data
    assert isinstance(element, AnyFloat)
    return element.bitwidth


class Buffer:
    """A memref of static shape."""

    __slots__ = ("code", "element", "shape", "ssa")

    def __init__(self, code: "Code", ssa: SSAValue):
        assert is_memref(ssa.type)
        self.code = code
        self.ssa = ssa
        self.element: Attribute = ssa.type.element_type
        self.shape = ssa.type.get_shape()

    def load(self, *indices: Value | int, lanes: int | None = None) -> Value:
        """The element at `indices`, or `lanes` neighbours from there."""
        operands = [self.ssa, *self._indices(indices)]
        if lanes is None:
            return self.code.emit(memref.LoadOp, operands, self.element)
        return self.code.emit(vector.LoadOp, operands, VectorType(self.element, [lanes]))

    def store(self, value: Value, *indices: Value | int) -> None:
        """Writes a scalar to `indices`, or a vector's lanes to the neighbours from there."""
        kind = memref.StoreOp if value.lanes is None else vector.StoreOp
        self.code.add(kind.create(operands=[value.ssa, self.ssa, *self._indices(indices)]))

    def _indices(self, indices: Sequence[Value | int]) -> list[SSAValue]:
        assert len(indices) == len(self.shape), f"{len(indices)} indices into {self.ssa.type}"
        return [self.code.index(i).ssa if isinstance(i, int) else i.ssa for i in indices]


class Code:
    """A function body under construction: operations go to the innermost open loop or branch.

    Constants and stack buffers stand at the top of the function, each constant once.
    """

    def __init__(self, entry: Block):
        self._block = entry
        self._entry = entry
        self._top: list[Operation] = []
        self._constants: dict[tuple[int | float | str, Attribute], SSAValue] = {}

    def finish(self) -> None:
        """Puts constants and stack buffers in their place; nothing may follow."""
        first = self._entry.first_op
        assert first is not None
        assert self._block is self._entry
        self._entry.insert_ops_before(self._top, first)

    # -- operations ----------------------------------------------------------------------------------------------

    def add(self, op: Operation) -> None:
        """Appends an operation without a result."""
        self._block.add_op(op)

    def emit(
        self,
        kind: Kind,
        operands: Sequence[SSAValue],
        type: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> Value:
        """Appends an operation; its result."""
        op = kind.create(operands=operands, result_types=[type], properties=properties or {})
        self._block.add_op(op)
        return Value(self, type, op.results[0])

    def dot_pairs(self, accumulator: Value, a: Value, b: Value) -> Value:
        """accumulator[i] + a[2i]·b[2i] + a[2i+1]·b[2i+1], i16 lanes into i32."""
        return self.emit(simd.DotI16PairsOp, [accumulator.ssa, a.ssa, b.ssa], accumulator.type)

    def multiply_shift_round(self, a: Value, multiplier: Value, shift: Value) -> Value:
        """(a·multiplier + 2^(30−shift)) >> (31−shift) on vectors of i32, for results that fit i32."""
        return self.emit(simd.MulShiftRoundOp, [a.ssa, multiplier.ssa, shift.ssa], a.type)

    # -- constants and memory --------------------------------------------------------------------------------------

    def index(self, number: "Value | int") -> Value:
        """A known index."""
        return number if isinstance(number, Value) else Value(self, INDEX, known=number)

    def constant(self, number: float, type: Attribute) -> Value:
        """A number of any type, the same in every lane of a vector."""
        if type == INDEX:
            return self.index(int(number))
        return Value(self, type, self.constant_ssa(number, type))

    def zeros(self, element: Attribute, lanes: int | None) -> Value:
        """Zero, in every lane of a vector."""
        return self.constant(0, VectorType(element, [lanes]) if lanes else element)

    def constant_ssa(self, number: float, type: Attribute) -> SSAValue:
        """`constant` as the IR has it."""
        element = type.element_type if is_vector(type) else type
        is_float = isinstance(element, AnyFloat)
        key = (float(number).hex() if is_float else int(number), type)  # hex tells −0 from 0
        if (made := self._constants.get(key)) is not None:
            return made
        value: Attribute
        if is_vector(type):
            lane = float(number) if is_float else int(number)
            dense: Any = DenseIntOrFPElementsAttr  # its overloads do not know a vector of any element type
            value = dense.from_list(type, [lane])
        elif is_float:
            value = FloatAttr(float(number), element)
        else:
            assert is_integer(element) or isinstance(element, IndexType)
            value = IntegerAttr(int(number), element)
        op = arith.ConstantOp.create(result_types=[type], properties={"value": value})
        self._top.append(op)
        self._constants[key] = op.results[0]
        return op.results[0]

    def stack(self, shape: Sequence[int], element: Attribute, name: str) -> Buffer:
        """A buffer on the stack for the time of the call, its contents undefined at first; `name` is for readers."""
        type = MemRefType(element, shape)
        segments = DenseArrayBase.from_list(i32, (0, 0))
        op = memref.AllocaOp.create(
            result_types=[type], properties={"alignment": _CACHE_LINE, "operandSegmentSizes": segments}
        )
        op.results[0].name_hint = name
        self._top.append(op)
        return Buffer(self, op.results[0])

    # -- control -----------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, begin: Value | int, end: Value | int, step: int = 1, name: str = "i") -> Generator[Value]:
        """for i = begin; i < end; i += step. A loop known to run once leaves only its body; `name` is for readers."""
        lower, upper = self.index(begin), self.index(end)
        if _runs_once(lower, upper, step):
            yield lower
            return
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = name
        outer, self._block = self._block, body
        yield Value(self, INDEX, body.args[0])
        body.add_op(scf.YieldOp())
        self._block = outer
        bounds = [lower.ssa, upper.ssa, self.index(step).ssa]
        outer.add_op(scf.ForOp.create(operands=bounds, regions=[Region(body)]))

    def fold(
        self,
        begin: Value | int,
        end: Value | int,
        start: Sequence[Value],
        step: Callable[[Value, list[Value]], Sequence[Value]],
        name: str = "i",
    ) -> list[Value]:
        """Carries values through a loop: `step` maps the index and the values so far to the next ones."""
        lower, upper = self.index(begin), self.index(end)
        if _runs_once(lower, upper, 1):
            return list(step(lower, list(start)))
        types = [value.type for value in start]
        body = Block(arg_types=[INDEX, *types])
        body.args[0].name_hint = name
        outer, self._block = self._block, body
        index, *carried = (Value(self, arg.type, arg) for arg in body.args)
        yielded = step(index, carried)
        body.add_op(scf.YieldOp(*(value.ssa for value in yielded)))
        self._block = outer
        operands = [lower.ssa, upper.ssa, self.index(1).ssa, *(value.ssa for value in start)]
        op = scf.ForOp.create(operands=operands, result_types=types, regions=[Region(body)])
        outer.add_op(op)
        return [Value(self, result.type, result) for result in op.results]

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """Code that runs where a condition, an i1, holds."""
        with self._arm() as body:
            yield
        self.add(scf.IfOp.create(operands=[condition.ssa], regions=[Region(body), Region()]))

    def branch(self, condition: Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Code for either outcome of a condition."""
        arms: list[Region] = []
        for write in (then, otherwise):
            with self._arm() as body:
                write()
            arms.append(Region(body))
        self.add(scf.IfOp.create(operands=[condition.ssa], regions=arms))

    @contextmanager
    def _arm(self) -> Generator[Block]:
        body = Block()
        outer, self._block = self._block, body
        yield body
        body.add_op(scf.YieldOp())
        self._block = outer

    def spans(
        self,
        begin: Value | int,
        end: Value | int,
        body: Callable[[Value, int | None], None],
        widths: Sequence[int] = WIDTHS,
    ) -> None:
        """Covers [begin, end) with vectors and what is left with scalars; `body` takes a first index and the lanes.

        `body` writes its code once for each width that may occur: for known bounds only for those that do.
        """
        at, stop = self.index(begin), self.index(end)
        for lanes in widths:
            if at.known is not None and stop.known is not None:
                limit = self.index(stop.known - (stop.known - at.known) % lanes)
                if limit.known == at.known:
                    continue
            elif lanes != widths[0]:
                continue
            else:
                limit = stop - (stop - at) % lanes
            with self.loop(at, limit, lanes) as i:
                body(i, lanes)
            at = limit
        if at.known is None or at.known != stop.known:
            with self.loop(at, stop) as i:
                body(i, None)


def _runs_once(lower: Value, upper: Value, step: int) -> bool:
    return lower.known is not None and upper.known is not None and 0 < upper.known - lower.known <= step
