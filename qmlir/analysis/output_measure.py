"""A float network that runs with an error added to one of its tensors, and what its output moves by.

One compiled network, whose tensors all take an error as one more input, serves for all parts; see effects.py.

A network with states runs sequences step by step. In each step the error is that of a part that reads the float
network's tensors, and the states hold what the errors of the steps before have left in them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from qmlir.analysis.own_errors import Errors, Part, Tensors
from qmlir.analysis.scores import Metric, agreeing, outputs_of, own_score, sqnr, with_logits
from qmlir.analysis.tensors import tapped, unnamed
from qmlir.compiler import Pipeline, compile, loaded, main_function
from qmlir.dialects.nn import AddOp, ConstantOp
from qmlir.dialects.nn.base import is_float
from qmlir.display import Rows, Table
from qmlir.errors import QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.callable_network import Calibration, in_order
from qmlir.ir.interfaces import Array, TensorOp, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.states import states_of
from qmlir.numerics import Float64s, Int64s
from qmlir.settings.arguments import Network, samples_given
from qmlir.transforms.quantize.ranges.masks import FAR_BELOW, unobserved
from qmlir.transforms.quantize.ranges.observers import without_observers

MOST_SAMPLES = 32
"""The most samples that effects are measured on; more are thinned out evenly."""

SEED = 20261126
"""The seed of the white noise that gains are measured with."""


@dataclass(frozen=True)
class OutputEffect(Part):
    """How far the output moves when a part alone is quantized.

    noise      power of the change of the output over the power of the output, both without each sample's mean
    agreeing   share of the samples whose largest output stays the same; None for networks without classes
    metric     the user's own score of the outputs; None without one
    own        own noise of the tensor: power over that of the tensor
    gained     own noise times the gain of the tensor; None where gains were not measured
    informed   own noise times the tensor's Fisher information; None where gains were not measured
    """

    noise: float
    agreeing: float | None
    metric: float | None
    own: float
    gained: float | None = None
    informed: float | None = None

    @property
    def sqnr(self) -> float:
        """The effect as an SQNR in dB; infinite if the output does not move."""
        return decibels(self.noise)

    def as_dict(self) -> dict[str, Any]:
        """Returns the row as plain data for JSON."""
        return asdict(self) | {"sqnr": self.sqnr, "own_sqnr": decibels(self.own)}


class OutputEffects(Rows[OutputEffect]):
    """The effects of a network's parts: a list that shows itself as a table."""

    def table(self) -> Table:
        headings = ("tensor", "operation", "part", "precision", "output SQNR [dB]", "agreement", "own SQNR [dB]")
        rows = [(r.tensor, r.operation, r.part, r.precision, r.sqnr, r.agreeing, decibels(r.own)) for r in self]
        return Table(f"effects of {len(self)} parts on the output", headings, rows)


