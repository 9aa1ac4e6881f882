"""Tiles layers without a contraction: elementwise operations, pools, sums over an image, copies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Queue
from qmlir.devices.legality.fitting import MOST, arranged_image, most_summed, pool_room, windows_of
from qmlir.devices.legality.least import POOL_OF_ONE, Fields, arithmetic_fields, pool_fields, reduction_fields
from qmlir.devices.model.stored import Copy, copies
from qmlir.devices.model.work import Work
from qmlir.dialects import qint
from qmlir.dialects.nn.movement import ConstantOp, PadOp, ReshapeOp
from qmlir.dialects.npu import LayerOp
from qmlir.dialects.qint.requantize import width_of
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import shape_of
from qmlir.isa.commands import Arithmetic, Fill, Init, Pool, Post, Reduce
from qmlir.isa.limits import MOST_BYTES
from qmlir.transforms.npu.tile.emission import Emitter, Spot, Tile, View


def finish(
    emitter: Emitter,
    chain: Sequence[Operation],
    values: dict[SSAValue, View],
    target: View,
    channels: range | None = None,
) -> None:
    """Emits the commands of a chain of elementwise operations.

    Args:
        emitter: Receives the commands.
        chain: The operations; the result of the last operation is written to `target`.
        values: The tensors that the chain reads, with the same rows, columns and channels as `target`.
        target: The view that receives the result.
        channels: The channels of the whole tensor that `target` covers; all by default.
    """
    steps = [op for op in chain if not isinstance(op, qint.MulOp)]
    for op in steps:
        last = op is steps[-1]
        view = target if last else _between(emitter, target.shape, width_of(op.results[0]))
        values[op.results[0]] = view
        multiplied = op.operands[0].owner if isinstance(op, qint.RequantizeOp) else None
        match op:
            case qint.AddOp():
                _arithmetic(emitter, op, emitter.context(op, channels), values, view)
            case qint.RequantizeOp() if isinstance(multiplied, qint.MulOp) and multiplied in chain:
                _arithmetic(emitter, multiplied, emitter.context(op, channels), values, view)
            case _:
                assert isinstance(op, qint.RequantizeOp | qint.LookupOp)
                _post(emitter, op, values[op.x], view, channels)


def _between(emitter: Emitter, shape: tuple[int, int, int], bits: int) -> View:
    memory, role = emitter.engines.between
    return emitter.tile(memory, shape, bits, role)


def _post(
    emitter: Emitter, op: qint.RequantizeOp | qint.LookupOp, source: View, target: View, channels: range | None
) -> None:
    rows, columns, width = target.shape
    emitter.issue(
        emitter.engines.post, Post, ctx=emitter.context(op, channels), source=source.spot, source_bits=source.bits,
        rows=rows, columns=columns, channels=width, source_row=source.row_pitch, source_pixel=source.pixel_pitch,
        target=target.spot, target_row=target.row_pitch, target_pixel=target.pixel_pitch,
    )  # fmt: skip


def _arithmetic(
    emitter: Emitter, op: qint.AddOp | qint.MulOp, ctx: int, values: dict[SSAValue, View], target: View
) -> None:
    """Emits a sum or product of two tensors."""
    lhs, rhs = values[op.lhs], values[op.rhs]
    rows, columns, channels = target.shape
    emitter.issue(
        emitter.engines.post, Arithmetic, ctx=ctx, lhs=lhs.spot, rhs=rhs.spot, target=target.spot, rows=rows,
        columns=columns, channels=channels, lhs_row=lhs.row_pitch, lhs_pixel=lhs.pixel_pitch, rhs_row=rhs.row_pitch,
        rhs_pixel=rhs.pixel_pitch, target_row=target.row_pitch, target_pixel=target.pixel_pitch,
        **arithmetic_fields(op),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------


def tile_elementwise(emitter: Emitter, layer: LayerOp, chain: Sequence[Operation]) -> None:
    """Emits the commands of a chain of elementwise operations, in pieces that fit."""
    post = emitter.engines.post
    targets = emitter.result(layer.outputs[0], layer.label.data)
    sources = {v: emitter.views(v) for op in chain for v in op.operands if v.owner not in chain}
    per_channel = any(isinstance(op, qint.RequantizeOp) and len(op.multiplier) > 1 for op in chain)
    for n, target in enumerate(targets):
        inputs = {v: broadcast(views[n if len(views) > 1 else 0], target.shape) for v, views in sources.items()}
        if not per_channel and all(_is_dense(v) for v in (target, *inputs.values())):
            target, inputs = _flat(target), {v: _flat(view) for v, view in inputs.items()}
        tiles = len([op for op in chain if not isinstance(op, qint.MulOp)])
        piece = largest_piece(emitter, post, target, [*inputs.values()], tiles)
        emitter.in_tiles(piece, partial(_elementwise, emitter, chain, target, inputs))


def _elementwise(
    emitter: Emitter, chain: Sequence[Operation], target: View, inputs: Mapping[SSAValue, View], tile: Tile
) -> None:
    """Emits the commands of a chain of elementwise operations on one image, tile by tile."""
    post = emitter.engines.post
    for box in boxes(target.shape, tile):
        part = target.box(*box)
        loaded = {v: emitter.load(view.box(*box), post) for v, view in inputs.items()}
        room = emitter.room(part, post)
        finish(emitter, chain, loaded, room, box[2])
        emitter.store(room, part, post)


def broadcast(view: View, shape: tuple[int, int, int]) -> View:
    """A view of a tensor broadcast to a shape; rows and columns can be repeated, channels cannot.

    Raises:
        UnsupportedError: The tensor does not broadcast to the shape.
    """
    rows, columns, channels = view.shape
    if channels != shape[2] or rows not in (1, shape[0]) or columns not in (1, shape[1]):
        raise UnsupportedError.at(
            "npu.layer", "", f"needs an operand that repeats to {list(shape)}", got=str(list(view.shape))
        )
    return replace(
        view,
        shape=shape,
        row_pitch=view.row_pitch if rows == shape[0] else 0,
        pixel_pitch=view.pixel_pitch if columns == shape[1] else 0,
    )


def _is_dense(view: View) -> bool:
    return view == View.dense(view.memory, view.spot, view.shape, view.bits)


def _flat(view: View) -> View:
    return View.dense(view.memory, view.spot, (1, 1, prod(view.shape)), view.bits)


def largest_piece(emitter: Emitter, queue: Queue, target: View, inputs: Sequence[View], tiles: int) -> Tile:
    """The rows, columns and channels of a part of a tensor, two of which fit the memories where they are loaded.

    Args:
        emitter: The emitter, with the device and its regions.
        queue: The queue that works on the parts.
        target: The whole tensor.
        inputs: The tensors that are read for each part.
        tiles: How many tensors are written for each part, intermediate tensors included.
    """
    limits = [MOST]
    known, reading, writing = emitter.regions, emitter.engines.reading(queue), emitter.engines.writing(queue)
    brought = [] if reading is None else [view.bits // 8 for view in inputs if view.memory != reading[0]]
    if reading is not None and brought:
        limits.append(known[reading[0].id, "ifm"].size // 2 // sum(brought))
    between, role = emitter.engines.between
    if tiles > 1 or (writing is not None and writing[0] != target.memory):
        limits.append(known[between.id, role].size // 2 // (tiles * 4))
    return _box(target.shape, max(min(limits), 1))


def _box(shape: tuple[int, int, int], most: int) -> Tile:
    """The extents of a box of at most `most` elements of a shape: whole rows, else columns of a row, else channels."""
    rows, columns, channels = shape
    some_channels = min(channels, most)
    some_columns = min(columns, max(most // some_channels, 1)) if some_channels == channels else 1
    whole = some_columns == columns and some_channels == channels
    some_rows = min(rows, max(most // (columns * channels), 1)) if whole else 1
    return some_rows, some_columns, some_channels


# ---------------------------------------------------------------------------------------------------------------


def tile_pool(emitter: Emitter, layer: LayerOp, op: qint.MaxPool2DOp | qint.AveragePool2DOp) -> None:
    """Emits the commands of a pool, for some rows and channels of its result at a time."""
    sources, targets = emitter.views(op.x), emitter.result(layer.outputs[0], layer.label.data)
    for source, target in zip(sources, targets, strict=True):
        work = windows_of(op)
        tile = _pool_tile(emitter, op, work, source, target)
        emitter.in_tiles(tile, partial(_pool_tiles, emitter, op, work, source, target))


def _pool_tiles(
    emitter: Emitter,
    op: qint.MaxPool2DOp | qint.AveragePool2DOp,
    work: Work,
    source: View,
    target: View,
    tile: Tile,
) -> None:
    """Emits the commands of a pool of one image, tile by tile."""
    queue = emitter.engines.pool
    for at, part in ((b, target.box(*b)) for b in boxes(target.shape, tile)):
        (seen_rows, top), (seen_columns, left) = work.seen(0, at[0]), work.seen(1, at[1])
        data = emitter.load(source.box(seen_rows, seen_columns, at[2]), queue)
        room = emitter.room(part, queue)
        _pool(emitter, data, room, pool_fields(op) | {"top": top, "left": left})
        emitter.store(room, part, queue)


def boxes(shape: tuple[int, int, int], tile: Tile) -> Iterator[tuple[range, range, range]]:
    """Yields the tiles that cover a shape; the last tiles may be smaller."""
    rows, columns, channels = (tiles(total, size) for total, size in zip(shape, tile, strict=True))
    yield from product(rows, columns, channels)


def tiles(total: int, size: int) -> list[range]:
    """Ranges of the given size that cover a total; the last range may be smaller."""
    return [range(start, min(start + size, total)) for start in range(0, total, size)]


def _pool_tile(
    emitter: Emitter, op: qint.MaxPool2DOp | qint.AveragePool2DOp, work: Work, source: View, target: View
) -> tuple[int, int, int]:
    """The tile of a pool's result: as many rows as fit; if a row does not fit, fewer channels and then fewer columns.

    Raises:
        UnsupportedError: Not even a single window fits.
    """
    tile = list(target.shape)
    room = pool_room(emitter.engines, emitter.regions, source.memory, target.memory)

    def fits() -> bool:
        rows, columns, channels = tile
        return room.fits(work, target.bits, (rows, columns, channels))

    for axis in (0, 2, 1):
        while not fits() and tile[axis] > 1:
            tile[axis] = -(-tile[axis] // 2)
    if not fits():
        raise UnsupportedError.at(
            op.name, emitter.layers[-1], f"must have a window that fits {room.data} bytes of {emitter.engines.pool.id}"
        )
    return tile[0], tile[1], tile[2]


def _pool(emitter: Emitter, source: View, target: View, fields: Fields) -> None:
    emitter.issue(
        emitter.engines.pool, Pool, source=source.spot, rows=source.shape[0],
        columns=source.shape[1], channels=source.shape[2], row_pitch=source.row_pitch, pixel_pitch=source.pixel_pitch,
        target=target.spot, out_rows=target.shape[0], out_columns=target.shape[1], target_row=target.row_pitch,
        target_pixel=target.pixel_pitch, **fields,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------


def tile_reduction(
    emitter: Emitter,
    layer: LayerOp,
    op: qint.GlobalSumPoolOp,
    chain: Sequence[Operation],
) -> None:
    """Emits the commands that sum an image, some channels and rows at a time, and the operations after them.

    Commands that add to the sums of others sum an image of any size, each as much of it as a window may have.
    """
    sources, targets = emitter.views(op.x), emitter.result(layer.outputs[0], layer.label.data)
    others = {v: emitter.views(v) for step in chain for v in step.operands if v.owner not in (op, *chain)}
    room = _brought_room(emitter, [sources[0], *(views[0] for views in others.values())])
    sums_room, whole = emitter.regions[emitter.engines.sums.id, "acc"].size // 2, most_summed(emitter.device)
    for n, (source, target) in enumerate(zip(_arranged(sources, whole), targets, strict=True)):
        rows, columns, channels = source.shape
        some = max(min(channels, sums_room // 4 // len(chain), room // (source.bits // 8) // (1 + len(others))), 1)
        most = min(max(room // (source.bits // 8), some), rows * columns * channels)
        beside = {v: views[n] for v, views in others.items()}
        emitter.in_tiles((some, most), partial(_sums, emitter, op, chain, source, target, beside, whole))


def _sums(
    emitter: Emitter,
    op: qint.GlobalSumPoolOp,
    chain: Sequence[Operation],
    source: View,
    target: View,
    others: Mapping[SSAValue, View],
    whole: tuple[int, int],
    tile: Tile,
) -> None:
    """Emits the commands that sum one image, and the operations after them.

    Args:
        emitter: Receives the commands.
        op: The sum.
        chain: The elementwise operations after it.
        source: The image.
        target: The view that receives the results.
        others: The other operands of the chain.
        whole: The most rows and columns that a command sums.
        tile: How many channels are summed at a time, and the most elements that are loaded at a time.
    """
    pool, post = emitter.engines.pool, emitter.engines.post
    rows, columns, channels = source.shape
    some, most = tile
    for _, _, at in boxes((1, 1, channels), (1, 1, some)):
        sums = emitter.tile(emitter.engines.sums, (1, 1, len(at)), 32, "acc")
        image, init = (rows, columns, len(at)), Init.ZERO
        for seen_rows, seen_columns, _ in boxes(image, _box(image, max(most, len(at)))):
            loaded = emitter.load(source.box(seen_rows, seen_columns, at), pool)
            for box in boxes(loaded.shape, (*whole, len(at))):
                summed = loaded.box(*box)
                emitter.issue(
                    pool, Reduce, source=summed.spot, rows=summed.shape[0], columns=summed.shape[1],
                    channels=summed.shape[2], row_pitch=summed.row_pitch, pixel_pitch=summed.pixel_pitch,
                    sums=sums.spot, init=init, **reduction_fields(op),
                )  # fmt: skip
                init = Init.ACCUMULATE
        part = target.box(range(1), range(1), at)
        operands = {v: emitter.load(view.box(range(1), range(1), at), post) for v, view in others.items()}
        written = emitter.room(part, post)
        finish(emitter, chain, {op.acc: sums, **operands}, written, at)
        emitter.store(written, part, post)


def _arranged(images: Sequence[View], most: tuple[int, int]) -> list[View]:
    """Dense images with as many rows and columns as need the fewest commands."""
    arranged: list[View] = []
    for image in images:
        rows, columns, channels = image.shape
        height, width = arranged_image(rows, columns, most)
        arranged.append(View.dense(image.memory, image.spot, (height, width, channels), image.bits))
    return arranged


def _brought_room(emitter: Emitter, views: Sequence[View]) -> int:
    """The most bytes that a tile may have where pools read it, such that two tiles fit at a time."""
    reading = emitter.engines.reading(emitter.engines.pool)
    if reading is None or all(view.memory == reading[0] for view in views):
        return MOST
    return emitter.regions[reading[0].id, "ifm"].size // 2


# ---------------------------------------------------------------------------------------------------------------
# Tiles layers that only move data, as copies of strided boxes; aliases.py handles layers whose result is a view.


def tile_movement(emitter: Emitter, layer: LayerOp, op: Operation) -> None:
    """Emits the copies of a layer, and the fill of padding; a reshape or storage cast of a constant emits nothing."""
    if isinstance(op, ReshapeOp | StorageCastOp):
        emitter.tensors[layer.outputs[0]] = emitter.views(op.operands[0])[0].spot
        return
    emitter.result(layer.outputs[0], layer.label.data)
    target = emitter.tensors[layer.outputs[0]]
    bits = width_of(layer.outputs[0])
    if isinstance(op, PadOp):
        _fill(emitter, op, target)
    for copy in copies(op):
        source = emitter.views(copy.source)[0].spot
        for box in _boxes(copy, source, target, bits, emitter):
            _copy(emitter, *box)


def _boxes(copy: Copy, source: Spot, target: Spot, bits: int, emitter: Emitter) -> list[tuple[View, View]]:
    """A copy as pairs of source and target boxes [rows, columns, channels]."""
    size, loops = bits // 8, copy.loops()
    backwards = [loop for loop in loops if loop[1] < 0]  # the pitches of commands have no sign
    loops = [loop for loop in loops if loop[1] >= 0]
    outer, inner = [*backwards, *loops[:-3]], [*[(1, 0, 0)] * (3 - len(loops)), *loops[-3:]]
    (rows, there_row, here_row), (columns, there_column, here_column), (channels, _, _) = inner
    shape, there_memory, here_memory = (rows, columns, channels), emitter.memory_of(source), emitter.memory_of(target)
    found: list[tuple[View, View]] = []
    for place in np.ndindex(*(count for count, _, _ in outer)):
        there = copy.there + sum(n * stride for n, (_, stride, _) in zip(place, outer, strict=True))
        here = copy.here + sum(n * stride for n, (_, _, stride) in zip(place, outer, strict=True))
        found.append(
            (
                View(there_memory, source.later(there * size), shape, bits, there_row * size, there_column * size),
                View(here_memory, target.later(here * size), shape, bits, here_row * size, here_column * size),
            )
        )
    return found


def _copy(emitter: Emitter, source: View, target: View) -> None:
    """Copies a box in pieces: directly if one memory serves loads and stores, else through a pool with a 1x1 window."""
    queue = emitter.engines.pool
    reading, writing = emitter.engines.reading(queue), emitter.engines.writing(queue)
    direct = reading is not None and writing is not None and reading[0] == writing[0]

    def emit(tile: Tile) -> None:
        for box in boxes(target.shape, tile):
            part, loaded = target.box(*box), emitter.load(source.box(*box), queue)
            room = loaded if direct else emitter.room(part, queue)
            if not direct:
                _pool(emitter, loaded, room, POOL_OF_ONE | {"top": 0, "left": 0, "bits": loaded.bits})
            emitter.store(room, part, queue)

    emitter.in_tiles(largest_piece(emitter, queue, target, [source], 1), emit)


def copy_tensor(emitter: Emitter, value: SSAValue, name: str, size: int) -> Spot:
    """Copies a whole tensor of `size` bytes to a new buffer; returns the buffer."""
    external = emitter.engines.external
    target = Spot(emitter.buffer(external, size, "ofm", tensor=name))
    source = emitter.tensors.get(value)
    if source is None:
        held = value.owner
        assert isinstance(held, ConstantOp)
        source = emitter.constant(held.value.array, "ifm")
    _copy(emitter, *(View.dense(emitter.memory_of(spot), spot, (1, 1, size), 8) for spot in (source, target)))
    return target


def _fill(emitter: Emitter, op: PadOp, target: Spot) -> None:
    """Fills a result with its padding before the data is copied over it; differing bytes are filled one by one."""
    stored: list[int] = op.stored_value().reshape(1).view(np.uint8).tolist()
    way = emitter.engines.writing(emitter.engines.pool)
    queue = emitter.engines.pool if way is None else way[1]
    count = prod(shape_of(op.y))
    if len(set(stored)) == 1:
        count, stored = count * len(stored), stored[:1]
    for at, (n, value) in product(range(0, count, MOST_BYTES), enumerate(stored)):
        some = min(count - at, MOST_BYTES)
        size, rows = (some, 1) if len(stored) == 1 else (1, some)
        emitter.issue(
            queue, Fill, target=target.later(at * len(stored) + n), size=size, rows=rows, planes=1,
            target_row=len(stored) if rows > 1 else 0, target_plane=0, value=value,
        )  # fmt: skip
