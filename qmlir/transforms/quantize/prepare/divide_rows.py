"""`divide-rows`: gives each row that a layer reads a scale of its own, which the network computes in integers.

A scale that holds the largest of all rows leaves few of 8 bits for the others. In language models the first token's row
is a thousand times larger than those that follow. By `activations=dynamic`, a layer reads quotients of each row by its
largest magnitude, in 8 bits, and multiplies its sums by the magnitude again:

    q = x / max |x|,  y = (q ∗ w) · max |x| + b

Tensors between layers have 16 bits then (`QuantConfig.op_config`): they have one scale, and the rows their digits from
these. What layers add is added behind the product, on 16 bits. Layers that read one tensor share its
quotients. A constant table from which rows are looked up, as embeddings are, has 8 bits and a scale for each row.
"""

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from qmlir.dialects.calib import Bounds, ObserveOp
from qmlir.dialects.nn import ConstantOp, DivideRowsOp, FullyConnectedOp, GatherOp, MatMulOp, RowMagnitudesOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.target import Target
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import node_name
from qmlir.ir.signature import defined_functions
from qmlir.numerics.schemas import QuantizationError
from qmlir.policies.legality import target_of
from qmlir.policies.runtimes import runtime_of
from qmlir.settings.quant_config import OpConfig, add_settings, config_of, op_config_of
from qmlir.transforms.quantize.ranges.row_scales import (
    ROW_LIMIT,
    Tensor,
    constant_factor,
    divide_rows_in_integers,
    divide_table,
    is_dynamic,
    reshaped,
    rows_in_integers,
)


@dataclass(frozen=True)
class DivideRowsPass(ModulePass):
    """Puts quotients of rows before layers and products with constant matrices, and the magnitudes behind them.

    ```mlir
    %y = nn.fully_connected %x, %w : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
    // becomes, by activations=dynamic
    %m = nn.row_magnitudes %x : tensor<4x8xf32> -> tensor<4x1xf32>
    %q = nn.divide_rows %x : tensor<4x8xf32> -> tensor<4x8xf32>
    %s = nn.fully_connected %q, %w : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
    %y = nn.multiply_rows %s, %m : tensor<4x16xf32>, tensor<4x1xf32> -> tensor<4x16xf32>
    ```
    """

    name = "divide-rows"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        default, target, runtime = config_of(op).op_config(), target_of(ctx), runtime_of(op)
        for function in defined_functions(op):
            block, made = function.body.block, dict[Tensor, tuple[RowMagnitudesOp, DivideRowsOp]]()
            lookups = [o for o in block.ops if isinstance(o, GatherOp) and _is_of_table(o)]
            lookups = [o for o in lookups if is_dynamic(op_config_of(o, default))]
            for layer, bounds in layers_with_rows(block, default).items():
                op_config = op_config_of(layer, default)
                _require_rows(layer, op_config, target, runtime)
                x = reshaped(layer.operands[0])
                if x not in made:
                    made[x] = rows_in_integers(layer)
                    add_settings(made[x][1], BYTES)
                divide_rows_in_integers(layer, made[x], bounds)
                tied = any(_is_table(layer.operands[1], o) for o in lookups)
                add_settings(layer, BYTES | (OF_TABLE if tied else {"weight_precision": op_config.stored_weights}))
                if tied and op_config.rounding == "auto":
                    add_settings(layer, {"rounding": "nearest"})  # the table's own integers, which are stored once
            for lookup in lookups:
                rows, _ = divide_table(lookup)
                add_settings(rows, {**BYTES, "parameters": (1 / ROW_LIMIT, 0)})


BYTES = {"precision": "int8", "schema": "symmetric"}
"""The format of quotients."""

OF_TABLE = {"weight_precision": "int8", "per_channel": True, "granularity": "channel", "weight_levels": "even"}
"""The weights of a layer that is a table of embeddings, too: those of the table's rows, whose scales are the policy's
word, so that no pass scales the layer's channels, either (`has_own_range`)."""


Layer: TypeAlias = FullyConnectedOp | MatMulOp
"""A layer, or a product with a constant matrix."""


def layers_with_rows(block: Block, default: OpConfig) -> dict[Layer, Bounds]:
    """The layers of a float network with observers whose policy asks for dynamic rows → the bounds of their results.

    Args:
        block: The network.
        default: The options in effect; an operation's own policy overrides them.
    """
    found: dict[Layer, Bounds] = {}
    seen = {o.value: o.bounds for o in block.ops if isinstance(o, ObserveOp)}
    for op in [o for o in block.ops if isinstance(o, FullyConnectedOp | MatMulOp)]:
        computed = isinstance(op, FullyConnectedOp) and op.b is not None and not isinstance(op.b.owner, ConstantOp)
        if computed or not is_dynamic(op_config_of(op, default)):
            continue  # the range of sums without the bias follows from a constant bias only
        factor, bounds = constant_factor(op), seen.get(op.y)
        if factor is not None and factor.place == 1 and bounds is not None and is_float(op.y):
            found[op] = bounds
    return found


def _is_table(weights: SSAValue, lookup: GatherOp) -> bool:
    """Whether the weights of a layer are the table of a lookup, or a constant of the same numbers in memory."""
    if not isinstance(weights.owner, ConstantOp) or not isinstance(lookup.x.owner, ConstantOp):
        return False
    own, table = weights.owner.value.array, lookup.x.owner.value.array
    return own.shape == table.shape and own.ctypes.data == table.ctypes.data


def _is_of_table(op: GatherOp) -> bool:
    """Whether an operation looks up rows of a constant matrix of floats."""
    return isinstance(op.x.owner, ConstantOp) and is_float(op.x) and len(shape_of(op.x)) == 2 and not op.axis.value.data


def _require_rows(op: Layer, op_config: OpConfig, target: Target, runtime: str) -> None:
    """Raises QuantizationError unless the target, the numerics and the schema have scales of rows."""
    got = f"schema {op_config.schema}" if op_config.schema == "symmetric_with_power2_scale" else None
    got = f"numerics {runtime}" if runtime != "default" else got
    got = f"target {target.name}" if not target.wide_results else got
    if got is not None:
        raise QuantizationError(
            "activations=dynamic multiplies sums of 32 bits by magnitudes of rows, which are any numbers",
            where=f'{op.name} "{node_name(op)}"',
            got=got,
            remedy="leave it out, or quantize for the CPU by qmlir's own numerics and another schema",
        )
