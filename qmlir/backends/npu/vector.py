"""What follows the array: changes of scale, tables, sums of tensors, pools, and sums over an image."""

from dataclasses import replace

import numpy as np

from qmlir.backends.npu.machine import Footprint, Machine, clamped, finish, image, table_block, width
from qmlir.backends.npu.memories import Block, Fault
from qmlir.backends.npu.taps import check_window, tap
from qmlir.isa.commands import Arithmetic, Init, Operation, Pool, Pooling, Post, Reduce, SetContext


def _post_blocks(command: Post, context: SetContext) -> tuple[Block, Block]:
    shape = (command.rows, command.columns, command.channels)
    return (
        image(command.source, shape, (command.source_row, command.source_pixel), command.source_bits),
        image(command.target, shape, (command.target_row, command.target_pixel), context.bits),
    )


def post_footprint(command: Post, machine: Machine) -> Footprint:
    """What a change of scale or a lookup reads and writes."""
    context = machine.context(command)
    source, target = _post_blocks(command, context)
    return Footprint((source, table_block(context, command.channels)), (target,))


def post(command: Post, machine: Machine) -> None:
    """Changes scales, or looks numbers up."""
    context = machine.context(command)
    source, target = _post_blocks(command, context)
    machine.put(target, finish(machine.numbers(source, command.source_bits), context, machine), context.bits)


def _arithmetic_blocks(command: Arithmetic, context: SetContext) -> tuple[Block, Block, Block]:
    shape = (command.rows, command.columns, command.channels)
    return (
        image(command.lhs, shape, (command.lhs_row, command.lhs_pixel), command.bits),
        image(command.rhs, shape, (command.rhs_row, command.rhs_pixel), command.bits),
        image(command.target, shape, (command.target_row, command.target_pixel), context.bits),
    )


def arithmetic_footprint(command: Arithmetic, machine: Machine) -> Footprint:
    """What an operation on two tensors reads and writes."""
    width(command.bits, (8, 16))
    if not 1 <= command.shift <= 62:
        raise Fault("a sum must be shifted by 1 to 62 bits", got=str(command.shift))
    context = machine.context(command)
    lhs, rhs, target = _arithmetic_blocks(command, context)
    table = (table_block(context, command.channels),) if command.operation is Operation.MUL else ()
    return Footprint((lhs, rhs, *table), (target,))


def arithmetic(command: Arithmetic, machine: Machine) -> None:
    """Adds or multiplies two tensors."""
    context = machine.context(command)
    left, right, target = _arithmetic_blocks(command, context)
    lhs = machine.numbers(left, command.bits) - command.lhs_zero_point
    rhs = machine.numbers(right, command.bits) - command.rhs_zero_point
    if command.operation is Operation.MUL:
        machine.put(target, finish(lhs * rhs, context, machine), context.bits)
        return
    reach = max(map(abs, (command.lhs_multiplier, command.rhs_multiplier))) * (
        int(np.abs(lhs).max(initial=0)) + int(np.abs(rhs).max(initial=0))
    )
    if reach + (1 << command.shift) >= 1 << 63:
        raise Fault("a sum must fit 64 bits", got=f"up to {reach}")
    total = lhs * command.lhs_multiplier + rhs * command.rhs_multiplier + (1 << command.shift - 1) >> command.shift
    machine.put(target, clamped(total, context), context.bits)


def _pool_blocks(command: Pool) -> tuple[Block, Block]:
    inside = (command.rows, command.columns, command.channels)
    outside = (command.out_rows, command.out_columns, command.channels)
    return (
        image(command.source, inside, (command.row_pitch, command.pixel_pitch), command.bits),
        image(command.target, outside, (command.target_row, command.target_pixel), command.bits),
    )


def pool_footprint(command: Pool, machine: Machine) -> Footprint:
    """What a pool reads and writes."""
    width(command.bits, (8, 16))
    check_window(command)
    source, target = _pool_blocks(command)
    return Footprint((source,), (target,))


def pool(command: Pool, machine: Machine) -> None:
    """Takes maxima or means of windows."""
    source, target = _pool_blocks(command)
    data = machine.numbers(source, command.bits)
    taps = [(i, j) for i in range(command.kernel_rows) for j in range(command.kernel_columns)]
    if command.pooling is Pooling.MAX:
        least = -(1 << command.bits - 1)
        greatest = tap(data, command, *taps[0], least)
        for i, j in taps[1:]:
            np.maximum(greatest, tap(data, command, i, j, least), out=greatest)
        machine.put(target, greatest, command.bits)
        return
    total = sum((tap(data, command, i, j, _outside(command)) for i, j in taps), np.zeros(1, np.int64))
    present = np.ones((command.rows, command.columns, 1), np.int64)
    counts = sum((tap(present, replace(command, channels=1), i, j) for i, j in taps), np.zeros(1, np.int64))
    divisor = np.int64(len(taps)) if command.count_padding else np.maximum(counts, 1)
    mean = np.sign(total) * ((np.abs(total) + divisor // 2) // divisor)
    machine.put(target, np.clip(mean, -(1 << command.bits - 1), (1 << command.bits - 1) - 1), command.bits)


def _outside(command: Pool) -> int:
    return command.zero_point if command.count_padding else 0


def _reduce_blocks(command: Reduce) -> tuple[Block, Block]:
    shape = (command.rows, command.columns, command.channels)
    source = image(command.source, shape, (command.row_pitch, command.pixel_pitch), command.bits)
    return source, Block(command.sums, command.channels * 4)


def reduce_footprint(command: Reduce, machine: Machine) -> Footprint:
    """What a sum over an image reads and writes."""
    width(command.bits, (8, 16))
    source, sums = _reduce_blocks(command)
    return Footprint((source, sums) if command.init is Init.ACCUMULATE else (source,), (sums,))


def reduce(command: Reduce, machine: Machine) -> None:
    """Sums an image."""
    source, sums = _reduce_blocks(command)
    total = (machine.numbers(source, command.bits) - command.zero_point).sum(axis=(0, 1)).reshape(1, 1, -1)
    if command.init is Init.ACCUMULATE:
        total = total + machine.numbers(sums, 32)
    if total.size and not -(1 << 31) <= total.min() <= total.max() < 1 << 31:
        raise Fault("sums must fit 32 bits", got=f"{total.min()} to {total.max()}")
    machine.put(sums, total, 32)
