"""Rewrites a network for one sample as one for several, where a dimension of size 1 stands for the samples.

For one sample, a transpose that moves the samples behind other dimensions moves a dimension of size 1 only, and looks
like a reshape. As a reshape it forgets where the samples are, and the network has no meaning for a batch any more.
PyTorch's attention puts positions before samples in this way. Such a network is made longer, rewritten, and shortened
again, so that it has the operations of any batch.
"""

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.batches import SEVERAL, sample_axes, with_batch
from qmlir.dialects.nn import TransposeOp
from qmlir.errors import QmlirError, UnsupportedError
from qmlir.ir.interfaces import Shape, shape_of
from qmlir.ir.signature import main_function

MovesNothing = Callable[[Shape, tuple[int, ...]], bool]
"""Whether a transpose of a shape moves dimensions of size 1 only."""


def rewritten(
    module: ModuleOp, rewrite: Callable[[ModuleOp], bool], moves_nothing: MovesNothing, *,
    prepare: Callable[[ModuleOp], object],
) -> bool:  # fmt: skip
    """Applies a rewrite to a module, or to its network for several samples; returns whether anything changed.

    Args:
        module: A module, which is changed in place.
        rewrite: Changes a module in place, and returns whether it has changed anything.
        moves_nothing: Whether a transpose of a shape by a permutation is a reshape.
        prepare: Computes the constants of the longer network, in place. Those that are the same for all samples have
            become repeated constants in it, which is no change.
    """
    if (longer := _longer(module, moves_nothing)) is None:
        return rewrite(module)
    prepare(longer)
    if not rewrite(longer):
        return False
    try:
        _, network = with_batch(longer, main_function(longer), 1, SEVERAL)
    except UnsupportedError:  # the rewrite does not keep the samples apart
        return rewrite(module)
    function = main_function(module)
    function.body.erase_block(function.body.block)
    network.body.move_blocks(function.body)
    function.function_type = network.function_type
    return True


def _longer(module: ModuleOp, moves_nothing: MovesNothing) -> ModuleOp | None:
    """Returns the network for several samples; None if a transpose of it moves no samples, or they are not apart."""
    candidates = [o for o in module.walk() if isinstance(o, TransposeOp) and moves_nothing(shape_of(o.x), _order(o))]
    if not candidates:
        return None
    try:
        function = main_function(module)
        axes = sample_axes(function)
        if not any(o.x in axes and _moves_samples(o, axes[o.x], moves_nothing) for o in candidates):
            return None
        longer, _ = with_batch(module, function, SEVERAL)
    except QmlirError:
        return None
    return longer


def _order(op: TransposeOp) -> tuple[int, ...]:
    return tuple(op.permutation.get_values())


def _moves_samples(op: TransposeOp, axis: int, moves_nothing: MovesNothing) -> bool:
    """Whether a transpose that moves dimensions of size 1 only moves the samples behind others."""
    shape = list(shape_of(op.x))
    shape[axis] *= SEVERAL
    return not moves_nothing(tuple(shape), _order(op))
