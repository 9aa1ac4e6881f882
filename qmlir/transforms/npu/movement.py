"""Tiles layers that only move data, as copies of strided boxes; aliases.py handles layers whose result is a view."""

from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.devices.copies import Copy, copies
from qmlir.dialects.nn.shape import ConstantOp, PadOp, ReshapeOp
from qmlir.dialects.npu import LayerOp
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.ir.interfaces import shape_of
from qmlir.isa.commands import Fill, Pool, Pooling
from qmlir.transforms.npu.emission import Emitter, Spot, View
from qmlir.transforms.npu.vector import pieces


def tile_movement(emitter: Emitter, layer: LayerOp, op: Operation, outer: dict[SSAValue, SSAValue]) -> None:
    """Emits the copies of a layer, and the fill of padding; a reshape or storage cast of a constant emits nothing."""
    if isinstance(op, ReshapeOp | StorageCastOp):
        emitter.tensors[layer.outputs[0]] = emitter.views(op.operands[0], outer)[0].spot
        return
    emitter.result(layer.outputs[0], layer.label.data)
    target = emitter.tensors[layer.outputs[0]]
    bits = width_of(layer.outputs[0])
    if isinstance(op, PadOp):
        _fill(emitter, op, target)
    for copy in copies(op):
        source = emitter.views(copy.source, outer)[0].spot
        for box in _boxes(copy, source, target, bits, emitter):
            _copy(emitter, *box)


def _boxes(copy: Copy, source: Spot, target: Spot, bits: int, emitter: Emitter) -> list[tuple[View, View]]:
    """A copy as pairs of source and target boxes [rows, columns, channels]."""
    size, loops = bits // 8, copy.loops()
    outer, inner = loops[:-3], [*[(1, 0, 0)] * (3 - len(loops)), *loops[-3:]]
    (rows, there_row, here_row), (columns, there_column, here_column), (channels, _, _) = inner
    shape, there_memory, here_memory = (rows, columns, channels), emitter.memory_of(source), emitter.memory_of(target)
    found: list[tuple[View, View]] = []
    for place in np.ndindex(*(count for count, _, _ in outer)):
        there = copy.there + sum(n * stride for n, (_, stride, _) in zip(place, outer, strict=True))
        here = copy.here + sum(n * stride for n, (_, _, stride) in zip(place, outer, strict=True))
        found.append(
            (
                View(there_memory, _at(source, there * size), shape, bits, there_row * size, there_column * size),
                View(here_memory, _at(target, here * size), shape, bits, here_row * size, here_column * size),
            )
        )
    return found


def _at(spot: Spot, offset: int) -> Spot:
    return Spot(spot.buffer, spot.offset + offset)


def _copy(emitter: Emitter, source: View, target: View) -> None:
    """Copies a box in pieces: directly if one memory serves loads and stores, else through a pool with a 1x1 window."""
    queue = emitter.engines.pool
    reading, writing = emitter.engines.reading(queue), emitter.engines.writing(queue)
    direct = reading is not None and writing is not None and reading[0] == writing[0]
    for box in pieces(emitter, queue, target, [source], 1):
        part, tile = target.box(*box), emitter.load(source.box(*box), queue)
        room = tile if direct else emitter.room(part, queue)
        if not direct:
            _pool_of_one(emitter, tile, room)
        emitter.store(room, part, queue)


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


def _pool_of_one(emitter: Emitter, source: View, target: View) -> None:
    rows, columns, channels = source.shape
    emitter.issue(
        emitter.engines.pool, Pool, pooling=Pooling.MAX, bits=source.bits, source=source.spot, rows=rows,
        columns=columns, channels=channels, row_pitch=source.row_pitch, pixel_pitch=source.pixel_pitch,
        target=target.spot, out_rows=rows, out_columns=columns, target_row=target.row_pitch,
        target_pixel=target.pixel_pitch, kernel_rows=1, kernel_columns=1, stride_rows=1, stride_columns=1,
        dilation_rows=1, dilation_columns=1, top=0, left=0, count_padding=0, zero_point=0,
    )  # fmt: skip


def _fill(emitter: Emitter, op: PadOp, target: Spot) -> None:
    """Fills a result with its padding before the data is copied over it; differing bytes are filled one by one."""
    stored: list[int] = op.stored_value().reshape(1).view(np.uint8).tolist()
    way = emitter.engines.writing(emitter.engines.pool)
    queue = emitter.engines.pool if way is None else way[1]
    count = prod(shape_of(op.y))
    if len(set(stored)) == 1:
        count, stored = count * len(stored), stored[:1]
    for n, value in enumerate(stored):
        size, rows = (count, 1) if len(stored) == 1 else (1, count)
        emitter.issue(
            queue, Fill, target=Spot(target.buffer, target.offset + n), size=size, rows=rows, planes=1,
            target_row=len(stored) if rows > 1 else 0, target_plane=0, value=value,
        )  # fmt: skip
