"""`round-weights`: rounds weights together, so that their errors cancel on the data that a layer reads.

The nearest integers are the best weights one by one. But the inputs of a sum go up and down together, and then the
error of one weight can be taken up by others: what counts is the error of the sums over calibration data,

    E |W·x − Ŵ·x̂|²,   x what the float network reads, x̂ what the quantized one reads

less its mean, which is the bias's to correct. With H the covariance of x̂ that is, up to a constant,

    Σ_m (ŵ_m − t_m)ᵀ H (ŵ_m − t_m),   t_m = w_m + α · H⁻¹ · cov(x̂, w_m·(x − x̂))

for each output m. Targets t leave the float weights as far as the error of the layers before can be told from x̂: α is
the share of that shift found on one half of the samples that holds on the other. H comes from few samples and is shrunk
for it (covariance.py); integers of small cost are found by successive rounding and descent (lattice.py). An output
keeps the nearest integers where these cost less. Scales stay as they were chosen.

The cast of the weights then reads the real values of these integers; the constant remembers what they were:

    %w = nn.constant <…, [0.25, 0.5]> {qmlir.unrounded = #qmlir.weights<…, [0.3, 0.5]>} : …

Layer by layer: what a layer reads has rounded weights and, in `quantize`, corrected biases already. All is computed in
float64 from integers; positions are drawn with a fixed seed.

Enters and leaves: a float network with the casts of `choose-scales` (side_by_side.py).
"""

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.interfaces import tensor_type
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.weights import WeightsAttr
from qmlir.passes import option
from qmlir.recipe import Recipe, recipe_of
from qmlir.transforms.quantize.covariance import Moments, mean_of
from qmlir.transforms.quantize.lattice import cost, near_integers
from qmlir.transforms.quantize.side_by_side import UNROUNDED, Layer, SideBySide, network_of, samples_given
from qmlir.transforms.quantize.terms import Terms

Array = npt.NDArray[Any]

POSITIONS = 16384
"""At most so many sums of each output, over all samples, tell what a layer reads. A quarter as many change the SQNR of
kws and resnet8 at 8 bits, calibrated on one half of their calibration data and scored on the other, by at most 0.2 dB,
and the decisions on a few samples of a thousand."""

VALUES = 1 << 24
"""At most so many values are kept of what a layer reads: layers with long sums are told by fewer of them."""


@dataclass(frozen=True)
class RoundWeightsPass(ModulePass):
    """Rounds weights between `choose-scales` and `quantize-ops`, on data.

    ```mlir
    %w = nn.constant <tensor<1x2xf32>, [0.4, 0.4]> : tensor<1x2xf32>
    %wq = quant.qcast %w : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 1.0>>
    // becomes
    %w = nn.constant <tensor<1x2xf32>, [1.0, 0.0]> {qmlir.unrounded = #qmlir.weights<…, [0.4, 0.4]>} : tensor<1x2xf32>
    %wq = quant.qcast %w : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 1.0>>
    ```
    """

    name = "round-weights"
    data: str = option("", "samples: a .npy file of the only input, or an .npz file with one array for each input")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        inputs = samples_given(op, self.name, self.data)
        SideBySide(network_of(op).body.block, inputs).run(WeightRounding())


@dataclass(frozen=True)
class WeightRounding:
    """Rounds the weights of one contraction after another.

    default  the recipe of operations that have none of their own
    fixed    casts that came with the network: what they say stays
    """

    default: Recipe = Recipe()
    fixed: Container[Operation] = ()

    def __call__(self, layer: Layer) -> bool:
        """Rounds the weights of a contraction; whether they are others than the nearest."""
        cast, terms = self._cast(layer.op), Terms.of(layer.op)
        if cast is None or terms is None or not _is_finite(layer):
            return False
        (nearest,) = cast.evaluate(layer.weights)
        stored = terms.as_stored(_rounded(layer, cast, terms, nearest)).astype(nearest.dtype)
        if (stored == nearest).all():
            return False
        back, old = layer.op.w.owner, cast.input.owner
        assert isinstance(back, DequantizeCastOp)
        assert isinstance(old, ConstantOp)
        (layer.stored,) = back.evaluate(stored)
        attributes = old.attributes | {UNROUNDED: WeightsAttr(layer.weights)}
        constant = ConstantOp(layer.stored, tensor_type(old.y), attributes)
        constant.y.name_hint = old.y.name_hint
        Rewriter.insert_op(constant, InsertPoint.before(cast))
        cast.operands[0] = constant.y
        if not old.y.uses:
            Rewriter.erase_op(old)
        return True

    def _cast(self, op: WeightedOp) -> QuantizeCastOp | None:
        """The cast that rounds the weights of an operation, if it is for us to say how."""
        recipe = recipe_of(op, self.default)
        back = op.w.owner
        if recipe.rounding == "nearest" or recipe.glow_exact or not isinstance(back, DequantizeCastOp):
            return None
        cast = back.input.owner
        if not isinstance(cast, QuantizeCastOp) or cast in self.fixed or not isinstance(cast.input.owner, ConstantOp):
            return None
        return cast if _is_read_by(back, op) and _is_read_by(cast, back) and _data_step(op) is not None else None


