"""Ranges without a sample, from the statistics of batch normalizations (data-free quantization).

A trained batch normalization says which mean and variance each channel of its result has: see
frontends/onnx/batch_norms.py. The range of a tensor is taken as mean ± N standard deviations of its channels (Nagel et
al. 2019, "Data-free quantization through weight equalization and bias correction", with N = 6). Between batch
normalizations, means and variances follow the network:

* relu and clamps rectify a normal distribution;
* sums add means and variances, as if both were independent, and so do convolutions and fully connected layers, whose
  deviation is then doubled, as terms of trained layers vary together;
* pools take the mean and the variance of their window's values, as if all were equal;
* data movement moves them.

So two bounds hold at once: those that follow from the bounds of operands, and mean ± N deviations. Each is an array of
the tensor's shape. The inputs of a network have no statistics, so their range has to be given.

Tensors without a rule, such as products of two computed tensors, have no range; whatever reads them neither, up to the
next batch normalization. They are named.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from qmlir.compiler import load, main_function, profiler_of
from qmlir.dialects.nn import (
    AddOp,
    AveragePool2DOp,
    ClampOp,
    ConstantOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    MulOp,
    ReduceMeanOp,
    ReluOp,
    SigmoidOp,
    SoftmaxOp,
    TanhOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import Clamped, is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.errors import FileError, OptionError, ProfileError, QmlirWarning
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.rewriting import node_name, tensor_name
from qmlir.numerics.elementary.exponential import erf
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import exact
from qmlir.transforms.quantize.adjust.side_by_side import linear_part

DEVIATIONS = 6.0
"""N: how many standard deviations a range reaches from the mean."""

TOGETHER = 2.0
"""What the deviation of a layer's sums is over that of independent terms. The largest result of the digits network's
hidden layer without a batch normalization is 2.1 times as large as 6 deviations of independent terms; too narrow a
range saturates and costs more than too wide a one."""

Range = tuple[float, float]
Moments = Mapping[str, tuple[Array, Array]]


@dataclass(frozen=True)
class Spread:
    """What is known of a tensor's elements; each array has the tensor's shape, float64.

    mean, variance   of each element over inputs
    low, high        bounds of each element
    """

    mean: Array
    variance: Array
    low: Array
    high: Array

    @classmethod
    def normal(cls, mean: Array, variance: Array, deviations: float) -> "Spread":
        """A normal distribution, up to so many standard deviations."""
        reach = deviations * np.sqrt(variance)
        return cls(mean, variance, mean - reach, mean + reach)

    @classmethod
    def even(cls, shape: Sequence[int], low: float, high: float) -> "Spread":
        """The same even distribution for all elements."""
        numbers = (low + high) / 2, (high - low) ** 2 / 12, low, high
        return cls(*(np.full(shape, number, np.float64) for number in numbers))

    def each(self, function: Callable[[Array], Array]) -> "Spread":
        """The result of a function that moves elements or takes means of them."""
        return Spread(*map(function, (self.mean, self.variance, self.low, self.high)))

    def clamped(self, low: float | None, high: float | None) -> "Spread":
        """The distribution of elements that a clamp limits, whose mean and variance are those of a normal one."""
        if low is None and high is None:
            return self
        mean, variance = self.mean, self.variance
        if low is not None:
            mean, variance = rectified(mean - low, variance)
            mean = mean + low
        if high is not None:
            mean, variance = rectified(high - mean, variance)
            mean = high - mean
        bounds = -np.inf if low is None else low, np.inf if high is None else high
        return Spread(mean, variance, np.clip(self.low, *bounds), np.clip(self.high, *bounds))


def rectified(mean: Array, variance: Array) -> tuple[Array, Array]:
    """The mean and the variance of max(x, 0), for normal x."""
    deviation = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    z = mean / deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    above = (1 + erf(Lanes(z / math.sqrt(2))).array) / 2
    first = mean * above + deviation * density
    second = (mean**2 + variance) * above + mean * deviation * density
    return first, np.maximum(second - first**2, 0.0)


def data_free_profile(
    model: str | Path, input_range: Range | Mapping[str, Range], deviations: float = DEVIATIONS
) -> Profile:
    """Returns ranges of a network's tensors from the statistics of its batch normalizations, without a sample.

    Args:
        model: The path of an ONNX file whose batch normalizations are not folded into convolutions yet.
        input_range: The range of the inputs' values, (lowest, highest); for several inputs, one for each by name.
        deviations: How many standard deviations from the mean ranges reach.

    Returns:
        A profile of ranges without histograms. It lacks tensors that no statistics reach, which a warning names.

    Raises:
        FileError: The file is no ONNX file, or has no batch normalization with statistics.
        OptionError: An input has no range, or a number is not finite.

    >>> import qmlir
    >>> profile = qmlir.data_free_profile("digits.onnx", input_range=(0, 1))
    >>> profile.range_of("image"), profile.samples
    ((0.0, 1.0), 0)
    >>> q = qmlir.quantize("digits.onnx", profile)
    """
    return profile_of(load(model), model, input_range, deviations)


def profile_of(
    module: ModuleOp, model: str | Path, input_range: Range | Mapping[str, Range], deviations: float = DEVIATIONS
) -> Profile:
    """Returns ranges for a module that was imported from `model`; other arguments, result and errors as above."""
    if not math.isfinite(deviations) or deviations <= 0:
        raise OptionError("deviations", "must be a number above 0", got=str(deviations))
    moments = _moments(model)
    block = main_function(module).body.block
    inputs = [(tensor_name(a) or f"input {i}", a) for i, a in enumerate(block.args)]
    known: dict[SSAValue, Spread] = {}
    for name, argument in inputs:
        low, high = _range_for(name, input_range)
        known[argument] = Spread.even(shape_of(argument), low, high)
    lacking = _follow(block, known, moments, deviations)
    ranges = {n: (s.low.min(), s.high.max()) for v, s in known.items() if (n := tensor_name(v)) and s.low.size}
    found = profiler_of(module, 2000, per_channel=False)[0].empty()
    missing: list[str] = []
    for name, tensor in found.tensors.items():
        if name not in ranges:
            missing.append(f'"{name}": {lacking.get(name, "it has another name before the network is simplified")}')
            continue
        tensor.lo, tensor.hi = (float(np.float32(bound)) + 0.0 for bound in ranges[name])
        tensor.count = tensor.samples = 1
        tensor.extremes, tensor.moments = (exact(tensor.lo), exact(tensor.hi)), None
    if len(missing) == len(found.tensors):
        raise ProfileError(str(model), "must have tensors that statistics reach", got="; ".join(missing[:SHOWN]))
    if missing:
        more = f"; and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        warnings.warn(
            f"{model}: no statistics reach {len(missing)} of {len(found.tensors)} tensors: {'; '.join(missing[:SHOWN])}"
            f"{more}; quantize with --partial-profile, or profile on samples",
            QmlirWarning,
            stacklevel=2,
        )
    return found


SHOWN = 5
"""The most tensors without statistics that a message names."""


def _moments(model: str | Path) -> Moments:
    """The statistics of a file's batch normalizations."""
    remedy = "profile it on samples with --data, or export the network with its batch normalizations"
    if Path(model).suffix != ".onnx":
        raise FileError(
            model, "must be an .onnx file with batch normalizations", got=f"a {Path(model).suffix or 'nameless'} file",
            remedy=remedy,
        )  # fmt: skip
    from qmlir.frontends.onnx.batch_norms import batch_norm_moments

    if not (found := batch_norm_moments(model)):
        raise FileError(model, "must have batch normalizations with constant parameters", got="none", remedy=remedy)
    return found


