"""`rotate-products`: puts a Hadamard transform in front of layers that read products of two computed tensors.

In a gated layer, y = f(x · Wgᵀ) ∘ (x · Wuᵀ), a few elements of the product are far larger than the others, and not
always the same. The layer behind reads them rotated: `nn.hadamard` adds and subtracts blocks of channels at run time,
and its inverse is folded into the layer's weights, W · H / block. The transform costs a few percent of the layer.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import FullyConnectedOp, HadamardOp, MulOp, ReshapeOp
from qmlir.dialects.nn.base import is_float
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import set_names, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.numerics.hadamard import transformed
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array, is_scalable
from qmlir.transforms.quantize.prepare.rotated_layers import note_rotated, rotate_read

LEAST = 16
"""The least block whose transform is worth its time: it divides a single large element by 4."""

MOST = 512
"""The largest block: in larger ones, sums have more digits without being more even."""


@dataclass(frozen=True)
class RotateProductsPass(ModulePass):
    """Rotates products of two computed tensors at run time, and back in the weights of the layers that read them.

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
            rotated: dict[SSAValue, HadamardOp] = {}
            for layer in [o for o in function.body.block.ops if isinstance(o, FullyConnectedOp)]:
                size = min(shape_of(layer.x)[-1] & -shape_of(layer.x)[-1], MOST)
                if size >= LEAST and is_scalable(layer) and _is_product(layer.x):
                    _rotate(layer, size, rotated)


def _rotate(layer: FullyConnectedOp, size: int, rotated: dict[SSAValue, HadamardOp]) -> None:
    """Makes a layer read its data rotated in blocks; `rotated` holds the transforms that other layers read."""
    if layer.x not in rotated:
        transform = rotated[layer.x] = HadamardOp.make([layer.x], {"block": IntegerAttr(size, i64)})
        Rewriter.insert_op(transform, InsertPoint.before(layer))
        if name := tensor_name(layer.x):
            set_names(transform.y, NameAttr.of((), [f"{name}.rotated"]))
    layer.operands[0] = rotated[layer.x].y
    rotate_read(layer, transformed(np.eye(size)) / size)
    note_rotated([layer], f"reads products rotated in blocks of {size}")


def _is_product(value: SSAValue) -> bool:
    """Whether a tensor is the product of two computed tensors, perhaps with other dimensions."""
    while isinstance(value.owner, ReshapeOp) and shape_of(value.owner.x)[-1:] == shape_of(value)[-1:]:
        value = value.owner.x
    op = value.owner
    return isinstance(op, MulOp) and is_float(value) and all(constant_array(v) is None for v in op.operands)
