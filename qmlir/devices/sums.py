"""The width that sums of products need, from the constant weights and the range of the data type."""

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from qmlir.dialects import qint
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.ir.interfaces import shape_of


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


def sums_of(op: WeightedOp, types: str) -> Sums:
    """The width that the sums of a contraction need.

    Padding leaves products out, and slices of the terms are summed one after the other. The width therefore covers
    sums in which any of the products, or the bias, are missing.

    Args:
        op: The contraction.
        types: The types that it multiplies, such as `i8 by i8`.
    """
    half, zero_point = 1 << width_of(op.x) - 1, op.zero_point.value.data
    most, least = max(half - 1 - zero_point, 0), min(-half - zero_point, 0)
    up, down = _weights(op)
    bias = np.zeros(1, np.int64) if op.b is None else _numbers(op.b)
    highest = int((most * up - least * down + np.maximum(bias, 0)).max(initial=0))
    lowest = int((least * up - most * down + np.minimum(bias, 0)).min(initial=0))
    return Sums(types, 1 + max(highest.bit_length(), (-1 - lowest).bit_length()))


def _weights(op: WeightedOp) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
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


def _numbers(value: SSAValue) -> npt.NDArray[np.int64]:
    """The integers of a constant; a single 0 if the value is computed."""
    constant = value.owner
    return constant.value.array.astype(np.int64) if isinstance(constant, ConstantOp) else np.zeros(1, np.int64)
