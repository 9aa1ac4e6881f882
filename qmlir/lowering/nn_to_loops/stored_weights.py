"""Weights that a model stores as integers beside float data: machine code keeps the integers.

A float is (integer − zero point) · scale, with a scale for each tensor, output channel or block of inputs. Kernels make
floats of integers in registers, where they multiply them. So weights take a quarter of the bytes of floats, or an
eighth, and no scratch memory. All other readers of such constants get floats, which are computed at compile time.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from qmlir.codegen.kernels.packed_weights import PLAIN
from qmlir.codegen.kernels.task import Reals
from qmlir.codegen.lowering import Array, MainLowering, constant_array
from qmlir.dialects.nn.base import is_unsigned
from qmlir.dialects.nn.blocked import BlockedFullyConnectedOp
from qmlir.dialects.nn.contraction import Conv2DOp, FullyConnectedOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import is_integer
from qmlir.numerics.levels import Even, Levels
from qmlir.numerics.packing import BYTE

KEEPING = (Conv2DOp, FullyConnectedOp)
"""The operations that multiply by weights that are dequantized constants."""

PACKED = (2, 4)
"""Bits of integers that are packed; all others take a byte."""

FAR = 1 << 15
"""Beyond all zero points whose differences from integers are taken in f32, which is exact."""


@dataclass(frozen=True, eq=False)
class StoredWeights:
    """Weights as integers of 8 bits, [O, …], and the floats that they stand for.

    levels   which integers they are; those of fewer than 8 bits are packed
    """

    integers: Array
    reals: Reals
    levels: Levels

    @staticmethod
    def of(stored: Array, points: Array, scales: Array, bits: int, *, signed: bool, size: int = 0) -> "StoredWeights":
        """Weights from integers [O, …] of up to 8 bits; zero points are whole numbers [O, G], scales are f32 [O, G].

        Unsigned integers and their zero points move by half of their range: the differences are the same.
        """
        centre = 0 if signed else 1 << bits - 1
        moved = (points.astype(np.int64) - centre).astype(np.float32)
        reals = Reals(scales, moved if moved.any() else None, size)
        levels = Even(bits) if bits < BYTE else PLAIN
        return StoredWeights((stored.astype(np.int16) - centre).astype(np.int8), reals, levels)


def of_constant(tensor: SSAValue) -> StoredWeights | None:
    """The stored weights behind a dequantization whose first axis is that of output channels, if there are such.

    None also where f32 does not hold the scales, or where the model dequantizes by other operations.
    """
    cast = tensor.owner
    if not isinstance(cast, DequantizeCastOp) or (stored := _stored(cast)) is None:
        return None
    type, outputs = cast.quantized, stored.shape[0]
    scales, points = (np.asarray(p).reshape(-1) for p in type.parameters_along(stored.ndim))
    exact = cast.quantization == "exact" and cast.rest is None and np.abs(points).max(initial=0) < FAR
    if type.storage_width != BYTE or type.axis not in (None, 0) or type.expressed != f32 or not exact:
        return None
    if not np.array_equal(scales, scales.astype(np.float32)):
        return None
    scales, points = (np.ascontiguousarray(np.broadcast_to(p, outputs))[:, None] for p in (scales, points))
    return StoredWeights.of(stored, points, scales.astype(np.float32), BYTE, signed=type.is_signed)


def of_blocks(op: BlockedFullyConnectedOp, stored: Array, scales: Array, points: Array) -> StoredWeights | None:
    """The weights of a layer with scales for blocks of inputs; None where zero points are no whole numbers."""
    element, floats = element_of(op.w), points.astype(np.float32)
    assert is_integer(element)
    width = element.width.data
    if width > BYTE or not np.array_equal(floats, np.rint(floats)) or np.abs(floats).max(initial=0) >= FAR:
        return None
    bits = width if width in PACKED else BYTE
    return StoredWeights.of(stored, floats, scales, bits, signed=not is_unsigned(element), size=op.size)


def _stored(cast: DequantizeCastOp) -> Array | None:
    """The integers of a dequantized constant, in the type in which they are stored; None if they are computed."""
    array = constant_array(cast.input)
    if array is None:
        return None
    kind = "i" if cast.quantized.is_signed else "u"
    return array.view(f"{kind}{array.itemsize}")


def floats_of_constant(state: MainLowering, op: DequantizeCastOp) -> bool:
    """Lowers the dequantization of a constant; returns False for that of a computed tensor.

    Readers that keep integers find the operation as it is, if there are no other ones.
    """
    stored = _stored(op)
    if stored is None:
        return False
    as_weights = all(isinstance(use.operation, KEEPING) and use.operation.w is op.result for use in op.result.uses)
    if not as_weights or of_constant(op.result) is None:
        state.replace(op.result, state.constant(op.evaluate(stored)[0]))
    return True
