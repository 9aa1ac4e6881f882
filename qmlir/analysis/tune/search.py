"""The steps of a search: other options, uniform networks and their effects, a predicted front, verification."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from qmlir.analysis.output_measure import OutputEffect
from qmlir.analysis.own_errors import WEIGHTS
from qmlir.analysis.tune.assignment import Assignment, Layer
from qmlir.analysis.tune.attempts import Attempts, said
from qmlir.analysis.tune.front import NARROW_BITS, WIDE_BITS, Model
from qmlir.analysis.tune.result import Point, Tuned
from qmlir.analysis.tune.verification import Verification
from qmlir.errors import QmlirError
from qmlir.policies.policy import Policy

SETTINGS: tuple[Mapping[str, Any], ...] = (
    {"schema": "symmetric"},
    {"calibration": "minmax"},
    {"rounding": "nearest"},
)
"""Options of the quantizer that are tried one at a time on the int8 network, in place of the defaults."""

NARROW_SETTINGS: tuple[Mapping[str, Any], ...] = ({"weight_range": "full"},)
"""Options of weights that matter where these have few bits; they are tried one at a time on such a network."""

DECIBELS_PER_BIT = 6.02
"""What a bit more for each weight gains: by it, bytes that an option costs are compared with the dB that it gains."""

BETTER = 0.1
"""dB by which other options must be better than the defaults to replace them."""


@dataclass
class Search:
    """A search under way.

    attempts  makes the trials
    fixed     options that all trials share
    narrow    bits of weights below 8 to try
    effects   what each part does to the output, as far as it was measured
    """

    attempts: Attempts
    fixed: Mapping[str, Any]
    narrow: Sequence[int]
    effects: list[OutputEffect] = field(default_factory=list[OutputEffect])

    def run(self) -> Tuned:
        """Makes the trials, and chooses."""
        layers = self.attempts.laboratory.layers(Policy({**self._default({}), "weight_precision": "int8"}))
        start = Assignment.uniform(layers, 8, self._default({}))
        if self.fixed.get("precision") is not None:
            layers = [replace(layer, widens=False) for layer in layers]
        reference = self.attempts.begin(start)
        settings = self._narrow_settings(layers, self._settings(layers))
        levels = [*self.narrow, NARROW_BITS]
        weighted = [layer.tensor for layer in layers if layer.weights]
        if len(levels) ** len(weighted) <= self.attempts.left:
            every = list(product(levels, repeat=len(weighted)))
            each = [Assignment(tuple(zip(weighted, bits, strict=True)), settings=settings) for bits in every]
            self.attempts.ahead("trial", each)
            for bits, assignment in zip(every, each, strict=True):
                self.attempts.attempt(assignment, said(bits))
            algorithm = "every assignment of bits to weights was quantized"
        else:
            algorithm = self._search(layers, settings)
        return Tuned(
            str(self.attempts.limit), self.attempts.cost, self.attempts.choice(), reference,
            list(self.attempts.points.values()), self.effects, algorithm, self.attempts.laboratory.made,
        )  # fmt: skip

    def _default(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: value for name, value in self.fixed.items() if value is not None}, **settings}

    def _settings(self, layers: Sequence[Layer]) -> dict[str, Any]:
        """Tries other options one at a time; returns the best that hold from now on."""
        best = self.attempts.first.trial.sqnr + BETTER
        chosen: dict[str, Any] = {}
        for point, settings in self._one_at_a_time(layers, 8, {}, SETTINGS):
            if point.trial.sqnr > best:
                best, chosen = point.trial.sqnr, settings
        return self._default(chosen)

    def _narrow_settings(self, layers: Sequence[Layer], settings: dict[str, Any]) -> dict[str, Any]:
        """Tries options of weights of few bits one at a time; returns the settings with the best of them."""
        count = sum(layer.weights for layer in layers)
        if not self.narrow or not count:
            return settings
        bits = self.narrow[len(self.narrow) // 2]
        tried = self._one_at_a_time(layers, bits, settings, ({}, *NARROW_SETTINGS))
        if not tried or tried[0][1]:
            return settings
        before, best, chosen = tried[0][0].trial, BETTER, dict[str, Any]()
        for point, own in tried[1:]:
            more = 8 * (point.trial.bytes - before.bytes) / count
            gained = point.trial.sqnr - before.sqnr - DECIBELS_PER_BIT * more
            if gained > best:
                best, chosen = gained, own
        return settings | chosen

    def _one_at_a_time(
        self, layers: Sequence[Layer], bits: int, settings: Mapping[str, Any], options: Sequence[Mapping[str, Any]]
    ) -> list[tuple[Point, dict[str, Any]]]:
        """Makes uniform networks with each of some options that are free, as long as enough quantizations are left."""
        free = [each for each in options if not self.fixed.keys() & each.keys()]
        tried = free[: max(self.attempts.left - len(self.narrow) - 2, 0)]
        uniform = [Assignment.uniform(layers, bits, self._default({**settings, **each})) for each in tried]
        self.attempts.ahead("trial", uniform)
        found: list[tuple[Point, dict[str, Any]]] = []
        base = "int8" if bits == NARROW_BITS else f"int{bits} weights, int8 data"
        for own, assignment in zip(tried, uniform, strict=True):
            words = "".join(f", {name.replace('_', '-')} {value}" for name, value in own.items())
            point = self.attempts.attempt(assignment, base + words)
            found += [(point, dict(own))] if point is not None else []
        return found

    def _search(self, layers: Sequence[Layer], settings: Mapping[str, Any]) -> str:
        """Makes uniform networks and their effects, the predicted front, verification and repair."""
        weights: dict[str, dict[int, float]] = {}
        results: dict[str, dict[int, float]] = {}
        levels: list[int] = []
        promoted = Assignment.uniform(layers, 8, settings, wide=True)
        uniform = [Assignment.uniform(layers, bits, settings) for bits in (NARROW_BITS, *self.narrow)]
        self.attempts.ahead("effects", [*uniform, *([promoted] if promoted.wide else [])])
        for bits in (NARROW_BITS, *self.narrow):
            rows = self._uniform(Assignment.uniform(layers, bits, settings), f"int{bits} weights, int8 data")
            levels += [bits] if rows else []
            for row in rows:
                if row.part == WEIGHTS:
                    weights.setdefault(row.tensor, {})[bits] = row.noise
                elif bits == 8:
                    results[row.tensor] = dict.fromkeys((NARROW_BITS, WIDE_BITS), row.noise)
        widened = self._uniform(promoted, "int8 weights, int16 data") if promoted.wide else []
        for row in widened:
            if row.part != WEIGHTS and row.tensor in results:
                results[row.tensor][WIDE_BITS] = row.noise
        if not widened:
            layers = [replace(layer, widens=False) for layer in layers]
        wide = [row for row in self.attempts.laboratory.effects_of_wide_weights() if row.tensor in weights]
        self.effects += wide
        for row in wide:
            weights[row.tensor][WIDE_BITS] = row.noise
        levels = sorted({*levels, NARROW_BITS, WIDE_BITS})
        for layer in layers:
            if layer.weights:
                weights[layer.tensor] = _filled(weights.get(layer.tensor, {}), levels)
        constants = self.attempts.first.trial.bytes - sum(layer.weights for layer in layers)
        model = Model(layers, weights, results, levels, cost=self.attempts.cost, fixed=constants)
        return Verification(self.attempts, model, settings).run()

    def _uniform(self, assignment: Assignment, said: str) -> list[OutputEffect]:
        """Makes the trial of a uniform network; returns its effects, or none if it cannot be quantized so."""
        known, key = list(self.attempts.points), assignment.policy().text()
        if self.attempts.left <= 0:
            return []
        self.attempts.spent += key in known[1:]  # another quantization; the effects of the first network are known
        try:
            rows = self.attempts.laboratory.effects(assignment.policy())
        except QmlirError:
            return []
        self.attempts.attempt(assignment, said)
        known = {(row.tensor, row.part, row.precision) for row in self.effects}
        self.effects += [row for row in rows if (row.tensor, row.part, row.precision) not in known]
        return rows


def _filled(noises: Mapping[int, float], levels: Sequence[int]) -> dict[int, float]:
    """Noise by bits for all levels; where none was measured, that of the next level, a quarter for each bit more."""
    found = dict(noises) or {NARROW_BITS: 0.0}
    for bits in levels:
        if bits not in noises:
            near = min(found, key=lambda known: abs(known - bits))
            found[bits] = found[near] * 4.0 ** (near - bits)
    return found
