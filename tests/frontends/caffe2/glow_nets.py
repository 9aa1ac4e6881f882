"""Glow's Caffe2 nets: the shapes and the data of their inputs, and what Glow's importer makes of them, in plain numpy.

Glow's tests give the shapes, since a net has none. `NETS` has every net but those of random numbers, which are in
`RANDOM`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import erf
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Expected = Callable[..., Any]

EMPTY = "empty_init_net"


@dataclass(frozen=True)
class GlowNet:
    """A net with what is needed to run it.

    init      its init net
    shapes    the type of each input
    expected  the results, computed from the inputs in their order; None where they are compared elsewhere
    data      values of inputs that may not be any
    step      how far results may be apart: floats relative to the largest, stored integers absolutely
    """

    init: str
    shapes: Mapping[str, str]
    expected: Expected | None
    data: Mapping[str, Array] = field(default_factory=dict[str, Array])
    step: float = 1e-6


def f32(*values: Any) -> Array:
    return np.array(values, np.float32)


def net(shapes: str, expected: Expected | None, init: str = EMPTY, data: Mapping[str, Any] | None = None,
        step: float = 2e-6) -> GlowNet:  # fmt: skip
    """Makes an entry; shapes are `name=type`, separated by spaces."""
    found = dict(entry.split("=") for entry in shapes.split())
    return GlowNet(init, found, expected, data or {}, step)


# ---------------------------------------------------------------------------------------------------------------
# Reference computations


def windows(x: Array, kernel: int, pad: int, fill: float, dilation: int = 1) -> Array:
    """Windows of an image [N, H, W, C] in steps of 1: [N, OH, OW, KH, KW, C]."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=fill)
    span = (kernel - 1) * dilation + 1
    views = np.lib.stride_tricks.sliding_window_view(x, (span, span), (1, 2))[..., ::dilation, ::dilation]
    return views.transpose(0, 1, 2, 4, 5, 3)


def convolved(x: Array, w: Array, bias: float, pad: int, dilation: int = 1) -> Array:
    """x [N, H, W, C], w [O, KH, KW, C]."""
    return np.einsum("nhwijc,oijc->nhwo", windows(x, w.shape[1], pad, 0.0, dilation), w) + bias


def nhwc(x: Array) -> Array:
    return x.transpose(0, 2, 3, 1)


def nchw(x: Array) -> Array:
    return x.transpose(0, 3, 1, 2)


def transposed(x: Array, pad: int) -> Array:
    """The transposed convolution of [N, H, W, 1] with the weights 2 … 10 and the bias 1."""
    w = np.arange(2.0, 11.0).reshape(3, 3)
    n, h, width, _ = x.shape
    whole = np.zeros((n, h + 2, width + 2, 1))
    for i in range(h):
        for j in range(width):
            whole[:, i : i + 3, j : j + 3, 0] += x[:, i, j, 0][:, None, None] * w
    return whole[:, pad : h + 2 - pad, pad : width + 2 - pad] + 1.0


def segments(lengths: Array) -> list[slice]:
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def sums(rows: Array, lengths: Array) -> Array:
    return np.stack([rows[s].sum(axis=0) for s in segments(lengths)])


def sparse_to_dense(indices: Array, values: Array, like: Array) -> Array:
    y = np.zeros((like.shape[0], *values.shape[1:]), np.float64)
    np.add.at(y, indices, values)
    return y


def sparse_to_dense_mask(indices: Array, values: Array, default: Array) -> Array:
    known = {int(i): v for i, v in zip(indices, values, strict=True)}
    return np.stack([known.get(m, default) for m in (42, 100, 300, 1, 0, 312)])


def fill_examples(data: Array, indicator: Array) -> Array:
    y, rows = np.zeros((len(indicator), *data.shape[1:])), iter(data)
    for i, present in enumerate(indicator):
        if present:
            y[i] = next(rows)
    return y


def batch_sparse_to_dense(lengths: Array, indices: Array, values: Array) -> Array:
    y = np.zeros((len(lengths), 1))
    for row, part in enumerate(segments(lengths)):
        y[row, indices[part]] = values[part]
    return y


