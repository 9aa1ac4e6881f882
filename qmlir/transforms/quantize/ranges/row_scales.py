"""Gives each row of what a contraction reads a scale of its own, where readers need more digits than one scale leaves.

A row holds the data of one sum. Powers of a spectrum are spread over more decades than 32 bits hold, yet the sums of
one frame need the digits of that frame alone. So each row is divided by its largest magnitude m, on floats, and what
the integer contraction gives is multiplied by m:

    y = m · (x / m) ∗ w + b, then the clamp

The quotients lie in [−1, 1] whatever the data are. So they never saturate, and have as many bits as the longest sums
leave, up to 30: weights of 16 bits leave 24 for sums of 256 products, as many as a float has. The sums need no
profile either: the weights bound them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import Observation, ObserveOp, bounds_attribute
from qmlir.dialects.nn import (
    AbsOp,
    AddOp,
    ClampOp,
    ConstantOp,
    Conv2DOp,
    DivideRowsOp,
    DivOp,
    FullyConnectedOp,
    GatherOp,
    MatMulOp,
    MaximumOp,
    MulOp,
    MultiplyRowsOp,
    ReduceMaxOp,
    ReshapeOp,
    RowMagnitudesOp,
)
from qmlir.dialects.nn.contraction import ContractionOp, WeightedOp
from qmlir.dialects.nn.quantizable import widest
from qmlir.dialects.nn.queries import bound_properties
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.ir.facts import NAME
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.locations import locate
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.rewriting import node_name
from qmlir.ir.weights import Weights, WeightsAttr
from qmlir.numerics.blocks import blocks_of_rows
from qmlir.numerics.contracts import WIDE_LIMIT
from qmlir.numerics.schemas import choose_weight_quantization, power_of_two_above
from qmlir.policies.runtimes import runtime_of
from qmlir.settings.quant_config import OpConfig, config_of

MOST_BITS = 30
"""The bits of a row's largest magnitude; the quotient 1 is stored as 2^30."""

BITS_TO_MULTIPLY = 24
"""The bits of the largest sum that magnitudes multiply: the factor to the result has a multiplier then."""

NIBBLE_LIMIT = 7
"""The largest integer of a quotient in 4 bits, which stands for 1."""

MAGNITUDES = ".magnitudes"
"""What is behind the name of a cache in the name of its rows' magnitudes."""

LEAST = np.float32(2.0**-126)
"""The least divisor: a row of zeros stays zeros."""


Tensor: TypeAlias = tuple[SSAValue, Shape]
"""A tensor: the value that it is, perhaps with other dimensions, and its own dimensions."""


def reshaped(value: SSAValue) -> Tensor:
    """Returns what identifies the elements of a tensor: exporters give each of its layers a reshape of its own."""
    source = value
    while isinstance(source.owner, ReshapeOp):
        source = source.owner.x
    return source, tuple(shape_of(value))


@dataclass(frozen=True)
class ConstantFactor:
    """The constant operand of a contraction.

    place    which operand it is; the contraction reads its data from the other of the first two
    numbers  its real values
    """

    place: int
    numbers: Array

    @property
    def data(self) -> int:
        """Which operand holds the data."""
        return 1 - self.place


def constant_factor(op: ContractionOp) -> ConstantFactor | None:
    """The constant weights, or the constant side of a matrix product whose other side is data; None without.

    Weights may be stored in a file as signed integers with a scale.
    """
    places = (1,) if isinstance(op, WeightedOp) else (0, 1)
    constants = [ConstantFactor(i, x) for i in places if (x := _numbers(op.operands[i], op)) is not None]
    return constants[0] if len(constants) == 1 and constants[0].numbers.any() else None


def _numbers(value: SSAValue, op: ContractionOp) -> Array | None:
    if isinstance(value.owner, ConstantOp):
        return value.owner.value.array
    cast = value.owner if isinstance(op, WeightedOp) and isinstance(value.owner, DequantizeCastOp) else None
    if cast is None or not isinstance(cast.input.owner, ConstantOp):
        return None
    element = element_of(cast.input)
    if not isinstance(element, UniformType) or not element.is_signed or any(element.zero_points):
        return None
    (real,) = cast.evaluate(cast.input.owner.value.array)
    return np.asarray(real)


