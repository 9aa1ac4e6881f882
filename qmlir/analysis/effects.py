"""Measures how far the output of a network moves when one part of one operation alone is quantized.

A part is the weights of an operation, its result, or an input of the network. The part's own error e is computed where
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

The cheap scores guess an effect from less: the part's own error, the own error times the gain of its tensor (what white
noise of that size moves the output by), and the own error times the tensor's Fisher information (what white noise does
to the probabilities of the classes, by finite differences). `rank_correlation` says how well they order the parts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from qmlir.analysis.output_measure import OutputEffects, OutputMeasure, decibels, measured_total
from qmlir.analysis.own_errors import Errors, NearestWeights, StoredResults, StoredWeights
from qmlir.analysis.rank_correlation import rank_correlations
from qmlir.analysis.scores import Metric
from qmlir.arguments import Network
from qmlir.compiler import loaded
from qmlir.errors import QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.interfaces import Array
from qmlir.numerics import Int64s
from qmlir.numerics.schemas import WeightPrecision


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
    samples: Iterable[Array | Mapping[str, Array]],
    *,
    metric: Metric | None = None,
    labels: Int64s | None = None,
) -> EffectReport:
    """Measures how far the output moves when one part of one operation alone is quantized, narrowed or widened.

    Args:
        module: The float network, or its path; it stays unchanged.
        quantized: The network that `quantize` made of it, or its path; it stays unchanged.
        samples: Arrays for the only input, or dicts of arrays by input name; at most 32 are used.
        metric: A user's own score, as for `score`.
        labels: The class of each sample, which the metric reads.

    Raises:
        QmlirError: There is no sample, the networks have no tensor in common, or the network has states.

    >>> import qmlir
    >>> found = qmlir.effects("digits.onnx", qmlir.quantize("digits.onnx", data=samples), samples)
    >>> found.correlations["gained"] > 0.5
    True
    """
    network = loaded(quantized, simplified=False)
    refuse_opaque(network, "the quantized network")
    measure = OutputMeasure(module, samples, metric=metric, labels=labels)
    gains = measure.gains()
    stored: list[Errors] = [StoredWeights(network, measure.names), StoredResults(network, measure.names)]
    if not any(each.parts for each in stored):
        remedy = "give the network that was quantized, and the .mlir file that `quantize` wrote of it"
        raise QmlirError("the networks must have quantized tensors of the same names", got="none", remedy=remedy)
    rows = [row for errors in stored for row in measure.effects(errors, gains)]
    others: list[Errors] = [NearestWeights(measure.origin, p) for p in (*NARROWED, "int16")]
    others.append(StoredResults(network, measure.names, halvings=8))
    changed = [row for errors in others for row in measure.effects(errors, gains)]
    return EffectReport(
        OutputEffects(sorted(rows, key=lambda row: -row.noise)),
        OutputEffects(changed),
        sum(row.noise for row in rows),
        measured_total(measure, network),
        rank_correlations(rows),
    )
