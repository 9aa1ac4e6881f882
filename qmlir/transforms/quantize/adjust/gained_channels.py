"""Brings the channels that fully connected layers read nearer to one magnitude, where no layer writes them.

A normalization's result is multiplied by a gain and shifted for each channel, and in transformers a few of these
channels are an order of magnitude larger than the others. Gain and shift can be divided by a factor, and the layers'
weights multiplied, as in SmoothQuant:

    s[c] = r[c]^a / w[c]^(1−a),   r[c] the largest magnitude of channel c, w[c] its largest weight

A large share a costs the weights, a small share the data. The share is the multiple of 1/10 that leaves the least
noise in the layers' sums, if each rounding errs by a twelfth of its squared step, independently of the others:

    noise(s) = max_c (r[c] / s[c])² · Σ (w[m,c] · s[c])² + Σ_m max_c (w[m,c] · s[c])² · Σ_c e[c] / s[c]²

where e[c] is the mean square of channel c in the rows that the layers read, and both terms are divided by the squared
number of steps on a side of zero, 127.5 for data of 8 bits. Layers may read some rows of the tensor only, as the
classifier of a vision transformer reads the class token's: the operations in between move whole rows.

No channel is multiplied by more than `LARGEST_FACTOR`, as it may be nearly dead on the samples only. Large channels
are divided by whatever it takes: the outliers of deep encoders are a thousand times as large as the other channels.

If a residual stream of 16 bits is read by other operations too, layers read it through a product with 1/s, which
takes the place of the requantization to 8 bits. So do layers that alone read a normalization of 16 bits, whose gain was
folded into their weights. Where the stream itself is a gain times a normalization, layers read a product of this
normalization with gain/s: of the stream, the steps of the largest channels are coarse for the others.

Layers that read rows with scales of their own (`activations=dynamic`) read q = x/s divided by the row's largest
magnitude m, and their sums are multiplied by m: rows follow the factors by themselves. Large channels cost such rows
digits as well, but not all of them: their channels are divided only where that leaves `LEAST_GAIN` dB less noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from xdsl.dialects import func
from xdsl.ir import Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp, bounds_attribute
from qmlir.dialects.nn import (
    AddOp,
    ConstantOp,
    DivideRowsOp,
    FullyConnectedOp,
    GatherOp,
    MulOp,
    MultiplyRowsOp,
    ReshapeOp,
    RowMagnitudesOp,
    SliceOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.normalization import OverTrailingOp
from qmlir.dialects.target import Target
from qmlir.ir.facts import POLICY, RESIDUAL
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.traversal import reached
from qmlir.numerics.schemas import Schema, weight_bits
from qmlir.settings.quant_config import policy_attribute
from qmlir.transforms.quantize.adjust.channel_pairs import (
    LARGEST_FACTOR,
    constant_array,
    evaluations,
    is_scalable,
    note_factors,
    observe_anew,
    readers_of,
    scaled_along,
    set_constant,
)
from qmlir.transforms.quantize.op_configs import OpConfigs
from qmlir.transforms.quantize.ranges.margins import FURTHER, leaves_room
from qmlir.transforms.quantize.ranges.row_scales import bound_sums

LEAST_GAIN = 3.0
"""The decibels by which less noise makes up for a product in front of rows that have scales of their own."""

ROWS = 512
"""Rows of weights that are looked at together: few enough that their products stay in a cache."""


@dataclass(frozen=True)
class GainedChannels:
    """A tensor whose channels, along its last axis, fully connected layers read.

    y            the tensor
    gains        products and sums with constants that compute it and whose constants can be divided; empty otherwise
    between      operations before the layers that move whole rows of channels, such as a reshape or a token's slice
    readers      the layers
    schema       the schema of the tensor
    weight_bits  the bits of the layers' weights
    rows         operations that divide rows by their largest magnitude, and compute it, for the layers' sums
    """

    y: SSAValue
    gains: tuple[MulOp | AddOp, ...]
    between: tuple[Operation, ...]
    readers: tuple[FullyConnectedOp, ...]
    schema: Schema
    weight_bits: int
    rows: tuple[Operation, ...] = ()

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The tensors that change."""
        return *(o.y for o in self.gains), *(o.results[0] for o in self.between)

    @property
    def read(self) -> SSAValue:
        """The channels as the first of the layers reads them, with all rows in the steps of one scale."""
        x = self.readers[0].x
        return x.owner.x if isinstance(x.owner, DivideRowsOp) else x

    def factors(self, highest: Array, usual: Array, squares: Array) -> Array | None:
        """The factor s of each channel, of the share that leaves the least noise, with a mean logarithm of 0.

        None for rows with scales of their own that gain too little by factors.

        Args:
            highest: The largest magnitude that is expected of each channel of the tensor.
            usual: The mean over samples of each channel's largest magnitude, which follows single values less.
            squares: The mean square of each channel in the rows that the first of the layers reads.
        """
        weights = [w for r in self.readers if (w := constant_array(r.w)) is not None]
        largest: Array = np.max([np.abs(w).max(axis=0) for w in weights], axis=0).astype(np.float64)
        known = (usual > 0) & (largest > 0)
        found = [self._factors(share / 10, usual, largest, known) for share in range(11)]
        if self.rows:  # which bring their own ranges
            highest, found = usual, [np.ones(len(largest)), *found]
        rows, of_rows = np.zeros(len(largest)), np.zeros(len(found))
        for block in (w[i : i + ROWS].astype(np.float64) for w in weights for i in range(0, len(w), ROWS)):
            rows += (block**2).sum(axis=0)
            np.abs(block, out=block)
            of_rows += [((block * factors).max(axis=1) ** 2).sum() for factors in found]
        noises = [self._noise(f, highest, squares, rows, most) for f, most in zip(found, of_rows, strict=True)]
        if self.rows and min(noises) > noises[0] / 10 ** (LEAST_GAIN / 10):
            return None
        return found[int(np.argmin(noises))]

    @staticmethod
    def _factors(share: float, usual: Array, weight: Array, known: Array) -> Array:
        """The divisor of each channel, if data have this share of it; 1 for channels without data or weights."""
        factors = np.where(known, usual, 1.0) ** share / np.where(known, weight, 1.0) ** (1 - share)
        factors /= np.exp(np.log(factors[known]).mean()) if known.any() else 1.0
        return np.where(known, np.maximum(factors, 1 / LARGEST_FACTOR), 1.0)

    def _noise(self, factors: Array, highest: Array, squares: Array, rows: Array, of_rows: float) -> float:
        """The noise that rounding data and weights leaves in the layers' sums, but for a common factor.

        Args:
            factors: The divisor of each channel of the data.
            highest: As for `factors`.
            squares: As for `factors`.
            rows: The sum of the squares of each channel's weights.
            of_rows: The sum over rows of the square of the largest of the weights times the factors.
        """
        data = (highest / factors).max() ** 2
        sides = (2**8 - 1) / 2, 2 ** (self.weight_bits - 1) - 1
        return data / sides[0] ** 2 * (rows * factors**2).sum() + of_rows / sides[1] ** 2 * (squares / factors**2).sum()

    def divide(self, factors: Array) -> "GainedChannels":
        """Divides the channels by factors above 0, and multiplies the weights; returns what reads the channels now."""
        if not self.gains:
            return self._through_product(factors)
        self._multiply_weights(factors)
        for op in (*self.gains, *self.between):
            note_factors(op, 1 / factors)
        for op in self.gains:
            wide: Array = np.broadcast_to(_constant(op), (len(factors),))
            set_constant(op, _place(op), scaled_along(wide, 1 / factors, 0))
        return self

    def _multiply_weights(self, factors: Array) -> None:
        for reader in self.readers:
            set_constant(reader, 1, scaled_along(constant_array(reader.w), factors, 1))
            if self.rows:
                bound_sums(reader)

    def _through_product(self, factors: Array) -> "GainedChannels":
        """Divides the channels that the layers read in a product of their own.

        Where the stream is a product with a gain, and perhaps a sum, these are computed anew from what they read: the
        stream's step is that of its largest channels.
        """
        ops = _gains_of(self.y.owner) if isinstance(self.y.owner, AddOp | MulOp) else ()
        source, gain = (_data(ops[0]), _constant(ops[0])) if ops else (self.y, np.ones(1))
        constant, divisors = _in_steps(gain, factors)
        self._multiply_weights(divisors)
        held = ConstantOp(constant.astype(np.float32))
        made: list[MulOp | AddOp] = [MulOp.make([source, held.y])]
        inserted: list[Operation] = [held, made[0]]
        if len(ops) > 1:
            shift = ConstantOp((_constant(ops[1]) / divisors).astype(np.float32))
            made.append(AddOp.make([made[0].y, shift.y]))
            inserted += [shift, made[1]]
        name = tensor_name(self.y) or self.y.name_hint or "stream"
        for op, label in zip(reversed(made), ("equalized", "equalized.scaled"), strict=False):
            inserted.append(ObserveOp(op.y, f"{name}.{label}"))
            POLICY.put(op, policy_attribute({"precision": "int16", "schema": self.schema}))
            RESIDUAL.put(op, "the channels of a residual stream, equalized for layers of 8 bits")
        Rewriter.insert_op(inserted, InsertPoint.after(cast(Operation, self.y.owner)))
        for reader in (*self.between, *self.rows, *self.readers):
            if reader.operands[0] is self.y:
                reader.operands[0] = made[-1].y
        return replace(self, y=made[-1].y, gains=tuple(made))


