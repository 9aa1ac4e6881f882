"""Simulates the array: exact sums of products, stored with the overflow behaviour of its accumulators."""

import numpy as np

from qmlir.backends.npu.machine import Int64s, Machine
from qmlir.backends.npu.taps import tap
from qmlir.devices import Device
from qmlir.devices.blocks import Block, Fault
from qmlir.devices.footprints import outputs, weight_tile, window_blocks
from qmlir.isa.commands import Convolve, Init, Window


def convolve(command: Window, machine: Machine) -> None:
    """Executes a convolution: adds the products of one kernel position (tap) after the other."""
    blocks = window_blocks(command, machine.device)
    data = machine.numbers(blocks.data, command.data_bits) - command.zero_point
    if command.weight_zero_point and not machine.device.quant.zero_point.weights:
        raise Fault("weights must have the zero point 0", got=str(command.weight_zero_point))
    weights = _weights(command, blocks.weights, machine)
    dtype = _float_for(command)
    total = np.zeros((len(data), command.out_rows, command.out_columns, outputs(command)), np.int64)
    for i in range(command.kernel_rows):
        for j in range(command.kernel_columns):
            taken = tap(data, command, i, j)
            if isinstance(command, Convolve):
                total += _multiplied(taken, weights[:, i, j], dtype)
            else:
                total += taken * weights[:, None, None, i, j]
    if command.init is Init.BIAS:
        total += machine.numbers(blocks.bias, command.bias_bits) << command.bias_shift
    elif command.init is Init.ACCUMULATE:
        total += machine.numbers(blocks.sums, command.sum_bits).reshape(total.shape)
    machine.put(blocks.sums, _overflowed(total, command, machine), command.sum_bits)


def _float_for(command: Window) -> type[np.float32] | type[np.float64]:
    """The float type that holds every sum of products of one tap exactly, in whatever order the products are added."""
    data = (1 << command.data_bits - 1) + abs(command.zero_point)
    weight = (1 << command.weight_bits - 1) + abs(command.weight_zero_point)
    return np.float32 if data * weight * command.channels <= 1 << 24 else np.float64


def _multiplied(taken: Int64s, weights: Int64s, dtype: type[np.float32] | type[np.float64]) -> Int64s:
    """Multiplies [networks, rows, columns, channels] by [networks or 1, channels, output channels]."""
    networks, rows, columns, channels = taken.shape
    matrix = taken.astype(dtype).reshape(len(weights), -1, channels)
    return (matrix @ weights.astype(dtype)).astype(np.int64).reshape(networks, rows, columns, -1)


def _weights(command: Window, block: Block, machine: Machine) -> Int64s:
    """The weights without their zero point, int64 [networks or 1, KH, KW, channels, output channels].

    Depthwise weights have no last axis. If all networks have the same weights, the first axis is 1.
    """
    stored = machine.numbers(block, command.weight_bits) - command.weight_zero_point
    stored = stored[:1] if (stored == stored[:1]).all() else stored
    networks = len(stored)
    window = (command.kernel_rows, command.kernel_columns, command.channels)
    if not isinstance(command, Convolve):
        return stored.reshape(networks, *window)
    terms = command.kernel_rows * command.kernel_columns * command.channels
    n, k = weight_tile(machine.device)
    tiles = stored.reshape(networks, -(-command.out_channels // n), -(-terms // k), n, k)
    matrix = tiles.transpose(0, 1, 3, 2, 4).reshape(networks, tiles.shape[1] * n, -1)[:, : command.out_channels, :terms]
    return matrix.transpose(0, 2, 1).reshape(networks, *window, command.out_channels)


def _overflowed(total: Int64s, command: Window, machine: Machine) -> Int64s:
    """Sums after overflow in the accumulator of the array's mode: wrapped, saturated, or a Fault."""
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
