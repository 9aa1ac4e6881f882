"""Predicts the cost of a contraction's tiling from the commands of its tiles, queue by queue; packs weights."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.devices import Device
from qmlir.devices.description.device import Memory, Queue
from qmlir.devices.description.schema import Role
from qmlir.devices.model.costs import demand
from qmlir.devices.model.encoder import unsayable
from qmlir.devices.model.engines import Engines
from qmlir.devices.model.footprints import footprint
from qmlir.devices.model.room import Kept, Shape, Stay, cut, packed_size
from qmlir.devices.model.work import Work
from qmlir.isa.blocks import Footprint
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    ConvolveDepthwise,
    Init,
    Move,
    Operation,
    Post,
    SetContext,
    Step,
    Unpack,
    Window,
)
from qmlir.isa.encoding import Command, Place
from qmlir.isa.limits import MOST_BYTES, broken
from qmlir.numerics.packing import BYTE, packed_bytes

# ---------------------------------------------------------------------------------------------------------------
# Tilings, and the order in which the array reads weights


Array = npt.NDArray[Any]


def packed(weights: Array, device: Device) -> Array:
    """Weights [O, …] for one `Convolve`: [O / n, terms / k, n, k], where n by k is the tile of the device's layout."""
    outputs = weights.shape[0]
    matrix = weights.reshape(outputs, -1)
    n, k = device.layout.tile
    padded = np.pad(matrix, ((0, -outputs % n), (0, -matrix.shape[1] % k)))
    tiles = padded.reshape(padded.shape[0] // n, n, padded.shape[1] // k, k)
    return np.ascontiguousarray(tiles.transpose(0, 2, 1, 3))


# ---------------------------------------------------------------------------------------------------------------
# The commands of a contraction's tiles; all addresses are 0


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

    def keep_limits(self, shape: Shape) -> bool:
        """Whether a tile's commands keep to the limits of commands, and the device has words for them."""
        return self.refusal(shape) is None and all(
            broken(command) is None and all(block.bytes <= MOST_BYTES for block in (*touched.reads, *touched.writes))
            for command in self._of(shape)
            for touched in (self.touched(command),)
        )

    def refusal(self, shape: Shape) -> str | None:
        """Why the device has no words for a tile's commands, as a sentence; None if it has."""
        if self.device.encoder is None:
            return None
        box = shape.rows, shape.columns, shape.outputs
        commands = (*self._of(shape), *self.data(shape.rows, shape.columns, shape.terms), *self.moved(*box))
        return next((found for each in commands if (found := unsayable(each, self.device)) is not None), None)

    def _of(self, shape: Shape) -> tuple[Command, ...]:
        """The commands of a tile."""
        box = shape.rows, shape.columns, shape.outputs
        return (self.sums(*box, shape.terms), *self.weights(shape.outputs, shape.terms), *self.following(*box))

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
            init=Init.BIAS, bias_shift=0, zero_point=0, weight_zero_point=0, rows=seen[0], columns=seen[1],
            channels=channels, row_pitch=seen[1] * pixel, pixel_pitch=pixel, out_rows=rows, out_columns=columns,
            top=0, left=0, **work.widths, **work.window,
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
        if work.arranged:
            return self._arranged(outputs, terms)
        if self._staging is None:
            return []
        bits, source, (memory, queue) = work.stored_weight_bits, self.engines.constants("weights"), self._staging
        count = work.taps * outputs
        if not work.depthwise:
            count = packed_size(outputs, work.taps * terms, BYTE, self.device)
        if bits == work.weight_bits:
            return [self._move(source, memory, queue, packed_bytes(count, bits), 1)]
        places = self._place(source), self._place(memory)
        return [Unpack(self.engines.index(queue), (), 0, *places, count, bits)]

    def _arranged(self, outputs: int, terms: int) -> list[Command]:
        """The commands that bring a part of a computed matrix to where the array reads weights."""
        work, arranging = self.work, self.engines.arranging
        assert arranging is not None, "legality has refused the product"
        reading = None if work.inside.matrix else self.engines.reading(arranging.queue)
        whole = (1, work.out_channels)
        read = self.engines.external if reading is None else reading[0]
        return [
            *self._transfer(reading, (terms, 1, outputs), whole, work.weight_bits),
            Arrange(
                self.engines.index(arranging.queue), (), 0, self._place(read), self._place(arranging.target),
                work.weight_bits, terms, outputs, outputs * work.weight_bits // 8, 1,
            ),
        ]  # fmt: skip

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


# ---------------------------------------------------------------------------------------------------------------
# The cycles of the commands


COMMAND = 4
"""Cycles that each command is assumed to cost besides its own: the time that queues lose by waiting for each other.

The sums below do not include that time, and no device file states it. On the six small networks, 4 serves best. With 1,
nmp and gemmini take up to 0.8 % longer; vta, whose waits cost least, takes up to 1 % less time with up to 1.8 times the
commands. With 0, nmp takes up to 2.7 % longer, and mobilenet on vta needs nine times the commands.
"""

Usage = npt.NDArray[np.float64]
"""Busy cycles of each queue, each bus and each memory."""


@dataclass(frozen=True, eq=False)
class Price:
    """The predicted cost of a piece of work.

    cycles  cycles that it takes if nothing runs beside it
    usage   the part of them in which each queue, bus and memory is busy
    """

    cycles: float
    usage: Usage

    @property
    def waits(self) -> float:
        """Cycles in which even the busiest resource is idle."""
        return self.cycles - _longest(self.usage)


def nothing_used(device: Device) -> Usage:
    """The usage of a device that has nothing to do."""
    return np.zeros(2 * len(device.queue) + len(device.memory))


def in_a_row(prices: Sequence[Price]) -> float:
    """Cycles of pieces of work one after the other, whose work on different queues overlaps."""
    return _longest(sum((price.usage for price in prices[1:]), prices[0].usage)) + sum(price.waits for price in prices)


class Costs:
    """Predicts the cycles of tilings from their commands, each of which devices/model/costs.py prices."""

    def __init__(self, work: Work, device: Device, engines: Engines):
        self.work, self.device, self.engines = work, device, engines
        self.commands = TileCommands(work, device, engines)
        self._array = engines.index(engines.array)
        self._known: dict[tuple[object, ...], Usage] = {}

    def price(self, shape: Shape, outputs_outside: bool, data: Stay, weights: Stay) -> Price:
        """The predicted price of a tiling.

        The first load cannot overlap with computation, nor the last store with the computation before it. Between them
        the busiest resource sets the time.
        """
        work = self.work
        positions = -(-work.out_rows // shape.rows) * -(-work.out_columns // shape.columns)
        channels = -(-work.out_channels // shape.outputs)
        steps = positions * channels * (1 if work.depthwise else -(-work.channels // shape.terms))
        again = channels if data.kept is Kept.STEP and not work.depthwise else 1
        data_loads = again * self._data_loads(shape)
        weights_loads = (positions if weights.kept is Kept.STEP else 1) * self._weights_loads(shape)
        tiles = self._tiles(shape)
        exposed = (0 if data.doubled else _longest(data_loads)) + (0 if weights.doubled else _longest(weights_loads))
        usage = tiles + data_loads + weights_loads
        steady = max(_longest(usage), _longest(tiles) + exposed)
        head = _longest(self._load(shape.rows, shape.columns, shape.terms))
        if weights.kept is Kept.LAYER:
            head += _longest(weights_loads)
        tail = _longest(self._tail(shape))
        return Price(int(steady + head + tail) + COMMAND * (steps + 2 * positions * channels), usage)

    def _tiles(self, shape: Shape) -> Usage:
        """The usage of all sums and of the commands that follow them."""
        work, sizes = self.work, (shape.rows, shape.columns, shape.outputs)
        totals = (work.out_rows, work.out_columns, work.out_channels)
        return self._sum(
            a * b * c * self._tile(rows, columns, outputs, shape.terms)
            for (rows, a), (columns, b), (outputs, c) in product(*map(cut, totals, sizes))
        )

    def _once(self, key: tuple[object, ...], find: Callable[[], Usage]) -> Usage:
        """The usage of a key, which is found when it is first asked for."""
        if key not in self._known:
            self._known[key] = find()
        return self._known[key]

    def _tile(self, *box: int) -> Usage:
        """The usage of a tile of rows, columns, outputs and terms."""
        return self._once(("tile", *box), lambda: self._finished_sums(*box))

    def _finished_sums(self, rows: int, columns: int, outputs: int, terms: int) -> Usage:
        """The usage of a tile's sums and the commands after them; if pipelined, these overlap the last slice."""
        commands = self.commands
        slices = ((outputs, 1),) if self.work.depthwise else cut(self.work.channels, terms)
        sums = self._sum(n * self._usage([commands.sums(rows, columns, outputs, k)]) for k, n in slices)
        following = self._usage(commands.following(rows, columns, outputs))
        both = sums + following
        if self.engines.post is self.engines.array and self.engines.array.pipelined:
            last = self._usage([commands.sums(rows, columns, outputs, slices[-1][0])])
            hidden = min(last[self._array], following[self._array])
            both[self._array] = max(both[self._array] - hidden, both[len(self.device.queue) :].max())
        return both + self._usage(commands.moved(rows, columns, outputs))

    def _tail(self, shape: Shape) -> Usage:
        """The usage after the last sums: finishing them, and storing the last results."""
        commands, box = self.commands, (shape.rows, shape.columns, shape.outputs)
        apart = self.engines.post is not self.engines.array
        return self._once(
            ("tail", *box),
            lambda: self._usage(commands.following(*box) if apart else []) + self._usage(commands.stored(*box)),
        )

    def _load(self, *box: int) -> Usage:
        """The usage of loading rows, columns and channels of the data."""
        return self._once(("data", *box), lambda: self._usage(self.commands.data(*box)))

    def _data_loads(self, shape: Shape) -> Usage:
        work = self.work
        channels = cut(work.channels, shape.outputs if work.depthwise else shape.terms)
        return self._sum(
            a * b * c * self._load(rows, columns, some)
            for (rows, a), (columns, b), (some, c) in product(
                cut(work.out_rows, shape.rows), cut(work.out_columns, shape.columns), channels
            )
        )

    def _weights_loads(self, shape: Shape) -> Usage:
        work = self.work
        slices = ((1, 1),) if work.depthwise else cut(work.channels, shape.terms)
        return self._once(
            ("weights", shape.outputs, shape.terms),
            lambda: self._sum(
                a * b * self._usage(self.commands.weights(n, k))
                for (n, a), (k, b) in product(cut(work.out_channels, shape.outputs), slices)
            ),
        )

    def _sum(self, usages: Iterable[Usage]) -> Usage:
        return sum(usages, nothing_used(self.device))

    def _usage(self, commands: Sequence[Command]) -> Usage:
        """The usage of commands one after the other.

        A queue counts as busy until its next command can begin; with several outstanding commands, setups overlap.
        """
        queues = len(self.device.queue)
        total = self._sum([])
        for command in commands:
            asked = demand(command, self.device, self.commands.touched(command))
            queue = self.device.queue[command.queue]
            total[command.queue] += max(asked.busy, (asked.setup + asked.busy) / queue.outstanding)
            if queue.engine == "dma":
                total[queues + self._bus(queue)] += asked.engine
            for memory, cycles in asked.memories.items():
                total[2 * queues + memory] += cycles
        return total

    def _bus(self, queue: Queue) -> int:
        """The number of a queue, or of the queue that it names as sharing its bus, whichever is smaller."""
        ids = [q.id for q in self.device.queue]
        own = ids.index(queue.id)
        return own if queue.shares_bus_with is None else min(own, ids.index(queue.shares_bus_with))


def _longest(usage: Usage) -> float:
    """Busy cycles of the busiest resource."""
    return float(usage.max())
