"""`correct-bias`: shifts biases so that quantization preserves the mean of each output channel.

Rounded weights and saturated activations move the mean of each output channel, most where a channel sums few products,
as in depthwise convolutions. A bias can undo the shift:

    b[c] ← b[c] + mean(y_float[c] − y_quantized[c])

over calibration data, before the activation function. Layers are corrected in order: a layer reads data from corrected
layers, so it corrects its own error and the remaining error of the layers before it. Correcting all layers at once,
each by itself, diverges on deep networks.

Behind an activation function the shift may do harm: if a clamp hides most sums, their mean says little about the few
sums that pass, and a channel that is 0 on all data may come alive. If the correction would more than double a channel's
square error there, the channel keeps its bias. (The limit is no narrower, as errors of one sign add up in later layers,
while errors of both signs cancel.)

A sum of powers, as in a norm, keeps its bias, too: it would be negative where the powers are small. Sums of 32 bits get
none: what is added to them is added behind the magnitudes of their rows.

Enters and leaves: a float network with the casts of `choose-scales`, both of whose readings are evaluated
(side_by_side.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConstantOp
from qmlir.ir.fact import restated
from qmlir.ir.facts import POWER
from qmlir.ir.interfaces import Array
from qmlir.transforms.quantize.adjust.enough_samples import enough_of
from qmlir.transforms.quantize.adjust.side_by_side import Layer, SampledPass, SideBySide, gives_words

HARM = 2.0
"""The largest factor by which a new bias may increase a channel's square error behind the activation function."""


@dataclass(frozen=True)
class CorrectBiasPass(SampledPass):
    """Corrects biases on calibration data, between `choose-scales` and `quantize-ops`.

    ```mlir
    %y = nn.conv2d %x, %w, %b : …
    // becomes
    %corrected = nn.constant <tensor<8xf32>, …> : tensor<8xf32>
    %y = nn.conv2d %x, %w, %corrected : …
    ```
    """

    name = "correct-bias"

    def adjust(self, function: func.FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> int:
        return SideBySide(function.body.block, enough_of(function, samples)).run(correct)


def correct(layer: Layer) -> bool:
    """Gives a contraction the bias that restores the means of its sums; returns whether the bias changed."""
    if POWER.on(layer.op) or gives_words(layer.op):
        return False
    exact, read = layer.exact_sums(), layer.sums()
    shifts = [
        (x.astype(np.float64) - y).reshape(-1, x.shape[-1]).mean(axis=0) for x, y in zip(exact, read, strict=True)
    ]
    corrected = (layer.bias + np.mean(shifts, axis=0)).astype(np.float32)
    if layer.op.bounds() != (None, None):
        before, after = (_error_behind_clamp(layer, exact, read, bias) for bias in (layer.bias, corrected))
        corrected = np.where(after > HARM * before, layer.bias, corrected)
    if not np.isfinite(corrected).all() or (corrected == layer.bias).all():
        return False
    layer.corrected = corrected
    op = layer.op
    attributes = restated(op.b.owner) if op.b is not None and isinstance(op.b.owner, Operation) else {}
    constant = ConstantOp(corrected, TensorType(f32, corrected.shape), attributes)
    Rewriter.insert_op(constant, InsertPoint.before(op))
    constant.y.name_hint = op.b.name_hint if op.b is not None else None
    op.operands = [op.x, op.w, constant.y]
    return True


def _error_behind_clamp(layer: Layer, exact: Sequence[Array], read: Sequence[Array], bias: Array) -> Array:
    """The square error of each output channel behind a contraction's clamp under a bias, summed over all samples."""
    found = np.zeros(len(bias))
    for x, y in zip(exact, read, strict=True):
        apart = layer.op.clamp(x + layer.bias) - layer.op.clamp(y + bias)
        found += np.square(apart, dtype=np.float64).reshape(-1, len(bias)).sum(axis=0)
    return found
