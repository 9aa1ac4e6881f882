"""The checker's numbers of a device's commands on rows: the sums and roots of softmax and of normalizations."""

from fractions import Fraction

from qmlir.checker.normalizations import Root, require_divisible
from qmlir.checker.ranges import Channels, Range, require_fit
from qmlir.checker.unproven import UnprovenError
from qmlir.isa.commands import Division, Norm, Normalize, Softmax

LEAST = {Division.EXACT: 1, Division.NEWTON: (1 << 24) - (1 << 11), Division.INTERPOLATED: 2}
"""Division of a softmax → the least exponential of the greatest element with which its row can be divided."""


def exponential_sums(command: Softmax, data: Range, table: Channels) -> Range:
    """The interval of the sum of a row's exponentials.

    Args:
        command: The softmax.
        data: The interval of its elements.
        table: The interval of each entry of its table.

    Raises:
        UnprovenError: An exponential may be negative, or the sum may not be one that the command divides by.
    """
    found = table[: min(data[1] - data[0], command.entries - 1) + 1]
    least, largest = min(low for low, _ in found), max(high for _, high in found)
    if least < 0 or found[0][0] < LEAST[command.division]:
        got = f"exponentials from {least}, {found[0][0]} for the greatest element"
        raise UnprovenError(got, "must have exponentials that can be divided by their sum")
    require_divisible(largest, command.channels, command.unit, command.division.name.lower())
    return found[0][0], largest * command.channels


def radicands(command: Normalize, data: Range) -> Range:
    """The interval of the numbers of which a normalization takes the root.

    Args:
        command: The normalization.
        data: The interval of its elements.

    Raises:
        UnprovenError: Sums of squares, factors or quotients may not fit their widths.
    """
    count, (low, high) = command.channels, data
    numbers = (command.multiplier, command.shift, command.fraction, command.epsilon)
    if max(abs(command.shift), abs(command.fraction)) > 62:
        raise UnprovenError(f"shifts by {command.shift} and {command.fraction} bits", "must be a device's command")
    if command.norm is Norm.RMS:
        low, high = low - command.input_zero_point, high - command.input_zero_point
        return Root(*numbers, count * max(low**2, high**2), 1, Fraction(1)).radicands()
    largest, others = max(-low, high), max(count - 1, 1)
    require_fit([(0, count * largest << 31)], 64)
    return Root(*numbers, (count * largest) ** 2, others, Fraction(others, count**2)).radicands()
