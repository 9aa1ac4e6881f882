"""The pass `simplify`: the float graph passes in their order, again until nothing changes.

Enters: nn as a frontend writes it. Leaves: nn in which every contraction carries its bias and its clamp and stands in
channels-last order next to its neighbours: what `insert-observers` taps and the quantizer wants to see.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from qmlir.budget import Budget
from qmlir.passes import option
from qmlir.transforms.nn.cancel_transposes import cancel_transposes
from qmlir.transforms.nn.fold_batch_norm import fold_batch_norm
from qmlir.transforms.nn.fold_constants import fold_constants
from qmlir.transforms.nn.fold_slices import fold_slices
from qmlir.transforms.nn.fuse_activation import fuse_activation
from qmlir.transforms.nn.fuse_bias import fuse_bias
from qmlir.transforms.nn.global_pools import name_global_pools
from qmlir.transforms.nn.module_budget import budget_of
from qmlir.transforms.nn.widen_halves import widen_halves

Step = Callable[[ModuleOp], bool]
"""Changes a module and says whether it changed anything."""


def steps(budget: Budget) -> tuple[Step, ...]:
    """The steps of one round; all rounds charge the constants that they compute to one budget."""
    return (
        widen_halves,  # first: operations on f16 then fuse as those on f32 do
        partial(fold_constants, budget=budget),
        fold_slices,
        fuse_bias,  # matrix products become fully connected layers, whose columns a transpose can fold into
        partial(cancel_transposes, budget=budget),  # operations that fuse then stand beside each other
        fold_batch_norm,
        fuse_bias,
        name_global_pools,
        fuse_activation,  # last: a clamped contraction takes neither scale nor bias
    )


def simplify(module: ModuleOp, budget: Budget | None = None) -> bool:
    """Simplifies a module until nothing changes; whether anything did.

    Args:
        module: A network.
        budget: What constants may take that are computed; by default what the module says.

    It ends because no pass undoes another: scales, offsets and clamps only ever move into the operation before them
    (or, a scale or offset, into the one after), and transposes move as `cancel-transposes` says.
    """
    changed, order = False, steps(budget or budget_of(module))
    while any([step(module) for step in order]):  # a list: every pass runs in every round
        changed = True
    return changed


@dataclass(frozen=True)
class SimplifyPass(ModulePass):
    """Folds and fuses what can be at the float level: the passes of this folder in order, until nothing changes.

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

    budget: int = option(
        -1, "bytes by which constants may grow where they are computed; -1: what the module says, or 1 GiB"
    )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        simplify(op, None if self.budget < 0 else Budget(self.budget))
