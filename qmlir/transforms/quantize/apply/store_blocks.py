"""`store-blocks`: stores weights in few bits for layers that a policy computes in floats (weight-only quantization).

Enters: a network behind `quantize-ops`. Leaves: fully connected layers of precision float16 or bfloat16 that a
`weight_precision` of 2 to 8 bits is asked for, as `nn.blocked_fully_connected`: integers with a scale for each block of
their inputs, of which each weight becomes a float before it is multiplied. Such a layer computes in float32.

Weights that the file of the model stores in as few bits (`Affine`) keep its integers and scales. Others are rounded to
the nearest in blocks of 32, or of the size that `granularity` says. Integers are unsigned, as MatMulNBits has them.
"""

import ml_dtypes
import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp, FullyConnectedOp
from qmlir.dialects.nn.queries import FoldableContraction, derived_constant, foldable_contraction
from qmlir.ir.levels import levels_of
from qmlir.ir.rewriting import replace
from qmlir.ir.signature import defined_functions
from qmlir.numerics import Array
from qmlir.numerics.affine import Affine, fitted_blocks
from qmlir.policies.ledger import decision_of
from qmlir.settings.quant_config import OpConfig, config_of, op_config_of
from qmlir.transforms.quantize.reasons import Reason, leave_float

SIZE = 32
"""The weights of a block, unless a granularity or the file says otherwise."""


class StoreBlocksPass(ModulePass):
    """Stores weights of layers that a policy computes in floats of 16 bits in fewer bits, where it asks for them.

    ```mlir
    %y = nn.fully_connected %x, %w {qmlir.policy = {precision = "float16", weight_precision = "int4"}}
    // becomes
    %q = nn.constant <tensor<16x32xi4>, …>
    %s = nn.constant <tensor<16x1xf32>, …>
    %z = nn.constant <tensor<16x1xi4>, …>
    %y = nn.blocked_fully_connected %x, %q, %s, %z {block = 32 : i64}
    ```
    """

    name = "store-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        default = config_of(op).op_config()
        for function in defined_functions(op):
            for layer in [o for o in function.body.block.ops if isinstance(o, FullyConnectedOp)]:
                decision, found = decision_of(layer), foldable_contraction(layer)
                asked = op_config_of(layer, default)
                if found is not None and asked.blocks_bits is not None and (
                    decision is None or decision.code.data == "half"
                ):  # fmt: skip
                    _store(layer, found, asked, asked.blocks_bits)


def _store(layer: FullyConnectedOp, found: FoldableContraction, asked: OpConfig, bits: int) -> None:
    constant = found.weight_constant
    integers, scales, points, size = _blocks(constant, asked, bits)
    constants = [derived_constant(integers, constant), ConstantOp(scales), ConstantOp(points)]
    bias = [] if layer.b is None else [layer.b]
    operands: list[SSAValue | list[SSAValue]] = [layer.x, *(c.y for c in constants), bias]
    properties = {name: value for name, value in layer.properties.items() if name in ("min", "max")}
    new = BlockedFullyConnectedOp.make(operands, {**properties, "block": IntegerAttr(size, i64)})
    why = f"the policy computes it in floats, on weights of int{bits} in blocks of {size}"
    leave_float(new, Reason("half", why))
    replace(PatternRewriter(layer), layer, [*constants, new], doing=new)
    if not constant.y.uses:
        Rewriter.erase_op(constant)


def _blocks(constant: ConstantOp, asked: OpConfig, bits: int) -> tuple[Array, Array, Array, int]:
    """The integers of weights, the scales and the zero points of their blocks, and a block's size."""
    weights, levels = constant.value.array, levels_of(constant)
    stored = levels.stored(weights) if isinstance(levels, Affine) and levels.bits <= bits else None
    if not isinstance(levels, Affine) or stored is None:
        size = asked.group or SIZE
        integers, scales = fitted_blocks(weights, bits, size)
        return *_unsigned(integers, scales, bits, 1 << bits - 1), size
    if not len(levels.offsets):
        return *_unsigned(stored, levels.scales, levels.bits, -levels.least), levels.size
    flat = levels.scales == 0  # blocks that are their offset alone
    stored = np.where(np.repeat(flat, levels.size, axis=1), np.zeros_like(stored), stored)
    points = np.where(flat, np.float32(-1), -levels.offsets / np.where(flat, np.float32(1), levels.scales))
    integers, scales, _ = _unsigned(stored, np.where(flat, levels.offsets, levels.scales), levels.bits, 0)
    return integers, scales, points, levels.size


def _unsigned(integers: Array, scales: Array, bits: int, zero: int) -> tuple[Array, Array, Array]:
    """Integers from −zero on as unsigned ones with `zero` as their zero point, the scales, and the zero points."""
    own = np.dtype(ml_dtypes.uint4 if bits <= 4 else np.uint8)
    return (integers.astype(np.int16) + zero).astype(own), scales, np.full(scales.shape, zero, own)
