"""The properties of an operation that a device's limits are about: sizes, storage, sums, products."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd, inf, prod
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from qmlir.devices.description.device import Device
from qmlir.devices.model.stored import Array, around_zero_point, as_images, trailing_zeros
from qmlir.devices.model.stored import transfers as transfers_of
from qmlir.dialects import nn, qint
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp as FloatWeightedOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.qint.requantize import largest_difference, width_of
from qmlir.dialects.quant.ops import CastOp, StorageCastOp
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.isa.commands import Division
from qmlir.isa.limits import LEAST_SUMS, term_of
from qmlir.numerics import Int64s
from qmlir.numerics.contracts import MULTIPLIER_BITS

# ---------------------------------------------------------------------------------------------------------------
# The width that sums of products need, from the constant weights and the range of the data type.


@dataclass(frozen=True)
class Sums:
    """The types and the width of a contraction's sums.

    types  types of data and weights, such as `i8 by i8`
    bits   bits that hold each sum and each partial sum, in whatever order products are added
    """

    types: str
    bits: int

    def __str__(self) -> str:
        return f"{self.bits} bits of {self.types}"


def sums_of(op: WeightedOp | qint.MatMulOp, types: str) -> Sums:
    """The width that the sums of a contraction need.

    Padding leaves products out, and slices of the terms are summed one after the other. The width therefore covers
    sums in which any of the products, or the bias, are missing.

    Args:
        op: The contraction.
        types: The types that it multiplies, such as `i8 by i8`.
    """
    if isinstance(op, qint.MatMulOp):
        return Sums(types, 1 + _largest_sum(op).bit_length())
    half, zero_point = 1 << width_of(op.x) - 1, op.zero_point.value.data
    most, least = max(half - 1 - zero_point, 0), min(-half - zero_point, 0)
    up, down = _weights(op)
    bias = np.zeros(1, np.int64) if op.b is None else _numbers(op.b)
    highest = int((most * up - least * down + np.maximum(bias, 0)).max(initial=0))
    lowest = int((least * up - most * down + np.minimum(bias, 0)).min(initial=0))
    return Sums(types, 1 + max(highest.bit_length(), (-1 - lowest).bit_length()))


def _largest_sum(op: qint.MatMulOp) -> int:
    """The largest magnitude that a sum of products of two computed matrices can take."""
    sides = ((op.lhs, op.lhs_zero_point), (op.rhs, op.rhs_zero_point))
    return shape_of(op.lhs)[-1] * prod(largest_difference(value, point.value.data) for value, point in sides)


def _weights(op: WeightedOp) -> tuple[Int64s, Int64s]:
    """For each output channel, the sum of the positive weights and the sum of the magnitudes of the negative weights.

    If the weights are computed, each weight counts with the largest magnitude of its type.
    """
    shape = shape_of(op.w)
    channels = len(shape) - 1 if isinstance(op, qint.DepthwiseConv2DOp) else 0
    if not isinstance(op.w.owner, ConstantOp):
        largest = np.full(1, prod(shape) // max(shape[channels], 1) << width_of(op.w) - 1, np.int64)
        return largest, largest
    weights, terms = _numbers(op.w), tuple(axis for axis in range(len(shape)) if axis != channels)
    return np.maximum(weights, 0).sum(terms), -np.minimum(weights, 0).sum(terms)


def _numbers(value: SSAValue) -> Int64s:
    """The integers of a constant; a single 0 if the value is computed."""
    constant = value.owner
    return constant.value.array.astype(np.int64) if isinstance(constant, ConstantOp) else np.zeros(1, np.int64)


# ---------------------------------------------------------------------------------------------------------------
# The properties of an integer operation that a device may limit: windows, strides, types, zero points, factors.


def window(op: Operation) -> tuple[int, int] | None:
    """Rows and columns of a window; None of a sum over an image, which several commands can add up."""
    match op:
        case qint.MaxPool2DOp() | qint.AveragePool2DOp():
            return op.window_values()
        case WindowOp():
            _, rows, columns, _ = shape_of(op.operands[1])
            return rows, columns
        case _:
            return None


def area(op: Operation) -> int | None:
    """Rows · columns of a window; None if the operation has no window."""
    extents = window(op)
    return None if extents is None else extents[0] * extents[1]


def met(op: Operation) -> int:
    """How many elements of an image a pool meets for one of its result: those of a window, or of the whole image."""
    if isinstance(op, qint.GlobalSumPoolOp):
        return prod(shape_of(op.x)[1:3])
    return area(op) or 1


def stride(op: Operation) -> int | None:
    """The largest stride; an axis with only one window position counts as stride 1."""
    if not isinstance(op, WindowOp):
        return None
    steps = zip(op.stride_values(), shape_of(op.results[0])[1:3], strict=True)
    return max(stride if windows > 1 else 1 for stride, windows in steps)


def dilation(op: Operation) -> int | None:
    """The largest dilation; None if the operation has no window."""
    return max(op.dilation_values()) if isinstance(op, WindowOp) else None


def padding(op: Operation) -> int | None:
    """The largest padding on any side; None if the operation has no window."""
    return max(op.padding_values()) if isinstance(op, WindowOp) else None


def channel_multiplier(op: qint.DepthwiseConv2DOp) -> int:
    """The number of output channels for each input channel."""
    return shape_of(op.w)[-1] // max(shape_of(op.x)[-1], 1)


@dataclass(frozen=True)
class Groups:
    """The groups of a convolution's channels: how many, and the input and output channels of each."""

    count: int
    inputs: int
    outputs: int

    def __str__(self) -> str:
        return str(self.count) if self.count == 1 else f"{self.count} of {self.inputs} to {self.outputs} channels"


