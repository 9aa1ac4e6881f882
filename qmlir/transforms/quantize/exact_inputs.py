"""Keeps the integers of inputs that are integers times a step, as pictures and recordings are.

A range learnt from some samples rarely ends where the range of the format does. Its steps are then a little narrower
than the data's, and every value is rounded. With samples at hand, the step can be read off the values themselves; the
integers are exact from there on.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.quant.rules import keeps_scale
from qmlir.numerics.schemas import STORAGE_RANGES, Precision
from qmlir.policies.quantized_values import data_operands
from qmlir.policies.recipe import POLICY, policy_attribute, recipe_of
from qmlir.transforms.quantize.inputs import float_input
from qmlir.transforms.quantize.recipes import Recipes

Array = npt.NDArray[Any]

TOLERANCE = 1e-3
"""How far from a whole number of steps a value may lie, in steps: float32 rounding, no more."""


def keep_integers(function: FuncOp, inputs: Sequence[Sequence[Array]], recipes: Recipes) -> None:
    """Finds the step of each input that is integers times a step, and writes it on the input's observer, as a policy.

    Args:
        function: The network; its observers change.
        inputs: Some samples, each an array for each input.
        recipes: The recipes (quantization configs) of the network. An input with parameters or a range of its own stays
            as it is. So does an input that shares a type with other tensors, as the parts of a concat do, since its
            integers are not theirs.
    """
    observers = {o.value: o for o in function.walk() if isinstance(o, ObserveOp)}
    for index, argument in enumerate(function.body.block.args):
        value = float_input(argument)
        if value is None or (observer := observers.get(value)) is None:
            continue
        recipe = recipe_of(observer, recipes.default).in_format(recipes.of_value(value).format)
        said = recipe.parameters is not None or recipe.range is not None or recipe.glow_exact
        if said or recipe.schema != "asymmetric" or recipe.calibration != "auto":
            continue
        if not _has_a_type_of_its_own(value):
            continue
        values = np.unique(np.concatenate([np.unique(sample[index]) for sample in inputs]))
        if (parameters := integers_of(values, recipe.precision)) is not None:
            held = observer.attributes.get(POLICY)
            policy = policy_attribute({"parameters": parameters})
            observer.attributes[POLICY] = policy if held is None else type(policy)({**held.data, **policy.data})  # type: ignore[union-attr]


def _has_a_type_of_its_own(value: SSAValue) -> bool:
    """Whether a value shares its quantized type with no other tensor through operations that keep scales."""
    movers = [u.operation for u in value.uses if keeps_scale(u.operation)]
    alone = all(operand is value for op in movers for operand in data_operands(op))
    return alone and all(_has_a_type_of_its_own(r) for op in movers for r in op.results)


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
