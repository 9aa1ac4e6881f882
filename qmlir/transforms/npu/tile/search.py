"""Searches a grid for the cheapest tiling of a contraction: tile sizes, loop order, and what is kept in memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product

from qmlir.devices import Device
from qmlir.devices.schema import Role
from qmlir.transforms.npu.tile.commands import Shape
from qmlir.transforms.npu.tile.costs import Costs, Price
from qmlir.transforms.npu.tile.engines import Engines
from qmlir.transforms.npu.tile.room import Kept, Room
from qmlir.transforms.npu.tile.work import Work

# ---------------------------------------------------------------------------------------------------------------
# Searches a grid for the cheapest tiling of a contraction: tile sizes, loop order, and what is kept in memory.
#
# A tile is a number of rows and columns of the result by a number of output channels; its sums take the input channels
# slice by slice. Tiles run in two nested loops, over positions and over output channels, with either loop outside.
# Every combination that fits is priced by the cycles of the commands that it leads to (devices/costs.py); commands of
# different queues overlap. The price is that of one image, which begins with nothing loaded.


@dataclass(frozen=True)
class Tiling:
    """A tiling of a contraction.

    rows, columns    rows and columns of the result in a tile
    outputs          output channels in a tile
    terms            input channels in a slice; for a depthwise convolution, as many as output channels
    outputs_outside  whether the loop over output channels is the outer loop; otherwise the loop over positions is
    data, weights    how long data and weights are kept
    price            the predicted price for one image
    """

    rows: int
    columns: int
    outputs: int
    terms: int
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
        if not self.room.fits(self.least()):
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
            price = self.costs.price(shape, outputs_outside, data, weights)
            yield Tiling(
                shape.rows, shape.columns, shape.outputs, shape.terms, outputs_outside, data.kept, weights.kept, price
            )
