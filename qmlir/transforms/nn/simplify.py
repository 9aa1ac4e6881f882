"""The pass `simplify`: runs the float graph passes in order, repeatedly, until nothing changes.

Enters: nn as a frontend produces it. Leaves: nn in which contractions carry their bias and clamp and, where possible,
no transposes separate neighbouring operations. `insert-observers` and the quantizer expect this form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.ir.budget import Budget, budget_of
from qmlir.transforms.nn.attention_scores import AttentionScoresPass
from qmlir.transforms.nn.cancel_transposes import cancel_transposes
from qmlir.transforms.nn.drop_bounds import DropBoundsPass
from qmlir.transforms.nn.fold_batch_norm import FoldBatchNormPass
from qmlir.transforms.nn.fold_constants import fold_constants
from qmlir.transforms.nn.fold_pads import FoldPadsPass
from qmlir.transforms.nn.fold_slices import FoldSlicesPass
from qmlir.transforms.nn.fuse_activation import FuseActivationPass
from qmlir.transforms.nn.fuse_bias import FuseBiasPass
from qmlir.transforms.nn.global_pools import GlobalPoolsPass
from qmlir.transforms.nn.name_functions.name_functions import NameFunctionsPass
from qmlir.transforms.nn.widen_halves import WidenHalvesPass

Step = Callable[[ModuleOp], bool]
"""A function that rewrites a module and returns whether it changed anything."""


def steps(budget: Budget) -> tuple[Step, ...]:
    """The steps of one round; all rounds charge the constants that they compute to the same budget."""
    return (
        WidenHalvesPass.run,  # first, so that operations on f16 fuse like operations on f32
        partial(fold_constants, budget=budget),
        NameFunctionsPass.run,
        DropBoundsPass.run,
        FoldSlicesPass.run,
        FuseBiasPass.run,  # matrix products become fully connected layers; transposes can fold into their weights
        partial(cancel_transposes, budget=budget),  # operations that fuse then are adjacent
        FoldBatchNormPass.run,
        FuseBiasPass.run,
        AttentionScoresPass.run,  # behind the biases of the layers that compute queries and keys
        GlobalPoolsPass.run,
        FoldPadsPass.run,
        FuseActivationPass.run,  # last: scale and bias do not fold into a clamped contraction
    )


def simplify(module: ModuleOp, budget: Budget | None = None) -> bool:
    """Simplifies a module until nothing changes; returns whether anything changed.

    Args:
        module: A network.
        budget: The bytes that computed constants may take; by default the module's own budget.

    The iteration terminates because no pass undoes the work of another pass: scales, offsets and clamps move only into
    the operation before them (scales and offsets also into the operation after them), and transposes move as
    `cancel-transposes` describes.
    """
    changed, order = False, steps(budget or budget_of(module))
    while any([step(module) for step in order]):  # a list, so that every step runs in every round
        changed = True
    return changed


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Simplifies the float graph: runs the folding and fusing passes in order, repeatedly, until nothing changes.

    ```mlir
    %a = nn.conv2d %x, %w : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x6x6x4xf32>
    %s = nn.mul %a, %scale : tensor<1x6x6x4xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    %b = nn.add %s, %offset : tensor<1x6x6x4xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    %y = nn.relu %b : tensor<1x6x6x4xf32> -> tensor<1x6x6x4xf32>
    ```
    becomes
    ```mlir
    %y = nn.conv2d %x, %ws, %bs {min = 0.0 : f32}
         : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    ```
    """

    name = "simplify"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        simplify(op)
