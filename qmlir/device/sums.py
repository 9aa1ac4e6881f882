"""How wide sums of products get: from the weights and the range of the data, whatever the data are."""

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from qmlir.dialects import qint
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.qint.contraction import WeightedOp


@dataclass(frozen=True)
class Sums:
    """Sums of products.

    types  of data and weights, as `i8 by i8`
    bits   that hold each of them, and each on its way, in whatever order products are added
    """

    types: str
    bits: int

    def __str__(self) -> str:
        return f"{self.bits} bits of {self.types}"


def sums_of(op: WeightedOp, types: str) -> Sums:
    """How wide the sums of a contraction get that multiplies these types.

    Padding leaves products out, and slices of the terms are summed one after the other: any of the products may be
    missing, and so may the bias.
    """
    half, zero_point = 1 << width_of(op.x) - 1, op.zero_point.value.data
    most, least = max(half - 1 - zero_point, 0), min(-half - zero_point, 0)
    up, down = _weights(op)
    bias = np.zeros(1, np.int64) if op.b is None else _numbers(op.b)
    highest = int((most * up - least * down + np.maximum(bias, 0)).max(initial=0))
    lowest = int((least * up - most * down + np.minimum(bias, 0)).min(initial=0))
    return Sums(types, 1 + max(highest.bit_length(), (-1 - lowest).bit_length()))


def _weights(op: WeightedOp) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of each output channel the sums of the positive weights and of the others' magnitudes.

    Computed ones are taken to be as large as their type has them.
    """
    shape = shape_of(op.w)
    channels = len(shape) - 1 if isinstance(op, qint.DepthwiseConv2DOp) else 0
    if not isinstance(op.w.owner, ConstantOp):
        largest = np.full(1, prod(shape) // max(shape[channels], 1) << width_of(op.w) - 1, np.int64)
        return largest, largest
    weights, terms = _numbers(op.w), tuple(axis for axis in range(len(shape)) if axis != channels)
    return np.maximum(weights, 0).sum(terms), -np.minimum(weights, 0).sum(terms)


def _numbers(value: SSAValue) -> npt.NDArray[np.int64]:
    """The numbers of a constant; 0 in place of what is computed."""
    constant = value.owner
    return constant.value.array.astype(np.int64) if isinstance(constant, ConstantOp) else np.zeros(1, np.int64)
