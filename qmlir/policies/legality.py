"""Decides whether an operation on quantized types has an integer form, and if not, why.

The quantizer asks before it quantizes an operation, nn-to-qint before it lowers the operation. Both ask here, so the
ledger never says "quantized" of an operation that ends up float. The operation says what its form requires on every
target (dialects/nn/quantizable.py), the target which operations it computes on which storage types. If sums of products
may exceed 32 bits with the actual weights, they get an i64 accumulator, provided that the target has contracts for it.
"""

from xdsl.context import Context
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.nn.attention import AttendOp
from qmlir.dialects.nn.contraction import ContractionOp
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.nn.quantizable import ACCUMULATOR_MAX, QuantizableOp, computed_storage, data_values, uniform
from qmlir.dialects.target import Target, load_target
from qmlir.errors import UnsupportedError
from qmlir.ir.context import QmlirContext
from qmlir.numerics.contracts import WIDE_LIMIT
from qmlir.policies.runtime_kernels import followed_runtime, has_rounding, no_wide_form, rounding_for, wide_rounding


def target_of(ctx: Context) -> Target:
    """Returns the target the compiler chose, or the CPU if it chose none."""
    if isinstance(ctx, QmlirContext) and isinstance(ctx.target, Target):
        return ctx.target
    return load_target("cpu")


def _takes_words(op: QuantizableOp, value: SSAValue, target: Target) -> bool:
    """Whether a target takes a value of 32 bits: contractions read such data only where no runtime is followed."""
    reads = isinstance(op, ContractionOp) and value in op.operands
    return not reads or (target.wide_results and followed_runtime(op) == "default")


def require_integer_form(op: Operation, target: Target) -> None:
    """Checks that an operation on quantized types has an integer form; a constant bias may still be f32.

    Raises:
        UnsupportedError: The operation has no integer form on this target, or with these scales and sizes.
    """
    if not isinstance(op, QuantizableOp):
        return
    for value in data_values(op):
        refusal = target.refusal(op, computed_storage(uniform(value).storage))
        if refusal is not None and not (op.is_accumulator(value) and _takes_words(op, value, target)):
            code, reason = refusal
            raise UnsupportedError(reason, code=code)
        if uniform(value).is_per_axis and not op.is_weight(value):
            if isinstance(value.owner, ConstantOp):
                raise UnsupportedError("constants with a scale for each channel have an integer form as weights only")
            raise UnsupportedError("activations with a scale for each channel have no integer form")
    op.check_integer_form()
    sums = op.sums()
    # An i32 accumulator also holds −2^31, which the bound leaves out; 64-bit contracts have symmetric ranges.
    if sums.bound > min((1 << target.sum_bits - 1) - 1, WIDE_LIMIT - 1):
        need = f"{sums} can reach {sums.bound}, more than a {target.sum_bits}-bit accumulator holds"
        raise UnsupportedError(need, code="accumulator")
    if sums.bound > ACCUMULATOR_MAX and not isinstance(op, ContractionOp | AttendOp):
        rounding = rounding_for(op, followed_runtime(op), target.contract)
        if wide_rounding(op, rounding) is None:
            raise UnsupportedError(no_wide_form(rounding), code="accumulator")
    if not op.factors_fit():
        most = float(op.factors().max())
        need = f"its scales are a factor of {most:g} apart, which no 32-bit multiplier bridges"
        raise UnsupportedError(need, code="factor")
    if (lost := op.lost_sums()) and not has_rounding(op, followed_runtime(op)):
        raise UnsupportedError(lost, code="factor")
