"""Writes a policy that a search found, with the reason of each of its rules as a comment."""

from typing import TYPE_CHECKING, Any

import yaml

from qmlir.analysis.output_measure import OutputEffect, decibels
from qmlir.analysis.own_errors import WEIGHTS
from qmlir.analysis.tune.assignment import GROUPED, MULTIPLIER, spelled
from qmlir.numerics.schemas import weight_bits
from qmlir.running.yaml_files import Dumper

if TYPE_CHECKING:
    from qmlir.analysis.tune.result import Point, Tuned


def policy_text(tuned: "Tuned") -> str:
    """Returns the policy of a search as YAML; comments say what was asked for, what is reached, and why each rule."""
    lines = [
        f"# qmlir tune, {tuned.limit}: {tuned.algorithm}.",
        f"# chosen: {figures(tuned.chosen)}",
        f"# int8:   {figures(tuned.reference)}",
        *_flow({"default": tuned.chosen.trial.policy["default"]}),
    ]
    rules = tuned.chosen.trial.policy["rules"]
    lines.append("rules:" if rules else "rules: []")
    for rule in rules:
        lines.append(f"  # {_reason(tuned, rule)}")
        lines += [f"  - {line}" for line in _flow(rule)]
    return "\n".join(lines) + "\n"


def figures(point: "Point") -> str:
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


def _reason(tuned: "Tuned", rule: dict[str, Any]) -> str:
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
