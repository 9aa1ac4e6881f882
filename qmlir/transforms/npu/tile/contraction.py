"""Tiles layers with a contraction: sums are computed tile by tile, and finished while the next tile's data loads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Generic, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.devices import Device
from qmlir.devices.legality.least import contraction_fields
from qmlir.devices.model.engines import Engines, WeightBits
from qmlir.devices.model.room import Kept, least_tile, too_large
from qmlir.devices.model.stored import stored_bias, stored_weights
from qmlir.devices.model.work import Contraction, Work, weight_bits_of, work_of
from qmlir.dialects import qint
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.npu import LayerOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, shape_of
from qmlir.isa.commands import Convolve, ConvolveDepthwise, Init
from qmlir.transforms.npu.tile.costs import TileCommands, packed
from qmlir.transforms.npu.tile.emission import Emitter, Spot, View
from qmlir.transforms.npu.tile.parts import Part, inside, parts_of
from qmlir.transforms.npu.tile.search import Tiling, tiling
from qmlir.transforms.npu.tile.vector import finish, tiles

T = TypeVar("T")
K = TypeVar("K")


def tile_contraction(emitter: Emitter, layer: LayerOp, op: Contraction, chain: Sequence[Operation]) -> None:
    """Emits the commands of a contraction and of the elementwise operations that follow it.

    Args:
        emitter: Receives the commands.
        layer: The layer.
        op: The contraction.
        chain: The elementwise operations after it.

    Raises:
        UnsupportedError: Not even the smallest tile fits, or the layer has a form without commands.
    """
    bias, weights = _constants(op, layer, emitter.device)
    if not chain:
        raise UnsupportedError.at(op.name, layer.label.data, "must be followed by a change of scale in its layer")
    if isinstance(op, qint.DepthwiseConv2DOp) and shape_of(op.x)[-1] != shape_of(op.w)[-1]:
        raise UnsupportedError.at(
            op.name, layer.label.data, "must have one output channel for each input channel",
            got=f"{shape_of(op.w)[-1]} for {shape_of(op.x)[-1]}",
        )  # fmt: skip
    parts = list(parts_of(emitter, layer, op, chain))
    widths = weight_bits_of(op, emitter.device)
    work = work_of(op, chain, layer.label.data, widths, inside(emitter, parts[0]), emitter.device)
    bits, shift = stored_bias(op, emitter.device)
    brought = _bias(emitter, None if bias is None else bias >> shift, bits)
    loop = _Loop(emitter, op, chain, work, _tiling(emitter, work, layer), weights, brought)
    for part in parts:
        loop.run(part)


def _tiling(emitter: Emitter, work: Work, layer: LayerOp) -> Tiling:
    """The tiling of a contraction.

    Raises:
        UnsupportedError: Not even the smallest tile fits, or the device has no words for it; the error says which.
    """
    device = emitter.device
    if (found := tiling(work, device)) is None:
        least = least_tile(work, device)
        if (reason := TileCommands(work, device, emitter.engines).refusal(least)) is not None:
            raise UnsupportedError.at("npu.layer", layer.label.data, f"the smallest tile: {reason}")
        needed = too_large(work, device).items()
        raise UnsupportedError.at(
            "npu.layer", layer.label.data, f"must have tiles that fit the memories of {device.name}",
            got=", ".join(f"{size} bytes of {role} in {room}" for role, (size, room) in needed),
        )  # fmt: skip
    return found


def _constants(op: Contraction, layer: LayerOp, device: Device) -> tuple[Array | None, Array | None]:
    """The bias and the weights, as the device stores them; a product of two matrices has neither."""
    if isinstance(op, qint.MatMulOp):
        if Engines.of(device).arranging is None:
            raise UnsupportedError.at(
                op.name, layer.label.data, "needs a queue that arranges matrices as weights (queue.arranges)"
            )
        return None, None
    _constant(op.w, layer)
    return None if op.b is None else _constant(op.b, layer), stored_weights(op, device)[0]


def _constant(value: SSAValue, layer: LayerOp) -> Array:
    if not isinstance(value.owner, ConstantOp):
        raise UnsupportedError.at(
            "npu.layer", layer.label.data, "must have weights and a bias that are constants in it"
        )
    return value.owner.value.array


# ---------------------------------------------------------------------------------------------------------------
# Bias


def _bias(emitter: Emitter, bias: Array | None, bits: int) -> Callable[[range], Spot] | None:
    """A function that brings the bias of some output channels to where the array reads it; None without a bias.

    The whole bias is loaded at once if it takes at most a quarter of its region; otherwise each tile loads its own.
    """
    if bias is None:
        return None
    numbers = bias.astype(f"<i{bits // 8}")
    way = emitter.engines.staging("bias", emitter.engines.constants("bias"))
    if way is not None and numbers.nbytes > emitter.regions[way[0].id, "bias"].size // 4:
        return lambda channels: emitter.staged(numbers[channels.start : channels.stop], "bias")
    whole = emitter.staged(numbers, "bias")
    return lambda channels: whole.later(channels.start * bits // 8)


# ---------------------------------------------------------------------------------------------------------------
# Tile by tile


@dataclass
class _Shelf(Generic[K, T]):
    """The tiles that are already loaded, for as long as the tiling keeps them."""

    kept: Kept
    tiles: dict[K, T] = field(default_factory=dict[K, T])

    def get(self, key: K, bring: Callable[[], T]) -> T:
        """The tile for `key`; `bring` loads it if it is not there."""
        if key in self.tiles:
            return self.tiles[key]
        tile = bring()
        if self.kept is not Kept.STEP:
            self.tiles[key] = tile
        return tile

    def next_outer(self) -> None:
        """Drops tiles that are kept for one step of the outer loop only."""
        if self.kept is Kept.OUTER:
            self.tiles.clear()


Ranges = tuple[range, ...]


@dataclass
class _Loop:
    """The loops over the tiles of a layer.

    chosen   the tiling
    weights  weights of all groups, as the device stores them; None if a computed matrix takes their place
    bias     brings the bias of some output channels; None without a bias
    """

    emitter: Emitter
    op: Contraction
    chain: Sequence[Operation]
    work: Work
    chosen: Tiling
    weights: Array | None
    bias: Callable[[range], Spot] | None

    def __post_init__(self) -> None:
        self.fields = contraction_fields(self.op, self.emitter.device) | self.work.widths | self.work.window
        self.kept_weights: _Shelf[Ranges, Spot] = _Shelf(self.chosen.weights)
        self.kept_data: _Shelf[Ranges, View] = _Shelf(self.chosen.data)

    def run(self, part: Part) -> None:
        """Emits the commands of one image and one group, or of one product of matrices."""
        work, chosen, shape = self.work, self.chosen, self.chosen.shape
        self.kept_data.tiles.clear()
        if part.matrix is not None:
            self.kept_weights.tiles.clear()
        outputs = tiles(work.out_channels, shape.outputs)
        positions = list(product(tiles(work.out_rows, shape.rows), tiles(work.out_columns, shape.columns)))
        if chosen.weights is Kept.LAYER:
            for channels in outputs:
                for terms in self._slices(channels):
                    self._weights(part, channels, terms)
        if chosen.outputs_outside:
            for channels in outputs:
                self._next_outer()
                for rows, columns in positions:
                    self._tile(part, rows, columns, channels)
        else:
            for rows, columns in positions:
                self._next_outer()
                for channels in outputs:
                    self._tile(part, rows, columns, channels)

    def _next_outer(self) -> None:
        self.kept_weights.next_outer()
        self.kept_data.next_outer()

    def _slices(self, outputs: range) -> list[range]:
        """The slices of the input channels, by which a sum is accumulated."""
        return [outputs] if self.work.depthwise else tiles(self.work.channels, self.chosen.shape.terms)

    def _tile(self, part: Part, rows: range, columns: range, outputs: range) -> None:
        """Emits the commands for the sums of a tile and for the operations after them."""
        emitter, post = self.emitter, self.emitter.engines.post
        shape = (len(rows), len(columns), len(outputs))
        channels = range(part.outputs.start + outputs.start, part.outputs.start + outputs.stop)
        sums = emitter.tile(emitter.engines.sums, shape, self.work.sum_bits, "acc")
        bias = None if self.bias is None else self.bias(channels)
        for number, terms in enumerate(self._slices(outputs)):
            self._accumulate(part, rows, columns, outputs, terms, sums, bias, number == 0)
        operands = {v: emitter.load(view.box(rows, columns, outputs), post) for v, view in part.operands.items()}
        target = part.target.box(rows, columns, outputs)
        room = emitter.room(target, post)
        finish(emitter, self.chain, {self.op.acc: sums, **operands}, room, channels)
        emitter.store(room, target, post)

    def _accumulate(
        self,
        part: Part,
        rows: range,
        columns: range,
        outputs: range,
        terms: range,
        sums: View,
        bias: Spot | None,
        first: bool,
    ) -> None:
        """Emits the command that adds the products of one slice of the input channels."""
        work, array = self.work, self.emitter.engines.array
        weights = self._weights(part, outputs, terms)
        (seen_rows, top), (seen_columns, left) = work.seen(0, rows), work.seen(1, columns)
        data = self.kept_data.get(
            (rows, columns, terms),
            lambda: self.emitter.load(part.source.box(seen_rows, seen_columns, terms), array),
        )
        kind = ConvolveDepthwise if work.depthwise else Convolve
        begin = Init.ZERO if bias is None else Init.BIAS
        self.emitter.issue(
            array, kind, data=data.spot, weights=weights, bias=bias or sums.spot, sums=sums.spot,
            init=begin if first else Init.ACCUMULATE, rows=data.shape[0], columns=data.shape[1], channels=data.shape[2],
            row_pitch=data.row_pitch, pixel_pitch=data.pixel_pitch, out_rows=len(rows), out_columns=len(columns),
            top=top, left=left, **self.fields, **({} if work.depthwise else {"out_channels": len(outputs)}),
        )  # fmt: skip

    def _weights(self, part: Part, outputs: range, terms: range) -> Spot:
        """Where the weights of some output channels and a slice of the input channels lie; loads them if needed."""
        first = part.outputs.start

        def bring() -> Spot:
            if part.matrix is not None:
                return self.emitter.arranged(*part.matrix.some(outputs, terms))
            assert self.weights is not None
            if self.work.depthwise:
                chosen = np.ascontiguousarray(self.weights[..., outputs.start : outputs.stop])
            else:
                some = self.weights[first + outputs.start : first + outputs.stop, ..., terms.start : terms.stop]
                chosen = packed(some, self.emitter.device)
            work = self.work
            return self.emitter.weights(chosen, WeightBits(work.stored_weight_bits, work.weight_bits))

        return self.kept_weights.get((range(first, first + 1), outputs, terms), bring)
