"""`equalize-blocks`: brings the blocks of rows that layers with scales of blocks read nearer to one magnitude.

A row that is divided by its largest magnitude leaves the blocks of small channels few of 8 bits. Layers whose weights
have a scale for each block take any factor of a block for nothing: the gain in front is divided by it, and the scales
multiplied, so that the weights' own integers stay as they are. A gain is a constant, or a factor, as of a gated
feed-forward network, that is a layer with scales of blocks itself:

    y = Σ_g s[o,g] · f[g] · Σ_{i in g} (x[i] / f[g]) · (w[o,i] − z[o,g])

f[g] is the square root of the mean share that a block's largest magnitude has of its row's, over the rows of samples,
with 1 / f[g] rounded to quarters: which of two neighbours it is makes no difference, and files hold few digits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import BlockedFullyConnectedOp, DivideRowsOp, MulOp, MultiplyRowsOp, RowMagnitudesOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.transforms.quantize.adjust.channel_pairs import (
    constant_array,
    evaluations,
    note_factors,
    observe_anew,
    set_constant,
)
from qmlir.transforms.quantize.adjust.side_by_side import SampledPass

SHARE = 0.5
"""The exponent of the mean share: 1 would bring all blocks to one magnitude, but round the largest channels more."""

PARTS = 4
"""1 / f is a whole number of quarters."""

LEAST_FACTOR = 2.0**-6
"""The least factor: a block may be nearly dead on the samples only."""


@dataclass(frozen=True)
class EqualizeBlocksPass(SampledPass):
    """Divides gains in front of divided rows by a factor for each block, and multiplies the blocks' scales by it.

    Gains are constants, or layers whose scales are divided.

    ```mlir
    %1 = nn.mul %0, %gain : …
    %q = nn.divide_rows %1 : …
    %y = nn.blocked_fully_connected %q, %w, %s, %z {block = 32 : i64} : …
    // becomes, with %gf = %gain / f and %sf = %s · f, a factor f for each block
    %1 = nn.mul %0, %gf : …
    %q = nn.divide_rows %1 : …
    %y = nn.blocked_fully_connected %q, %w, %sf, %z {block = 32 : i64} : …
    ```
    """

    name = "equalize-blocks"

    def adjust(self, function: func.FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> None:
        block = function.body.block
        found = _gained_rows(block)
        shares: dict[SSAValue, list[Array]] = {rows.y: [] for rows in found}
        for values in evaluations(block, samples, set(shares)):
            for value, array in values.items():
                shares[value].append(_shares(array, found_size(found, value)))
        for rows in found:
            mean = np.mean(np.concatenate(shares[rows.y]), axis=0) if shares[rows.y] else np.zeros(0)
            if mean.size and mean.max() > 0:
                rows.scale(PARTS / np.rint(PARTS / np.maximum((mean / mean.max()) ** SHARE, LEAST_FACTOR)))
        observe_anew(block, [value for rows in found for value in rows.changed], samples)


@dataclass(frozen=True)
class GainedRows:
    """Rows behind a gain that only layers with scales of blocks read, divided by their magnitudes.

    gain     the product with the gain
    place    which operand the gain is
    writer   the layer that computes the gain, on divided rows; None if it is a constant
    readers  the layers
    size     the channels of a block
    """

    gain: MulOp
    place: int
    writer: BlockedFullyConnectedOp | None
    readers: tuple[BlockedFullyConnectedOp, ...]
    size: int

    @property
    def y(self) -> SSAValue:
        """The rows."""
        return self.gain.y

    @property
    def changed(self) -> Sequence[SSAValue]:
        """The tensors whose channels have other factors."""
        return (self.y,) if self.writer is None else (self.y, self.gain.operands[self.place], self.writer.y)

    def scale(self, factors: Array) -> None:
        """Divides the gain, and multiplies the scales, by a factor for each block."""
        channels = np.repeat(factors, self.size)
        if self.writer is None:
            _multiply(self.gain, self.place, 1 / channels)
        else:
            _multiply(self.writer, 2, 1 / channels[:, None])
            if self.writer.b is not None:
                _multiply(self.writer, 4, 1 / channels)
        for reader in self.readers:
            _multiply(reader, 2, factors)
        for value in self.changed[:2]:  # the sums of the writer are no tensor of the source model
            assert isinstance(value.owner, Operation)
            note_factors(value.owner, 1 / channels)


def _multiply(op: Operation, place: int, factors: Array) -> None:
    """Multiplies a constant operand."""
    numbers = constant_array(op.operands[place])
    assert numbers is not None
    set_constant(op, place, (numbers * factors).astype(np.float32))


def found_size(found: Sequence[GainedRows], value: SSAValue) -> int:
    """The channels of a block of rows among those that were found."""
    return next(rows.size for rows in found if rows.y is value)


def _gained_rows(block: Block) -> list[GainedRows]:
    """The rows of a network that can be scaled block by block."""
    found: list[GainedRows] = []
    for op in block.ops:
        if not isinstance(op, MulOp) or op.bounds() != (None, None) or not shape_of(op.y):
            continue
        gain, width = _gain(op), shape_of(op.y)[-1]
        readers = _readers(op.y) if gain is not None else []
        sizes = {r.size for r in readers}
        if gain is not None and len(sizes) == 1 and width % (size := sizes.pop()) == 0:
            found.append(GainedRows(op, *gain, tuple(readers), size))
    return found


def _gain(op: MulOp) -> tuple[int, BlockedFullyConnectedOp | None] | None:
    """The operand of a product that has a factor for each channel of the result, and the layer that computes it."""
    for place, value in enumerate(op.operands):
        if shape_of(value)[-1:] != shape_of(op.y)[-1:] or shape_of(op.operands[1 - place]) != shape_of(op.y):
            continue
        if constant_array(value) is not None:
            return place, None
        if (writer := _writer(value)) is not None:
            return place, writer
    return None


def _writer(value: SSAValue) -> BlockedFullyConnectedOp | None:
    """The layer with scales of blocks that computes a factor, if nothing else reads what it computes."""
    rows = value.owner
    if not isinstance(rows, MultiplyRowsOp) or _read_by(value) != 1:
        return None
    layer = rows.x.owner
    if not isinstance(layer, BlockedFullyConnectedOp) or _read_by(layer.y) != 1 or layer.bounds() != (None, None):
        return None
    constants = (layer.s, *(() if layer.b is None else (layer.b,)))
    return layer if all(constant_array(v) is not None for v in constants) else None


def _read_by(value: SSAValue) -> int:
    """How many operations read a value, observers left out."""
    return sum(not isinstance(use.operation, ObserveOp) for use in value.uses)


def _readers(value: SSAValue) -> list[BlockedFullyConnectedOp]:
    """The layers that read rows, divided by their magnitudes; none if anything else reads them."""
    readers: list[BlockedFullyConnectedOp] = []
    for use in value.uses:
        if isinstance(use.operation, RowMagnitudesOp | ObserveOp):
            continue
        if not isinstance(use.operation, DivideRowsOp):
            return []
        for each in (u.operation for u in use.operation.y.uses):
            if isinstance(each, ObserveOp):
                continue
            if not isinstance(each, BlockedFullyConnectedOp) or constant_array(each.s) is None:
                return []
            readers.append(each)
    return readers


def _shares(rows: Array, size: int) -> Array:
    """The largest magnitude of each block as a share of its row's, [rows, blocks]; rows of zeros are left out."""
    largest = np.abs(rows.reshape(-1, rows.shape[-1] // size, size)).max(axis=2).astype(np.float64)
    whole = largest.max(axis=1, keepdims=True)
    return largest[whole[:, 0] > 0] / whole[whole[:, 0] > 0]
