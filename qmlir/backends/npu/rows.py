"""Simulates the commands on rows: softmax and normalizations, as isa/commands.py defines them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from qmlir.backends.npu.machine import Int64s, Operands
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import Division, Norm, Normalize, OfRows, Softmax
from qmlir.isa.encoding import Command
from qmlir.isa.limits import DROPPED, LEAST_SUMS, MOST_BEHIND, MOST_SUMS, ROOT_BITS, UNIT_BITS
from qmlir.numerics.elementary.gemmlowp import half_away, leading_zeros, product, reciprocal_of_sum
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.numerics.elementary.roots import inverse_root
from qmlir.numerics.tables import between_breakpoints


def softmax(command: Softmax, operands: Operands) -> None:
    """Executes a softmax: exponentials from a table, their sum, and their quotients by it."""
    x, table = operands.numbers("source", command.source_bits), operands.numbers("table", 32)
    place = np.minimum(x.max(axis=-1, keepdims=True) - x, command.entries - 1)
    taken = np.take_along_axis(table.reshape(len(x), -1), place.reshape(len(x), -1), axis=1)
    exponentials = taken.reshape(x.shape)
    terms = exponentials
    if command.division is Division.NEWTON:
        terms = exponentials + (1 << DROPPED - 1) >> DROPPED
    total = terms.sum(axis=-1, keepdims=True)
    _require_divisible(command, exponentials, total)
    match command.division:
        case Division.EXACT:
            scaled = total << UNIT_BITS
            quotients = (2 * command.unit * exponentials + scaled) // (2 * scaled)
        case Division.NEWTON:
            quotients = _by_newton(exponentials, total, (command.unit >> UNIT_BITS).bit_length() - 1)
        case Division.INTERPOLATED:
            quotients = _interpolated(exponentials, total, operands.numbers("inverse", 16).reshape(len(x), -1))
    _put(command, operands, quotients)


def _require_divisible(command: Softmax, exponentials: Int64s, total: Int64s) -> None:
    """Raises Fault unless the exponentials of each row can be divided by their sum."""
    least, most = LEAST_SUMS[command.division], MOST_SUMS[command.division]
    greatest = (1 << 61) // command.unit if command.division is Division.EXACT else (1 << 31) - 1
    if exponentials.min() < 0 or exponentials.max() > greatest or total.min() < least or total.max() > most:
        raise Fault(
            f"exponentials must be in [0, {greatest}], and those of a row sum to a number in [{least}, {most}]",
            got=f"{exponentials.min()} to {exponentials.max()}, sums {total.min()} to {total.max()}",
        )


def _by_newton(exponentials: Int64s, total: Int64s, unit: int) -> Int64s:
    """The quotients in steps of 2^−unit: the reciprocal of the sum from three steps of Newton's method."""
    inverse, bits = reciprocal_of_sum(Lanes(total), DROPPED)
    return half_away(product(inverse, Lanes(exponentials)), bits + (31 - unit)).array


def _interpolated(exponentials: Int64s, total: Int64s, inverse: Int64s) -> Int64s:
    """The quotients in steps of 2^−15; the sum is 2^(k − 15) · (1 + x), and 1 / (1 + x) lies between breakpoints.

    Args:
        exponentials: int64 [networks, 1, rows, channels].
        total: int64 [networks, 1, rows, 1].
        inverse: The breakpoints, int64 [networks, 513].
    """
    zeros = leading_zeros(Lanes(total)).array
    above = ((total << zeros - 1) + (1 << 13) >> 14) - (1 << 16)

    def breakpoint_at(place: Lanes) -> Lanes:
        found = np.take_along_axis(inverse, place.array.reshape(len(inverse), -1), axis=1)
        return Lanes(found.reshape(place.array.shape))

    reciprocal = between_breakpoints(Lanes(np.minimum(above, (1 << 16) - 1)), breakpoint_at).array
    dropped = 31 - zeros
    return exponentials * reciprocal + (np.int64(1) << dropped - 1) >> dropped


def normalize(command: Normalize, operands: Operands) -> None:
    """Executes a normalization: quotients by the root of a sum of squares, taken off their mean or a zero point."""
    x, count = operands.numbers("source", command.source_bits), command.channels
    if command.norm is Norm.RMS:
        x = x - command.input_zero_point
    squares, total, least = (x * x).sum(axis=-1, keepdims=True), np.zeros(1, np.int64), 1
    if command.norm is Norm.LAYER:
        total, least = x.sum(axis=-1, keepdims=True), max(count - 1, 1)
        squares = squares * count - total * total
    radicand = np.maximum(_radicand(command, squares), max(_radicand(command, np.int64(least)), 1))
    root, bits = inverse_root(Lanes(radicand))
    behind = bits.array + (31 - command.shift)
    lost = np.clip(behind - MOST_BEHIND, 0, ROOT_BITS)
    factor = product(root, command.multiplier).array + ((np.int64(1) << lost) >> 1) >> lost
    behind = np.minimum(behind, MOST_BEHIND)
    shares = total * factor
    mean = np.sign(shares) * (np.abs(shares) // count)
    _put(command, operands, x * factor - mean + (np.int64(1) << behind - 1) >> behind)


def _radicand(command: Normalize, squares: Any) -> Any:
    """The integers of which the root is taken, for sums of squares."""
    fraction = command.fraction
    return (squares << fraction if fraction >= 0 else squares >> -fraction) + command.epsilon


def _put(command: OfRows, operands: Operands, quotients: Int64s) -> None:
    """Stores quotients around the zero point of a command, within its bounds."""
    stored = np.clip(quotients + command.zero_point, command.lower, command.upper)
    operands.put("target", stored, command.target_bits)


RULES: Mapping[type[Command], Callable[[Any, Operands], None]] = {Softmax: softmax, Normalize: normalize}
"""Command → the function that executes it."""