def box_cox(x: Array, lambda1: Array, lambda2: Array) -> Array:
    base = np.maximum(x.astype(np.float64) + lambda2, 1e-6)
    safe = np.where(lambda1 == 0, 1, lambda1)
    return np.where(lambda1 == 0, np.log(base), (base**safe - 1) / safe)


def layer_norm(x: Array, axis: int, epsilon: float) -> Array:
    over = tuple(range(axis % x.ndim, x.ndim))
    less_zero_point = x - x.mean(over, keepdims=True)
    return less_zero_point / np.sqrt((less_zero_point**2).mean(over, keepdims=True) + epsilon)


def rms_norm(x: Array, gamma: Array, beta: Array) -> tuple[Array, Array]:
    factors = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(axis=1) + 1)
    return x * factors[:, None] * gamma + beta, factors


def fc(x: Array, w: Array, b: Array, axis: int = 1) -> Array:
    rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
    return (rows @ w.T + b).reshape(*x.shape[:axis], len(w))


def stored(real: Array, scale: float, zero_point: int) -> Array:
    return np.clip(np.rint(real / scale) + zero_point, 0, 255)


def int8_conv_relu(x: Array) -> Array:
    """Data of scale 1 and zero point 128, weights 1 of scale 2 and zero point 10, a bias 2 of scale 10 and 4."""
    real = nchw(convolved(nhwc(x.astype(np.float64) - 128), np.full((1, 2, 2, 1), (1 - 10) * 2.0), (2 - 4) * 10.0, 1))
    return stored(np.maximum(real, 0), 1.5, 7)


def int8_group_conv(x: Array) -> Array:
    """Data of scale 1 and zero point 128, weights 0 and 1 of scale 6 and zero point 5 in int8, bias 7."""
    padded = np.pad(x.astype(np.float64) - 128, ((0, 0), (1, 1), (1, 1), (0, 0)))
    w = (np.array([0.0, 1.0]) - 5) * 6
    groups = [padded[..., 2 * g : 2 * g + 2] @ w for g in (0, 0, 1, 1)]
    return stored(np.stack([groups[0], groups[1], groups[2], groups[3]], axis=-1) + 7, float(np.float32(3.14)), 5)


def gelu(x: Array) -> Array:
    return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def ranges(data: Array, places: Array) -> tuple[Array, Array]:
    parts = [data[s : s + n] for s, n in places.reshape(-1, 2)]
    return np.concatenate(parts), places[..., 1].sum(axis=1)


def table_8bit() -> Array:
    """The rows of `fused_rowwise_quantized_sparse_lengths_sum`: two bytes, scale and bias as float32."""
    raw = np.frombuffer(
        b"\000\377\152\232\115\072\000\000\200\077\000\377\050\132\215\073\063\063\023\100\000\377\314\063\232\073"
        b"\000\000\220\100", np.uint8,
    ).reshape(3, 10)  # fmt: skip
    tail = np.ascontiguousarray(raw[:, 2:]).view("<f4")
    return raw[:, :2] * tail[:, :1].astype(np.float64) + tail[:, 1:]


def table_4bit() -> Array:
    """The rows of `4bit_fused_rowwise_quantized_sparse_lengths_sum`: ten 4-bit zeros, scale and bias as float16."""
    raw = np.frombuffer(
        b"\000\000\000\000\000\000\000\000\100\000\000\000\000\000\000\000\000\277\000\000\000\000\000\000\000\120\101",
        np.uint8,
    ).reshape(3, 9)  # fmt: skip
    tail = np.ascontiguousarray(raw[:, 5:]).view("<f2").astype(np.float64)
    numbers = np.stack([raw[:, :5] & 15, raw[:, :5] >> 4], axis=2).reshape(3, 10)
    return numbers * tail[:, :1] + tail[:, 1:]


