"""Whether the smallest tile of a layer fits the memories of a device: what the tiler needs, and what legality asks.

The tiler (transforms/npu/tile) takes the sizes of its tiles from here and from room.py, so that a layer that legality
leaves to the device has tiles.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Device, Memory, Queue
from qmlir.devices.description.schema import Role
from qmlir.devices.model import tables
from qmlir.devices.model.engines import Engines, Region, regions
from qmlir.devices.model.room import too_large
from qmlir.devices.model.stored import as_images, stored_dtype
from qmlir.devices.model.work import Contraction, Inside, Work, weight_bits_of, work_of
from qmlir.dialects import qint
from qmlir.ir.interfaces import shape_of
from qmlir.isa.limits import MOST_ELEMENTS, MOST_MEETINGS

Regions = Mapping[tuple[str, Role], Region]
PoolOp = qint.MaxPool2DOp | qint.AveragePool2DOp
RowOp = qint.SoftmaxOp | qint.LayerNormOp | qint.RMSNormOp
Elementwise = qint.RequantizeOp | qint.LookupOp | qint.AddOp | qint.MulOp

MOST = MOST_ELEMENTS // 4
"""The most elements that a command without a window works on."""


def beyond_memories(operations: Sequence[Operation], device: Device) -> str | None:
    """Why not even the smallest tile of a layer fits the memories of a device: a sentence; None if it fits.

    Args:
        operations: The operations of the layer in order, without constants. Tensors lie in the external memory.
        device: The device.
    """
    if not (beyond := too_large_for(operations, device)):
        return None
    got = ", ".join(f"{size} bytes of {role} in {room}" for role, size, room in beyond)
    return f"the smallest tile must fit the memories, got {got} (memory.bytes)"


Beyond = tuple[Role, int, int]
"""A role whose region is too small, the bytes that it needs, and the bytes of the region."""


def too_large_for(operations: Sequence[Operation], device: Device) -> list[Beyond]:
    """What of the smallest tile of a layer exceeds its region."""
    engines = Engines.of(device)
    return [*_beyond(operations, engines), *_tables_beyond(operations, engines)]


def _beyond(operations: Sequence[Operation], engines: Engines) -> Iterator[Beyond]:
    """Yields what of the smallest tile exceeds its region."""
    first, *chain = operations
    device = engines.device
    if isinstance(first, Contraction) and chain:
        work = work_of(first, chain, "", weight_bits_of(first, device), Inside(), device)
        for role, (size, room) in too_large(work, device).items():
            yield role, size, room
    elif isinstance(first, PoolOp):
        external = engines.external
        work, bits = windows_of(first), 8 * stored_dtype(first.x).itemsize
        windows = pool_room(engines, regions(device), external, external)
        if not windows.fits(work, bits, (1, 1, 1)):
            data: Role = "ifm"
            yield data, work.most_seen(0, 1) * work.most_seen(1, 1) * bits // 8, windows.data
    elif isinstance(first, RowOp):
        yield from _rows_beyond(first, engines)
    elif isinstance(first, qint.GlobalSumPoolOp | Elementwise):
        yield from _elements_beyond(operations, engines)


def _rows_beyond(op: RowOp, engines: Engines) -> Iterator[Beyond]:
    """Yields the roles whose region does not hold a single row of an operation on rows."""
    data, result = row_room(engines, regions(engines.device), engines.external, engines.external)
    needed: list[tuple[Role, int, int]] = [("ifm", row_bytes(op, op.x), data), ("ofm", row_bytes(op, op.y), result)]
    yield from (each for each in needed if each[1] > each[2])


def _elements_beyond(operations: Sequence[Operation], engines: Engines) -> Iterator[Beyond]:
    """Yields the roles whose region does not hold a single element of each tensor of an elementwise layer or a sum."""
    computed = {result for op in operations for result in op.results}
    steps = [op for op in operations if not isinstance(op, qint.MulOp)]
    reading, writing = engines.reading(engines.post), engines.writing(engines.post)
    between, role = engines.between
    written = [op.results[0] for op in (steps if writing is not None else steps[:-1])]
    known = regions(engines.device)
    needed: list[tuple[Memory | None, Role, Collection[SSAValue]]] = [
        (None if reading is None else reading[0], "ifm", {v for op in operations for v in op.operands} - computed),
        (between, role, written),
    ]
    for memory, kind, values in needed:
        region = None if memory is None else known.get((memory.id, kind))
        if memory is None or region is None:
            continue
        size = sum(memory.aligned(stored_dtype(value).itemsize) for value in values)
        if size > region.size:
            yield kind, size, region.size


def _tables_beyond(operations: Sequence[Operation], engines: Engines) -> Iterator[Beyond]:
    """Yields the roles whose tables exceed their region; a contraction's tables beside its bias are its tile's."""
    known = regions(engines.device)
    roles: tuple[Role, ...] = ("scales", "lut") if isinstance(operations[0], Contraction) else ("scales", "lut", "bias")
    for role in roles:
        way = engines.staging(role, engines.constants(role))
        region = None if way is None else known.get((way[0].id, role))
        if way is None or region is None:
            continue
        size = sum(way[0].aligned(size) for size in tables.sizes(operations, role, engines))
        if size > region.size:
            yield role, size, region.size


# ---------------------------------------------------------------------------------------------------------------
# Operations on rows


def row_bytes(op: RowOp, value: SSAValue) -> int:
    """The bytes of a row of an operand or of the result."""
    return op.split()[1] * stored_dtype(value).itemsize


def row_room(engines: Engines, known: Regions, source: Memory, target: Memory) -> tuple[int, int]:
    """The most bytes of rows that a command may read, and that it may write.

    Args:
        engines: The engines of the device.
        known: The regions of tiles.
        source: The memory of the data.
        target: The memory of the result.
    """
    return _room(engines, engines.post, known, (source, target), at_once=1)


def _room(engines: Engines, queue: Queue, known: Regions, ends: tuple[Memory, Memory], at_once: int) -> tuple[int, int]:
    """The most bytes of data and of a result that a command of a queue may have, such that `at_once` fit at a time.

    `ends` are the memories of the data and of the result, where a queue that works in place needs no room.
    """
    (source, target), reading, writing = ends, engines.reading(queue), engines.writing(queue)
    return (
        MOST if reading is None or reading[0] == source else known[reading[0].id, "ifm"].size // at_once,
        MOST if writing is None or writing[0] == target else known[writing[0].id, "ofm"].size // at_once,
    )


# ---------------------------------------------------------------------------------------------------------------
# Pools


class PoolRoom(NamedTuple):
    """The most bytes that a tile of a pool may have, such that two fit at a time: of the data, and of the result."""

    data: int
    result: int

    def fits(self, work: Work, bits: int, tile: tuple[int, int, int]) -> bool:
        """Whether a tile fits, and whether its windows meet no more elements than a command may.

        Args:
            work: The windows.
            bits: The width of an element.
            tile: Rows, columns and channels of the result.
        """
        rows, columns, channels = tile
        seen = work.most_seen(0, rows) * work.most_seen(1, columns)
        size = bits // 8 * channels
        meets = prod(tile) * max(work.taps, MOST_MEETINGS // MOST)
        return seen * size <= self.data and rows * columns * size <= self.result and meets <= MOST_MEETINGS


def pool_room(engines: Engines, known: Regions, source: Memory, target: Memory) -> PoolRoom:
    """The room for tiles of a pool.

    Args:
        engines: The engines of the device.
        known: The regions of tiles.
        source: The memory of the data.
        target: The memory of the result.
    """
    return PoolRoom(*_room(engines, engines.pool, known, (source, target), at_once=2))


def windows_of(op: PoolOp) -> Work:
    """The geometry of a pool's windows on an image."""
    top, _, left, _ = op.padding_values()
    return Work(
        *as_images(shape_of(op.x))[1], *as_images(shape_of(op.y))[1], kernel=op.window_values(),
        stride=op.stride_values(), dilation=op.dilation_values(), before=(top, left),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------
# Sums over images


def most_summed(device: Device) -> tuple[int, int]:
    """The rows and columns of the largest image that one command sums: what the windows of pools may have."""
    limits = device.ops.avgpool
    rows, columns = (limits and limits.kernel_max) or (MOST, MOST)
    if (area := limits and limits.kernel_area_max) is None:
        return rows, columns
    rows = min(rows, area)
    return rows, min(columns, area // rows)


def arranged_image(rows: int, columns: int, most: tuple[int, int]) -> tuple[int, int]:
    """The rows and columns of the same pixels for which a sum needs the fewest commands; their order does not count."""
    pixels = rows * columns
    shapes = [(rows, columns), *((n, pixels // n) for n in range(1, pixels + 1) if pixels % n == 0)]
    return min(shapes, key=lambda shape: -(-shape[0] // most[0]) * -(-shape[1] // most[1]))
