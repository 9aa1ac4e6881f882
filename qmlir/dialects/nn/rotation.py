"""Rotations of a tensor's channels."""

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.nn.quantizable import NARROW, Scales, Sums, uniform, widest
from qmlir.dialects.quant.rules import FreeScale
from qmlir.ir.interfaces import Array, Shape, UnaryTensorOp, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.numerics.hadamard import transformed


@irdl_op_definition
class HadamardOp(UnaryTensorOp, NNOp):
    """y = x · H for each block of `block` neighbours along the last axis, H = [[H', H'], [H', −H']] the matrix of ±1.

    Halves are added and subtracted first, then each is transformed by itself; floats are rounded by each addition, and
    integers wrap around. H · H = block · I: a layer whose weights are multiplied by H / block undoes the rotation.

    H is not divided by √block. Only for powers of 4 that root is a power of two, while sums of ±1 are exact in integers
    for every block, and weights behind take any factor.

    (C1) block is a power of two, at least 2, and divides the last axis
    """

    name = "nn.hadamard"

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(FreeScale())

    block = prop_def(IntegerAttr.constr(i64))

    def infer_shapes(self) -> Sequence[Shape]:
        shape, size = shape_of(self.x), self.block.value.data
        if size < 2 or size & size - 1 or not shape or shape[-1] % size:  # C1
            raise VerifyException(
                f"'{self.name}' needs a block of 2, 4, 8, … elements that divides the last axis, got {size} for "
                f"{list(shape)}"
            )
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [len(shape_of(self.x)) - 1])

    def blocks(self) -> tuple[int, int]:
        """The operand's shape as (blocks, elements of a block)."""
        size = self.block.value.data
        return prod(shape_of(self.x)) // size, size

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        with np.errstate(all="ignore"):
            return (transformed(x.reshape(self.blocks())).reshape(x.shape),)

    def sums(self) -> Sums:
        return Sums.up_to(self.block.value.data * widest(uniform(self.x)), "the sum of its block")

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) / scales(self.y)
