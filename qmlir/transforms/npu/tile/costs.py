"""Predicts the cost of a contraction's tiling: the cycles of its commands, queue by queue."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from qmlir.devices import Device
from qmlir.devices.costs import demand
from qmlir.devices.description import Queue
from qmlir.isa.encoding import Command
from qmlir.transforms.npu.tile.commands import Shape, TileCommands, cut
from qmlir.transforms.npu.tile.engines import Engines
from qmlir.transforms.npu.tile.room import Kept, Stay
from qmlir.transforms.npu.tile.work import Work

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
    """Predicts the cycles of tilings from their commands, each of which devices/costs.py prices."""

    def __init__(self, work: Work, device: Device, engines: Engines):
        self.work, self.device, self.engines = work, device, engines
        self.commands = TileCommands(work, device, engines)
        self._array, self._post = engines.index(engines.array), engines.index(engines.post)
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
        """The usage of a tile's sums and the commands after them; if pipelined, these overlap the last slice."""
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
        """The usage after the last sums: finishing them, and storing the last results."""
        commands, box = self.commands, (shape.rows, shape.columns, shape.outputs)
        if (key := ("tail", *box)) not in self._known:
            own = self._sum([]) if self.engines.post is self.engines.array else self._usage(commands.following(*box))
            self._known[key] = own + self._usage(commands.stored(*box))
        return self._known[key]

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
