"""Scores a float network and the network quantized from it on labelled samples.

Classes are compared on logits: where a network ends in a softmax, on what the softmax reads, since a softmax in few
bits makes different logits equal. Top-1 alone misleads, as mistakes that quantization adds and removes cancel in it. So
both are counted, and the agreement with float and the SQNR of the logits stand beside them.

Integer logits tie. A sample with a tie counts for the first of the largest logits, as for arg-max anywhere; `tied` says
how many samples that concerns, and `shared` is top-1 with each of n tied classes right by 1/n.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.logits import outputs_of, returning
from qmlir.compiler import compile, loaded
from qmlir.dialects import nn
from qmlir.dialects.loops import MOST_THREADS
from qmlir.errors import OptionError, QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.interfaces import Array, shape_of
from qmlir.numerics import Int64s
from qmlir.settings.arguments import Network, samples_given

Outputs: TypeAlias = Array | dict[str, Array]
"""The outputs of a network for all samples, along a new first axis: of its only output, or by name."""

Metric: TypeAlias = Callable[[Any, Any], float]
"""A user's own score: a function of outputs (`Outputs`) and of labels, which are None if there are none."""

TOP = 5
"""How many of the best classes `top5` looks at."""


@dataclass(frozen=True)
class NetworkScore:
    """What one network gets right, in numbers of samples.

    top1      samples whose class has the largest logit
    top5      samples whose class is among the five largest logits
    tied      samples with several largest logits
    shared    top1 with ties in parts
    metric    the user's own score; None without one
    """

    top1: int | None
    top5: int | None
    tied: int | None
    shared: float | None
    metric: float | None


@dataclass(frozen=True)
class Comparison:
    """The scores of both networks on the same samples.

    samples     how many there are
    original    the float network's score
    quantized   the quantized network's score
    lost, won   samples that only float, and that only the quantized network gets right
    agreeing    samples with the same largest logit in both
    sqnr        SQNR of the logits in dB, without each sample's mean logit and mean error
    """

    samples: int
    original: NetworkScore
    quantized: NetworkScore
    lost: int | None
    won: int | None
    agreeing: int | None
    sqnr: float | None

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain data."""
        return asdict(self)


def score(
    module: Network,
    quantized: Network,
    samples: Iterable[Array | Mapping[str, Array]],
    labels: npt.ArrayLike | None = None,
    *,
    metric: Metric | None = None,
) -> Comparison:
    """Scores a float network and the network quantized from it.

    Args:
        module: The float network, or its path.
        quantized: The quantized network, or its path.
        samples: Arrays for the only input, or dicts of arrays by input name.
        labels: The class of each sample, counted from 0; None if only a metric is asked for.
        metric: A function of a network's outputs on all samples (an array with a new first axis, or a dict of them by
            name) and of the labels, which returns a number.

    Raises:
        OptionError: There are neither labels nor a metric, not as many labels as samples, or a label is not a class of
            the network.
        QmlirError: With labels, the network does not have one output of classes; or the metric fails.

    >>> import qmlir
    >>> q, labels = qmlir.quantize("digits.onnx", data=samples), np.load("digits.npz")["test_labels"][:20]
    >>> qmlir.score("digits.onnx", q, list(np.load("digits.npz")["test_images"][:20, None]), labels).quantized.top1
    20
    """
    classes = None if labels is None else labels_given(labels)
    if classes is None and metric is None:
        raise OptionError("labels", "or a metric must be given", got="neither")
    runs = [Scored(network, classes is not None) for network in (module, quantized)]
    for sample in samples_given(samples):
        for run in runs:
            run.add(sample, keeps=metric is not None)
    before, after = runs
    own = [None if metric is None else run.metric(metric, classes) for run in runs]
    if classes is None:
        original, after_it = (NetworkScore(None, None, None, None, value) for value in own)
        return Comparison(before.count, original, after_it, None, None, None, None)
    check_count(classes, before.count)
    truth, found = before.all_logits(classes), after.all_logits(classes)
    right, still = _first(truth) == classes, _first(found) == classes
    return Comparison(
        before.count,
        scored(truth, classes, own[0]),
        scored(found, classes, own[1]),
        int((right & ~still).sum()),
        int((~right & still).sum()),
        agreeing(truth, found),
        sqnr(truth, found),
    )


def labels_given(labels: npt.ArrayLike) -> Int64s:
    """Returns the classes that a user gives; raises `OptionError` unless they are integers, one for each sample."""
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        got = f"an array {array.dtype.name}{list(array.shape)}"
        raise OptionError("labels", "must be a list of integers, one for each sample", got=got)
    return array.astype(np.int64)


def check_count(classes: Int64s, samples: int) -> None:
    """Raises `OptionError` unless there are samples, and a class for each of them."""
    if len(classes) != samples or not samples:
        need = "must be as many as samples, at least one"
        raise OptionError("labels", need, got=f"{len(classes)} for {samples}")


class Scored:
    """A network that runs on samples and keeps its logits, and its outputs if a metric reads them.

    count    the samples so far
    """

    def __init__(self, network: Network, has_labels: bool):
        """Compiles the network; if there are labels, it returns its logits behind its outputs."""
        module = loaded(network)
        refuse_opaque(module, "the network")
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        self._executable = compile(with_logits(module) if has_labels else module, min(threads, MOST_THREADS))
        self._logits: list[Array] = []
        self._outputs: list[list[Array]] = []
        self._has_labels, self.count = has_labels, 0

    def add(self, sample: Any, *, keeps: bool) -> None:
        """Runs the network on a sample."""
        *results, last = self._executable.run(sample)
        self.count += 1
        if self._has_labels:
            self._logits.append(last.reshape(-1))
        if keeps:
            self._outputs.append(results if self._has_labels else [*results, last])

    def all_logits(self, classes: Int64s) -> Array:
        """Returns the logits [samples, classes]; raises `OptionError` if a class is not one of the network's."""
        logits = np.stack(self._logits)
        check_classes(classes, logits)
        return logits

    def metric(self, function: Metric, classes: Int64s | None) -> float:
        """Returns a user's own score of the outputs."""
        specs = self._executable.signature.outputs[: len(self._outputs[0]) if self._outputs else 0]
        named = {spec.name: np.stack([each[i] for each in self._outputs]) for i, spec in enumerate(specs)}
        return own_score(function, named, classes)


