"""What the numbers of a command may be, on every device: one table for everyone who makes, judges or runs commands.

The simulator refuses a command that breaks a limit, and the encoder a number that does not fit its bits. The compiler
chooses tiles whose commands keep to the limits. An operation of which even the smallest tile breaks one is not the
device's (devices/legality/limits.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from qmlir.isa.commands import (
    COMMANDS,
    Arithmetic,
    Arrange,
    Convolve,
    Division,
    Fill,
    Norm,
    Normalize,
    OfRows,
    Operation,
    Pool,
    Post,
    Reduce,
    SetContext,
    Softmax,
    Unpack,
    Window,
)
from qmlir.isa.encoding import Command, beyond_bits

MOST_ELEMENTS = 1 << 24
"""The most elements that a command may work on; a stream that asks for more is damaged."""

MOST_BYTES = 8 * MOST_ELEMENTS
"""The most bytes of an operand of a command; a routine of the host may read and write more."""

MOST_MEETINGS = 16 * MOST_ELEMENTS
"""The most elements that the windows of a command may meet, each as often as a window meets it."""

MOST_TAPS = 1 << 12
"""The most elements that a window may have."""

MOST_PRODUCTS = 1 << 32
"""The most products that a command may compute."""

MOST_CHANNELS = 1 << 20
"""The most channels of a convolution; sums over this many channels are exact in float64, whatever the data."""

MOST_ENTRIES = 1 << 16
"""The most exponentials of a softmax's table: one for each difference of two integers of 16 bits."""

UNIT_BITS = 12
"""Fraction bits of a softmax's unit."""

MOST_UNITS = {Division.EXACT: 1 << 19, Division.NEWTON: 1 << 16, Division.INTERPOLATED: 1 << 15}
"""Division of a softmax → the largest number that stands for 1 in its result."""

LEAST_SUMS = {Division.EXACT: 1, Division.NEWTON: 1 << 12, Division.INTERPOLATED: 2}
MOST_SUMS = {Division.EXACT: (1 << 49) - 1, Division.NEWTON: (1 << 31) - 1, Division.INTERPOLATED: (1 << 31) - 1}
"""Division of a softmax → the least and the greatest sum of a row by which it divides."""

DROPPED = 12
"""The low bits that exponentials lose, rounded half up, before they are summed for a division by Newton's method."""

ROOT_BITS = 62
"""Bits of the integers of which a normalization takes the root; limit on shifts to and from them."""

MOST_BEHIND = 32
"""The most bits that the factor of a normalization's elements keeps behind the point."""

NARROW, SUMS, STORED = (8, 16), (32, 64), (8, 16, 32, 64)
"""Bits of data and weights, of sums, and of integers in memory."""


@dataclass(frozen=True)
class Limit:
    """A limit on the numbers of commands.

    commands  the commands that the limit is about
    need      what a command must be, with {0} for the command
    holds     whether a command keeps to the limit
    got       what the command is instead
    tiled     whether smaller tiles keep to the limit, whatever the operation
    """

    commands: tuple[type[Command], ...]
    need: str
    holds: Callable[[Any], bool]
    got: Callable[[Any], object]
    tiled: bool = False


def broken(command: Command) -> tuple[str, str] | None:
    """The first limit that a command breaks: what the command must be, and what it is; None if it keeps to all."""
    for limit in LIMITS:
        if isinstance(command, limit.commands) and not limit.holds(command):
            return limit.need.format(command), str(limit.got(command))
    return None


def outputs_of(command: Window) -> int:
    """The number of output channels of a convolution."""
    return command.out_channels if isinstance(command, Convolve) else command.channels


def _taps(command: Window | Pool) -> int:
    return command.kernel_rows * command.kernel_columns


def _elements(command: Window | Pool) -> int:
    """Positions of the window, times channels."""
    return command.out_rows * command.out_columns * command.channels


def products_of(command: Window) -> int:
    """The number of products of a convolution."""
    return command.out_rows * command.out_columns * _taps(command) * command.channels * outputs_of(command)


def _fits(value: int, bits: int) -> bool:
    """Whether a signed integer has at most so many bits."""
    return -(1 << bits - 1) <= value < 1 << bits - 1


def _least_step(command: Window | Pool) -> int:
    return min(command.stride_rows, command.stride_columns, command.dilation_rows, command.dilation_columns)


def _reach(command: Arithmetic) -> int:
    """The largest magnitude that a sum of two tensors can take before it is shifted."""
    most = 1 << command.bits - 1
    sides = (
        (command.lhs_multiplier, command.lhs_zero_point),
        (command.rhs_multiplier, command.rhs_zero_point),
    )
    return sum((most + abs(zero_point)) * abs(multiplier) for multiplier, zero_point in sides) + (1 << command.shift)


