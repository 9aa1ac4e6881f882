"""Whether an operation on quantized types has an integer form, and if not, why.

The quantizer asks before it promises one, nn-to-qint before it builds one: both ask here, so the ledger cannot say
"quantized" of an operation that ends up float. The target's file says which operations it computes on which storage
types (target.py). What is checked here besides follows from arithmetic and holds on every target: weights count from
zero, sums fit a 32-bit accumulator, changes of scale fit a multiplier and a shift.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from qmlir.context import QmlirContext
from qmlir.dialects import nn
from qmlir.dialects.interfaces import element_of, shape_of
from qmlir.dialects.nn.base import NNOp, is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.quant.types import UniformType
from qmlir.target import Target, load_target

Float64s = npt.NDArray[np.float64]
Int64s = npt.NDArray[np.int64]

ACCUMULATOR_MAX = 2**31 - 1
"""The largest magnitude of a sum, and of a bias."""

FACTOR_LIMIT = 2.0**30
"""A factor between scales is below this, as a multiplier and a shift can say (dialects/quant/numerics.py)."""

SUM_EXPONENTS = (-32, 29)
"""The larger of the two factors of a sum is m · 2^e with m in [1/2, 1) and e between these (qint.add)."""


class NoIntegerForm(Exception):
    """An operation that has no integer form: a reason code of the ledger, and a sentence without its subject."""

    def __init__(self, code: str, reason: str):
        super().__init__(reason)
        self.code, self.reason = code, reason


# ---------------------------------------------------------------------------------------------------------------
# What is asked about


def target_of(ctx: Context) -> Target:
    """The target the compiler chose; the CPU where nobody chose."""
    if isinstance(ctx, QmlirContext) and isinstance(ctx.target, Target):
        return ctx.target
    return load_target("cpu")


def storage_name(storage: IntegerType) -> str:
    """A storage type as targets and quantized types write it: i8, u8."""
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    return f"{'u' if unsigned else 'i'}{storage.width.data}"


def data_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands whose types a quantized operation needs: all but a bias and indices; none off the nn level."""
    return op.data_operands() if isinstance(op, NNOp | MovementOp) else ()


def data_values(op: Operation) -> Sequence[SSAValue]:
    """The data operands, weights among them, and the results."""
    operands = data_operands(op)
    return (*operands, *op.results) if operands else ()


def is_weight(value: SSAValue, op: Operation) -> bool:
    """Whether `op` reads `value` as its weights."""
    return isinstance(op, WeightedOp) and value is op.w


