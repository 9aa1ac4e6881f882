"""`quantize-bias`: a bias becomes i32 in units of the accumulator, or i64 where 32 bits do not hold it.

A product of data and weights is in units of s_x·s_w, so the bias is added for nothing when its scale is exactly
that, per output channel where the weights are per channel, with zero point 0. One of 64 bits is plain i64, which
implies that scale: quantized types end at 32 bits. A bias that is computed, or too large for an accumulator, stays f32;
its operation is recorded as float, and nn-to-qint computes it so.

A bias of 8 or 16 bits is an i32 whose range says so: `choose-scales` has widened the weight scales that would have
made it larger, and the decision names their channels.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, TensorType, i32, i64
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qmlir import WIDENED
from qmlir.dialects.quant.rules import AccumulatorScale
from qmlir.ledger import decide, decision_of
from qmlir.legality import (
    SAME_SCALE,
    Int64s,
    NoIntegerForm,
    bias_constant,
    bias_ratios,
    require_integer_form,
    stored_bias,
    target_of,
    uniform,
)
from qmlir.passes import option
from qmlir.recipe import BiasPrecision, Recipe, recipe_of
from qmlir.target import Target


@dataclass(frozen=True)
class QuantizeBiasPass(ModulePass):
    """Gives each quantized convolution and fully connected layer an integer bias of scale s_x·s_w.

    ```mlir
    %b = nn.constant <tensor<1xf32>, [0.25]> : tensor<1xf32>
    // becomes, under data of scale 0.5 and weights of scale 0.01
    %b = nn.constant <tensor<1xi32>, [50]> : tensor<1x!quant.uniform<i32:f32, 5.000000e-03>>
    ```
    """

    name = "quantize-bias"
    bias: BiasPrecision = option("auto", "storage of biases, where operations do not say it themselves")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        for operation in [o for o in op.walk() if isinstance(o, WeightedOp)]:
            if operation.b is not None and is_float(operation.b) and is_quantized(operation.x):
                _quantize_bias(operation, target, recipe_of(operation, Recipe(bias=self.bias)).bias)


def _quantize_bias(op: WeightedOp, target: Target, precision: BiasPrecision) -> None:
    widened = op.attributes.pop(WIDENED, None)
    try:
        if precision == "int64" and target.sum_bits <= 32:
            raise NoIntegerForm("bias", f"a bias of 64 bits needs sums of 64 bits, which {target.name} has not")
        require_integer_form(op, target)
    except NoIntegerForm as why:
        decide(op, "float", why.code, why.reason)
        return
    stored, constant = stored_bias(op), bias_constant(op)
    assert op.b is not None
    assert stored is not None
    assert constant is not None
    stored = _held(stored, precision)
    repairs = [_repair(op, constant, stored), _widening(widened, precision, target)]
    old = op.b.owner
    type = _bias_type(op, stored, precision)
    held = stored.astype(np.int64 if type == i64 else np.int32)
    bias = ConstantOp(held, TensorType(type, shape_of(op.b)), dict(constant.attributes))
    Rewriter.insert_op(bias, InsertPoint.before(op))
    bias.y.name_hint = constant.y.name_hint
    op.operands[2] = bias.y
    for unused in dict.fromkeys((old, constant)):
        if isinstance(unused, Operation) and not any(r.uses for r in unused.results):
            Rewriter.erase_op(unused)
    said = "; ".join(filter(None, repairs))
    if said and (decision := decision_of(op)) is not None and decision.outcome.data == "quantized":
        decide(op, "quantized", decision.code.data, f"{decision.reason.data}; {said}")


def _widening(widened: Attribute | None, precision: BiasPrecision, target: Target) -> str:
    """Which channels have a wider weight scale for their bias, or the target's shifts, to fit; empty if none has."""
    if not isinstance(widened, DenseArrayBase):
        return ""
    beside = "" if precision == "auto" else f" {precision}"
    channels = [str(c) for c in widened.get_values()]
    some = ", ".join(channels[:4]) + (f" and {len(channels) - 4} more" if len(channels) > 4 else "")
    return f"weight scales widened for biases and shifts to fit{beside} in channel{'s' * (len(channels) > 1)} {some}"


def _repair(op: WeightedOp, constant: ConstantOp, stored: Int64s) -> str:
    """What was changed in a bias that came in integers of another scale than s_x·s_w; empty if nothing was."""
    if not is_quantized(constant.y):
        return ""
    ratios = bias_ratios(op)
    exact = constant.value.array.astype(np.float64) * ratios
    if (np.abs(ratios - 1) < SAME_SCALE).all() or (exact == stored).all():
        return ""
    most = float(np.abs(exact - stored).max())
    return f"its bias, in steps of its own, was rounded to the accumulator's by up to {most:.2g} of one"


def _held(stored: Int64s, precision: BiasPrecision) -> Int64s:
    """A bias within the storage that was asked for, whatever a correction added since scales were chosen."""
    if precision in ("auto", "int64"):
        return stored
    limit = (1 << int(precision.removeprefix("int")) - 1) - 1
    return np.clip(stored, -limit - 1, limit)


def _bias_type(op: WeightedOp, stored: Int64s, precision: BiasPrecision) -> Attribute:
    """The quantized type of scale s_x·s_w; a plain one, which implies it, for 64 bits or where it is no f32 scale."""
    if precision == "int64" or not np.array_equal(stored, stored.astype(np.int32)):
        return i64
    bits = 32 if precision == "auto" else int(precision.removeprefix("int"))
    (rule,) = op.get_traits_of_type(AccumulatorScale)
    try:
        return rule.bias_type(uniform(op.x), uniform(op.w), bits)
    except VerifyException:
        return i32
