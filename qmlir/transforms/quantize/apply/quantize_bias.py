"""`quantize-bias`: stores a bias as i32 in units of the accumulator, or as i64 where 32 bits do not hold it.

A product of data and weights is in units of s_x·s_w. So adding the bias costs no rescaling if the bias has exactly that
scale, per output channel where the weights are per channel, with zero point 0. A bias of 64 bits is plain i64, which
implies that scale: quantized types end at 32 bits. A bias that is computed, or too large for an accumulator, stays f32;
its operation is recorded as float, and nn-to-qint computes it so.

A bias of 8 or 16 bits has scales of its own: a single scale if the weights have a single scale, else a scale for each
output channel. In units of s_x·s_w so few bits would hold next to nothing: 8 bits hold about a single product. When the
network is lowered, nn-to-qint rounds the bias once to the accumulator's units. If a bias came in 8 or 16 bits with the
network, it stays as it came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.contraction import WeightedOp, real_bias
from qmlir.dialects.nn.quantizable import Int64s, uniform
from qmlir.dialects.quant.rules import AccumulatorScale
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.ir.fact import restated
from qmlir.ir.facts import WIDENED
from qmlir.ir.interfaces import Array, tensor_type
from qmlir.numerics import fixed_point, schemas
from qmlir.numerics.schemas import RANGES, SMALLEST_SCALE, Schema, StoredPrecision, power_of_two_above
from qmlir.policies.ledger import decide, decision_of
from qmlir.policies.legality import require_integer_form, target_of
from qmlir.settings.quant_config import BiasPrecision, OpConfig, config_of, op_config_of
from qmlir.transforms.quantize.reasons import leave_float, no_long_sums


@dataclass(frozen=True)
class QuantizeBiasPass(ModulePass):
    """Gives each quantized convolution and fully connected layer an integer bias, by default of scale s_x·s_w.

    ```mlir
    %b = nn.constant <tensor<1xf32>, [0.25]> : tensor<1xf32>
    // becomes, under data of scale 0.5 and weights of scale 0.01
    %b = nn.constant <tensor<1xi32>, [50]> : tensor<1x!quant.uniform<i32:f32, 5.000000e-03>>
    ```
    """

    name = "quantize-bias"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target, default = target_of(ctx), config_of(op).op_config()
        for operation in [o for o in op.walk() if isinstance(o, WeightedOp)]:
            if operation.b is not None and is_float(operation.b) and is_quantized(operation.x):
                _quantize_bias(operation, target, op_config_of(operation, default))


def _quantize_bias(op: WeightedOp, target: Target, op_config: OpConfig) -> None:
    widened, precision = WIDENED.drop(op), op_config.bias
    try:
        if precision == "int64" and target.sum_bits <= 32:
            leave_float(op, no_long_sums(target))
            return
        require_integer_form(op, target)
    except UnsupportedError as why:
        leave_float(op, why)
        return
    constant = op.bias_constant()
    assert op.b is not None
    assert constant is not None
    old = op.b.owner
    bias, repair = _narrow(op, constant, op_config, target), ""
    if bias is None:
        bias, repair = _accumulated(op, constant, precision)
    Rewriter.insert_op(bias, InsertPoint.before(op))
    bias.y.name_hint = constant.y.name_hint
    op.operands[2] = bias.y
    for unused in dict.fromkeys((old, constant)):
        if isinstance(unused, Operation) and not any(r.uses for r in unused.results):
            Rewriter.erase_op(unused)
    said = "; ".join(filter(None, [repair, _widening(widened)]))
    if said and (decision := decision_of(op)) is not None and decision.outcome.data == "quantized":
        decide(op, "quantized", decision.code.data, f"{decision.reason.data}; {said}")


def _widening(widened: Sequence[int] | None) -> str:
    """A sentence on the channels whose weight scales were widened so that biases and shifts fit; empty without such."""
    if widened is None:
        return ""
    channels = [str(c) for c in widened]
    some = ", ".join(channels[:4]) + (f" and {len(channels) - 4} more" if len(channels) > 4 else "")
    return f"weight scales widened for biases and shifts to fit in channel{'s' * (len(channels) > 1)} {some}"


# A bias in steps of the accumulator


def _accumulated(op: WeightedOp, constant: ConstantOp, precision: BiasPrecision) -> tuple[ConstantOp, str]:
    """A bias of 32 or 64 bits, and a sentence on how it had to be changed; the sentence is empty if it was not."""
    stored = op.stored_bias()
    assert stored is not None
    if precision == "int32":
        stored = np.clip(stored, -1 << 31, (1 << 31) - 1)  # bias correction may have enlarged it
    type = _bias_type(op, stored, precision)
    held = stored.astype(np.int64 if type == i64 else np.int32)
    return ConstantOp(held, TensorType(type, held.shape), restated(constant)), _repair(op, constant, stored)


def _repair(op: WeightedOp, constant: ConstantOp, stored: Int64s) -> str:
    """How a bias that came in integers of another scale than s_x·s_w was changed; empty if it was not."""
    exact = op.bias_in_steps()
    if not is_quantized(constant.y) or exact is None or (exact == stored).all():
        return ""
    most = float(np.abs(exact - stored).max())
    return f"its bias, in steps of its own, was rounded to the accumulator's by up to {most:.2g} of one"


def _bias_type(op: WeightedOp, stored: Int64s, precision: BiasPrecision) -> Attribute:
    """The quantized type of scale s_x·s_w; plain i64 for 64 bits, plain i32 if no type can have that scale."""
    if precision == "int64" or not np.array_equal(stored, stored.astype(np.int32)):
        return i64
    (rule,) = op.get_traits_of_type(AccumulatorScale)
    try:
        return rule.bias_type(uniform(op.x), uniform(op.w))
    except VerifyException:
        return i32


# A bias in steps of its own

OWN: Mapping[BiasPrecision, StoredPrecision] = {"int8": "int8", "int16": "int16"}
"""The storage of biases that have a scale of their own."""


def _narrow(op: WeightedOp, constant: ConstantOp, op_config: OpConfig, target: Target) -> ConstantOp | None:
    """A bias of 8 or 16 bits, if it came so or if the quantization config asks for that; else None."""
    attributes = restated(constant)
    if op_config.bias == "auto" and is_quantized(constant.y) and uniform(constant.y).storage in (i8, i16):
        return ConstantOp(constant.value, tensor_type(constant.y), attributes)
    if (precision := OWN.get(op_config.bias)) is None:
        return None
    real = real_bias(constant)
    data, weights = uniform(op.x), uniform(op.w)
    if op_config.glow_exact:
        found = schemas.stored_bias(
            real, op_config.schema, precision, data.scale, list(weights.scales), per_channel=weights.is_per_axis
        )
    else:
        found = _symmetric(real, op_config.schema, precision, data.scale * np.array(weights.scales), target.moves_bias)
    storage = i8 if precision == "int8" else i16
    if weights.is_per_axis:
        type = UniformType.per_axis(storage, 0, found.scales, found.zero_points)
    else:
        type = UniformType.per_tensor(storage, found.scales[0], found.zero_points[0])
    return ConstantOp(found.integers.astype(type.numpy_dtype), TensorType(type, real.shape), attributes)


def _symmetric(
    real: Array, schema: Schema, precision: StoredPrecision, steps: Array, moved: bool
) -> schemas.StoredBias:
    """Stores a bias in the finest steps in which it fits, but in no finer steps than the accumulator's.

    Args:
        real: The bias as real numbers.
        schema: Decides whether the scales must be powers of two.
        precision: The storage of the integers.
        steps: The accumulator's step of each channel, or of all channels.
        moved: Whether the target shifts the stored bias left into the accumulator. The steps are then the accumulator's
            times one power of two for all channels.
    """
    limit = RANGES[precision][1]
    parts = np.abs(real.reshape(len(steps), -1)).max(axis=1, initial=0.0)
    scales = np.maximum(np.maximum(parts / limit, steps), SMALLEST_SCALE).astype(np.float32).astype(np.float64)
    if moved:
        scales = steps * power_of_two_above(float((np.maximum(parts / limit, steps) / steps).max()))
    elif schema == "symmetric_with_power2_scale":
        scales = np.array([power_of_two_above(scale) for scale in scales.tolist()])
    integers = fixed_point.quantize(real, scales, 0, -limit, limit, np.int64)
    return schemas.StoredBias(integers, scales.tolist(), [0] * len(scales))
