"""Lowering of convolutions, fully connected layers and matrix products: accumulators, then one requantization.

Accumulators have 32 bits if the bound on the sums, which follows from the weights, shows that 32 bits are enough, and
else 64 bits. Some runtimes always accumulate products of 16-bit data in 64 bits and round them by another contract; the
lowering follows them.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qint.base import int32, width_of
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.lowering.nn_to_qint.saturation import lower_saturating, saturates
from qmlir.lowering.nn_to_qint.scales import requantize
from qmlir.numerics import fixed_point
from qmlir.policies.legality import NoIntegerForm, centred_weights, factors, fits_32_bits, is_accumulator, stored_bias
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtimes import Rounding

_INTEGER_FORM: dict[type[WeightedOp], type[qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp]] = {
    nn.Conv2DOp: qint.Conv2DOp,
    nn.DepthwiseConv2DOp: qint.DepthwiseConv2DOp,
    nn.FullyConnectedOp: qint.FullyConnectedOp,
}


def lower_weighted(op: WeightedOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a convolution or fully connected layer: acc = Σ (x − z_x)·w + b, then y = z_y + acc · s_x·s_w / s_y."""
    if op.b is not None and is_float(op.b):
        raise NoIntegerForm("bias", "its bias is still float; run --quantize-bias")
    if saturates(op, rounding) and fits_32_bits(op):
        return lower_saturating(op, operands, rounding)
    properties: dict[str, Attribute] = {"zero_point": int32(uniform(op.x).zero_point)}
    properties |= {k: op.properties[k] for k in ("strides", "padding", "dilations", "groups") if k in op.properties}
    x, w, *b = operands
    new: list[Operation] = []
    if (centred := _centred(op)) is not None:
        new.append(centred)
        w = centred.y
    accumulator, contract = _sums(op, rounding)
    if b and element_of(b[0]) != accumulator:
        stored = stored_bias(op)
        assert stored is not None
        bias = nn.ConstantOp(stored.astype(f"i{accumulator.width.data // 8}"))
        new.append(bias)
        b = [bias.y]
    sums = _INTEGER_FORM[type(op)].make([x, w, b], properties, element=accumulator)
    return [*new, *_ended(op, sums, sums.acc, contract)]


def _sums(op: WeightedOp | nn.MatMulOp, rounding: Rounding) -> tuple[IntegerType, Rounding]:
    """The type of the accumulators, and their rounding.

    Raises:
        NoIntegerForm: The contract has no 64-bit form, or the factor between the scales is too large for it.
    """
    if rounding.wide is not None and _is_wide(op, rounding):
        wide = rounding.wide
    elif fits_32_bits(op):
        return i32, rounding
    elif (contract := fixed_point.CONTRACTS[rounding.contract].wide) is not None:
        wide = Rounding(contract)
    else:
        raise NoIntegerForm("accumulator", f"its sums may need 64 bits, which contract {rounding.contract} has not")
    most = float(factors(op).max())
    if most >= 2.0 ** fixed_point.CONTRACTS[wide.contract].max_shift:
        raise NoIntegerForm("factor", f"its scales are a factor of {most:g} apart, too far for {wide.contract}")
    return i64, wide


def _is_wide(op: WeightedOp | nn.MatMulOp, rounding: Rounding) -> bool:
    """Whether the followed runtime accumulates in 64 bits for an operation with this bias."""
    width = _bias_width(op)
    return rounding.unbiased if width is None else width == 64 or not rounding.narrow


def _bias_width(op: WeightedOp | nn.MatMulOp) -> int | None:
    """The width in bits in which the bias is added; None for an operation without a bias.

    A bias that is stored in 8 or 16 bits is added in the width that the runtime uses for any bias: 64 bits if the data
    are wider than 8 bits, as in LiteRT, else 32 bits.
    """
    if isinstance(op, nn.MatMulOp) or op.b is None:
        return None
    bias = element_of(op.b)
    if not isinstance(bias, UniformType):
        return width_of(op.b)
    return 64 if bias.storage_width < 32 and uniform(op.x).storage_width > 8 else 32


def _centred(op: WeightedOp) -> nn.ConstantOp | None:
    """Constant weights minus their zero points, i8 if all differences fit, else i16.

    Returns:
        The constant; None if the weights have no zero point or are computed at run time.
    """
    if not any(uniform(op.w).zero_points) or not isinstance(op.w.owner, nn.ConstantOp):
        return None
    array = centred_weights(op, op.w.owner.value.array)
    narrow = np.int8 if np.abs(array).max(initial=0) < 128 else np.int16
    return nn.ConstantOp(array.astype(narrow))


def _ended(op: WeightedOp | nn.MatMulOp, sums: Operation, acc: SSAValue, rounding: Rounding) -> list[Operation]:
    """The accumulating operation and its requantization, which is left out if the result is the accumulators."""
    itself = is_accumulator(op.y, op) and element_of(acc) == i32
    return [sums] if itself else [sums, requantize(acc, op, rounding)]


def lower_matmul(op: nn.MatMulOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a matrix product: acc = Σ (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y."""
    lhs, rhs = uniform(op.lhs), uniform(op.rhs)
    if rhs.zero_point and rounding.otherwise is not None:
        rounding = rounding.otherwise
    accumulator, contract = _sums(op, rounding)
    zero_points = {"lhs_zero_point": int32(lhs.zero_point), "rhs_zero_point": int32(rhs.zero_point)}
    sums = qint.MatMulOp.make(operands, zero_points, element=accumulator)
    return _ended(op, sums, sums.acc, contract)
