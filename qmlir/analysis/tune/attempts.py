"""The trials of one search: at most so many quantizations, and which of the networks meet the search's limit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from qmlir.analysis.output_measure import decibels
from qmlir.analysis.tune.assignment import GROUP, Assignment, has_groups, precision_of
from qmlir.analysis.tune.front import Predicted
from qmlir.analysis.tune.limits import Budget, Floor
from qmlir.analysis.tune.result import Point
from qmlir.analysis.tune.trials import Laboratory, Trial
from qmlir.errors import QmlirError


@dataclass
class Attempts:
    """The networks that a search has quantized and scored.

    laboratory  quantizes and scores
    limit       the budget or the floor
    most        the most quantizations
    points      policy as text → the network, in the order in which they were made
    spent       quantizations so far; those read from disk count, so that a search that goes on ends alike
    bound       the limit in its own unit, once the int8 network is known
    """

    laboratory: Laboratory
    limit: Budget | Floor
    most: int
    points: dict[str, Point] = field(default_factory=dict[str, Point])
    spent: int = 0
    bound: float = math.nan

    @property
    def cost(self) -> str:
        """The name of the cost that points are compared by."""
        return self.limit.cost if isinstance(self.limit, Budget) else "bytes"

    @property
    def left(self) -> int:
        """How many more quantizations may be made."""
        return self.most - self.spent

    @property
    def first(self) -> Point:
        """The network that was tried first: int8 with the default options."""
        return next(iter(self.points.values()))

    def begin(self, start: Assignment) -> Point:
        """Makes the int8 network of the default options, which the limit may be relative to.

        Raises:
            QmlirError: The network cannot be quantized so.
            OptionError: The limit cannot be measured.
        """
        reference = self.attempt(start, "int8, default options")
        assert reference is not None
        limit = self.limit
        self.bound = limit.within(reference.trial) if isinstance(limit, Budget) else limit.at(reference.trial)
        return reference

    def ahead(self, what: str, assignments: Sequence[Assignment]) -> None:
        """Makes trials on workers that `attempt` will ask for; see `Laboratory.ahead`."""
        self.laboratory.ahead(what, [each.policy() for each in assignments])

    def attempt(self, assignment: Assignment, said: str, predicted: float | None = None) -> Point | None:
        """Makes the trial of an assignment, or returns the known one; None if there may be no more, or it fails."""
        policy = assignment.policy()
        key = policy.text()
        if key in self.points:
            return self.points[key]
        if self.left <= 0:
            return None
        self.spent += 1
        try:
            trial = self.laboratory.trial(policy)
        except QmlirError:
            if not self.points:
                raise
            return None  # the device or the network cannot have it so
        self.points[key] = point = Point(trial, assignment, said, predicted)
        return point

    def attempt_predicted(self, each: Predicted) -> Point | None:
        """Makes the trial of an assignment whose noise was predicted."""
        words = said(tuple(bits for _, bits in each.assignment.bits))
        words += f", {len(each.assignment.wide)} with int16 data" if each.assignment.wide else ""
        return self.attempt(each.assignment, words, decibels(each.noise))

    def meets(self, trial: Trial) -> bool:
        """Whether a network meets the limit."""
        if isinstance(self.limit, Budget):
            return trial.cost(self.limit.cost) <= self.bound
        value = trial.quality(self.limit.quality)
        return value is not None and value >= self.bound

    def best(self) -> Point | None:
        """The cheapest point above the floor, or the best within the budget; None if none meets the limit."""
        met = [point for point in self.points.values() if self.meets(point.trial)]
        if isinstance(self.limit, Budget):
            return max(met, key=lambda p: (p.trial.sqnr, -p.trial.cost(self.cost)), default=None)
        return min(met, key=lambda p: (p.trial.bytes, p.trial.macs_bits, -p.trial.sqnr), default=None)

    def choice(self) -> Point:
        """Returns the best point.

        Raises:
            QmlirError: None meets the limit.
        """
        if (best := self.best()) is not None:
            return best
        if isinstance(self.limit, Budget):
            least = min(self.points.values(), key=lambda p: p.trial.cost(self.cost))
            got = f"{least.trial.cost(self.cost):g} at least ({least.said})"
        else:
            quality = self.limit.quality
            top = max(self.points.values(), key=lambda p: p.trial.quality(quality) or -math.inf)
            got = f"{top.trial.quality(quality):g} at most ({top.said})"
        need = f"no network of {len(self.points)} that were tried meets {self.limit}"
        has = f"an SQNR of {self.first.trial.sqnr:.2f} dB in {self.first.trial.bytes} bytes"
        remedy = f"give a limit within reach, or a larger --most; the int8 network has {has}"
        raise QmlirError(need, where="tune", got=got, remedy=remedy)


def said(bits: Sequence[float]) -> str:
    """The precisions of weights in words: `int4 weights`, or `4·int4 2·int4/32 weights`; /32 stands for groups."""
    counts = {each: list(bits).count(each) for each in sorted(set(bits))}
    if len(counts) == 1:
        return f"{_short(next(iter(counts)))} weights"
    return " ".join(f"{count}·{_short(each)}" for each, count in counts.items()) + " weights"


def _short(bits: float) -> str:
    return precision_of(bits) + (f"/{GROUP}" if has_groups(bits) else "")
