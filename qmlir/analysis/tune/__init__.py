"""Searches the best precision for a budget: which weights, which data and which options, as a policy.

The search makes real quantizations, at most `MOST` of them, in four steps:

1. The int8 network of the default options, and a few other options of the quantizer (`SETTINGS`), one at a time. The
   best by SQNR, if it is better than the default by `BETTER` dB, holds for all that follow.
2. Uniform networks with weights of fewer bits (`LEVELS`), and one with data of 16 bits. Each is a point of the front,
   and gives the effect of every part on the output (analysis/effects.py).
3. A predicted front: sums of effects over all assignments, or over those that greedy changes reach (front.py).
4. Verification and repair. Under a floor of SQNR: bisection along the predicted front for the cheapest network that
   meets it; under another floor: sizes from the least on, since counts of samples do not rise evenly with the SQNR.
   Then fewer bits for single layers of what was found. Within a budget of bytes or of MACs times bits: the assignments
   of the least predicted noise that fit, then exchanges of bits between two layers of the best. Within any other
   budget, which only the compiled network knows: bisection.

Where there are no more assignments of bits to weights than quantizations left, all of them are made instead of steps 3
and 4, and the result is the best there is.

The best and the front are chosen among networks that were really quantized and scored, never by prediction. The same
arguments give the same policy: nothing depends on time or on chance, except a budget of milliseconds.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy.typing as npt

from qmlir.analysis.effects import OutputEffect, decibels
from qmlir.analysis.own_errors import WEIGHTS
from qmlir.analysis.scores import Metric, check_count, labels_given
from qmlir.analysis.tune.assignment import Assignment, Layer
from qmlir.analysis.tune.front import NARROW_BITS, WIDE_BITS, Model, Predicted
from qmlir.analysis.tune.limits import Budget, Floor, budget_of, floor_of
from qmlir.analysis.tune.reasons import policy_text
from qmlir.analysis.tune.trials import Laboratory, Trial, kept_in
from qmlir.arguments import Network, integer_given, options_given, profile_given, samples_given
from qmlir.compiler import loaded, main_function
from qmlir.compiler import profile as learn
from qmlir.display import Shown, Table, counted
from qmlir.errors import OptionError, QmlirError
from qmlir.files import path_of, write_whole
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.interfaces import Array
from qmlir.ir.states import states_of
from qmlir.policies.policy import Policy
from qmlir.policies.quant_config import QuantConfig, QuantOptions

if TYPE_CHECKING:
    from qmlir.devices import Accelerator
    from qmlir.profiles.profile import Profile

MOST = 20
"""The most quantizations of a search."""

LEVELS = (4, 5, 6)
"""Bits of weights below 8 that are tried by default; 8 and 16 are tried always."""

SETTINGS: tuple[Mapping[str, Any], ...] = (
    {"schema": "symmetric"},
    {"calibration": "minmax"},
    {"rounding": "nearest"},
    {"per_channel": False},
)
"""Options of the quantizer that are tried one at a time, in place of the defaults."""

BETTER = 0.1
"""dB by which other options must be better than the defaults to replace them."""

PATIENCE = 4
"""Repairs in a row that fail before the search ends."""


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


def tune(
    module: Network,
    samples: Iterable[Array | Mapping[str, Array]],
    *,
    budget: str | None = None,
    floor: str | None = None,
    tests: Iterable[Array | Mapping[str, Array]] | None = None,
    labels: npt.ArrayLike | None = None,
    metric: Metric | None = None,
    profile: "Profile | str | Path | None" = None,
    target: "Accelerator | None" = None,
    results: str | Path | None = None,
    most: int = MOST,
    levels: Sequence[int] = LEVELS,
    **options: Unpack[QuantOptions],
) -> Tuned:
    """Searches the policy that costs least above a floor, or reaches most within a budget.

    Args:
        module: The float network, or its path; it stays unchanged.
        samples: Samples to learn ranges and to quantize on, as for `quantize`.
        budget: The most that the network may cost: `bytes=24KiB`, `stored=…`, `macs-bits=…`, `arena=…`,
            `cycles:nmp=100000`, `ms=1.5`, or a share of the int8 network's cost: `bytes=60%`.
        floor: The least that the network must reach: `sqnr=30`, `agreement=99`, `top1=…`, `metric=…`, or a difference
            to the int8 network: `agreement=int8-0.5`. The cost is then that of bytes.
        tests: Samples to score on; by default those to quantize on, which flatters the result.
        labels: The class of each of the samples to score on.
        metric: A user's own score of the outputs, as for `score`; the larger, the better.
        profile: The ranges of the network's tensors; by default they are learned from the samples.
        target: The device to quantize for, its name, or the path of its file.
        results: The folder in which trials are kept; by default within the cache of compiled networks, if there is one.
        most: The most quantizations.
        levels: Bits of weights below 8 to try; 8 and 16 are tried always.
        **options: Options of `quantize` that all trials share; the search leaves them as they are.

    Raises:
        OptionError: There are both a budget and a floor, or neither, or one of them cannot be measured.
        QmlirError: No network that was tried meets the limit; the error says what is the best reached.

    >>> import qmlir
    >>> found = qmlir.tune("digits.onnx", samples, floor="agreement=int8-0.5", most=8)
    >>> found.chosen.trial.bytes < found.reference.trial.bytes
    True
    """
    if (budget is None) == (floor is None):
        got = "neither" if budget is None else "both"
        raise OptionError("budget", "or a floor must be given, and not both", got=got)
    limit: Budget | Floor = floor_of(floor) if budget is None else budget_of(budget)
    network = loaded(module)
    refuse_opaque(network, "the network")
    if states_of(main_function(network)):
        raise QmlirError("a search needs samples of their own", got="a network with states")
    given = list(samples_given(samples))
    scored = given if tests is None else list(samples_given(tests))
    classes = None if labels is None else labels_given(labels)
    if classes is not None:
        check_count(classes, len(scored))
    allowed = integer_given("most", most)
    if allowed < 1:
        raise OptionError("most", "must be a positive number", got=str(allowed))
    narrow = _levels_given(levels)
    fixed = options_given("tune", options, QuantConfig().options())
    ranges = learn(network, given) if profile is None else profile_given(profile)[0]
    laboratory = Laboratory(
        network,
        ranges,
        given,
        scored,
        labels=classes,
        metric=metric,
        target=target,
        budget=limit if isinstance(limit, Budget) else None,
        folder=kept_in(results),
        options=fixed,
    )
    return _Search(laboratory, limit, allowed, fixed, narrow).run()


def _levels_given(levels: object) -> list[int]:
    """Returns bits of weights in rising order; raises `OptionError` unless they are from 2 to 7."""
    given: list[Any] = list(cast("Sequence[Any]", levels)) if isinstance(levels, list | tuple) else [levels]
    if any(not isinstance(bits, int) or isinstance(bits, bool) or not 2 <= bits <= 7 for bits in given):
        raise OptionError("levels", "must be bits of weights, each from 2 to 7", got=repr(given))
    return sorted(set(given))


@dataclass
class _Search:
    """A search under way."""

    laboratory: Laboratory
    limit: Budget | Floor
    most: int
    fixed: Mapping[str, Any]
    narrow: Sequence[int]
    points: dict[str, Point] = field(default_factory=dict[str, Point])
    effects: list[OutputEffect] = field(default_factory=list[OutputEffect])
    spent: int = 0

    @property
    def cost(self) -> str:
        """The name of the cost that points are compared by."""
        return self.limit.cost if isinstance(self.limit, Budget) else "bytes"

    @property
    def left(self) -> int:
        """How many more quantizations may be made."""
        return self.most - self.spent

    def run(self) -> Tuned:
        """Makes the trials, and chooses."""
        layers = self.laboratory.layers(Policy({**self._default({}), "weight_precision": "int8"}))
        start = Assignment.uniform(layers, 8, self._default({}))
        if self.fixed.get("precision") is not None:
            layers = [replace(layer, widens=False) for layer in layers]
        reference = self._try(start, "int8, default options")
        assert reference is not None
        self._bound = self._limit_of(reference)
        settings = self._settings(layers)
        levels = [*self.narrow, NARROW_BITS]
        weighted = [layer.tensor for layer in layers if layer.weights]
        if len(levels) ** len(weighted) <= self.left:
            for bits in product(levels, repeat=len(weighted)):
                self._try(Assignment(tuple(zip(weighted, bits, strict=True)), settings=settings), _said(bits))
            algorithm = "every assignment of bits to weights was quantized"
        else:
            algorithm = self._search(layers, settings)
        return Tuned(
            str(self.limit), self.cost, self._choice(reference), reference, list(self.points.values()), self.effects,
            algorithm, self.laboratory.made,
        )  # fmt: skip

    def _default(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        return {**{name: value for name, value in self.fixed.items() if value is not None}, **settings}

    def _limit_of(self, reference: Point) -> float:
        limit = self.limit
        return limit.within(reference.trial) if isinstance(limit, Budget) else limit.at(reference.trial)

    # -- trials ------------------------------------------------------------------------------------------------

    def _try(self, assignment: Assignment, said: str, predicted: float | None = None) -> Point | None:
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

    def _settings(self, layers: Sequence[Layer]) -> dict[str, Any]:
        """Tries other options one at a time; returns the best that hold from now on."""
        best = next(iter(self.points.values())).trial.sqnr + BETTER
        chosen: dict[str, Any] = {}
        for settings in SETTINGS:
            if self.fixed.keys() & settings.keys() or self.left <= len(self.narrow) + 2:
                continue
            said = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in settings.items())
            point = self._try(Assignment.uniform(layers, 8, self._default(settings)), f"int8, {said}")
            if point is not None and point.trial.sqnr > best:
                best, chosen = point.trial.sqnr, dict(settings)
        return self._default(chosen)

    def _search(self, layers: Sequence[Layer], settings: Mapping[str, Any]) -> str:
        """Steps 2 to 4: uniform networks and their effects, the predicted front, verification and repair."""
        weights: dict[str, dict[int, float]] = {}
        results: dict[str, dict[int, float]] = {}
        levels: list[int] = []
        for bits in (NARROW_BITS, *self.narrow):
            rows = self._uniform(Assignment.uniform(layers, bits, settings), f"int{bits} weights, int8 data")
            levels += [bits] if rows else []
            for row in rows:
                if row.part == WEIGHTS:
                    weights.setdefault(row.tensor, {})[bits] = row.noise
                elif bits == 8:
                    results[row.tensor] = dict.fromkeys((NARROW_BITS, WIDE_BITS), row.noise)
        promoted = Assignment.uniform(layers, 8, settings, wide=True)
        widened = self._uniform(promoted, "int8 weights, int16 data") if promoted.wide else []
        for row in widened:
            if row.part != WEIGHTS and row.tensor in results:
                results[row.tensor][WIDE_BITS] = row.noise
        if not widened:
            layers = [replace(layer, widens=False) for layer in layers]
        wide = [row for row in self.laboratory.effects_of_wide_weights() if row.tensor in weights]
        self.effects += wide
        for row in wide:
            weights[row.tensor][WIDE_BITS] = row.noise
        levels = sorted({*levels, NARROW_BITS, WIDE_BITS})
        for layer in layers:
            if layer.weights:
                weights[layer.tensor] = _filled(weights.get(layer.tensor, {}), levels)
        constants = next(iter(self.points.values())).trial.bytes - sum(layer.weights for layer in layers)
        model = Model(layers, weights, results, levels, cost=self.cost, fixed=constants)
        return self._verify(model, settings)

    def _uniform(self, assignment: Assignment, said: str) -> list[OutputEffect]:
        """Makes the trial of a uniform network; returns its effects, or none if it cannot be quantized so."""
        key = assignment.policy().text()
        if self.left <= 0:
            return []
        self.spent += key in self.points and key != next(iter(self.points))  # the first one's effects are known
        try:
            rows = self.laboratory.effects(assignment.policy())
        except QmlirError:
            return []
        self._try(assignment, said)
        known = {(row.tensor, row.part, row.precision) for row in self.effects}
        self.effects += [row for row in rows if (row.tensor, row.part, row.precision) not in known]
        return rows

    # -- verification ------------------------------------------------------------------------------------------

    def _meets(self, trial: Trial) -> bool:
        if isinstance(self.limit, Budget):
            return trial.cost(self.limit.cost) <= self._bound
        value = trial.quality(self.limit.quality)
        return value is not None and value >= self._bound

    def _verify(self, model: Model, settings: Mapping[str, Any]) -> str:
        """Quantizes the predicted assignments that decide, and repairs the best; returns how, in words."""
        how = "all assignments" if model.complete else "greedy changes by effect over cost"
        if isinstance(self.limit, Budget) and self.cost in ("bytes", "macs-bits"):
            for each in model.within(settings, self._bound, max(self.left - PATIENCE, 1)):
                self._predicted(each)
            self._repair(model)
            return f"{how} predict the best within the budget, which were verified and repaired"
        front = model.front(settings)
        if isinstance(self.limit, Floor) and self.limit.quality != "sqnr":
            self._scan(model, settings)
        else:
            self._bisect(front)
        self._repair(model)
        return f"{how} predict a front of {counted(len(front), 'network')}, which was verified and repaired"

    def _scan(self, model: Model, settings: Mapping[str, Any]) -> None:
        """Tries sizes from the least on, each with the least predicted noise, up to a network that meets the floor.

        Counts of samples do not rise evenly with the SQNR, so bisection could miss the cheapest.
        """
        best = self._best()
        least = model.bytes(model.cheapest(settings))
        most = max(model.bytes(model.cheapest(settings, highest=True)) if best is None else best.trial.bytes - 1, least)
        count = max(self.left - PATIENCE, 1)
        for i in range(count):
            for each in model.within(settings, least + (most - least) * i / count, 1):
                point = self._predicted(each)
                if point is not None and self._meets(point.trial):
                    return

    def _bisect(self, front: Sequence[Predicted]) -> None:
        """Bisects along the predicted front for the end of what meets the limit."""
        floor = isinstance(self.limit, Floor)
        low, high = -1, len(front)  # under a floor, front[high] meets it; within a budget, front[low] does
        while high - low > 1 and self.left > PATIENCE:
            middle = (low + high) // 2
            point = self._predicted(front[middle])
            if (point is not None and self._meets(point.trial)) == floor:
                high = middle
            else:
                low = middle
        failed = 0
        for each in (front[i] for i in range(low, -1, -1)):
            point = self._predicted(each)
            failed = 0 if point is not None and self._meets(point.trial) else failed + 1
            if failed >= 2:
                break

    def _predicted(self, each: Predicted) -> Point | None:
        said = _said(tuple(bits for _, bits in each.assignment.bits))
        said += f", {len(each.assignment.wide)} with int16 data" if each.assignment.wide else ""
        return self._try(each.assignment, said, decibels(each.noise))

    def _repair(self, model: Model) -> None:
        """Changes single layers of the best network, as long as that helps."""
        failed = 0
        known = {layer.tensor for layer in model.layers if layer.weights}
        while self.left > 0 and failed < PATIENCE:
            best = self._best()
            if best is None or not known or known != {name for name, _ in best.assignment.bits}:
                return
            if isinstance(self.limit, Floor):
                near = [model.predicted(each) for each in model.downgrades(best.assignment)]
            else:
                near = model.exchanges(best.assignment, self._bound)
            following = next((each for each in near if each.assignment.policy().text() not in self.points), None)
            if following is None:
                return
            self._predicted(following)
            failed = 0 if self._best() is not best else failed + 1

    def _best(self) -> Point | None:
        """The cheapest point above the floor, or the best within the budget; None if none meets the limit."""
        met = [point for point in self.points.values() if self._meets(point.trial)]
        if isinstance(self.limit, Budget):
            return max(met, key=lambda p: (p.trial.sqnr, -p.trial.cost(self.cost)), default=None)
        return min(met, key=lambda p: (p.trial.bytes, p.trial.macs_bits, -p.trial.sqnr), default=None)

    def _choice(self, reference: Point) -> Point:
        """Returns the best point.

        Raises:
            QmlirError: None meets the limit.
        """
        if (best := self._best()) is not None:
            return best
        if isinstance(self.limit, Budget):
            least = min(self.points.values(), key=lambda p: p.trial.cost(self.cost))
            got = f"{least.trial.cost(self.cost):g} at least ({least.said})"
        else:
            quality = self.limit.quality
            top = max(self.points.values(), key=lambda p: p.trial.quality(quality) or -math.inf)
            got = f"{top.trial.quality(quality):g} at most ({top.said})"
        need = f"no network of {len(self.points)} that were tried meets {self.limit}"
        has = f"{reference.trial.sqnr:.2f} dB in {reference.trial.bytes} bytes"
        remedy = f"give a limit within reach, or a larger --most; the int8 network has {has}"
        raise QmlirError(need, where="tune", got=got, remedy=remedy)


def _filled(noises: Mapping[int, float], levels: Sequence[int]) -> dict[int, float]:
    """Noise by bits for all levels; where none was measured, that of the next level, a quarter for each bit more."""
    found = dict(noises) or {NARROW_BITS: 0.0}
    for bits in levels:
        if bits not in noises:
            near = min(found, key=lambda known: abs(known - bits))
            found[bits] = found[near] * 4.0 ** (near - bits)
    return found


def _said(bits: Sequence[int]) -> str:
    """The precisions of weights in words: `int4 weights`, or `4·int4 1·int8 weights`."""
    counts = {each: list(bits).count(each) for each in sorted(set(bits))}
    if len(counts) == 1:
        return f"int{next(iter(counts))} weights"
    return " ".join(f"{count}·int{each}" for each, count in counts.items()) + " weights"
