"""`rotate-products`: puts a Hadamard transform in front of layers that read a few elements far larger than the others.

Such a layer reads its data rotated: `nn.hadamard` adds and subtracts blocks of channels at run time, and its inverse is
folded into the layer's weights, W · H / block. The transform costs a few percent of the layer. It stands before layers
that read

* products of two computed tensors, as in a gated layer, y = f(x · Wgᵀ) ∘ (x · Wuᵀ), whose large elements are not always
  the same;
* results of functions that are nearly 0 for one sign, and grow with the other, such as GELU;
* layer normalizations with their gains, which cannot be rotated in weights, as they subtract a mean.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import AddOp, FullyConnectedOp, HadamardOp, LayerNormOp, MulOp, ReshapeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.functions import GeluOp, MishOp, SwishOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import set_names, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.numerics.hadamard import transformed
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array, is_scalable
from qmlir.transforms.quantize.prepare.rotated_layers import note_rotated, rotate_read
from qmlir.transforms.quantize.ranges.row_scales import Tensor, reshaped

LEAST = 16
"""The least block whose transform is worth its time: it divides a single large element by 4."""

MOST = 512
"""The largest block: in larger ones, sums have more digits without being more even."""


@dataclass(frozen=True)
class RotateProductsPass(ModulePass):
    """Rotates data with large elements at run time, and back in the weights of the layers that read them.

    ```mlir
    %0 = nn.mul %gate, %up : …
    %1 = nn.fully_connected %0, %w : …
    // becomes, with %wh = %w · H / 512
    %0 = nn.mul %gate, %up : …
    %r = nn.hadamard %0 {block = 512 : i64} : …
    %1 = nn.fully_connected %r, %wh {qmlir.rotated = "reads products rotated in blocks of 512"} : …
    ```
    """

    name = "rotate-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            rotated: dict[Tensor, HadamardOp] = {}
            for layer in [o for o in function.body.block.ops if isinstance(o, FullyConnectedOp)]:
                size = min(shape_of(layer.x)[-1] & -shape_of(layer.x)[-1], MOST)
                if size >= LEAST and is_scalable(layer) and (what := _uneven(layer.x)):
                    _rotate(layer, what, size, rotated)


def _rotate(layer: FullyConnectedOp, what: str, size: int, rotated: dict[Tensor, HadamardOp]) -> None:
    """Makes a layer read its data rotated in blocks; `rotated` holds the transforms that other layers read."""
    read = reshaped(layer.x)
    if read not in rotated:
        transform = rotated[read] = HadamardOp.make([layer.x], {"block": IntegerAttr(size, i64)})
        Rewriter.insert_op(transform, InsertPoint.before(layer))
        if name := tensor_name(layer.x):
            set_names(transform.y, NameAttr.of((), [f"{name}.rotated"]))
    layer.operands[0] = rotated[read].y
    rotate_read(layer, transformed(np.eye(size)) / size)
    note_rotated([layer], f"reads {what} rotated in blocks of {size}")


def _uneven(value: SSAValue) -> str:
    """What a tensor holds if a few of its elements are far larger than the others; empty for other tensors.

    It may have other dimensions than the operation gave it.
    """
    while isinstance(value.owner, ReshapeOp) and shape_of(value.owner.x)[-1:] == shape_of(value)[-1:]:
        value = value.owner.x
    op = value.owner
    if not is_float(value):
        return ""
    if isinstance(op, GeluOp | MishOp | SwishOp):
        return "a function's results"
    if isinstance(op, MulOp) and all(constant_array(v) is None for v in op.operands):
        return "products"
    while isinstance(op, AddOp | MulOp) and op.bounds() == (None, None):
        data = [v for v in op.operands if constant_array(v) is None]
        if len(data) != 1 or shape_of(data[0]) != shape_of(op.y):
            return ""
        op = data[0].owner
    normalizes = isinstance(op, LayerNormOp) and op.axis.value.data == len(shape_of(op.y)) - 1
    return "a normalization" if normalizes else ""
