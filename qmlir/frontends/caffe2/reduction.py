"""Reductions along axes, and pools over windows."""

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import (
    AveragePool2DOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    ReduceMeanOp,
    ReduceSumOp,
    WindowPoolOp,
)
from qmlir.errors import UnsupportedError
from qmlir.formats.caffe2 import ARGUMENTS, REDUCTIONS
from qmlir.frontends.caffe2.contraction import averaged, type_per_tensor
from qmlir.frontends.caffe2.node import Caffe2Node, Order
from qmlir.frontends.caffe2.windows import Window
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Ints, Value
from qmlir.frontends.windows import Geometry, cropped
from qmlir.ir.interfaces import TensorOp

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Reductions


def _reduced(node: Caffe2Node, op_type: type[TensorOp], x: Value, over: Sequence[int], *, keep: bool = False) -> Value:
    """Adds a reduction along axes, which are left out of the result unless they are kept."""
    shape = node.shape(node.real(x))
    axes = node.axes(over, len(shape))
    y = node.compute(op_type, [x], {"axes": axes})
    return y if keep else node.reshaped(y, [n for a, n in enumerate(shape) if a not in axes])


def _reduction(operator: str, op_type: type[TensorOp]) -> None:
    @converts(operator)
    def convert(node: Caffe2Node, x: Value, *, axes: Ints = (), keepdims: bool = True) -> Value:
        return _reduced(node, op_type, x, axes or range(node.rank(x)), keep=keepdims)

    def ends(end: str) -> None:
        @converts(operator.replace("Reduce", f"Reduce{end}"))
        def convert(node: Caffe2Node, x: Value, lengths: Value | None = None, *, num_reduce_dim: int = 1) -> Value:
            if lengths is not None:
                raise UnsupportedError("it reduces as many elements as an input says")
            rank = node.rank(x)
            if not 0 <= num_reduce_dim <= rank:
                raise node.error(f"its num_reduce_dim must lie in [0, {rank}]", str(num_reduce_dim))
            over = range(num_reduce_dim) if end == "Front" else range(rank - num_reduce_dim, rank)
            return _reduced(node, op_type, x, over)

    for end in ("Front", "Back"):
        ends(end)


for _operator, _op_type in REDUCTIONS.items():
    _reduction(_operator, _op_type)


@converts("ReduceL1", "ReduceL2")
def reduce_norm(node: Caffe2Node, x: Value, *, axes: Ints = (), keepdims: bool = True) -> Value:
    """The sum of magnitudes along axes, or the root of the sum of squares."""
    shape = node.shape(node.real(x))
    over = node.axes(axes or range(len(shape)), len(shape))
    squares = node.kind == "ReduceL2"
    each = node.insert(nn.MulOp, [x, x]) if squares else node.insert(nn.AbsOp, [x])
    add = node.insert if squares else node.compute
    y = add(ReduceSumOp, [each], {"axes": over})
    if squares:
        y = node.compute(nn.SqrtOp, [y])
    return y if keepdims else node.reshaped(y, [n for a, n in enumerate(shape) if a not in over])


@converts("LpNorm")
def lp_norm(node: Caffe2Node, x: Value, *, p: int = 2, average: bool = False) -> Value:
    """The sum of all magnitudes for p = 1, of all squares for p = 2, as a vector of one element; or their mean."""
    if p not in (1, 2):
        raise node.error("its p must be 1 or 2", str(p))
    flat = node.reshaped(node.real(x), (prod(node.shape(x)),))
    each = node.insert(nn.AbsOp, [flat]) if p == 1 else node.insert(nn.MulOp, [flat, flat])
    return node.compute(ReduceMeanOp if average else ReduceSumOp, [each], {"axes": [0]})


@converts("SumElements", "SumSqrElements", "AveragedLoss")
def sum_elements(node: Caffe2Node, x: Value, *, average: bool = False) -> Value:
    """The sum of all elements or of their squares, or the mean, as a scalar."""
    flat: Value = node.reshaped(node.real(x), (prod(node.shape(x)),))
    each = node.insert(nn.MulOp, [flat, flat]) if node.kind == "SumSqrElements" else flat
    mean = average or node.kind == "AveragedLoss"
    return node.reshaped(node.compute(ReduceMeanOp if mean else ReduceSumOp, [each], {"axes": [0]}), ())


def _argument(operator: str, op_type: type[TensorOp]) -> None:
    @converts(operator)
    def convert(node: Caffe2Node, x: Value, *, axis: int = -1, keepdims: bool = True) -> Value:
        shape = node.shape(node.real(x))
        at = node.axis(axis, len(shape))
        y = node.compute(op_type, [x], {"axis": at})
        return y if keepdims else node.reshaped(y, [n for a, n in enumerate(shape) if a != at])


