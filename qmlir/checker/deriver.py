"""What the rules of the checker's intervals share: intervals, sums, and the values of a network in program order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from qmlir.checker.network import Constant, Network, Node, Value
from qmlir.checker.rounding import OverflowsError
from qmlir.checker.unproven import UnprovenError

Range = tuple[int, int]
Channels = tuple[list[int], list[int]]
"""The lowest and the highest value of each channel; lists of one element if all channels have one interval."""


@dataclass(frozen=True)
class Sums:
    """Sums of a width: the intervals of complete sums and of all partial sums."""

    whole: Channels
    partial: Range
    bits: int

    @property
    def slack(self) -> int:
        """How many times the partial sums could double before they overflow."""
        return self.bits - max(n.bit_length() if n >= 0 else (~n).bit_length() for n in self.partial) - 1


@dataclass(frozen=True)
class Derived:
    """What follows for an operation.

    channels       the interval of its result, for each channel
    sums           its sums, if it has any
    accumulators   what a requantization rounds: one interval for each of its channels
    operands       the intervals of the operands that hold integers, in order
    """

    channels: Channels
    sums: Sums | None = None
    accumulators: Channels | None = None
    operands: tuple[Range, ...] = ()

    @property
    def range(self) -> Range:
        """The interval of the whole result."""
        return min(self.channels[0]), max(self.channels[1])


class Deriver:
    """Intervals of the values of a network, in program order."""

    def __init__(self, network: Network, rules: "Mapping[str, Rule]"):
        self.network, self.rules, self.constants = network, rules, dict[int, Constant]()
        self.known: dict[int, Channels] = {
            number: one(all_of(network.values[number])) for number in network.arguments if network.values[number].bits
        }

    def add(self, node: Node) -> Derived:
        """Derives one operation."""
        if (rule := self.rules.get(node.kind)) is None or len(node.results) != 1:
            raise UnprovenError(f"operation {node.index}, {node.kind}, has no rule")
        try:
            found = rule(self, node)
        except OverflowsError as error:
            raise UnprovenError(f"operation {node.index}, {node.kind}: {error}") from None
        except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            lacks = f"lacks or misstates a property ({type(error).__name__}: {error})"
            raise UnprovenError(f"operation {node.index}, {node.kind}, {lacks}") from None
        low, high = all_of(self.value(node.results[0]))
        if not low <= found.range[0] <= found.range[1] <= high:
            raise UnprovenError(f"operation {node.index}, {node.kind}, does not fit its result: {found.range}")
        ranges = (self.known[n] for n in node.operands if n in self.known)
        self.known[node.results[0]] = found.channels
        return replace(found, operands=tuple((min(low), max(high)) for low, high in ranges))

    def value(self, number: int) -> Value:
        return self.network.values[number]

    def operand(self, node: Node, place: int) -> Range:
        channels = self.known[node.operands[place]]
        return min(channels[0]), max(channels[1])

    def constant(self, node: Node, place: int) -> Constant:
        if node.operands[place] not in self.constants:
            raise UnprovenError(f"operation {node.index}, {node.kind}, has no constant operand {place}")
        return self.constants[node.operands[place]]

    def bits(self, node: Node) -> int:
        return self.value(node.results[0]).bits


def one(interval: Range) -> Channels:
    """One interval for all channels."""
    return [interval[0]], [interval[1]]


def all_of(value: Value) -> Range:
    """All integers that bits can hold, read as signed; booleans are 0 and 1."""
    return (0, 1) if value.bits == 1 else (-(1 << value.bits - 1), (1 << value.bits - 1) - 1)


def join(*ranges: Range) -> Range:
    """The interval that holds all of these."""
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


def require_fit(bits: int, channels: Channels) -> None:
    """Raises OverflowsError where an interval is not within signed integers of a width."""
    for channel, (low, high) in enumerate(zip(*channels, strict=True)):
        if low < -(1 << bits - 1) or high >= 1 << bits - 1:
            raise OverflowsError(f"sums of channel {channel} reach [{low}, {high}], beyond {bits} bits")


def sums_of(whole: Channels, partial: Channels, bits: int) -> Derived:
    """Of complete and partial sums that have to fit a width."""
    require_fit(bits, partial)
    return Derived(whole, Sums(whole, (min(partial[0]), max(partial[1])), bits))


def less(interval: Range, point: int) -> Range:
    """The interval of the differences to a zero point."""
    return interval[0] - point, interval[1] - point


def limits(d: Deriver, node: Node) -> Derived:
    """Of a result that is only known to be clamped."""
    return Derived(one((node.properties["min"], node.properties["max"])))


def entries(table: Constant, low: int, high: int) -> Sequence[int]:
    """The entries of a table at the places from low to high, all of which it must have."""
    if not 0 <= low <= high < len(table.values):
        raise OverflowsError(f"places {low} to {high} of a table of {len(table.values)}")
    return table.values[low : high + 1]


Rule = Callable[[Deriver, Node], Derived]
"""What follows for an operation, from the intervals of its operands."""
