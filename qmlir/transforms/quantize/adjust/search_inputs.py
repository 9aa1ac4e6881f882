"""Scales of the network's inputs: `keep-integers` keeps integers exactly, `search-inputs` costs the results least."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ReshapeOp, TransposeOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.ir.facts import POLICY
from qmlir.ir.traversal import reached
from qmlir.numerics import Array
from qmlir.numerics.schemas import STORAGE_RANGES, Precision, power_of_two_above
from qmlir.policies.legality import target_of
from qmlir.settings.quant_config import add_settings, config_of, op_config_of
from qmlir.transforms.quantize.adjust.channel_pairs import evaluations
from qmlir.transforms.quantize.adjust.side_by_side import SampledPass
from qmlir.transforms.quantize.op_configs import OpConfigs, float_input

# ---------------------------------------------------------------------------------------------------------------
# Keeps the integers of inputs that are integers times a step, as pictures and recordings are.
#
# A range learnt from some samples rarely ends where the range of the format does. Its steps are then a little narrower
# than the data's, and every value is rounded. With samples at hand, the step can be read off the values themselves; the
# integers are exact from there on.


TOLERANCE = 1e-3
"""How far from a whole number of steps a value may lie, in steps: float32 rounding, no more."""


@dataclass(frozen=True)
class KeepIntegersPass(SampledPass):
    """Gives inputs whose samples are integers times a step the parameters that keep these integers.

    ```mlir
    calib.observe %x {name = "x", range = [0.0, 0.9]} : tensor<1x4xf32>
    // becomes, if all samples are multiples of 1/255
    calib.observe %x {name = "x", qmlir.policy = {parameters = [0.00392156886, -128]}, range = [0.0, 0.9]} : …
    ```
    """

    name = "keep-integers"

    def adjust(self, function: FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> None:
        keep_integers(
            function, samples, OpConfigs(function.body.block, config_of(function).op_config(), target_of(ctx))
        )


def keep_integers(function: FuncOp, inputs: Sequence[Sequence[Array]], op_configs: OpConfigs) -> None:
    """Finds the step of each input that is integers times a step, and writes it on the input's observer, as a policy.

    Args:
        function: The network; its observers change.
        inputs: Some samples, each an array for each input.
        op_configs: The quantization configs of the network. An input with parameters or a range of its own stays
            as it is. So does an input that shares a type with other tensors, as the parts of a concat do, since its
            integers are not theirs.
    """
    observers = {o.value: o for o in function.walk() if isinstance(o, ObserveOp)}
    for index, argument in enumerate(function.body.block.args):
        value = float_input(argument)
        if value is None or (observer := observers.get(value)) is None:
            continue
        op_config = op_config_of(observer, op_configs.default).in_format(op_configs.of_value(value).format)
        said = op_config.parameters is not None or op_config.range is not None or op_config.glow_exact
        if said or op_config.schema != "asymmetric" or op_config.calibration != "auto":
            continue
        if not _has_a_type_of_its_own(value):
            continue
        values = np.unique(np.concatenate([np.unique(sample[index].astype(np.float32)) for sample in inputs]))
        if (parameters := integers_of(values, op_config.integers)) is not None:
            add_settings(observer, {"parameters": parameters})


def _has_a_type_of_its_own(value: SSAValue) -> bool:
    """Whether a value shares its quantized type with no other tensor through operations that keep scales."""

    def movers(value: SSAValue) -> list[Operation]:
        return [u.operation for u in value.uses if keeps_scale(u.operation)]

    moved = reached([value], lambda v: [r for op in movers(v) for r in op.results])
    return all(operand is v for v in moved for op in movers(v) for operand in data_operands(op))


def integers_of(values: Array, precision: Precision) -> tuple[float, int] | None:
    """(scale, zero point) under which each value is an integer; None if there are no such parameters.

    If the values leave integers unused, the values lie in the middle of the integers. Values that are never negative
    begin at the least integer.

    Args:
        values: The distinct values, in ascending order.
        precision: The storage of the integers.
    """
    qmin, qmax = STORAGE_RANGES[precision]
    if not 2 < len(values) <= qmax - qmin + 1 or values.dtype.kind != "f":
        return None
    wide = values.astype(np.float64)
    step = float(np.diff(wide).min())
    counts = np.rint(wide / step)
    largest = int(np.abs(counts).argmax())
    step = float(np.float32(wide[largest] / counts[largest]))
    if np.abs(wide / step - counts).max() > TOLERANCE or counts[-1] - counts[0] > qmax - qmin:
        return None
    least, greatest = qmin - min(int(counts[0]), 0), qmax - max(int(counts[-1]), 0)
    return (step, least if counts[0] >= 0 else (least + greatest) // 2) if least <= greatest else None


# ---------------------------------------------------------------------------------------------------------------
# Searches the power-of-two scales of inputs that cost the network's results least.
#
# An input differs from other activations: its channels and positions mean different things, and its largest values need
# not matter most. In a spectrum, the largest coefficient, which is the mean of all, may saturate if small coefficients
# need a finer step. The error of the input's own values says nothing about that; the error of the network's results
# does. So each exponent is tried, from the exponent that holds all values downwards: the float network runs on rounded
# inputs, and the least square error of its results on calibration data decides.
#
# Enters and leaves: a float network with observers that hold ranges.


FINER = 3
"""The number of exponents that are tried below the exponent that holds all values."""

SAMPLES = 64
"""The largest number of samples that exponents are tried on."""


@dataclass(frozen=True)
class SearchInputsPass(SampledPass):
    """Gives inputs the power-of-two scale that costs the network's results least, where the schema has such scales.

    ```mlir
    calib.observe %x {name = "x", range = [-1.0, 100.0]} : tensor<1x4xf32>
    // becomes
    calib.observe %x {name = "x", qmlir.policy = {parameters = [0.25, 0]}, range = [-1.0, 100.0]} : tensor<1x4xf32>
    ```
    """

    name = "search-inputs"

    def adjust(self, function: FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> None:
        if (op_config := config_of(function).op_config()).searches_exponents:
            search_inputs(function, samples, OpConfigs(function.body.block, op_config, target_of(ctx)))


def search_inputs(function: FuncOp, inputs: Sequence[Sequence[Array]], op_configs: OpConfigs) -> None:
    """Writes the power-of-two scale that costs the results least on the observer of each input, as a policy.

    Args:
        function: The network; its observers change.
        inputs: Some samples, each an array for each input.
        op_configs: The quantization configs of the network. An input stays as it is if it has a policy of its
            own, or if operations other than contractions (convolutions, fully connected layers) read it.
    """
    block, inputs = function.body.block, inputs[:SAMPLES]
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
    last = block.last_op
    assert last is not None
    results = {v for v in last.operands if v not in block.args}
    for index, argument in enumerate(block.args):
        value = float_input(argument)
        if value is None or (observer := observers.get(value)) is None:
            continue
        op_config = op_configs.of_value(value)
        if POLICY.on(observer) or not op_config.searches_exponents:
            continue
        if observer.bounds is None or observer.bounds[0] == observer.bounds[1] or not results:
            continue
        if not _feeds_contractions(value):
            continue
        truth = list(evaluations(block, inputs, results))
        errors: dict[float, float] = {}
        for scale in _scales(*observer.bounds, op_config.integers):
            rounded = [
                [_rounded(a, scale, op_config.integers) if i == index else a for i, a in enumerate(s)] for s in inputs
            ]
            errors[scale] = sum(
                float(np.square(got[v].astype(np.float64) - exact[v]).sum())
                for exact, got in zip(truth, evaluations(block, rounded, results), strict=True)
                for v in results
            )
        best = min(errors, key=lambda scale: (errors[scale], -scale))
        add_settings(observer, {"parameters": (best, 0)})


def _feeds_contractions(value: SSAValue) -> bool:
    """Whether only contractions read a value: other readers may tie it to tensors that need other scales."""

    def readers(value: SSAValue) -> list[Operation]:
        return [u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)]

    moved = reached([value], lambda v: [o.y for o in readers(v) if isinstance(o, ReshapeOp | TransposeOp)])
    return all(isinstance(o, WeightedOp | ReshapeOp | TransposeOp) for v in moved for o in readers(v))


def _scales(lo: float, hi: float, precision: Precision) -> list[float]:
    """Powers of two to try as scales, from the scale that holds a range downwards."""
    qmin, qmax = STORAGE_RANGES[precision]
    highest = power_of_two_above(max(lo / qmin, hi / qmax))
    return [highest / 2**i for i in range(FINER + 1)]


def _rounded(values: Array, scale: float, precision: Precision) -> Array:
    qmin, qmax = STORAGE_RANGES[precision]
    return (np.clip(np.rint(values / np.float32(scale)), qmin, qmax) * np.float32(scale)).astype(np.float32)
