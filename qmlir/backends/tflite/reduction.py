"""Forms of reductions along axes, of pools over windows, and of normalizations."""

from math import prod

import numpy as np

from qmlir.backends.forms import Forms
from qmlir.backends.tflite.contraction import padded, padding_name, strides
from qmlir.backends.tflite.graph import BOOL, Form, Graph, Options, Parameters, Tensor
from qmlir.backends.tflite.values import INT8, UINT8, Values
from qmlir.dialects import nn
from qmlir.dialects.nn.normalization import ExponentialsOp, OverTrailingOp
from qmlir.dialects.nn.reduction import ArgumentOp, ReductionOp, WindowPoolOp, least
from qmlir.errors import UnsupportedError
from qmlir.formats.tflite import ARGUMENTS, REDUCTIONS, VALID
from qmlir.ir.interfaces import shape_of

exports: Forms[Values] = Forms()

# ---------------------------------------------------------------------------------------------------------------
# Forms of reductions, whose axes stay as dimensions of size 1, of arg-max and arg-min, and of cumulative sums.


OF_BOOLEANS = {"REDUCE_MAX": "REDUCE_ANY", "REDUCE_MIN": "REDUCE_ALL"}

_KINDS = {op: kind for kind, op in reversed([*REDUCTIONS.items(), *ARGUMENTS.items()])}
"""Operation → TFLite's operator."""

ONES = (INT8, UINT8)
"""Types whose quantized sums are written as convolutions with weights of 1."""

INT64 = 4
"""The schema's TensorType INT64."""


@exports(*dict.fromkeys(REDUCTIONS.values()))
def reduce(op: ReductionOp, values: Values) -> None:
    """Writes one operator, no operator if there are no axes, and a convolution for sums of quantized bytes."""
    x, kind = values.stored(op.x), _KINDS[type(op)]
    if not op.axes.get_values():
        values.hold(op.y, x)
        return
    if 0 in x.shape:
        raise UnsupportedError(
            "needs elements to reduce", str(list(x.shape)), "leave the reduction of an empty tensor out"
        )
    if kind == "SUM" and x.form.parameters is not None and x.dtype in ONES and values.form(op.y).dtype == x.dtype:
        values.define(op.y, values.graph.reshaped(_sum_of_bytes(op, x, values), shape_of(op.y)))
        return
    kind = OF_BOOLEANS.get(kind, kind) if x.dtype == BOOL else kind
    values.compute(op, kind, [op.x], {"KeepDims": True}, [values.graph.indices(op.axes.get_values())])


def _sum_of_bytes(op: ReductionOp, x: Tensor, values: Values) -> Tensor:
    """Adds a sum of quantized bytes as a DEPTHWISE_CONV_2D with weights of 1 and returns its result.

    The image is [kept before, reduced, 1, kept after], where each part joins dimensions of x, and the weights are
    [1, reduced, 1, kept after]. LiteRT's SUM does not give the sum of the real numbers: its reference kernel adds the
    stored signed bytes and wraps around.
    """
    graph, axes = values.graph, op.axes.get_values()
    before = [axis for axis in range(axes[0])]
    after = [axis for axis in range(axes[0], len(x.shape)) if axis not in axes]
    parts = [prod(x.shape[axis] for axis in group) for group in (before, axes, after)]
    image = graph.reshaped(graph.transposed(x, [*before, *axes, *after]), (parts[0], parts[1], 1, parts[2]))
    assert x.form.parameters is not None, "numbers have a SUM"
    ones = graph.constant(np.ones((1, parts[1], 1, parts[2]), x.dtype), Parameters((1.0,), (0,)))
    none = graph.constant(np.zeros(parts[2], np.int32), Parameters((x.form.parameters.scale,), (0,)))
    options = {"StrideH": 1, "StrideW": 1, "DepthMultiplier": 1, "Padding": VALID}
    form = values.form(op.y).shaped((parts[0], 1, 1, parts[2]))
    return graph.operator("DEPTHWISE_CONV_2D", [image, ones, none], form, options)


@exports(*ARGUMENTS.values())
def argument(op: ArgumentOp, values: Values) -> None:
    """Writes one operator, which removes the axis, and a reshape; for the last of equal extremes, on reversed data."""
    graph, x, axis = values.graph, values.real(op.x), op.axis.value.data
    if bool(op.last):
        x = graph.operator("REVERSE_V2", [x, graph.indices([axis])], x.form)
    form = values.form(op.y)
    dropped = form.shaped((*form.shape[:axis], *form.shape[axis + 1 :]))
    found = graph.operator(_KINDS[type(op)], [x, graph.index(axis)], dropped, {"OutputType": INT64})
    if bool(op.last):
        found = graph.pointwise("SUB", graph.number(shape_of(op.x)[axis] - 1, found), found)
    values.hold(op.y, graph.reshaped(found, form.shape))


