"""Lowering of integer layers whose sums of blocks are multiplied, fused with the requantization that follows.

A row of x is a window of one row, whose taps are the blocks; neighbouring outputs are blocks apart. Where blocks have
offsets, a kernel of its own sums the data of each block first; all channels multiply these sums.

Accumulators are i64. If the multipliers and weights show that all that is added fits i32, kernels add in i32, and the
epilogue widens it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import MemRefType, i32
from xdsl.ir import SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.choice import choose
from qmlir.codegen.kernels.packed_weights import levels_to_pack
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.kernels.task import Task
from qmlir.codegen.lowering import Array, Kernel, MainLowering, Rules
from qmlir.codegen.value import Value
from qmlir.dialects.qint.contraction import AffineFullyConnectedOp, BlockedFullyConnectedOp
from qmlir.dialects.qint.requantize import largest_difference, less_zero_point
from qmlir.ir.interfaces import shape_of
from qmlir.ir.types import dtype_of
from qmlir.lowering.qint_to_loops.arithmetic import Singles
from qmlir.lowering.qint_to_loops.candidates import LARGEST, SUMS
from qmlir.lowering.qint_to_loops.contraction import ending, widened

SUMMED = 16
"""Elements of a block that are added side by side."""


@dataclass(frozen=True)
class BlockSums(Kernel):
    """y[r, g] = Σ_{i in g} (x[r, i] − zero_point), blocks of `size`. Buffers: x, y i32."""

    size: int
    blocks: int
    zero_point: int

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        whole = self.size // SUMMED if code.vectors else 0

        with code.loop(begin, end, name="row") as row, code.loop(0, self.blocks, name="block") as block:
            first = block * self.size

            def added(at: Value, lanes: int | None) -> Value:
                return less_zero_point(x.load(row, first + at, lanes=lanes), self.zero_point, dtype_of(i32))

            total = code.zeros(i32, None)
            if whole:
                (found,) = code.fold(
                    0, whole, [code.zeros(i32, SUMMED)], lambda step, s: [s[0] + added(step * SUMMED, SUMMED)]
                )
                lanes = SUMMED
                while lanes > 1:
                    lanes //= 2
                    found = found.lanes_from(0, lanes) + found.lanes_from(lanes, lanes)
                total = found.lane(0)
            (total,) = code.fold(whole * SUMMED, self.size, [total], lambda i, s: [s[0] + added(i, None)])
            y.store(total, row, block)


def _fit_i32(largest: int, weights: Array, multipliers: Array, offsets: Array) -> bool:
    """Whether multiplied sums of any data of such a magnitude fit i32."""
    blocks = np.abs(weights.reshape(*multipliers.shape, -1).astype(np.int64)).sum(axis=2)
    size = weights.shape[1] // multipliers.shape[1]
    each = blocks * np.abs(multipliers.astype(np.int64)) + size * np.abs(offsets.astype(np.int64))
    return int(each.sum(axis=1).max(initial=0)) * largest <= LARGEST


def _blocked(state: MainLowering, op: BlockedFullyConnectedOp | AffineFullyConnectedOp) -> None:
    """Zero points of bytes that stay in the data are subtracted from the bias: the sums are linear in it."""
    weights, multipliers = (
        state.require_constant(op, v, what) for v, what in ((op.w, "weights"), (op.m, "multipliers"))
    )
    (rows, inputs), (outputs, blocks) = shape_of(op.x), multipliers.shape
    window = Window(1, 1, rows * blocks, inputs // blocks, (1, blocks), (1, rows), (1, blocks))
    result, epilogue, parameters = ending(state, op.acc, outputs)
    bias = None if op.b is None else state.require_constant(op, op.b, "bias")
    zero_point, x = op.zero_point.value.data, state.buffer(op.x)
    largest, offsets, sums, narrow = largest_difference(op.x, zero_point), None, None, False
    if isinstance(op, AffineFullyConnectedOp):
        offsets = state.require_constant(op, op.k, "offsets")
        narrow = _fit_i32(largest, weights, multipliers, offsets)
        sums = _block_sums(state, x, (rows, blocks, inputs // blocks), zero_point)
    if narrow:
        epilogue, bias, parameters = widened(epilogue, bias, parameters)
    task = Task(
        name=op.name.replace(".", "_"),
        window=window,
        outputs=outputs,
        arithmetic=Singles(zero_point),
        epilogue=epilogue,
        result=result,
        x=x,
        weights=weights.reshape(outputs, 1, blocks, -1),
        bias=bias,
        parameters=parameters,
        largest=largest,
        multipliers=multipliers,
        offsets=offsets,
        block_sums=sums,
        narrow=narrow,
        levels=levels_to_pack(op.w, weights),
    )
    choose(state, task, SUMS)


def _block_sums(state: MainLowering, x: SSAValue, sizes: tuple[int, int, int], zero_point: int) -> SSAValue:
    """A buffer of the sums of data, i32 [rows · blocks], of rows of blocks of `size`."""
    rows, blocks, size = sizes
    y = state.allocate(MemRefType(i32, [rows, blocks]))
    state.call(BlockSums(size, blocks, zero_point), [state.view(x, (rows, blocks * size)), y], rows)
    return y


RULES: Rules = {BlockedFullyConnectedOp: _blocked, AffineFullyConnectedOp: _blocked}
