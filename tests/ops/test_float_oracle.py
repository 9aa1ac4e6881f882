"""The meaning of each nn operation on floats against ONNX Runtime, one node at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from qmlir.dialects import nn
from qmlir.dialects.nn.base import Clamped
from qmlir.ir.interfaces import TensorOp
from tests.ops.pointwise_oracles import oracles
from tests.ops.samples import NN_SAMPLES, OPERATIONS, Array, Sample

EPSILON = 1e-5
"""Of the largest magnitude in the result."""

Oracle = Callable[[Any, Sequence[Array]], Array]


def run(kind: str, *inputs: Array, output: int = 0, **attributes: Any) -> Array:
    """A result of one ONNX node."""
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = [f"y{i}" for i in range(output + 1)]
    node = helper.make_node(kind, names, outputs, **attributes)
    types = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in zip(names, inputs, strict=True)}
    graph = helper.make_graph(
        [node],
        kind,
        [helper.make_tensor_value_info(n, types[n], x.shape) for n, x in zip(names, inputs, strict=True)],
        [onnx.ValueInfoProto(name=outputs[output])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, dict(zip(names, inputs, strict=True)))[0])


def channels_first(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2))


def windows(op: Any) -> dict[str, Any]:
    """ONNX's attributes for a sliding window: padding is top, left, bottom, right."""
    top, bottom, left, right = op.padding_values()
    return {"strides": op.stride_values(), "dilations": op.dilation_values(), "pads": [top, left, bottom, right]}


def convolution(op: nn.Conv2DOp, inputs: Sequence[Array]) -> Array:
    x, w, *bias = inputs
    groups = op.group_count()
    return run("Conv", channels_first(x), channels_first(w), *bias, group=groups, **windows(op)).transpose(0, 2, 3, 1)


def depthwise(op: nn.DepthwiseConv2DOp, inputs: Sequence[Array]) -> Array:
    x, w, *bias = inputs
    filters = np.ascontiguousarray(w.transpose(3, 0, 1, 2))
    y = run("Conv", channels_first(x), filters, *bias, group=x.shape[3], **windows(op))
    return y.transpose(0, 2, 3, 1)


def pool(kind: str) -> Oracle:
    def oracle(op: Any, inputs: Sequence[Array]) -> Array:
        more = {"count_include_pad": 1} if op.properties.get("count_include_pad") and bool(op.count_include_pad) else {}
        y = run(kind, channels_first(inputs[0]), kernel_shape=op.window_values(), **windows(op), **more)
        return y.transpose(0, 2, 3, 1)

    return oracle


def places(op: nn.MaxPoolIndices2DOp, inputs: Sequence[Array]) -> Array:
    """ONNX counts through all images and channels."""
    x = channels_first(inputs[0])
    found = run("MaxPool", x, output=1, kernel_shape=op.window_values(), **windows(op))
    return (found % (x.shape[2] * x.shape[3])).transpose(0, 2, 3, 1)


def padded(op: nn.PadOp, inputs: Sequence[Array]) -> Array:
    pads = np.array([*op.low.get_values(), *op.high.get_values()], np.int64)
    return run("Pad", inputs[0], pads, np.array(op.value.value.data, np.float32))


def dilated(op: nn.DilateOp, inputs: Sequence[Array]) -> Array:
    """Scattered into a tensor of the value."""
    (x,) = inputs
    value = np.array([op.value.value.data], np.float32)
    y = run("Expand", value, np.array(op.infer_shapes()[0], np.int64))
    places = np.stack([*np.indices(x.shape)], axis=-1) * np.array(op.dilations.get_values(), np.int64)
    return run("ScatterND", y, places, x)


def sliced(op: nn.SliceOp, inputs: Sequence[Array]) -> Array:
    offsets, sizes, strides = (np.array(v, np.int64) for v in zip(*op.steps(), strict=True))
    ends = offsets + sizes * strides
    ends = np.where(ends < 0, np.iinfo(np.int64).min, ends)  # going backwards, through the first element
    return run("Slice", inputs[0], offsets, ends, np.arange(len(sizes)), strides)


def inside(indices: Array, shape: Sequence[int]) -> Array:
    """Indices as onnxruntime takes them: those beyond the border moved to it."""
    sizes = np.array(shape, indices.dtype)
    return np.clip(indices, -sizes, sizes - 1).reshape(indices.shape)


def gathered(op: nn.GatherOp, inputs: Sequence[Array]) -> Array:
    x, indices = inputs
    axis = op.axis.value.data
    return run("Gather", x, inside(indices, x.shape[axis : axis + 1]), axis=axis)


def gathered_nd(op: nn.GatherNDOp, inputs: Sequence[Array]) -> Array:
    x, indices = inputs
    return run("GatherND", x, inside(indices, x.shape[: indices.shape[-1]]).astype(np.int64))


