"""The cycles of a layer on NVDLA small, from its registers.

They run from the first enabling of a unit to the interrupt, with a memory that answers 8 bytes a cycle after 32 cycles.
The numbers below are fitted to programs that ran on the RTL; all of them are cycles.

A convolution waits for all of its data and the weights of its first 8 kernels. The array then takes stripes of 8 to 16
pixels: for each block of 8 x 8 weights a cycle a pixel, and at least 8, in which the weights of the next block are
loaded. A pixel of 8 channels keeps SDP for 8 cycles, and CACC has room for 16 pixels that SDP has not returned. PDP and
SDP from memory take 8 cycles for a pixel of 8 channels as well.
"""

from collections.abc import Iterator

from qmlir.backends.hardware.nvdla.cdp import Normalization
from qmlir.backends.hardware.nvdla.convolution import BANK_ENTRIES, Convolution
from qmlir.backends.hardware.nvdla.machine import Done
from qmlir.backends.hardware.nvdla.memory import ATOM
from qmlir.backends.hardware.nvdla.pdp import Pooling
from qmlir.backends.hardware.nvdla.sdp import READERS, PointProcessor

PIXEL = 8
"""Of a pixel of 8 channels in SDP, PDP and CDP."""

START = 172
"""From the first enabling to the first product, with an empty buffer, less the bytes that are fetched."""

REQUEST = 1.5
"""Of each row of a surface that is fetched, besides its bytes."""

LATENCY, RETURN = 20, 44
"""From the last product of a pixel to SDP, and from there until CACC has room for another one."""

END, OPERANDS, STAGE = 8, 2, 5
"""From SDP to the interrupt; more where SDP reads operands; more for each stage of SDP from memory."""

REFILL = 60
"""From the end of 8 kernels to the first weights that take their place in the buffer."""

COPY, POOL, FLYING = 122, 127, 20
"""Of a layer of SDP from memory and one of PDP, besides its pixels, and what PDP adds to a convolution."""

ALONE = 3
"""Of a window of PDP that is alone in its row, where another one follows at once; and of the last such window."""

NORM, NORM_COLUMN, NORM_STRIP = 141, 6, 3.5
"""Of a layer of CDP, besides its pixels and a cycle for each strip of 8 columns; for each column of the first strip;
for each column that the last strip of a row lacks, where another row follows."""

POOL_IN = 101
"""Of a layer of PDP whose last pixels belong to no window, besides its pixels."""

ROOM = 16
"""Pixels that CACC has room for."""