def is_dynamic(op_config: OpConfig) -> bool:
    """Whether the rows that an operation reads have scales of their own."""
    return op_config.activations == "dynamic" and not op_config.keep_float and op_config.half is None


def widens_words(module: ModuleOp, target: Target) -> bool:
    """Whether tensors have 16 bits for the sake of rows alone, whose scales are any numbers: 8 bits were asked for."""
    config = config_of(module)
    plain = runtime_of(module) == "default" and target.wide_results and config.schema != "symmetric_with_power2_scale"
    return plain and config.precision in ("int8", "uint8", "auto")


def terms_of(op: ContractionOp) -> int:
    """How many products a sum of a contraction has."""
    if isinstance(op, WeightedOp):
        return math.prod(shape_of(op.w)) // max(op.output_channels(), 1)
    return shape_of(op.operands[0])[-1]


def type_of_rows(op: ContractionOp, weight_bits: int) -> UniformType:
    """The type in which a contraction with weights of so many bits reads its divided rows."""
    bits = min(MOST_BITS, math.floor(math.log2((WIDE_LIMIT - 1) / (terms_of(op) * 2 ** (weight_bits - 1)))))
    return UniformType.per_tensor(i32, 2.0**-bits, 0, -(1 << bits), 1 << bits)


RowWeights = Literal["int8", "int16"]


def precision_of_row_weights(op: ContractionOp, least: float) -> RowWeights:
    """The precision of the weights beside divided rows: the sums have bits for finer data or for finer weights.

    Where all products have one sign, as those of powers and a bank of filters, the rounding of weights changes each
    product by a small share of itself, and the data get the bits. Where products cancel, as those of a wave and a
    filter, what is left of loud tones has the size of the rounding of the weights.

    Args:
        op: The contraction.
        least: The least number that was observed of its data.
    """
    weights = cast(ConstantFactor, constant_factor(op)).numbers
    return "int8" if least >= 0 and ((weights >= 0).all() or (weights <= 0).all()) else "int16"


def type_of_row_sums(seen: Observation, finest: float, bits: int = MOST_BITS) -> UniformType:
    """The type of 32 bits of the sums of divided rows, which their observer bounds.

    Args:
        seen: The bounds.
        finest: The least scale.
        bits: The bits of the largest sum.
    """
    return UniformType.per_tensor(i32, power_of_two_above(max(seen.bounds[1] * 2.0**-bits, finest)))


def type_of_magnitudes(value: SSAValue) -> UniformType | None:
    """The type of 32 bits of magnitudes by which sums are multiplied, in steps of the rows; None for other values.

    Magnitudes that are moved, as in a cache, have a type from their range.
    """
    op, readers = value.owner, [u.operation for u in value.uses]
    if not isinstance(op, RowMagnitudesOp) or not isinstance(op.x.owner, DequantizeCastOp):
        return None
    if not all(isinstance(o, MultiplyRowsOp | ObserveOp | QuantizeCastOp) for o in readers):
        return None
    rows = op.x.owner.quantized
    return UniformType.per_tensor(i32, rows.scale, 0, 0, widest(rows))


def divide_rows(op: ContractionOp) -> list[Operation]:
    """Divides the rows that a contraction reads, and multiplies its sums; returns the new float operations.

    The observer of the contraction's result observes the product then. The quotients and the sums get observers of
    their own, and the product the names of the tensor.
    """
    place = cast(ConstantFactor, constant_factor(op)).data
    x, axes = op.operands[place], _axes(op, place)
    magnitudes = AbsOp.make([x])
    largest = ReduceMaxOp.make([magnitudes.y], {"axes": DenseArrayBase.from_list(i64, axes)})
    least = ConstantOp(np.array(LEAST))
    divisor = MaximumOp.make([largest.y, least.y])
    quotients = DivOp.make([x, divisor.y])
    before = [magnitudes, largest, least, divisor, quotients]
    bias = op.b if isinstance(op, WeightedOp) else None
    op.operands = [quotients.y if i == place else v for i, v in enumerate(op.operands[:2])]
    product = MulOp.make([op.y, divisor.y])
    after: list[Operation] = [product, *([AddOp.make([product.y, bias])] if bias is not None else [])]
    named = node_name(op)
    _finish(op, after)
    observers = [
        ObserveOp(quotients.y, f"{named} rows", (-1.0, 1.0)),
        ObserveOp(op.y, f"{named} sums", (-(bound := _largest_sum(op)), bound)),
    ]
    Rewriter.insert_op([*before, observers[0]], InsertPoint.before(op))
    Rewriter.insert_op(observers[1], InsertPoint.after(op))
    locate(before, op.location)
    return [*(o for o in before if o is not least), *after]