def _range_for(name: str, given: Range | Mapping[str, Range]) -> Range:
    """The range of an input.

    Raises:
        OptionError: There is none, or it is not two finite numbers in order.
    """
    if isinstance(given, Mapping) and name not in given:
        raise OptionError("input-range", f'needs a range for the input "{name}"', got=f"ranges for {', '.join(given)}")
    found = tuple(map(float, given[name] if isinstance(given, Mapping) else given))
    if len(found) != 2 or not all(map(math.isfinite, found)) or found[0] >= found[1]:
        raise OptionError("input-range", "must be two finite numbers, the least and the greatest", got=str(found))
    return found[0], found[1]


def _follow(block: Block, known: dict[SSAValue, Spread], moments: Moments, deviations: float) -> dict[str, str]:
    """Adds what is known of the results of a block's operations; returns why others, by name, are not."""
    lacking: dict[str, str] = {}
    reasons: dict[SSAValue, str] = {}
    for op in block.ops:
        for result in op.results:
            name = tensor_name(result)
            if name in moments:
                known[result] = Spread.normal(*_along_channels(op, result, moments[name]), deviations)
                continue
            unknown = [v for v in op.operands if v not in known and not _is_bias(op, v)]
            found = None if unknown else _spread(op, known, deviations)
            if found is not None:
                known[result] = found
                continue
            why = reasons[unknown[0]] if unknown and unknown[0] in reasons else f"no rule for {op.name} {node_name(op)}"
            reasons[result] = lacking[name] = why
    return lacking


