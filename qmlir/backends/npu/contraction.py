"""What the array does: sums of products, exactly, kept as its accumulators keep them."""

import numpy as np

from qmlir.backends.npu.machine import Int64s, Machine
from qmlir.backends.npu.taps import tap
from qmlir.device import Device
from qmlir.device.blocks import Block, Fault
from qmlir.device.footprints import outputs, weight_tile, window_blocks
from qmlir.isa.commands import Convolve, Init, Window


def convolve(command: Window, machine: Machine) -> None:
    """Adds the products of one tap after the other; in float64, which holds sums below 2^53 exactly."""
    blocks = window_blocks(command, machine.device)
    data = machine.numbers(blocks.data, command.data_bits) - command.zero_point
    weights = _weights(command, blocks.weights, machine)
    total = np.zeros((command.out_rows, command.out_columns, outputs(command)), np.int64)
    for i in range(command.kernel_rows):
        for j in range(command.kernel_columns):
            taken = tap(data, command, i, j)
            if isinstance(command, Convolve):
                sums = taken.reshape(-1, command.channels).astype(np.float64) @ weights[i, j].astype(np.float64)
                total += sums.astype(np.int64).reshape(total.shape)
            else:
                total += taken * weights[i, j]
    if command.init is Init.BIAS:
        total += machine.numbers(blocks.bias, command.sum_bits).reshape(-1)
    elif command.init is Init.ACCUMULATE:
        total += machine.numbers(blocks.sums, command.sum_bits).reshape(total.shape)
    machine.put(blocks.sums, _overflowed(total, command, machine).reshape(1, 1, -1), command.sum_bits)


def _weights(command: Window, block: Block, machine: Machine) -> Int64s:
    """int64 [KH, KW, channels, output channels], of a depthwise convolution [KH, KW, channels]."""
    stored = machine.numbers(block, command.weight_bits).reshape(-1)
    window = (command.kernel_rows, command.kernel_columns, command.channels)
    if not isinstance(command, Convolve):
        return stored.reshape(window)
    terms = command.kernel_rows * command.kernel_columns * command.channels
    n, k = weight_tile(machine.device)
    tiles = stored.reshape(-(-command.out_channels // n), -(-terms // k), n, k)
    matrix = tiles.transpose(0, 2, 1, 3).reshape(tiles.shape[0] * n, -1)[: command.out_channels, :terms]
    return matrix.T.reshape(*window, command.out_channels)


def _overflowed(total: Int64s, command: Window, machine: Machine) -> Int64s:
    """Sums as the array keeps them, in the accumulator of its mode."""
    bits = _accumulator_bits(command, machine.device)
    half = 1 << bits - 1
    if not total.size or -half <= total.min() <= total.max() < half:
        return total
    if machine.device.array.overflow == "trap":
        raise Fault(f"sums must fit {bits} bits", got=f"{total.min()} to {total.max()}")
    if machine.device.array.overflow == "saturate":
        return np.clip(total, -half, half - 1)
    return (total + half & (1 << bits) - 1) - half if bits < 64 else total


def _accumulator_bits(command: Window, device: Device) -> int:
    for mode in device.array.modes:
        if (mode.a, mode.w) == (f"i{command.data_bits}", f"i{command.weight_bits}"):
            return min(int(mode.acc[1:]), command.sum_bits)
    modes = ", ".join(f"{mode.a} by {mode.w}" for mode in device.array.modes)
    raise Fault(f"the array must multiply {modes}", got=f"i{command.data_bits} by i{command.weight_bits}")
