"""How large the tiles of a contraction are, and what stays in the device's memories meanwhile: the cheapest of a grid.

A tile is some rows and columns of the result by some output channels; its sums take the input channels slice by slice.
Tiles are worked off in two nested loops, over positions and over output channels, either one outside. Every
combination that fits is judged by the cycles of the very commands it leads to (device/costs.py), those of different
queues at the same time; the judgement is of one image, which begins with nothing in place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import Any

from qmlir.device import Device
from qmlir.device.costs import busy_cycles
from qmlir.device.description import Memory, Queue
from qmlir.device.values import Role
from qmlir.errors import LoweringError
from qmlir.isa.commands import Arithmetic, Convolve, ConvolveDepthwise, Init, Move, Operation, Post
from qmlir.isa.encoding import Place
from qmlir.transforms.npu.engines import Engines
from qmlir.transforms.npu.packing import packed_size
from qmlir.transforms.npu.regions import regions
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


def tiling(work: Work, device: Device, layer: str = "") -> Tiling:
    """The best tiling of a contraction that fits a device.

    Args:
        work: What is computed.
        device: The device.
        layer: Its name, for errors.

    Raises:
        LoweringError: Not even the smallest tile fits.
    """
    found = _Search(work, device).best()
    if found is None:
        smallest = _Search(work, device).smallest()
        raise LoweringError(
            "npu.layer", layer, f"must have tiles that fit the memories of {device.name}",
            got=", ".join(f"{size} bytes of {role} in {room}" for role, (size, room) in smallest.items()),
        )  # fmt: skip
    return found


# ---------------------------------------------------------------------------------------------------------------
# The grid


MOST_STEPS = 1 << 14
"""More tiles than this are not worth looking at while there are fewer."""


def _shares(total: int, most: int, unit: int = 1) -> list[int]:
    """Sizes of tiles, multiples of a unit, such that 1, 2, 3, … of them cover a total; at most so many sizes."""
    sizes: list[int] = []
    count = 1
    while len(sizes) < most:
        size = -(-(-(-total // count)) // unit) * unit
        if not sizes or size < sizes[-1]:
            sizes.append(min(size, total))
        if size <= unit:
            break
        count = max(count + 1, int(count * 1.1))
    return sizes


@cache
def _cut(total: int, tile: int) -> tuple[tuple[int, int], ...]:
    """(size, how many) of the tiles that cover a total: full ones, and perhaps a smaller one."""
    full, rest = divmod(total, tile)
    return tuple((size, count) for size, count in ((tile, full), (rest, 1)) if size and count)


@dataclass(frozen=True)
class _Shape:
    """A point of the grid."""

    rows: int
    columns: int
    outputs: int
    terms: int


class _Search:
    """The search for one contraction."""

    def __init__(self, work: Work, device: Device):
        self.work, self.device, self.engines = work, device, Engines.of(device)
        self.room = _Room(work, device, self.engines)
        self.costs = _Costs(work, device, self.engines)

    def best(self) -> Tiling | None:
        """The cheapest tiling; of equal ones the first."""
        candidates = (t for shape in self._shapes() for t in self._kept(shape))
        return min(candidates, key=lambda t: t.cycles, default=None)

    def smallest(self) -> dict[Role, tuple[int, int]]:
        """Of the smallest tile: role → its bytes, and those there are."""
        lanes = self.device.array.lanes
        return self.room.of_step(_Shape(1, 1, min(lanes.n, self.work.out_channels), min(lanes.k, self.work.channels)))

    def _shapes(self) -> Iterator[_Shape]:
        """The points of the grid whose steps fit, each with the largest slices that do and the next smaller ones."""
        work, lanes = self.work, self.device.array.lanes
        unit = lanes.n
        if work.depthwise and self.device.array.depthwise is not None:
            unit = self.device.array.depthwise.lanes.c
        outputs = [*_shares(work.out_channels, 40, unit)]
        slices = [work.channels] if work.depthwise else _shares(work.channels, 24, _slice_unit(work, self.device))
        for columns in _shares(work.out_columns, 40):
            for rows, n in product(_shares(work.out_rows, 40), outputs):
                fitting = (
                    s for k in slices if self.room.fits(s := _Shape(rows, columns, n, n if work.depthwise else k))
                )
                for count, shape in enumerate(fitting):
                    yield shape
                    if count or work.depthwise:
                        break
            if any(
                self.room.fits(_Shape(1, columns, n, outputs[-1] if work.depthwise else slices[-1])) for n in outputs
            ):
                if columns * work.channels >= 64:
                    break

    def _kept(self, shape: _Shape) -> Iterator[Tiling]:
        for outputs_outside in (False, True):
            data, weights = self.room.kept(shape, outputs_outside)
            cycles = self.costs.cycles(shape, outputs_outside, data, weights)
            yield Tiling(
                shape.rows, shape.columns, shape.outputs, shape.terms, outputs_outside, data.kept, weights.kept, cycles
            )


def _slice_unit(work: Work, device: Device) -> int:
    """Slices of channels are multiples of the array's lanes, and of the bytes that a transfer moves at once."""
    burst = max(queue.burst for queue in device.queue) * 8 // work.data_bits
    return max(device.array.lanes.k, burst)


