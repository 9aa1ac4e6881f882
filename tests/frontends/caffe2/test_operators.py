"""Float operators of Caffe2 against plain numpy."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from qmlir.errors import NodeError
from qmlir.formats.caffe2 import OPERATORS
from qmlir.frontends.caffe2 import load_caffe2
from tests.frontends.caffe2.nets import made, run

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return np.random.default_rng(shape).uniform(-2, 2, shape).astype(np.float32)


def ints(*values: Any, dtype: Any = np.int32) -> Array:
    return np.array(values, dtype)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


FUNCTIONS: Mapping[str, tuple[Callable[[Array], Any], float, float]] = {
    "Abs": (np.abs, -2, 2), "Acos": (np.arccos, -1, 1), "Asin": (np.arcsin, -1, 1), "Atan": (np.arctan, -2, 2),
    "Ceil": (np.ceil, -2, 2), "Cos": (np.cos, -2, 2), "Cosh": (np.cosh, -2, 2),
    "Elu": (lambda x: np.where(x < 0, np.expm1(x), x), -2, 2), "Exp": (np.exp, -2, 2), "Floor": (np.floor, -2, 2),
    "HardSigmoid": (lambda x: np.clip(0.2 * x + 0.5, 0, 1), -4, 4), "Log": (np.log, 0.1, 3),
    "LeakyRelu": (lambda x: np.where(x < 0, 0.01 * x, x), -2, 2), "Negative": (np.negative, -2, 2),
    "Reciprocal": (np.reciprocal, 0.2, 2), "Relu": (lambda x: np.maximum(x, 0), -2, 2), "Round": (np.rint, -3, 3),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), 0.2, 2), "Sigmoid": (sigmoid, -2, 2), "Sign": (np.sign, -2, 2),
    "Selu": (lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(x), x), -2, 2),
    "Sin": (np.sin, -2, 2), "Sinh": (np.sinh, -2, 2), "Softplus": (lambda x: np.log1p(np.exp(x)), -2, 2),
    "Softsign": (lambda x: x / (1 + np.abs(x)), -2, 2), "Sqrt": (np.sqrt, 0, 2), "Tan": (np.tan, -1, 1),
    "Tanh": (np.tanh, -2, 2), "Swish": (lambda x: x * sigmoid(x), -2, 2), "Sqr": (np.square, -2, 2),
    "Cube": (lambda x: x**3, -2, 2), "Log1p": (np.log1p, -0.9, 2), "IsNanCheck": (np.isnan, -1, 1),
}  # fmt: skip
"""Operator → its function and the range of its data."""

ELSEWHERE = {"Gelu", "Erf", "Not"}
"""Functions that Glow's nets or the table of operators test."""


def test_every_function_is_tested() -> None:
    rows = {row.kind for row in OPERATORS if not row.on_integers}
    assert rows <= {*FUNCTIONS, *ELSEWHERE}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_function_of_elements(kind: str) -> None:
    function, low, high = FUNCTIONS[kind]
    x = np.random.default_rng(1).uniform(low, high, (3, 5)).astype(np.float32)
    (y,) = run(made((kind, "x", "y"), outputs="y"), {"x": x})
    np.testing.assert_allclose(y, function(x.astype(np.float64)), rtol=2e-6, atol=1e-6)


def image_windows(x: Array, kernel: int, stride: int, pad: int, fill: float) -> Array:
    """Windows of an image [N, C, H, W]: [N, C, OH, OW, KH, KW]."""
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]


