"""What quantization may cost a network: every tensor rounded in plain numpy, by onnxruntime node by node.

Of each tensor the largest magnitude over all samples is known, so a tensor of n bits has steps of 2·max|x| / (2^n − 1)
at most, of twice that if steps are powers of two or one bit is left for more. Each value is rounded to such steps and
weights to theirs; several draws move the steps against the values. Weights have steps by their largest magnitude in
the first draw. The others take steps of least square error, which cut off the largest weights: a weight that happens to
lie on the steps of the first draw does not raise what its channel is expected to keep. Whatever the quantizer decides,
a network that is worse than this by more than half of its decibels has lost something that its bits hold.

The simulation knows nothing of qmlir. Where a function magnifies what rounding does to its inputs, it does so here too,
so that what is ill-conditioned has a low expectation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tests.fuzz.graphs import Array, Graph
from tests.fuzz.options import Options
from tests.fuzz.oracle import Change, Oracle

LEAST = 16.0
"""dB below which an expectation says nothing."""

DRAWS = 3

CLIPPING = {"kl", "kl_tvm", "aciq", "moving_average"}
"""Calibrations that may cut off what they like."""

JUMPING = {"Mod", "Floor", "Ceil", "Round", "Sign", "Cast", "CastLike", "Hardmax", "Shrink", "ThresholdedRelu", "Where",
           "TopK", "MaxUnpool", "QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul"}  # fmt: skip
"""Operators whose results jump: which values are near a jump no few draws tell."""

EXACT_CONSTANTS = {"Resize", "Upsample", "Range", "OneHot", "RoiAlign", "QuantizeLinear", "DequantizeLinear",
                   "QLinearConv", "QLinearMatMul", "Clip", "Pow"}  # fmt: skip
"""Operators whose constants are no data."""

FIXED = {"Softmax": 1.0, "Sigmoid": 1.0, "Tanh": 1.0, "Softsign": 1.0, "HardSigmoid": 1.0, "LpNormalization": 1.0,
         "Erf": 1.0, "Sin": 1.0, "Cos": 1.0}  # fmt: skip
"""Operators whose results have a range of their own, whatever they take."""


@dataclass(frozen=True)
class Rounded:
    """What a network's outputs are exactly, and after each of several ways of rounding."""

    exact: list[dict[str, Array]]
    draws: list[list[dict[str, Array]]]

    def sqnr(self, name: str, part: tuple[slice | int, ...] = ()) -> float:
        """The worst signal to noise in dB that a part of an output comes to."""
        signal = sum(_square(e[name][part]) for e in self.exact)
        noises = [
            sum(_square(r[name][part] - e[name][part]) for e, r in zip(self.exact, draw, strict=True))
            for draw in self.draws
        ]
        return decibels(signal, max(noises))


def _square(values: Array) -> float:
    flat = np.asarray(values, np.float64).ravel()
    return float(flat @ flat)


def decibels(signal: float, noise: float) -> float:
    """Signal to noise in dB."""
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 and math.isfinite(noise) else -math.inf


def is_expectable(graph: Graph, options: Options) -> bool:
    """Whether the simulation is one of this network under these options.

    It is not where a function jumps, a calibration clips, or a norm is folded into weights with one scale.
    """
    operators = {n.operator for n in graph.nodes}
    folds = {"BatchNormalization", "Mul", "Div"} & operators and False in options.every("per_channel")
    return not (options.every("calibration") & CLIPPING or folds or operators & JUMPING)