# ---------------------------------------------------------------------------------------------------------------
# What fits


@dataclass(frozen=True)
class _Stay:
    """How long an operand is kept, and whether the next may be loaded meanwhile."""

    kept: Kept
    doubled: bool = True


class _Room:
    """Which tiles fit the regions of their roles, two at a time where two queues work on them."""

    def __init__(self, work: Work, device: Device, engines: Engines):
        self.work, self.device, self.engines = work, device, engines
        self._regions = regions(device)
        reading = engines.reading(engines.array)
        self._data = None if reading is None else self._region(reading[0], "ifm")
        staging = engines.staging("weights", engines.constants("weights"))
        self._weights = None if staging is None else self._region(staging[0], "weights")
        self._sums = self._region(engines.sums, "acc")
        writing = engines.writing(engines.post)
        self._result = None if writing is None else self._region(writing[0], "ofm")
        self._serial = engines.post is engines.array

    def _region(self, memory: Memory, role: Role) -> int | None:
        """Bytes of a region; None where tiles have none, and so no limit."""
        region = self._regions.get((memory.id, role))
        return None if region is None else region.size

    def fits(self, shape: _Shape) -> bool:
        """Whether each step of a tile fits."""
        return all(size <= room for size, room in self.of_step(shape).values())

    def of_step(self, shape: _Shape) -> dict[Role, tuple[int, int]]:
        """Role → bytes that it needs at a time, and bytes that it has."""
        work = self.work
        elements = shape.rows * shape.columns * shape.outputs
        steps = work.posts + work.operands
        result = elements * work.result_bits // 8
        sums = elements * work.sum_bits // 8 + (0 if self._result is not None else (steps - 1) * result)
        needed: dict[Role, tuple[int, int | None]] = {
            "ifm": (2 * (self._data_size(shape, shape.terms) + self._operands(shape)), self._data),
            "weights": (2 * self._weights_size(shape.outputs, shape.terms), self._weights),
            "acc": (sums + self._slack(steps) if self._serial else 2 * (sums + self._slack(steps)), self._sums),
            "ofm": (2 * (result * steps + self._slack(steps)), self._result),
        }
        return {role: (size, room) for role, (size, room) in needed.items() if room is not None}

    def kept(self, shape: _Shape, outputs_outside: bool) -> tuple[_Stay, _Stay]:
        """How long data and weights can be kept."""
        work = self.work
        if work.depthwise:
            return _Stay(Kept.STEP), self._longest(self._weights, self._all_weights(shape), None)
        tile = self._data_size(shape, work.channels)
        n_tile = self._weights_size(shape.outputs, work.channels)
        data = self._longest(
            None if self._data is None else self._data - 2 * self._operands(shape),
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

    def _data_size(self, shape: _Shape, channels: int) -> int:
        if self._data is None:
            return 0
        seen = self.work.most_seen(0, shape.rows) * self.work.most_seen(1, shape.columns)
        slices = -(-channels // shape.terms)
        return seen * channels * self.work.data_bits // 8 + self._slack(slices)

    def _operands(self, shape: _Shape) -> int:
        """Bytes of the tensors that what follows brings in beside the data."""
        if self.engines.reading(self.engines.post) is None:
            return 0
        size = shape.rows * shape.columns * shape.outputs * self.work.result_bits // 8
        return self.work.operands * (size + self._slack(1))

    def _weights_size(self, outputs: int, channels: int) -> int:
        terms = self.work.taps * channels
        if self.work.depthwise:
            return terms * self.work.weight_bits // 8 + self._slack(1)
        return packed_size(outputs, terms, self.work.weight_bits, self.device) + self._slack(1)

    def _all_data(self, shape: _Shape) -> int:
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

    def _all_weights(self, shape: _Shape) -> int:
        work = self.work
        if work.depthwise:
            tiles = -(-work.channels // shape.outputs)
            return work.taps * work.channels * work.weight_bits // 8 + self._slack(tiles)
        return sum(
            n_count * k_count * self._weights_size(n, k)
            for (n, n_count), (k, k_count) in product(
                _cut(work.out_channels, shape.outputs), _cut(work.channels, shape.terms)
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


class _Costs:
    """Cycles of tilings: of the commands they consist of, each judged by device/costs.py."""

    def __init__(self, work: Work, device: Device, engines: Engines):
        self.work, self.device, self.engines = work, device, engines
        self._numbers = {memory.id: n for n, memory in enumerate(device.memory)}
        self._known: dict[tuple[object, ...], int] = {}
        self._reading = engines.reading(engines.array)
        self._operand_reading = engines.reading(engines.post)
        self._writing = engines.writing(engines.post)
        self._staging = engines.staging("weights", engines.constants("weights"))

    def cycles(self, shape: _Shape, outputs_outside: bool, data: _Stay, weights: _Stay) -> int:
        """What a tiling should take.

        The first outer tile cannot overlap with what brings it there, nor the last with what takes it away; between,
        whatever is slowest decides.
        """
        work = self.work
        positions = -(-work.out_rows // shape.rows) * -(-work.out_columns // shape.columns)
        channels = -(-work.out_channels // shape.outputs)
        outer = channels if outputs_outside else positions
        array, post, stores, operands = self._totals(shape)
        data_once, weights_once = self._data_loads(shape), self._weights_loads(shape)
        data_loads = data_once * (channels if data.kept is Kept.STEP and not work.depthwise else 1)
        weights_loads = weights_once * (positions if weights.kept is Kept.STEP else 1)
        if not outputs_outside and data.kept is not Kept.STEP:
            data_loads = data_once
        if outputs_outside and data.kept is Kept.STEP and channels == 1:
            data_loads = data_once
        loads = data_loads + weights_loads + operands
        head = self._load_data(shape.rows, shape.columns, shape.terms)
        bus = loads + stores if self._shared() else max(loads, stores)
        stages = self._stages(array, post)
        tail = self._tail(shape)
        first_loads = (weights_once if weights.kept is Kept.LAYER else 0) + head
        exposed = 0
        if not data.doubled:
            exposed += data_loads
        if not weights.doubled:
            exposed += weights_loads
        steady = max(stages + exposed, bus)
        return max(steady + head, first_loads + stages // outer) + tail

    def _stages(self, array: int, post: int) -> int:
        return array + post if self.engines.post is self.engines.array else max(array, post)

    def _shared(self) -> bool:
        """Whether results leave on the bus on which data come."""
        if self._reading is None or self._writing is None:
            return False
        load, store = self._reading[1], self._writing[1]
        return load is store or store.shares_bus_with == load.id or load.shares_bus_with == store.id

    def _tail(self, shape: _Shape) -> int:
        """What follows the last sums."""
        own = 0 if self.engines.post is self.engines.array else self._post(shape.rows, shape.columns, shape.outputs)
        return own + self._store(shape.rows, shape.columns, shape.outputs)

    def _totals(self, shape: _Shape) -> tuple[int, int, int, int]:
        """Cycles of all sums, of what follows them, of storing results, and of loading other operands."""
        work = self.work
        array = post = stores = operands = 0
        slices = ((work.channels, 1),) if work.depthwise else _cut(work.channels, shape.terms)
        for (rows, a), (columns, b), (outputs, c) in product(
            _cut(work.out_rows, shape.rows),
            _cut(work.out_columns, shape.columns),
            _cut(work.out_channels, shape.outputs),
        ):
            count = a * b * c
            post += count * self._post(rows, columns, outputs)
            stores += count * self._store(rows, columns, outputs)
            operands += count * work.operands * self._load_operand(rows, columns, outputs)
            array += count * sum(n * self._convolve(rows, columns, outputs, terms) for terms, n in slices)
        return array, post, stores, operands

    def _data_loads(self, shape: _Shape) -> int:
        work = self.work
        cut = _cut(work.channels, shape.outputs if work.depthwise else shape.terms)
        return sum(
            a * b * c * self._load_data(rows, columns, channels)
            for (rows, a), (columns, b), (channels, c) in product(
                _cut(work.out_rows, shape.rows), _cut(work.out_columns, shape.columns), cut
            )
        )

    def _weights_loads(self, shape: _Shape) -> int:
        work = self.work
        if work.depthwise:
            return sum(count * self._load_weights(1, n) for n, count in _cut(work.channels, shape.outputs))
        return sum(
            a * b * self._load_weights(n, k)
            for (n, a), (k, b) in product(_cut(work.out_channels, shape.outputs), _cut(work.channels, shape.terms))
        )

    # -- commands ---------------------------------------------------------------------------------------------------

    def _convolve(self, rows: int, columns: int, outputs: int, terms: int) -> int:
        key = ("convolve", rows, columns, outputs, terms)
        if key not in self._known:
            self._known[key] = self._busy(self._sums_command(rows, columns, outputs, terms), self.engines.array)
        return self._known[key]

    def _sums_command(self, rows: int, columns: int, outputs: int, terms: int) -> Convolve | ConvolveDepthwise:
        work = self.work
        seen = work.most_seen(0, rows), work.most_seen(1, columns)
        channels = outputs if work.depthwise else terms
        pixel = channels * work.data_bits // 8
        fields: dict[str, Any] = dict(
            queue=self.engines.index(self.engines.array), waits=(), ctx=0,
            data=self._place(self._reading[0] if self._reading else self.engines.external),
            weights=self._place(self._staging[0] if self._staging else self.engines.constants("weights")),
            bias=self._place(self.engines.constants("bias")), sums=self._place(self.engines.sums), init=Init.ZERO,
            data_bits=work.data_bits, weight_bits=work.weight_bits, sum_bits=work.sum_bits, zero_point=0,
            rows=seen[0], columns=seen[1], channels=channels, row_pitch=seen[1] * pixel, pixel_pitch=pixel,
            out_rows=rows, out_columns=columns, kernel_rows=work.kernel[0], kernel_columns=work.kernel[1],
            stride_rows=work.stride[0], stride_columns=work.stride[1], dilation_rows=work.dilation[0],
            dilation_columns=work.dilation[1], top=0, left=0,
        )  # fmt: skip
        return ConvolveDepthwise(**fields) if work.depthwise else Convolve(**fields, out_channels=outputs)

    def _post(self, rows: int, columns: int, outputs: int) -> int:
        key = ("post", rows, columns, outputs)
        if key not in self._known:
            work, queue = self.work, self.engines.post
            number, pixel = self.engines.index(queue), outputs * work.result_bits // 8
            between = self._place(self.engines.between[0])
            target = self._place(self._writing[0] if self._writing else self.engines.external)
            post = Post(
                number, (), 0, self._place(self.engines.sums), work.sum_bits, rows, columns, outputs, 0, 0,
                between if work.operands else target, columns * pixel, pixel,
            )  # fmt: skip
            total = work.posts * self._busy(post, queue)
            if work.operands:
                operand = self._place(self._operand_reading[0] if self._operand_reading else self.engines.external)
                arithmetic = Arithmetic(
                    number, (), 0, Operation.ADD, work.result_bits, between, operand, target, rows, columns, outputs,
                    columns * pixel, pixel, columns * pixel, pixel, columns * pixel, pixel, 0, 0, 1, 1, 1,
                )  # fmt: skip
                total += work.operands * self._busy(arithmetic, queue)
            self._known[key] = total
        return self._known[key]

    def _load_data(self, rows: int, columns: int, channels: int) -> int:
        if self._reading is None:
            return 0
        work = self.work
        seen = work.most_seen(0, rows), work.most_seen(1, columns)
        return self._transfer(
            self.engines.external, *self._reading, (*seen, channels), (work.columns, work.channels), work.data_bits
        )

    def _load_operand(self, rows: int, columns: int, outputs: int) -> int:
        if self._operand_reading is None:
            return 0
        work = self.work
        whole = (work.out_columns, work.out_channels)
        return self._transfer(
            self.engines.external, *self._operand_reading, (rows, columns, outputs), whole, work.result_bits
        )

    def _store(self, rows: int, columns: int, outputs: int) -> int:
        if self._writing is None:
            return 0
        work = self.work
        memory, queue = self._writing
        whole = (work.out_columns, work.out_channels)
        return self._transfer(memory, self.engines.external, queue, (rows, columns, outputs), whole, work.result_bits)

    def _load_weights(self, outputs: int, channels: int) -> int:
        if self._staging is None:
            return 0
        work = self.work
        size = work.taps * channels * work.weight_bits // 8
        if not work.depthwise:
            size = packed_size(outputs, work.taps * channels, work.weight_bits, self.device)
        whole = (1, size)
        return self._transfer(self.engines.constants("weights"), *self._staging, (1, 1, size), whole, 8)

    def _transfer(
        self,
        source: Memory,
        target: Memory,
        queue: Queue,
        shape: tuple[int, int, int],
        whole: tuple[int, int],
        bits: int,
    ) -> int:
        """Cycles to move a box [rows, columns, channels] out of or into a tensor of so many columns and channels."""
        key = ("move", source.id, target.id, shape, whole)
        if key not in self._known:
            rows, columns, channels = shape
            dense = (columns == whole[0], channels == whole[1])
            runs = 1 if all(dense) else rows if dense[1] else rows * columns
            size = prod(shape) // runs * bits // 8
            move = Move(
                self.engines.index(queue), (), 0, self._place(source), self._place(target), size, runs, 1,
                size, 0, size, 0,
            )  # fmt: skip
            self._known[key] = self._busy(move, queue)
        return self._known[key]

    def _busy(self, command: Convolve | ConvolveDepthwise | Post | Arithmetic | Move, queue: Queue) -> int:
        """Cycles of a command, its setup among them where nothing hides it."""
        return busy_cycles(command, self.device) + (queue.setup if queue.outstanding == 1 else 0)

    def _place(self, memory: Memory) -> Place:
        return Place(self._numbers[memory.id], 0)
