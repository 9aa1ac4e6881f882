"""Lowering of sums and means along axes: exact integer sums, then one requantization."""

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.base import int32
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Shape, shape_of
from qmlir.lowering.nn_to_qint.scales import mean, requantize, summed_from
from qmlir.policies.quantized_values import uniform
from qmlir.policies.runtimes import Rounding


def lower_reduction(
    op: nn.ReduceSumOp | nn.ReduceMeanOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers a sum: acc = Σ (x − z_x), then y = z_y + acc · s_x / s_y; a mean has the additional factor 1/n."""
    new, columns = _as_images(operands[0], op.axes.get_values())
    base = summed_from(op, rounding) if isinstance(op, nn.ReduceMeanOp) else uniform(op.x).zero_point
    total = qint.GlobalSumPoolOp.make([columns], {"zero_point": int32(base)})
    if isinstance(op, nn.ReduceMeanOp):
        narrow = mean(total.acc, op, rounding, op.count())
    else:
        narrow = requantize(total.acc, op, rounding)
    return [*new, total, narrow, _reshape(narrow.y, shape_of(op.y))]


def _as_images(x: SSAValue, axes: Sequence[int]) -> tuple[list[Operation], SSAValue]:
    """Reshapes a tensor to images [kept before, reduced, 1, kept after], whose rows are the reduced elements.

    Returns:
        The operations that do so, and the images.
    """
    shape = shape_of(x)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    before = [axis for axis in kept if not axes or axis < axes[0]]
    new: list[Operation] = []
    if any(axes[0] < axis < axes[-1] for axis in kept if axes):
        new.append(nn.TransposeOp.make([x], {"permutation": ints([*axes, *kept])}))
        x, before = new[0].results[0], []
    after = [axis for axis in kept if axis not in before]
    sizes = [prod(shape[axis] for axis in group) for group in (before, axes, after)]
    new.append(_reshape(x, (sizes[0], sizes[1], 1, sizes[2])))
    return new, new[-1].results[0]


def _reshape(x: SSAValue, shape: Shape) -> nn.ReshapeOp:
    return nn.ReshapeOp.make([x], {"shape": ints(shape)})
