"""`quantize-block-scales`: rounds scales and zero points of blocks to integers of 8 bits, which files hold.

Weights of 4 bits in blocks of 32 have two floats beside each 16 bytes. As integers that are exact from here on, these
take 15 bits in place of 64:

    s[o,g] = m[o,g] · S[o]          m from −127 to 127; S a bf16, so that the product has no rounding
    z[o,g] = c + n[o,g] / 2^f[o]    n of 8 bits, for zero points that are no whole numbers; c the weights' middle

A zero point takes up what its scale is off by: the mean of the block's weights stays what it was. The constants stay
floats that state these integers (`Affine`), so that whoever reads floats has the rounded ones.

A layer with a zero point that is further from the middle keeps its floats. In a file that rounds weights from the least
to the greatest of each block, that is a block whose weights lie on one side of 0, with a half of their range between.
"""

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.ir.interfaces import element_of
from qmlir.ir.levels import stating
from qmlir.ir.signature import defined_functions
from qmlir.ir.types import is_integer
from qmlir.numerics import Array
from qmlir.numerics.affine import Affine, affine
from qmlir.numerics.packing import BYTE
from qmlir.numerics.schemas import weight_bits
from qmlir.settings.quant_config import config_of, op_config_of
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array, set_constant

LARGEST = 127
"""The largest magnitude of a multiplier, and of a step of a zero point."""

FRACTIONS = (6, 5, 4)
"""Bits f behind the point of zero points: as many as leave n 8 bits. Fewer would lose more than scales do."""

UNITS = 24
"""The bf16 that are tried as S, from the least that 127 multiples suffice for: up to a tenth more or a fifth."""


class QuantizeBlockScalesPass(ModulePass):
    """Rounds scales and zero points of blocks to integers of 8 bits, where fewer are asked for weights that have fewer.

    ```mlir
    %s = nn.constant <tensor<1x2xf32>, [0.5, 0.3]> : tensor<1x2xf32>
    %y = nn.blocked_fully_connected %x, %w, %s, %z {qmlir.policy = {weight_precision = "int4", …}, block = 2 : i64}
    // becomes, with multipliers 127 and 76
    %s = nn.constant <tensor<1x2xf32>, [0.500…, 0.299…]> {qmlir.levels = #qmlir.levels<affine, bits = 7, …>}
    ```
    """

    name = "quantize-block-scales"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        default = config_of(op).op_config()
        for function in defined_functions(op):
            for layer in [o for o in function.body.block.ops if isinstance(o, BlockedFullyConnectedOp)]:
                stored = element_of(layer.w)
                few = is_integer(stored) and stored.width.data < BYTE and is_quantized(layer.x)
                if few and weight_bits(op_config_of(layer, default).stored_weights) < BYTE:
                    _round(layer)


def _round(layer: BlockedFullyConnectedOp) -> None:
    """Rounds the scales of a layer, and zero points that are floats; leaves both where zero points do not fit."""
    scales, points = constant_array(layer.s), constant_array(layer.z)
    weights = constant_array(layer.w)
    if scales is None or points is None or weights is None or not np.isfinite(scales).all():
        return
    scale_levels, rounded = _multiples(scales)
    point_levels: Affine | None = None
    if points.dtype == np.float32:
        middle = layer.centre()
        if layer.is_affine:
            points = _compensated(points, scales, rounded, layer.block_means(), middle)
        point_levels, points = _fractions(points, middle, FRACTIONS if layer.is_affine else (0,))
        if point_levels is None:
            return
        _state(layer, 3, points, point_levels)
    _state(layer, 2, rounded, scale_levels)


def _multiples(scales: Array) -> tuple[Affine, Array]:
    """Scales [O,G] as multiples of one of 8 significant bits for each row, and what these are as f32.

    The unit is the one with the least square error. Multipliers that are not negative take 7 bits.
    """
    most = np.abs(scales.astype(np.float64)).max(axis=1, initial=0) / LARGEST
    least = _rounded_up(np.where(most > 0, np.maximum(most, np.finfo(np.float32).tiny), 1.0))
    units, best = least, np.full(len(least), np.inf)
    for number in range(UNITS):
        tried = (least.view(np.uint16) + np.uint16(number)).view(ml_dtypes.bfloat16)
        exact = scales / tried.astype(np.float64)[:, None]
        error = ((exact - np.rint(exact)) ** 2).sum(axis=1) * np.square(tried.astype(np.float64))
        units, best = np.where(error < best, tried, units), np.minimum(error, best)
    units = units[:, None]
    multipliers = np.rint(scales / units.astype(np.float64)).astype(np.int16)
    bits, lowest = (BYTE, -(1 << BYTE - 1)) if (multipliers < 0).any() else (BYTE - 1, 0)
    none = np.zeros((0, 1), np.float32)
    return Affine(bits, lowest, scales.shape[1], units, none), affine(multipliers, units, None, scales.shape[1])


def _rounded_up(numbers: Array) -> Array:
    """Positive numbers as bf16, none less than it was."""
    nearest = numbers.astype(np.float32).astype(ml_dtypes.bfloat16)
    bits = nearest.view(np.uint16) + (nearest.astype(np.float64) < numbers)
    return bits.astype(np.uint16).view(ml_dtypes.bfloat16)


def _compensated(points: Array, scales: Array, rounded: Array, means: Array, middle: int) -> Array:
    """Zero points with which a block's mean weight, (mean − z) · s, stays what it was; the middle where s is 0."""
    exact = (means - points) * scales.astype(np.float64)
    flat = rounded == 0
    return np.where(flat, middle, means - exact / np.where(flat, 1, rounded))


def _fractions(points: Array, middle: int, choices: Sequence[int]) -> tuple[Affine | None, Array]:
    """Zero points as the weights' middle plus integers of 8 bits over 2^f, with the first f for a row that fits.

    Returns:
        The levels, and the rounded zero points; None, and the zero points as they are, if some fit no f.
    """
    apart = points.astype(np.float64) - middle
    found, steps = np.full((len(points), 1), -1), np.zeros(points.shape)
    for f in choices:
        tried = np.rint(np.ldexp(apart, f))
        rows = (found < 0) & (np.abs(tried).max(axis=1, keepdims=True, initial=0) <= LARGEST)
        found, steps = np.where(rows, f, found), np.where(rows, tried, steps)
    if (found < 0).any():
        return None, points
    step = np.ldexp(1.0, -found).astype(ml_dtypes.float8_e8m0fnu)
    start = np.full((1, 1), middle, np.float32)
    levels = Affine(BYTE, -(1 << BYTE - 1), points.shape[1], step, start)
    return levels, affine(steps.astype(np.int16), step, start, points.shape[1])


def _state(layer: BlockedFullyConnectedOp, place: int, numbers: Array, levels: Affine) -> None:
    """Gives a layer a constant of floats that states the integers which they are."""
    set_constant(layer, place, numbers)
    constant = layer.operands[place].owner
    assert isinstance(constant, ConstantOp)
    constant.attributes.update(stating(levels))
