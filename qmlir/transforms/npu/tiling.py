"""How large the tiles of a contraction are, and what stays in the device's memories meanwhile: the cheapest of a grid.

A tile is some rows and columns of the result by some output channels; its sums take the input channels slice by slice.
Tiles are worked off in two nested loops, over positions and over output channels, either one outside. Every
combination that fits is judged by the cycles of the very commands it leads to (device/costs.py), those of different
queues at the same time; the judgement is of one image, which begins with nothing in place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import islice, product

import numpy as np
import numpy.typing as npt

from qmlir.device import Device
from qmlir.device.costs import demand
from qmlir.device.description import Memory, Queue
from qmlir.device.values import Role
from qmlir.isa.encoding import Command
from qmlir.transforms.npu.engines import Engines
from qmlir.transforms.npu.packing import packed_size
from qmlir.transforms.npu.regions import regions
from qmlir.transforms.npu.tile_commands import Shape, TileCommands, cut
from qmlir.transforms.npu.work import Work


class Kept(Enum):
    """How long data or weights stay where the array reads them, once they are there."""

    STEP = "for one command"
    OUTER = "while the outer loop is at one tile"
    LAYER = "for the whole layer"


@dataclass(frozen=True)
class Tiling:
    """How a contraction is cut up.

    rows, columns    of the result in a tile
    outputs          output channels in a tile
    terms            input channels in a slice; of a depthwise convolution as many as output channels
    outputs_outside  whether the loop over output channels is the outer one, or that over positions
    data, weights    how long they are kept
    cycles           what it should take, for one image
    """

    rows: int
    columns: int
    outputs: int
    terms: int
    outputs_outside: bool
    data: Kept
    weights: Kept
    cycles: int


def tiling(work: Work, device: Device) -> Tiling | None:
    """The best tiling of a contraction that fits a device; None if not even the smallest tile does.

    Where it can, two of every tile fit, so that one is brought in or taken away while the other is worked on.
    """
    for copies in (2, 1):
        if (found := _Search(work, device, copies).best()) is not None:
            return found
    return None


def smallest(work: Work, device: Device) -> Mapping[Role, tuple[int, int]]:
    """What the smallest tile of a contraction needs: role → its bytes, and those the device has."""
    search = _Search(work, device, 1)
    return search.room.of_step(search.least())


# ---------------------------------------------------------------------------------------------------------------
# The grid


COMMAND = 4
"""Cycles that a command is taken to cost besides its own: of tilings as fast, that with the fewest is best."""


def _shares(total: int, unit: int = 1) -> list[int]:
    """Sizes of tiles, multiples of a unit, such that 1, 2, 3, … of them cover a total; more and more thinly sown."""
    sizes = [total]
    count = 1
    while sizes[-1] > unit:
        count = max(count + 1, count * 5 // 4)
        size = -(-(-(-total // count)) // unit) * unit
        if size < sizes[-1]:
            sizes.append(size)
    return sizes


class _Search:
    """The search for one contraction."""

    def __init__(self, work: Work, device: Device, copies: int):
        self.work, self.device, self.engines = work, device, Engines.of(device)
        self.room = _Room(work, device, self.engines, copies)
        self.costs = _Costs(work, device, self.engines)

    def best(self) -> Tiling | None:
        """The cheapest tiling; of equal ones the first."""
        if not self.room.fits(self.least()):
            return None
        candidates = (t for shape in self._shapes() for t in self._kept(shape))
        return min(candidates, key=lambda t: t.cycles, default=None)

    def least(self) -> Shape:
        """The smallest tile: of one position."""
        outputs = min(self._outputs(), self.work.out_channels)
        return Shape(1, 1, outputs, outputs if self.work.depthwise else 1)

    def _outputs(self) -> int:
        """Output channels that the array computes at a time."""
        if self.work.depthwise and self.device.array.depthwise is not None:
            return self.device.array.depthwise.lanes.c
        return self.device.array.lanes.n

    def _slices(self) -> list[int]:
        """Sizes of slices: multiples of what the array and a transfer take at a time, and then parts of that."""
        burst = max(queue.burst for queue in self.device.queue) * 8 // self.work.data_bits
        unit = max(self.device.array.lanes.k, burst)
        sizes = _shares(self.work.channels, unit)
        return [*sizes, *_shares(sizes[-1])[1:]]

    def _shapes(self) -> Iterator[Shape]:
        """The points of the grid that fit: with whole rows, if these do, else with parts of them."""
        work = self.work
        slices, outputs = self._slices(), _shares(work.out_channels, self._outputs())
        for columns in _shares(work.out_columns):
            shapes = [
                Shape(rows, columns, n, k)
                for rows, n in product(_shares(work.out_rows), outputs)
                for k in ([n] if work.depthwise else self._fitting(rows, columns, n, slices))
                if self.room.fits(Shape(rows, columns, n, k))
            ]
            yield from shapes
            if shapes:
                return

    def _fitting(self, rows: int, columns: int, outputs: int, slices: Sequence[int]) -> list[int]:
        """The two largest slices of the input channels that fit."""
        return list(islice((k for k in slices if self.room.fits(Shape(rows, columns, outputs, k))), 2))

    def _kept(self, shape: Shape) -> Iterator[Tiling]:
        for outputs_outside in (False, True):
            data, weights = self.room.kept(shape, outputs_outside)
            cycles = self.costs.cycles(shape, outputs_outside, data, weights)
            yield Tiling(
                shape.rows, shape.columns, shape.outputs, shape.terms, outputs_outside, data.kept, weights.kept, cycles
            )


# ---------------------------------------------------------------------------------------------------------------
# What fits


@dataclass(frozen=True)
class _Stay:
    """How long an operand is kept, and whether the next may be loaded meanwhile."""

    kept: Kept
    doubled: bool = True


class _Room:
    """Which tiles fit the regions of their roles, some at a time where two queues work on them."""

    def __init__(self, work: Work, device: Device, engines: Engines, copies: int):
        self.work, self.device, self.engines, self.copies = work, device, engines, copies
        self._regions = regions(device)
        reading = engines.reading(engines.array)
        self._data = None if reading is None else self._region(reading[0], "ifm")
        staging = engines.staging("weights", engines.constants("weights"))
        self._weights = None if staging is None else self._region(staging[0], "weights")
        self._sums = self._region(engines.sums, "acc")
        writing = engines.writing(engines.post)
        self._result = None if writing is None else self._region(writing[0], "ofm")
        staging = engines.staging("bias", engines.constants("bias"))
        self._bias = None if staging is None else self._region(staging[0], "bias")
        self._serial = engines.post is engines.array

    def _region(self, memory: Memory, role: Role) -> int | None:
        """Bytes of a region; None where tiles have none, and so no limit."""
        region = self._regions.get((memory.id, role))
        return None if region is None else region.size

    def fits(self, shape: Shape) -> bool:
        """Whether each step of a tile fits."""
        return all(size <= room for size, room in self.of_step(shape).values())

    def of_step(self, shape: Shape) -> dict[Role, tuple[int, int]]:
        """Role → bytes that it needs at a time, and bytes that it has."""
        work = self.work
        elements = shape.rows * shape.columns * shape.outputs
        steps = work.posts + work.operands
        result = elements * work.result_bits // 8
        sums = elements * work.sum_bits // 8 + (0 if self._result is not None else (steps - 1) * result)
        needed: dict[Role, tuple[int, int | None]] = {
            "ifm": (self.copies * (self._data_size(shape, shape.terms) + self._operands(shape)), self._data),
            "weights": (self.copies * self._weights_size(shape.outputs, shape.terms), self._weights),
            "acc": (
                sums + self._slack(steps) if self._serial else self.copies * (sums + self._slack(steps)),
                self._sums,
            ),
            "bias": (self.copies * (shape.outputs * work.sum_bits // 8 + self._slack(1)) + self._tables(), self._bias),
            "ofm": (self.copies * (result * steps + self._slack(steps)), self._result),
        }
        return {role: (size, room) for role, (size, room) in needed.items() if room is not None}

    def kept(self, shape: Shape, outputs_outside: bool) -> tuple[_Stay, _Stay]:
        """How long data and weights can be kept."""
        work = self.work
        if work.depthwise:
            return _Stay(Kept.STEP), self._longest(self._weights, self._all_weights(shape), None)
        tile = self._data_size(shape, work.channels)
        n_tile = self._weights_size(shape.outputs, work.channels)
        data = self._longest(
            None if self._data is None else self._data - self.copies * self._operands(shape),
            self._all_data(shape),
            None if outputs_outside else tile,
        )
        weights = self._longest(self._weights, self._all_weights(shape), n_tile if outputs_outside else None)
        return data, weights

    def _longest(self, room: int | None, whole: int, outer: int | None) -> _Stay:
        if room is None or whole <= room:
            return _Stay(Kept.LAYER)
        if outer is not None and outer <= room:
            return _Stay(Kept.OUTER, 2 * outer <= room)
        return _Stay(Kept.STEP)

    def _data_size(self, shape: Shape, channels: int) -> int:
        if self._data is None:
            return 0
        seen = self.work.most_seen(0, shape.rows) * self.work.most_seen(1, shape.columns)
        slices = -(-channels // shape.terms)
        return seen * channels * self.work.data_bits // 8 + self._slack(slices)

    def _operands(self, shape: Shape) -> int:
        """Bytes of the tensors that what follows brings in beside the data."""
        if self.engines.reading(self.engines.post) is None:
            return 0
        size = shape.rows * shape.columns * shape.outputs * self.work.result_bits // 8
        return self.work.operands * (size + self._slack(1))

    def _tables(self) -> int:
        """Bytes of the tables that lie beside biases."""
        if self.engines.tables() != "bias":
            return 0
        steps = self.work.posts + self.work.operands
        return steps * (8 * (self.work.out_channels if self.work.per_channel else 1) + self._slack(1))

    def _weights_size(self, outputs: int, channels: int) -> int:
        terms = self.work.taps * channels
        if self.work.depthwise:
            return terms * self.work.weight_bits // 8 + self._slack(1)
        return packed_size(outputs, terms, self.work.weight_bits, self.device) + self._slack(1)

    def _all_data(self, shape: Shape) -> int:
        tiles = [
            (size, count)
            for axis, (total, tile) in enumerate(
                ((self.work.out_rows, shape.rows), (self.work.out_columns, shape.columns))
            )
            for size, count in [(self.work.most_seen(axis, tile), -(-total // tile))]
        ]
        (rows, row_tiles), (columns, column_tiles) = tiles
        slices = -(-self.work.channels // shape.terms)
        whole = rows * row_tiles * columns * column_tiles * self.work.channels * self.work.data_bits // 8
        return whole + self._slack(slices * row_tiles * column_tiles)

    def _all_weights(self, shape: Shape) -> int:
        work = self.work
        if work.depthwise:
            tiles = -(-work.channels // shape.outputs)
            return work.taps * work.channels * work.weight_bits // 8 + self._slack(tiles)
        return sum(
            n_count * k_count * self._weights_size(n, k)
            for (n, n_count), (k, k_count) in product(
                cut(work.out_channels, shape.outputs), cut(work.channels, shape.terms)
            )
        )

    @cached_property
    def _align(self) -> int:
        return max(memory.align for memory in self.device.memory)

    def _slack(self, buffers: int) -> int:
        """What so many buffers may lose to the alignment of the next."""
        return buffers * (self._align - 1)


# ---------------------------------------------------------------------------------------------------------------
# What it costs

Usage = npt.NDArray[np.float64]
"""Cycles of each queue, each bus and each memory."""


class _Costs:
    """Cycles of tilings: of the commands they consist of, each judged by device/costs.py."""

    def __init__(self, work: Work, device: Device, engines: Engines):
        self.work, self.device, self.engines = work, device, engines
        self.commands = TileCommands(work, device, engines)
        self._array, self._post = engines.index(engines.array), engines.index(engines.post)
        self._known: dict[tuple[object, ...], Usage] = {}

    def cycles(self, shape: Shape, outputs_outside: bool, data: _Stay, weights: _Stay) -> int:
        """What a tiling should take.

        The first data cannot overlap with what is done with them, nor the last results with what they come from;
        between, whatever is used most decides.
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
        steady = max(_longest(tiles + data_loads + weights_loads), _longest(tiles) + exposed)
        head = _longest(self._load(shape.rows, shape.columns, shape.terms))
        if weights.kept is Kept.LAYER:
            head += _longest(weights_loads)
        tail = _longest(self._tail(shape))
        return int(steady + head + tail) + COMMAND * (steps + 2 * positions * channels)

    def _tiles(self, shape: Shape) -> Usage:
        """Of all sums, and of what follows them."""
        work = self.work
        return self._sum(
            count * self._tile(rows, columns, outputs, shape)
            for (rows, a), (columns, b), (outputs, c) in product(
                cut(work.out_rows, shape.rows),
                cut(work.out_columns, shape.columns),
                cut(work.out_channels, shape.outputs),
            )
            for count in [a * b * c]
        )

    def _tile(self, rows: int, columns: int, outputs: int, shape: Shape) -> Usage:
        """Of the sums of a tile and what follows them; on a pipelined queue that is done with the last slice."""
        terms = shape.terms
        key = ("tile", rows, columns, outputs, terms)
        if key in self._known:
            return self._known[key]
        commands = self.commands
        slices = ((outputs, 1),) if self.work.depthwise else cut(self.work.channels, terms)
        sums = self._sum(n * self._usage([commands.sums(rows, columns, outputs, k)]) for k, n in slices)
        following = self._usage(commands.following(rows, columns, outputs))
        moved = self._usage(commands.moved(rows, columns, outputs))
        if self.engines.post is self.engines.array and self.engines.array.pipelined:
            last = self._usage([commands.sums(rows, columns, outputs, slices[-1][0])])
            hidden = min(last[self._array], following[self._array])
            both = sums + following
            both[self._array] = max(both[self._array] - hidden, both[len(self.device.queue) :].max())
        else:
            both = sums + following
        self._known[key] = both + moved
        return self._known[key]

    def _tail(self, shape: Shape) -> Usage:
        """What follows the last sums."""
        commands, box = self.commands, (shape.rows, shape.columns, shape.outputs)
        own = self._sum([]) if self.engines.post is self.engines.array else self._usage(commands.following(*box))
        return own + self._usage(commands.stored(*box))

    def _load(self, rows: int, columns: int, channels: int) -> Usage:
        key = ("data", rows, columns, channels)
        if key not in self._known:
            self._known[key] = self._usage(self.commands.data(rows, columns, channels))
        return self._known[key]

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
        key = ("weights", shape.outputs, shape.terms)
        if key not in self._known:
            self._known[key] = self._sum(
                a * b * self._usage(self.commands.weights(n, k))
                for (n, a), (k, b) in product(cut(work.out_channels, shape.outputs), slices)
            )
        return self._known[key]

    def _sum(self, usages: Iterable[Usage]) -> Usage:
        return sum(usages, np.zeros(2 * len(self.device.queue) + len(self.device.memory)))

    def _usage(self, commands: Sequence[Command]) -> Usage:
        """Of commands one after the other.

        Of a queue, until the next can begin: with several outstanding their setups overlap.
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
        """The number of the first queue on its bus."""
        ids = [q.id for q in self.device.queue]
        own = ids.index(queue.id)
        return own if queue.shares_bus_with is None else min(own, ids.index(queue.shares_bus_with))


def _longest(usage: Usage) -> float:
    """Cycles of what is used most."""
    return float(usage.max())