ROWS = f32([2.0], [-0.5], [13.0])
ROWWISE = 255 * f32([0, 0.00078431389], [0, 0.0043137260], [0, 0.0047058817]) + f32([1.0], [2.3], [4.5])
WEIGHTS = f32(3, 1, 0, 0, 0, 0, 2, -0.5)

INDICES = np.array([1, 0, 2, 0, 1, 2, 2, 0], np.int64)
FOUR, FIVE = np.array([3, 0, 3, 2], np.int32), np.array([2, 0, 3, 1, 2], np.int32)

IMAGE = "1x1x3x3"
U8 = "!quant.uniform<u8:f32,1.0:128>"
KERNEL = np.ones((1, 2, 2, 1))
LAST = "1x3x3x1"

SLS = "indices=8xi64 lengths=5xi32"
SLS_WEIGHTED = "indices=8xi64 lengths=4xi32"
SLS_DATA = {"indices": INDICES, "lengths": FIVE}
SLS_WEIGHTED_DATA = {"indices": INDICES, "lengths": FOUR}
ROWWISE_4BIT = "4bit_fused_rowwise_quantized_sparse_lengths_sum"
FUSED = "fused_rowwise_quantized_sparse_lengths"

NETS: dict[str, GlowNet] = {
    f"{ROWWISE_4BIT}_predict_net": net(
        SLS, lambda i, n: sums(table_4bit()[i], n), f"{ROWWISE_4BIT}_init_net", SLS_DATA),
    "NCHW2NHWC_predict_net": net("inputs=1x2x3x4", nhwc),
    "alias_op_net": net("X=1x2x3x4", lambda x: x),
    "argmin": net("input=5x50x3", lambda x: x.argmin(axis=1)),
    "avgpool_nhwc_predict_net": net(
        f"inputs={LAST}",
        lambda x: windows(x, 2, 1, 0.0).sum(axis=(3, 4)) / windows(np.ones_like(x), 2, 1, 0.0).sum(axis=(3, 4))),
    "avgpool_predict_net": net("inputs=1x3x3x1", lambda x: nchw(windows(nhwc(x), 2, 1, 0.0).mean(axis=(3, 4)))),
    "batch_box_cox_predict_net": net(
        "data=10x5 lambda1=5 lambda2=5", box_cox,
        data={"data": np.random.default_rng(0).uniform(0, 5, (10, 5)).astype(np.float32),
              "lambda1": f32(0, 1, 0.5, 2, 1e-3), "lambda2": f32(1, 2, 0, 0.5, 1)}, step=2e-4),
    "batch_sparse_to_dense_last_dim_1": net(
        "lengths=5xi32 indices=3xi64 values=3", batch_sparse_to_dense,
        data={"lengths": np.array([1, 0, 1, 0, 1], np.int32), "indices": np.zeros(3, np.int64)}),
    "batched_matmul": net("lhs=3x10x7 rhs=7x10", np.matmul),
    "bucketize_op_net": net("input_0=3x2", lambda x: np.searchsorted(f32(0.1, 2.5), x)),
    "cast_int64_to_int64": net("input=3x4xi64", lambda x: x),
    "clip_op_default_net": net("inputs_0=5x5", lambda x: x),
    "clip_op_net": net(
        "inputs_0=5x5", lambda x: np.clip(x, 20, 60),
        data={"inputs_0": np.linspace(0, 100, 25, dtype=np.float32).reshape(5, 5)}),
    "concat_add_axis_at_edge": net(
        "inputs_0=7x11x13x5 inputs_1=7x11x13x5 inputs_2=7x11x13x5", lambda *x: np.stack(x, axis=4)),
    "concat_add_axis_predict_net": net("inputs_0=10x7 inputs_1=10x7 inputs_2=10x7", lambda *x: np.stack(x, axis=1)),
    "concat_predict_net": net("inputs_0=10x7 inputs_1=10x12 inputs_2=10x5", lambda *x: np.concatenate(x, axis=1)),
    "constant_fill_input_as_shape": net(
        "", lambda: np.full((17, 23, 29, 31), 3.0), "constant_fill_input_as_shape_init"),
    "constant_fill_use_input_shape": net("inputs_0=7x11x13x17", lambda x: np.full(x.shape, 3.0)),
    "constant_fill_use_provided_shape": net("", lambda: np.full((7, 11, 13, 17), 3.0)),
    "conv_group_quantized_pred_net": net(
        f"input=1x1x1x4x{U8}", int8_group_conv, "conv_group_quantized_init_net", step=0),
    "conv_nhwc_predict_net": net(f"inputs={LAST}", lambda x: convolved(x, KERNEL, 2.0, 1), "conv_nhwc_init_net"),
    "convrelu_pred_net": net(
        f"gpu_0/data_0={IMAGE}", lambda x: np.maximum(nchw(convolved(nhwc(x), KERNEL, 2.0, 1)), 0),
        "convrelu_init_net"),
    "convtranspose": net(
        "gpu_0/data_0=1x1x2x2", lambda x: nchw(transposed(nhwc(x), 0)), "convtranspose_init"),
    "convtranspose_net": net(
        "gpu_0/data_0=1x1x2x2 convTranspose_w=1x1x2x2 convTranspose_b=1",
        lambda x, w, b: (x * w[..., ::-1, ::-1]).sum().reshape(1, 1, 1, 1) + b),
    "convtranspose_nhwc": net("inputs=1x2x2x1", lambda x: transposed(x, 1), "convtranspose_nhwc_init"),
    "convtranspose_pads": net(
        "gpu_0/data_0=1x1x2x2", lambda x: nchw(transposed(nhwc(x), 1)), "convtranspose_init"),
    "dce_test_predict_net": net("conv_inputs=1x3x3x1", lambda x: convolved(x, KERNEL, 2.0, 1), "dce_test_init_net"),
    "dot_product_predict_net": net("X=5x3 Y=5x3", lambda x, y: (x * y).sum(axis=1)),
    "dropout": net("input=3x4", lambda x: x),
    "dynamic_quantized_fc_predict_net": net(
        "input=2x3", lambda x: x @ (np.arange(12.0).reshape(4, 3)).T + np.arange(4.0), "dynamic_quantized_fc_init"),
    "elementwise_linear_broadcast_net": net("X=5x10 w=10 b=10", lambda x, w, b: x * w + b),
    "elementwise_linear_default_net": net("X=5x10 w=10 b=10", lambda x, w, b: x * w + b),
    "elementwise_linear_net": net("X=10x5 w=10 b=10", lambda x, w, b: x * w[:, None] + b[:, None]),
    "empty_predict_net": net("unused_output=4", lambda x: x),
    "eq_op_net": net("X=10 Y=10", np.equal, data={"X": f32(*range(10)), "Y": f32(0, 1, 2, 3, 4, 0, 0, 0, 0, 9)}),
    "exp_op_net": net("data=1x2x4x3", np.exp),
    "fbfcpacked_3d_second_axis_predict": net(
        "input=2x3x4", lambda x: fc(x, np.arange(20.0).reshape(5, 4), np.arange(5.0), 2),
        "fbfcpacked_3d_second_axis_init"),
    "fbfcpacked_4d_first_axis_predict_net": net(
        "input=1x5x1x1", lambda x: fc(x, np.arange(15.0).reshape(3, 5), np.arange(3.0)),
        "fbfcpacked_4d_first_axis_init_net"),
    "fcTransposed_4d_predict_net": net(
        "inputs=1x1x1x2048", lambda x: np.zeros((1, 1, 1, 9190)), "fcTransposed_4d_init_net"),
    "fcTransposed_predict_net": net(
        "inputs=2x3", lambda x: fc(x, np.arange(1.0, 13).reshape(4, 3), f32(0.1, 0.2, 0.3, 0.4)),
        "fcTransposed_init_net"),
    "fc_3d_second_axis_predict": net(
        "input=2x3x4", lambda x: fc(x, np.arange(20.0).reshape(5, 4), np.arange(5.0), 2), "fc_3d_second_axis_init"),
    "fc_4d_first_axis_predict_net": net(
        "inputs=1x5x1x1", lambda x: np.zeros((1, 3)), "fc_4d_first_axis_init_net"),
    "fc_4d_predict_net": net("inputs=1x1x1x2048", lambda x: np.zeros((1, 1, 1, 9190)), "fc_4d_init_net"),
    "fc_predict_net": net(
        "inputs=2x3", lambda x: fc(x, np.arange(1.0, 13).reshape(4, 3), f32(0.1, 0.2, 0.3, 0.4)), "fc_init_net"),
    "fill_examples_with_indicator": net(
        "data=4x2x3 indicator=8xi32", fill_examples,
        data={"indicator": np.array([1, 0, 0, 1, 1, 0, 1, 0], np.int32)}),
    "fill_test_predict_net": net("", lambda: (np.ones((2, 2), bool),) * 4, "fill_test_init_net"),
    f"{FUSED}_sum_predict_net": net(SLS, lambda i, n: sums(table_8bit()[i], n), f"{FUSED}_sum_init_net", SLS_DATA),
    f"{FUSED}_sum_predict_net_length1": net(
        "indices=5xi64 lengths=5xi32", lambda i, n: sums(table_8bit()[i], n), f"{FUSED}_sum_init_net",
        {"indices": np.array([1, 2, 0, 1, 2], np.int64), "lengths": np.ones(5, np.int32)}),
    f"{FUSED}_weighted_sum_avg_length_predict_net": net(
        SLS_WEIGHTED, lambda i, n: sums(ROWS[i] * WEIGHTS[:, None], n), f"{FUSED}_weighted_sum_init_net",
        SLS_WEIGHTED_DATA),
    f"{FUSED}_weighted_sum_predict_net": net(
        SLS_WEIGHTED, lambda i, n: sums(ROWS[i] * WEIGHTS[:, None], n), f"{FUSED}_weighted_sum_init_net",
        SLS_WEIGHTED_DATA),
    "gather_const_fold": net("data=1x2x4x3", lambda x: x.reshape(1, 4, 3, 2), "gather_const_fold_init"),
    "gather_ranges": net(
        "data=6 ranges=2x2x2xi32", ranges,
        data={"data": f32(1, 2, 3, 4, 5, 6), "ranges": np.array([[[0, 1], [2, 2]], [[4, 1], [5, 1]]], np.int32)}),
    "gelu": net("input=5x4x3", gelu),
    "halftofloat_op_net": net("X=1x2x3x4xf16", lambda x: x.astype(np.float32)),
    "int8convrelu_pred_net": net(f"gpu_0/data_0={IMAGE}x{U8}", int8_conv_relu, "int8convrelu_init_net", step=0),
    "int8fc_3d_second_axis_predict": net(
        f"input=3x2x3x{U8}", lambda x: np.clip(np.rint(fc(
            x - 128.0, np.arange(6.0).reshape(2, 3), np.arange(2.0), 2)), 0, 255),
        "int8fc_3d_second_axis_init", step=0),
    "int8fc_4d_first_axis_predict_net": net(
        f"input=1x5x1x1x{U8}", lambda x: np.clip(np.rint(fc(
            x - 128.0, np.arange(15.0).reshape(3, 5), np.arange(3.0))), 0, 255),
        "int8fc_4d_first_axis_init_net", step=0),
    "int8sumrelu_large_range_pred_net": net(
        "gpu_0/data_0=4x2", lambda x: stored(np.maximum(
            np.clip(np.rint(x), 0, 255) + (1 - 127) * 600.0, 0), 575.0, 120), "int8sumrelu_large_range_init_net",
        {"gpu_0/data_0": f32(0, 10, 100, 255).repeat(2).reshape(4, 2)}, 0),
    "int8sumrelu_pred_net": net(
        f"gpu_0/data_0=4x2x{U8}", lambda x: np.clip(x - 128.0 + 1, 0, 255), "int8sumrelu_init_net", step=0),
    "int8sumrelu_tiny_scale_pred_net": net(
        f"gpu_0/data_0=4x2x{U8}", lambda x: stored(np.maximum(
            x - 128.0 + (1 - 13) * float(np.float32(7e-10)), 0), float(np.float32(1e-11)), 5),
        "int8sumrelu_tiny_scale_init_net", step=0),
    "layernorm_neg_axis_pred_net": net("input=4x2x5x3", lambda x: layer_norm(x, -2, 0.05)),
    "layernorm_pred_net": net("input=4x2x5x3", lambda x: layer_norm(x, 2, 0.05)),
    "layernorm_weight_bias_pred_net": net(
        "input=5x4x3", lambda x: (layer_norm(x, 1, 1e-3) - 1) * np.arange(1.0, 13).reshape(4, 3),
        "layernorm_weight_bias_init_net"),
    "lengths_range_fill_predict_net": net(
        "lengths=3xi32", lambda n: np.concatenate([np.arange(v) for v in n]),
        data={"lengths": np.array([4, 3, 1], np.int32)}),
    "lengths_sum": net(
        "data=10x2x3 lengths=5xi32", sums, data={"lengths": np.array([2, 0, 3, 1, 4], np.int32)}),
    "lengths_to_ranges": net("", lambda: np.array([[0, 1], [1, 3], [4, 0], [4, 2]]), "lengths_to_ranges_init_net"),
    "log1p": net("input=4x3", lambda x: np.log(x + 1), data={"input": np.abs(f32(*range(12))).reshape(4, 3) + 0.1}),
    "logit_op_net": net("inputs_0=10", lambda x: np.log(x / (1 - x.astype(np.float64))),
                        data={"inputs_0": np.linspace(0.05, 0.95, 10, dtype=np.float32)}),
    "lpnorm_p1": net("input=5x6", lambda x: np.abs(x).sum().reshape(1)),
    "lpnorm_p2": net("input=5x6", lambda x: (x * x).sum().reshape(1)),
    "matmul_trans_RHS_predict_net": net("inputs_0=3x10x7 inputs_1=10x7", lambda x, y: x @ y.T),
    "maxpool_legacy_padding_predict_net": net(
        "inputs=1x3x3x1", lambda x: nchw(windows(nhwc(x), 2, 1, -np.inf).max(axis=(3, 4)))),
    "maxpool_nhwc_predict_net": net(f"inputs={LAST}", lambda x: windows(x, 2, 1, -np.inf).max(axis=(3, 4))),
    "maxpool_predict_net": net("inputs=1x3x3x1", lambda x: nchw(windows(nhwc(x), 2, 1, -np.inf).max(axis=(3, 4)))),
    "mean_3inputs": net("input1=5x6 input2=5x6 input3=5x6", lambda *x: sum(x) / 3),
    "modulo_op_net": net("data=7xi64", lambda x: np.fmod(x, 2), data={"data": np.arange(-3, 4)}),
    "multiple_inputs_graph": net("input1=5x6 input2=5x6", np.add),
    "negative": net("input=5x6", np.negative),
    "parallel_matmul_predict_net": net("inputs_0=3x10x7 inputs_1=3x7x10", np.matmul),
    "pre_partitioned_fill_test_predict_net": net(
        "", lambda: (np.arange(4.0).reshape(2, 2), np.arange(4).reshape(2, 2), np.arange(4).reshape(2, 2),
                     np.arange(128, 132, dtype=np.uint8).reshape(2, 2)), "fill_test_init_net"),
    "pre_partitioned_multi_op_predict_net": net(
        "mm0_in=10x10 mm1_in=10x10 add_in=10x10", lambda a, b, c: a * (a @ b) - (a @ b + c)),
    "predict_net": net(f"gpu_0/data_0={IMAGE}", lambda x: nchw(convolved(nhwc(x), KERNEL, 2.0, 1, 2)), "init_net"),
    "prelu": net("prelu_test_input=1x2x3x3 slope=2", lambda x, s: np.where(x < 0, s[:, None, None] * x, x)),
    "reduce_back_sum": net("inputs_0=3x2x4", lambda x: x.sum(axis=-1)),
    "reducebackmean": net("input=3x4", lambda x: x.mean(axis=-1)),
    "replace_nan_predict_net": net(
        "input=10x10", lambda x: np.where(np.isnan(x), 1, x),
        data={"input": np.where(np.arange(100) % 3 == 0, np.nan, np.arange(100)).astype(np.float32).reshape(10, 10)}),
    "resize_nearest_op_net": net("input_0=1x2x2x1", lambda x: x[:, [0, 0, 1, 1]][:, :, [0, 0, 1]]),
    "rmsnorm": net("x=3x4 gamma=4 beta=4", rms_norm),
    "rowwise_quantized_sparse_lengths_sum_predict_net": net(
        SLS, lambda i, n: sums(ROWWISE[i], n), "rowwise_quantized_sparse_lengths_sum_init_net", SLS_DATA),
    "rowwise_quantized_sparse_lengths_weighted_sum_predict_net": net(
        SLS_WEIGHTED, lambda i, n: sums(ROWS[i] * WEIGHTS[:, None], n),
        "rowwise_quantized_sparse_lengths_weighted_sum_init_net", SLS_WEIGHTED_DATA),
    "scale": net("input=5x6", lambda x: 2 * x),
    "sigmoid": net("sigmoid_test_input=6", lambda x: 1 / (1 + np.exp(-x.astype(np.float64)))),
    "sign": net("input=5x6", np.sign),
    "softplus": net("input=5x6", lambda x: np.log1p(np.exp(x.astype(np.float64)))),
    "sparse_to_dense": net(
        "indices=5xi64 values=5x10x20 dataToInferDim=8", sparse_to_dense,
        data={"indices": np.array([0, 3, 7, 3, 5], np.int64)}),
    "sparse_to_dense_mask_op_net": net(
        "indices=4xi64 values=4x10x20x30 defaultValue=10x20x30", sparse_to_dense_mask,
        data={"indices": np.array([42, 7, 300, 0], np.int64)}),
    "sparselabelsplit": net(
        "lengths=4xi32 indices=8xi64 values=8", lambda lengths, indices, values: (
            *(values[indices == label] for label in range(4)),
            *(np.arange(4).repeat(lengths)[indices == label] for label in range(4)),
            np.array([(indices[:i] == indices[i]).sum() for i in range(8)])),
        data={"lengths": np.array([1, 3, 0, 4], np.int32), "indices": np.array([3, 1, 0, 3, 0, 2, 2, 1], np.int64)}),
    "sqr_predict_net": net("input=4x2", lambda x: x * x),
    "swish_op_net": net("input=10", lambda x: x / (1 + np.exp(-x.astype(np.float64)))),
    "topk_k2": net("input=3x3", lambda x: (-np.sort(-x)[:, :2], np.argsort(-x)[:, :2])),
}  # fmt: skip
"""Net → how it runs."""

RANDOM: dict[str, tuple[GlowNet, tuple[int, ...], float]] = {
    "gaussian_fill_input_as_shape": (net("", None, "gaussian_fill_input_as_shape_init"), (4, 5, 6, 7), 0.0),
    "gaussian_fill_use_input_shape": (net("inputs_0=4x5x6x7xi64", None), (4, 5, 6, 7), 0.0),
    "gaussian_fill_use_input_shape_with_extra_shape": (net("inputs_0=4x5xi64", None), (4, 5, 2, 3), 0.0),
    "gaussian_fill_use_provided_shape": (net("", None), (4, 5, 6, 7), 0.0),
    "uniform_fill_input_as_shape": (net("", None, "gaussian_fill_input_as_shape_init"), (4, 5, 6, 7), 5.0),
    "uniform_fill_use_input_shape": (net("inputs_0=4x5x6x7xi64", None), (4, 5, 6, 7), 5.0),
}  # fmt: skip
"""Net of random numbers → how it runs, the shape of its result, and its mean."""

INIT = frozenset({e.init for e in (*NETS.values(), *(r[0] for r in RANDOM.values()))} - {EMPTY})
"""The init nets that they have."""