@exports(nn.CumulativeSumOp)
def cumulative_sum(op: nn.CumulativeSumOp, values: Values) -> None:
    """Writes CUMSUM."""
    axis = values.graph.indices([op.axis.value.data])
    options = {"Exclusive": bool(op.exclusive), "Reverse": bool(op.reverse)}
    values.compute(op, "CUMSUM", [op.x], options, [axis])


# ---------------------------------------------------------------------------------------------------------------
# Forms of pools over windows and over whole images.


KIND = "AVERAGE_POOL_2D"


def _options(op: WindowPoolOp, padding: int) -> Options:
    if op.dilation_values() != (1, 1):
        raise UnsupportedError("needs a window without dilations", str(list(op.dilation_values())),
                     "rewrite the model without it")  # fmt: skip
    rows, columns = op.window_values()
    return {**strides(op), "FilterHeight": rows, "FilterWidth": columns, "Padding": padding}


@exports(nn.MaxPool2DOp)
def max_pool2d(op: nn.MaxPool2DOp, values: Values) -> None:
    """Writes MAX_POOL_2D; padding that is neither SAME nor VALID becomes a pad with the type's least value."""
    x, named = values.stored(op.x), padding_name(op, shape_of(op.x), op.window_values())
    options = _options(op, VALID if named is None else named)
    if named is None:
        lowest = float(np.finfo(x.dtype).min) if x.dtype.kind == "f" else least(x.dtype)
        x = padded(values.graph, x, op, lowest)
    values.finish(op, "MAX_POOL_2D", [x], options)


@exports(nn.AveragePool2DOp)
def average_pool2d(op: nn.AveragePool2DOp, values: Values) -> None:
    """Writes AVERAGE_POOL_2D, in whose means padding does not count.

    If padding counts, the image is padded with zeros first. If padding does not count and is neither SAME nor VALID,
    there are two cases. A quantized image is cut into pieces whose windows need no padding. A float image is padded
    with zeros, and each mean is multiplied by the window's size over the number of its elements inside the image.
    """
    named = padding_name(op, shape_of(op.x), op.window_values())
    if named == VALID or (named is not None and not bool(op.count_include_pad)):
        values.compute(op, KIND, [op.x], _options(op, named))
    elif bool(op.count_include_pad):
        values.finish(op, KIND, [padded(values.graph, values.stored(op.x), op)], _options(op, VALID))
    elif values.form(op.x).parameters is not None:
        _in_pieces(op, values)
    else:
        graph, form = values.graph, values.form(op.y)
        x = padded(graph, values.stored(op.x), op)
        means = graph.operator(KIND, [x], form.typed(x.dtype), _options(op, VALID))
        shares = np.prod(op.window_values()) / op.counts()[None, :, :, None]
        values.define(op.y, graph.pointwise("MUL", means, graph.constant(shares.astype(x.dtype))))


Piece = tuple[int, int, int]
"""A part of an axis: the first element, the number of elements, and the size of its windows."""


def _in_pieces(op: nn.AveragePool2DOp, values: Values) -> None:
    """Pools each piece of the image without padding and concatenates the results."""
    graph, x, channels, options = values.graph, values.stored(op.x), shape_of(op.x)[3], _options(op, VALID)
    rows, columns = (_pieces(op, axis) for axis in (0, 1))

    def pool(row: Piece, column: Piece) -> Tensor:
        (top, height, down), (left, width, right) = row, column
        size = (x.shape[0], height, width, channels)
        piece = graph.operator("SLICE", [x, graph.indices([0, top, left, 0]), graph.indices(size)], x.form.shaped(size))
        counts = [(n - k) // stride + 1 for n, k, stride in zip((height, width), (down, right), op.stride_values(),
                                                                 strict=True)]  # fmt: skip
        form = x.form.shaped((x.shape[0], *counts, channels))
        return graph.operator(KIND, [piece], form, {**options, "FilterHeight": down, "FilterWidth": right})

    values.define(op.y, graph.joined([graph.joined([pool(r, c) for c in columns], 2) for r in rows], 1))


def _pieces(op: nn.AveragePool2DOp, axis: int) -> list[Piece]:
    """Returns the pieces of an axis: one for all windows inside the image, one for each window that the border cuts.

    Args:
        op: The pool.
        axis: 0 for rows, 1 for columns.
    """
    size, window, stride = shape_of(op.x)[1 + axis], op.window_values()[axis], op.stride_values()[axis]
    starts = [i * stride - op.padding_values()[2 * axis] for i in range(shape_of(op.y)[1 + axis])]
    whole = [start for start in starts if 0 <= start <= size - window]
    pieces = [(max(start, 0), min(start + window, size)) for start in starts if start not in whole]
    found = [(low, high - low, high - low) for low, high in pieces]
    if whole:
        found.append((whole[0], whole[-1] + window - whole[0], window))
    return sorted(found)