def equalize_gains(
    function: func.FuncOp, inputs: Sequence[Sequence[Array]], op_configs: OpConfigs, target: Target
) -> int:
    """Equalizes the channels that fully connected layers read behind normalizations and of wide residual streams.

    Args:
        function: The network; its weights, constants and observers change.
        inputs: Samples, each an array for each input.
        op_configs: The quantization configs of its operations and tensors.
        target: The target; where it multiplies no data of 16 bits, layers read residual streams as they are.

    Returns:
        The number of tensors whose channels were equalized.
    """
    block = function.body.block
    gained = [
        g
        for op in block.ops
        if isinstance(op, AddOp | MulOp | OverTrailingOp) and (g := _gained(op, op_configs)) is not None
    ]
    if target.refusal("nn.mul", "i16") is not None:
        gained = [g for g in gained if g.gains]
    read = {g.y: g.read for g in gained}
    highest: dict[SSAValue, Array] = {}
    means: dict[SSAValue, Array] = {}
    squares: dict[SSAValue, Array] = {}
    for values in evaluations(block, inputs, {*read, *read.values()}):
        magnitudes = {v: np.abs(a, dtype=np.float64).reshape(-1, a.shape[-1]) for v, a in values.items()}
        for value, array in magnitudes.items():
            highest[value] = np.maximum(highest.get(value, 0.0), array.max(axis=0))
            means[value] = means.get(value, 0.0) + array.max(axis=0) / len(inputs)
            squares[value] = squares.get(value, 0.0) + (array**2).mean(axis=0) / len(inputs)
    expected = {v: highest[v] + FURTHER * (highest[v] - means[v]) for v in highest}
    factors = [(g, g.factors(expected[g.y], means[g.y], squares[read[g.y]])) for g in gained]
    chosen = [(g, f) for g, f in factors if f is not None]
    divided = [(g, g.divide(f), f) for g, f in chosen]
    observe_anew(block, [v for _, g, _ in divided for v in g.tensors], inputs)
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
    for before, after, found in divided:
        if after.y in observers and leaves_room(op_configs.of_value(before.y)):
            _keep_margin(observers[after.y], float((expected[before.y] / found).max()))
    return len(divided)


