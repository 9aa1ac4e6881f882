"""The steps of a search: other options, uniform networks and their effects, a predicted front, verification."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from qmlir.analysis.output_measure import OutputEffect
from qmlir.analysis.own_errors import WEIGHTS
from qmlir.analysis.tune.assignment import (
    CODEBOOK,
    LEVELS,
    MULTIPLIER,
    Assignment,
    Layer,
    has_groups,
    precision_of,
    spelled,
)
from qmlir.analysis.tune.attempts import Attempts, said
from qmlir.analysis.tune.front import NARROW_BITS, WIDE_BITS, Model
from qmlir.analysis.tune.result import Point, Tuned
from qmlir.analysis.tune.verification import Verification
from qmlir.numerics.codebooks import Codebook
from qmlir.numerics.groups import Groups
from qmlir.settings.policy import Policy

SETTINGS: tuple[Mapping[str, Any], ...] = ({"schema": "symmetric"}, {"calibration": "minmax"})
"""Options of the quantizer that are tried one at a time on the int8 network, in place of the defaults."""

NARROW_SETTINGS: tuple[Mapping[str, Any], ...] = ({LEVELS: CODEBOOK}, {"weight_range": "full"})
"""Options of weights that matter where these have few bits; they are tried one after another on such a network, until
one gains."""

USUAL = 4
"""The bits of weights for which options and groups are tried; the nearest bits to it among those to search."""

MOST_GROUPED = max(Groups.BITS)
"""The most bits of weights that have multipliers of groups."""

STORED_COSTS = ("bytes", "stored")
"""The costs that multipliers of groups and codebooks can be worth; machine code multiplies such weights as int8."""

MOST_TABLES = 0.027
"""The share of the int8 network's bytes that tables of 64 entries for all layers may take where codebooks are tried.