def thinned(count: int, most: int = MOST_SAMPLES) -> list[int]:
    """Returns the numbers of the samples that are used, of `count` samples: `most` at most, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int)).tolist()


def decibels(noise: float) -> float:
    """Returns a relative noise power as an SQNR in dB."""
    return math.inf if noise <= 0 else -10 * math.log10(noise)


class OutputMeasure:
    """A float network that runs on samples with an error added to one of its tensors.

    origin     the simplified float network
    samples    the inputs of its calls; with states, these are among them, as the float network leaves them
    sequences  the same without states, those of a sequence together
    names      the tensors that take an error, in program order
    truth      outputs of the float network, one row a sample: its logits, or all of its outputs; one row alone of a
               network with states, or with a single number as its output
    classes    whether the outputs are logits of classes
    """

    def __init__(
        self,
        module: Network,
        samples: Calibration,
        *,
        metric: Metric | None = None,
        labels: Int64s | None = None,
        most: int = MOST_SAMPLES,
    ):
        """Compiles the float network.

        Args:
            module: The float network, or its path; it stays unchanged.
            samples: Arrays for the only input, or dicts of arrays by input name. To a network with states they are
                one sequence, and a list of them is a sequence of its own.
            metric: A user's own score, as for `score`.
            labels: The classes of the samples that the metric reads.
            most: The most samples to use; with states the first, else evenly spread.

        Raises:
            QmlirError: There is no sample, or the network has unknown operations, or no tensor with a name.
        """
        given, starts = in_order(samples_given(samples))
        if not given:
            raise QmlirError("effects on the output need at least one sample", got="none")
        self.origin = without_observers(Pipeline("simplify")(loaded(module)))
        refuse_opaque(self.origin, "the network")
        self._states = {i: state.index for i, state in states_of(main_function(self.origin)).items()}
        kept = list(range(min(len(given), most))) if self._states else thinned(len(given), most)
        chosen = [given[i] for i in kept]
        self._starts = [start for start in starts if start < len(chosen)]
        self.sequences = [chosen[a:b] for a, b in pairwise([*self._starts, len(chosen)])] if self._states else chosen
        self._metric, self._labels = metric, labels if labels is None else labels[kept]
        self.classes = has_classes(self.origin)
        tapped_module, self._tensors = tapped(self.origin, main_function(self.origin))
        if not self._tensors:
            raise unnamed("the network")
        self._masked = {tensor_name(v) for v in unobserved(main_function(self.origin).body.block)} & {*self._tensors}
        self._exact = compile(tapped_module)
        self._flat = self._exact.signature.flat()
        self.samples = list(self._exact.replayed(self.sequences)) if self._states else chosen
        injected, self.names = with_errors(with_logits(self.origin) if self.classes else self.origin)
        self._injected = compile(injected)
        specs = self._injected.signature.inputs[-len(self.names) :] if self.names else ()
        self._zeros = [np.zeros(spec.shape, spec.dtype) for spec in specs]
        self._outputs = len(main_function(self.origin).function_type.outputs.data)
        self._own = [spec.name for spec in self._flat.outputs[: self._outputs]]
        self.truth = self._rows([self._run(sample, {}) for sample in self.samples])

    def exact(self, sample: Array | Mapping[str, Array]) -> dict[str, Array]:
        """Returns the tensors of the float network on a sample, by name; of masks, what they keep (`_kept`)."""
        results = self._exact.run_in_order(self._flat.arrays(sample))
        found = dict(zip(self._tensors, results[-len(self._tensors) :], strict=True))
        return found | {name: _kept(found[name]) for name in self._masked}

    def _run(
        self, sample: Array | Mapping[str, Array], errors: Tensors, before: Sequence[Array] | None = None
    ) -> list[Array]:
        """Runs the network with errors, on the states that the results of the call before hold, if there was one."""
        given = [errors.get(name, zero) for name, zero in zip(self.names, self._zeros, strict=True)]
        inputs = self._flat.arrays(sample)
        if before is not None:
            inputs = [before[self._states[i]] if i in self._states else x for i, x in enumerate(inputs)]
        return [np.array(a) for a in self._injected.run_in_order([*inputs, *given])]

    def _step(self, number: int, errors: Tensors, results: list[list[Array]]) -> None:
        """Runs the network with errors on the sample of a number, behind the results of the samples before."""
        before = results[-1] if self._states and number not in self._starts else None
        results.append(self._run(self.samples[number], errors, before))

    def _rows(self, results: Sequence[Sequence[Array]]) -> Array:
        """The logits, or all outputs but states, of the results of all samples: a row for each."""
        if self.classes:
            return np.stack([each[-1].ravel() for each in results])
        kept = [i for i in range(self._outputs) if i not in self._states.values()]
        rows = np.stack([np.concatenate([each[i].ravel() for i in kept]) for each in results])
        return rows.reshape(1, -1) if self._states or rows.shape[1] == 1 else rows

    def effects(self, errors: Errors) -> OutputEffects:
        """Returns the effect of each part whose tensor the network has."""
        places = [i for i, part in enumerate(errors.parts) if part.tensor in self.names]
        outputs: dict[int, list[list[Array]]] = {i: [] for i in places}
        own = {i: [0.0, 0.0] for i in places}
        for number, sample in enumerate(self.samples):
            exact = self.exact(sample)
            for i, error in enumerate(errors.of(exact)):
                if i in outputs:
                    name = errors.parts[i].tensor
                    self._step(number, {name: error.astype(np.float32)}, outputs[i])
                    own[i][0] += float((error.astype(np.float64) ** 2).sum())
                    own[i][1] += float((exact[name].astype(np.float64) ** 2).sum())
        return OutputEffects(self._effect(errors.parts[i], outputs[i], own[i]) for i in places)

    def _effect(self, part: Part, outputs: list[list[Array]], own: Sequence[float]) -> OutputEffect:
        found = self._rows(outputs)
        return OutputEffect(
            **asdict(part),
            noise=relative_noise(self.truth, found),
            agreeing=agreeing(self.truth, found) / len(found) if self.classes else None,
            metric=self._scored(outputs),
            own=own[0] / own[1] if own[1] else 0.0,
        )

    def _scored(self, outputs: list[list[Array]]) -> float | None:
        if self._metric is None:
            return None
        own = {n: i for i, n in enumerate(self._own) if i not in self._states.values()}
        return own_score(self._metric, {n: np.stack([e[i] for e in outputs]) for n, i in own.items()}, self._labels)

    def gains(self) -> dict[str, "Gain"]:
        """Measures what white noise in each tensor does to the output: the same size relative to each tensor.

        The noise is drawn with a fixed seed, so the gains are the same on each run.
        """
        rng, found = np.random.default_rng(SEED), dict[str, Gain]()
        results: dict[str, list[list[Array]]] = {name: [] for name in self.names}
        for number, sample in enumerate(self.samples):
            exact = self.exact(sample)
            for name in self.names:
                y = exact[name].astype(np.float64)
                size = math.sqrt(float((y**2).mean()) * WHITE) if y.size else 0.0
                error = (rng.standard_normal(y.shape) * size).astype(np.float32)
                self._step(number, {name: error}, results[name])
        for name, outputs in results.items():
            array = self._rows(outputs)
            information = _divergence(self.truth, array) / WHITE if self.classes else 0.0
            found[name] = Gain(relative_noise(self.truth, array) / WHITE, information)
        return found


WHITE = 1e-4
"""The power of the noise that gains are measured with, over that of the tensor: 40 dB."""


@dataclass(frozen=True)
class Gain:
    """What white noise in a tensor does to the output, for noise of the tensor's own power.

    output       relative noise power of the output
    information  divergence of the classes' probabilities from the float network's, in nats: twice the tensor's Fisher
                 information along the noise, by finite differences; 0 for networks without classes
    """

    output: float
    information: float


def _kept(masked: Array) -> Array:
    """Returns a mask, or masked scores, with numbers that leave scores out replaced by the least other one, or 0.

    Such numbers saturate on purpose, and the network gives what they leave out no weight: their error has no effect,
    and their magnitude says nothing of the scores'.
    """
    out = masked <= FAR_BELOW / 2
    return np.where(out, masked[~out].min(initial=0.0), masked).astype(masked.dtype)


def with_scores(effect: OutputEffect, gains: Mapping[str, Gain]) -> OutputEffect:
    """Returns an effect with the cheap scores that the gain of its tensor gives."""
    gain = gains.get(effect.tensor)
    if gain is None:
        return effect
    return replace(effect, gained=effect.own * gain.output, informed=effect.own * gain.information)


def has_classes(module: ModuleOp) -> bool:
    """Whether a network has one output of several classes, so that agreement and logits mean something."""
    try:
        with_logits(module)
    except QmlirError:
        return False
    return prod(shape_of(outputs_of(module)[0])) > 1


def relative_noise(truth: Array, found: Array) -> float:
    """Returns the noise power of outputs over the power of the true outputs, without each sample's means."""
    return float(10 ** (-sqnr(truth, found) / 10))


