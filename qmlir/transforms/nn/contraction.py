"""Contractions as the folding patterns see them: weights and bias as arrays, and the same operation with others.

A pattern asks for a `FoldableContraction`, which exists only where weights and bias are f32 constants, computes in
float64, rounds once, and rebuilds.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.interfaces import Array, shape_of
from qmlir.dialects.nn import ConstantOp, Conv2DOp, DepthwiseConv2DOp, ReshapeOp
from qmlir.dialects.nn.base import bound, is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.transforms.nn.matching import derived_constant, float_constant_of, rounded, used_once

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class FoldableContraction:
    """A float contraction whose weights and bias are constants.

    weights, bias   float64; the bias [O] is zero where there is none
    """

    op: WeightedOp
    weight_constant: ConstantOp
    bias_constant: ConstantOp | None

    @property
    def weights(self) -> Array:
        return self.weight_constant.value.array.astype(np.float64)

    @property
    def bias(self) -> Array:
        if self.bias_constant is None:
            return np.zeros(self.op.output_channels())
        return self.bias_constant.value.array.astype(np.float64)

    def along_outputs(self, vector: Array) -> Array:
        """A vector [O] in the shape in which it multiplies the weights."""
        if isinstance(self.op, DepthwiseConv2DOp):
            return vector
        return vector.reshape(-1, *[1] * (self.weight_constant.value.array.ndim - 1))

    def along_inputs(self, vector: Array) -> Array:
        """A vector over the input's channels in the shape in which it multiplies the weights."""
        match self.op:
            case DepthwiseConv2DOp():
                return np.repeat(vector, self.op.multiplier())
            case Conv2DOp():
                groups = self.op.group_count()
                each = np.repeat(vector.reshape(groups, -1), self.op.output_channels() // groups, axis=0)
                return each[:, None, None, :]  # [O, 1, 1, C/G]
            case _:
                return vector

    def with_weights(self, weights: Array, *sources: ConstantOp) -> ConstantOp | None:
        """New weights, made from the old and from `sources`; None where they do not fit into f32."""
        array = rounded(weights)
        return None if array is None else derived_constant(array, self.weight_constant, *sources)

    def with_bias(self, bias: Array, *sources: ConstantOp) -> ConstantOp | None:
        """A new bias [O], made from the old one and from `sources`; None where it does not fit into f32."""
        array = rounded(bias)
        own = [] if self.bias_constant is None else [self.bias_constant]
        return None if array is None else derived_constant(array, *own, *sources)

    def rebuilt(
        self,
        *,
        x: SSAValue | None = None,
        weights: ConstantOp | None = None,
        bias: ConstantOp | None = None,
        bounds: Bounds | None = None,
    ) -> list[Operation]:
        """The new constants and then the operation with them, with another input, or with another clamp."""
        w = self.op.w if weights is None else weights.y
        b = self.op.b if bias is None else bias.y
        properties = dict(self.op.properties)
        if bounds is not None:
            properties |= {k: p for k, v in zip(("min", "max"), bounds, strict=True) if (p := bound(v)) is not None}
        op = type(self.op).create(
            operands=[self.op.x if x is None else x, w, *([] if b is None else [b])],
            result_types=[self.op.y.type],
            properties=properties,
        )
        return [*(c for c in (weights, bias) if c is not None), op]


def foldable_contraction(op: object) -> FoldableContraction | None:
    """The operation as a contraction with constant float weights and bias, or None."""
    if not isinstance(op, WeightedOp) or not is_float(op.x):
        return None
    weights = float_constant_of(op.w)
    bias = None if op.b is None else float_constant_of(op.b)
    if weights is None or (op.b is not None and bias is None):
        return None
    return FoldableContraction(op, weights, bias)


@dataclass(frozen=True)
class ContractionBehind:
    """A contraction that computes a value, perhaps behind a reshape that keeps the channels last."""

    contraction: FoldableContraction
    reshape: ReshapeOp | None

    @property
    def operations(self) -> list[Operation]:
        """The operations that a rewrite of the value takes along."""
        return [self.contraction.op, *([] if self.reshape is None else [self.reshape])]

    def moved(self, new: list[Operation]) -> list[Operation]:
        """The new operations with the reshape behind them."""
        if self.reshape is None:
            return new
        return [*new, ReshapeOp.make([new[-1].results[0]], {"shape": self.reshape.shape})]


def contraction_behind(value: SSAValue) -> ContractionBehind | None:
    """The contraction that computes a value for one user only and does not clamp it, or None."""
    owner = value.owner
    reshape = owner if isinstance(owner, ReshapeOp) else None
    if reshape is not None:
        if not used_once(reshape) or shape_of(reshape.x)[-1:] != shape_of(reshape.y)[-1:]:
            return None
        owner = reshape.x.owner
    found = foldable_contraction(owner)
    if found is None or not used_once(found.op) or found.op.bounds() != (None, None):
        return None
    return ContractionBehind(found, reshape)
