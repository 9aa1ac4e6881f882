"""Predicts the noise and the cost of assignments, and lists those that none is better than in both.

The noise is the sum of the effects of all parts (analysis/effects.py): of each layer's weights in their precision, and
of each result in 8 bits or in 16. A result counts with 16 bits only if its operation and all of its readers have 16-bit
data, since a reader in 8 bits rounds it again.

The cost that the search compares is a share of the int8 network's: the cost that was asked for, and a 50th of MACs
times bits, so that data of 16 bits, which cost no bytes of weights, are not free.

If there are at most `MOST_COMBINATIONS` assignments of bits to weights, all are predicted. Otherwise, the search begins
with the cheapest assignment and takes the change with the most noise less for each unit of cost more, until none is
left. For costs and noises that add up, this is the convex hull of the front. Promotions of data are always taken so.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import product
from math import inf, nan, prod

from qmlir.analysis.tune.assignment import Assignment, DataNoises, Layer, WeightNoises, has_codebook, has_groups
from qmlir.settings.quant_config import PlainSettings

MOST_COMBINATIONS = 20_000
"""The most assignments of bits to weights that are predicted one by one."""

SECOND = 0.02
"""The share of MACs times bits in the cost that the search compares."""

NARROW_BITS, WIDE_BITS = 8, 16

_KNOWN = ("bytes", "macs-bits")
"""The costs that are predicted exactly."""


@dataclass(frozen=True)
class Predicted:
    """An assignment with its predicted noise and cost.

    noise  relative noise power at the output
    cost   share of the int8 network's cost
    """

    assignment: Assignment
    noise: float
    cost: float


class Model:
    """Predicts noise and costs of assignments, from effects that were measured.

    layers   the operations that can change
    levels   bits of weights, in rising order
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        weights: WeightNoises,
        results: DataNoises,
        levels: Sequence[float],
        *,
        cost: str,
        fixed: float,
    ):
        """Notes the effects.

        Args:
            layers: The operations that can change.
            weights: Effects of the layers' weights.
            results: Effects of results, and of the network's inputs.
            levels: Bits of weights.
            cost: The name of the cost: `bytes`, or another one for MACs times bits.
            fixed: Bytes of constants that no assignment changes.
        """
        self.layers, self.levels = layers, sorted(levels)
        self._levels = {e.tensor: sorted({e.able(bits) for bits in levels}) for e in layers if e.weights}
        self._weights, self._results, self._cost = weights, results, cost
        self._by_name = {layer.tensor: layer for layer in layers}
        self._fixed = fixed
        self._known: dict[str, list[Predicted]] = {}
        self._costs: dict[int, list[float]] = {}
        base = Assignment.uniform(layers, 8, {})
        self._whole = {"bytes": self.bytes(base) or 1.0, "macs-bits": self.macs_bits(base) or 1.0}

    @property
    def complete(self) -> bool:
        """Whether the front is that of all assignments of bits to weights."""
        return prod(map(len, self._levels.values())) <= MOST_COMBINATIONS

    def bytes(self, assignment: Assignment) -> float:
        """Predicts the bytes of all constants."""
        return self._fixed + sum(self._by_name[name].bytes(bits, assignment.settings) for name, bits in assignment.bits)

    def macs_bits(self, assignment: Assignment) -> float:
        """Predicts MACs times bits of weights times bits of data; those in groups or from codebooks count as int8."""
        bits = {
            name: NARROW_BITS if has_groups(each) or has_codebook(each, assignment.settings) else each
            for name, each in assignment.bits
        }
        return float(
            sum(
                layer.macs * bits.get(layer.tensor, width) * width
                for layer in self.layers
                for width in (WIDE_BITS if layer.tensor in assignment.wide else NARROW_BITS,)
            )
        )

    def noise(self, assignment: Assignment) -> float:
        """Predicts the relative noise power at the output."""
        total = sum(self._weights[name][bits] for name, bits in assignment.bits if name in self._weights)
        for name, noises in self._results.items():
            total += noises[WIDE_BITS if self._is_exact(name, assignment.wide) else NARROW_BITS]
        return total

    def _is_exact(self, name: str, wide: frozenset[str]) -> bool:
        """Whether a result has 16 bits wherever it is read."""
        layer = self._by_name.get(name)
        return layer is not None and wide.issuperset(layer.promoted)

    def predicted(self, assignment: Assignment) -> Predicted:
        """Predicts noise and cost of an assignment."""
        second = self.macs_bits(assignment) / self._whole["macs-bits"]
        first = self.bytes(assignment) / self._whole["bytes"] if self._cost == "bytes" else second
        return Predicted(assignment, self.noise(assignment), first + SECOND * second)

    def cheapest(self, settings: PlainSettings, *, highest: bool = False) -> Assignment:
        """Returns the assignment with the fewest bits for all weights, or with the most."""
        return Assignment.uniform(self.layers, self.levels[-1 if highest else 0], settings)

    def front(self, settings: PlainSettings) -> list[Predicted]:
        """Lists the assignments that none is better than in both noise and cost, the cheapest first."""
        return self._kept("front", self._front, settings)

    def _kept(
        self, what: str, make: Callable[[PlainSettings], list[Predicted]], settings: PlainSettings
    ) -> list[Predicted]:
        """Returns a list of all assignments with some settings, which is made only once."""
        key = f"{what} {sorted(settings.items())}"
        if key not in self._known:
            self._known[key] = make(settings)
        return self._known[key]

    def _front(self, settings: PlainSettings) -> list[Predicted]:
        start = self.predicted(self.cheapest(settings))
        found = [start]
        if self.complete:
            found = undominated(self._kept("combined", self._combined, settings))
            found += [wider for each in found for wider in self._promotions(each)]
        found += self._upgrades(start)
        return undominated(found)

    def _combined(self, settings: PlainSettings) -> list[Predicted]:
        """All assignments of bits to weights, with data of 8 bits."""
        every = product(*self._levels.values())
        return [self.predicted(Assignment(tuple(zip(self._levels, e, strict=True)), settings=settings)) for e in every]

    def _upgrades(self, start: Predicted, most: float = inf) -> Iterator[Predicted]:
        """Takes the best change after another that fits a budget, of weights or data, until none lowers the noise."""
        current = start
        while (following := self._best(current, most)) is not None:
            yield following
            current = following

    def _promotions(self, start: Predicted, most: float = inf) -> Iterator[Predicted]:
        """Takes the best promotion of data after another that fits a budget."""
        current = start
        while (following := self._best(current, most, weights=False)) is not None:
            yield following
            current = following

    def promoted(self, point: Predicted) -> Predicted:
        """Returns an assignment that stores data in 16 bits wherever that lowers the noise; it takes no more bytes."""
        return [point, *self._promotions(point)][-1]

    def _best(self, current: Predicted, most: float, *, weights: bool = True) -> Predicted | None:
        changes = map(self.predicted, self._changes(current.assignment, weights=weights))
        better = [e for e in changes if e.noise < current.noise and (most == inf or self._fits(e, most))]

        def gain(each: Predicted) -> float:
            return (current.noise - each.noise) / max(each.cost - current.cost, 1e-9)

        return max(better, key=gain, default=None)

    def _changes(self, assignment: Assignment, *, weights: bool) -> Iterator[Assignment]:
        for name, bits in assignment.bits if weights else ():
            for more in (level for level in self._levels[name] if level > bits):
                yield assignment.with_bits(name, more)
        for layer in self.layers:
            promoted = layer.promoted
            able = all(name in self._by_name and self._by_name[name].widens for name in promoted)
            if promoted and able and not promoted <= assignment.wide:
                yield assignment.with_wide(promoted)

    def cost(self, assignment: Assignment) -> float | None:
        """Returns the cost that a budget compares, if it is known without a quantization."""
        return (
            {"bytes": self.bytes, "macs-bits": self.macs_bits}[self._cost](assignment) if self._cost in _KNOWN else None
        )

    def within(self, settings: PlainSettings, most: float, count: int) -> list[Predicted]:
        """Lists the assignments of known cost within a budget that have the least predicted noise, the least first."""
        points = self._kept("combined", self._combined, settings) if self.complete else self.front(settings)
        cheap = [each for each, cost in zip(points, self._costs_of(points), strict=True) if cost <= most]
        fits = nsmallest(count, cheap, key=lambda each: each.noise)
        for best in tuple(fits):
            further = self._promotions(best, most) if self.complete else self._upgrades(best, most)
            fits += further
        different = {(each.assignment.bits, each.assignment.wide): each for each in fits}  # ways there meet
        return nsmallest(count, different.values(), key=lambda each: (each.noise, each.cost))

    def _costs_of(self, points: list[Predicted]) -> list[float]:
        """Returns the cost of each point, NaN where it is not known; a list is computed once for all budgets."""
        if id(points) not in self._costs:
            costs = [self.cost(each.assignment) for each in points]
            self._costs[id(points)] = [nan if cost is None else cost for cost in costs]
        return self._costs[id(points)]

    def _fits(self, each: Predicted, most: float) -> bool:
        return (cost := self.cost(each.assignment)) is not None and cost <= most

    def exchanges(self, assignment: Assignment, most: float) -> list[Predicted]:
        """Lists assignments within a budget with more bits for one layer, and fewer for at most one, best first."""
        found: list[Predicted] = []
        for more, bits in assignment.bits:
            for higher in [level for level in self._levels[more] if level > bits][:1]:
                raised = assignment.with_bits(more, higher)
                lowered = [
                    raised.with_bits(name, lower)
                    for name, own in assignment.bits
                    if name != more
                    for lower in [level for level in self._levels[name] if level < own][-1:]
                ]
                found += [self.predicted(a) for a in (raised, *lowered) if (self.cost(a) or 0.0) <= most]
        return sorted(found, key=lambda each: (each.noise, each.cost))

    def downgrades(self, assignment: Assignment) -> list[Assignment]:
        """Lists the assignments that store one layer's weights in one level less, the least noise a saving first."""
        before = self.predicted(assignment)
        found: list[tuple[float, Assignment]] = []
        for name, bits in assignment.bits:
            for less in [level for level in self._levels[name] if level < bits][-1:]:
                each = self.predicted(assignment.with_bits(name, less))
                found.append(((each.noise - before.noise) / max(before.cost - each.cost, 1e-9), each.assignment))
        return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def undominated(
    points: Sequence[Predicted], cost: Callable[[Predicted], float] = lambda point: point.cost
) -> list[Predicted]:
    """Returns the points that no other point is better than in both noise and cost, the cheapest first."""
    found: list[Predicted] = []
    for point in sorted(points, key=lambda p: (cost(p), p.noise)):
        if not found or point.noise < found[-1].noise:
            found.append(point)
    return found
