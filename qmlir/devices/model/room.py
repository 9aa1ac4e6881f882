"""Which tiles of a contraction fit the memories of a device, and how long data and weights can stay there."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property

from qmlir.devices.description.device import Device, Memory
from qmlir.devices.description.schema import Role
from qmlir.devices.model.engines import Engines, regions
from qmlir.devices.model.work import Work
from qmlir.numerics.packing import packed_bytes


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


class Kept(Enum):
    """How long loaded data or weights stay in the memory from which the array reads them."""

    STEP = "for one command"
    OUTER = "while the outer loop is at one tile"
    LAYER = "for the whole layer"


@dataclass(frozen=True)
class Stay:
    """How long an operand is kept, and whether its successor may be loaded meanwhile (double buffering)."""

    kept: Kept
    doubled: bool = True


def packed_size(outputs: int, terms: int, bits: int, device: Device) -> int:
    """The size of weights in tiles, in bytes."""
    return packed_bytes(device.layout.in_tiles(outputs, terms), bits)


def least_tile(work: Work, device: Device) -> Shape:
    """The smallest tile of a contraction: a single position of the result."""
    outputs = min(least_outputs(work, device), work.out_channels)
    return Shape(1, 1, outputs, outputs if work.depthwise else 1)


def least_outputs(work: Work, device: Device) -> int:
    """The output channels that the array computes at a time."""
    if work.depthwise and device.array.depthwise is not None:
        return device.array.depthwise.lanes.c
    return device.array.lanes.n


def too_large(work: Work, device: Device) -> Mapping[Role, tuple[int, int]]:
    """What of the smallest tile exceeds its region.

    Returns:
        Role → bytes that the tile needs, and bytes that the region has; empty if the tile fits.
    """
    needed = Room(work, device, Engines.of(device), 1).of_step(least_tile(work, device))
    return {role: (size, room) for role, (size, room) in needed.items() if size > room}


class Room:
    """Checks which tiles fit the regions of their roles.

    `copies` is the number of each tile that must fit at a time: 2 if one queue loads a tile while another works on one.
    """

    def __init__(self, work: Work, device: Device, engines: Engines, copies: int):
        self.work, self.device, self.engines, self.copies = work, device, engines, copies
        self._regions, inside = regions(device, work.inside.rest), work.inside
        reading = engines.reading(engines.array)
        reads = not inside.data or inside.operands < work.operands or (work.arranged and not inside.matrix)
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
            "ifm": (self.copies * (self._data_size(shape, shape.terms) + self._beside(shape)), self._data),
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
            None if self._data is None or work.inside.data else self._data - self.copies * self._beside(shape),
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

    def _beside(self, shape: Shape) -> int:
        """Bytes of the tensors that are loaded besides the data: of other operands, and of a matrix to arrange."""
        work, arranging = self.work, self.engines.arranging
        loads = arranging is not None and self.engines.reading(arranging.queue) is not None
        matrix = shape.outputs * shape.terms * work.weight_bits // 8 + self._slack(1)
        return self._operands(shape) + (matrix if loads and work.arranged and not work.inside.matrix else 0)

    def _operands(self, shape: Shape) -> int:
        """Bytes of the tensors that are loaded for the operations after the contraction."""
        if self.engines.reading(self.engines.post) is None:
            return 0
        size = shape.rows * shape.columns * shape.outputs * self.work.result_bits // 8
        return (self.work.operands - self.work.inside.operands) * (size + self._slack(1))

    def _tables(self) -> int:
        """Bytes of the tables that share the region of biases."""
        if self.engines.tables() != "bias":
            return 0
        return self.work.tables + self._slack(self.work.posts + self.work.operands)

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