def _keep_margin(observer: ObserveOp, expected: float) -> None:
    """Gives a tensor of equalized channels the margin that its channels have for data that were not observed.

    All channels reach the end of the range on the samples then, so that the tensor's own mean range shows no margin.
    """
    assert observer.bounds is not None
    lo, hi = observer.bounds
    further = (expected / max(-lo, hi) - 1) / FURTHER if max(-lo, hi) > 0 else 0.0
    observer.average = bounds_attribute(lo - further * lo, hi - further * hi)


def _gained(op: AddOp | MulOp | OverTrailingOp, op_configs: OpConfigs) -> GainedChannels | None:
    """The channels that an operation writes and layers of 8 bits read; None if they cannot be divided."""
    found_between: list[Operation] = []
    readers: list[FullyConnectedOp] = []
    others = False
    for use in op.y.uses:
        if isinstance(use.operation, ObserveOp):
            continue
        found = layers_behind(use)
        if found is None:
            others = True
        else:
            found_between += found[0]
            readers += found[1]
    rows = tuple(o for o in found_between if isinstance(o, DivideRowsOp | RowMagnitudesOp))
    between = tuple(o for o in found_between if o not in rows)
    if not readers or not is_float(op.y) or any(op_configs.of(r).integers == "int16" for r in readers):
        return None
    if any(op_configs.of(r).half is not None or op_configs.of(r).keep_float for r in readers):
        return None
    gains = () if others or isinstance(op, OverTrailingOp) else _gains_of(op)
    clamped = not isinstance(op, OverTrailingOp) and op.bounds() != (None, None)
    if not gains and (op_configs.of_value(op.y).integers != "int16" or clamped):
        return None
    bits = weight_bits(op_configs.of(readers[0]).stored_weights)
    return GainedChannels(op.y, gains, between, tuple(readers), op_configs.of_value(op.y).schema, bits, rows)


