"""Integer forms of convolutions and matrix products, and sums in pairs that saturate."""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i8, i32, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import is_exact, uniform
from qmlir.dialects.qint.requantize import int32, width_of
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from qmlir.ir.facts import INTEGER_OPERATOR, UNSIGNED_WEIGHTS
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.ir.levels import stating
from qmlir.lowering.nn_to_qint.computed_weights import Made, products, windows
from qmlir.lowering.nn_to_qint.movement import reshape, window_properties
from qmlir.lowering.nn_to_qint.scales import fitted, operand_zero_points, requantize, sums_of, wide
from qmlir.numerics.levels import Even
from qmlir.numerics.packing import BYTE, few_bits
from qmlir.policies.runtime_kernels import sign_shift
from qmlir.policies.runtimes import Rounding

# ---------------------------------------------------------------------------------------------------------------
# Contractions of u8 data and s8 weights as onnxruntime computes them without VNNI: pairs of products saturate.
#
# onnxruntime's kernels multiply u8 by s8, add two neighbouring products with saturation at 16 bits, and accumulate the
# pairs in 32 bits. The order of the weights, [rows, columns, channels], decides which products are neighbours.
# Therefore the input of each output becomes one row of a matrix (im2col): the image is padded with the zero point, and
# one slice for each weight position (tap) is concatenated. The data are the integers that the source model stores, with
# their zero point. What the zero point adds to the sums, z · Σw, is subtracted from the bias.


def saturates(op: WeightedOp, rounding: Rounding) -> bool:
    """Whether pairs of products saturate: the operation is an integer operator of u8 by s8 in the source model."""
    constant = isinstance(op.w.owner, nn.ConstantOp)
    fits = isinstance(op, nn.FullyConnectedOp) or (isinstance(op, nn.Conv2DOp) and op.group_count() == 1)
    of_bytes = uniform(op.x).storage == uniform(op.w).storage == i8  # data may have got 16 bits since
    symmetric = of_bytes and not UNSIGNED_WEIGHTS.on(op) and not any(uniform(op.w).zero_points)
    marked = INTEGER_OPERATOR.on(op) and sign_shift(op) == 128
    return rounding.pairs and marked and constant and fits and symmetric


