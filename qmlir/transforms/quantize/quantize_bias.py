"""`quantize-bias`: a bias becomes i32 in units of the accumulator.

A product of data and weights is in units of s_x·s_w, so the bias is added for nothing when its scale is exactly
that, per output channel where the weights are per channel, with zero point 0.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.rules import AccumulatorScale
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import NodeError
from qmlir.rewriting import node_name


@dataclass(frozen=True)
class QuantizeBiasPass(ModulePass):
    """Gives each quantized convolution and fully connected layer an i32 bias of scale s_x·s_w.

    ```mlir
    %b = nn.constant <tensor<1xf32>, [0.25]> : tensor<1xf32>
    // becomes, under data of scale 0.5 and weights of scale 0.01
    %b = nn.constant <tensor<1xi32>, [50]> : tensor<1x!quant.uniform<i32:f32, 5.000000e-03>>
    ```
    """

    name = "quantize-bias"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for operation in [o for o in op.walk() if isinstance(o, WeightedOp)]:
            data, weights = element_of(operation.x), element_of(operation.w)
            if isinstance(data, UniformType) and isinstance(weights, UniformType):
                _quantize_bias(operation, data, weights)


def _quantize_bias(op: WeightedOp, data: UniformType, weights: UniformType) -> None:
    if op.b is None or not is_float(op.b):
        return
    constant = op.b.owner
    if not isinstance(constant, ConstantOp):
        raise NodeError(op.name, node_name(op), "needs a constant bias", got="a computed one", remedy="keep it float")
    scales = np.array([data.scale * s for s in weights.scales])
    stored = np.rint(constant.value.array.astype(np.float64) / scales)
    if np.abs(stored).max(initial=0.0) > np.iinfo(np.int32).max:
        channel = int(np.abs(stored).argmax())
        raise NodeError(
            op.name,
            node_name(op),
            f"needs a bias that fits 32 bits at scale {scales[channel % len(scales)]:g}",
            got=f"{constant.value.array[channel]:g} in channel {channel}",
            remedy="widen that channel's weight scale, or keep the operation float",
        )
    (rule,) = op.get_traits_of_type(AccumulatorScale)
    element = rule.bias_type(data, weights)
    type = TensorType(element, stored.shape)
    bias = ConstantOp(stored.astype(np.int32), type, dict(constant.attributes))
    Rewriter.insert_op(bias, InsertPoint.before(op))
    op.operands[2] = bias.y
    if not constant.y.uses:
        Rewriter.erase_op(constant)
