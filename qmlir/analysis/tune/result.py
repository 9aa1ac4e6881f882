"""The result of a search: the networks that were quantized and scored, and which of them is recommended."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qmlir.analysis.output_measure import OutputEffect
from qmlir.analysis.tune.assignment import Assignment
from qmlir.analysis.tune.reasons import policy_text
from qmlir.analysis.tune.trials import Trial
from qmlir.display import Shown, Table
from qmlir.running.files import path_of, write_whole
from qmlir.settings.policy import Policy


@dataclass(frozen=True)
class Point:
    """An assignment that was quantized and scored.

    trial      its figures
    said       what it is, in words
    predicted  the SQNR that was predicted for it, in dB; None for a network that no prediction led to
    """

    trial: Trial
    assignment: Assignment
    said: str
    predicted: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns the point as plain data for JSON."""
        qualities = {name: self.trial.quality(name) for name in ("sqnr", "agreement", "top1", "metric")}
        return {
            "said": self.said,
            **qualities,
            "predicted_sqnr": self.predicted,
            "bytes": self.trial.bytes,
            "macs_bits": self.trial.macs_bits,
            "other": self.trial.other,
            "floats": self.trial.floats,
            "policy": dict(self.trial.policy),
        }


@dataclass(repr=False)
class Tuned(Shown):
    """The result of a search.

    limit       the budget or the floor, as text
    cost        the name of the cost that is compared
    chosen      the point that the search recommends
    reference   the int8 network of the default options
    points      all points, in the order in which they were made
    effects     the effects of the parts that the predictions add up
    algorithm   how the search went, in a sentence
    made        quantizations that were made; those read from disk are not counted
    """

    limit: str
    cost: str
    chosen: Point
    reference: Point
    points: list[Point]
    effects: list[OutputEffect]
    algorithm: str
    made: int

    @property
    def policy(self) -> Policy:
        """The policy of the chosen point."""
        return Policy.of(self.chosen.trial.policy)

    @property
    def front(self) -> list[Point]:
        """The points that no other point is better than in both cost and SQNR, the cheapest first."""
        found: list[Point] = []
        for point in sorted(self.points, key=lambda p: (p.trial.cost(self.cost), -p.trial.sqnr)):
            if not found or point.trial.sqnr > found[-1].trial.sqnr:
                found.append(point)
        return found

    def text(self) -> str:
        """Returns the policy as YAML, with its reasons as comments."""
        return policy_text(self)

    def save(self, path: str | Path) -> None:
        """Writes the policy with its reasons; `Policy.load` and `--policy` read it."""
        write_whole(path_of(path), self.text())

    def table(self) -> Table:
        headings = ("network", self.cost, "of int8", "SQNR [dB]", "predicted", "agreement", "chosen")
        whole = self.reference.trial.cost(self.cost)
        rows = [
            (
                point.said,
                int(cost) if (cost := point.trial.cost(self.cost)) == int(cost) else round(cost, 4),
                f"{100 * cost / whole:.1f} %" if whole else "–",
                round(point.trial.sqnr, 2),
                None if point.predicted is None else round(point.predicted, 2),
                None if (share := point.trial.quality("agreement")) is None else round(share, 2),
                "*" if point is self.chosen else "",
            )
            for point in self.front
        ]
        return Table(f"{self.limit}: {len(rows)} of {len(self.points)} networks are on the front", headings, rows)

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as plain data for JSON; the same arguments give the same data."""
        return {
            "limit": self.limit,
            "cost": self.cost,
            "algorithm": self.algorithm,
            "chosen": self.chosen.as_dict(),
            "reference": self.reference.as_dict(),
            "front": [point.as_dict() for point in self.front],
            "points": [point.as_dict() for point in self.points],
            "effects": [row.as_dict() for row in self.effects],
        }