def own_score(function: Metric, named: dict[str, Array], classes: Int64s | None) -> float:
    """Returns a user's own score of outputs, given by name.

    Raises:
        QmlirError: The function fails, or does not return a number.
    """
    outputs = next(iter(named.values())) if len(named) == 1 else named
    where = f"metric {getattr(function, '__qualname__', repr(function))}"
    try:
        value = function(outputs, classes)
    except Exception as error:
        got = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise QmlirError("must return a number", where=where, got=got) from error
    try:
        return float(value)
    except (TypeError, ValueError):
        raise QmlirError("must return a number", where=where, got=type(value).__name__) from None


def score_outputs(named: dict[str, Array], labels: Int64s | None, metric: Metric | None = None) -> NetworkScore:
    """Returns the score of a network's outputs as they are.

    Args:
        named: The outputs for all samples, by name.
        labels: The class of each sample; None if only a metric is asked for.
        metric: A user's own score.

    Raises:
        QmlirError: With labels, there is not one output of classes.
        OptionError: A label is not a class of the network.
    """
    own = None if metric is None else own_score(metric, named, labels)
    if labels is None:
        return NetworkScore(None, None, None, None, own)
    (first, *others) = named.values()
    if others or sum(n != 1 for n in first.shape[1:]) > 1:
        raise _no_classes(str(list(each.shape[1:])) for each in named.values())
    logits = first.reshape(len(first), -1)
    check_classes(labels, logits)
    return scored(logits, labels, own)


def check_classes(classes: Int64s, logits: Array) -> None:
    """Raises `OptionError` if a class is not one of the network's."""
    require_classes(classes, logits.shape[1])


def classes_of(shapes: Sequence[Sequence[int]]) -> int:
    """Returns how many classes a network tells apart, by the shapes of its outputs.

    Raises:
        QmlirError: There is not one output with a number for each class.
    """
    if len(shapes) != 1 or sum(n != 1 for n in shapes[0]) > 1:
        raise _no_classes(str(list(shape)) for shape in shapes)
    return prod(shapes[0])


def require_classes(classes: Int64s, count: int) -> None:
    """Raises `OptionError` unless each class is less than the number of classes."""
    if len(wrong := classes[(classes < 0) | (classes >= count)]):
        remedy = "count classes from 0, or give --label-offset"
        need = f"must be a class of the network, from 0 to {count - 1}"
        raise OptionError("labels", need, got=str(wrong[0]), remedy=remedy)


def _no_classes(shapes: Iterable[str]) -> QmlirError:
    remedy = "score it by a function of your own: --metric, or metric in Python"
    need = "labels need a network of one output with a number for each class"
    return QmlirError(need, got=", ".join(shapes), remedy=remedy)


# ---------------------------------------------------------------------------------------------------------------
# Logits


def with_logits(module: ModuleOp) -> ModuleOp:
    """Copies a network so that it returns its logits, as floats, behind its own output.

    Raises:
        QmlirError: The network does not have one output of classes.
    """
    classes_of([shape_of(output) for output in outputs_of(module)])
    return returning(module, [0], nn.SoftmaxOp, nn.LogSoftmaxOp)


# ---------------------------------------------------------------------------------------------------------------
# Figures of logits [samples, classes]


def _first(logits: Array) -> Array:
    return logits.argmax(axis=1)


def scored(logits: Array, classes: Int64s, metric: float | None = None) -> NetworkScore:
    """Returns the score of logits beside the class of each sample."""
    own: Array = logits[np.arange(len(classes)), classes][:, None]
    ahead: Int64s = np.sum(logits > own, axis=1)
    index: Int64s = np.arange(logits.shape[1], dtype=np.int64)
    tied: Any = (logits == own) & (index < classes[:, None])
    rank: Int64s = ahead + np.sum(tied, axis=1)
    largest: Int64s = np.sum(logits == logits.max(axis=1, keepdims=True), axis=1)
    return NetworkScore(
        int((rank == 0).sum()),
        int((rank < TOP).sum()),
        int((largest > 1).sum()),
        float((1 / largest[ahead == 0]).sum()),
        metric,
    )


def agreeing(truth: Array, found: Array) -> int:
    """Returns the number of samples with the same largest logit in both networks."""
    return int((_first(truth) == _first(found)).sum())


def sqnr(truth: Array, found: Array) -> float:
    """Returns the SQNR in dB without each sample's mean and mean error; infinite for equal arrays."""
    truth, found = truth.astype(np.float64), found.astype(np.float64)
    signal, error = truth - truth.mean(axis=1, keepdims=True), found - truth
    error -= error.mean(axis=1, keepdims=True)
    noise, power = float((error**2).sum()), float((signal**2).sum())
    return math.inf if noise == 0 else 10 * math.log10(power / noise) if power else -math.inf