for _operator, _op_type in ARGUMENTS.items():
    _argument(_operator, _op_type)


@converts("CumSum")
def cumsum(node: Caffe2Node, x: Value, *, axis: int = 0, exclusive: bool = False, reverse: bool = False) -> Value:
    """Running sums along an axis."""
    properties = {"axis": node.axis(axis, node.rank(x)), "exclusive": exclusive, "reverse": reverse}
    return node.compute(nn.CumulativeSumOp, [node.real(x)], properties)


# ---------------------------------------------------------------------------------------------------------------
# Pools
#
# Glow's importer counts elements of the padding in means, unless `count_include_pad` says otherwise; so does qmlir.


def _pooled(
    node: Caffe2Node, op_type: type[WindowPoolOp], image: SSAValue, windows: Geometry, *, counting: bool = False
) -> SSAValue:
    """Adds a pool over images [N, …, C] with one or two spatial dimensions, on the type of the image."""
    rank = len(windows.kernel)
    if rank not in (1, 2):
        raise UnsupportedError(f"its images have {rank} dimensions")
    shape = node.shape(image)
    if rank == 1:
        image, windows = node.builder.ssa(node.reshaped(image, (shape[0], 1, *shape[1:]))), windows.of_rows()
    properties = {**windows.properties(), "window": windows.kernel}
    if counting:
        properties = {**properties, "count_include_pad": True}
    y = node.compute(op_type, [image], properties)
    return y if rank == 2 else node.builder.ssa(node.reshaped(y, (shape[0], *node.shape(y)[2:])))


def _checked(node: Caffe2Node, x: Value, order: Order, window: Window) -> tuple[SSAValue, Geometry]:
    """Returns an image as [N, …, C], and the windows over it."""
    if node.rank(x) < 3:
        raise node.error("its input must be an image of rank 3 at least", node.shape(x))
    image = node.channels_last(x, order)
    return cropped(node, image, window.geometry(node, node.shape(image)[1:-1]))


@converts("MaxPool", "MaxPool1D", "MaxPool2D", "Int8MaxPool", "Int8MaxPoolRelu")
def max_pool(node: Caffe2Node, x: Value, *, window: Window, order: Order = "NCHW") -> Value:
    """The greatest element of each window; integers keep their scale and zero point, whatever the arguments say."""
    if node.kind.startswith("Int8"):
        node.require_quantized(x)
    else:
        node.real(x)
    image, windows = _checked(node, x, order, window)
    y = _pooled(node, MaxPool2DOp, image, windows)
    if node.kind.endswith("Relu"):
        y = node.insert(nn.ReluOp, [y], element=node.type_of(y))
    return node.in_order(y, order)


@converts("AveragePool", "AveragePool1D", "AveragePool2D")
def average_pool(
    node: Caffe2Node, x: Value, *, window: Window, order: Order = "NCHW", count_include_pad: bool = True
) -> Value:
    """The mean of each window."""
    image, windows = _checked(node, node.real(x), order, window)
    whole = len(windows.kernel) == 2 and windows.kernel == node.shape(image)[1:-1] and _unpadded(windows)
    if whole:
        return node.in_order(node.compute(GlobalAveragePoolOp, [image]), order)
    return node.in_order(_pooled(node, AveragePool2DOp, image, windows, counting=count_include_pad), order)


def _unpadded(windows: Geometry) -> bool:
    return not any((*windows.low, *windows.high, *windows.extra))


@converts("Int8AveragePool", "Int8AveragePoolRelu")
def int8_average_pool(
    node: Caffe2Node, x: Value, *, window: Window, order: Order = "NCHW", count_include_pad: bool = True
) -> Value:
    """The mean of each window of integers, rounded once to the type that the arguments state.

    Means that leave the padding out are rounded to the scale of the input first, and then to their own.
    """
    type, out = type_per_tensor(node, x), node.stated_type()
    image, windows = _checked(node, x, order, window)
    if len(windows.kernel) != 2:
        raise UnsupportedError(f"its images have {len(windows.kernel)} dimensions")
    unpadded = _unpadded(windows)
    if windows.kernel == node.shape(image)[1:-1] and unpadded:
        y = node.compute(GlobalAveragePoolOp, [image], element=out)
    elif type == out:
        y = _pooled(node, AveragePool2DOp, image, windows, counting=count_include_pad and not unpadded)
    elif unpadded or count_include_pad:
        y = averaged(node, image, windows)
    else:
        y = node.on_type(_pooled(node, AveragePool2DOp, image, windows), out)
    if node.kind.endswith("Relu"):
        y = node.insert(nn.ReluOp, [y], element=out)
    return node.in_order(y, order)
