"""Builds the commands of a contraction's tiles for the cost model, and packs weights in the array's order."""

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from qmlir.devices import Device
from qmlir.devices.description import Memory, Queue
from qmlir.devices.footprints import footprint
from qmlir.devices.schema import Role
from qmlir.isa.blocks import Footprint
from qmlir.isa.commands import (
    Arithmetic,
    Convolve,
    ConvolveDepthwise,
    Init,
    Move,
    Operation,
    Post,
    SetContext,
    Step,
    Window,
)
from qmlir.isa.encoding import Command, Place
from qmlir.numerics import Array
from qmlir.transforms.npu.tile.engines import Engines
from qmlir.transforms.npu.tile.work import Work

# ---------------------------------------------------------------------------------------------------------------
# Packs weights in the order in which the array reads them: tile after tile, zero-padded to whole tiles.


def packed(weights: Array, device: Device) -> Array:
    """Weights [O, …] for one `Convolve`: [O / n, terms / k, n, k], where n by k is the tile of the device's layout."""
    outputs = weights.shape[0]
    matrix = weights.reshape(outputs, -1)
    n, k = device.layout.tile
    padded = np.pad(matrix, ((0, -outputs % n), (0, -matrix.shape[1] % k)))
    tiles = padded.reshape(padded.shape[0] // n, n, padded.shape[1] // k, k)
    return np.ascontiguousarray(tiles.transpose(0, 2, 1, 3))


def packed_size(outputs: int, terms: int, bits: int, device: Device) -> int:
    """The size of packed weights in bytes."""
    n, k = device.layout.tile
    return -(-outputs // n) * n * -(-terms // k) * k * bits // 8


# ---------------------------------------------------------------------------------------------------------------
# Builds the commands of a contraction's tiles for the cost model; all addresses are 0.


@dataclass(frozen=True)
class Shape:
    """The size of a tile: rows, columns and output channels of the result, and input channels of a slice."""

    rows: int
    columns: int
    outputs: int
    terms: int


@cache
def cut(total: int, tile: int) -> tuple[tuple[int, int], ...]:
    """(size, count) of the tiles that cover a total: full tiles, and a smaller last tile if there is a remainder."""
    full, rest = divmod(total, tile)
    return tuple((size, count) for size, count in ((tile, full), (rest, 1)) if size and count)


class TileCommands:
    """The commands of a contraction's tiles on a device."""

    def __init__(self, work: Work, device: Device, engines: Engines):
        self.work, self.device, self.engines = work, device, engines
        self._numbers = {memory.id: n for n, memory in enumerate(device.memory)}
        self._reading = engines.reading(engines.array)
        self._operand_reading = engines.reading(engines.post)
        self._writing = engines.writing(engines.post)
        self._staging = engines.staging("weights", engines.constants("weights"))
        self._context = SetContext(
            engines.index(engines.post), (), 0, Step.REQUANTIZE, work.result_bits, 0, 0, 0, 0, 0,
            int(work.per_channel), self._constant(engines.tables()),
        )  # fmt: skip

    def touched(self, command: Command) -> Footprint:
        """The bytes that a command reads and writes."""
        return footprint(command, self.device, {0: self._context})

    def sums(self, rows: int, columns: int, outputs: int, terms: int) -> Window:
        """The command that adds the products of a slice of the input channels."""
        work = self.work
        seen = work.most_seen(0, rows), work.most_seen(1, columns)
        channels = outputs if work.depthwise else terms
        pixel = channels * work.data_bits // 8
        fields: dict[str, Any] = dict(
            queue=self.engines.index(self.engines.array), waits=(), ctx=0,
            data=self._place(self._reading[0] if self._reading else self.engines.external),
            weights=self._constant("weights"), bias=self._constant("bias"), sums=self._place(self.engines.sums),
            init=Init.BIAS, data_bits=work.data_bits, weight_bits=work.weight_bits, sum_bits=work.sum_bits,
            bias_bits=work.bias_bits, bias_shift=0,
            zero_point=0, weight_zero_point=0, rows=seen[0], columns=seen[1], channels=channels,
            row_pitch=seen[1] * pixel, pixel_pitch=pixel, out_rows=rows, out_columns=columns,
            kernel_rows=work.kernel[0], kernel_columns=work.kernel[1], stride_rows=work.stride[0],
            stride_columns=work.stride[1], dilation_rows=work.dilation[0], dilation_columns=work.dilation[1], top=0,
            left=0,
        )  # fmt: skip
        return ConvolveDepthwise(**fields) if work.depthwise else Convolve(**fields, out_channels=outputs)

    def following(self, rows: int, columns: int, outputs: int) -> list[Command]:
        """The commands that turn sums into results."""
        work = self.work
        number, pixel = self.engines.index(self.engines.post), outputs * work.result_bits // 8
        pitches = columns * pixel, pixel
        between = self._place(self.engines.between[0])
        stays = self.engines.staying if work.inside.result else None
        result = self._place(stays or (self._writing[0] if self._writing else self.engines.external))
        operand = self._place(self._operand_reading[0] if self._operand_reading else self.engines.external)
        steps = work.posts + work.operands
        targets = [between] * (steps - 1) + [result]
        sums_pixel = outputs * work.sum_bits // 8
        found: list[Command] = []
        for step, target in enumerate(targets):
            if step < work.posts:
                source, bits, (row, at) = between, work.result_bits, pitches
                if not step:
                    source, bits = self._place(self.engines.sums), work.sum_bits
                    row, at = columns * sums_pixel, sums_pixel
                found.append(Post(number, (), 0, source, bits, rows, columns, outputs, row, at, target, *pitches))
            else:
                arithmetic = Arithmetic(
                    number, (), 0, Operation.ADD, work.result_bits, between, operand, target, rows, columns, outputs,
                    *pitches, *pitches, *pitches, 0, 0, 1, 1, 1,
                )  # fmt: skip
                found.append(arithmetic)
        return found

    def moved(self, rows: int, columns: int, outputs: int) -> list[Command]:
        """The commands that load the other operands of a tile and store its results."""
        brought = self.work.operands - self.work.inside.operands
        return brought * self._operand(rows, columns, outputs) + self.stored(rows, columns, outputs)

    def data(self, rows: int, columns: int, channels: int) -> list[Command]:
        """The commands that load a slice of the data."""
        work = self.work
        if work.inside.data:
            return []
        seen = work.most_seen(0, rows), work.most_seen(1, columns)
        whole = work.columns, work.channels
        return self._transfer(self._reading, (*seen, channels), whole, work.data_bits)

    def weights(self, outputs: int, terms: int) -> list[Command]:
        """The commands that load the weights of some output channels and a slice of the input channels."""
        work = self.work
        if self._staging is None:
            return []
        if work.depthwise:
            size = work.taps * outputs * work.weight_bits // 8
        else:
            size = packed_size(outputs, work.taps * terms, work.weight_bits, self.device)
        memory, queue = self._staging
        return [self._move(self.engines.constants("weights"), memory, queue, size, 1)]

    def stored(self, rows: int, columns: int, outputs: int) -> list[Command]:
        """The commands that store the results of a tile."""
        work = self.work
        if work.inside.result:
            return []
        whole = work.out_columns, work.out_channels
        return self._transfer(self._writing, (rows, columns, outputs), whole, work.result_bits, leaves=True)

    def _operand(self, rows: int, columns: int, outputs: int) -> list[Command]:
        work = self.work
        whole = work.out_columns, work.out_channels
        return self._transfer(self._operand_reading, (rows, columns, outputs), whole, work.result_bits)

    def _transfer(
        self,
        way: tuple[Memory, Queue] | None,
        shape: tuple[int, int, int],
        whole: tuple[int, int],
        bits: int,
        leaves: bool = False,
    ) -> list[Command]:
        """The transfers of a box between the external memory and the device.

        Args:
            way: The memory inside the device and the queue that moves the box; None emits no command.
            shape: Rows, columns and channels of the box.
            whole: Columns and channels of the tensor in external memory.
            bits: Width of an element.
            leaves: Whether the box leaves the device; otherwise it enters.
        """
        if way is None:
            return []
        (memory, queue), outside = way, self.engines.external
        rows, columns, channels = shape
        runs = rows * columns if channels < whole[1] else rows if columns < whole[0] else 1
        size = prod(shape) // runs * bits // 8
        source, target = (memory, outside) if leaves else (outside, memory)
        commands = 1 if queue.dims > 1 else runs
        return [self._move(source, target, queue, size, runs // commands)] * commands

    def _move(self, source: Memory, target: Memory, queue: Queue, size: int, runs: int) -> Command:
        number = self.engines.index(queue)
        return Move(number, (), 0, self._place(source), self._place(target), size, runs, 1, size, 0, size, 0)

    def _constant(self, role: Role) -> Place:
        """The place where commands read the constants of a role."""
        source = self.engines.constants(role)
        way = self.engines.staging(role, source)
        return self._place(source if way is None else way[0])

    def _place(self, memory: Memory) -> Place:
        return Place(self._numbers[memory.id], 0)
