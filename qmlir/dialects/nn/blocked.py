"""A fully connected layer whose weights are stored integers with a scale and a zero point for each block of inputs.

Sums of a float layer over all blocks have no common scale. In the integer form each block has a *multiplier* instead:
the scales of an output are whole multiples of one scale of its own,

    s[o,g] ≈ m[o,g] · S[o],    S[o] = max_g |s[o,g]| / M

and the sums of blocks are added in 64 bits as Σ_g m[o,g] · (Σ_{i in g} q_x · q_w). A scale is off by half of S[o] at
most: for data of 8 bits, 2^−16 of the largest one.

Zero points that are no whole numbers stand for offsets: (w − z) · s = (w − c) · s + (c − z) · s, with the integer c in
the middle of all weights. An offset is a whole multiple k[o,g] of S[o], too, and multiplies the sum of its block's
data:

    Σ_g (m[o,g] · Σ_{i in g} q_x · (q_w − c) + k[o,g] · Σ_{i in g} q_x)

Where multipliers of 10 bits or more leave these sums in 32 bits, they do.

A constant of scales may state multipliers and S itself (`Affine` levels, one for each output). These are taken as they
are, and zero points beside them that have few bits behind the point, too: with f of them in an output's,

    Σ_g (2^f · m[o,g] · Σ_{i in g} q_x · (q_w − c) + 2^f · (c − z) · m[o,g] · Σ_{i in g} q_x)  in steps of S[o] · 2^−f

has integers only, and nothing is rounded.
"""

from collections.abc import Sequence
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Elements
from qmlir.dialects.nn.contraction import ContractionOp
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.nn.quantizable import ACCUMULATOR_MAX, Float64s, Int64s, Scales, Sums, uniform, widest
from qmlir.dialects.quant.rules import FreeScale
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, Shape, element_of, fully_connected_shape, shape_of
from qmlir.ir.levels import levels_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.types import is_integer
from qmlir.ir.weights import Weights
from qmlir.numerics.affine import Affine
from qmlir.numerics.contracts import WIDE_LIMIT
from qmlir.numerics.products import add_products

MULTIPLIER_BITS, WIDE_MULTIPLIER_BITS = 15, 17
"""Bits of the largest multiplier M, for data of up to 8 bits and of more. The factor between the sums and the result is
smaller by M, and has to keep a multiplier of its own (`LEAST_FACTOR`)."""

_held_sums: WeakKeyDictionary[Weights, dict[tuple[Weights, int], Int64s]] = WeakKeyDictionary()
"""Σ |w − z| for each block of constant weights, by zero points and size of blocks: passes ask for it many times."""

MOST_FRACTION = 7
"""The most bits behind the point of zero points that are taken as they are."""

LEAST_LARGEST = (1 << 10) - 1
"""The least M with which layers are computed in integers: multipliers are off by 2^−11 of the largest scale at most."""