def _divergence(truth: Array, found: Array) -> float:
    """The mean divergence, in nats, of the softmax of outputs from that of the true outputs."""
    p, q = (_log_softmax(array.astype(np.float64)) for array in (truth, found))
    return float((np.exp(p) * (p - q)).sum(axis=1).mean())


def _log_softmax(logits: Float64s) -> Float64s:
    moved = logits - logits.max(axis=1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(axis=1, keepdims=True))


def with_errors(module: ModuleOp) -> tuple[ModuleOp, list[str]]:
    """Copies a float network so that each named float tensor takes an error, which is one more input.

    Returns:
        The module, and the names of the tensors in the order of these inputs.
    """
    module = module.clone()
    function = main_function(module)
    block = function.body.block
    makers = [o for o in block.ops if isinstance(o, TensorOp) and not isinstance(o, ConstantOp)]
    named: dict[str, SSAValue] = {}
    for value in (*block.args, *(r for op in makers for r in op.results)):
        if (name := tensor_name(value)) and name not in named and is_float(value):
            named[name] = value
    for value in named.values():
        error = block.insert_arg(value.type, len(block.args))
        added = AddOp.create(operands=[value, error], result_types=[value.type])
        if isinstance(value.owner, Operation):
            block.insert_op_after(added, value.owner)
        else:
            first = block.first_op
            assert first is not None
            block.insert_op_before(added, first)
        value.replace_uses_with_if(added.results[0], lambda use, added=added: use.operation is not added)
    function.update_function_type()
    function.arg_attrs = function.res_attrs = None
    return module, list(named)


def measured_total(measure: OutputMeasure, quantized: ModuleOp) -> float:
    """Returns the noise at the output of a quantized network, on the samples of a measure."""
    executable = compile(with_logits(quantized) if measure.classes else quantized)
    rows: list[Array] = []
    for given in executable.taken(measure.sequences):
        outputs = executable.advance(given)
        rows.append(outputs[-1].ravel() if measure.classes else np.concatenate([o.ravel() for o in outputs]))
    return relative_noise(measure.truth, np.stack(rows).reshape(measure.truth.shape))