def scattered(op: Any, inputs: Sequence[Array]) -> Array:
    """Row by row: onnxruntime leaves open in which order it writes to one place."""
    y, updates, indices = inputs
    depth = indices.shape[-1]
    how: dict[str, Any] = {"reduction": op.reduction.data} if isinstance(op, nn.ScatterReduceNDOp) else {}
    listed = inside(indices, y.shape[:depth]).astype(np.int64).reshape(-1, depth)
    for at, row in zip(listed, updates.reshape(len(listed), *y.shape[depth:]), strict=True):
        y = run("ScatterND", y, at[None], row[None], **how)
    return y


def ordered(op: nn.TopKOp, inputs: Sequence[Array]) -> Array:
    k = np.array([op.k.value.data])
    return run("TopK", inputs[0], k, output=1, axis=op.axis.value.data, largest=int(bool(op.largest)))


def suppressed(op: nn.NonMaxSuppressionOp, inputs: Sequence[Array]) -> Array:
    """The boxes of each image and class, −1 behind the last."""
    least = [] if op.score_threshold is None else [np.array([op.score_threshold.value.data], np.float32)]
    limits = [np.array([op.count.value.data], np.int64), np.array([op.iou_threshold.value.data], np.float32), *least]
    kept = np.full((*inputs[1].shape[:2], op.count.value.data), -1, np.int64)
    filled = np.zeros(kept.shape[:2], np.int64)
    for image, kind, box in run("NonMaxSuppression", *inputs, *limits):
        kept[image, kind, filled[image, kind]] = box
        filled[image, kind] += 1
    return kept


def not_zero(op: nn.NonZeroOp, inputs: Sequence[Array]) -> Array:
    found = run("NonZero", inputs[0])
    return np.pad(found, [(0, 0), (0, inputs[0].size - found.shape[1])], constant_values=-1)


def resized(op: nn.ResizeOp, inputs: Sequence[Array]) -> Array:
    """Each axis as a product with a banded matrix."""
    (y,) = inputs
    for axis, taps, weights in op.tables():
        matrix = np.zeros((y.shape[axis], len(taps)), np.float32)
        for o, t in np.ndindex(*taps.shape):
            matrix[taps[o, t], o] += weights[o, t]
        y = np.moveaxis(run("MatMul", np.ascontiguousarray(np.moveaxis(y, axis, -1)), matrix), -1, axis)
    return y


def local_response(op: nn.LocalResponseNormalizationOp, inputs: Sequence[Array]) -> Array:
    """onnxruntime's is of images [N, C, H, W]; its window of an even size leans as ONNX says."""
    x = inputs[0].reshape(-1, inputs[0].shape[-1], 1, 1)
    values = {name: getattr(op, name).value.data for name in ("size", "alpha", "beta", "bias")}
    first, last = (values["size"] - 1) // 2, values["size"] // 2
    total = np.stack([np.sum(x[:, max(c - first, 0) : c + last + 1] ** 2, axis=1) for c in range(x.shape[1])], axis=1)
    y = x / (values["bias"] + values["alpha"] / values["size"] * total) ** values["beta"]
    if values["size"] % 2:  # it has no other
        np.testing.assert_allclose(y, run("LRN", x, **values), rtol=1e-5)
    return y.reshape(inputs[0].shape)


def over_trailing(kind: str) -> Oracle:
    """A normalization of the dimensions from `axis` on, with a scale of one."""

    def oracle(op: Any, inputs: Sequence[Array]) -> Array:
        axis, epsilon = op.axis.value.data, op.epsilon.value.data
        return run(kind, inputs[0], np.ones(inputs[0].shape[axis:], np.float32), axis=axis, epsilon=epsilon)

    return oracle


def sampled(op: nn.SampleOp, inputs: Sequence[Array]) -> Array:
    """onnxruntime takes places in [−1, 1], columns first."""
    x, places = inputs
    lengths = np.array(x.shape[1:-1], np.float32)
    centres = op.padding.data == "reflect_centres"
    grid = places * 2 / (lengths - 1) - 1 if centres else (places * 2 + 1) / lengths - 1
    grid = np.ascontiguousarray(grid[..., ::-1]).astype(np.float32)
    modes = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    padding = "reflection" if op.padding.data.startswith("reflect") else op.padding.data
    attributes = {"mode": modes[op.method.data], "padding_mode": padding, "align_corners": int(centres)}
    return run("GridSample", channels_first(x), grid, **attributes).transpose(0, 2, 3, 1)


