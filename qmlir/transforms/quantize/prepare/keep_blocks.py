"""`keep-blocks`: keeps the integers of few bits that the file of a model stores, for layers that read divided rows.

A language model's file stores weights in blocks: integers of 4 bits, with a scale and an offset for each 32 of a row.
Rounded again to one scale for a row, 4 bits lose what the blocks hold. Where a weight precision is asked for that holds
the file's integers, a layer of divided rows becomes `nn.blocked_fully_connected`, whose integer form multiplies the
sums of blocks: nothing is rounded but scales and offsets, to shares of the largest scale of their row.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.dialects.nn import ConstantOp, DivideRowsOp, FullyConnectedOp
from qmlir.ir.facts import POLICY
from qmlir.ir.levels import levels_of
from qmlir.ir.signature import defined_functions
from qmlir.numerics.affine import Affine
from qmlir.numerics.schemas import weight_bits
from qmlir.settings.quant_config import OpConfig, config_of, op_config_of
from qmlir.transforms.quantize.adjust.stored_blocks import blocks_of_file, in_blocks


class KeepBlocksPass(ModulePass):
    """Makes layers of divided rows read the integers, scales and offsets of their file's blocks.

    ```mlir
    %w = nn.constant <tensor<16x32xf32>, …> {qmlir.levels = #qmlir.levels<affine, bits = 4, …>}
    %q = nn.divide_rows %x : …
    %s = nn.fully_connected %q, %w {qmlir.policy = {precision = "int8", weight_precision = "int4", …}}
    // becomes
    %i = nn.constant <tensor<16x32xui4>, …>
    %d = nn.constant <tensor<16x1xf32>, …>
    %z = nn.constant <tensor<16x1xf32>, …>
    %s = nn.blocked_fully_connected %q, %i, %d, %z {block = 32 : i64, qmlir.policy = {precision = "int8", …}}
    ```
    """

    name = "keep-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        default = config_of(op).op_config()
        for function in defined_functions(op):
            for layer in [o for o in function.body.block.ops if isinstance(o, FullyConnectedOp)]:
                asked = op_config_of(layer, default)
                if isinstance(layer.x.owner, DivideRowsOp) and keeps_blocks(layer, asked):
                    assert isinstance(layer.w.owner, ConstantOp)
                    blocks = blocks_of_file(layer.w.owner, weight_bits(asked.stored_weights))
                    if blocks is not None:
                        policy = POLICY.of(layer)
                        POLICY.set(in_blocks(layer, layer.w.owner, blocks), policy)


def keeps_blocks(layer: FullyConnectedOp, asked: OpConfig) -> bool:
    """Whether the weights of a layer are blocks of its file that the precision of weights holds, which is not 8 bits.

    Weights of 8 bits have a scale for each row, which costs less than multipliers of blocks.
    """
    levels = levels_of(layer.w.owner) if isinstance(layer.w.owner, ConstantOp) else None
    bits = weight_bits(asked.stored_weights)
    return isinstance(levels, Affine) and levels.bits <= bits < 8 and not asked.keep_float and asked.half is None
