"""What happens to an integer network before it is divided between a device and its host.

Operations whose results nothing reads are erased. A greatest element along axes becomes a maximum pool over whole
images where the device computes that pool: other targets have kernels for the reduction itself.
"""

from math import prod

from xdsl.ir import Block
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from qmlir.devices import Device
from qmlir.devices.legality.equivalents import equivalent_of
from qmlir.devices.legality.limits import reasons
from qmlir.dialects import nn, qint
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import replace


def prepare(block: Block, device: Device) -> None:
    """Rewrites the operations of a function to those that are divided between a device and its host."""
    for op in reversed(list(block.ops)):
        if is_trivially_dead(op):
            PatternRewriter(op).erase(op)
    for op in list(block.ops):
        if isinstance(op, nn.ReduceMaxOp) and (image := _image(op, device)) is not None:
            _as_pool(op, image, device)


def _image(op: nn.ReduceMaxOp, device: Device) -> tuple[int, int] | None:
    """The rows and columns of a window over the reduced elements; None if they are not next to each other.

    Where one window of the device takes all the elements in other rows and columns, these are the rows and columns.
    """
    axes, shape = op.axes.get_values(), shape_of(op.x)
    if device.ops.maxpool is None or not prod(shape) or not axes or axes[-1] - axes[0] != len(axes) - 1:
        return None
    rows, columns = shape[axes[0]], prod(shape[axis] for axis in axes[1:])
    most, pixels = device.ops.maxpool.kernel_max, rows * columns
    if most is None or (rows <= most[0] and columns <= most[1]):
        return rows, columns
    least = -(-pixels // most[1])
    fitting = next((n for n in range(least, min(most[0], pixels) + 1) if pixels % n == 0), None)
    return (rows, columns) if fitting is None else (fitting, pixels // fitting)


def _as_pool(op: nn.ReduceMaxOp, image: tuple[int, int], device: Device) -> None:
    """Replaces a reduction by a pool between reshapes, unless there are reasons against the pool and equivalents."""
    axes, shape = op.axes.get_values(), shape_of(op.x)
    images = ints((prod(shape[: axes[0]]), *image, prod(shape[axes[-1] + 1 :])))
    before = nn.ReshapeOp.make([op.x], {"shape": images})
    pool = qint.MaxPool2DOp.make([before.results[0]], {"window": ints(image)})
    after = nn.ReshapeOp.make([pool.y], {"shape": ints(shape_of(op.y))})
    if reasons(pool, device) and equivalent_of(pool, device) is None:
        for new in (after, pool, before):
            new.erase()
    else:
        replace(PatternRewriter(op), op, [before, pool, after], doing=pool)