def rounded(graph: Graph, oracle: Oracle, options: Options, exact: Sequence[Mapping[str, Array]]) -> Rounded:
    """The outputs of a network under rounding of every tensor.

    Args:
        graph: The network.
        oracle: onnxruntime on it.
        options: For their bits.
        exact: The value of every tensor on each sample.
    """
    makers = {name: node.operator for node in graph.nodes for name in node.outputs}
    twice = 2.0 if "symmetric_with_power2_scale" in options.every("schema") else 1.0
    bits = options.activation_bits
    steps = dict[str, float]()
    for name in exact[0]:
        most = max(np.abs(e[name].astype(np.float64)).max(initial=0.0) for e in exact)
        most = max(most, FIXED.get(makers.get(name, ""), 0.0))
        steps[name] = 2 * most * (2 if bits == 16 else 1.1) * twice / (2**bits - 1)
    largest, fitted = (Oracle(_with_rounded_constants(graph, options, fits)) for fits in (False, True))
    random = np.random.default_rng(0)
    draws = list[list[dict[str, Array]]]()
    for draw in range(DRAWS):
        change, changed = _rounding(steps, random if draw else None), fitted if draw else largest
        draws.append([changed.run(feed, change) for feed in graph.feeds()])
    return Rounded([dict(e) for e in exact], draws)


def _rounding(steps: Mapping[str, float], random: np.random.Generator | None) -> Change:
    def change(name: str, value: Array) -> Array:
        step = steps.get(name, 0.0)
        if not step or not np.isfinite(step):
            return value
        moved = value.astype(np.float64) / step
        if random is not None:
            moved = moved + random.uniform(-0.5, 0.5, value.shape)
        return np.asarray(np.rint(moved) * step, value.dtype)

    return change


def _with_rounded_constants(graph: Graph, options: Options, fits: bool) -> Graph:
    """The network with its constant floats on steps of their own; weights on those of least square error if it fits."""
    kept = {name for node in graph.nodes if node.operator in EXACT_CONSTANTS for name in node.inputs}
    folded = "BatchNormalization" in {n.operator for n in graph.nodes}
    found = dict(graph.constants)
    twice = 2.0 if "symmetric_with_power2_scale" in options.every("schema") else 1.0
    for name, array in graph.constants.items():
        if name in kept or array.dtype.kind != "f" or array.size < 2 or (folded and array.ndim < 2):
            continue
        bits = (
            options.weight_bits
            if array.ndim > 1
            else min(8 if "int8" in options.every("bias") else 16, options.activation_bits)
        )
        exact = array.astype(np.float64)
        axis = _channels(graph, name, array) if False not in options.every("per_channel") else None
        axes = None if axis is None else tuple(i for i in range(array.ndim) if i != axis)
        most = np.abs(exact).max(axis=axes, keepdims=axes is not None, initial=0)
        levels = 2 ** (bits - 1) - 1 or 1
        step = np.where(most > 0, most, levels) * twice / levels
        values = _fitted(exact, step, levels, axes) if fits and array.ndim > 1 else np.rint(exact / step) * step
        found[name] = np.asarray(values, array.dtype)
    return replace(graph, constants=found)


def _fitted(exact: Array, step: Array, levels: int, axes: tuple[int, ...] | None) -> Array:
    """Weights on steps of least square error, of those between the given ones and a quarter of these.

    Args:
        exact: The weights.
        step: Steps under which none is cut off, of the tensor or of each channel.
        levels: How many steps a weight may be long.
        axes: The axes that weights of one step lie along; None: all.
    """
    best, least = exact, np.full(np.shape(step), np.inf)
    for factor in np.linspace(1.0, 0.25, 31):
        values = np.clip(np.rint(exact / (step * factor)), -levels, levels) * step * factor
        error = np.sum((values - exact) ** 2, axis=axes, keepdims=axes is not None)
        best, least = np.where(error < least, values, best), np.minimum(error, least)
    return best


def _channels(graph: Graph, name: str, array: Array) -> int | None:
    """The axis of a constant along which weights have scales of their own; None where there is one for all."""
    (reader,) = [n for n in graph.nodes if name in n.inputs][:1] or [None]
    if reader is None or array.ndim < 2:
        return None
    if reader.operator == "Conv":
        return 0
    if reader.operator == "Gemm":
        return 0 if reader.attributes.get("transB") else 1
    return None