def blocked(op: Any, inputs: Sequence[Array]) -> Array:
    """The sum of products with each block of the weights."""
    x, w, s, z, *bias = (a.astype(np.float64) for a in inputs)
    y = np.zeros((len(x), len(w))) + (bias[0] if bias else 0)
    for g in range(s.shape[1]):
        part = slice(g * op.block.value.data, (g + 1) * op.block.value.data)
        y += x[:, part] @ ((w[:, part] - z[:, g : g + 1]) * s[:, g : g + 1]).T
    return y


def node(kind: str) -> Oracle:
    """The ONNX operation of the same operands."""
    return lambda op, inputs: run(kind, *inputs)


ORACLES: dict[type[TensorOp], Oracle] = {
    **oracles(run),
    nn.Conv2DOp: convolution,
    nn.DepthwiseConv2DOp: depthwise,
    nn.FullyConnectedOp: lambda op, inputs: run("Gemm", *inputs, transB=1),
    nn.BlockedFullyConnectedOp: blocked,
    nn.MatMulOp: node("MatMul"),
    nn.AddOp: node("Add"),
    nn.MulOp: node("Mul"),
    nn.ReluOp: node("Relu"),
    nn.ClampOp: lambda op, inputs: inputs[0],  # its bounds are applied to every oracle's result
    nn.SigmoidOp: node("Sigmoid"),
    nn.TanhOp: node("Tanh"),
    nn.RequantizeOp: node("Identity"),
    nn.MaxPool2DOp: pool("MaxPool"),
    nn.MaxPoolIndices2DOp: places,
    nn.AveragePool2DOp: pool("AveragePool"),
    nn.GlobalAveragePoolOp: lambda op, inputs: run("GlobalAveragePool", channels_first(inputs[0])).transpose(
        0, 2, 3, 1
    ),
    nn.SoftmaxOp: lambda op, inputs: run("Softmax", inputs[0], axis=op.axis.value.data),
    nn.LogSoftmaxOp: lambda op, inputs: run("LogSoftmax", inputs[0], axis=op.axis.value.data),
    nn.LayerNormOp: over_trailing("LayerNormalization"),
    nn.RMSNormOp: over_trailing("SimplifiedLayerNormalization"),
    nn.LocalResponseNormalizationOp: local_response,
    nn.LpNormalizationOp: lambda op, inputs: run(
        "LpNormalization", inputs[0], axis=op.axis.value.data, p=op.p.value.data
    ),
    nn.ReshapeOp: lambda op, inputs: run("Reshape", inputs[0], np.array(op.shape.get_values(), np.int64)),
    nn.TransposeOp: lambda op, inputs: run("Transpose", inputs[0], perm=list(op.permutation.get_values())),
    nn.ConcatOp: lambda op, inputs: run("Concat", *inputs, axis=op.axis.value.data),
    nn.PadOp: padded,
    nn.DilateOp: dilated,
    nn.BroadcastOp: lambda op, inputs: run("Expand", inputs[0], np.array(op.shape.get_values(), np.int64)),
    nn.SliceOp: sliced,
    nn.GatherOp: gathered,
    nn.GatherNDOp: gathered_nd,
    nn.ScatterNDOp: scattered,
    nn.ScatterReduceNDOp: scattered,
    nn.TopKOp: ordered,
    nn.NonMaxSuppressionOp: suppressed,
    nn.NonZeroOp: not_zero,
    nn.ResizeOp: resized,
    nn.SampleOp: sampled,
}

NO_ORACLE: dict[type[TensorOp], str] = {
    nn.ConstantOp: "it has no operand: its value is its meaning",
    nn.RootQuotientOp: "of integers alone: test_integer_oracle.py tries it",
    **dict.fromkeys(
        (nn.AndOp, nn.OrOp, nn.XorOp, nn.NotOp, nn.ShiftLeftOp, nn.ShiftRightOp, nn.CastOp, nn.BitcastOp),
        "not of floats alone: ONNX's own cases try it on each type",
    ),
}


@pytest.mark.parametrize("op", [op for op in OPERATIONS if op.name.startswith("nn.")], ids=lambda op: op.name)
def test_each_operation_has_an_oracle(op: type[TensorOp]) -> None:
    assert (op in ORACLES) != (op in NO_ORACLE), "an oracle, or a reason why there is none"


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("sample", [s for s in NN_SAMPLES if s.op in ORACLES], ids=str)
def test_evaluate_agrees(sample: Sample, seed: int) -> None:
    op = sample.build()
    inputs = sample.arrays(seed)
    expected = ORACLES[sample.op](op, inputs)
    if isinstance(op, Clamped):
        low, high = op.bounds()
        expected = np.clip(expected, -np.inf if low is None else low, np.inf if high is None else high)
    (got,) = op.evaluate(*inputs)
    assert got.shape == expected.shape
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    assert np.abs(got - expected).max(initial=0) <= EPSILON * np.abs(expected).max(initial=0)