def term_of(exponential: int, division: Division) -> int:
    """What an exponential adds to the sum of its row."""
    return exponential + (1 << DROPPED - 1) >> DROPPED if division is Division.NEWTON else exponential


def _row_elements(command: OfRows) -> int:
    return command.rows * command.channels


def _divides(command: Softmax) -> bool:
    """Whether a softmax has a unit that its division takes."""
    whole, rest = divmod(command.unit, 1 << UNIT_BITS)
    in_range = 1 <= whole and command.unit <= MOST_UNITS[command.division] << UNIT_BITS
    match command.division:
        case Division.EXACT:
            return in_range
        case Division.NEWTON:
            return in_range and not rest and whole & whole - 1 == 0
        case Division.INTERPOLATED:
            return command.unit == MOST_UNITS[command.division] << UNIT_BITS


def _scales(command: Normalize) -> bool:
    """Whether a normalization has a multiplier, shifts and an epsilon within their ranges."""
    shifts = max(abs(command.shift), abs(command.fraction))
    return 1 << 30 <= command.multiplier < 1 << 31 and shifts <= ROOT_BITS and command.epsilon < 1 << ROOT_BITS


def _difference(command: Normalize) -> int:
    """The largest magnitude of an element less its zero point."""
    return (1 << command.source_bits - 1) + (abs(command.input_zero_point) if command.norm is Norm.RMS else 0)


def _squares(command: Normalize) -> int:
    """The greatest sum of squares of a row, which a layer normalization multiplies by the number of its elements."""
    terms, most = command.channels, _difference(command)
    return (terms * most) ** 2 if command.norm is Norm.LAYER else terms * most**2


def _radicand(command: Normalize, squares: int) -> int:
    """The integer of which the root is taken, for a sum of squares."""
    fraction = command.fraction
    return (squares << fraction if fraction >= 0 else squares >> -fraction) + command.epsilon


def _most_rooted(command: Normalize) -> int:
    """The greatest integer that a normalization computes before it takes the root."""
    return max(_squares(command), _radicand(command, _squares(command)))


def _behind(command: Normalize) -> int:
    """The bits behind the point of the factor of elements in the row with the least sum of squares that is not 0."""
    least = max(_radicand(command, max(command.channels - 1, 1) if command.norm is Norm.LAYER else 1), 1)
    return 30 - (ROOT_BITS - least.bit_length()) // 2 + 31 - command.shift


def _quotients(command: Normalize) -> bool:
    """Whether each quotient d · M / √W is below 2^30, for the greatest |d| / √D of a row."""
    above, below = 1, 1
    if command.norm is Norm.LAYER:
        above, below = max(command.channels - 1, 1), command.channels**2
    most, limit = command.multiplier**2 * above, below << 122
    return most << 2 * max(command.shift, 0) + max(-command.fraction, 0) < limit << 2 * max(-command.shift, 0) + max(
        command.fraction, 0
    )


def _bits_of(field: str, allowed: tuple[int, ...], *commands: type[Command]) -> Limit:
    """The limit on the width of integers in a field."""
    need = f"integers must have {', '.join(map(str, allowed))} bits"
    return Limit(commands, need, lambda c: getattr(c, field) in allowed, lambda c: getattr(c, field))


