"""Contractions as products of matrices: which terms their sums have.

    y[g, p, m] = Σ_k x[g, p, k] · w[g, m, k]

g counts groups of outputs that read the same values: the groups of a convolution, the input channels of a depthwise
one, 1 for a fully connected layer. p counts positions, m the outputs of a group, k the terms of a sum.

Of sums with very many terms each block of terms is a group of its own, whose sums add up to y; the last block is filled
up with terms of zero.
"""

from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp
from qmlir.dialects.nn.contraction import WeightedOp

Array = npt.NDArray[Any]


MOST = 1024
"""The terms of a block: what is asked of each pair of terms takes their square in memory, and their cube in time."""


@dataclass(frozen=True)
class Terms:
    """The terms of a contraction."""

    op: Conv2DOp | DepthwiseConv2DOp | FullyConnectedOp

    @classmethod
    def of(cls, op: WeightedOp) -> "Terms | None":
        """The terms of a contraction; None of a kind that is not known here."""
        return cls(op) if isinstance(op, Conv2DOp | DepthwiseConv2DOp | FullyConnectedOp) else None

    @property
    def channel_groups(self) -> int:
        """How many groups of outputs there are that read other channels."""
        if isinstance(self.op, DepthwiseConv2DOp):
            return shape_of(self.op.x)[3]
        return self.op.group_count() if isinstance(self.op, Conv2DOp) else 1

    @property
    def blocks(self) -> int:
        """Into how many blocks the terms of a sum fall."""
        return ceil(self._length / MOST)

    @property
    def positions(self) -> int:
        """How many sums each output has in a sample."""
        return prod(shape_of(self.op.y)[:-1])

    @property
    def count(self) -> int:
        """How many values the sums of a position read, those in several groups counted once."""
        return self.channel_groups * self._length

    def data(self, x: Array, positions: Array) -> Array:
        """x at some positions, [g, p, k]."""
        if isinstance(self.op, FullyConnectedOp):
            return self._in_blocks(x[positions][None])
        _, rows, columns, _ = shape_of(self.op.w)
        windows = self.op.windows(x, (rows, columns), 0)
        seen = windows[np.unravel_index(positions, windows.shape[:3])]  # [p, rows, columns, channels]
        by_group = seen.reshape(len(positions), rows * columns, self.channel_groups, -1).transpose(2, 0, 1, 3)
        return self._in_blocks(by_group.reshape(self.channel_groups, len(positions), -1))

    def weights(self, w: Array) -> Array:
        """w, [g, m, k], of an array in the layout of the weights."""
        if isinstance(self.op, DepthwiseConv2DOp):
            rows = w.reshape(-1, self.channel_groups, self.op.multiplier()).transpose(1, 2, 0)
        else:
            rows = w.reshape(self.channel_groups, w.shape[0] // self.channel_groups, -1)
        return self._in_blocks(rows)

    def as_stored(self, w: Array) -> Array:
        """The layout of the weights again, of an array [g, m, k]."""
        rows = w.reshape(self.channel_groups, self.blocks, *w.shape[1:]).swapaxes(1, 2)
        rows = rows.reshape(self.channel_groups, w.shape[1], -1)[:, :, : self._length]
        if isinstance(self.op, DepthwiseConv2DOp):
            rows = rows.transpose(2, 0, 1)
        return np.ascontiguousarray(rows).reshape(shape_of(self.op.w))

    @property
    def _length(self) -> int:
        """The number of terms of a sum."""
        return prod(shape_of(self.op.w)) // self.op.output_channels()

    def _in_blocks(self, rows: Array) -> Array:
        """[g · blocks, n, terms of a block] of [g, n, terms]."""
        groups, count, length = rows.shape
        if self.blocks == 1:
            return rows
        each = ceil(length / self.blocks)
        filled = np.pad(rows, ((0, 0), (0, 0), (0, each * self.blocks - length)))
        return filled.reshape(groups, count, self.blocks, each).swapaxes(1, 2).reshape(-1, count, each)
