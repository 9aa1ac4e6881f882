"""Trials: real quantizations by a policy, scored, with their costs, and kept on disk.

A result depends on the float network with its weights, the profile, the policy, the samples that quantize and those
that score, the labels, the metric, the device, the figures asked for, and the sources of qmlir (kept_results.py).

A search decides one step after another. Where it knows several trials that it will need, `ahead` makes them on workers
and keeps them. The search then asks for each trial in its own order, so it finds the same on any number of workers.
"""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.counts import decided, figures_of
from qmlir.analysis.kept_results import KeptResults, hash_of, profile_hash, samples_hash
from qmlir.analysis.output_measure import OutputEffect, OutputMeasure, has_classes, relative_noise
from qmlir.analysis.own_errors import NearestWeights, StoredResults, StoredWeights
from qmlir.analysis.scores import Metric, agreeing, own_score, with_logits
from qmlir.analysis.tune.assignment import Layer
from qmlir.analysis.tune.layers import layers_of
from qmlir.analysis.tune.limits import Budget
from qmlir.compiler import compile, main_function, quantize
from qmlir.errors import QmlirError
from qmlir.ir.interfaces import Array
from qmlir.numerics import Int64s
from qmlir.profiles.profile import Profile
from qmlir.running import cached
from qmlir.running.executors import Workers
from qmlir.running.shards import network_of, text_of
from qmlir.settings.policy import Policy

FOLDER = "tune"
"""The folder of results within the folder of compiled networks."""

FORMAT = 4
"""The version of the files; part of their names."""


@dataclass(frozen=True)
class Trial:
    """A network quantized by a policy, and its figures.

    policy     the policy as plain data
    sqnr       of the logits, or of all outputs, in dB
    agreeing   samples with float's first class; None without classes
    right      samples with the right class; None without labels
    score      the user's own score; None without one
    samples    how many samples were scored
    bytes      of all constants, each element with the bits of its type
    macs_bits  sum of MACs times bits of weights times bits of data
    floats     operations that stayed float
    other      the cost of the budget if it is none of these: stored, arena, cycles or ms
    """

    policy: Mapping[str, Any]
    sqnr: float
    agreeing: int | None
    right: int | None
    score: float | None
    samples: int
    bytes: int
    macs_bits: int
    floats: int
    other: float | None = None

    def cost(self, name: str) -> float:
        """Returns a cost by its name in `limits.COSTS`."""
        known = {"bytes": float(self.bytes), "macs-bits": float(self.macs_bits)}
        return known[name] if name in known else (self.other if self.other is not None else float("inf"))

    def quality(self, name: str) -> float | None:
        """Returns a quality by its name in `limits.QUALITIES`; shares in percent."""
        counts = {"agreement": self.agreeing, "top1": self.right}
        if name in counts:
            count = counts[name]
            return None if count is None else 100 * count / self.samples
        return self.sqnr if name == "sqnr" else self.score

    def as_dict(self) -> dict[str, Any]:
        """Returns the trial as plain data for JSON."""
        return asdict(self)