def _is_read_by(op: Operation, reader: Operation) -> bool:
    """Whether nothing else reads an operation's result."""
    return [u.operation for u in op.results[0].uses] == [reader]


def _data_step(op: WeightedOp) -> float | None:
    """The scale of what an operation reads, if it has one."""
    back = op.x.owner
    scales = back.quantized.scales if isinstance(back, DequantizeCastOp) else ()
    return scales[0] if len(scales) == 1 else None


def _is_finite(layer: Layer) -> bool:
    """Whether a layer's weights and all it reads are numbers."""
    return all(np.isfinite(a).all() for a in (layer.weights, *layer.x, *layer.read))


def _rounded(layer: Layer, cast: QuantizeCastOp, terms: Terms, nearest: Array) -> Array:
    """Integers for the weights of a layer, [g, m, k], in units of their scales."""
    scales, zero_points = cast.quantized.parameters_along(layer.weights.ndim)
    weights = terms.weights(layer.weights / scales)
    offsets = terms.weights(np.broadcast_to(zero_points, layer.weights.shape))
    pairs = _seen(layer, terms, weights)
    integers = terms.weights(nearest)
    centre = mean_of([x for x, _ in pairs]), mean_of([y for _, y in pairs])
    halves = [Moments.of(pairs[i::2], centre) for i in range(min(2, len(pairs)))]
    whole = halves[0] if len(halves) == 1 else halves[0] + halves[1]
    form = whole.covariance()
    targets = weights + offsets
    if len(halves) > 1:
        targets += _share(*halves) * _shift(whole, form)
    limits = cast.quantized.storage_min, cast.quantized.storage_max
    found = near_integers(targets, form, limits)
    better = cost(found, targets, form) < cost(integers, targets, form)
    return np.where(better[:, :, None], found, integers)


def _seen(layer: Layer, terms: Terms, weights: Array) -> list[tuple[Array, Array]]:
    """What a layer reads, [g, p, k], and how much its sums lack for that, [g, p, m], in units of the data's scale.

    For each sample, at some positions.
    """
    step = _data_step(layer.op)
    assert step is not None
    most = min(POSITIONS, VALUES // terms.count)
    each = max(1, min(terms.positions, most // len(layer.x)))
    draw = np.random.default_rng(0)
    found: list[tuple[Array, Array]] = []
    for exact, read in zip(layer.x, layer.read, strict=True):
        positions = np.sort(draw.choice(terms.positions, each, replace=False))
        x = np.rint(terms.data(read, positions).astype(np.float64) / step)
        if terms.blocks == 1:
            lacking = (terms.data(exact, positions).astype(np.float64) / step - x) @ weights.swapaxes(1, 2)
        else:  # what a block lacks the others may have taken up: nothing is asked of it
            lacking = np.zeros((*x.shape[:2], weights.shape[1]))
        found.append((x.astype(np.float32), lacking))  # whole numbers of steps: exact
    return found


def _share(one: Moments, other: Moments) -> float:
    """α: by how much the shift that one half of the samples asks for reduces the error of the other half."""
    gain, size = 0.0, 0.0
    for here, there in ((one, other), (other, one)):
        shift = _shift(here, here.covariance())
        gain += float(np.einsum("gmk,gkm->", shift, there.mean_xy))
        size += float(np.einsum("gmk,gmk->", shift, shift @ there.mean_xx))
    return min(max(gain / size, 0.0), 1.0) if size > 0 else 0.0


def _shift(moments: Moments, form: Array) -> Array:
    """H⁻¹·cov(x̂, error), [g, m, k]: what weights have to change by for the sums not to lack it."""
    return np.linalg.solve(form, moments.mean_xy).swapaxes(1, 2)
