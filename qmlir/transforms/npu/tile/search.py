"""Searches a grid for the cheapest tiling of a contraction: tile sizes, loop order, and what is kept in memory.

A tile is a number of rows and columns of the result by a number of output channels; its sums take the input channels
slice by slice. Tiles run in two nested loops, over positions and over output channels, with either loop outside. Every
combination that fits (`Room`) is priced by the cycles of the commands that it leads to (costs.py); commands of
different queues overlap. The price is that of one image, which begins with nothing loaded.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product

from qmlir.devices import Device
from qmlir.devices.model.encoder import Named, encoder_of
from qmlir.devices.model.engines import Engines
from qmlir.devices.model.room import Kept, Room, Shape, least_outputs, least_tile
from qmlir.devices.model.work import Work
from qmlir.transforms.npu.tile.costs import Costs, Price


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


def tiling(work: Work, device: Device) -> Tiling | None:
    """The best tiling of a contraction on a device; None if not even the smallest tile fits.

    If possible, two of every tile fit, so that one tile is loaded or stored while the other is worked on. The result is
    cached: equal contractions share one search.
    """
    return _found(work, device, encoder_of(device))


@cache
def _found(work: Work, device: Device, encoder: Named | None) -> Tiling | None:
    """The best tiling; a program may register another encoder under the name that the device has."""
    for copies in (2, 1):
        if (found := _Search(work, device, copies).best()) is not None:
            return found
    return None


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
        if not self._fits(least_tile(self.work, self.device)):
            return None
        candidates = (t for shape in self._shapes() for t in self._kept(shape))
        return min(candidates, key=lambda t: t.price.cycles, default=None)

    def _slices(self) -> list[int]:
        """Slice sizes to try: multiples of what the array and a transfer take at a time, then smaller slices."""
        burst = max(queue.burst for queue in self.device.queue) * 8 // self.work.data_bits
        unit = max(self.device.array.lanes.k, burst)
        sizes = _shares(self.work.channels, unit)
        return [*sizes, *_shares(sizes[-1])[1:]]

    def _shapes(self) -> Iterator[Shape]:
        """Yields the tiles that fit: tiles of whole rows if some fit, otherwise tiles of parts of rows."""
        work = self.work
        slices, outputs = self._slices(), _shares(work.out_channels, least_outputs(work, self.device))
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
