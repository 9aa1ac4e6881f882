"""Searches a grid for the cheapest tiling of a contraction: tile sizes, loop order, and what is kept in memory.

A tile is a number of rows and columns of the result by a number of output channels; its sums take the input channels
slice by slice. Tiles run in two nested loops, over positions and over output channels, with either loop outside. Every
combination that fits (`Room`) is priced by the cycles of the commands that it leads to (costs.py); commands of
different queues overlap. The price is that of one image, which begins with nothing loaded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice, product

from qmlir.devices import Device
from qmlir.devices.description import Memory
from qmlir.devices.packing import packed_bytes
from qmlir.devices.schema import Role
from qmlir.transforms.npu.tile.costs import Costs, Kept, Price, Shape, Stay, cut, packed_size
from qmlir.transforms.npu.tile.engines import Engines, regions
from qmlir.transforms.npu.tile.work import Work


@dataclass(frozen=True)
class Tiling:
    """A tiling of a contraction.

    shape            the size of a tile; for a depthwise convolution, a slice has as many terms as output channels
    outputs_outside  whether the loop over output channels is the outer loop; otherwise the loop over positions is
    data, weights    how long data and weights are kept
    price            the predicted price for one image
    """

    shape: Shape
    outputs_outside: bool
    data: Kept
    weights: Kept
    price: Price


@cache
def tiling(work: Work, device: Device) -> Tiling | None:
    """The best tiling of a contraction on a device; None if not even the smallest tile fits.

    If possible, two of every tile fit, so that one tile is loaded or stored while the other is worked on. The result is
    cached: equal contractions share one search.
    """
    for copies in (2, 1):
        if (found := _Search(work, device, copies).best()) is not None:
            return found
    return None


def smallest(work: Work, device: Device) -> Mapping[Role, tuple[int, int]]:
    """What the smallest tile of a contraction needs: role → bytes that it needs, and bytes that the device has."""
    search = _Search(work, device, 1)
    return search.room.of_step(search.least())


# ---------------------------------------------------------------------------------------------------------------
# Which tiles fit the memories, and how long data and weights can stay there


class Room:
    """Checks which tiles fit the regions of their roles.

    `copies` is the number of each tile that must fit at a time: 2 if one queue loads a tile while another works on one.
    """

    def __init__(self, work: Work, device: Device, engines: Engines, copies: int):
        self.work, self.device, self.engines, self.copies = work, device, engines, copies
        self._regions, inside = regions(device, work.inside.rest), work.inside
        reading = engines.reading(engines.array)
        reads = not inside.data or inside.operands < work.operands
        self._data = self._region(reading[0], "ifm") if reading is not None and reads else None
        staging = engines.staging("weights", engines.constants("weights"))
        self._weights = None if staging is None else self._region(staging[0], "weights")
        self._sums = self._region(engines.sums, "acc")
        writing = engines.writing(engines.post)
        self._writes = writing is not None
        self._results = work.posts + work.operands - inside.result
        self._result = None if writing is None or not self._results else self._region(writing[0], "ofm")
        staging = engines.staging("bias", engines.constants("bias"))
        self._bias = None if staging is None else self._region(staging[0], "bias")
        self._serial = engines.post is engines.array

    def _region(self, memory: Memory, role: Role) -> int | None:
        """Bytes of a region.

        Returns:
            0 if the layer's rest of the memory leaves the role no region; None, which is no limit, if the role has no
            region in the memory at all.
        """
        region, rest = self._regions.get((memory.id, role)), self.work.inside.rest
        if region is None:
            return 0 if rest is not None and rest.memory == memory.id else None
        return region.size

    def fits(self, shape: Shape) -> bool:
        """Whether a tile fits in every region."""
        return all(size <= room for size, room in self.of_step(shape).values())

    def of_step(self, shape: Shape) -> dict[Role, tuple[int, int]]:
        """Role → bytes that a tile needs at a time, and bytes that its region has."""
        work = self.work
        elements = shape.rows * shape.columns * shape.outputs
        steps = work.posts + work.operands
        result = elements * work.result_bits // 8
        sums = elements * work.sum_bits // 8 + (0 if self._writes else (steps - 1) * result)
        needed: dict[Role, tuple[int, int | None]] = {
            "ifm": (self.copies * (self._data_size(shape, shape.terms) + self._operands(shape)), self._data),
            "weights": (self.copies * self._weights_size(shape.outputs, shape.terms), self._weights),
            "acc": (
                sums + self._slack(steps) if self._serial else self.copies * (sums + self._slack(steps)),
                self._sums,
            ),
            "bias": (self.copies * (shape.outputs * work.bias_bits // 8 + self._slack(1)) + self._tables(), self._bias),
            "ofm": (self.copies * (result * self._results + self._slack(self._results)), self._result),
        }
        return {role: (size, room) for role, (size, room) in needed.items() if room is not None}

    def kept(self, shape: Shape, outputs_outside: bool) -> tuple[Stay, Stay]:
        """How long data and weights can be kept."""
        work = self.work
        if work.depthwise:
            return Stay(Kept.STEP), self._of_weights(shape, None)
        tile = self._data_size(shape, work.channels)
        n_tile = self._slices_size(shape.outputs, shape.terms)
        data = self._longest(
            None if self._data is None or work.inside.data else self._data - self.copies * self._operands(shape),
            self._all_data(shape),
            None if outputs_outside else tile,
        )
        return data, self._of_weights(shape, n_tile if outputs_outside else None)

    def _of_weights(self, shape: Shape, outer: int | None) -> Stay:
        """How long weights can be kept; a whole layer's weights are double-buffered if they fit twice."""
        whole = self._all_weights(shape)
        stay = self._longest(self._weights, whole, outer)
        if stay.kept is Kept.LAYER and self._weights is not None:
            return Stay(Kept.LAYER, 2 * whole <= self._weights)
        return stay

    def _longest(self, room: int | None, whole: int, outer: int | None) -> Stay:
        if room is None or whole <= room:
            return Stay(Kept.LAYER)
        if outer is not None and outer <= room:
            return Stay(Kept.OUTER, 2 * outer <= room)
        return Stay(Kept.STEP)

    def _data_size(self, shape: Shape, channels: int) -> int:
        if self._data is None or self.work.inside.data:
            return 0
        seen = self.work.most_seen(0, shape.rows) * self.work.most_seen(1, shape.columns)
        slices = -(-channels // shape.terms)
        return seen * channels * self.work.data_bits // 8 + self._slack(slices)

    def _operands(self, shape: Shape) -> int:
        """Bytes of the tensors that are loaded besides the data, for the operations after the contraction."""
        if self.engines.reading(self.engines.post) is None:
            return 0
        size = shape.rows * shape.columns * shape.outputs * self.work.result_bits // 8
        return (self.work.operands - self.work.inside.operands) * (size + self._slack(1))

    def _tables(self) -> int:
        """Bytes of the tables that share the region of biases."""
        if self.engines.tables() != "bias":
            return 0
        steps = self.work.posts + self.work.operands
        return steps * (8 * (self.work.out_channels if self.work.per_channel else 1) + self._slack(1))

    def _weights_size(self, outputs: int, channels: int) -> int:
        terms = self.work.taps * channels
        if self.work.depthwise:
            return packed_bytes(terms, self.work.weight_bits) + self._slack(1)
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
            return sum(count * self._weights_size(0, n) for n, count in cut(work.channels, shape.outputs))
        return sum(count * self._slices_size(n, shape.terms) for n, count in cut(work.out_channels, shape.outputs))

    def _slices_size(self, outputs: int, terms: int) -> int:
        """Bytes of the weights of some output channels, with each slice of the input channels packed separately."""
        return sum(count * self._weights_size(outputs, k) for k, count in cut(self.work.channels, terms))

    @cached_property
    def _align(self) -> int:
        return max(memory.align for memory in self.device.memory)

    def _slack(self, buffers: int) -> int:
        """The most bytes that this many buffers may lose to alignment."""
        return buffers * (self._align - 1)


# ---------------------------------------------------------------------------------------------------------------
# The grid


def _shares(total: int, unit: int = 1) -> list[int]:
    """Tile sizes, multiples of a unit, such that 1, 2, 3, … tiles cover a total; the counts grow ever faster."""
    sizes = [total]
    count = 1
    while sizes[-1] > unit:
        count = max(count + 1, count * 5 // 4)
        size = -(-(-(-total // count)) // unit) * unit
        if size < sizes[-1]:
            sizes.append(size)
    return sizes


class _Search:
    """The search for the tiling of one contraction; `copies` of each tile must fit at a time."""

    def __init__(self, work: Work, device: Device, copies: int):
        self.work, self.device, self.engines = work, device, Engines.of(device)
        self.room = Room(work, device, self.engines, copies)
        self.costs = Costs(work, device, self.engines)

    def best(self) -> Tiling | None:
        """The cheapest tiling; the first one if several cost the same."""
        if not self._fits(self.least()):
            return None
        candidates = (t for shape in self._shapes() for t in self._kept(shape))
        return min(candidates, key=lambda t: t.price.cycles, default=None)

    def least(self) -> Shape:
        """The smallest tile: a single position of the result."""
        outputs = min(self._outputs(), self.work.out_channels)
        return Shape(1, 1, outputs, outputs if self.work.depthwise else 1)

    def _outputs(self) -> int:
        """The output channels that the array computes at a time."""
        if self.work.depthwise and self.device.array.depthwise is not None:
            return self.device.array.depthwise.lanes.c
        return self.device.array.lanes.n

    def _slices(self) -> list[int]:
        """Slice sizes to try: multiples of what the array and a transfer take at a time, then smaller slices."""
        burst = max(queue.burst for queue in self.device.queue) * 8 // self.work.data_bits
        unit = max(self.device.array.lanes.k, burst)
        sizes = _shares(self.work.channels, unit)
        return [*sizes, *_shares(sizes[-1])[1:]]

    def _shapes(self) -> Iterator[Shape]:
        """Yields the tiles that fit: tiles of whole rows if some fit, otherwise tiles of parts of rows."""
        work = self.work
        slices, outputs = self._slices(), _shares(work.out_channels, self._outputs())
        for columns in _shares(work.out_columns):
            shapes = [
                Shape(rows, columns, n, k)
                for rows, n in product(_shares(work.out_rows), outputs)
                for k in ([n] if work.depthwise else self._fitting(rows, columns, n, slices))
                if self._fits(Shape(rows, columns, n, k))
            ]
            yield from shapes
            if shapes:
                return

    def _fitting(self, rows: int, columns: int, outputs: int, slices: Sequence[int]) -> list[int]:
        """The two largest slices of the input channels that fit."""
        return list(islice((k for k in slices if self._fits(Shape(rows, columns, outputs, k))), 2))

    def _fits(self, shape: Shape) -> bool:
        """Whether a tile fits in every region, and its commands keep to the limits of commands."""
        return self.room.fits(shape) and self.costs.commands.keep_limits(shape)

    def _kept(self, shape: Shape) -> Iterator[Tiling]:
        for outputs_outside in (False, True):
            data, weights = self.room.kept(shape, outputs_outside)
            price = self.costs.price(shape, outputs_outside, data, weights)
            yield Tiling(shape, outputs_outside, data.kept, weights.kept, price)