class Laboratory:
    """Makes trials of one float network.

    module     the float network
    profile    the ranges of its tensors
    made       quantizations that were made, on workers too; results that are read from disk take none
    """

    def __init__(
        self,
        module: ModuleOp,
        profile: Profile,
        samples: Sequence[Any],
        tests: Sequence[Any],
        *,
        labels: Int64s | None = None,
        metric: Metric | None = None,
        target: Any = None,
        budget: Budget | None = None,
        folder: Path | None = None,
        options: Mapping[str, Any] | None = None,
        workers: Workers | None = None,
    ):
        """Runs the float network on the samples to score on.

        Args:
            module: The float network; it stays unchanged.
            profile: The ranges of its tensors.
            samples: The samples to quantize on.
            tests: The samples to score on.
            labels: The class of each of `tests`.
            metric: A user's own score.
            target: A device to quantize for.
            budget: The cost to measure, if it is more than bytes or products.
            folder: Where results are kept; None for nowhere.
            options: Options of `quantize` that all trials share.
            workers: Where `ahead` makes trials; by default nowhere.
        """
        self.module, self.profile, self._samples, self._tests = module, profile, list(samples), list(tests)
        self._labels, self._metric, self._target, self._budget = labels, metric, target, budget
        self._options = dict(options or {})
        self.made = 0
        self._workers = workers or Workers()
        self._refused: dict[str, QmlirError] = {}
        self._fresh: list[Finding] = []
        self._last: tuple[str, ModuleOp] | None = None
        self._measure: OutputMeasure | None = None
        self._classes = has_classes(module)
        if labels is not None and not self._classes:
            with_logits(module)  # raises the error that says why
        self._truth, _ = self._outputs(module)
        facts = self._known_facts()
        self._results = KeptResults(folder if facts["network"] is not None else None, facts)

    def trial(self, policy: Policy) -> Trial:
        """Returns the trial of a policy, from disk if it is there.

        Raises:
            QmlirError: The network cannot be quantized so.
        """
        known = self._load("trial", policy)
        if known is None:
            known = self._make(policy, self._quantized(policy))
        return Trial(**known)

    @property
    def side_by_side(self) -> int:
        """How many trials can be made side by side."""
        return self._workers.count

    def ahead(self, what: str, policies: Iterable[Policy]) -> None:
        """Makes trials on workers before they are asked for, unless they are known; does nothing without workers.

        Args:
            what: `trial`, or `effects` for the trials and the effects of their parts.
            policies: The policies; if a network cannot be quantized by a policy, `trial` raises the error later.
        """
        needed = {policy.text(): policy for policy in policies if self._load(what, policy) is None}
        tasks = [(what, policy.as_dict()) for text, policy in needed.items() if text not in self._refused]
        if not self._workers.elsewhere or len(tasks) < 2:
            return
        given = (self._samples, self._tests, self._labels, self._metric, self._target, self._budget, self._options)
        bench = Bench(text_of(self.module), self.profile, *given)

        def keep(task: tuple[str, dict[str, Any]], done: Done) -> None:
            self.made += done.made
            for each in done.findings:
                self._results.store({"what": each.what, "policy": each.policy}, each.data)
            if done.refused is not None:
                self._refused[Policy.of(task[1]).text()] = done.refused

        self._workers.map(_done, bench, tasks, keep=keep)

    def done_since(self, refused: QmlirError | None) -> "Done":
        """Returns what was done since the last call; `refused` is the error of the last quantization."""
        done = Done(self.made, self._fresh, refused)
        self.made, self._fresh = 0, []
        return done

    def effects(self, policy: Policy) -> list[OutputEffect]:
        """Returns the effects of the weights and results of a network quantized by a policy, from disk if there."""
        known = self._load("effects", policy)
        if known is None:
            quantized = self._quantized(policy)
            if self._load("trial", policy) is None:
                self._make(policy, quantized)
            known = self._measure_effects(policy, quantized)
        return [OutputEffect(**row) for row in known]

    def layers(self, policy: Policy) -> list[Layer]:
        """Returns the operations of a network quantized by a policy that a search can change, from disk if there."""
        known = self._load("layers", policy)
        if known is None:
            quantized = self._quantized(policy)
            self._make(policy, quantized)
            self._measure_effects(policy, quantized)
            known = self._store("layers", policy, [asdict(layer) for layer in layers_of(quantized)])
        return [replace(Layer(**each), readers=tuple(each["readers"])) for each in known]

    def effects_of_wide_weights(self) -> list[OutputEffect]:
        """Returns the effects of 16-bit weights, rounded to the nearest step, or reads them from disk."""
        known = self._load("wide", Policy())
        if known is None:
            measure = self._effect_measure()
            rows = measure.effects(NearestWeights(measure.origin, "int16"))
            known = self._store("wide", Policy(), [asdict(row) for row in rows])
        return [OutputEffect(**row) for row in known]

    def _measure_effects(self, policy: Policy, quantized: ModuleOp) -> Any:
        measure = self._effect_measure()
        errors = [StoredWeights(quantized, measure.names), StoredResults(quantized, measure.names)]
        rows = [row for each in errors for row in measure.effects(each)]
        return self._store("effects", policy, [asdict(row) for row in rows])

    def _effect_measure(self) -> OutputMeasure:
        """Measures on samples that score: rounding fits the weights to those that quantize, where they look better."""
        if self._measure is None:
            self._measure = OutputMeasure(self.module, self._tests)
        return self._measure

    def _quantized(self, policy: Policy) -> ModuleOp:
        """Quantizes the network, unless it was quantized by this policy last."""
        text = policy.text()
        if (refused := self._refused.get(text)) is not None:
            raise refused
        if self._last is None or self._last[0] != text:
            self.made += 1
            options = {name: value for name, value in self._options.items() if name not in policy.default}
            given: dict[str, Any] = {"data": self._samples, "policy": policy, "target": self._target, **options}
            self._last = text, quantize(self.module, self.profile, **given)
        return self._last[1]

    def _make(self, policy: Policy, quantized: ModuleOp) -> dict[str, Any]:
        found, outputs = self._outputs(quantized)
        right = None if self._labels is None else int((found.argmax(axis=1) == self._labels).sum())
        entries = decided(quantized)
        trial = Trial(
            policy.as_dict(),
            sqnr=float(-10 * np.log10(max(relative_noise(self._truth, found), 1e-30))),
            agreeing=agreeing(self._truth, found) if self._classes else None,
            right=right,
            score=None if self._metric is None else own_score(self._metric, outputs, self._labels),
            samples=len(found),
            bytes=sum(int(each.figures["weight_bytes"]) for each in entries),
            macs_bits=macs_bits(quantized),
            floats=sum(each.entry.outcome == "float" for each in entries),
            other=self._other(quantized),
        )
        return self._store("trial", policy, asdict(trial))

    def _outputs(self, network: ModuleOp) -> tuple[Array, dict[str, Array]]:
        """Returns logits, or all outputs, one row a sample; and the outputs by name if a metric reads them."""
        executable = compile(with_logits(network) if self._classes else network)
        names = [spec.name for spec in executable.signature.outputs]
        rows: list[Array] = []
        kept: list[list[Array]] = []
        for sample in self._tests:
            outputs = [np.array(each) for each in executable.run(sample)]
            rows.append(outputs[-1].ravel() if self._classes else np.concatenate([o.ravel() for o in outputs]))
            if self._metric is not None:
                kept.append(outputs)
        own = names[:-1] if self._classes else names
        return np.stack(rows), {n: np.stack([each[i] for each in kept]) for i, n in enumerate(own) if kept}

    def _other(self, quantized: ModuleOp) -> float | None:
        """Returns the cost that the budget limits, if only compiled code tells it; else None."""
        match self._budget:
            case Budget(cost="stored"):
                return float(compile(quantized).sizes.weights)
            case Budget(cost="arena"):
                return float(compile(quantized).sizes.arena)
            case Budget(cost="cycles", device=device):
                from qmlir.devices import load_device

                return float(compile(quantized, target=load_device(device)).predicted_cycles)
            case Budget(cost="ms"):
                from qmlir.analysis.timing import measure

                return 1000 * float(measure(quantized, self._tests[:8], seconds=SECONDS)["latency"]["min"])
            case _:
                return None

    # -- on disk -----------------------------------------------------------------------------------------------

    def _known_facts(self) -> dict[str, Any]:
        """What all results depend on."""
        device = ""
        if self._target is not None:
            from qmlir.devices import text_of

            device = text_of(self._target)
        return {
            "format": FORMAT,
            "network": cached.module_hash(self.module),
            "profile": profile_hash(self.profile),
            "samples": samples_hash(self._samples),
            "tests": samples_hash(self._tests),
            "labels": None if self._labels is None else hash_of(self._labels.tobytes()),
            "metric": None if self._metric is None else _source_of(self._metric),
            "target": device,
            "budget": None if self._budget is None else [self._budget.cost, self._budget.device],
            "options": self._options,
        }

    def _load(self, what: str, policy: Policy) -> Any:
        return self._results.load({"what": what, "policy": policy.as_dict()})

    def _store(self, what: str, policy: Policy, data: Any) -> Any:
        self._fresh.append(Finding(what, policy.as_dict(), data))
        return self._results.store({"what": what, "policy": policy.as_dict()}, data)


