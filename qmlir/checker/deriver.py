"""What the rules of the checker's intervals share: the values of a network, in program order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from qmlir.checker.network import Constant, Network, Node, Value
from qmlir.checker.ranges import Channels, Range, Sums, join, signed
from qmlir.checker.unproven import MISSTATED, UnprovenError, misstated


@dataclass(frozen=True)
class Derived:
    """What follows for an operation.

    channels       the interval of its result, for each channel
    sums           its sums, if it has any
    accumulators   what a requantization rounds: one interval for each of its channels
    slack          how many times these could double before they leave the contract's limit
    operands       the intervals of the operands that hold integers, in order
    """

    channels: Channels
    sums: Sums | None = None
    accumulators: Channels | None = None
    slack: int = 0
    operands: tuple[Range, ...] = ()

    @property
    def range(self) -> Range:
        """The interval of the whole result."""
        return join(*self.channels)


class Deriver:
    """Intervals of the values of a network, in program order."""

    def __init__(self, network: Network, rules: "Mapping[str, Rule]"):
        self.network, self.rules, self.constants = network, rules, dict[int, Constant]()
        self.known: dict[int, Channels] = {
            number: [all_of(network.values[number])] for number in network.arguments if network.values[number].bits
        }

    def add(self, node: Node) -> Derived:
        """Derives one operation."""
        try:
            found = self._derived(node)
        except UnprovenError as error:
            raise error.at(node.kind, node.name, node.index) from None
        except MISSTATED as error:
            raise misstated(error).at(node.kind, node.name, node.index) from None
        ranges = tuple(join(*self.known[n]) for n in node.operands if n in self.known)
        self.known[node.results[0]] = found.channels
        return replace(found, operands=ranges)

    def _derived(self, node: Node) -> Derived:
        result = self.value(node.results[0])
        if (rule := self.rules.get(node.kind)) is None or len(node.results) != 1:
            need = "must be an operation on quantized numbers, or one that moves, compares or chooses numbers"
            got = f"{result.element}, whose sums and products no rule bounds"
            raise UnprovenError(got, need, remedy="leave it out: --outputs cuts a network")
        found, (least, most) = rule(self, node), all_of(result)
        low, high = found.range
        if not least <= low <= high <= most:
            need = f"must have results that fit {result.bits} bits"
            raise UnprovenError(f"{low} to {high}", need, remedy="give it a wider result")
        return found

    def value(self, number: int) -> Value:
        return self.network.values[number]

    def shape(self, node: Node) -> tuple[int, ...]:
        """The shape of the first operand."""
        return self.value(node.operands[0]).shape

    def operand(self, node: Node, place: int = 0, point: str | None = None) -> Range:
        """The interval of an operand, less the zero point that a property states."""
        low, high = join(*self.known[node.operands[place]])
        zero = 0 if point is None else node.number(point)
        return low - zero, high - zero

    def constant(self, node: Node, place: int) -> Constant:
        if node.operands[place] not in self.constants:
            raise UnprovenError(f"operand {place} that is computed", "must have constant weights and bias")
        return self.constants[node.operands[place]]

    def summed(self, node: Node, whole: Channels, partial: Channels | None = None) -> Derived:
        """Of sums that are the result, which have its width; by default, complete sums are partial ones too."""
        return Derived(whole, Sums.of(whole, whole if partial is None else partial, self.value(node.results[0]).bits))


def all_of(value: Value) -> Range:
    """All integers that bits can hold, read as signed; booleans are 0 and 1."""
    return (0, 1) if value.bits == 1 else signed(value.bits)


def limited(node: Node, total: Range, bits: int) -> Derived:
    """Of sums of a width, and a result that is only known to be clamped."""
    return Derived([limits(node)], Sums.of([total], [total], bits))


def limits(node: Node) -> Range:
    """The integers between which results are clamped."""
    return node.properties["min"], node.properties["max"]


def entries(table: Constant, low: int, high: int) -> Sequence[int]:
    """The entries of a table at the places from low to high, all of which it must have."""
    if not 0 <= low <= high < len(table.values):
        raise UnprovenError(f"places {low} to {high} of a table of {len(table.values)}")
    return table.values[low : high + 1]


Rule = Callable[[Deriver, Node], Derived]
"""What follows for an operation, from the intervals of its operands."""
