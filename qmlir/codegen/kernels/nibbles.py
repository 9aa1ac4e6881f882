"""Layers whose weights have 4 bits and multipliers of 8 bits for each block of inputs: two blocks at a time.

    y[r, o] = finish(b[o] + Σ_g m[o, g] · (2^f[o] · Σ_{i in g} x[r, i] · w[o, i] + k[o, g] · Σ_{i in g} x[r, i]))

A byte holds the weights of two steps, so that one load, a mask and a shift give what two steps multiply. The sum of a
block fits 16 bits. Those of two neighbouring blocks lie beside each other in 32, and one instruction multiplies both by
their multipliers and adds the products; so do the sums of the two blocks' data, which all outputs share:

    for each block of output channels, and a few rows r
      for two neighbouring blocks g
        low[r], high[r] = Σ x · w                  of one block each, in registers of 32 bits
        products[r] += (low[r], high[r]) · (m[g], m[g + 1])
        data[r]     += (Σx[r, g], Σx[r, g + 1]) · ((m · k)[g], (m · k)[g + 1])
      y[r] = finish(b + 2^f · products[r] + data[r])  in 64 bits

Where bytes are multiplied as unsigned by signed ones, weights count from 0 on, and sums start with −8 · Σ x.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.dialects.builtin import MemRefType, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Buffer, Code, Microkernel, Numbers, store_valid
from qmlir.codegen.kernels.interfaces import Arithmetic, Epilogue
from qmlir.codegen.kernels.packed_weights import pack_bits
from qmlir.codegen.kernels.packing import choose_lanes, pack_weights, pad_channels
from qmlir.codegen.kernels.task import Task, call_on
from qmlir.codegen.lowering import Array, Kernel, MainLowering
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value
from qmlir.dialects.qint.requantize import less_zero_point
from qmlir.ir.types import dtype_of

BITS = 4
"""The bits of a weight."""

HALF = 1 << BITS - 1
"""By how much weights that count from 0 on are larger."""

MOST_TOGETHER = 8
"""The most rows that are computed together."""

LONGEST = 64
"""The most inputs of a block; its steps are unrolled."""

LARGEST, MOST_SHIFT = 127, 7
"""The largest magnitude of m and k, and the most bits f."""

SUMMED = 16
"""Elements of a block that are added side by side."""


@dataclass(frozen=True)
class BlockSums(Kernel):
    """y[r, g] = factor · Σ_{i in g} (x[r, i] − zero_point), blocks of `size`. Buffers: x, y."""

    size: int
    blocks: int
    zero_point: int
    factor: int = 1

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        whole = self.size // SUMMED if code.vectors else 0

        with code.loop(begin, end, name="row") as row, code.loop(0, self.blocks, name="block") as block:
            first = block * self.size

            def added(at: Value, lanes: int | None) -> Value:
                return less_zero_point(x.load(row, first + at, lanes=lanes), self.zero_point, dtype_of(i32))

            total = code.zeros(i32, None)
            if whole:
                (found,) = code.fold(
                    0, whole, [code.zeros(i32, SUMMED)], lambda step, s: [s[0] + added(step * SUMMED, SUMMED)]
                )
                lanes = SUMMED
                while lanes > 1:
                    lanes //= 2
                    found = found.lanes_from(0, lanes) + found.lanes_from(lanes, lanes)
                total = found.lane(0)
            (total,) = code.fold(whole * SUMMED, self.size, [total], lambda i, s: [s[0] + added(i, None)])
            y.store((total * self.factor).to(y.element), row, block)


def block_sums(state: MainLowering, x: SSAValue, kernel: BlockSums, rows: int, element: Attribute) -> SSAValue:
    """A buffer of sums of the blocks of rows, [rows, blocks]; layers that read the same rows share it."""
    if (known := state.packed.get((x, kernel))) is not None:
        return known
    y = state.allocate(MemRefType(element, [rows, kernel.blocks]))
    state.call(kernel, [state.view(x, (rows, kernel.blocks * kernel.size)), y], rows)
    state.packed[x, kernel] = y
    return y


@dataclass(frozen=True)
class Products:
    """How steps multiply weights of 4 bits by bytes.

    group     the inputs of a step: four bytes, or two that become words where no instruction adds four products
    unsigned  whether weights count from 0 on, as the unsigned factors
    """

    group: int
    unsigned: bool

    @staticmethod
    def of(machine: Capabilities) -> "Products":
        """The products that a processor with vectors adds fastest."""
        if machine.signed_quads:
            return Products(4, unsigned=False)
        return Products(4, unsigned=True) if machine.quads or machine.byte_pairs else Products(2, unsigned=False)

    def weights(self, packed: Value) -> list[Value]:
        """The weights of two steps, of which each byte holds one."""
        steps = [packed & (1 << BITS) - 1, packed.logical_shift(BITS)]
        return steps if self.unsigned else [self._widened(step - HALF) for step in steps]

    def add(self, accumulator: Value, x: Buffer, place: Value, w: Value) -> Value:
        """Adds the products of the inputs from `place` on."""
        code, data = accumulator.code, self._widened(x.load(place, lanes=self.group))
        spread = data.bits(i32).lane(0).spread(accumulator.lanes).bits(data.element)
        if self.group == 2:
            return code.dot_pairs(accumulator, spread, w)
        if self.unsigned:
            return code.dot_quads(accumulator, w, spread, pairs_fit=True)
        return code.dot_signed_quads(accumulator, spread, w)

    def _widened(self, x: Value) -> Value:
        return x.to(i16) if self.group == 2 else x


@dataclass(frozen=True)
class Job(Numbers):
    """What one call of `RowsTimesNibbles` computes.

    block       the block of output channels
    valid       its lanes that are output channels; the others are not stored
    y_at        the first element of the result in the first row
    apart       the elements between rows of the result
    rows        the number of rows
    """

    block: Value
    valid: Value
    y_at: Value
    apart: Value
    rows: Value


@dataclass(frozen=True)
class RowsTimesNibbles(Microkernel):
    """All rows of a result for one block of output channels; a `Job` says which.

    Buffers: see `Nibbles`; each is a row of elements.

    size, blocks   inputs of a block, and blocks of a row
    together       rows that are computed together: they share each load of weights
    has_bias       whether there is a bias, of 64 bits
    partial        whether some block of output channels has lanes that are none
    """

    products: Products
    size: int
    blocks: int
    lanes: int
    together: int
    epilogue: Epilogue
    has_bias: bool
    partial: bool

    @property
    def symbol(self) -> str:
        return "qint_rows_times_nibbles"

    @property
    def arguments(self) -> Sequence[str]:
        names = ["x", "w", "m", "k", "sums", *(["starts"] if self.products.unsigned else []), "f"]
        own = [*(["bias"] if self.has_bias else []), *(f"p{i}" for i in range(self.epilogue.parameters))]
        return [*names, *own, "y", *Job.names()]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        job, first = Job(*numbers), 5 + self.products.unsigned
        *parameters, y = buffers[first:]
        shifts, *own = [p.load(job.block * self.lanes, lanes=self.lanes) for p in parameters]
        shifts, bias = shifts.to(i64), own.pop(0) if self.has_bias else None
        store = store_valid(code, y, self.lanes, job.valid) if self.partial else y.store

        def rows(begin: Value | int, end: Value, together: int) -> None:
            with code.loop(begin, end, together, name="row") as row:
                for p, (products, data) in enumerate(self._totals(code, buffers[:first], job, row, together)):
                    total = (products.to(i64) << shifts) + data.to(i64)
                    total = total if bias is None else total + bias
                    store(self.epilogue.finish(total, own), job.y_at + (row + p) * job.apart)

        whole = job.rows - job.rows % self.together
        rows(0, whole, self.together)
        if self.together > 1:
            rows(whole, job.rows, 1)

    def _totals(
        self, code: Code, buffers: Sequence[Buffer], job: Job, row: Value, together: int
    ) -> Sequence[tuple[Value, Value]]:
        """The sums of products and of data, of `together` rows from `row` on."""
        _, _, m, k, sums, *_ = buffers
        pairs, lanes = self.blocks // 2, self.lanes

        def over_pair(j: Value, totals: list[Value]) -> Sequence[Value]:
            at = (job.block * pairs + j) * (2 * lanes)
            factors = m.load(at, lanes=2 * lanes).to(i16)
            offsets = k.load(at, lanes=2 * lanes).to(i16) * factors
            low, high = (self._block(code, buffers, job, row, j * 2 + side, together) for side in range(2))
            found: list[Value] = []
            for p, (a, b) in enumerate(zip(low, high, strict=True)):
                both = ((a & 0xFFFF) | (b << 16)).bits(i16)
                data = sums.load((row + p) * self.blocks + j * 2, lanes=2).bits(i32).lane(0).spread(lanes).bits(i16)
                found.append(code.dot_pairs(totals[2 * p], both, factors))
                found.append(code.dot_pairs(totals[2 * p + 1], data, offsets))
            return found

        found = code.fold(0, pairs, [code.zeros(i32, lanes)] * (2 * together), over_pair, "pair")
        return list(zip(found[::2], found[1::2], strict=True))

    def _block(
        self, code: Code, buffers: Sequence[Buffer], job: Job, row: Value, number: Value, together: int
    ) -> list[Value]:
        """The sums of one block of inputs, of `together` rows from `row` on."""
        x, w, _, _, _, *starts = buffers
        group, chunk = self.products.group, self.lanes * self.products.group
        if starts:
            found = [starts[0].load((row + p) * self.blocks + number).spread(self.lanes) for p in range(together)]
        else:
            found = [code.zeros(i32, self.lanes)] * together
        chunks = self.size // (2 * group)
        for c in range(chunks):
            packed = w.load(((job.block * self.blocks + number) * chunks + c) * chunk, lanes=chunk)
            for side, weights in enumerate(self.products.weights(packed)):
                place = number * self.size + (2 * c + side) * group
                for p in range(together):
                    at = (row + p) * (self.blocks * self.size) + place
                    found[p] = self.products.add(found[p], x, at, weights)
        return found


@dataclass(frozen=True)
class Nibbles(Kernel):
    """A layer of weights of 4 bits with multipliers of blocks; an item is a block of output channels.

    Buffers: x [rows, I], w [blocks of channels, I / (2 · group), lanes · group], m and k [blocks of channels, G / 2,
    lanes · 2], the sums of the blocks of rows i16 [rows, G], −8 times these i32 if weights are unsigned, the bits f
    [blocks of channels · lanes], the bias if there is one, the epilogue's parameters, y [rows, O].
    """

    inner: RowsTimesNibbles
    outputs: int

    @property
    def symbol(self) -> str:
        return "qint_nibbles"

    def arguments(self, count: int) -> Sequence[str]:
        return self.inner.arguments[:count]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        lanes, rows = self.inner.lanes, code.index(buffers[0].shape[0])
        with code.loop(begin, end, name="block") as block:
            valid = (self.outputs - block * lanes).minimum(lanes) if self.inner.partial else code.index(lanes)
            job = Job(block, valid, block * lanes, code.index(self.outputs), rows)
            code.call(self.inner, buffers, job.numbers)


@dataclass(frozen=True)
class Parameters:
    """Multipliers m and k of blocks in 8 bits, [O, G], and the bits f by which m counts more than k, [O]."""

    m: Array
    k: Array
    f: Array

    @staticmethod
    def of(multipliers: Array, offsets: Array) -> "Parameters | None":
        """The parameters whose m · 2^f and m · k are these integers; None if they do not fit 8 bits."""
        found, bits = [np.zeros(multipliers.shape, np.int8) for _ in range(2)], np.full(len(multipliers), -1, np.int8)
        for f in range(MOST_SHIFT, -1, -1):
            m = multipliers.astype(np.int64) >> f
            k = offsets // np.where(m == 0, 1, m)
            fits = (m << f == multipliers) & (k * m == offsets) & (np.abs(m) <= LARGEST) & (np.abs(k) <= LARGEST)
            rows = fits.all(axis=1) & (bits < 0)
            bits[rows] = f
            for into, own in zip(found, (m, k), strict=True):
                into[rows] = own[rows].astype(np.int8)
        return None if (bits < 0).any() else Parameters(found[0], found[1], bits)


def why_not(task: Task[Arithmetic], machine: Capabilities) -> str:
    """Why the kernel does not suit a task; empty if it does."""
    weights, multipliers, offsets = task.weights, task.multipliers, task.offsets
    if isinstance(weights, SSAValue) or multipliers is None or offsets is None:
        return "blocks have no offsets"
    if task.element != i8 or task.arithmetic.zero_point or task.levels.bits > BITS:
        return "data are no bytes without a zero point, or weights have more than 4 bits"
    size = weights.shape[3]
    if size > LONGEST or size % (2 * Products.of(machine).group) or weights.shape[2] % 2:
        return f"blocks of {size} are no whole steps, or not even in number"
    magnitudes = np.abs(weights[:, 0].astype(np.int64)).sum(axis=2)
    if max(int(magnitudes.max(initial=0)), size) * task.largest >= 1 << 15:
        return "sums of blocks leave 16 bits"
    parameters = Parameters.of(multipliers, offsets)
    if parameters is None:
        return "multipliers leave 8 bits"
    products = (magnitudes * np.abs(parameters.m.astype(np.int64))).sum(axis=1)
    data = size * np.abs(offsets.astype(np.int64)).sum(axis=1)
    return "" if max(products.max(initial=0), data.max(initial=0)) * task.largest < 1 << 31 else "sums leave 32 bits"


def lower_nibbles(state: MainLowering, task: Task[Arithmetic]) -> None:
    """Calls the kernel for a task that it suits."""
    weights, multipliers, offsets, machine = task.weights, task.multipliers, task.offsets, state.machine
    assert not isinstance(weights, SSAValue)
    assert multipliers is not None
    assert offsets is not None
    assert not isinstance(task.bias, SSAValue)
    parameters, products = Parameters.of(multipliers, offsets), Products.of(machine)
    assert parameters is not None
    _, _, blocks, size = weights.shape
    rows, lanes = task.window.output[1], choose_lanes(task.outputs)
    together = max(1, min(MOST_TOGETHER, rows, machine.sum_bits // (4 * 32 * lanes)))
    partial = task.outputs % lanes != 0
    inner = RowsTimesNibbles(
        products, size, blocks, lanes, together, task.epilogue, has_bias=task.bias is not None, partial=partial
    )
    bias = [] if task.bias is None else [task.bias]
    laid_out = pack_weights(weights, lanes, products.group)
    sums = BlockSums(size, blocks, 0)
    given = [
        state.constant(pack_bits(laid_out, BITS, 2 * lanes * products.group)),
        *(state.constant(_in_pairs(a, lanes)) for a in (parameters.m, parameters.k)),
        block_sums(state, task.x, sums, rows, i16),
        *([block_sums(state, task.x, replace(sums, factor=-HALF), rows, i32)] if products.unsigned else []),
        *(state.constant(pad_channels(p, lanes)) for p in (parameters.f, *bias, *task.parameters)),
    ]
    kernel = Nibbles(inner, task.outputs)
    call_on(
        state, task, kernel, -(-task.outputs // lanes), (task.x, (rows, blocks * size)), given, (rows, task.outputs)
    )


def _in_pairs(parameters: Array, lanes: int) -> Array:
    """Parameters [O, G] as [blocks of channels, G / 2, lanes, 2], flattened, with zeros after the last channel."""
    outputs, blocks = parameters.shape
    padded = np.pad(parameters, ((0, -outputs % lanes), (0, 0))).reshape(-1, lanes, blocks // 2, 2)
    return np.ascontiguousarray(padded.transpose(0, 2, 1, 3)).reshape(-1)