def conv(x: Array, w: Array, b: Array, stride: int = 1, pad: int = 0, groups: int = 1) -> Array:
    """x [N, C, H, W], w [O, C/g, K, K]."""
    outputs, inputs = len(w) // groups, x.shape[1] // groups
    parts = [
        np.einsum(
            "ncyxij,ocij->noyx",
            image_windows(x[:, g * inputs : (g + 1) * inputs], w.shape[-1], stride, pad, 0),
            w[g * outputs : (g + 1) * outputs],
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=1) + b[:, None, None]


X4, ROW, BOOLS = floats(2, 4, 6, 6), floats(4), np.array([True, False, True])
NAN = np.array([1, np.nan, 3], np.float32)
X, M = floats(3, 4), floats(3, 4)
DENSE = floats(4, 5)
NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def batch_norm(x: Array, s: Array, b: Array, m: Array, v: Array) -> Array:
    factor = s / np.sqrt(np.abs(v) + 1e-3)
    return (x - m[:, None, None]) * factor[:, None, None] + b[:, None, None]


def group_norm(x: Array, s: Array, b: Array, groups: int) -> Array:
    rows = x.reshape(len(x), groups, -1)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    return normal.reshape(x.shape) * s[:, None, None] + b[:, None, None]


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


SIDES = ("pad_t", "pad_l", "pad_b", "pad_r")

Case = tuple[str, dict[str, Any], list[Array], Any]

CASES: dict[str, Case] = {
    "Add": ("Add", {}, [X, floats(4)], X + floats(4)),
    "Add of rows": ("Add", {"broadcast": 1, "axis": 0}, [X, floats(3)], X + floats(3)[:, None]),
    "Sub of channels": (
        "Sub", {"broadcast": 1, "axis_str": "C", "order": "NCHW"}, [X4, ROW], X4 - ROW[:, None, None]),
    "Mul": ("Mul", {"broadcast": 1}, [X4, floats(6, 6)], X4 * floats(6, 6)),
    "Div": ("Div", {}, [X, M + 3], X / (M + 3)),
    "Pow": ("Pow", {"exponent": 2.0}, [np.abs(X)], np.abs(X) ** 2),
    "Pow of two": ("Pow", {}, [np.abs(X), M], np.abs(X) ** M),
    "And": ("And", {}, [BOOLS, ~BOOLS], BOOLS & ~BOOLS), "Or": ("Or", {}, [BOOLS, ~BOOLS], BOOLS | ~BOOLS),
    "Xor": ("Xor", {}, [BOOLS, BOOLS], BOOLS ^ BOOLS), "Not": ("Not", {}, [BOOLS], ~BOOLS),
    "BitwiseAnd": ("BitwiseAnd", {}, [ints(6, 3), ints(3, 5)], ints(2, 1)),
    "BitwiseOr": ("BitwiseOr", {}, [ints(6, 3), ints(3, 5)], ints(7, 7)),
    "BitwiseXor": ("BitwiseXor", {}, [ints(6, 3), ints(3, 5)], ints(5, 6)),
    **{kind: (kind, {}, [ints(1, 2, 3), ints(2, 2, 2)], function(ints(1, 2, 3), 2)) for kind, function in {
        "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater,
        "GE": np.greater_equal}.items()},
    "Sum": ("Sum", {}, [X, M, X], X + M + X), "Max": ("Max", {}, [X, M], np.maximum(X, M)),
    "Min": ("Min", {}, [X, M, -X], np.minimum(np.minimum(X, M), -X)), "Mean": ("Mean", {}, [X, M], (X + M) / 2),
    "Clip": ("Clip", {"min": -1.0, "max": 0.5}, [X], np.clip(X, -1, 0.5)),
    "Scale": ("Scale", {"scale": 3.0}, [X], 3 * X),
    "ReplaceNaN": ("ReplaceNaN", {"value": 7.0}, [NAN], np.array([1, 7, 3])),
    "Logit": ("Logit", {"eps": 0.1}, [np.array([0.0, 0.5, 1.0], np.float32)], np.log([0.1 / 0.9, 1, 9])),
    "PRelu": ("PRelu", {}, [X4, ROW], np.where(X4 < 0, X4 * ROW[:, None, None], X4)),
    "PRelu of one slope": ("PRelu", {}, [X, floats(1)], np.where(X < 0, X * floats(1), X)),
    "Mod": ("Mod", {"divisor": 3}, [ints(-4, 4, 7)], ints(-1, 1, 1)),
    "Mod of the divisor's sign": ("Mod", {"divisor": 3, "sign_follow_divisor": 1}, [ints(-4, 4, 7)], ints(2, 1, 1)),
    "Where": ("Where", {}, [X > 0, X, M], np.where(X > 0, X, M)),
    "Conditional": ("Conditional", {}, [BOOLS, X, M], np.where(BOOLS[:, None], X, M)),
    "Bucketize": ("Bucketize", {"boundaries": [-1.0, 0.0, 1.0]}, [X], np.searchsorted([-1, 0, 1], X)),
    "ElementwiseLinear": ("ElementwiseLinear", {}, [X, floats(4), ROW], X * floats(4) + ROW),
    "Erf": ("Erf", {}, [np.array([0, 1], np.float32)], np.array([0, 0.84270079])),
    "Cast": ("Cast", {"to": 2}, [np.array([-1.7, 1.7], np.float32)], ints(-1, 1)),
    "Cast by name": ("Cast", {"to": "int64"}, [ints(3, -4)], ints(3, -4)),
    "FloatToHalf": ("FloatToHalf", {}, [X], X.astype(np.float16)),
    "Conv": ("Conv", {"kernel": 3, "stride": 2, "pad": 1}, [X4, floats(5, 4, 3, 3), floats(5)],
             conv(X4, floats(5, 4, 3, 3), floats(5), 2, 1)),
    "Conv without a bias": ("Conv", {"kernels": [3, 3]}, [X4, floats(5, 4, 3, 3)],
                            conv(X4, floats(5, 4, 3, 3), np.zeros(5))),
    "Conv of groups": ("Conv", {"kernel_h": 3, "kernel_w": 3, "group": 2, **dict.fromkeys(SIDES, 1)},
                       [X4, floats(6, 2, 3, 3), floats(6)], conv(X4, floats(6, 2, 3, 3), floats(6), 1, 1, 2)),
    "Conv of channels": ("Conv", {"kernel": 3, "group": 4}, [X4, floats(4, 1, 3, 3), ROW],
                         conv(X4, floats(4, 1, 3, 3), ROW, groups=4)),
    "Conv in NHWC": ("Conv", {"kernel": 3, "order": "NHWC"},
                     [X4.transpose(NHWC), floats(5, 4, 3, 3).transpose(NHWC), floats(5)],
                     conv(X4, floats(5, 4, 3, 3), floats(5)).transpose(NHWC)),
    "Conv of rows": ("Conv", {"kernel": 1}, [floats(2, 4, 7), floats(5, 4, 1), floats(5)],
                     np.einsum("ncx,oc->nox", floats(2, 4, 7), floats(5, 4, 1)[..., 0]) + floats(5)[:, None]),
    "ConvRelu": ("ConvRelu", {"kernel": 3}, [X4, floats(5, 4, 3, 3), floats(5)],
                 np.maximum(conv(X4, floats(5, 4, 3, 3), floats(5)), 0)),
    "ConvTranspose": ("ConvTranspose", {"kernel": 2, "stride": 2}, [floats(1, 2, 2, 2), floats(2, 3, 2, 2), floats(3)],
                      np.einsum("ncyx,coij->noyixj", floats(1, 2, 2, 2), floats(2, 3, 2, 2)).reshape(1, 3, 4, 4)
                      + floats(3)[:, None, None]),
    "FC": ("FC", {}, [floats(2, 3, 5), floats(4, 15), ROW], floats(2, 3, 5).reshape(2, 15) @ floats(4, 15).T + ROW),
    "FC along an axis": ("FC", {"axis": 2}, [floats(2, 3, 5), DENSE, ROW], floats(2, 3, 5) @ DENSE.T + ROW),
    "FCTransposed": ("FCTransposed", {}, [floats(2, 5), DENSE.T.copy(), ROW], floats(2, 5) @ DENSE.T + ROW),
    "MatMul": ("MatMul", {"trans_b": 1}, [X, M], X @ M.T),
    "BatchMatMul": ("BatchMatMul", {"trans_a": 1}, [floats(2, 4, 3), floats(2, 4, 5)],
                    floats(2, 4, 3).transpose(0, 2, 1) @ floats(2, 4, 5)),
    "BatchMatMul of a vector": ("BatchMatMul", {}, [X, ROW], X @ ROW),
    "BatchMatMul of rows": ("BatchMatMul", {}, [ROW, floats(4, 2)], ROW @ floats(4, 2)),
    "DotProduct": ("DotProduct", {}, [X, M], (X * M).sum(axis=1)),
    "DotProduct of vectors": ("DotProduct", {}, [ROW, ROW], ROW * ROW),
    "Copy": ("Copy", {}, [X], X), "StopGradient": ("StopGradient", {}, [X], X),
    "Reshape": ("Reshape", {"shape": [0, -1, 2]}, [X], X.reshape(3, 2, 2)),
    "Flatten": ("Flatten", {"axis": 2}, [X4], X4.reshape(8, 36)),
    "FlattenToVec": ("FlattenToVec", {}, [X], X.reshape(-1)),
    "Squeeze": ("Squeeze", {"dims": [0, 2]}, [floats(1, 3, 1)], floats(1, 3, 1).reshape(3)),
    "ExpandDims": ("ExpandDims", {"dims": [0, 2]}, [ROW], ROW.reshape(1, 4, 1)),
    "Transpose": ("Transpose", {"axes": [1, 2, 0]}, [floats(2, 3, 4)], floats(2, 3, 4).transpose(1, 2, 0)),
    "Transpose of all": ("Transpose", {}, [floats(2, 3, 4)], floats(2, 3, 4).T),
    "NCHW2NHWC": ("NCHW2NHWC", {}, [X4], X4.transpose(NHWC)), "NHWC2NCHW": ("NHWC2NCHW", {}, [X4], X4.transpose(NCHW)),
    "Concat": ("Concat", {}, [X4, X4], np.concatenate([X4, X4], 1)),
    "Concat along a new axis": ("Concat", {"axis": 0, "add_axis": 1}, [X, M], np.stack([X, M])),
    "Slice": ("Slice", {"starts": [0, 1], "ends": [2, -2]}, [X], X[0:2, 1:3]),
    "Tile": ("Tile", {"tiles": 3, "axis": 1}, [X], np.tile(X, (1, 3))),
    "Expand": ("Expand", {"shape": [2, 1, 4]}, [X], np.broadcast_to(X, (2, 3, 4))),
    "PadImage": ("PadImage", {"pad": 1, "value": 2.0}, [X4],
                 np.pad(X4, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=2)),
    "ChannelShuffle": ("ChannelShuffle", {"group": 2, "kernel": 1}, [X4], X4[:, [0, 2, 1, 3]]),
    "Gather": ("Gather", {}, [X, ints(2, 0, 2)], X[[2, 0, 2]]),
    "BatchGather": ("BatchGather", {}, [X, ints(3, 1)], X[:, [3, 1]]),
    "ResizeNearest": ("ResizeNearest", {"height_scale": 1.5, "width_scale": 0.5}, [X4],
                      X4[:, :, np.floor(np.arange(9) / 1.5).astype(int)][..., [0, 2, 4]]),
    "UpsampleNearest": ("UpsampleNearest", {"scale": 2}, [X4], X4.repeat(2, 2).repeat(2, 3)),
    "ReduceSum": ("ReduceSum", {"axes": [0]}, [X], X.sum(0, keepdims=True)),
    "ReduceMean": ("ReduceMean", {"axes": [1], "keepdims": 0}, [X], X.mean(1)),
    "ReduceMax": ("ReduceMax", {}, [X], X.max(keepdims=True)),
    "ReduceMin": ("ReduceMin", {"axes": [1]}, [X], X.min(1)[:, None]),
    "ReduceL1": ("ReduceL1", {"axes": [1]}, [X], np.abs(X).sum(1)[:, None]),
    "ReduceL2": ("ReduceL2", {"axes": [1], "keepdims": 0}, [X], np.sqrt((X * X).sum(1))),
    "ReduceFrontSum": ("ReduceFrontSum", {"num_reduce_dim": 2}, [X4], X4.sum((0, 1))),
    "ReduceFrontMean": ("ReduceFrontMean", {}, [X], X.mean(0)), "ReduceFrontMax": ("ReduceFrontMax", {}, [X], X.max(0)),
    "ReduceBackMax": ("ReduceBackMax", {}, [X], X.max(1)),
    "ReduceBackSum": ("ReduceBackSum", {"num_reduce_dim": 2}, [X4], X4.sum((2, 3))),
    "LpNorm": ("LpNorm", {"average": 1}, [X], (X * X).mean().reshape(1)),
    "SumElements": ("SumElements", {}, [X], X.sum()), "SumSqrElements": ("SumSqrElements", {}, [X], (X * X).sum()),
    "AveragedLoss": ("AveragedLoss", {}, [X], X.mean()),
    "ArgMax": ("ArgMax", {"axis": 0}, [X], X.argmax(0)[None]), "ArgMin": ("ArgMin", {"keepdims": 0}, [X], X.argmin(1)),
    "CumSum": ("CumSum", {"axis": 1, "exclusive": 1}, [X], np.cumsum(X, 1) - X),
    "MaxPool": ("MaxPool", {"kernel": 3, "stride": 2, "pad": 1}, [X4], image_windows(X4, 3, 2, 1, -np.inf).max((4, 5))),
    "MaxPool by Caffe's rule": ("MaxPool", {"kernel": 2, "stride": 2, "legacy_pad": 3}, [floats(1, 1, 5, 5)],
                                image_windows(np.pad(floats(1, 1, 5, 5), ((0, 0), (0, 0), (0, 1), (0, 1)),
                                                     constant_values=-np.inf), 2, 2, 0, 0).max((4, 5))),
    "MaxPool of the same size": ("MaxPool", {"kernel": 2, "legacy_pad": 2}, [floats(1, 1, 3, 3)],
                                 image_windows(np.pad(floats(1, 1, 3, 3), ((0, 0), (0, 0), (0, 1), (0, 1)),
                                                      constant_values=-np.inf), 2, 1, 0, 0).max((4, 5))),
    "AveragePool": ("AveragePool", {"kernel": 3, "stride": 2, "pad": 1}, [X4],
                    image_windows(X4, 3, 2, 1, 0).mean((4, 5))),
    "AveragePool of what is inside": (
        "AveragePool", {"kernel": 3, "stride": 2, "pad": 1, "count_include_pad": 0}, [X4],
        image_windows(X4, 3, 2, 1, 0).sum((4, 5)) / image_windows(np.ones_like(X4), 3, 2, 1, 0).sum((4, 5))),
    "AveragePool of the image": ("AveragePool", {"global_pooling": 1}, [X4], X4.mean((2, 3), keepdims=True)),
    "SpatialBN": ("SpatialBN", {"is_test": 1, "epsilon": 1e-3}, [X4, ROW, ROW + 1, ROW * 2, np.abs(ROW)],
                  batch_norm(X4, ROW, ROW + 1, ROW * 2, ROW)),
    "InstanceNorm": ("InstanceNorm", {}, [X4, ROW, ROW + 1], group_norm(X4, ROW, ROW + 1, 4)),
    "GroupNorm": ("GroupNorm", {"group": 2}, [X4, ROW, ROW + 1], group_norm(X4, ROW, ROW + 1, 2)),
    "Normalize": ("Normalize", {}, [X], X / np.sqrt((X * X).sum(1, keepdims=True))),
    "NormalizeL1": ("NormalizeL1", {"axis": 0}, [X], X / np.abs(X).sum(0)),
    "LRN": ("LRN", {"size": 3, "alpha": 0.3, "beta": 0.75, "bias": 2.0}, [X4], X4 / (2 + 0.1 * sum(
        np.pad(X4 * X4, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, i : i + 4] for i in range(3))) ** 0.75),
    "Softmax": ("Softmax", {}, [floats(1, 3, 4)], softmax(floats(1, 3, 4))),
    "LogSoftmax": ("LogSoftmax", {}, [floats(1, 5)], np.log(softmax(floats(1, 5)))),
    "LengthsMean": ("LengthsMean", {}, [X, ints(2, 0, 1)], np.stack([X[:2].mean(0), np.zeros(4), X[2]])),
    "SparseLengthsMean": ("SparseLengthsMean", {}, [X, ints(1, 1, 2), ints(2, 1)], np.stack([X[1], X[2]])),
    "SparseLengthsSum": ("SparseLengthsSum", {}, [X, ints(1, 0, 2), ints(2, 1)], np.stack([X[1] + X[0], X[2]])),
    "SparseLengthsWeightedSum": (
        "SparseLengthsWeightedSum", {}, [X, floats(3), ints(1, 0, 2), ints(2, 1)],
        np.stack([X[1] * floats(3)[0] + X[0] * floats(3)[1], X[2] * floats(3)[2]])),
    "SparseToDenseMask of segments": (
        "SparseToDenseMask", {"mask": [5, 7]}, [ints(5, 7, 7), floats(3), floats(), ints(1, 2)],
        np.array([[floats(3)[0], floats()], [floats(), floats(3)[2]]])),
    "Size": ("Size", {}, [X], np.array(12)), "IsEmpty": ("IsEmpty", {}, [X], np.array(False)),
    "Shape": ("Shape", {}, [X4], np.array([2, 4, 6, 6])),
}  # fmt: skip
"""Name → operator, arguments, inputs, result."""


@pytest.mark.parametrize("name", CASES)
def test_an_operator(name: str) -> None:
    kind, arguments, inputs, expected = CASES[name]
    data = {f"x{i}": x for i, x in enumerate(inputs)}
    (y,) = run(made((kind, " ".join(data), "y", arguments), outputs="y"), data)
    wanted = np.asarray(expected)
    assert y.shape == wanted.shape
    if y.dtype.kind == "f":
        np.testing.assert_allclose(y, wanted, rtol=1e-5 if y.dtype != np.float16 else 1e-3, atol=2e-6)
    else:
        np.testing.assert_array_equal(y, wanted)


def test_parts_of_a_tensor() -> None:
    parts = run(made(("Split", "x", "a b c", {"axis": 1, "split": [1, 2, 1]}), outputs="a b c"), {"x": X})
    for part, wanted in zip(parts, (X[:, :1], X[:, 1:3], X[:, 3:]), strict=True):
        np.testing.assert_array_equal(part, wanted)
    halves = run(made(("Split", "x", "a b", {"axis": 1}), outputs="a b"), {"x": X})
    np.testing.assert_array_equal(np.concatenate(halves, axis=1), X)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_greatest_elements_along_an_axis(axis: int) -> None:
    x = floats(3, 4, 5)
    values, places, flat = run(made(("TopK", "x", "v i f", {"k": 2, "axis": axis}), outputs="v i f"), {"x": x})
    order = np.argsort(-x, axis=axis, kind="stable").take([0, 1], axis=axis)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))
    np.testing.assert_array_equal(x.reshape(-1)[flat], values)