@dataclass(frozen=True)
class Finding:
    """A result as it is kept.

    what    `trial`, `effects`, `layers`, or `wide` for the effects of weights of 16 bits
    policy  the policy of the network, as plain data
    data    the result, as plain data
    """

    what: str
    policy: dict[str, Any]
    data: Any


@dataclass(frozen=True)
class Done:
    """What a worker did for one task.

    made      quantizations
    findings  results, in the order in which they were found
    refused   why the network cannot be quantized; None if it can
    """

    made: int
    findings: list[Finding]
    refused: QmlirError | None


@dataclass
class Bench:
    """The arguments of a worker's own `Laboratory`; `network` is the float network as text."""

    network: str
    profile: Profile
    samples: list[Any]
    tests: list[Any]
    labels: Int64s | None
    metric: Metric | None
    target: Any
    budget: Budget | None
    options: dict[str, Any]

    @cached_property
    def laboratory(self) -> Laboratory:
        """Made once by each worker."""
        return Laboratory(
            network_of(self.network), self.profile, self.samples, self.tests, labels=self.labels, metric=self.metric,
            target=self.target, budget=self.budget, options=self.options,
        )  # fmt: skip


def _done(bench: Bench, task: tuple[str, dict[str, Any]]) -> Done:
    """Makes the trial of a task on a worker, or the effects of its parts, too."""
    laboratory, refused = bench.laboratory, None
    policy = Policy.of(task[1])
    try:
        laboratory.effects(policy) if task[0] == "effects" else laboratory.trial(policy)
    except QmlirError as error:
        refused = error
    return laboratory.done_since(refused)


SECONDS = 0.5
"""How long a call is measured for a budget of milliseconds."""


def macs_bits(quantized: ModuleOp) -> int:
    """Returns the sum over a quantized network's contractions of MACs times bits of weights times bits of data."""
    total = 0
    for op in main_function(quantized).body.block.ops:
        figures = figures_of(op) if op.operands and op.results else None
        if figures is not None and figures.macs:
            one, other = ([_bits(t.type) for t in figures.operands] + [32, 32])[:2]
            total += figures.macs * one * other
    return total


def _bits(stored: str) -> int:
    """The bits of a stored type by its name, such as i8 or f32."""
    digits = "".join(c for c in stored if c.isdigit())
    return int(digits) if digits else 32


def _source_of(metric: Metric) -> str:
    """The name and the source of a function; other functions that it calls are not part of it."""
    name = f"{getattr(metric, '__module__', '')}:{getattr(metric, '__qualname__', repr(metric))}"
    try:
        return f"{name}\n{inspect.getsource(metric)}"
    except (OSError, TypeError):
        return name
