"""Lowering of integer layers whose sums of blocks are multiplied, fused with the requantization that follows.

A row of x is a window of one row, whose taps are the blocks; neighbouring outputs are blocks apart. Where blocks have
offsets, a kernel of its own sums the data of each block first; all channels multiply these sums.

Accumulators are i64. If the multipliers and weights show that all that is added fits i32, kernels add in i32, and the
epilogue widens it.
"""

from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import i32

from qmlir.codegen.kernels import nibbles
from qmlir.codegen.kernels.choice import choose
from qmlir.codegen.kernels.packed_weights import levels_to_pack
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.kernels.task import Task
from qmlir.codegen.lowering import Array, MainLowering, Rules
from qmlir.dialects.qint.contraction import AffineFullyConnectedOp, BlockedFullyConnectedOp
from qmlir.dialects.qint.requantize import largest_difference
from qmlir.ir.interfaces import shape_of
from qmlir.lowering.qint_to_loops.arithmetic import Singles
from qmlir.lowering.qint_to_loops.candidates import BLOCKED, LARGEST
from qmlir.lowering.qint_to_loops.contraction import ending, widened


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
    largest, offsets = largest_difference(op.x, zero_point), None
    if isinstance(op, AffineFullyConnectedOp):
        offsets = state.require_constant(op, op.k, "offsets")
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
        levels=levels_to_pack(op.w, weights),
    )
    if offsets is not None and (not state.machine.vectors or nibbles.why_not(task, state.machine)):
        kernel = nibbles.BlockSums(inputs // blocks, blocks, zero_point)
        task = replace(task, block_sums=nibbles.block_sums(state, x, kernel, rows, i32))
        if _fit_i32(largest, weights, multipliers, offsets):
            epilogue, bias, parameters = widened(epilogue, bias, parameters)
            task = replace(task, epilogue=epilogue, bias=bias, parameters=parameters, narrow=True)
    choose(state, task, BLOCKED)


RULES: Rules = {BlockedFullyConnectedOp: _blocked, AffineFullyConnectedOp: _blocked}
