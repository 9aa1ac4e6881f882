"""Forms of contractions: ConvInteger and MatMulInteger, which sum in 32 bits, and the addition of the bias."""

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from qmlir.backends.forms import NoForm
from qmlir.backends.onnx.contraction import DEPTHWISE_FILTERS, IMAGES, window_attributes
from qmlir.backends.onnx.graph import Tensor
from qmlir.backends.onnx.integer.forms import INT32, computes, require_bytes, sums_of_bytes, zero_point
from qmlir.backends.onnx.values import Permutation, Values, constant
from qmlir.dialects import qint
from qmlir.ir.interfaces import element_of, shape_of


@computes(qint.Conv2DOp)
def conv2d(op: qint.Conv2DOp, values: Values) -> None:
    """Writes ConvInteger; filters [O, KH, KW, C/G] become [O, C/G, KH, KW]."""
    _convolve(op, values, IMAGES, shape_of(op.w)[1:3], op.group_count())


@computes(qint.DepthwiseConv2DOp)
def depthwise_conv2d(op: qint.DepthwiseConv2DOp, values: Values) -> None:
    """Writes ConvInteger with one group per input channel."""
    _convolve(op, values, DEPTHWISE_FILTERS, shape_of(op.w)[1:3], shape_of(op.x)[3])


def _convolve(
    op: qint.Conv2DOp | qint.DepthwiseConv2DOp, values: Values, filters: Permutation, kernel: Sequence[int], groups: int
) -> None:
    require_bytes(op.w)

    def summed(x: Tensor, point: Tensor | None) -> Tensor:
        return values.graph.node(
            "ConvInteger",
            x,
            values.stored(op.w, filters),
            point,
            dtype=INT32,
            kernel_shape=list(kernel),
            group=groups if groups != 1 else None,
            **window_attributes(op),
        )

    sums = sums_of_bytes(values, op.x, op.zero_point.value.data, summed)
    values.define(op.acc, _biased(op, values, sums, (-1, 1, 1)), IMAGES)


@computes(qint.FullyConnectedOp)
def fully_connected(op: qint.FullyConnectedOp, values: Values) -> None:
    """Writes MatMulInteger with the weights transposed to [I, O]."""
    point = zero_point(values, op.x, op.zero_point.value.data)
    require_bytes(op.w)
    x, w = values.stored(op.x), values.stored(op.w, (1, 0))
    sums = values.graph.node("MatMulInteger", x, w, point, dtype=INT32)
    values.define(op.acc, _biased(op, values, sums, (-1,)))


@computes(qint.MatMulOp)
def matmul(op: qint.MatMulOp, values: Values) -> None:
    """Writes MatMulInteger."""
    points = [
        zero_point(values, value, point.value.data)
        for value, point in ((op.lhs, op.lhs_zero_point), (op.rhs, op.rhs_zero_point))
    ]
    _require_sums(op.acc, "export as onnx-qdq")
    lhs, rhs = values.stored(op.lhs), values.stored(op.rhs)
    values.define(op.acc, values.graph.node("MatMulInteger", lhs, rhs, *points, dtype=INT32))


def _biased(op: qint.Conv2DOp | qint.DepthwiseConv2DOp | qint.FullyConnectedOp, values: Values, sums: Tensor,
            shape: tuple[int, ...]) -> Tensor:  # fmt: skip
    """Adds the bias, [O] reshaped to `shape`, to the sums; returns the sums if there is no bias."""
    _require_sums(op.acc, "export as onnx-qdq" if op.b is None else "quantize it with bias=int32")
    if op.b is None:
        return sums
    array = constant(op.b)
    if array is None:
        bias = values.graph.node("Reshape", values.stored(op.b), values.graph.indices(shape))
    else:
        bias = values.graph.constant(array.reshape(shape))
    return values.graph.node("Add", sums, bias)


def _require_sums(value: SSAValue, remedy: str) -> None:
    if element_of(value) != i32:
        raise NoForm("must have sums of 32 bits", str(element_of(value)), remedy)
