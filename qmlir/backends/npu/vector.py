"""Simulates the commands after the array: requantization, lookup tables, sums of tensors, pools, and reductions."""

import numpy as np

from qmlir.backends.npu.machine import Machine, clamped, finish
from qmlir.backends.npu.taps import tap
from qmlir.devices.blocks import Fault
from qmlir.devices.footprints import arithmetic_blocks, pool_blocks, post_blocks, reduce_blocks
from qmlir.isa.commands import Arithmetic, Init, Operation, Pool, Pooling, Post, Reduce


def post(command: Post, machine: Machine) -> None:
    """Executes a change of scale or a table lookup."""
    context = machine.context(command)
    source, target = post_blocks(command, context)
    machine.put(target, finish(machine.numbers(source, command.source_bits), context, machine), context.bits)


def arithmetic(command: Arithmetic, machine: Machine) -> None:
    """Executes the sum or product of two tensors."""
    context = machine.context(command)
    left, right, target = arithmetic_blocks(command, context)
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


def pool(command: Pool, machine: Machine) -> None:
    """Executes a maximum or average pool."""
    source, target = pool_blocks(command)
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
    present = np.ones((1, command.rows, command.columns, 1), np.int64)
    counts = sum((tap(present, command, i, j) for i, j in taps), np.zeros(1, np.int64))
    divisor = np.int64(len(taps)) if command.count_padding else np.maximum(counts, 1)
    mean = np.sign(total) * ((np.abs(total) + divisor // 2) // divisor)
    machine.put(target, np.clip(mean, -(1 << command.bits - 1), (1 << command.bits - 1) - 1), command.bits)


def _outside(command: Pool) -> int:
    return command.zero_point if command.count_padding else 0


def reduce(command: Reduce, machine: Machine) -> None:
    """Executes a sum over the rows and columns of an image."""
    source, sums = reduce_blocks(command)
    total = (machine.numbers(source, command.bits) - command.zero_point).sum(axis=(1, 2), keepdims=True)
    if command.init is Init.ACCUMULATE:
        total = total + machine.numbers(sums, 32)
    if total.size and not -(1 << 31) <= total.min() <= total.max() < 1 << 31:
        raise Fault("sums must fit 32 bits", got=f"{total.min()} to {total.max()}")
    machine.put(sums, total, 32)
