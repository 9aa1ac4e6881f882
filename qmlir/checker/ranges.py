"""Intervals of integers, for each channel or for all of them, and sums that have to fit a width."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from qmlir.checker.unproven import UnprovenError

Range = tuple[int, int]

Channels = Sequence[Range]
"""The interval of each channel; a single one if all channels have one interval."""

T = TypeVar("T")


def join(*ranges: Range) -> Range:
    """The interval that holds all of these."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def less(interval: Range, point: int) -> Range:
    """The interval of the differences to a zero point."""
    return interval[0] - point, interval[1] - point


def times(a: Range, b: Range) -> Range:
    """The interval of products."""
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def repeated(term: Range, count: int) -> Range:
    """The interval of a sum of `count` terms."""
    return term[0] * count, term[1] * count


def signed(bits: int) -> Range:
    """The least and the greatest signed integer of so many bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def clamped(interval: Range, point: int, least: int, most: int) -> Range:
    """The interval of numbers to which a zero point is added, and which are clamped then."""
    low, high = (min(max(end + point, least), most) for end in interval)
    return low, high


def spread(values: Sequence[T], count: int) -> Sequence[T]:
    """One value for each channel, where one may stand for all."""
    return values if len(values) == count else [values[0]] * count


def in_channel(channel: int, count: int) -> str:
    """Which channel something is about, as the end of a sentence; nothing if there is but one."""
    return f" in channel {channel}" if count > 1 else ""


def require_fit(channels: Channels, bits: int, device: str | None = None) -> None:
    """Raises UnprovenError where sums are not within signed integers of a width, that of a device if one is named."""
    least, most = signed(bits)
    for channel, (low, high) in enumerate(channels):
        if low < least or high > most:
            need, remedy = f"its {bits}-bit accumulator", "give it a 64-bit accumulator, or a lower precision"
            if device is not None:
                need = f"the {bits}-bit accumulator of {device}"
                remedy = "choose a device with wider accumulators, or a lower precision"
            got = f"sums from {low} to {high}{in_channel(channel, len(channels))}"
            raise UnprovenError(got, f"must have sums that fit {need}", remedy=remedy)


@dataclass(frozen=True)
class Sums:
    """Sums of a width: the intervals of complete sums, and that of all partial sums."""

    whole: Channels
    partial: Range
    bits: int

    @staticmethod
    def of(whole: Channels, partial: Channels, bits: int, device: str | None = None) -> "Sums":
        """Complete and partial sums, which have to fit the width; see `require_fit`."""
        require_fit(partial, bits, device)
        return Sums(whole, join(*partial), bits)

    def fields(self) -> dict[str, object]:
        """The field `accumulators` of a certificate."""
        slack = self.bits - max((n if n >= 0 else ~n).bit_length() for n in self.partial) - 1
        lowest, highest = ([each[end] for each in self.whole] for end in (0, 1))
        return {"lowest": lowest, "highest": highest, "bits": self.bits, "slack": slack}
