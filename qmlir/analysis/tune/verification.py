"""Verifies predicted assignments by real quantizations, and repairs the best of them.

Under a floor of SQNR: bisection along the predicted front for the cheapest network that meets it, then fewer bits for
single layers of what was found. Under another floor, which networks of one SQNR may meet or not: always the network of
the largest expected saving, the bytes that it saves times the chance that it meets the floor (chances.py). Within a
budget of bytes or of MACs times bits: the assignments of the least predicted noise that fit, then exchanges of bits
between two layers of the best. Within any other budget, which only the compiled network knows: bisection.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from qmlir.analysis.tune.attempts import Attempts
from qmlir.analysis.tune.chances import Chances
from qmlir.analysis.tune.front import Model, Predicted, undominated
from qmlir.analysis.tune.limits import Budget, Floor
from qmlir.display import counted
from qmlir.settings.quant_config import PlainSettings

PATIENCE = 4
"""Repairs in a row that fail before the search ends."""

SIZES = 48
"""The sizes, evenly spaced, whose best predicted network is considered under a floor of counts."""

LEAST_SAVING = 0.0005
"""The least expected saving, as a share of the int8 network's bytes, that is worth a quantization."""


@dataclass
class Verification:
    """Verifies and repairs what a model predicts.

    attempts  makes the trials
    model     predicts
    settings  the options of all trials
    """

    attempts: Attempts
    model: Model
    settings: PlainSettings

    def run(self) -> str:
        """Quantizes the predicted assignments that decide, and repairs the best; returns how, in words."""
        how = "all assignments" if self.model.complete else "greedy changes by effect over cost"
        if isinstance(self.attempts.limit, Budget) and self.attempts.cost in ("bytes", "macs-bits"):
            fits = self.model.within(self.settings, self.attempts.bound, max(self.attempts.left - PATIENCE, 1))
            self.attempts.ahead("trial", [each.assignment for each in fits])
            for each in fits:
                self.attempts.attempt_predicted(each)
            self._repair()
            return f"{how} predict the best within the budget, which were verified and repaired"
        front = self.model.front(self.settings)
        if isinstance(self.attempts.limit, Floor) and self.attempts.limit.quality != "sqnr":
            self._follow_chances(front, self.attempts.limit.quality)
        else:
            self._bisect(front)
            self._repair()
        return f"{how} predict a front of {counted(len(front), 'network')}, which was verified and repaired"

    def _follow_chances(self, front: Sequence[Predicted], quality: str) -> None:
        """Makes the network whose expected saving is largest, one after another: its chance times the bytes it saves.

        A network's chance of meeting the floor follows from its predicted noise (chances.py). The bytes that it saves
        count from the cheapest network that meets the floor; as long as there is none, from more than the dearest.
        """
        sizes = [self.model.bytes(each.assignment) for each in front]
        least, most = min(sizes), max(self.attempts.first.trial.bytes, min(sizes)) + 1.0
        steps = [least + (most - least) * i / SIZES for i in range(SIZES)]
        within = (each for size in steps for each in self.model.within(self.settings, size, 1))
        listed = undominated([*map(self.model.promoted, front), *within], lambda p: self.model.bytes(p.assignment))
        several = self.attempts.laboratory.side_by_side
        while self.attempts.left > 0:
            best = self.attempts.best()
            bytes = most if best is None else best.trial.bytes
            near = [] if best is None else [self.model.predicted(a) for a in self.model.downgrades(best.assignment)]
            chances = Chances(list(self.attempts.points.values()), quality)
            worth = {
                each.assignment.policy().text(): (saved * chances.of(each.noise, self.attempts.bound), each)
                for each in (*listed, *near)
                if (saved := bytes - self.model.bytes(each.assignment)) > 0
            }
            fresh = [pair for text, pair in worth.items() if text not in self.attempts.points]
            fresh.sort(key=lambda pair: -pair[0])
            if not fresh or fresh[0][0] < LEAST_SAVING * most:
                return
            self.attempts.ahead("trial", [each.assignment for _, each in fresh[:several]])
            self.attempts.attempt_predicted(fresh[0][1])

    def _bisect(self, front: Sequence[Predicted]) -> None:
        """Bisects along the predicted front for the last network that meets the limit."""
        floor = isinstance(self.attempts.limit, Floor)
        low, high = -1, len(front)  # under a floor, front[high] meets it; within a budget, front[low] does
        while high - low > 1 and self.attempts.left > PATIENCE:
            middle = (low + high) // 2
            point = self.attempts.attempt_predicted(front[middle])
            if (point is not None and self.attempts.meets(point.trial)) == floor:
                high = middle
            else:
                low = middle
        failed = 0
        for each in (front[i] for i in range(low, -1, -1)):
            point = self.attempts.attempt_predicted(each)
            failed = 0 if point is not None and self.attempts.meets(point.trial) else failed + 1
            if failed >= 2:
                break

    def _repair(self) -> None:
        """Changes single layers of the best network, as long as that helps."""
        failed = 0
        known = {layer.tensor for layer in self.model.layers if layer.weights}
        while self.attempts.left > 0 and failed < PATIENCE:
            best = self.attempts.best()
            if best is None or not known or known != {name for name, _ in best.assignment.bits}:
                return
            if isinstance(self.attempts.limit, Floor):
                near = [self.model.predicted(each) for each in self.model.downgrades(best.assignment)]
            else:
                near = self.model.exchanges(best.assignment, self.attempts.bound)
            following = next(
                (each for each in near if each.assignment.policy().text() not in self.attempts.points), None
            )
            if following is None:
                return
            self.attempts.attempt_predicted(following)
            failed = 0 if self.attempts.best() is not best else failed + 1
