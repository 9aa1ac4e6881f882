"""Measures how far the output of a network moves when one part of one operation alone is quantized.

A part is the weights of an operation, its result, or an input of the network. The part's own noise e is computed where
the operation reads the float network's tensors:

    weights   e = f(x, stored weights and bias) − f(x, w, b)
    result    e = y, within the range of its type and rounded to the type's steps, − y
    input     the same, for an input of the network

The float network then runs with y + e in place of y, everything else exact. What its output moves by is the effect of
this part alone. One compiled network, whose tensors all take an error as one more input, serves for all parts.

Parts of different operations err almost independently, so their noise powers add up:

    predicted noise = Σ noise of each part

`ErrorBudget` of error_budget.py splits the error of one operation at its own result; the sum here splits the error of a
network at its output. `measured_total` says how far the sum is from the error of the quantized network.

The cheap scores guess an effect from less: the part's own noise, the own noise times the gain of its tensor (what white
noise of that size moves the output by), and the own noise times the tensor's Fisher information (what white noise does
to the probabilities of the classes, by finite differences). `rank_correlation` says how well they order the parts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.output_measure import (
    Gain,
    OutputEffect,
    OutputEffects,
    OutputMeasure,
    decibels,
    measured_total,
    thinned,
    with_scores,
)
from qmlir.analysis.own_errors import Errors, NearestWeights, StoredResults, StoredWeights
from qmlir.analysis.rank_correlation import rank_correlations
from qmlir.analysis.scores import Metric
from qmlir.compiler import loaded, main_function
from qmlir.errors import QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.callable_network import Calibration
from qmlir.ir.states import states_of
from qmlir.numerics import Int64s
from qmlir.numerics.schemas import WeightPrecision
from qmlir.running.executors import Given, workers_of
from qmlir.running.shards import network_of, text_of
from qmlir.settings.arguments import Network, samples_given


@dataclass(frozen=True)
class EffectReport:
    """The effects of a quantized network's parts, and how well they and the cheap scores predict.

    effects       the parts as the network stores them, the largest effect first
    changed       the same parts with other precisions: weights narrowed and widened, results widened
    predicted     noise at the output: the sum over the parts as stored
    measured      noise at the output of the quantized network itself
    correlations  cheap score → rank correlation with the effect over the parts as stored
    """

    effects: OutputEffects
    changed: OutputEffects
    predicted: float
    measured: float
    correlations: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as plain data for JSON."""
        return {
            "effects": [row.as_dict() for row in self.effects],
            "changed": [row.as_dict() for row in self.changed],
            "predicted_sqnr": decibels(self.predicted),
            "measured_sqnr": decibels(self.measured),
            "rank_correlations": dict(self.correlations),
        }


NARROWED: tuple[WeightPrecision, ...] = ("int4", "int6")
"""The precisions of weights that `effects` tries besides the stored one."""


def effects(
    module: Network,
    quantized: Network,
    samples: Calibration,
    *,
    metric: Metric | None = None,
    labels: Int64s | None = None,
    workers: Given = None,
) -> EffectReport:
    """Measures how far the output moves when one part of one operation alone is quantized, narrowed or widened.

    Args:
        module: The float network, or its path; it stays unchanged.
        quantized: The network that `quantize` made of it, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of arrays by input name; at most 32 are used. To a network with
            states they are one sequence, and a list of them is a sequence of its own; the first 32 steps are used.
        metric: A user's own score, as for `score`; one that a module defines, where the work runs elsewhere.
        labels: The class of each sample, which the metric reads.
        workers: A number of processes, the address of a Dask scheduler, or a `concurrent.futures.Executor`; by default
            this process. The report is the same.

    Raises:
        QmlirError: There is no sample, or the networks have no tensor in common.

    >>> import qmlir
    >>> found = qmlir.effects("digits.onnx", qmlir.quantize("digits.onnx", data=samples), samples)
    >>> found.correlations["gained"] > 0.5
    True
    """
    network = loaded(quantized, simplified=False)
    refuse_opaque(network, "the quantized network")
    given = list(samples_given(samples))
    chosen = workers_of(workers)
    try:
        origin = loaded(module)
        if given and not states_of(main_function(origin)):
            kept = thinned(len(given))
            given, labels = [given[i] for i in kept], None if labels is None else labels[kept]
        nets = (text_of(origin), text_of(network)) if chosen.elsewhere else (origin, network)
        work = _Work(*nets, given, metric, labels)
        found = dict(zip(TASKS, chosen.map(_measured, work, TASKS), strict=True))
    finally:
        if chosen is not workers:
            chosen.close()
    if not any(found[task].effects for task in STORED):
        remedy = "give the network that was quantized, and the .mlir file that `quantize` wrote of it"
        raise QmlirError("the networks must have quantized tensors of the same names", got="none", remedy=remedy)
    gains = found[GAINS].gains
    rows, changed = (
        [with_scores(row, gains) for task in tasks for row in found[task].effects] for tasks in (STORED, CHANGED)
    )
    return EffectReport(
        OutputEffects(sorted(rows, key=lambda row: -row.noise)),
        OutputEffects(changed),
        sum(row.noise for row in rows),
        found[TOTAL].noise,
        rank_correlations(rows),
    )


# ---------------------------------------------------------------------------------------------------------------
# The tasks into which a report splits: the gains, the error of the network, and the errors of parts, kind by kind


GAINS, TOTAL = "gains", "the whole network"

STORED: Mapping[str, "Callable[[_Work], Errors]"] = {
    "stored weights": lambda work: StoredWeights(work.quantized_network, work.measure.names),
    "stored results": lambda work: StoredResults(work.quantized_network, work.measure.names),
}
"""Task → the errors of parts as the network stores them."""

CHANGED: Mapping[str, "Callable[[_Work], Errors]"] = {
    **{p: lambda work, p=p: NearestWeights(work.measure.origin, p) for p in (*NARROWED, "int16")},
    "wider results": lambda work: StoredResults(work.quantized_network, work.measure.names, halvings=8),
}
"""Task → the errors of the same parts with other precisions."""

TASKS = (GAINS, *STORED, *CHANGED, TOTAL)


@dataclass
class _Work:
    """What all tasks need, as workers receive it: the networks as text if they run elsewhere."""

    module: ModuleOp | str
    quantized: ModuleOp | str
    samples: Calibration
    metric: Metric | None
    labels: Int64s | None

    @cached_property
    def measure(self) -> OutputMeasure:
        """The float network, compiled once by each worker."""
        return OutputMeasure(_network(self.module), self.samples, metric=self.metric, labels=self.labels)

    @cached_property
    def quantized_network(self) -> ModuleOp:
        """The quantized network."""
        return _network(self.quantized)


@dataclass(frozen=True)
class _Found:
    """What a task has measured."""

    effects: Sequence[OutputEffect] = ()
    gains: Mapping[str, Gain] = field(default_factory=dict[str, Gain])
    noise: float = 0.0


def _network(given: ModuleOp | str) -> ModuleOp:
    return network_of(given) if isinstance(given, str) else given


def _measured(work: _Work, task: str) -> _Found:
    """Carries out a task."""
    if task == GAINS:
        return _Found(gains=work.measure.gains())
    if task == TOTAL:
        return _Found(noise=measured_total(work.measure, work.quantized_network))
    return _Found(list(work.measure.effects({**STORED, **CHANGED}[task](work))))