def test_other_outputs() -> None:
    net = made(
        ("Reshape", "x", "y old", {"shape": [4, 3]}), ("Concat", "x x", "z sizes", {"axis": 0}),
        ("Dropout", "z", "d mask", {"is_test": 1}), outputs="y old d sizes",
    )  # fmt: skip
    y, old, z, sizes = run(net, {"x": X})
    assert y.shape == (4, 3)
    assert z.shape == (6, 4)
    assert (old.tolist(), sizes.tolist()) == ([3, 4], [3, 3])


def test_tables_of_bytes_with_their_own_scales() -> None:
    """Two rows of three 4-bit numbers, a scale and a bias as float16: 1, 2, 3, 4 by 0.5 plus 1, and by 2 minus 1."""
    halves = np.array([[0.5, 1.0], [2.0, -1.0]], "<f2").view(np.uint8)
    table = np.concatenate([np.array([[0x21, 0x43]] * 2, np.uint8), halves], axis=1)
    fill = ("GivenTensorByteStringToUInt8Fill", "", "t", {"shape": [2, 6], "values": [table.tobytes()]})
    net = made(fill, ("SparseLengthsWeightedSumFused4BitRowwise", "t w i n", "y"), outputs="y")
    data = {"w": np.array([1, 10], np.float32), "i": ints(0, 1), "n": ints(2)}
    (y,) = run(net, data)
    rows = np.array([[1.5, 2, 2.5, 3], [1, 3, 5, 7]])
    np.testing.assert_array_equal(y, [rows[0] + 10 * rows[1]])


