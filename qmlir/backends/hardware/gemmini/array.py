"""Gemmini's memories, and what its commands of one matrix do: moves in and out, and products in the array."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qmlir.backends.hardware.gemmini.arithmetic import scaled, shifted
from qmlir.backends.hardware.gemmini.words import (
    ACCUMULATOR,
    ACCUMULATOR_ROWS,
    ADD,
    DIM,
    FULL,
    NOTHING,
    SCRATCHPAD_ROWS,
    Function,
    InstructionError,
    fields,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROW, _NORM = (1 << 29) - 1, 7 << 26


@dataclass
class Way:
    """How one of the three moves goes in.

    stride        bytes between rows in memory
    block_stride  rows between blocks of 16 columns
    scale         the factor of int8
    small         whether int8 goes into the accumulator
    pixels        how many neighbours a row holds, each with all channels
    """

    stride: int = 0
    block_stride: int = DIM
    scale: float = 1.0
    small: bool = False
    pixels: int = 1


@dataclass
class Execution:
    """How the array computes.

    a_stride, c_stride  rows between the rows of A, and between those of the result
    """

    weights_stay: bool = False
    relu: bool = False
    shift: int = 0
    a_stride: int = 1
    c_stride: int = 1
    transpose_a: bool = False
    transpose_b: bool = False


@dataclass
class Outward:
    """How data goes out.

    pool  the fields of maximum pools; None without one
    """

    stride: int = 0
    scale: float = 1.0
    relu: bool = False
    pool: dict[str, int] | None = None


@dataclass(eq=False)
class Array:
    """Gemmini's memories and its array after a reset, and a memory of bytes.

    memory       uint8
    scratchpad   int8 [16384, 16]
    accumulator  int32 [1024, 16]
    held         int32 [16, 16]: what the array keeps, weights or sums
    halves       the rows of the accumulator at which the next convolution's bias, and its result, begin
    """

    memory: "NDArray[np.uint8]"
    ways: list[Way] = field(default_factory=lambda: [Way() for _ in range(3)])
    execution: Execution = field(default_factory=Execution)
    outward: Outward = field(default_factory=Outward)
    loop: dict[str, int] = field(default_factory=dict[str, int])
    conv: dict[str, int] = field(default_factory=dict[str, int])
    halves: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        self.scratchpad = np.zeros((SCRATCHPAD_ROWS, DIM), np.int8)
        self.accumulator = np.zeros((ACCUMULATOR_ROWS, DIM), np.int32)
        self.held = np.zeros((DIM, DIM), np.int32)
        self.preloaded = fields(Function.PRELOAD, NOTHING, NOTHING)

    # -- moves

    def move_in(self, which: int, address: int, local: int, rows: int, columns: int) -> None:
        """Moves a matrix from memory, in blocks of 16 columns; zeros, if the address is 0."""
        way, sums = self.ways[which], bool(local & ACCUMULATOR)
        target = self.accumulator if sums else self.scratchpad
        wide = sums and not way.small
        if address == 0:
            values: Any = np.zeros((rows, columns), np.int8)
        else:
            held = self.bytes(address, rows, columns * (4 if wide else 1), way.stride)
            values = np.ascontiguousarray(held).view("<i4") if wide else held.view(np.int8)
            if not wide and way.scale != 1:
                values = scaled(values, way.scale)
        if way.pixels > 1 and way.pixels * columns > DIM:
            raise InstructionError(f"pixels of a row must have at most {DIM} channels", got=f"{way.pixels * columns}")
        base, adds = local & _ROW, sums and bool(local & ADD)
        # blocks that share rows are written row by row, the later one over the earlier one
        parts = range(rows) if way.block_stride < rows and columns > DIM else None
        for some in [slice(0, rows)] if parts is None else [slice(row, row + 1) for row in parts]:
            for block, first in enumerate(range(0, columns, DIM)):
                part = values[some, first : first + DIM]
                self._put(target, base + some.start + block * way.block_stride, part, 0, adds)
        for pixel in range(1, way.pixels):
            skipped = max(pixel - base, 0)  # rows before the first one are not there
            self._put(target, base + skipped - pixel, values[skipped:], pixel * columns, adds)

    def _put(self, target: Any, row: int, values: Any, column: int, adds: bool) -> None:
        """Writes rows of at most 16 columns, or adds them."""
        if not len(values):
            return
        inside(target, row, row + len(values) - 1)
        held = target[row : row + len(values), column : column + values.shape[1]]
        if adds:
            held += values.astype(np.int32)
        else:
            held[:] = values

    def move_out(self, address: int, local: int, rows: int, columns: int) -> None:
        """Moves a matrix to memory: rescaled to int8, in 32 bits, or the maxima of windows."""
        if local & ACCUMULATOR and local & _NORM:
            raise InstructionError("sums must move out without a normalization", got=f"local address {local:#x}")
        base, out = local & (1 << 26) - 1, self.outward
        if out.pool is not None:
            self._pool(address, bool(local & ACCUMULATOR), base, columns, out.pool)
            return
        source = self.accumulator if local & ACCUMULATOR else self.scratchpad
        blocks = list[Any]()
        for block, first in enumerate(range(0, columns, DIM)):
            start = base + block * DIM
            inside(source, start, start + rows - 1)
            blocks.append(source[start : start + rows, : columns - first])
        values: Any = np.concatenate(blocks, 1) if blocks else np.zeros((rows, 0), np.int8)
        if local & ACCUMULATOR:
            values = values.astype("<i4") if local & FULL else self._outward(values)
        data = np.ascontiguousarray(values).view(np.uint8).reshape(rows, -1)
        if out.stride >= data.shape[1]:
            self.bytes(address, *data.shape, out.stride)[:] = data
        else:  # rows that share bytes: the later one is written over the earlier one
            for row in range(rows):
                self.bytes(address + row * out.stride, 1, data.shape[1], 0)[:] = data[row]

    def _outward(self, sums: Any) -> Any:
        values = scaled(sums, self.outward.scale)
        return np.maximum(values, 0) if self.outward.relu else values

    def _pool(self, address: int, sums: bool, base: int, channels: int, pool: dict[str, int]) -> None:
        """Writes the maxima of windows [pool_rows, pool_columns, channels]; outside of the image there is 0."""
        if channels > DIM:
            raise InstructionError(f"a pool must have at most {DIM} channels", got=str(channels))
        height, width, size, step = (pool[key] for key in ("pool_rows", "pool_columns", "pool_size", "pool_stride"))
        source = self.accumulator if sums else self.scratchpad
        most = np.full((height, width, channels), -128, np.int8)
        for down in range(size):
            for right in range(size):
                y = (np.arange(height) * step + down - pool["pool_above"])[:, None]
                x = (np.arange(width) * step + right - pool["pool_left"])[None]
                there = (y >= 0) & (y < pool["rows"]) & (x >= 0) & (x < pool["columns"])
                row = np.where(there, base + y * pool["columns"] + x, 0)
                if row.size:
                    inside(source, 0, int(row.max()))
                values = source[row][..., :channels]
                values = self._outward(values) if sums else values
                most = np.maximum(most, np.where(there[..., None], values, np.int8(0)))
        for row in range(height):
            start = address + row * pool["result_columns"] * self.outward.stride
            self.bytes(start, width, channels, self.outward.stride)[:] = most[row].view(np.uint8)

    def bytes(self, address: int, rows: int, width: int, stride: int) -> Any:
        """A view of bytes of the memory [rows, width]."""
        if not rows or not width:
            return np.zeros((rows, width), np.uint8)
        end = address + (rows - 1) * stride + width
        if end > self.memory.size:
            need = f"bytes must lie in the {self.memory.size} bytes of memory"
            raise InstructionError(need, got=f"up to {end:#x}")
        return np.lib.stride_tricks.as_strided(self.memory[address:], (rows, width), (stride, 1))

    # -- the array

    def compute(self, given: dict[str, int], preloads: bool) -> None:
        """Multiplies two matrices, and writes the sums where the last preload says."""
        own, pre = self.execution, self.preloaded
        rows, columns = given["a_rows"], given["a_columns"]
        if max(rows, columns, pre["result_rows"], pre["result_columns"]) > DIM:
            got = f"A {rows}x{columns}, a result {pre['result_rows']}x{pre['result_columns']}"
            raise InstructionError(f"matrices must have at most {DIM} rows and columns", got=got)
        if preloads:
            self.hold(pre["held"], pre["held_rows"], pre["held_columns"])
        if given["a"] == NOTHING and own.weights_stay:
            raise InstructionError("the first operand must be a matrix", got="the address for nothing")
        a = self.matrix(given["a"], rows, columns, own.a_stride, own.transpose_a)
        size = given["other_rows"], given["other_columns"]
        if own.weights_stay:
            sums = a @ self.held + self.matrix(given["other"], *size)
        else:
            self.held = self.held + a @ self.matrix(given["other"], *size, transposed=own.transpose_b)
            sums = self.held
        if pre["result"] != NOTHING:
            self._finish(sums[: pre["result_rows"], : pre["result_columns"]], pre["result"])

    def hold(self, address: int, rows: int, columns: int) -> None:
        """Takes a matrix into the array, where it stays: weights, or the sums that outputs begin with."""
        own = self.execution
        self.held = self.matrix(address, rows, columns, transposed=own.weights_stay and own.transpose_b)

    def matrix(self, address: int, rows: int, columns: int, stride: int = 1, transposed: bool = False) -> Any:
        """A matrix of int32 [16, 16] from the scratchpad; it has rows and columns as given, and zeros elsewhere."""
        whole, rows, columns = np.zeros((DIM, DIM), np.int32), min(rows, DIM), min(columns, DIM)
        if address == NOTHING or not rows or not columns:
            return whole
        if address & (ACCUMULATOR | ADD):
            raise InstructionError("operands of the array must lie in the scratchpad", got=f"{address:#x}")
        height, width = (columns, rows) if transposed else (rows, columns)
        inside(self.scratchpad, address, address + (height - 1) * stride)
        held = self.scratchpad[address + stride * np.arange(height), :width]
        whole[:rows, :columns] = held.T if transposed else held
        return whole

    def _finish(self, sums: Any, address: int) -> None:
        """Writes sums: as they are to the accumulator, shifted and clamped to the scratchpad."""
        own, base = self.execution, address & _ROW
        rows = base + own.c_stride * np.arange(len(sums))
        target = self.accumulator if address & ACCUMULATOR else self.scratchpad
        if len(rows):
            inside(target, base, int(rows[-1]))
        if address & ACCUMULATOR:
            if address & ADD:
                np.add.at(self.accumulator[:, : sums.shape[1]], rows, sums)
            else:
                for row, values in zip(rows, sums, strict=True):
                    self.accumulator[row, : len(values)] = values
            return
        values = shifted(sums, 0 if own.weights_stay else own.shift).clip(-128, 127)
        for row, some in zip(rows, np.maximum(values, 0) if own.relu else values, strict=True):
            self.scratchpad[row, : len(some)] = some


def inside(memory: Any, first: int, last: int) -> None:
    """Raises an `InstructionError` for rows beyond a local memory."""
    if first < 0 or last >= len(memory):
        name = "scratchpad" if memory.dtype == np.int8 else "accumulator"
        raise InstructionError(f"rows must lie in the {len(memory)} of the {name}", got=f"rows {first} to {last}")