def groups(op: qint.Conv2DOp) -> Groups:
    """The groups of a convolution."""
    count = op.group_count()
    return Groups(count, shape_of(op.x)[-1] // count, shape_of(op.w)[0] // count)


@dataclass(frozen=True)
class WholeVectors:
    """The groups of a device that has none of its own: each is convolved by itself where it is whole vectors.

    channels   the channels of a vector
    """

    channels: int

    def __str__(self) -> str:
        return f"1 group or groups of a multiple of {self.channels}"

    def take(self, groups: Groups) -> bool:
        """Whether the groups are whole vectors, or one."""
        return groups.count == 1 or not (groups.inputs % self.channels or groups.outputs % self.channels)


def divisors(op: Operation) -> frozenset[int]:
    """The numbers of elements by which a pool divides."""
    if isinstance(op, qint.AveragePool2DOp):
        return frozenset(int(n) for n in op.counts().reshape(-1))
    return frozenset({met(op)})


def narrow_types(op: Operation) -> frozenset[str]:
    """Types of the data that an operation reads and writes, floats included, without i32 and i64 (sums, indices)."""
    elements = map(element_of, (*op.operands, *op.results))
    return frozenset(map(str, elements)) - {"i32", "i64"}


AROUND = " around a zero point"
"""Suffix to the types of data and weights: the weights have a zero point other than 0."""


@dataclass(frozen=True)
class Multiplied:
    """The types that a contraction multiplies.

    types    types of data and weights, such as `i8 by i8`
    narrow   the types if the weights are stored with a zero point; None if that makes the weights no narrower
    """

    types: str
    narrow: str | None

    def __str__(self) -> str:
        return self.types if self.narrow is None else f"{self.types} or {self.narrow}"


def multiplied(op: WeightedOp | qint.MatMulOp) -> Multiplied:
    """The types of data and weights that a contraction multiplies; a matrix is stored as it was computed."""
    data, weights = (str(element_of(v)) for v in op.operands[:2])
    constant = op.operands[1].owner
    narrow = (
        isinstance(op, WeightedOp)
        and isinstance(constant, ConstantOp)
        and around_zero_point(constant.value.array) is not None
    )
    return Multiplied(f"{data} by {weights}", f"{data} by i8{AROUND}" if narrow else None)


def sums(op: WeightedOp | qint.MatMulOp) -> Sums:
    """The width that a contraction's sums need."""
    types = multiplied(op)
    return sums_of(op, (types.narrow or types.types).removesuffix(AROUND))


def zero_points(op: Operation) -> frozenset[int]:
    """All zero points of an operation."""
    names = ("zero_point", "input_zero_point", "lhs_zero_point", "rhs_zero_point")
    points = [op.properties[name] for name in names if name in op.properties]
    return frozenset(p.value.data for p in points if isinstance(p, IntegerAttr))


def scales(op: qint.RequantizeOp) -> int:
    """How many different scale factors a requantization has."""
    return len(set(zip(op.multiplier.get_values(), op.shift.get_values(), strict=True)))


def multipliers(op: qint.RequantizeOp) -> frozenset[int]:
    """The multipliers of a requantization, without 0, which needs no multiplication."""
    return frozenset(op.multiplier.get_values()) - {0}


class Product(NamedTuple):
    """The product of a requantization with one of its multipliers.

    shift   how far the product is shifted to the right, in bits, where the multiplier has 31 bits
    spare   how many low bits of the multiplier are 0: without some of them, the shift is as much shorter
    """

    shift: int
    spare: int

    def within(self, shifts: "RightShifts") -> bool:
        """Whether the product has a shift that a device has."""
        most = shifts.narrow if shifts.exact else self.spare
        return max(shifts.narrow, self.shift - shifts.most) <= min(most, self.shift - shifts.least)


@dataclass(frozen=True)
class RightShifts:
    """The shifts to the right of a device.

    least, most   in bits
    narrow        how many of 31 bits the device's multipliers do not have
    exact         whether a product needs the shift of a multiplier of all bits
    """

    least: int
    most: int
    narrow: int
    exact: bool

    def __str__(self) -> str:
        return f"[{self.least}, {self.most}]"

    def shortest(self, products: Iterable[Product]) -> str:
        """The shifts of products that no shift of the device fits, as close to the device's shifts as possible."""
        found = {p.shift - (self.narrow if self.exact else max(min(p.spare, p.shift - self.most), self.narrow))
                 for p in products if not p.within(self)}  # fmt: skip
        return " or ".join(map(str, sorted(found)[:4]))


def products_of(op: qint.RequantizeOp) -> frozenset[Product]:
    """The products of a requantization, without those with 0."""
    factors = zip(op.multiplier.get_values(), op.shift.get_values(), strict=True)
    return frozenset(Product(MULTIPLIER_BITS - s, (m & -m).bit_length() - 1) for m, s in factors if m)


def multiplier_bits(op: qint.RequantizeOp) -> int:
    """How many bits a multiplier needs, its sign included."""
    return 1 + max((m.bit_length() - (m & -m).bit_length() + 1 for m in multipliers(op)), default=0)


def bits_at_one_shift(op: qint.RequantizeOp) -> int:
    """How many bits the multipliers need, sign included, if all are shifted by as much."""
    held = [(m, s) for m, s in zip(op.multiplier.get_values(), op.shift.get_values(), strict=True) if m]
    last = min((s + (m & -m).bit_length() for m, s in held), default=0)
    return 1 + max((s + m.bit_length() - last + 1 for m, s in held), default=0)


def activation(op: WeightedOp) -> str | None:
    """What bounds the result of a contraction in its change of scale, as `ops.act` calls it; None if nothing follows.

    Bounds of the whole type are `none`, a bound at the zero point is `relu`, with another above it `relu6`, and all
    others are `clamp`.
    """
    users = [use.operation for use in op.results[0].uses]
    if len(users) != 1 or not isinstance(ends := users[0], qint.RequantizeOp):
        return None
    most = (1 << width_of(ends.y) - 1) - 1
    lower, upper = ends.lower.value.data, ends.upper.value.data
    if (lower, upper) == (~most, most):
        return "none"
    if lower != ends.zero_point.value.data:
        return "clamp"
    return "relu" if upper == most else "relu6"


def bias_bits(op: WeightedOp) -> int | None:
    """How many bits a bias needs, sign included; for a computed bias, the width of its type. None without a bias."""
    if op.b is None:
        return None
    if not isinstance(constant := op.b.owner, ConstantOp):
        return width_of(op.b)
    return _bits(constant.value.array)


def moved_bias_bits(op: WeightedOp) -> int | None:
    """How many bits a bias needs, sign included, without the trailing zeros that its numbers share; None if absent."""
    if op.b is None or not isinstance(constant := op.b.owner, ConstantOp):
        return bias_bits(op)
    return _bits(constant.value.array >> trailing_zeros(constant.value.array))


def _bits(numbers: Array) -> int:
    return 1 + max(int(bound).bit_length() for bound in (numbers.max(initial=0), -1 - numbers.min(initial=0)))


def operand_factors(op: qint.AddOp) -> int:
    """How many different magnitudes the operands' multipliers have."""
    return len({abs(m) for m in op.multipliers.get_values()})


def own_multipliers(op: qint.AddOp) -> tuple[int, int]:
    """The magnitudes of the operands' multipliers, once both are divided by what they share."""
    lhs, rhs = map(abs, op.multipliers.get_values())
    common = max(gcd(lhs, rhs), 1)
    return lhs // common, rhs // common


def own_multiplier_bits(op: qint.AddOp) -> int:
    """How many bits the operands' multipliers need, sign included, once both are divided by what they share."""
    return 1 + max(own_multipliers(op)).bit_length()


def operand_ratios(op: qint.AddOp) -> list[float]:
    """By what the operands are multiplied, without signs."""
    return [abs(m) / (1 << op.shift.value.data) for m in op.multipliers.get_values()]


def offset(op: Operation) -> int | None:
    """The offset of an average pool: the number that means are rounded away from."""
    return op.offset.value.data if isinstance(op, qint.AveragePool2DOp) else None


def accumulator_bits(op: Operation) -> int | None:
    """The width of the sums of a pool, or of the products of two tensors; None of other operations."""
    return width_of(op.acc) if isinstance(op, qint.GlobalSumPoolOp | qint.MulOp) else None


def repeated_otherwise(op: qint.AddOp | qint.MulOp) -> tuple[int, ...] | None:
    """The shape of an operand that is broadcast along channels, or along part of the images; None if there is none.

    Pitches cannot express such a broadcast.
    """
    images, (rows, columns, channels) = as_images(shape_of(op.results[0]))
    for operand in (op.lhs, op.rhs):
        n, (height, width, depth) = as_images(shape_of(operand))
        if not (n in (1, images) and height in (1, rows) and width in (1, columns) and depth == channels):
            return shape_of(operand)
    return None


def transfers(op: Operation) -> float:
    """How many boxes a data movement transfers; infinity if strided boxes cannot express it."""
    found = transfers_of(op)
    return inf if found is None else found


def passes_of(op: qint.SoftmaxOp | qint.LayerNormOp | qint.RMSNormOp, device: Device) -> int:
    """How often a device that computes an operation on rows goes over each row."""
    match op:
        case qint.SoftmaxOp():
            table = device.ops.softmax
        case qint.LayerNormOp():
            table = device.ops.layer_norm
        case qint.RMSNormOp():
            table = device.ops.rms_norm
    return 1 if table is None else table.passes


def least_sum(op: qint.SoftmaxOp) -> int:
    """The least sum of a row's exponentials, as a multiple of what its division takes, rounded down.

    The greatest element of each row has the first exponential of the table.
    """
    first, division = int(op.table.array[0]), Division[op.division.data.upper()]
    return term_of(first, division) // LEAST_SUMS[division]


# ---------------------------------------------------------------------------------------------------------------
# How much an operation computes: products of contractions, and operations on single elements.


def products(op: Operation) -> int:
    """How many products an operation computes, in integers or floats; 0 unless it is a contraction."""
    match op:
        case qint.DepthwiseConv2DOp() | nn.DepthwiseConv2DOp():
            return prod(shape_of(op.results[0])) * prod(shape_of(op.w)[1:3])
        case WeightedOp() | FloatWeightedOp():
            return prod(shape_of(op.results[0])) * prod(shape_of(op.w)[1:])
        case qint.MatMulOp() | nn.MatMulOp():
            return prod(shape_of(op.results[0])) * shape_of(op.operands[0])[-1]
        case _:
            return 0


def work_of(operations: Iterable[Operation]) -> int:
    """Products and other operations on single elements; data movement and renaming count 0."""
    return sum(products(op) or _steps(op) for op in operations)


def _steps(op: Operation) -> int:
    """How many elements are computed; a pool counts each element of each window."""
    if not isinstance(op, TensorOp | CastOp) or isinstance(op, MovementOp | StorageCastOp | nn.ConstantOp):
        return 0
    pools = isinstance(op, qint.MaxPool2DOp | qint.AveragePool2DOp | qint.GlobalSumPoolOp)
    return sum(prod(shape_of(result)) for result in op.results) * (met(op) if pools else 1)
