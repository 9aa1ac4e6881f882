"""What the array does: sums of products, exactly, kept as its accumulators keep them."""

import numpy as np

from qmlir.backends.npu.machine import Footprint, Int64s, Machine, image, width
from qmlir.backends.npu.memories import Block, Fault
from qmlir.backends.npu.taps import check_window, tap
from qmlir.device import Device
from qmlir.isa.commands import Convolve, ConvolveDepthwise, Init, Window

MAX_PRODUCTS = 1 << 32
"""A command computes at most so many products; a stream that asks for more is damaged."""

MAX_CHANNELS = 1 << 20
"""Sums over so many channels are exact in float64, whatever the data."""


def _outputs(command: Window) -> int:
    return command.out_channels if isinstance(command, Convolve) else command.channels


def _sums_block(command: Window) -> Block:
    positions = command.out_rows * command.out_columns
    return Block(command.sums, positions * _outputs(command) * width(command.sum_bits, (32, 64)))


def _data_block(command: Window) -> Block:
    shape = (command.rows, command.columns, command.channels)
    return image(command.data, shape, (command.row_pitch, command.pixel_pitch), command.data_bits)


def _tile(machine: Machine) -> tuple[int, int]:
    tile = machine.device.layout.weights
    return (1, 1) if tile is None else (tile.n, tile.k)


def _weights_block(command: Window, machine: Machine) -> Block:
    terms = command.kernel_rows * command.kernel_columns * command.channels
    size = width(command.weight_bits, (8, 16))
    if isinstance(command, Convolve):
        n, k = _tile(machine)
        return Block(command.weights, -(-command.out_channels // n) * n * -(-terms // k) * k * size)
    return Block(command.weights, terms * size)


def _bias_block(command: Window) -> Block:
    return Block(command.bias, _outputs(command) * width(command.sum_bits, (32, 64)))


def window_footprint(command: Window, machine: Machine) -> Footprint:
    """What a convolution reads and writes."""
    width(command.data_bits, (8, 16))
    check_window(command)
    if not _outputs(command):
        raise Fault("a convolution must have output channels", got="none")
    half = 1 << command.data_bits - 1
    if not -half <= command.zero_point < half or command.channels > MAX_CHANNELS:
        raise Fault(
            f"zero points must fit the data, and channels be at most {MAX_CHANNELS}",
            got=f"{command.zero_point} and {command.channels}",
        )
    products = (
        command.out_rows
        * command.out_columns
        * command.kernel_rows
        * command.kernel_columns
        * command.channels
        * _outputs(command)
    )
    if products > MAX_PRODUCTS:
        raise Fault(f"a command must compute at most {MAX_PRODUCTS} products", got=str(products))
    if isinstance(command, ConvolveDepthwise) and machine.device.array.depthwise is None:
        raise Fault("a depthwise convolution must have a place on the array", got=f"{machine.device.name} without one")
    sums = _sums_block(command)
    reads = [_data_block(command), _weights_block(command, machine)]
    reads += [_bias_block(command)] if command.init is Init.BIAS else []
    reads += [sums] if command.init is Init.ACCUMULATE else []
    return Footprint(tuple(reads), (sums,))


def convolve(command: Window, machine: Machine) -> None:
    """Adds the products of one tap after the other; in float64, which holds sums below 2^53 exactly."""
    data = machine.numbers(_data_block(command), command.data_bits) - command.zero_point
    weights = _weights(command, machine)
    places = (command.out_rows, command.out_columns)
    total = np.zeros((*places, _outputs(command)), np.int64)
    for i in range(command.kernel_rows):
        for j in range(command.kernel_columns):
            taken = tap(data, command, i, j)
            if isinstance(command, Convolve):
                sums = taken.reshape(-1, command.channels).astype(np.float64) @ weights[i, j].astype(np.float64)
                total += sums.astype(np.int64).reshape(total.shape)
            else:
                total += taken * weights[i, j]
    total += _initial(command, machine, total.shape)
    stored = _overflowed(total, command, machine)
    machine.put(_sums_block(command), stored.reshape(1, 1, -1), command.sum_bits)


def _initial(command: Window, machine: Machine, shape: tuple[int, ...]) -> Int64s:
    if command.init is Init.BIAS:
        return machine.numbers(_bias_block(command), command.sum_bits).reshape(-1)
    if command.init is Init.ACCUMULATE:
        return machine.numbers(_sums_block(command), command.sum_bits).reshape(shape)
    return np.zeros(1, np.int64)


def _weights(command: Window, machine: Machine) -> Int64s:
    """int64 [KH, KW, channels, output channels], of a depthwise convolution [KH, KW, channels]."""
    stored = machine.numbers(_weights_block(command, machine), command.weight_bits).reshape(-1)
    window = (command.kernel_rows, command.kernel_columns, command.channels)
    if not isinstance(command, Convolve):
        return stored.reshape(window)
    terms = command.kernel_rows * command.kernel_columns * command.channels
    n, k = _tile(machine)
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
