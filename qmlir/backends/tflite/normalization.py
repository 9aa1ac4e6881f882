"""Forms of normalizations: SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION and LRN; others as several operators on floats."""

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import Form, Graph, Tensor
from qmlir.backends.tflite.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.normalization import ExponentialsOp, OverTrailingOp
from qmlir.ir.interfaces import shape_of


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
    centred = graph.pointwise("SUB", x, _reduced(graph, "MEAN", x, _axes(op)))
    values.define(op.y, _by_size(graph, centred, op))


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
        NoForm: The window's size is even, or the operand is not of rank 4.
    """
    size, rank = op.size.value.data, len(shape_of(op.x))
    if size % 2 == 0 or rank != 4:
        raise NoForm(
            "needs [N, H, W, C] and an odd size",
            f"rank {rank} and size {size}",
            "give it such a form",
        )
    options = {
        "Radius": size // 2, "Bias": op.bias.value.data, "Alpha": op.alpha.value.data / size,
        "Beta": op.beta.value.data,
    }  # fmt: skip
    values.compute(op, "LOCAL_RESPONSE_NORMALIZATION", [op.x], options)