It is half of what codebooks gain, 2.6 dB or 0.43 of 8 bits. Small networks have small layers, whose tables take more.
"""

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
    wide      whether networks of weights of few bits have data of 16 bits, where these can
    """

    attempts: Attempts
    fixed: Mapping[str, Any]
    narrow: Sequence[int]
    effects: list[OutputEffect] = field(default_factory=list[OutputEffect])
    wide: bool = False

    def run(self) -> Tuned:
        """Makes the trials, and chooses."""
        layers = self.attempts.laboratory.layers(Policy({**self._default({}), "weight_precision": "int8"}))
        start = Assignment.uniform(layers, NARROW_BITS, self._default({}))
        if self.fixed.get("precision") is not None:
            layers = [replace(layer, widens=False) for layer in layers]
        if "granularity" in self.fixed or self.attempts.cost not in STORED_COSTS:
            layers = [replace(layer, groups=0) for layer in layers]
        reference = self.attempts.begin(start)
        settings = self._settings(layers)
        layers = self._widened(layers, settings)
        settings = self._narrow_settings(layers, settings)
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

    @property
    def usual(self) -> int:
        """The bits of weights below 8 that options are tried with."""
        return min(self.narrow, key=lambda bits: abs(bits - USUAL))

    @property
    def measured(self) -> list[int]:
        """The bits of weights below 8 that uniform networks are made of; the effects of the others follow from them."""
        return sorted({self.narrow[0], self.usual, self.narrow[len(self.narrow) // 2]}) if self.narrow else []

    def _default(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: value for name, value in self.fixed.items() if value is not None}, **settings}

    def _settings(self, layers: Sequence[Layer]) -> dict[str, Any]:
        """Tries other options one at a time; returns the best that hold from now on."""
        best, chosen = self.attempts.first.trial.sqnr + BETTER, dict[str, Any]()
        tried = self._free(SETTINGS)[: max(self.attempts.left - self._needed, 0)]
        self.attempts.ahead("trial", [self._assigned(layers, NARROW_BITS, each) for each in tried])
        for settings in tried:
            if (point := self._made(layers, NARROW_BITS, settings)) is not None and point.trial.sqnr > best:
                best, chosen = point.trial.sqnr, dict(settings)
                self._uniform(Assignment.uniform(layers, NARROW_BITS, self._default(chosen)), point.said)
        return self._default(chosen)

    def _widened(self, layers: Sequence[Layer], settings: dict[str, Any]) -> Sequence[Layer]:
        """Makes the network of int8 weights and int16 data; returns the layers, of which none widens if it fails.

        Where bytes are what counts, data of 16 bits cost nothing, and the effects of weights are measured beside them:
        beside data of 8 bits, rounding makes up for the errors of these, which then seem to be errors of the weights.
        """
        promoted = Assignment.uniform(layers, NARROW_BITS, self._plain(settings), wide=True)
        if not promoted.wide or self.attempts.left <= self._needed:
            return layers
        if not self._uniform(promoted, "int8 weights, int16 data"):
            return [replace(layer, widens=False) for layer in layers]
        self.wide = self.attempts.cost in STORED_COSTS
        return layers

    def _plain(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings without those that were tried on weights of few bits only."""
        return {name: value for name, value in settings.items() if name in self.fixed or not _is_narrow(name)}

    def _narrow_settings(self, layers: Sequence[Layer], settings: dict[str, Any]) -> dict[str, Any]:
        """Tries options of weights of few bits one after another; returns the settings with the first that gains."""
        count = sum(layer.weights for layer in layers)
        if not self.narrow or not count or self.attempts.left <= self._needed:
            return settings
        base = self._made(layers, self.usual, settings)
        if base is None:
            return settings
        self._uniform(base.assignment, base.said)
        for own in self._free(NARROW_SETTINGS):
            if self.attempts.left <= self._needed or (LEVELS in own and not self._suits_codebooks(layers)):
                continue
            if (point := self._made(layers, self.usual, {**settings, **own})) is None:
                continue
            more = 8 * (point.trial.bytes - base.trial.bytes) / count
            if point.trial.sqnr - base.trial.sqnr - DECIBELS_PER_BIT * more > BETTER:
                self._uniform(point.assignment, point.said)
                return {**settings, **own}
        return settings

    def _suits_codebooks(self, layers: Sequence[Layer]) -> bool:
        """Whether codebooks can be worth their tables, for the cost that counts and the size of the network."""
        tables = sum(1 << max(Codebook.BITS) for layer in layers if layer.weights)
        return self.attempts.cost in STORED_COSTS and tables <= MOST_TABLES * self.attempts.first.trial.bytes

    def _free(self, options: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """The options that the caller has not fixed."""
        return [each for each in options if not self.fixed.keys() & each.keys()]

    @property
    def _needed(self) -> int:
        """The quantizations that the uniform networks take, and as many again for verification."""
        return 2 * (len(self.measured) + 2)

    def _assigned(self, layers: Sequence[Layer], bits: float, settings: Mapping[str, Any]) -> Assignment:
        """A uniform network; its data have 16 bits if the weights have fewer than 8 and `wide` says so."""
        return Assignment.uniform(layers, bits, self._default(settings), wide=self.wide and bits < NARROW_BITS)

    def _made(self, layers: Sequence[Layer], bits: int, settings: Mapping[str, Any]) -> Point | None:
        """Makes a uniform network with some settings."""
        words = "int8" if bits == NARROW_BITS else f"{precision_of(bits)} weights, {self._data} data"
        free = {name: value for name, value in settings.items() if name not in self.fixed}
        words += "".join(f", {name.replace('_', '-')} {value}" for name, value in free.items())
        return self.attempts.attempt(self._assigned(layers, bits, settings), words)

    @property
    def _data(self) -> str:
        """The precision of the data of networks of weights of few bits."""
        return precision_of(WIDE_BITS if self.wide else NARROW_BITS)

    def _search(self, layers: Sequence[Layer], settings: Mapping[str, Any]) -> str:
        """Makes uniform networks and their effects, the predicted front, verification and repair."""
        weights: dict[str, dict[float, float]] = {}
        results: dict[str, dict[int, float]] = {}
        plain = self._plain(settings)
        narrow, promoted = (Assignment.uniform(layers, NARROW_BITS, plain, wide=wide) for wide in (False, True))
        uniform: dict[float, Assignment] = {bits: self._assigned(layers, bits, settings) for bits in self.measured}
        if self.measured and self.usual <= MOST_GROUPED and any(layer.groups for layer in layers):
            grouped = self.usual + MULTIPLIER
            uniform[grouped] = self._assigned(layers, grouped, settings)
        self.attempts.ahead("effects", [narrow, *([promoted] if promoted.wide else []), *uniform.values()])
        own = self._uniform(narrow, "int8 weights, int8 data")
        widened = self._uniform(promoted, "int8 weights, int16 data") if promoted.wide else []
        for row in (row for row in own if row.part != WEIGHTS):
            results[row.tensor] = dict.fromkeys((NARROW_BITS, WIDE_BITS), row.noise)
        for row in (row for row in widened if row.part != WEIGHTS and row.tensor in results):
            results[row.tensor][WIDE_BITS] = row.noise
        effects: dict[float, list[OutputEffect]] = {NARROW_BITS: widened if self.wide else own}
        for bits, assignment in uniform.items():
            effects[bits] = self._uniform(assignment, f"{said([bits])}, {self._data} data")
        for bits, rows in effects.items():
            for row in (row for row in rows if row.part == WEIGHTS):
                weights.setdefault(row.tensor, {})[bits] = row.noise
        if not widened:
            layers = [replace(layer, widens=False) for layer in layers]
        wide = [row for row in self.attempts.laboratory.effects_of_wide_weights() if row.tensor in weights]
        self.effects += wide
        for row in wide:
            weights[row.tensor][WIDE_BITS] = row.noise
        levels = self._levels({bits for found in weights.values() for bits in found})
        for layer in layers:
            if layer.weights:
                weights[layer.tensor] = filled(weights.get(layer.tensor, {}), levels)
        constants = self.attempts.first.trial.bytes - sum(layer.weights for layer in layers)
        model = Model(layers, weights, results, levels, cost=self.attempts.cost, fixed=constants)
        return Verification(self.attempts, model, settings).run()

    def _levels(self, made: set[float]) -> list[float]:
        """Returns the bits of weights that layers can have, given those that some were measured with.

        Narrow bits that were not to be measured are among them if some were measured; groups, too.
        """
        narrow = [bits for bits in self.narrow if bits in made or bits not in self.measured]
        levels = {*made, NARROW_BITS, WIDE_BITS, *(narrow if made & set(self.measured) else ())}
        if any(map(has_groups, made)):
            levels |= {bits + MULTIPLIER for bits in narrow if bits <= MOST_GROUPED}
        return sorted(levels)

    def _uniform(self, assignment: Assignment, said: str) -> list[OutputEffect]:
        """Makes the trial of a uniform network; returns its effects, or none if it cannot be quantized so."""
        if self.attempts.attempt(assignment, said) is None:
            return []
        rows = self.attempts.laboratory.effects(assignment.policy())
        stored = {name: spelled(bits) for name, bits in assignment.bits if has_groups(bits)}
        rows = [replace(row, precision=stored[row.tensor]) if row.part == WEIGHTS and row.tensor in stored else row
                for row in rows]  # fmt: skip
        known = {(row.tensor, row.part, row.precision) for row in self.effects}
        self.effects += [row for row in rows if (row.tensor, row.part, row.precision) not in known]
        return rows


def _is_narrow(name: str) -> bool:
    """Whether an option was tried on weights of few bits only."""
    return any(name in each for each in NARROW_SETTINGS)


def filled(noises: Mapping[float, float], levels: Sequence[float]) -> dict[float, float]:
    """Returns the noise of weights at all levels of bits, given the noise at those that were measured.

    At other bits, the noise is that at the nearest bits times the square of the ratio of the steps. Groups of weights
    lower the noise by the same factor at all bits.
    """
    found = dict(noises) or {NARROW_BITS: 0.0}
    plain = [bits for bits in found if not has_groups(bits)]
    factor = next((found[bits] / max(found[int(bits)], 1e-30) for bits in noises if has_groups(bits)), 1.0)
    for bits in sorted(levels, key=has_groups):
        if bits in found:
            continue
        if has_groups(bits):
            found[bits] = found[int(bits)] * factor
        else:
            near = min(plain, key=lambda known: abs(known - bits))
            found[bits] = found[near] * ((2 ** (near - 1) - 1) / (2 ** (bits - 1) - 1)) ** 2
    return found
