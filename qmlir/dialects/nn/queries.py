"""Queries about networks of nn: constants, single uses, contractions as arrays, the budget for folding constants."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects.nn import ConstantOp, Conv2DOp, DepthwiseConv2DOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.dialects.nn.base import bound, is_float, is_quantized
from qmlir.dialects.nn.blocked import BlockedFullyConnectedOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import BinaryOp
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import Array, Shape, shape_of
from qmlir.ir.rewriting import merged_names

# ---------------------------------------------------------------------------------------------------------------
# Queries that the nn patterns share: constants, single uses, and constants along channels.
#
# Only constants of plain types count as constants here, never constants of a quantized type.


def constant_of(value: SSAValue) -> ConstantOp | None:
    """The constant that defines a value; None if the value is computed or quantized."""
    owner = value.owner
    return owner if isinstance(owner, ConstantOp) and not is_quantized(value) else None


def float_constant_of(value: SSAValue) -> ConstantOp | None:
    """The f32 constant that defines a value, or None."""
    return constant_of(value) if is_float(value) else None


def derived_constant(array: Array, *sources: ConstantOp, element: Attribute | None = None) -> ConstantOp:
    """A constant that is computed from other constants and carries all their names.

    Args:
        array: The values of the constant, or its stored integers if it is quantized.
        sources: The constants that it is computed from; at least one.
        element: The element type of a quantized constant; by default the array's type.
    """
    names = merged_names(sources)
    type = None if element is None else TensorType(element, array.shape)
    constant = ConstantOp(array, type, NAME.entry(names) if names.data else {})
    constant.y.name_hint = sources[0].y.name_hint
    return constant


def used_once(op: Operation) -> bool:
    """Whether an operation has one result with one use, so that a rewrite of the user may absorb the operation."""
    return len(op.results) == 1 and op.results[0].has_one_use()


def split_constant(op: BinaryOp) -> tuple[SSAValue, ConstantOp] | None:
    """The operands of a float operation as (computed value, constant), in whichever order; None for other operands."""
    for x, c in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if (constant := float_constant_of(c)) is not None and constant_of(x) is None:
            return x, constant
    return None


def keeps_shape(op: BinaryOp, x: SSAValue) -> bool:
    """Whether the result of `op` has the shape of its operand `x`, so that only the other operand is broadcast."""
    return shape_of(op.y) == shape_of(x)


def channel_vector(array: Array, shape: Shape) -> Array | None:
    """A constant that varies only along the last dimension of `shape`, as an array [channels]; else None.

    For the shape [N, H, W, C], constants of the shapes [], [1], [C], [1, C] and [1, 1, 1, C] qualify.
    """
    if array.ndim > len(shape) or any(n != 1 for n in array.shape[:-1]):
        return None
    return np.broadcast_to(array.reshape(-1), (shape[-1],))


def rounded(array: Array) -> Array | None:
    """Float64 values rounded once to f32; None if a finite array overflows f32."""
    with np.errstate(over="ignore"):
        result = array.astype(np.float32)
    return result if np.isfinite(result).all() or not np.isfinite(array).all() else None


# ---------------------------------------------------------------------------------------------------------------
# Contractions for the folding patterns: their weights and biases as arrays, and rebuilding with new arrays.
#
# A pattern asks for a `FoldableContraction`, which exists only if weights and bias are f32 constants. The pattern
# computes new weights and biases in float64, rounds them once, and rebuilds the contraction.


Bounds = tuple[float | None, float | None]


def bound_properties(bounds: Bounds) -> dict[str, Attribute]:
    """Bounds as the properties `min` and `max` of a clamp; a property is absent if its bound is None."""
    return {k: p for k, v in zip(("min", "max"), bounds, strict=True) if (p := bound(v)) is not None}


@dataclass(frozen=True)
class BiasedContraction:
    """A float contraction whose bias, if it has one, is a constant.

    The bias is the last operand of its operation.
    """

    op: WeightedOp | BlockedFullyConnectedOp
    bias_constant: ConstantOp | None

    @property
    def bias(self) -> Array:
        """The bias in float64, [O]: zero if the contraction has none."""
        if self.bias_constant is None:
            return np.zeros(shape_of(self.op.y)[-1])
        return self.bias_constant.value.array.astype(np.float64)

    def with_bias(self, bias: Array, *sources: ConstantOp) -> ConstantOp | None:
        """A constant of a new bias [O] with the names of the old and of `sources`; None if an element overflows f32."""
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
        """The given new constants, and then the contraction with the given new input, weights, bias and clamp."""
        data, w, *parameters = self.op.operands if self.op.b is None else self.op.operands[:-1]
        b = self.op.b if bias is None else bias.y
        properties = dict(self.op.properties)
        if bounds is not None:
            properties |= bound_properties(bounds)
        inputs = [data if x is None else x, w if weights is None else weights.y, *parameters]
        op = type(self.op).create(
            operands=[*inputs, *([] if b is None else [b])], result_types=[self.op.y.type], properties=properties
        )
        return [*(c for c in (weights, bias) if c is not None), op]


@dataclass(frozen=True)
class FoldableContraction(BiasedContraction):
    """A float contraction whose weights are a constant too, of floats.

    weights   a float64 array
    """

    op: WeightedOp
    weight_constant: ConstantOp

    @property
    def weights(self) -> Array:
        return self.weight_constant.value.array.astype(np.float64)

    def along_outputs(self, vector: Array) -> Array:
        """A vector [O] over output channels, reshaped so that it broadcasts against the weights."""
        if isinstance(self.op, DepthwiseConv2DOp):
            return vector
        return vector.reshape(-1, *[1] * (self.weight_constant.value.array.ndim - 1))

    def along_inputs(self, vector: Array) -> Array:
        """A vector over the input's channels, reshaped so that it broadcasts against the weights."""
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
        """A constant of new weights with the names of the old and of `sources`; None if a weight overflows f32."""
        array = rounded(weights)
        return None if array is None else derived_constant(array, self.weight_constant, *sources)