def rows_in_integers(op: FullyConnectedOp | MatMulOp) -> tuple[RowMagnitudesOp, DivideRowsOp]:
    """Puts the magnitudes and the quotients of the rows that a contraction reads before it."""
    x = op.operands[0]
    magnitudes, quotients = rows = RowMagnitudesOp.make([x]), DivideRowsOp.make([x])
    Rewriter.insert_op(rows, InsertPoint.before(op))
    locate(rows, op.location)
    observe(magnitudes.y, f"{node_name(op)} magnitudes", (0.0, 1.0))  # stored in steps of the rows, whatever it is
    observe(quotients.y, f"{node_name(op)} rows", (-1.0, 1.0))
    return rows


def divide_rows_in_integers(
    op: FullyConnectedOp | MatMulOp, rows: tuple[RowMagnitudesOp, DivideRowsOp], bounds: tuple[float, float]
) -> None:
    """Makes a contraction read quotients of rows, and multiplies its sums by their magnitudes, in integers.

    The observer of the contraction's result observes what it returned, which keeps the names of the tensor. The weights
    bound the sums. Products beyond the result's bounds saturate, as the result does once the bias is added.

    Args:
        op: The contraction.
        rows: What `rows_in_integers` made of its rows, perhaps for another contraction that reads them.
        bounds: The observed bounds of its result.
    """
    (magnitudes, quotients), result, bias = rows, op.results[0], op.b if isinstance(op, WeightedOp) else None
    op.operands = [quotients.y, op.operands[1]]
    product = MultiplyRowsOp.make([result, magnitudes.y])
    after: list[Operation] = [product, *([AddOp.make([product.y, bias])] if bias is not None else [])]
    named, limit = node_name(op), _largest_sum(op)
    _finish(op, after)
    observe(result, f"{named} sums", (-limit, limit))
    added = 0.0 if bias is None else float(np.abs(cast(ConstantOp, bias.owner).value.array).max(initial=0))
    for between in after[:-1]:
        room = added if between is product else 0.0
        observe(between.results[0], f"{named} {between.name}", (bounds[0] - room, bounds[1] + room))


def bound_sums(op: FullyConnectedOp | MatMulOp) -> None:
    """Writes anew how far the sums of divided rows reach on their observer, for a contraction with other weights."""
    bound = _largest_sum(op)
    for observer in [u.operation for u in op.y.uses if isinstance(u.operation, ObserveOp)]:
        observer.range = bounds_attribute(-bound, bound)