@irdl_op_definition
class BlockedFullyConnectedOp(ContractionOp):
    """y[n,o] = b[o] + Σ_i x[n,i] · (w[o,i] − z[o,g]) · s[o,g] with g = i div block, then the clamp.

    x [N,I], w [O,I], s [O,G], z [O,G], b [O], y [N,O] with G = ⌈I / block⌉. The weights are the integers that the model
    stores; each becomes a float before it is multiplied. Beside quantized x, bias and scales stay f32: all of the
    constants are known when the layer is lowered to integers.

    (C1) x and w have rank 2 and the same last dimension; s and z have an entry for each output and block
    (C2) w are integers of at most 16 bits, z integers of the same type or f32, s and b f32
    (C3) a block is one input or more
    """

    name = "nn.blocked_fully_connected"

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.QUANTIZED
    TAKES_HALVES: ClassVar[bool] = False  # its weights are integers beside scales of f32

    x = operand_def(TensorType)
    w = operand_def(TensorType)
    s = operand_def(TensorType)
    z = operand_def(TensorType)
    b = opt_operand_def(TensorType)
    block = prop_def(IntegerAttr.constr(i64))

    traits = traits_def(FreeScale())
    assembly_format = (
        "$x `,` $w `,` $s `,` $z (`,` $b^)? attr-dict `:` "
        "type($x) `,` type($w) `,` type($s) `,` type($z) (`,` type($b)^)? `->` type($y)"
    )

    def data_operands(self) -> Sequence[SSAValue]:
        return (self.x,)

    @property
    def size(self) -> int:
        """The number of inputs in a block."""
        return self.block.value.data

    def infer_shapes(self) -> Sequence[Shape]:
        shape = fully_connected_shape(self, shape_of(self.x), shape_of(self.w))  # C1
        if self.size < 1:  # C3
            raise VerifyException(f"'{self.name}' needs blocks of 1 input or more, got {self.size}")
        outputs, inputs = shape_of(self.w)
        needed = (outputs, -(-inputs // self.size))
        for operand, what in ((self.s, "scales"), (self.z, "zero points")):
            if shape_of(operand) != needed:  # C1
                raise VerifyException(f"'{self.name}' needs {what} {list(needed)}, got {list(shape_of(operand))}")
        if self.b is not None and shape_of(self.b) != (outputs,):  # C1
            raise VerifyException(f"'{self.name}' needs a bias of shape [{outputs}], got {list(shape_of(self.b))}")
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [1])

    def verify_(self) -> None:
        super().verify_()
        weights = element_of(self.w)
        if not is_integer(weights) or not 1 < weights.width.data <= 16:  # C2
            raise VerifyException(f"'{self.name}' needs weights of 2 to 16 bits, got {weights}")
        if element_of(self.z) not in (weights, f32):  # C2
            raise VerifyException(f"'{self.name}' needs zero points of {weights} or f32, got {element_of(self.z)}")
        for operand, what in ((self.s, "scales"), (self.b, "a bias")):
            if operand is not None and element_of(operand) != f32:  # C2
                raise VerifyException(f"'{self.name}' needs {what} of f32, got {element_of(operand)}")

    def spread(self, parameters: Array) -> Array:
        """The parameters [O,G] of blocks as those of weights, [O,I]."""
        return np.repeat(parameters, self.size, axis=1)[:, : shape_of(self.w)[1]]

    def floats(self, w: Array, s: Array, z: Array) -> Array:
        """The weights as f32, [O,I]: a difference and a product, each rounded."""
        return (w.astype(np.float32) - self.spread(z.astype(np.float32))) * self.spread(s)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, s, z, *bias = inputs
        y = np.broadcast_to(bias[0] if bias else np.float32(0), (x.shape[0], w.shape[0])).astype(np.float32)
        add_products(y, x.T[:, :, None], self.floats(w, s, z).T[:, None])
        return (self.clamp(y),)

    # -- the integer form ------------------------------------------------------------------------------------------

    def check_integer_form(self) -> None:
        if any(v is not None and not isinstance(v.owner, ConstantOp) for v in (self.w, self.s, self.z, self.b)):
            raise UnsupportedError(
                "its weights are computed at run time; only constant weights can be quantized", code="computed-weights"
            )
        if not np.abs(self._array(self.z)).max(initial=0) < 1 << 15:
            raise UnsupportedError("its zero points do not fit 16 bits", code="blocked")
        if not np.isfinite(self._array(self.s)).all():
            raise UnsupportedError("its scales are not finite", code="blocked")
        terms = max(int(self._block_sums().max(initial=0)), self.size)
        if (bound := terms * widest(uniform(self.x))) > ACCUMULATOR_MAX:
            raise UnsupportedError(f"sums of its blocks can reach {bound}, more than 32 bits hold", code="accumulator")
        if self._stated() is None and self.largest_multiplier() < LEAST_LARGEST:
            raise UnsupportedError("its sums leave too few of 48 bits for multipliers of blocks", code="accumulator")

    def _constant(self, value: SSAValue) -> ConstantOp:
        assert isinstance(value.owner, ConstantOp)
        return value.owner

    def _array(self, value: SSAValue) -> Array:
        """The data of a constant operand, integers as int32."""
        array = self._constant(value).value.array
        return array if array.dtype == np.float32 else array.astype(np.int32)

    @property
    def is_affine(self) -> bool:
        """Whether blocks have offsets: some zero point is no whole number."""
        points = self._array(self.z)
        return not np.array_equal(points, np.rint(points))

    def centre(self) -> int:
        """c, the integer in the middle of all weights, of those from 0 to 15 the 8th."""
        stored = self._array(self.w)
        return (int(stored.min(initial=0)) + int(stored.max(initial=0)) + 1) // 2

    def block_means(self) -> Float64s:
        """The mean weight of each block, as the integer that is stored, [O,G]; the last block may be shorter."""
        starts = np.arange(0, shape_of(self.w)[1], self.size)
        sums = np.add.reduceat(self._array(self.w), starts, axis=1, dtype=np.int64)
        return sums / np.diff(np.append(starts, shape_of(self.w)[1]))

    def _stated(self) -> tuple[Int64s, Float64s, Int64s] | None:
        """The multipliers [O,G] and scales [O] that the constant of scales states, and the bits f of zero points, [O].

        None where it states none, or where zero points have more than `MOST_FRACTION` bits behind the point.
        """
        constant = self._constant(self.s)
        levels = levels_of(constant)
        if not isinstance(levels, Affine) or levels.size != shape_of(self.s)[1] or len(levels.offsets):
            return None
        points, stored = self._array(self.z).astype(np.float64), levels.stored(constant.value.array)
        bits = np.full(len(points), -1)
        for f in range(MOST_FRACTION, -1, -1):
            steps = np.ldexp(points, f)
            bits[(steps == np.rint(steps)).all(axis=1)] = f  # at last the fewest
        if stored is None or (bits < 0).any():
            return None
        units = np.broadcast_to(levels.scales[:, 0].astype(np.float64), len(stored))
        return stored.astype(np.int64), units, bits

    def less_zero_point(self) -> npt.NDArray[np.int32]:
        """The weights minus their zero points, int32 [O,I]; minus c where blocks have offsets."""
        if self.is_affine:
            return self._array(self.w) - np.int32(self.centre())
        return self._array(self.w) - self.spread(self._array(self.z)).astype(np.int32)

    def _block_sums(self) -> Int64s:
        """Σ |w − z| over each block, or Σ |w − c|, [O,G]."""
        held = _held_sums.setdefault(self._constant(self.w).value.data, {})
        key = self._constant(self.z).value.data, self.size
        if key not in held:
            (outputs, inputs), blocks = shape_of(self.w), shape_of(self.s)[1]
            padded = np.pad(np.abs(self.less_zero_point()), ((0, 0), (0, blocks * self.size - inputs)))
            held[key] = padded.reshape(outputs, blocks, self.size).sum(axis=2, dtype=np.int64)
        return held[key]

    def _largest_scales(self) -> Float64s:
        """The largest magnitude of an output's scales, [O]; 1 where they are all 0."""
        most = np.abs(self._array(self.s).astype(np.float64)).max(axis=1, initial=0)
        return np.where(most > 0, most, 1.0)

    def _shares(self) -> Float64s:
        """The scales of blocks as shares of the largest scale of their output, [O,G]."""
        return self._array(self.s).astype(np.float64) / self._largest_scales()[:, None]

    def _offset_shares(self) -> Float64s:
        """The offsets of blocks as shares of the largest scale of their output, [O,G]; zeros where there are none."""
        return self._shares() * (self.centre() - self._array(self.z).astype(np.float64)) * self.is_affine

    def largest_multiplier(self) -> int:
        """M, the multiplier of the largest scale: as large as sums of 48 bits allow, half of which the bias has.

        With offsets, as large as sums of 32 bits allow, if that is large enough.
        """
        data, sums = uniform(self.x), np.abs(self._shares()) * self._block_sums()
        bits = MULTIPLIER_BITS if data.storage_width <= 8 else WIDE_MULTIPLIER_BITS
        bound = float((sums + np.abs(self._offset_shares()) * self.size).sum(axis=1).max(initial=0)) * widest(data)
        if self.is_affine:
            rounded = self._shares().shape[1] * float(self._block_sums().max(initial=0) + self.size) * widest(data)
            few = int((ACCUMULATOR_MAX - rounded / 2) // max(bound, 1.0))
            if few >= LEAST_LARGEST:
                return min((1 << bits) - 1, few)
        return int(min((1 << bits) - 1, (WIDE_LIMIT // 2) // max(bound, 1.0)))

    def multipliers(self) -> npt.NDArray[np.int32]:
        """The multipliers of the blocks, [O,G]."""
        if (stated := self._stated()) is not None:
            return (stated[0] << stated[2][:, None]).astype(np.int32)
        return np.rint(self._shares() * self.largest_multiplier()).astype(np.int32)

    def offsets(self) -> Int64s | None:
        """The multipliers k of the sums of the blocks' data, [O,G]; None where no block has an offset."""
        if not self.is_affine:
            return None
        if (stated := self._stated()) is not None:
            apart = np.ldexp(self.centre() - self._array(self.z).astype(np.float64), stated[2][:, None])
            return stated[0] * apart.astype(np.int64)
        return np.rint(self._offset_shares() * self.largest_multiplier()).astype(np.int64)

    def output_scales(self) -> Float64s:
        """The scale of each output of which the scales of its blocks are multiples, [O]."""
        if (stated := self._stated()) is not None:
            return np.ldexp(stated[1], -stated[2])
        return self._largest_scales() / self.largest_multiplier()

    def stored_bias(self) -> Int64s | None:
        """The bias in steps of the sums, s_x · S[o], rounded half to even; None without one.

        Raises:
            UnsupportedError: It does not fit half of 48 bits.
        """
        if self.b is None:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.rint(self._array(self.b).astype(np.float64) / (uniform(self.x).scale * self.output_scales()))
        if not (fits := np.abs(steps) <= WIDE_LIMIT // 2).all():
            raise UnsupportedError(
                f"its bias in channel {int((~fits).argmax())} does not fit 47 bits in steps of its sums", code="bias"
            )
        return steps.astype(np.int64)

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) * self.output_scales().astype(scales.dtype) / scales(self.y)

    def is_accumulator(self, value: SSAValue) -> bool:
        return value is self.y and super().is_accumulator(value)

    def sums(self) -> Sums:
        multiplied = np.abs(self.multipliers().astype(np.int64)) * self._block_sums()
        if (offsets := self.offsets()) is not None:
            multiplied += np.abs(offsets) * self.size
        bounds = multiplied.sum(axis=1) * widest(uniform(self.x))
        bias = self.stored_bias()
        return Sums(bounds if bias is None else bounds + np.abs(bias), "the sum of products", by_channel=True)

    def fits_32_bits(self) -> bool:
        return False  # the sums of blocks are multiplied in 64 bits, however small they are
