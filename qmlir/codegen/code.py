"""The IR builder for loops-level code: code that writes a loop nest reads like the formula it computes.

`Code` collects the operations of a function body, `Value` is a typed scalar or vector with Python's operators, and
`Buffer` is a memref with `load` and `store`:

    with code.loop(0, n, step=16) as i:
        y.store(x.load(i, lanes=16) * scale + 1.0, i)
    total = code.fold(0, n, [zero], lambda i, sums: [sums[0] + x.load(i)])

Python numbers become constants of the other operand's type, scalars are broadcast to the lanes of a vector, and index
arithmetic on known numbers emits no operations. Integers are signed. Floats are IEEE: every operator rounds its result.
"""

import abc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    VectorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.codegen.value import INDEX, Kind, Value
from qmlir.dialects import simd
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.types import dtype_of, is_integer, is_memref, is_vector, row_of, vector_of

WIDTHS = (16, 8)
"""Lanes of the vectors that `Code.spans` uses, widest first; the remaining elements are processed one by one."""


def element_bytes(type: MemRefType[Attribute]) -> int:
    """The bytes of an element of a buffer."""
    element = type.element_type
    return 8 if isinstance(element, IndexType) else dtype_of(element).itemsize


def _alignment(type: MemRefType[Attribute]) -> IntegerAttr:
    """The alignment of a buffer on the stack: a cache line, or the power of two that holds a smaller buffer."""
    size = prod(type.get_shape()) * element_bytes(type)
    return IntegerAttr(min(CACHE_LINE, 1 << max(size - 1, 0).bit_length()), i64)


class Buffer:
    """A memref: of static shape, or a row of elements whose number is not known."""

    __slots__ = ("code", "element", "shape", "ssa")

    def __init__(self, code: "Code", ssa: SSAValue):
        assert is_memref(ssa.type)
        self.code = code
        self.ssa = ssa
        self.element: Attribute = ssa.type.element_type
        self.shape = ssa.type.get_shape()

    def load(self, *indices: Value | int, lanes: int | None = None) -> Value:
        """Loads the element at `indices`, or a vector of `lanes` consecutive elements that starts there."""
        operands = [self.ssa, *self._indices(indices)]
        if lanes is None:
            return self.code.emit(memref.LoadOp, operands, self.element)
        return self.code.emit(vector.LoadOp, operands, vector_of(self.element, lanes))

    def chunk(self, number: Value, lanes: int) -> Value:
        """Loads vector `number` of a row of elements that is divided into vectors of so many lanes."""
        return self.load(number * lanes, lanes=lanes)

    def store(self, value: Value, *indices: Value | int) -> None:
        """Stores a scalar at `indices`, or a vector to the consecutive elements that start there."""
        kind = memref.StoreOp if value.lanes is None else vector.StoreOp
        self.code.add(kind.create(operands=[value.ssa, self.ssa, *self._indices(indices)]))

    def _indices(self, indices: Sequence[Value | int]) -> list[SSAValue]:
        assert len(indices) == len(self.shape), f"{len(indices)} indices into {self.ssa.type}"
        return [self.code.index(i).ssa if isinstance(i, int) else i.ssa for i in indices]