def layers_behind(use: Use) -> tuple[list[Operation], list[FullyConnectedOp]] | None:
    """The operations that move whole rows of channels to fully connected layers, and these; None if others read them.

    Rows may be divided by their largest magnitudes on the way, by which the layers' sums are multiplied again.

    Args:
        use: An operand of a layer, or of an operation that may move a tensor's rows to layers.
    """
    between, readers = list[Operation](), list[FullyConnectedOp]()

    def behind(use: Use) -> list[Use]:
        op = use.operation
        moves = (
            use.index == 0 and not isinstance(op, FullyConnectedOp) and (moves_rows(op) or isinstance(op, DivideRowsOp))
        )
        return [u for u in op.results[0].uses if not isinstance(u.operation, ObserveOp)] if moves else []

    for each in reached([use], behind):
        op = each.operation
        if isinstance(op, FullyConnectedOp) and each.index == 0 and is_scalable(op):
            readers.append(op)
        elif _is_undone(op) or (behind(each) and not isinstance(op, DivideRowsOp)):
            between.append(op)
        else:
            return None
    return between, readers


def _is_undone(op: Operation) -> bool:
    """Whether an operation divides rows, or computes their magnitudes, by which layers' sums are multiplied again.

    Other magnitudes would leave those products the same then, as neither quotients nor magnitudes are read elsewhere.
    """
    if not isinstance(op, DivideRowsOp | RowMagnitudesOp):
        return False
    rows = readers_of(op.x)
    quotients, magnitudes = ([o.y for o in rows if isinstance(o, kind)] for kind in (DivideRowsOp, RowMagnitudesOp))
    layers = [o for v in quotients for o in readers_of(v)]
    if not all(isinstance(o, FullyConnectedOp) and o.b is None and o.bounds() == (None, None) for o in layers):
        return False
    products = [o for v in (*(layer.results[0] for layer in layers), *magnitudes) for o in readers_of(v)]
    return all(isinstance(o, MultiplyRowsOp) and o.x.owner in layers and o.m in magnitudes for o in products)


def moves_rows(op: Operation) -> bool:
    """Whether an operation moves whole rows of its first operand, along the last axis, and changes none."""
    if not isinstance(op, ReshapeOp | SliceOp | TransposeOp | GatherOp):
        return False
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    if before[-1:] != after[-1:] or 0 in before:
        return False
    if isinstance(op, SliceOp):
        return op.steps()[-1] == (0, before[-1], 1)
    if isinstance(op, TransposeOp):
        return tuple(op.permutation.get_values())[-1] == len(before) - 1
    return not isinstance(op, GatherOp) or op.axis.value.data != len(before) - 1


def _gains_of(op: AddOp | MulOp) -> tuple[MulOp | AddOp, ...]:
    """The product with a constant for each channel, and the sum behind it, that an operation computes; else empty."""
    if isinstance(op, MulOp):
        return (op,) if _has_gain(op) else ()
    data = op.rhs if isinstance(op.lhs.owner, ConstantOp) else op.lhs
    product = data.owner
    alone = isinstance(product, MulOp) and _has_gain(product) and len(readers_of(data)) == 1
    return (product, op) if isinstance(product, MulOp) and alone and _has_gain(op) else ()


def _place(op: AddOp | MulOp) -> int:
    """The operand that is the constant."""
    return 0 if isinstance(op.lhs.owner, ConstantOp) else 1


def _data(op: AddOp | MulOp) -> SSAValue:
    """The operand that is no constant."""
    return op.operands[1 - _place(op)]


def _constant(op: AddOp | MulOp) -> Array:
    """The constant operand, flat."""
    constant = constant_array(op.operands[_place(op)])
    assert constant is not None
    return constant.reshape(-1)


def _in_steps(gain: Array, factors: Array) -> tuple[Array, Array]:
    """A gain divided by factors, in steps of its 16 bits, and the factors that divide the gain so exactly."""
    quotient = gain.astype(np.float64) / factors
    step = max(float(np.abs(quotient).max()), 1e-30) / (2**15 - 1)
    rounded = np.sign(quotient) * np.maximum(np.round(np.abs(quotient) / step), 1) * step
    return rounded, np.where(quotient == 0, factors, gain / np.where(rounded == 0, 1, rounded))


def _has_gain(op: AddOp | MulOp) -> bool:
    """Whether an operand is a constant that differs along the last axis only, and there is no clamp and no policy."""
    constants = [v for v in (op.lhs, op.rhs) if isinstance(v.owner, ConstantOp)]
    data = [v for v in (op.lhs, op.rhs) if not isinstance(v.owner, ConstantOp)]
    if len(constants) != 1 or op.bounds() != (None, None) or shape_of(data[0]) != shape_of(op.y):
        return False
    shape = shape_of(constants[0])
    return int(np.prod(shape)) in (1, shape[-1] if shape else 1)
