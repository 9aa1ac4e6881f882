"""Operators that XNNPACK, LiteRT's default delegate, declines, against the bits of LiteRT's kernels.

Each file differs in one respect from a file that the delegate takes: an operand is computed by the graph, though from
constants, or is stored in a way that the delegate does not take. LiteRT then runs its optimized kernels, which round
differently, so that `litert-xnnpack` has to follow these.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.frontends.tflite import load_tflite
from qmlir.policies.runtimes import follow
from tests.frontends.tflite.files import RESOLVERS, Op, T, constant, interpreter, model, run

IMAGE, CHANNELS = (4, 9, 9, 8), 8
INT4 = 17
"""The schema's code of 4-bit integers."""

WINDOW: dict[str, Any] = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}

KINDS: dict[str, tuple[str, dict[str, Any], tuple[int, ...], tuple[int, ...], int]] = {
    "CONV_2D": ("Conv2DOptions", WINDOW, (8, 3, 3, 8), IMAGE, 0),
    "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", {**WINDOW, "DepthMultiplier": 1}, (1, 3, 3, 8), IMAGE, 3),
    "FULLY_CONNECTED": ("FullyConnectedOptions", {}, (8, 8), (4 * 81, 8), 0),
    "TRANSPOSE_CONV": (
        "TransposeConvOptions",
        {"Padding": 0, "StrideH": 2, "StrideW": 2},
        (8, 4, 4, 8),
        (4, 18, 18, 8),
        0,
    ),
}
"""Operator → kind of options, options, shapes of weights and result, the axis of output channels."""


