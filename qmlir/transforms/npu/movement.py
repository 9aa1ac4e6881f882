"""Layers that only move data: a reshape costs nothing, the others are copies of strided boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.indexing import SliceOp
from qmlir.dialects.nn.shape import BroadcastOp, ConcatOp, PadOp, ReshapeOp, TransposeOp
from qmlir.dialects.npu import LayerOp
from qmlir.dialects.qint.base import width_of
from qmlir.errors import LoweringError
from qmlir.isa.commands import Fill, Pool, Pooling
from qmlir.transforms.npu.emission import Emitter, Spot, View
from qmlir.transforms.npu.vector import pieces

MOVING = (BroadcastOp, ConcatOp, PadOp, SliceOp, TransposeOp)
"""What there are copies for; a reshape needs none."""

MOST_COPIES = 1 << 10
"""A layer that takes more transfers than this is none for a device that moves boxes."""


@dataclass(frozen=True)
class Copy:
    """A box of any rank, from one tensor to another; offsets and strides in elements.

    source    the value it is taken from
    sizes     of the box
    """

    source: SSAValue
    sizes: tuple[int, ...]
    there: int
    there_strides: tuple[int, ...]
    here: int
    here_strides: tuple[int, ...]

    def loops(self) -> list[tuple[int, int, int]]:
        """(count, stride there, stride here) from the outside in, as few as can be; the last one dense in both."""
        every = [
            loop for loop in zip(self.sizes, self.there_strides, self.here_strides, strict=True) if loop[0] > 1
        ]  # fmt: skip
        merged: list[tuple[int, int, int]] = [(1, 1, 1)]
        for count, there, here in reversed(every):
            inner, inner_there, inner_here = merged[0]
            if (there, here) == (inner * inner_there, inner * inner_here):
                merged[0] = (count * inner, inner_there, inner_here)
            else:
                merged.insert(0, (count, there, here))
        return merged


def tile_movement(emitter: Emitter, layer: LayerOp, op: Operation, outer: dict[SSAValue, SSAValue]) -> None:
    """A reshape as another name for the same bytes, anything else as copies."""
    if isinstance(op, ReshapeOp):
        emitter.tensors[layer.outputs[0]] = emitter.views(op.x, outer)[0].spot
        return
    emitter.result(layer.outputs[0], layer.label.data)
    target = emitter.tensors[layer.outputs[0]]
    bits = width_of(layer.outputs[0])
    if isinstance(op, PadOp):
        _fill(emitter, op, target, bits)
    for copy in copies(op):
        source = emitter.views(copy.source, outer)[0].spot
        for box in _boxes(copy, source, target, bits, emitter):
            _copy(emitter, *box)


def copies(op: Operation) -> list[Copy]:
    """The boxes that an operation moves.

    Raises:
        LoweringError: It moves elements in no such way.
    """
    (y,) = op.results
    strides = _strides(shape_of(y))
    match op:
        case ConcatOp():
            axis, found, at = op.axis.value.data, list[Copy](), 0
            for x in op.inputs:
                shape = shape_of(x)
                found.append(Copy(x, shape, 0, _strides(shape), at * strides[axis], strides))
                at += shape[axis]
            return found
        case PadOp():
            first = sum(low * stride for (low, _), stride in zip(op.pads(), strides, strict=True))
            return [Copy(op.x, shape_of(op.x), 0, _strides(shape_of(op.x)), first, strides)]
        case TransposeOp():
            there = _strides(shape_of(op.x))
            order = op.permutation.get_values()
            return [Copy(op.x, shape_of(y), 0, tuple(there[p] for p in order), 0, strides)]
        case BroadcastOp():
            shape = shape_of(op.x)
            padded = (1,) * (len(strides) - len(shape)) + shape
            there = tuple(
                0 if n == 1 else s for n, s in zip(padded, _strides(padded), strict=True)
            )  # fmt: skip
            return [Copy(op.x, shape_of(y), 0, there, 0, strides)]
        case SliceOp():
            places = np.arange(prod(shape_of(op.x))).reshape(shape_of(op.x))
            (taken,) = op.evaluate(places)
            there = tuple(
                int(np.take(taken, 1, axis).flat[0] - taken.flat[0]) if size > 1 else 0
                for axis, size in enumerate(taken.shape)
            )
            return [Copy(op.x, shape_of(y), int(taken.flat[0]), there, 0, strides)]
        case _:
            raise LoweringError(op.name, "", "must be a copy of boxes", remedy="it belongs on the host")


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a tensor without gaps, in elements."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def _boxes(copy: Copy, source: Spot, target: Spot, bits: int, emitter: Emitter) -> list[tuple[View, View]]:
    """A copy as boxes [rows, columns, channels]."""
    size, loops = bits // 8, copy.loops()
    outer, inner = loops[:-3], [*[(1, 0, 0)] * (3 - len(loops)), *loops[-3:]]
    if prod(count for count, _, _ in outer) > MOST_COPIES:
        raise LoweringError("npu.layer", emitter.layers[-1], f"must take at most {MOST_COPIES} copies of boxes")
    (rows, there_row, here_row), (columns, there_column, here_column), (channels, _, _) = inner
    shape, external = (rows, columns, channels), emitter.engines.external
    found: list[tuple[View, View]] = []
    for place in np.ndindex(*(count for count, _, _ in outer)):
        there = copy.there + sum(n * stride for n, (_, stride, _) in zip(place, outer, strict=True))
        here = copy.here + sum(n * stride for n, (_, _, stride) in zip(place, outer, strict=True))
        found.append(
            (
                View(external, _at(source, there * size), shape, bits, there_row * size, there_column * size),
                View(external, _at(target, here * size), shape, bits, here_row * size, here_column * size),
            )
        )
    return found


def _at(spot: Spot, offset: int) -> Spot:
    return Spot(spot.buffer, spot.offset + offset)


def _copy(emitter: Emitter, source: View, target: View) -> None:
    """Copies a box in pieces: in and out where one memory serves for both, else by way of a pool of one element."""
    queue = emitter.engines.pool
    reading, writing = emitter.engines.reading(queue), emitter.engines.writing(queue)
    direct = reading is not None and writing is not None and reading[0] == writing[0]
    for box in pieces(emitter, queue, source.shape, [source], source.bits, 1):
        part, tile = target.box(*box), emitter.load(source.box(*box), queue)
        room = tile if direct else emitter.room(part, queue)
        if not direct:
            _pool_of_one(emitter, tile, room)
        emitter.store(room, part, queue)


def _pool_of_one(emitter: Emitter, source: View, target: View) -> None:
    rows, columns, channels = source.shape
    emitter.issue(
        emitter.engines.pool, Pool, pooling=Pooling.MAX, bits=source.bits, source=source.spot, rows=rows,
        columns=columns, channels=channels, row_pitch=source.row_pitch, pixel_pitch=source.pixel_pitch,
        target=target.spot, out_rows=rows, out_columns=columns, target_row=target.row_pitch,
        target_pixel=target.pixel_pitch, kernel_rows=1, kernel_columns=1, stride_rows=1, stride_columns=1,
        dilation_rows=1, dilation_columns=1, top=0, left=0, count_padding=0, zero_point=0,
    )  # fmt: skip


def _fill(emitter: Emitter, op: PadOp, target: Spot, bits: int) -> None:
    """Fills a result with its padding, before the rest is copied over it."""
    stored = set(op.stored_value().reshape(1).view(np.uint8).tolist())
    if len(stored) > 1:
        raise LoweringError(op.name, emitter.layers[-1], "must pad with a number of equal bytes", got=str(op.value))
    way = emitter.engines.writing(emitter.engines.pool)
    size = prod(shape_of(op.y)) * bits // 8
    emitter.issue(
        emitter.engines.pool if way is None else way[1], Fill, target=target, size=size, rows=1, planes=1,
        target_row=0, target_plane=0, value=stored.pop(),
    )  # fmt: skip