def lower_saturating(op: WeightedOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers to acc = (b − z·Σw) + Σ sat16(x·w + x'·w'), x as stored, then y = z_y + acc · s_x·s_w / s_y."""
    assert isinstance(op.w.owner, nn.ConstantOp)
    weights = op.w.owner.value.array
    new, rows = _rows(op, operands[0])
    matrix = nn.ConstantOp(weights.reshape(weights.shape[0], -1))
    bias = nn.ConstantOp(_bias(op, weights))
    sums = qint.SaturatingFullyConnectedOp.make([rows, matrix.y, [bias.y]], {"zero_point": int32(-sign_shift(op))})
    new += [matrix, bias, sums]
    if not is_exact(op):
        new.append(requantize(sums.acc, op, rounding))
    if shape_of(new[-1].results[0]) != shape_of(op.y):
        new.append(reshape(new[-1].results[0], shape_of(op.y)))
    return new


def _bias(op: WeightedOp, weights: Array) -> Array:
    point = uniform(op.x).zero_point + sign_shift(op)
    constant = -point * weights.reshape(weights.shape[0], -1).astype(np.int64).sum(axis=1)
    bias = op.stored_bias()
    total = constant if bias is None else constant + bias
    # The bound that legality.py proves for the sums covers this bias: the sum equals it if all data are stored as 0.
    return total.astype(np.int32)


def _rows(op: WeightedOp, x: SSAValue) -> tuple[list[Operation], SSAValue]:
    """The input of each output as one row of a matrix [N·OH·OW, KH·KW·C].

    Returns:
        The operations that make the matrix, and the matrix.
    """
    if not isinstance(op, nn.Conv2DOp):
        return [], x
    made = Made()
    batch, rows, columns, _ = shape_of(op.y)
    taps = windows(made, op, x)
    return made.operations, made.reshape(taps, (batch * rows * columns, shape_of(taps)[-1]))


# ---------------------------------------------------------------------------------------------------------------
# Lowering of convolutions, fully connected layers and matrix products: accumulators, then one requantization.
#
# Accumulators have 32 bits if the bound on the sums, which follows from the weights, shows that 32 bits are enough, and
# else 64 bits. Some runtimes always accumulate products of 16-bit data in 64 bits and round them by another contract;
# the lowering follows them.


_INTEGER_FORM: dict[type[WeightedOp], type[qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp]] = {
    nn.Conv2DOp: qint.Conv2DOp,
    nn.DepthwiseConv2DOp: qint.DepthwiseConv2DOp,
    nn.FullyConnectedOp: qint.FullyConnectedOp,
}


def lower_weighted(op: WeightedOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a convolution or fully connected layer: acc = Σ (x − z_x)·w + b, then y = z_y + acc · s_x·s_w / s_y."""
    if op.b is not None and is_float(op.b):
        raise UnsupportedError("its bias is still float; run --quantize-bias", code="bias")
    if saturates(op, rounding) and op.fits_32_bits():
        return lower_saturating(op, operands, rounding)
    if not isinstance(op.w.owner, nn.ConstantOp):
        return _lower_computed(op, operands, rounding)
    properties = {"zero_point": int32(uniform(op.x).zero_point), **window_properties(op)}
    x, w, *b = operands
    new: list[Operation] = []
    if (less_zero_point := _less_zero_point(op)) is not None:
        new.append(less_zero_point)
        w = less_zero_point.y
    accumulator, contract = _sums(op, rounding)
    if b and element_of(b[0]) != accumulator:
        stored = op.stored_bias()
        assert stored is not None
        bias = nn.ConstantOp(stored.astype(f"i{accumulator.width.data // 8}"))
        new.append(bias)
        b = [bias.y]
    sums = _INTEGER_FORM[type(op)].make([x, w, b], properties, element=accumulator)
    return [*new, *_ended(op, sums, sums.acc, contract)]


def _lower_computed(op: WeightedOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a layer with computed weights: acc = b + Σ (x − z_x)·(w − z_w), then as with constant weights."""
    accumulator, contract = _sums(op, rounding)
    made = products(op, operands[0], operands[1], accumulator)
    if (stored := op.stored_bias()) is not None:
        bias = nn.ConstantOp(stored.astype(f"i{accumulator.width.data // 8}"))
        made.operations += [bias, nn.AddOp.make([made.operations[-1].results[0], bias.y])]
    *first, last = made.operations
    return [*first, *_ended(op, last, last.results[0], contract)]


def lower_blocked(op: nn.BlockedFullyConnectedOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers to acc = b + Σ_g m·Σ (x − z_x)·(w − z), then y = z_y + acc · s_x·S / s_y.

    Blocks with offsets become acc = b + Σ_g (m·Σ (x − z_x)·(w − c) + k·Σ (x − z_x)), with m and k in 16 bits if
    they fit.
    The last block is filled up with weights of 0, and the data with their zero point.
    """
    missing, zero_point = shape_of(op.s)[1] * op.size - shape_of(op.w)[1], uniform(op.x).zero_point
    x, new = operands[0], list[Operation]()
    if missing:
        pads = {"low": ints((0, 0)), "high": ints((0, missing)), "value": IntegerAttr(zero_point, width_of(x))}
        new.append(nn.PadOp.make([x], pads))
        x = new[-1].results[0]
    less_zero_point = np.pad(op.less_zero_point(), ((0, 0), (0, missing)))
    narrow = np.int8 if np.abs(less_zero_point).max(initial=0) < 128 else np.int16
    arrays: list[Array] = [less_zero_point.astype(narrow), op.multipliers()]
    if (offsets := op.offsets()) is not None:
        arrays[1:] = (_in_words(a) for a in (op.multipliers(), offsets))
    if (bias := op.stored_bias()) is not None:
        arrays.append(bias)
    constants = [nn.ConstantOp(array) for array in arrays]
    constants[0].attributes.update(
        stating(even(int(less_zero_point.min(initial=0)), int(less_zero_point.max(initial=0))))
    )
    w, m, *b = (c.y for c in constants)
    properties = {"zero_point": int32(zero_point)}
    if offsets is None:
        sums = qint.BlockedFullyConnectedOp.make([x, w, m, b], properties)
    else:
        sums = qint.AffineFullyConnectedOp.make([x, w, m, b[0], b[1:]], properties)
    return [*new, *constants, sums, requantize(sums.acc, op, wide(op, rounding))]


def _in_words(array: Array) -> Array:
    """Integers in the least of 16, 32 and 64 bits that hold them all."""
    most = int(np.abs(array.astype(np.int64)).max(initial=0))
    return array.astype("i2" if most < 1 << 15 else "i4" if most < 1 << 31 else "i8")


def _sums(op: WeightedOp | nn.MatMulOp, rounding: Rounding) -> tuple[IntegerType, Rounding]:
    """The type of the accumulators, and their rounding.

    Raises:
        UnsupportedError: The contract has no 64-bit form, or the factor between the scales is too large for it.
    """
    if rounding.wide is not None and _is_wide(op, rounding):
        return i64, fitted(op, rounding.wide)
    return sums_of(op, rounding)


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


def _less_zero_point(op: WeightedOp) -> nn.ConstantOp | None:
    """Constant weights minus their zero points, i8 if all differences fit, else i16.

    Returns:
        The constant; None if the weights have no zero point or are computed at run time.
    """
    if not any(uniform(op.w).zero_points) or not isinstance(op.w.owner, nn.ConstantOp):
        return None
    array = op.less_zero_point(op.w.owner.value.array)
    narrow, type = np.int8 if np.abs(array).max(initial=0) < 128 else np.int16, uniform(op.w)
    levels = even(type.storage_min - max(type.zero_points), type.storage_max - min(type.zero_points))
    return nn.ConstantOp(array.astype(narrow), None, stating(levels))


def even(least: int, greatest: int) -> Even | None:
    """The levels of a constant whose integers need 2 to 7 bits; None if they need more."""
    bits = few_bits(least, greatest)
    return None if bits == BYTE else Even(bits)


def _ended(op: WeightedOp | nn.MatMulOp, sums: Operation, acc: SSAValue, rounding: Rounding) -> list[Operation]:
    """The accumulating operation and its requantization, which is left out if the result is the accumulators."""
    if is_exact(op) and element_of(acc) == i32:
        return [sums]
    shape = shape_of(op.y)
    rows, together = (shape, EIGHT) if rounding.rest_below is None else ((prod(shape),), rounding.rest_below)
    whole = rows[-1] // together * together
    if rounding.rest is None or whole == rows[-1]:
        return [sums, requantize(acc, op, rounding)]
    if not whole:
        return [sums, requantize(acc, op, rounding.rest)]
    ends = [requantize(acc, op, rounding), requantize(acc, op, rounding.rest)]
    flat = [reshape(e.y, rows) for e in ends if rows != shape]
    first, rest = (o.results[0] for o in flat or ends)
    parts = [_last(first, 0, whole), _last(rest, whole, rows[-1])]
    joined = nn.ConcatOp.make([[p.y for p in parts]], {"axis": IntegerAttr(len(rows) - 1, i64)})
    back = [reshape(joined.y, shape)] if flat else []
    return [sums, *ends, *flat, *parts, joined, *back]


EIGHT = 8
"""The channels that LiteRT's optimized kernels compute at a time; they round those that are left in another way."""


def _last(x: SSAValue, first: int, end: int) -> nn.SliceOp:
    """Some elements along the last axis."""
    *shape, _ = shape_of(x)
    offsets, strides = (*(0 for _ in shape), first), (1,) * (len(shape) + 1)
    cut = {"offsets": ints(offsets), "sizes": ints((*shape, end - first)), "strides": ints(strides)}
    return nn.SliceOp.make([x], cut)


def lower_matmul(op: nn.MatMulOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers a matrix product: acc = Σ (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y."""
    if uniform(op.rhs).zero_point and rounding.otherwise is not None:
        rounding = rounding.otherwise
    accumulator, contract = _sums(op, rounding)
    sums = qint.MatMulOp.make(operands, operand_zero_points(op), element=accumulator)
    return _ended(op, sums, sums.acc, contract)