class Graph:
    """A graph that grows by tensors and operators."""

    def __init__(self) -> None:
        self.tensors: list[T] = []
        self.operators: list[Op] = []

    def add(self, tensor: T) -> int:
        """Adds a tensor and returns its index."""
        self.tensors.append(tensor)
        return len(self.tensors) - 1

    def run(self, kind: str, inputs: Sequence[int], result: T, *options: Any, version: int = 1) -> int:
        """Adds an operator and returns the index of its result."""
        at = self.add(result)
        self.operators.append(Op(kind, inputs, [at], *options, version=version))
        return at

    def computed(self, tensor: T) -> int:
        """Adds a constant behind a RESHAPE to its own shape, which makes it a tensor that the graph computes."""
        source, shape = self.add(tensor), self.add(constant(f"{tensor.name}.shape", tensor.shape, np.int32))
        result = T(f"{tensor.name}.computed", tensor.shape, tensor.dtype, None, tensor.scale, tensor.zero, tensor.axis)
        return self.run("RESHAPE", [source, shape], result, "ReshapeOptions")

    def file(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        return model(self.tensors, self.operators, inputs, outputs)


def layer(
    kind: str, format: str = "int8", *, computed: str = "", axis: int = 0, scaled: bool = True, **given: Any
) -> bytes:
    """A file of one layer.

    Args:
        kind: A key of `KINDS`.
        format: How data and weights are stored.
        computed: The operand that the graph computes: `weights`, `bias`, `shape`.
        axis: The quantized axis that the file states for the data, which has one scale.
        scaled: Whether the bias has a scale.
        given: The weights' zero point (`zero`), shape (`weights_shape`), or that they have 4 bits (`nibbles`); options
            of the operator and the shape of the `result`.
    """
    options_kind, options, shape, result, channels = KINDS[kind]
    random, middle = np.random.default_rng(1), 128 if format == "uint8" else 0
    shape, result = given.get("weights_shape", shape), given.get("result", result)
    zero, scales = given.get("zero", middle), (0.02 * (1 + random.random(CHANNELS))).tolist()
    if zero or given.get("nibbles"):
        scales = [0.02]
    steps = [float(np.float32(0.05) * np.float32(s)) for s in scales] if scaled else ()
    stored, limits = random.integers(-127, 128, shape) + zero, np.iinfo(format)
    parameters = (scales, [zero] * len(scales), 0 if len(scales) == 1 else channels)
    weights = T("w", shape, np.dtype(format), stored.clip(limits.min, limits.max).astype(format), *parameters)
    if given.get("nibbles"):
        weights = T("w", shape, INT4, random.integers(0, 256, np.prod(shape) // 2).astype(np.uint8), *parameters)
    tensors = {
        "shape": constant("s", result, np.int32),
        "weights": weights,
        "bias": constant(
            "b", random.integers(-3000, 3000, CHANNELS).astype(np.int32), scale=steps, zero=[0] * len(steps)
        ),
    }
    graph = Graph()
    x = graph.add(T("x", IMAGE, np.dtype(format), None, [0.05], [3 + middle], axis))
    at = {name: graph.computed(t) if name == computed else graph.add(t) for name, t in tensors.items()}
    operands = [x, at["weights"], at["bias"]]
    if kind == "TRANSPOSE_CONV":
        operands = [at["shape"], at["weights"], x, at["bias"]]
    version = {"DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 3}.get(kind, 4)
    y = T("y", result, np.dtype(format), None, [0.04 if given.get("nibbles") else 0.4], [middle - 9])
    y_at = graph.run(kind, operands, y, options_kind, {**options, **given.get("options", {})}, version=version)
    return graph.file([x], [y_at])


def sized(kind: str, format: str, *, computed: bool) -> bytes:
    """A file of MEAN over rows and columns, or of RESIZE_BILINEAR, whose axes or size are constant or computed."""
    middle, graph = 128 if format == "uint8" else 0, Graph()
    x = graph.add(T("x", IMAGE, np.dtype(format), None, [0.05], [3 + middle]))
    numbers = constant("n", [1, 2] if kind == "MEAN" else [13, 17], np.int32)
    of = graph.computed(numbers) if computed else graph.add(numbers)
    if kind == "MEAN":
        y = T("y", (4, 8), np.dtype(format), None, [0.013], [middle - 9])
        return graph.file([x], [graph.run(kind, [x, of], y, "ReducerOptions", {"KeepDims": False}, version=2)])
    y = T("y", (4, 13, 17, 8), np.dtype(format), None, [0.05], [3 + middle])
    return graph.file(
        [x], [graph.run(kind, [x, of], y, "ResizeBilinearOptions", {"HalfPixelCenters": True}, version=3)]
    )


def is_delegated(data: bytes) -> bool:
    """Whether LiteRT's default delegate takes the last operator of a file."""
    made = interpreter(data, "litert-xnnpack")
    result = made.get_output_details()[0]["index"]
    return any(result in o["outputs"] for o in made._get_ops_details() if o["op_name"] == "DELEGATE")


def check(data: bytes, *, delegated: bool) -> None:
    """Checks that a file is delegated as stated, and that qmlir has the bits of all of LiteRT's kernels."""
    assert is_delegated(data) == delegated
    random, module = np.random.default_rng(2), load_tflite(data)
    details = interpreter(data, "litert-reference").get_input_details()
    limits = np.iinfo(details[0]["dtype"])
    arrays = [random.integers(limits.min, limits.max + 1, d["shape"]).astype(d["dtype"]) for d in details]
    results = {}
    for numerics in RESOLVERS:
        follow(module, numerics)
        (results[numerics],) = run(interpreter(data, numerics), arrays)
        (found,) = qmlir.reference(module).run({d["name"]: a for d, a in zip(details, arrays, strict=True)})
        np.testing.assert_array_equal(found, results[numerics], numerics)
    if not delegated:
        np.testing.assert_array_equal(results["litert-xnnpack"], results["litert-builtin"])


@pytest.mark.parametrize("computed", ["", "weights", "bias", "shape"])
@pytest.mark.parametrize("format", ["int8", "uint8"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_with_a_computed_operand_is_not_delegated(kind: str, format: str, computed: str) -> None:
    if computed == "shape" and kind != "TRANSPOSE_CONV":
        pytest.skip("the operator has no shape as an operand")
    check(layer(kind, format, computed=computed), delegated=not computed)


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("format", ["int8", "uint8"])
@pytest.mark.parametrize("kind", ["MEAN", "RESIZE_BILINEAR"])
def test_a_computed_axis_or_size_is_not_delegated(kind: str, format: str, *, computed: bool) -> None:
    check(sized(kind, format, computed=computed), delegated=not computed)


def test_a_shape_from_the_input_s_own_is_not_delegated() -> None:
    """As Keras writes each transposed convolution whose batch is open: the shape is that of its input, doubled."""
    graph, steps = Graph(), [0.02] * CHANNELS
    random = np.random.default_rng(3)
    x = graph.add(T("x", IMAGE, np.int8, None, [0.05], [3]))
    shape = graph.run("SHAPE", [x], T("s", (4,), np.int32), "ShapeOptions", {"OutType": 2})
    factors = graph.add(constant("f", [1, 2, 2, 1], np.int32))
    out = graph.run("MUL", [shape, factors], T("o", (4,), np.int32), "MulOptions")
    w = graph.add(constant("w", random.integers(-127, 128, (8, 4, 4, 8)).astype(np.int8), scale=steps, zero=[0] * 8))
    y = T("y", (4, 18, 18, 8), np.int8, None, [0.3], [1])
    options = KINDS["TRANSPOSE_CONV"][:2]
    check(graph.file([x], [graph.run("TRANSPOSE_CONV", [out, w, x], y, *options, version=2)]), delegated=False)


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_a_bias_without_a_scale_or_data_with_an_axis_is_not_delegated(kind: str) -> None:
    check(layer(kind, scaled=False), delegated=False)
    check(layer(kind, axis=1), delegated=False)


def test_weights_that_the_delegate_does_not_take() -> None:
    check(layer("FULLY_CONNECTED", zero=4), delegated=False)
    check(layer("FULLY_CONNECTED", nibbles=True), delegated=True)
    check(layer("CONV_2D", nibbles=True), delegated=False)


@pytest.mark.parametrize(("size", "padding", "side"), [(1, 0, 18), (1, 1, 18), (2, 0, 18), (4, 0, 17)])
def test_windows_of_a_transposed_convolution_that_do_not_meet_are_not_delegated(
    size: int, padding: int, side: int
) -> None:
    data = layer("TRANSPOSE_CONV", weights_shape=(8, size, size, 8), options={"Padding": padding},
                 result=(4, side, side, 8))  # fmt: skip
    check(data, delegated=size > 1 or padding == 1)


@pytest.mark.parametrize("rank", [6, 7])
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL", "LEAKY_RELU"])
def test_seven_dimensions_are_not_delegated(kind: str, rank: int) -> None:
    shape, graph = (1,) * (rank - 3) + (3, 4, 90), Graph()
    inputs = [graph.add(T(f"x{i}", shape, np.int8, None, [0.05 - 0.01 * i], [3])) for i in range(2)]
    options = ("LeakyReluOptions", {"Alpha": 0.3}) if kind == "LEAKY_RELU" else (f"{kind.title()}Options",)
    operands = inputs[: 1 if kind == "LEAKY_RELU" else 2]
    y = graph.run(kind, operands, T("y", shape, np.int8, None, [0.07], [-9]), *options, version=2)
    check(graph.file(operands, [y]), delegated=rank == 6)


@pytest.mark.parametrize("computed", ["", "weights"])
@pytest.mark.parametrize("format", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("groups", [2, 8])
def test_grouped_convolutions_run_the_reference_kernel(groups: int, format: str, computed: str) -> None:
    """LiteRT's optimized kernels have no groups, and its reference kernels take what the delegate declines, too."""
    if format != "int8" and computed:
        pytest.skip("one format shows what a computed operand changes")
    middle, graph, random = 128 if format == "uint8" else 0, Graph(), np.random.default_rng(4)
    x = graph.add(T("x", IMAGE, np.dtype(format), None, [0.05], [middle + 3 if format != "int16" else 0]))
    scales = [0.02] if middle else (0.02 * (1 + random.random(8))).tolist()
    stored = random.integers(-127, 128, (8, 3, 3, 8 // groups)) + middle
    weights = constant("w", np.clip(stored, 0, 255).astype(np.uint8) if middle else stored.astype(np.int8),
                       scale=scales, zero=[middle] * len(scales))  # fmt: skip
    w = graph.computed(weights) if computed else graph.add(weights)
    bias = np.int64 if format == "int16" else np.int32
    steps = [float(np.float32(0.05) * np.float32(s)) for s in scales]
    b = graph.add(constant("b", random.integers(-3000, 3000, 8).astype(bias), scale=steps, zero=[0] * len(steps)))
    y = T("y", IMAGE, np.dtype(format), None, [0.25], [middle - 9 if format != "int16" else 0])
    data = graph.file([x], [graph.run("CONV_2D", [x, w, b], y, "Conv2DOptions", WINDOW, version=4)])
    module, image = load_tflite(data), random.integers(*_limits(format), IMAGE).astype(format)
    for numerics in RESOLVERS:
        follow(module, numerics)
        (want,) = run(interpreter(data, numerics), [image])
        np.testing.assert_array_equal(qmlir.reference(module).run(image)[0], want, numerics)


def _limits(format: str) -> tuple[int, int]:
    return (-3000, 3000) if format == "int16" else (np.iinfo(format).min, np.iinfo(format).max + 1)