def biased_contraction(op: object) -> BiasedContraction | None:
    """The operation as a contraction on floats without a bias or with a constant one, or None."""
    if isinstance(op, WeightedOp):
        return foldable_contraction(op)
    if not isinstance(op, BlockedFullyConnectedOp) or not is_float(op.x):
        return None
    bias = None if op.b is None else float_constant_of(op.b)
    return None if op.b is not None and bias is None else BiasedContraction(op, bias)


def foldable_contraction(op: object) -> FoldableContraction | None:
    """The operation as a contraction with constant float weights and bias, or None."""
    if not isinstance(op, WeightedOp) or not is_float(op.x):
        return None
    weights = float_constant_of(op.w)
    bias = None if op.b is None else float_constant_of(op.b)
    if weights is None or (op.b is not None and bias is None):
        return None
    return FoldableContraction(op, bias, weights)


MOVING = (ReshapeOp, SliceOp, TransposeOp)
"""Data movement whose elements are all elements of its operand."""


@dataclass(frozen=True)
class ContractionBehind:
    """A contraction that computes a value, possibly followed by data movement.

    moving  the movement, in order
    """

    contraction: BiasedContraction
    moving: tuple[ReshapeOp | SliceOp | TransposeOp, ...]

    @property
    def operations(self) -> list[Operation]:
        """The operations that a rewrite erases when it folds something into the contraction: all of it."""
        return [self.contraction.op, *self.moving]

    def moved(self, new: list[Operation]) -> list[Operation]:
        """The new operations, followed by the movement."""
        for op in self.moving:
            new = [*new, type(op).make([new[-1].results[0]], op.properties)]
        return new

    def channel_vector(self, array: Array, shape: Shape) -> Array | None:
        """A constant as an array with an element for each output channel; None if it varies within a channel.

        Args:
            array: The constant, which broadcasts to `shape`.
            shape: The shape of the moved result. A channel of which nothing is left gets the element 1.
        """
        result = shape_of(self.contraction.op.results[0])
        if array.size == 1:
            return np.broadcast_to(array.reshape(-1), result[-1:])
        if all(isinstance(o, ReshapeOp) and shape_of(o.x)[-1:] == shape_of(o.y)[-1:] for o in self.moving):
            return channel_vector(array, shape)
        places = np.broadcast_to(np.arange(result[-1]), result)
        for op in self.moving:
            (places,) = op.evaluate(places)
        found, constant = np.ones(result[-1], array.dtype), np.broadcast_to(array, shape)
        found[places] = constant
        return found if (found[places] == constant).all() else None


def contraction_behind(value: SSAValue) -> ContractionBehind | None:
    """The contraction that computes a value, if it has no clamp and the value is its only use; else None."""
    moving: list[ReshapeOp | SliceOp | TransposeOp] = []
    owner = value.owner
    while isinstance(owner, MOVING):
        if not used_once(owner):
            return None
        moving.insert(0, owner)
        owner = owner.x.owner
    found = biased_contraction(owner)
    if found is None or not used_once(found.op) or found.op.bounds() != (None, None):
        return None
    return ContractionBehind(found, tuple(moving))