# fmt: off
LIMITS: tuple[Limit, ...] = (
    Limit(COMMANDS, "every number of a command must fit its bits", lambda c: beyond_bits(c) is None, beyond_bits),
    _bits_of("bits", STORED, SetContext),
    Limit((SetContext,), "bounds must be in order and fit {0.bits} bits",
          lambda c: c.lower <= c.upper and _fits(c.lower, c.bits) and _fits(c.upper, c.bits),
          lambda c: f"[{c.lower}, {c.upper}]"),
    _bits_of("source_bits", NARROW, OfRows),
    _bits_of("target_bits", NARROW, OfRows),
    Limit((OfRows,), "bounds must be in order and fit {0.target_bits} bits",
          lambda c: c.lower <= c.upper and _fits(c.lower, c.target_bits) and _fits(c.upper, c.target_bits),
          lambda c: f"[{c.lower}, {c.upper}]"),
    Limit((OfRows,), f"a command must work on rows of 1 to {MOST_ELEMENTS} elements in all",
          lambda c: 1 <= _row_elements(c) <= MOST_ELEMENTS, lambda c: f"{c.rows} of {c.channels} each", tiled=True),
    Limit((Softmax,), f"a table must have 1 to {MOST_ENTRIES} exponentials", lambda c: 1 <= c.entries <= MOST_ENTRIES,
          lambda c: c.entries),
    Limit((Softmax,), "a unit must be one that its division takes: 1 to 2^19; a power of two up to 2^16; 2^15",
          _divides, lambda c: f"{c.unit} · 2^-{UNIT_BITS}, {c.division.name.lower()}"),
    Limit((Normalize,), f"a multiplier must have 31 bits, shifts at most {ROOT_BITS} and an epsilon {ROOT_BITS} bits",
          _scales, lambda c: f"{c.multiplier}, {c.shift}, {c.fraction} and {c.epsilon}"),
    Limit((Normalize,), f"roots must be of at most {ROOT_BITS} bits",
          lambda c: _most_rooted(c) < 1 << ROOT_BITS, lambda c: f"up to {_most_rooted(c)}"),
    Limit((Normalize,), "quotients must be below 2^30, and factors must keep 4 bits behind the point",
          lambda c: _behind(c) >= 4 and _quotients(c), lambda c: f"{c.multiplier} · 2^({c.shift} - 31)"),
    Limit((Fill,), "a fill must be with a byte", lambda c: c.value <= 255, lambda c: c.value),
    Limit((Unpack,), f"a command must unpack 1 to {MOST_ELEMENTS} weights",
          lambda c: 1 <= c.count <= MOST_ELEMENTS, lambda c: c.count, tiled=True),
    _bits_of("bits", NARROW, Arrange),
    Limit((Arrange,), f"a matrix must have 1 to {MOST_ELEMENTS} elements",
          lambda c: 1 <= c.rows * c.columns <= MOST_ELEMENTS, lambda c: c.rows * c.columns, tiled=True),
    Limit((Arrange,), "a matrix must be transposed once or not at all", lambda c: c.transposed <= 1,
          lambda c: c.transposed),
    _bits_of("data_bits", NARROW, Window),
    _bits_of("sum_bits", SUMS, Window),
    Limit((Window,), "weights must have at most 8 bits, or 16", lambda c: c.weight_bits <= 8 or c.weight_bits == 16,
          lambda c: c.weight_bits),
    _bits_of("bits", NARROW, Arithmetic, Pool, Reduce),
    _bits_of("source_bits", STORED, Post),
    Limit((Window, Pool), f"a window must have 1 to {MOST_TAPS} elements", lambda c: 1 <= _taps(c) <= MOST_TAPS,
          _taps),
    Limit((Window, Pool), "strides and dilations must be at least 1", lambda c: _least_step(c) >= 1, _least_step),
    Limit((Window,), "a convolution must have output channels", lambda c: outputs_of(c) > 0, lambda c: "none"),
    Limit((Window, Pool), "a window must have places", lambda c: _elements(c) > 0,
          lambda c: f"{c.out_rows} rows, {c.out_columns} columns"),
    Limit((Window, Pool), f"a window must meet at most {MOST_ELEMENTS} elements, 16 times",
          lambda c: _elements(c) <= MOST_ELEMENTS and _elements(c) * _taps(c) <= MOST_MEETINGS,
          lambda c: f"{_elements(c)}, {_taps(c)} times", tiled=True),
    Limit((Window,), "the zero point must fit the data", lambda c: _fits(c.zero_point, c.data_bits),
          lambda c: f"{c.zero_point} of {c.data_bits} bits"),
    Limit((Window,), "the zero point must fit the weights",
          lambda c: _fits(c.weight_zero_point, max(c.weight_bits, 8)),
          lambda c: f"{c.weight_zero_point} of {c.weight_bits} bits"),
    Limit((Window,), f"a convolution must have at most {MOST_CHANNELS} channels",
          lambda c: c.channels <= MOST_CHANNELS, lambda c: c.channels, tiled=True),
    Limit((Window,), f"a command must compute at most {MOST_PRODUCTS} products",
          lambda c: products_of(c) <= MOST_PRODUCTS, products_of, tiled=True),
    Limit((Arithmetic,), "a sum must be shifted by 1 to 62 bits", lambda c: 1 <= c.shift <= 62, lambda c: c.shift),
    Limit((Arithmetic,), "a sum must fit 64 bits",
          lambda c: c.operation is not Operation.ADD or _reach(c) < 1 << 63, lambda c: f"up to {_reach(c)}"),
)
# fmt: on
"""Every limit on the numbers of a command that holds on every device."""