@pytest.mark.filterwarnings("ignore:.*its random numbers are drawn once")
@pytest.mark.parametrize(
    ("kind", "arguments", "deviation", "most"),
    [
        ("GaussianFill", {"mean": 2.0, "std": 0.5}, 0.5, np.inf),
        ("UniformFill", {"min": -1.0, "max": 5.0}, 6 / np.sqrt(12), 5.0),
        ("XavierFill", {}, 1 / np.sqrt(20 * 30), np.sqrt(3 / (20 * 30))),
        ("MSRAFill", {}, np.sqrt(2 / (50 * 30)), np.inf),
    ],
)
def test_random_fills(kind: str, arguments: dict[str, Any], deviation: float, most: float) -> None:
    net = made((kind, "", "y", {"shape": [50, 20, 30], **arguments}), outputs="y")
    y, again = run(net, {})[0], run(net, {})[0]
    np.testing.assert_array_equal(y, again)
    assert y.shape == (50, 20, 30)
    assert abs(y.std() / deviation - 1) < 0.02
    assert abs(y.mean() - (2 if arguments else 0)) < 0.05
    assert y.max() <= most


def test_what_random_fills_and_label_splits_refuse() -> None:
    split = {"n": "2xi32", "i": "4xi64"}
    for operator, shapes, error in (
        (("MSRAFill", "", "y", {"shape": [3]}), {}, "must have 2 dimensions or more"),
        (("SparseLabelSplit", "n i v", "y", {"num_labels": 0}), {**split, "v": "4"}, "num_labels must be at least 1"),
        (("SparseLabelSplit", "n i n", "y", {"num_labels": 2}), split, "a value for each of 4 indices"),
    ):
        with pytest.raises(NodeError, match=error):
            load_caffe2(made(operator, outputs="y"), shapes=shapes)