def divide_table(op: GatherOp) -> tuple[GatherOp, GatherOp]:
    """Looks rows of a constant table up as integers of 8 bits and a scale for each row; returns the two lookups.

    The integers are those of a layer whose weights are the table, with a scale for each channel.
    """
    table = cast(ConstantOp, op.x.owner)
    scales = choose_weight_quantization(table.value.array, 0, "symmetric", "int8", where=f"table {node_name(op)}")
    integers = np.empty(table.value.shape, np.int8)
    for rows in blocks_of_rows(len(integers)):
        integers[rows] = np.rint(table.value.array[rows] / scales[rows, None])

    def shares() -> Array:
        found = np.empty(integers.shape, np.float32)
        for rows in blocks_of_rows(len(found)):
            found[rows] = integers[rows].astype(scales.dtype) / ROW_LIMIT
        found.flags.writeable = False  # the constant shares its memory
        return found

    weights = Weights(shares(), shares)
    weights.release()  # four bytes in place of one, which nobody asks for until they are stored
    quotients = ConstantOp(WeightsAttr(weights))
    magnitudes = ConstantOp((scales[:, None] * ROW_LIMIT).astype(np.float32))
    lookups = [GatherOp.make([c.y, op.indices], {"axis": op.axis}) for c in (quotients, magnitudes)]
    product = MultiplyRowsOp.make([g.y for g in lookups])
    if not any(isinstance(u.operation, ObserveOp) for u in op.y.uses):
        low, high = float(table.value.array.min()), float(table.value.array.max())
        observe(op.y, node_name(op), (low, high))
    op.y.replace_all_uses_with(product.y)
    product.y.name_hint = op.y.name_hint
    product.attributes |= op.attributes
    Rewriter.insert_op([quotients, magnitudes, *lookups, product], InsertPoint.before(op))
    locate([*lookups, product], op.location)
    observe(lookups[0].y, f"{node_name(op)} rows", (-1.0, 1.0))
    observe(lookups[1].y, f"{node_name(op)} magnitudes", (0.0, float(magnitudes.value.array.max())))
    Rewriter.erase_op(op)
    if not table.y.uses:
        Rewriter.erase_op(table)
    return lookups[0], lookups[1]


ROW_LIMIT = 127
"""The integer that stands for the largest magnitude of a row."""


def observe(value: SSAValue, name: str, bounds: tuple[float, float]) -> None:
    """Puts an observer with a range behind what makes a value."""
    Rewriter.insert_op(ObserveOp(value, name, bounds), InsertPoint.after(cast(Operation, value.owner)))


def clamp_behind(op: ContractionOp) -> list[Operation]:
    """Clamps on floats what a contraction clamps to a bound that its steps may round; returns the new operation."""
    after: list[Operation] = []
    _finish(op, after)
    return after


def _finish(op: ContractionOp, after: list[Operation]) -> None:
    """Puts operations, and the clamp that was fused, between a contraction and its readers."""
    if op.bounds() != (None, None):
        after.append(ClampOp.make([after[-1].results[0] if after else op.y], bound_properties(op.bounds())))
        for name in bound_properties(op.bounds()):
            del op.properties[name]
    op.y.replace_uses_with_if(after[-1].results[0], lambda use: use.operation is not after[0])
    after[-1].results[0].name_hint, op.y.name_hint = op.y.name_hint, None
    Rewriter.insert_op(after, InsertPoint.after(op))
    locate(after, op.location)
    names = names_of(op)
    NAME.put(after[-1], NameAttr.of(tensors=names.data.tensors))
    NAME.put(op, NameAttr.of(names.nodes or names.data.tensors, absorbed=names.data.absorbed))


def _axes(op: ContractionOp, place: int) -> Sequence[int]:
    """The axes of the data along which a row lies: those of one sum, or a whole image where windows overlap."""
    shape = shape_of(op.operands[place])
    if isinstance(op, MatMulOp):
        return [len(shape) - 1 if place == 0 else len(shape) - 2]
    if isinstance(op, FullyConnectedOp):
        return [1]
    single = isinstance(op, Conv2DOp) and op.group_count() == 1 and shape_of(op.w)[1:3] == (1, 1)
    return [3] if single and shape_of(op.y)[:3] == shape[:3] else [1, 2, 3]


def _largest_sum(op: ContractionOp) -> float:
    """The largest magnitude of sums of data in [−1, 1]."""
    constant = cast(ConstantFactor, constant_factor(op))
    if isinstance(op, FullyConnectedOp):
        numbers = constant.numbers
        return max(float(_magnitudes(numbers[rows]).sum(axis=1).max()) for rows in blocks_of_rows(len(numbers)))
    weights = _magnitudes(constant.numbers)
    if isinstance(op, WeightedOp):
        sums = weights.sum(axis=tuple(i for i in range(weights.ndim) if i != op.CHANNEL_AXIS))
    else:
        sums = weights.sum(axis=-2 if constant.place else -1)
    return float(sums.max())


def _magnitudes(numbers: Array) -> Array:
    return np.abs(numbers.astype(np.float64))
