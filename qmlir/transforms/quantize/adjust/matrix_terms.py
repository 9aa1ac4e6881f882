"""Writes contractions (convolutions, fully connected layers) as matrix products, by im2col.

    y[g, p, m] = Σ_k x[g, p, k] · w[g, m, k]

g counts groups of outputs that read the same values: the groups of a convolution, the input channels of a depthwise
convolution; a fully connected layer has 1. p counts positions, m the outputs of a group, k the terms of a sum.

If sums have very many terms, each block of terms is a group of its own, and the sums of the blocks add up to y. The
last block is padded with terms of zero.
"""

from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from qmlir.dialects.nn import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.ir.interfaces import Array, shape_of

MOST = 1024
"""The largest number of terms in a block: for k terms, a covariance takes k² of memory, and solving it k³ of time."""


@dataclass(frozen=True)
class Terms:
    """A contraction as a matrix product: converts its data and weights to terms and back."""

    op: Conv2DOp | DepthwiseConv2DOp | FullyConnectedOp

    @classmethod
    def of(cls, op: WeightedOp) -> "Terms | None":
        """The terms of a contraction; None for kinds of contractions that are not supported here."""
        return cls(op) if isinstance(op, Conv2DOp | DepthwiseConv2DOp | FullyConnectedOp) else None

    @property
    def channel_groups(self) -> int:
        """The number of groups of outputs that read different input channels."""
        if isinstance(self.op, DepthwiseConv2DOp):
            return shape_of(self.op.x)[3]
        return self.op.group_count() if isinstance(self.op, Conv2DOp) else 1

    @property
    def blocks(self) -> int:
        """The number of blocks that the terms of a sum are divided into."""
        return ceil(self._length / MOST)

    @property
    def positions(self) -> int:
        """The number of sums that each output channel has in a sample."""
        return prod(shape_of(self.op.y)[:-1])

    @property
    def count(self) -> int:
        """The number of values that the sums at a position read; outputs of a group share them."""
        return self.channel_groups * self._length

    def data(self, x: Array, positions: Array) -> Array:
        """The data at some positions, as [g, p, k]."""
        if isinstance(self.op, FullyConnectedOp):
            return self._in_blocks(x[positions][None])
        _, rows, columns, _ = shape_of(self.op.w)
        windows = self.op.windows(x, (rows, columns), 0)
        seen = windows[np.unravel_index(positions, windows.shape[:3])]  # [p, rows, columns, channels]
        by_group = seen.reshape(len(positions), rows * columns, self.channel_groups, -1).transpose(2, 0, 1, 3)
        return self._in_blocks(by_group.reshape(self.channel_groups, len(positions), -1))

    def weights(self, w: Array) -> Array:
        """The weights as [g, m, k], from an array in the operation's layout."""
        if isinstance(self.op, DepthwiseConv2DOp):
            rows = w.reshape(-1, self.channel_groups, self.op.multiplier()).transpose(1, 2, 0)
        else:
            rows = w.reshape(self.channel_groups, w.shape[0] // self.channel_groups, -1)
        return self._in_blocks(rows)

    def as_stored(self, w: Array) -> Array:
        """The weights in the operation's layout, from an array [g, m, k]."""
        rows = w.reshape(self.channel_groups, self.blocks, *w.shape[1:]).swapaxes(1, 2)
        rows = rows.reshape(self.channel_groups, w.shape[1], -1)[:, :, : self._length]
        if isinstance(self.op, DepthwiseConv2DOp):
            rows = rows.transpose(2, 0, 1)
        return np.ascontiguousarray(rows).reshape(shape_of(self.op.w))

    def joined(self, rows: Array) -> Array:
        """Rows [g, n, k] with the blocks of a sum side by side: [channel groups, n, blocks · k]."""
        shape = self.channel_groups, self.blocks, *rows.shape[1:]
        return rows.reshape(shape).swapaxes(1, 2).reshape(self.channel_groups, rows.shape[1], -1)

    def divided(self, rows: Array) -> Array:
        """The rows [g, n, k] that `joined` put side by side."""
        shape = self.channel_groups, rows.shape[1], self.blocks, -1
        return rows.reshape(shape).swapaxes(1, 2).reshape(self.channel_groups * self.blocks, rows.shape[1], -1)

    @property
    def _length(self) -> int:
        """The number of terms of a sum."""
        return prod(shape_of(self.op.w)) // self.op.output_channels()

    def _in_blocks(self, rows: Array) -> Array:
        """Divides rows [g, n, terms] into blocks of terms: [g · blocks, n, terms of a block]."""
        groups, count, length = rows.shape
        if self.blocks == 1:
            return rows
        each = ceil(length / self.blocks)
        filled = np.pad(rows, ((0, 0), (0, 0), (0, each * self.blocks - length)))
        return filled.reshape(groups, count, self.blocks, each).swapaxes(1, 2).reshape(-1, count, each)