def uniform(value: SSAValue) -> UniformType:
    """The quantized element type of a value known to have one."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element


def widest(element: UniformType) -> int:
    """The largest magnitude of a stored integer minus its zero point."""
    return max(abs(element.storage_min - element.zero_point), abs(element.storage_max - element.zero_point))


# ---------------------------------------------------------------------------------------------------------------
# The judgement


def require_integer_form(op: Operation, target: Target) -> None:
    """Judges an operation on quantized types; a constant bias may still be f32.

    Raises:
        NoIntegerForm: It has none on this target, or with these scales and sizes.
    """
    for value in data_values(op):
        if (reason := target.why_float(op.name, storage_name(uniform(value).storage))) is not None:
            raise NoIntegerForm("target", reason)
        if uniform(value).is_per_axis and not is_weight(value, op):
            raise NoIntegerForm("target", "activations with a scale for each channel have no integer form")
    if isinstance(op, WeightedOp):
        _require_weights(op)
    _require_accumulator(op)
    _require_factors(op)


def _require_weights(op: WeightedOp) -> None:
    if any(uniform(op.w).zero_points):
        raise NoIntegerForm("target", "weights with a zero point have no integer form; quantize them symmetrically")


def _require_accumulator(op: Operation) -> None:
    bound, what = _accumulator(op)
    if bound > ACCUMULATOR_MAX:
        raise NoIntegerForm("accumulator", f"{what} can reach {bound}, more than a 32-bit accumulator holds")


def _accumulator(op: Operation) -> tuple[int, str]:
    """How large the sums of an operation can become, and what to call them."""
    match op:
        case WeightedOp():
            bounds = _weight_sums(op) * widest(uniform(op.x))
            if (bias := stored_bias(op)) is not None:
                bounds = bounds + np.abs(bias)
            channel = int(bounds.argmax()) if bounds.size else 0
            return int(bounds.max(initial=0)), f"the sum of products in channel {channel}"
        case nn.MatMulOp():
            depth = shape_of(op.lhs)[-1]
            return depth * widest(uniform(op.lhs)) * widest(uniform(op.rhs)), "a sum of products"
        case nn.MulOp():
            return widest(uniform(op.lhs)) * widest(uniform(op.rhs)), "a product"
        case nn.GlobalAveragePoolOp():
            _, rows, columns, _ = shape_of(op.x)
            return rows * columns * widest(uniform(op.x)), "the sum over the image"
        case _:
            return 0, ""


def _weight_sums(op: WeightedOp) -> Int64s:
    """Σ |w| for each output channel: exact for constant weights, the most their type allows for others."""
    shape, channels = shape_of(op.w), op.output_channels()
    if isinstance(op.w.owner, nn.ConstantOp):
        stored = np.moveaxis(op.w.owner.value.array, op.CHANNEL_AXIS, 0).reshape(channels, -1)
        return np.abs(stored.astype(np.int32)).sum(axis=1, dtype=np.int64)
    weights = uniform(op.w)
    most = max(abs(weights.storage_min), abs(weights.storage_max))
    return np.full(channels, most * (math.prod(shape) // max(channels, 1)), np.int64)


def stored_bias(op: WeightedOp) -> Int64s | None:
    """An operation's bias in steps of its accumulator, s_x · s_w; None where it has none.

    Raises:
        NoIntegerForm: It is computed at run time, or does not fit 32 bits.
    """
    if op.b is None:
        return None
    if not isinstance(op.b.owner, nn.ConstantOp):
        raise NoIntegerForm("bias", "its bias is computed at run time; only a constant bias can be quantized")
    array = op.b.owner.value.array
    if not is_float(op.b):
        if array.dtype != np.int32:
            raise NoIntegerForm("bias", f"its bias is stored as {array.dtype.name}; accumulators are int32")
        return array.astype(np.int64)
    steps = uniform(op.x).scale * np.array(uniform(op.w).scales)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        stored = np.rint(array.astype(np.float64) / steps)
    fits = np.abs(stored) <= ACCUMULATOR_MAX  # false for NaN too
    if not fits.all():
        channel = int((~fits).argmax())
        raise NoIntegerForm(
            "bias",
            f"its bias {array[channel]:g} in channel {channel} does not fit 32 bits in steps of "
            f"{steps[channel % len(steps)]:g}; widen that channel's weight scale",
        )
    return stored.astype(np.int64)


def _require_factors(op: Operation) -> None:
    found = factors(op)
    if isinstance(op, nn.AddOp | nn.SubOp):
        exponent = math.frexp(float(found.max()))[1]
        fits = SUM_EXPONENTS[0] <= exponent <= SUM_EXPONENTS[1]
    else:
        fits = bool((found < FACTOR_LIMIT).all())
    if not fits:
        raise NoIntegerForm(
            "factor", f"its scales are a factor of {float(found.max()):g} apart, which no 32-bit multiplier bridges"
        )


def factors(op: Operation) -> Float64s:
    """The real factors between an operation's integers and its result's.

    One, or one for each output channel; for a sum, one for each operand; none where integers are only moved or
    looked up.
    """
    match op:
        case WeightedOp():
            data, result = uniform(op.x).scale, uniform(op.y).scale
            return np.array([data * s / result for s in uniform(op.w).scales])
        case nn.MatMulOp() | nn.MulOp():
            return np.array([uniform(op.lhs).scale * uniform(op.rhs).scale / uniform(op.y).scale])
        case nn.AddOp() | nn.SubOp():
            result = uniform(op.y).scale
            return np.array([uniform(op.lhs).scale / result, uniform(op.rhs).scale / result])
        case nn.ReluOp() | nn.ClampOp() | nn.RequantizeOp():
            return np.array([uniform(op.x).scale / uniform(op.y).scale])
        case nn.GlobalAveragePoolOp():
            _, rows, columns, _ = shape_of(op.x)
            return np.array([uniform(op.x).scale / (uniform(op.y).scale * rows * columns)])
        case _:
            return np.zeros(0)