def _is_bias(op: Operation, value: SSAValue) -> bool:
    return isinstance(op, WeightedOp) and value is op.b


def _along_channels(op: Operation, result: SSAValue, moments: tuple[Array, Array]) -> tuple[Array, Array]:
    """Moments [C] of a batch normalization in the shape of its result: channels first where a transpose makes it."""
    shape = shape_of(result)
    axis = 1 if isinstance(op, TransposeOp) else len(shape) - 1
    own = [1] * len(shape)
    own[axis] = -1
    mean, variance = (np.broadcast_to(np.reshape(m, own), shape) for m in moments)
    return mean, variance


def _spread(op: Operation, known: Mapping[SSAValue, Spread], deviations: float) -> Spread | None:
    """What is known of the result of an operation whose operands are known; None if there is no rule."""
    if isinstance(op, ConstantOp):
        if not is_float(op.y):
            return None
        value = op.value.array.astype(np.float64)
        return Spread(value, np.zeros_like(value), value, value)
    if isinstance(op, SoftmaxOp | SigmoidOp):
        return Spread.even(shape_of(op.results[0]), 0.0, 1.0)
    if isinstance(op, TanhOp):
        return Spread.even(shape_of(op.results[0]), -1.0, 1.0)
    operands = [known[v] for v in op.operands if v in known]
    free = _free_spread(op, operands, deviations)
    if free is None:
        return None
    return free.clamped(*op.bounds()) if isinstance(op, Clamped) else free


def _free_spread(op: Operation, operands: Sequence[Spread], deviations: float) -> Spread | None:
    """What is known of an operation's result before its clamp; None if there is no rule."""
    evaluate = cast(Any, op).evaluate if hasattr(op, "evaluate") else None
    if isinstance(op, ReluOp):
        return operands[0].clamped(0.0, None)
    if isinstance(op, ClampOp):
        return operands[0]
    if isinstance(op, MovementOp | MaxPool2DOp | AveragePool2DOp | GlobalAveragePoolOp | ReduceMeanOp) and operands:
        assert evaluate is not None
        fields = ("mean", "variance", "low", "high")
        mean, variance, low, high = (evaluate(*(getattr(each, field) for each in operands))[0] for field in fields)
        return Spread(mean, np.where(low == high, 0.0, variance), low, high)  # padded elements do not vary
    if isinstance(op, WeightedOp):
        return _weighted(op, operands, deviations)
    if isinstance(op, AddOp):
        return sum_of(operands[0], operands[1], deviations)
    if isinstance(op, MulOp):
        return product_of(operands[0], operands[1])
    return None


def sum_of(one: Spread, other: Spread, deviations: float) -> Spread:
    """The sum of two tensors, as if they were independent: what bounds and deviations both allow."""
    normal = Spread.normal(one.mean + other.mean, one.variance + other.variance, deviations)
    low, high = np.maximum(normal.low, one.low + other.low), np.minimum(normal.high, one.high + other.high)
    return Spread(normal.mean, normal.variance, low, high)


def product_of(one: Spread, other: Spread) -> Spread | None:
    """The product of a tensor and a constant; None for a product of two computed tensors."""
    if one.variance.any() and other.variance.any():
        return None
    factor, data = (one, other) if not one.variance.any() else (other, one)
    ends = data.low * factor.mean, data.high * factor.mean
    return Spread(data.mean * factor.mean, data.variance * factor.mean**2, np.minimum(*ends), np.maximum(*ends))


def _weighted(op: WeightedOp, operands: Sequence[Spread], deviations: float) -> Spread | None:
    """The sums of a contraction with constant weights."""
    data, weights, *biases = operands
    if weights.variance.any() or len(biases) != (op.b is not None):
        return None
    product = linear_part(op)
    mean = product(data.mean, weights.mean) + (biases[0].mean if biases else 0.0)
    return Spread.normal(mean, TOGETHER**2 * product(data.variance, weights.mean**2), deviations)