def cycles(done: Done) -> int:
    """Returns the cycles that a layer takes on the device."""
    match done:
        case Done(convolution=Convolution() as convolution, sdp=PointProcessor() as sdp):
            total = _convolution(convolution) + END + (OPERANDS if sdp.rdma is not None else 0)
            pdp = done.pdp
            return round(total + (0 if pdp is None else FLYING + PIXEL * _left(pdp)))
        case Done(sdp=PointProcessor() as sdp):
            channels, rows, columns = sdp.shape
            stages = sum(not sdp.sdp[f"{stage}_BYPASS"] for stage in READERS)
            fixed = COPY + STAGE * stages + (FLYING if done.pdp is not None else 0)
            return fixed + PIXEL * -(-channels // ATOM) * rows * columns
        case Done(pdp=Pooling() as pooling):
            return _pooling(pooling)
        case Done(cdp=Normalization() as normalization):
            return _normalization(normalization)
        case _:
            raise AssertionError("a layer has a unit that computes it")


def _convolution(layer: Convolution) -> float:
    """Returns when SDP takes the last pixel of a convolution."""
    kernels, rows, columns, channels = layer.kernel
    _, out_rows, out_columns = layer.out
    blocks = rows * columns * -(-channels // ATOM)
    data = layer.entries * layer.rows
    requests = layer.rows * (1 if layer.pixels else -(-layer.channels // ATOM))
    groups = [min(ATOM, kernels - first) * rows * columns * channels / ATOM for first in range(0, kernels, ATOM)]
    room = (layer.cdma["WEIGHT_BANK"] + 1) * BANK_ENTRIES
    # Data and weights share the bus until one of them is there.
    time = START + data + REQUEST * requests + min(data, sum(groups))
    fetched, free, returned, ends = 0.0, 0.0, list[float](), list[float]()
    for group, weights in enumerate(groups):
        fetched += weights
        time = max(time, START + fetched + min(data, fetched))
        if fetched > room:
            # Groups that were computed make room, and the rest of this one is fetched then.
            behind, gone = 0, groups[0]
            while gone < fetched - room:
                behind += 1
                gone += groups[behind]
            if behind < group:
                time = max(time, ends[behind] + REFILL + fetched - room - (gone - groups[behind]))
        for stripe in _stripes(layer, out_rows, out_columns):
            block = max(stripe, ATOM)
            time += block * (blocks - 1)
            # The last block of a stripe waits until there is room for all of its pixels.
            last = len(returned) + stripe - 1 - ROOM
            if last >= 0:
                time = max(time, returned[last])
            free = max(free, time + LATENCY)
            time += block
            returned.extend(free + PIXEL * pixel + RETURN for pixel in range(stripe))
            free += PIXEL * stripe
        ends.append(time)
    return free


def _stripes(layer: Convolution, rows: int, columns: int) -> Iterator[int]:
    """Yields the pixels of each stripe: of all rows in one, or, of pixels from an image, of each row."""
    if layer.pixels:
        for _ in range(rows):
            yield from (min(ROOM, columns - first) for first in range(0, columns, ROOM))
        return
    left = rows * columns
    while left:
        stripe = ROOM if left >= 2 * ROOM else left if left <= ROOM else ROOM // 2
        yield stripe
        left -= stripe


def _pooling(layer: Pooling) -> int:
    """Returns the cycles of a layer of PDP from memory.

    A column takes its turn in PDP, and so does a window that ends past the data, unless the columns that begin the row
    behind it end no window themselves. Those of windows that end below the data are the turns of the next surface's
    rows, where these end none and the windows that they begin find their lines in the buffer.
    """
    channels, rows, columns = layer.shape
    surfaces, across = -(-channels // ATOM), layer.out[2]
    first, late, early = _ends(layer, axis=1)
    above, low, below = _ends(layer, axis=0)
    row, left = columns + max(late - first, 0), _left(layer)
    between = max(late - first, 0) + max(low - min(above, _room(layer, low)), 0) * across
    total = surfaces * (row * (rows - 1) + columns) + (surfaces - 1) * between
    alone = ALONE * (total - 1 if row == 1 else 1) if across == 1 else 0
    return max(POOL_IN + PIXEL * total, POOL + PIXEL * (total + left - early - below * row) + alone)


def _room(layer: Pooling, low: int) -> int:
    """Returns how many rows of a surface find lines in the buffer while windows that end below the last one leave it.

    Each window has a line, in turn: as many as windows overlap. No row waits where the first row begins windows whose
    lines are free.
    """
    down = layer.strides[0]
    lines, begun = -(-layer.kernel[0] // down), layer.pdp["PAD_TOP"] // down
    leaving = {window % lines for window in range(layer.out[1] - low, layer.out[1])}
    waits = leaving & {window % lines for window in range(begun + 1)}
    return max(lines - low - begun, 0) if waits else layer.shape[1]


def _normalization(layer: Normalization) -> int:
    """Returns the cycles of a layer of CDP, which takes strips of 8 columns, all channels of one before the next."""
    channels, rows, columns = layer.shape
    surfaces = -(-channels // ATOM)
    whole, last = divmod(columns, ATOM)
    total = NORM + NORM_COLUMN * min(columns, ATOM) + PIXEL * surfaces * rows * columns
    if whole:
        total += surfaces * rows * whole - 1 + (NORM_STRIP * (ATOM - last) * (rows - 1) if last else 0)
    return round(total)


def _left(layer: Pooling) -> int:
    """Returns the windows that are left to compute when the last element has come."""
    return _ends(layer, axis=1)[1] + _ends(layer, axis=0)[1] * layer.out[2]


def _ends(layer: Pooling, axis: int) -> tuple[int, int, int]:
    """Returns where windows end along rows (axis 0) or columns (axis 1).

    They are the number of places that end none before the first one does or the last place comes, how many end past the
    data, less the one that the last place can end as well, and how many places lie behind the end of the last one.
    """
    before = layer.pdp[("PAD_TOP", "PAD_LEFT")[axis]]
    size, kernel, stride, count = layer.shape[1 + axis], layer.kernel[axis], layer.strides[axis], layer.out[1 + axis]
    ends = [n * stride - before + kernel - 1 for n in range(count)]
    late = sum(end >= size for end in ends)
    if late and size - 1 not in ends:
        late -= 1
    return min(max(ends[0], 0), size - 1), late, max(size - 1 - ends[-1], 0)
