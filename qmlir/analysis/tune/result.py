"""The result of a search: the networks that were quantized and scored, and which of them is recommended."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from qmlir.analysis.output_measure import OutputEffect, decibels
from qmlir.analysis.own_errors import WEIGHTS
from qmlir.analysis.tune.assignment import GROUPED, MULTIPLIER, Assignment, spelled
from qmlir.analysis.tune.trials import Trial
from qmlir.display import Shown, Table
from qmlir.numerics.schemas import weight_bits
from qmlir.running.files import path_of, write_whole
from qmlir.running.yaml_files import Dumper
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
        return _policy_text(self)

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


# ---------------------------------------------------------------------------------------------------------------
# The policy of a search as a file, with the reason of each of its rules as a comment


def _policy_text(tuned: Tuned) -> str:
    """Returns the policy of a search as YAML; comments say what was asked for, what is reached, and why each rule."""
    lines = [
        f"# qmlir tune, {tuned.limit}: {tuned.algorithm}.",
        f"# chosen: {_figures(tuned.chosen)}",
        f"# int8:   {_figures(tuned.reference)}",
        *_flow({"default": tuned.chosen.trial.policy["default"]}),
    ]
    rules = tuned.chosen.trial.policy["rules"]
    lines.append("rules:" if rules else "rules: []")
    for rule in rules:
        lines.append(f"  # {_reason(tuned, rule)}")
        lines += [f"  - {line}" for line in _flow(rule)]
    return "\n".join(lines) + "\n"


def _figures(point: Point) -> str:
    """The figures of a point in words."""
    trial = point.trial
    said = [f"{trial.bytes:,} bytes", f"SQNR {trial.sqnr:.2f} dB"]
    said += [f"{each:.2f} % agree" for each in [trial.quality("agreement")] if each is not None]
    said += [f"{each:.2f} % right" for each in [trial.quality("top1")] if each is not None]
    said += [f"metric {trial.score:g}"] if trial.score is not None else []
    return ", ".join([*said, *([f"cost {trial.other:g}"] if trial.other is not None else [])])


def _flow(data: Any) -> list[str]:
    text = yaml.dump(data, Dumper=Dumper, sort_keys=False, default_flow_style=True, width=10_000).strip()
    return [text.removeprefix("{").removesuffix("}") if set(data) == {"default"} else text]


def _reason(tuned: Tuned, rule: dict[str, Any]) -> str:
    """Why a rule is there: the effects on the output of the parts that it is about."""
    own = [row for row in tuned.effects if row.tensor == rule["name"]]
    said: list[str] = []
    default = tuned.chosen.trial.policy["default"]
    weights = {row.precision: row for row in own if row.part == WEIGHTS}
    if "weight-precision" in rule or "granularity" in rule:
        mine, usual = _stored(default | rule), _stored(default)
        shown = [_effect(precision, weights[precision]) for precision in (mine, usual) if precision in weights]
        said.append(f"weights alone leave an SQNR of {', '.join(shown)}" if shown else f"weights in {mine}")
    if "precision" in rule:
        data = {row.precision: row for row in own if row.part != WEIGHTS}
        shown = [_effect(precision, row) for precision, row in data.items()]
        said.append(
            f"its result alone leaves an SQNR of {', '.join(shown)}" if shown else "its readers have data of 16 bits"
        )
    return "; ".join(said)


def _stored(settings: dict[str, Any]) -> str:
    """How settings store weights, in the words of `spelled`."""
    bits = weight_bits(settings.get("weight-precision", "int8"))
    return spelled(bits + (MULTIPLIER if settings.get("granularity") == GROUPED else 0))


def _effect(precision: str, row: OutputEffect) -> str:
    noise = decibels(row.noise)
    return f"{noise:.1f} dB in {precision}" if noise < float("inf") else f"no error in {precision}"