class Microkernel(abc.ABC):
    """A function for the inner loops of kernels; subclasses are frozen dataclasses whose fields determine its code.

    What differs between layers of one kind (sizes, strides, positions) is passed to it, so that the kernels of many
    layers call one function, which is compiled once.
    """

    @property
    @abc.abstractmethod
    def symbol(self) -> str:
        """The name of the function without its number."""

    @property
    @abc.abstractmethod
    def arguments(self) -> Sequence[str]:
        """Name hints of the function's arguments."""

    @abc.abstractmethod
    def write(self, code: "Code", buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        """Writes the function body; each buffer is a row of elements (`memref<?xT>`), the numbers are indices."""


class Numbers:
    """Numbers that a microkernel takes, an argument each; subclasses are dataclasses of values."""

    @classmethod
    def names(cls) -> list[str]:
        """The names of the arguments."""
        return [field.name for field in fields(cls)]  # pyright: ignore[reportArgumentType]

    @property
    def numbers(self) -> Sequence[Value]:
        """All numbers, in the order of the fields."""
        return [getattr(self, name) for name in self.names()]


Functions: TypeAlias = Callable[[Microkernel, Sequence[Attribute]], str]
"""The symbol of a microkernel's function for argument types; the function is written if it does not exist yet."""


class Code:
    """A function body under construction: new operations go to the innermost open loop or branch.

    Constants and stack buffers go to the top of the function; equal constants are created once.
    """

    def __init__(self, entry: Block, functions: Functions | None = None, *, vectors: bool = True):
        """Begins a body.

        Args:
            entry: The function's block.
            functions: Where microkernels are found, for code that calls them.
            vectors: Whether the processor computes with vectors; `spans` covers everything with scalars otherwise.
        """
        self.vectors = vectors
        self._block = entry
        self._entry = entry
        self._functions = functions
        self._top: list[Operation] = []
        self._constants: dict[tuple[int | float | str, Attribute], SSAValue] = {}
        self._flat: dict[SSAValue, SSAValue] = {}

    def finish(self) -> None:
        """Inserts the constants and stack buffers at the top of the function; must be the last call."""
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
        """Appends an operation and returns its result."""
        op = kind.create(operands=operands, result_types=[type], properties=properties or {})
        self._block.add_op(op)
        return Value(self, type, op.results[0])

    def dot_pairs(self, accumulator: Value, a: Value, b: Value) -> Value:
        """accumulator[i] + a[2i]·b[2i] + a[2i+1]·b[2i+1]: i16 lanes, i32 accumulators."""
        return self.emit(simd.DotI16PairsOp, [accumulator.ssa, a.ssa, b.ssa], accumulator.type)

    def dot_quads(self, accumulator: Value, a: Value, b: Value, *, pairs_fit: bool) -> Value:
        """accumulator[i] + Σ_{j<4} a[4i+j]·b[4i+j]: u8 by i8, i32 accumulators; see simd for `pairs_fit`."""
        properties: dict[str, Attribute] = {"pairs_fit": UnitAttr()} if pairs_fit else {}
        operands = [accumulator.ssa, a.ssa, b.ssa]
        return self.emit(simd.DotU8I8QuadsOp, operands, accumulator.type, properties)

    def dot_signed_quads(self, accumulator: Value, a: Value, b: Value) -> Value:
        """accumulator[i] + Σ_{j<4} a[4i+j]·b[4i+j]: i8 by i8, i32 accumulators."""
        return self.emit(simd.DotI8QuadsOp, [accumulator.ssa, a.ssa, b.ssa], accumulator.type)

    def dot_wide_quads(self, accumulator: Value, a: Value, b: Value) -> Value:
        """accumulator[i] + Σ_{j<4} a[4i+j]·b[4i+p(j)]: i16 by i8, i32 accumulators; see simd for the places p."""
        return self.emit(simd.DotI16I8QuadsOp, [accumulator.ssa, a.ssa, b.ssa], accumulator.type)

    def dot_bytes(self, accumulator: Value, a: Value, b: Value) -> Value:
        """accumulator + Σ a[i]·b[i]: a scalar of i32, vectors of i8."""
        return self.emit(simd.DotI8Op, [accumulator.ssa, a.ssa, b.ssa], accumulator.type)

    def permute_bytes(self, x: Value, places: Value) -> Value:
        """x[16·(i div 16) + places[i]]: vectors of i8."""
        return self.emit(simd.PermuteBytesOp, [x.ssa, places.ssa], x.type)

    def lookup_bytes(self, table: Value, places: Value) -> Value:
        """table[places[i]], where the places, vectors of i8, count as unsigned; the table is of i8, see simd."""
        return self.emit(simd.LookupBytesOp, [table.ssa, places.ssa], places.type)

    def multiply_shift_round(
        self, a: Value, multiplier: Value, shift: Value, offset: Value | None = None, *, drops_33: bool = False
    ) -> Value:
        """(a·multiplier + 2^(30−shift)) >> (31−shift) on vectors of i32, for results that fit i32; see simd."""
        operands = [a.ssa, multiplier.ssa, shift.ssa, *([] if offset is None else [offset.ssa])]
        properties: dict[str, Attribute] = {"drops_33": UnitAttr()} if drops_33 else {}
        return self.emit(simd.MulShiftRoundOp, operands, a.type, properties)

    def multiply_add_shift_round(self, a: Value, p: Value, b: Value, q: Value, shift: Value) -> Value:
        """(a·p + b·q + 2^(shift−1)) >> shift on vectors of i32, for results that fit i32 and shifts of at least 32."""
        return self.emit(simd.MulAddShiftRoundOp, [x.ssa for x in (a, p, b, q, shift)], a.type)

    def saturate_bytes(self, x: Value) -> Value:
        """Lanes of i32 as bytes, clamped to [−128, 127]."""
        return self.emit(simd.SaturateBytesOp, [x.ssa], vector_of(i8, x.lanes or 1))

    def add_bytes(self, a: Value, b: Value, *factors: Value) -> Value:
        """Weighted sums of vectors of bytes, saturated; `factors` are the operation's high, low, k_h, k_l and shift."""
        return self.emit(simd.AddBytesOp, [a.ssa, b.ssa, *(x.spread(a.lanes).ssa for x in factors)], a.type)

    def add_words(self, a: Value, b: Value, *factors: Value) -> Value:
        """Weighted sums of vectors of words, saturated; `factors` are the operation's high, low, k_h, k_l and shift."""
        return self.emit(simd.AddWordsOp, [a.ssa, b.ssa, *(x.spread(a.lanes).ssa for x in factors)], a.type)

    def load_matrix(self, x: Buffer, at: Value, apart: Value, rows: int, columns: int) -> Value:
        """Rows of a matrix: x[at + r·apart + c], in a register of the processor's matrix unit."""
        type = VectorType(x.element, [rows, columns])
        return self.emit(simd.LoadMatrixOp, [x.ssa, at.ssa, apart.ssa], type)

    def prefetch(self, x: Buffer, at: Value) -> None:
        """Asks for the cache line of x[at]."""
        self.add(simd.PrefetchOp(x.ssa, at.ssa))

    def store_matrix(self, matrix: Value, y: Buffer, at: Value, apart: Value) -> None:
        """Stores the rows of a matrix to y[at + r·apart + c]."""
        self.add(simd.StoreMatrixOp(matrix.ssa, y.ssa, at.ssa, apart.ssa))

    def dot_matrices(self, accumulator: Value, a: Value, b: Value) -> Value:
        """accumulator[i, j] + Σ_k Σ_{t<4} a[i, 4k+t]·b[k, 4j+t]: matrices of i8, i32 accumulators."""
        return self.emit(simd.DotI8MatricesOp, [accumulator.ssa, a.ssa, b.ssa], accumulator.type)

    def call(self, function: Microkernel, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        """Calls a microkernel, which gets each buffer as the row of its elements in row-major order."""
        assert self._functions is not None
        operands = [*(self._row(buffer) for buffer in buffers), *(number.ssa for number in numbers)]
        self.add(func.CallOp(self._functions(function, [operand.type for operand in operands]), operands, []))

    def _row(self, buffer: Buffer) -> SSAValue:
        """A buffer, an argument of this function or on its stack, as a row of elements whose number is not known."""
        if (made := self._flat.get(buffer.ssa)) is not None:
            return made
        size, row = prod(buffer.shape), buffer.ssa
        if len(buffer.shape) != 1:
            type = MemRefType(buffer.element, [size])
            view = memref.ReinterpretCastOp(row, [], [], [], [0], [size], [1], type)
            self._top.append(view)
            row = view.results[0]
        cast = memref.CastOp.get(row, row_of(buffer.element))
        self._top.append(cast)
        self._flat[buffer.ssa] = cast.results[0]
        return cast.results[0]

    # -- constants and memory --------------------------------------------------------------------------------------

    def index(self, number: "Value | int") -> Value:
        """An index value whose number is known; a `Value` is returned as it is."""
        return number if isinstance(number, Value) else Value(self, INDEX, known=number)

    def constant(self, number: float, type: Attribute) -> Value:
        """A constant of any type; a vector constant has the number in every lane."""
        if type == INDEX:
            return self.index(int(number))
        return Value(self, type, self.constant_ssa(number, type))

    def zeros(self, element: Attribute, lanes: int | None) -> Value:
        """A zero scalar, or a vector of `lanes` zeros."""
        return self.constant(0, vector_of(element, lanes) if lanes else element)

    def constant_ssa(self, number: float, type: Attribute) -> SSAValue:
        """The IR value of a constant operation; equal numbers of one type share one operation."""
        element = type.element_type if is_vector(type) else type
        # Nearly all numbers are integers, and there are sixteen classes of floats to compare with.
        floating = None if is_integer(element) or element == INDEX or not isinstance(element, AnyFloat) else element
        key = (int(number) if floating is None else float(number).hex(), type)  # hex tells −0 from 0
        if (made := self._constants.get(key)) is not None:
            return made
        value: Attribute
        if is_vector(type):
            lane = int(number) if floating is None else float(number)
            dense: Any = DenseIntOrFPElementsAttr  # the overloads of from_list do not cover vectors of any element type
            value = dense.from_list(type, [lane])
        elif floating is not None:
            value = FloatAttr(float(number), floating)
        else:
            assert is_integer(element) or isinstance(element, IndexType)
            value = IntegerAttr(int(number), element)
        op = arith.ConstantOp.create(result_types=[type], properties={"value": value})
        self._top.append(op)
        self._constants[key] = op.results[0]
        return op.results[0]

    def scratch(self, shape: Sequence[int], element: Attribute, name: str) -> Buffer:
        """Allocates an uninitialized buffer that lasts until the function returns; `name` is the IR's name hint.

        It is on the stack, until the pass `hoist-scratch` moves what is large to the arena. What stays would take more
        stack for its alignment than for itself, if it were aligned to a cache line.
        """
        type = MemRefType(element, shape)
        segments = DenseArrayBase.from_list(i32, (0, 0))
        op = memref.AllocaOp.create(
            result_types=[type], properties={"alignment": _alignment(type), "operandSegmentSizes": segments}
        )
        op.results[0].name_hint = name
        self._top.append(op)
        return Buffer(self, op.results[0])

    # -- control -----------------------------------------------------------------------------------------------

    @contextmanager
    def loop(self, begin: Value | int, end: Value | int, step: int = 1, name: str = "i") -> Generator[Value]:
        """Opens a loop: for i = begin; i < end; i += step.

        If the loop is known to run once, only its body is emitted. `name` is the name hint of the index.
        """
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
        """Carries values through a loop: `step` maps the index and the current values to the next values."""
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
        """Opens code that runs if a condition, an i1, is true."""
        with self._arm() as body:
            yield
        self.add(scf.IfOp.create(operands=[condition.ssa], regions=[Region(body), Region()]))

    def branch(self, condition: Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """Writes an if-else: `then` writes the code for a true condition, `otherwise` for a false condition."""
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
        """Covers [begin, end) with vectors and the remainder with scalars.

        `body` gets the first index and the number of lanes (None for a scalar). It is called once for each width that
        may occur. If the bounds are known, it is called only for the widths that do occur.
        """
        at, stop = self.index(begin), self.index(end)
        used = widths if self.vectors else widths[:0]
        for lanes in used:
            if at.known is not None and stop.known is not None:
                limit = self.index(stop.known - (stop.known - at.known) % lanes)
                if limit.known == at.known:
                    continue
            elif lanes != used[0]:
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


def store_valid(code: Code, y: Buffer, lanes: int, valid: Value) -> Callable[[Value, Value], None]:
    """A function that stores the first `valid` lanes of a vector of `lanes`."""
    spill = code.scratch((lanes,), y.element, "spill")

    def store(value: Value, at: Value) -> None:
        def some() -> None:
            spill.store(value, 0)
            code.spans(0, valid, lambda i, count: y.store(spill.load(i, lanes=count), at + i))

        code.branch(valid < lanes, some, lambda: y.store(value, at))

    return store
