"""`equalize-blocks`: brings the blocks of rows that layers with scales of blocks read nearer to one magnitude.

A row that is divided by its largest magnitude leaves the blocks of small channels few of 8 bits. Layers whose weights
have a scale for each block take any factor of a block for nothing: the gain in front is divided by it, and the scales
multiplied, so that the weights' own integers stay as they are:

    y = Σ_g s[o,g] · f[g] · Σ_{i in g} (x[i] / f[g]) · (w[o,i] − z[o,g])

f[g] is the square root of the mean share that a block's largest magnitude has of its row's, over the rows of samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.ir import Block, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import BlockedFullyConnectedOp, DivideRowsOp, MulOp, RowMagnitudesOp
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

LEAST_FACTOR = 2.0**-6
"""The least factor: a block may be nearly dead on the samples only."""


@dataclass(frozen=True)
class EqualizeBlocksPass(SampledPass):
    """Divides gains in front of divided rows by a factor for each block, and multiplies the blocks' scales by it.

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
                rows.scale(np.maximum((mean / mean.max()) ** SHARE, LEAST_FACTOR))
        observe_anew(block, [rows.y for rows in found], samples)


@dataclass(frozen=True)
class GainedRows:
    """Rows behind a gain that only layers with scales of blocks read, divided by their magnitudes.

    gain     the product with the constant
    place    which operand the constant is
    readers  the layers
    size     the channels of a block
    """

    gain: MulOp
    place: int
    readers: tuple[BlockedFullyConnectedOp, ...]
    size: int

    @property
    def y(self) -> SSAValue:
        """The rows."""
        return self.gain.y

    def scale(self, factors: Array) -> None:
        """Divides the gain, and multiplies the scales, by a factor for each block."""
        numbers, channels = constant_array(self.gain.operands[self.place]), np.repeat(factors, self.size)
        assert numbers is not None
        set_constant(self.gain, self.place, (numbers / channels).astype(np.float32))
        for reader in self.readers:
            scales = constant_array(reader.s)
            assert scales is not None
            set_constant(reader, 2, (scales * factors).astype(np.float32))
        note_factors(self.gain, 1 / channels)


def found_size(found: Sequence[GainedRows], value: SSAValue) -> int:
    """The channels of a block of rows among those that were found."""
    return next(rows.size for rows in found if rows.y is value)


def _gained_rows(block: Block) -> list[GainedRows]:
    """The rows of a network that can be scaled block by block."""
    found: list[GainedRows] = []
    for op in block.ops:
        if not isinstance(op, MulOp) or op.bounds() != (None, None) or not shape_of(op.y):
            continue
        width = shape_of(op.y)[-1]
        place = next((i for i, v in enumerate(op.operands) if constant_array(v) is not None), None)
        if (
            place is None
            or shape_of(op.operands[place])[-1:] != (width,)
            or shape_of(op.operands[1 - place]) != shape_of(op.y)
        ):
            continue
        readers = _readers(op.y)
        sizes = {r.size for r in readers}
        if len(sizes) == 1 and width % (size := sizes.pop()) == 0:
            found.append(GainedRows(op, place, tuple(readers), size))
    return found


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