@exports(nn.GlobalAveragePoolOp)
def global_average_pool(op: nn.GlobalAveragePoolOp, values: Values) -> None:
    """Writes MEAN over rows and columns."""
    values.compute(op, "MEAN", [op.x], {"KeepDims": True}, [values.graph.indices([1, 2])])


# ---------------------------------------------------------------------------------------------------------------
# Forms of normalizations: SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION and LRN; others as several operators on floats.


@exports(nn.SoftmaxOp)
def softmax(op: nn.SoftmaxOp, values: Values) -> None:
    """Writes SOFTMAX, which works along the last axis; another axis is transposed there and back."""
    _along_last(op, op.axis.value.data, values, "SOFTMAX", {"Beta": 1.0})


@exports(nn.LogSoftmaxOp)
def log_softmax(op: nn.LogSoftmaxOp, values: Values) -> None:
    """Writes LOG_SOFTMAX, which works along the last axis; another axis is transposed there and back."""
    _along_last(op, op.axis.value.data, values, "LOG_SOFTMAX", {})


@exports(nn.LpNormalizationOp)
def lp_normalization(op: nn.LpNormalizationOp, values: Values) -> None:
    """Writes L2_NORMALIZATION for p = 2, and x / Σ|x| for p = 1."""
    if op.p.value.data == 2:
        _along_last(op, op.axis.value.data, values, "L2_NORMALIZATION", {})
        return
    graph, x = values.graph, values.real(op.x)
    total = _reduced(graph, "SUM", graph.pointwise("ABS", x), [op.axis.value.data])
    none = graph.pointwise("ADD", total, graph.pointwise("SUB", graph.number(1, x), graph.pointwise("SIGN", total)))
    values.define(op.y, graph.pointwise("DIV", x, none))


def _along_last(op: ExponentialsOp | nn.LpNormalizationOp, axis: int, values: Values, kind: str,
                options: dict[str, float]) -> None:  # fmt: skip
    rank, graph = len(shape_of(op.x)), values.graph
    if axis == rank - 1:
        values.compute(op, kind, [op.x], options)
        return
    order = [*(i for i in range(rank) if i != axis), axis]
    integers = values.has_integers(kind, op, [op.x])
    x = graph.transposed(values.stored(op.x) if integers else values.real(op.x), order)
    form = values.form(op.y).shaped(x.shape) if integers else x.form
    y = graph.operator(kind, [x], form, options)
    values.define(op.y, graph.transposed(y, [order.index(i) for i in range(rank)]))


def _reduced(graph: Graph, kind: str, x: Tensor, axes: list[int]) -> Tensor:
    shape = tuple(1 if i in axes else size for i, size in enumerate(x.shape))
    return graph.operator(kind, [x, graph.indices(axes)], Form(shape, x.dtype), {"KeepDims": True})


@exports(nn.LayerNormOp)
def layer_norm(op: nn.LayerNormOp, values: Values) -> None:
    """Writes (x − mean) / √(variance + epsilon)."""
    graph, x = values.graph, values.real(op.x)
    less_mean = graph.pointwise("SUB", x, _reduced(graph, "MEAN", x, _axes(op)))
    values.define(op.y, _by_size(graph, less_mean, op))


@exports(nn.RMSNormOp)
def rms_norm(op: nn.RMSNormOp, values: Values) -> None:
    """Writes x / √(mean(x²) + epsilon)."""
    values.define(op.y, _by_size(values.graph, values.real(op.x), op))


def _axes(op: OverTrailingOp) -> list[int]:
    return list(range(op.axis.value.data, len(shape_of(op.x))))


def _by_size(graph: Graph, x: Tensor, op: OverTrailingOp) -> Tensor:
    """Returns x / √(mean(x²) + epsilon)."""
    mean = _reduced(graph, "MEAN", graph.pointwise("MUL", x, x), _axes(op))
    steadied = graph.pointwise("ADD", mean, graph.number(op.epsilon.value.data, x))
    return graph.pointwise("MUL", x, graph.pointwise("RSQRT", steadied))


@exports(nn.LocalResponseNormalizationOp)
def local_response_normalization(op: nn.LocalResponseNormalizationOp, values: Values) -> None:
    """Writes LOCAL_RESPONSE_NORMALIZATION, whose window has the same number of channels on both sides.

    Raises:
        UnsupportedError: The window's size is even, or the operand is not of rank 4.
    """
    size, rank = op.size.value.data, len(shape_of(op.x))
    if size % 2 == 0 or rank != 4:
        raise UnsupportedError(
            "needs [N, H, W, C] and an odd size",
            f"rank {rank} and size {size}",
            "give it such a form",
        )
    options = {
        "Radius": size // 2, "Bias": op.bias.value.data, "Alpha": op.alpha.value.data / size,
        "Beta": op.beta.value.data,
    }  # fmt: skip
    values.compute(op, "LOCAL_RESPONSE_NORMALIZATION", [op.x], options)
