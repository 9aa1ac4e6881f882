"""`store-blocks`: stores weights in few bits for layers that a policy computes in floats (weight-only quantization).

Enters: a network behind `quantize-ops`. Leaves: fully connected layers of precision float16 or bfloat16 that a
`weight_precision` of 2 to 8 bits is asked for, as `nn.blocked_fully_connected`: integers with a scale for each block of
their inputs, of which each weight becomes a float before it is multiplied. Such a layer computes in float32.

Weights that the file of the model stores in as few bits (`Affine`) keep its integers and scales. Others are rounded to
the nearest in blocks of 32, or of the size that `granularity` says. Integers are unsigned, as MatMulNBits has them.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.dialects.nn import ConstantOp, FullyConnectedOp
from qmlir.dialects.nn.queries import FoldableContraction, foldable_contraction
from qmlir.ir.signature import defined_functions
from qmlir.numerics.affine import fitted_blocks
from qmlir.policies.ledger import decision_of
from qmlir.settings.quant_config import OpConfig, config_of, op_config_of
from qmlir.transforms.quantize.adjust.stored_blocks import Blocks, blocks_of_file, in_blocks, unsigned
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
    blocks = blocks_of_file(found.weight_constant, bits) or _fitted(found.weight_constant, asked, bits)
    new = in_blocks(layer, found.weight_constant, blocks)
    why = f"the policy computes it in floats, on weights of int{bits} in blocks of {blocks[-1]}"
    leave_float(new, Reason("half", why))


def _fitted(constant: ConstantOp, asked: OpConfig, bits: int) -> Blocks:
    """Weights rounded to blocks of the size that is asked for."""
    size = asked.group or SIZE
    integers, scales = fitted_blocks(constant.value.array, bits, size)
    return *unsigned(integers, scales, bits, 1 << bits - 1), size
