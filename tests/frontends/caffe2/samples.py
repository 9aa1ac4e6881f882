"""A small net for each operator that has a converter: for the table of operators, and to see that each imports."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tests.frontends.caffe2.nets import U8, made, shapes_of, stored, weights
from tests.frontends.caffe2.test_operators import CASES, FUNCTIONS

Sample = tuple[bytes, Mapping[str, str]]

TYPE: Mapping[str, Any] = {"Y_scale": 0.5, "Y_zero_point": 100}
IMAGE, ROWS, MATRIX = f"1x6x6x4x{U8.format(0.5, 120)}", f"2x6x{U8.format(0.5, 120)}", "3x4"
WINDOW = {"kernel": 3, "order": "NHWC", **TYPE}

FILLS = {
    "GivenTensorBoolFill": [1, 0], "GivenTensorDoubleFill": [0.5, 1.5], "GivenTensorFill": [0.5, 1.5],
    "GivenTensorFp16Fill": [0.5, 1.5], "GivenTensorInt16Fill": [1, 2], "GivenTensorInt64Fill": [1, 2],
    "GivenTensorIntFill": [1, 2], "GivenTensorByteStringToUInt8Fill": [b"ab"],
}  # fmt: skip

COPIES = (
    "Alias", "CopyCPUToIDEEP", "CopyCPUToMKL", "CopyFromCPUInput", "CopyIDEEPToCPU", "CopyMKLToCPU", "CopyOnDeviceLike",
    "Dropout", "EnsureCPUOutput", "EnsureDense", "Identity", "ScaleGradient",
)  # fmt: skip

BOTH = frozenset(COPIES).union(
    """Copy ExpandDims Expand Flatten FlattenToVec Gather BatchGather NCHW2NHWC NHWC2NCHW Reshape ResizeNearest Slice
    Split DepthSplit Squeeze StopGradient Tile Transpose UpsampleNearest ChannelShuffle Shape Size IsEmpty""".split()
)
"""Operators that take tensors of floats and of integers."""

ALIKE: Mapping[str, str] = {
    "Append": "Concat", "AveragePool1D": "AveragePool", "AveragePool2D": "AveragePool", "DepthConcat": "Concat",
    "FbFCPacked": "FC", "Gelu": "Abs", "LayerNorm": "Abs", "MaxPool1D": "MaxPool", "MaxPool2D": "MaxPool",
    "ReduceBackMean": "ReduceBackMax", "ReduceBackMin": "ReduceBackMax", "ReduceFrontMin": "ReduceFrontMax",
    "LengthsSum": "LengthsMean", "HalfToFloat": "Abs",
}  # fmt: skip
"""Operator → an operator with the same inputs."""

MOVES: Mapping[str, dict[str, Any]] = {
    "Int8ChannelShuffle": {"group": 2, "order": "NHWC"}, "Int8Copy": {}, "Int8Flatten": {},
    "Int8Reshape": {"shape": [4, -1]}, "Int8ResizeNearest": {"height_scale": 2.0, "width_scale": 2.0},
    "Int8Slice": {"starts": [0, 0, 0, 0], "ends": [-1, 2, -1, -1]}, "Int8Transpose": {"axes": [0, 3, 1, 2]},
}  # fmt: skip

SEGMENTS = {"i": "3xi32", "n": "2xi32", "w": "3"}
TABLE = ("GivenTensorByteStringToUInt8Fill", "", "t", {"shape": [2, 12], "values": [bytes(24)]})
SCALES = weights(s=np.ones((2, 2), np.float32))
WEIGHTED = "SparseLengthsWeightedSum"


def _of(kind: str, *operators: tuple[Any, ...], inputs: str, shapes: Mapping[str, str], outputs: str = "y",
        **arguments: Any) -> Sample:  # fmt: skip
    """Returns the net of an operator behind others that make its weights."""
    return made(*operators, (kind, inputs, outputs, arguments), outputs="y"), shapes


def _integers() -> dict[str, Sample]:
    """Nets of the integer operators."""
    x, q = {"x": IMAGE}, {"x": ROWS}
    w, b = stored("w", np.ones((8, 3, 3, 4), np.uint8), 0.1, 128), stored("b", np.arange(8, dtype=np.int32), 0.05, 0)
    turned, v = stored("w", np.ones((4, 3, 3, 8), np.uint8), 0.1, 128), stored("w", np.ones((8, 6), np.uint8), 0.1, 128)
    found = {kind: _of(kind, w, b, inputs="x w b", shapes=x, **WINDOW) for kind in ("Int8Conv", "Int8ConvRelu")}
    found["Int8ConvTranspose"] = _of("Int8ConvTranspose", turned, b, inputs="x w b", shapes=x, **WINDOW)
    found |= {kind: _of(kind, v, b, inputs="x w b", shapes=q, **TYPE) for kind in ("Int8FC", "Int8FCRelu")}
    for kind in ("Int8AveragePool", "Int8AveragePoolRelu", "Int8MaxPool", "Int8MaxPoolRelu"):
        found[kind] = _of(kind, inputs="x", shapes=x, **WINDOW)
    for kind in ("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu", "Int8Concat"):
        found[kind] = _of(kind, inputs="x b", shapes={**q, "b": ROWS}, **TYPE)
    for kind in ("Int8LeakyRelu", "Int8Relu", "Int8Sigmoid", "Int8Softmax", "Int8Tanh"):
        found[kind] = _of(kind, inputs="x", shapes=q, **TYPE)
    found |= {kind: _of(kind, inputs="x", shapes=x, **arguments) for kind, arguments in MOVES.items()}
    found["Int8Dequantize"] = _of("Int8Dequantize", inputs="x", shapes=q)
    found["Int8Quantize"] = _of("Int8Quantize", inputs="x", shapes={"x": MATRIX}, **TYPE)
    for kind, values in (("Int8GivenTensorFill", b"ab"), ("Int8GivenIntTensorFill", [1, 2])):
        found[kind] = _of(kind, inputs="", shapes={}, shape=[2], values=values, **TYPE)
    return found


def _sparse() -> dict[str, Sample]:
    """Nets of the operators on segments."""
    found: dict[str, Sample] = {}
    for bits in ("Fused8BitRowwise", "Fused4BitRowwise"):
        found[f"SparseLengthsSum{bits}"] = _of(f"SparseLengthsSum{bits}", TABLE, inputs="t i n", shapes=SEGMENTS)
        found[WEIGHTED + bits] = _of(WEIGHTED + bits, TABLE, inputs="t w i n", shapes=SEGMENTS)
    found["SparseLengthsMeanFused8BitRowwise"] = _of(
        "SparseLengthsMeanFused8BitRowwise", TABLE, inputs="t i n", shapes=SEGMENTS
    )
    found["SparseLengthsSum8BitsRowwise"] = _of(
        "SparseLengthsSum8BitsRowwise", TABLE, *SCALES, inputs="t i n s", shapes=SEGMENTS
    )
    found[f"{WEIGHTED}8BitsRowwise"] = _of(
        f"{WEIGHTED}8BitsRowwise", TABLE, *SCALES, inputs="t w i n s", shapes=SEGMENTS
    )
    further: list[tuple[str, str, Mapping[str, str], dict[str, Any]]] = [
        ("BatchSparseToDense", "n i w", SEGMENTS, {"dense_last_dim": 3}),
        ("FillExamplesWithIndicator", "x i", {"x": "2x4", "i": "3xi32"}, {}),
        ("GatherRanges", "x r", {"x": "6", "r": "2x2x2xi32"}, {"maxOutputSize": 5}),
        ("LengthsRangeFill", "n", SEGMENTS, {"maxOutputSize": 5}),
        ("LengthsToRanges", "n", SEGMENTS, {}),
        ("SparseLabelSplit", "n i w", SEGMENTS, {"num_labels": 2}),
        ("SparseToDense", "i x l", {"i": "3xi32", "x": "3x4", "l": "5x1"}, {}),
    ]
    for kind, inputs, shapes, arguments in further:
        given = {name: shapes[name] for name in inputs.split()}
        found[kind] = _of(kind, inputs=inputs, shapes=given, **arguments)
    return {kind: (net, _read(net, shapes)) for kind, (net, shapes) in found.items()}


def _read(net: bytes, shapes: Mapping[str, str]) -> dict[str, str]:
    """Returns the shapes of the inputs that a net reads."""
    from qmlir.frontends.caffe2.reader import read_net

    read = {name for op in read_net(net).operators for name in op.inputs}
    return {name: shape for name, shape in shapes.items() if name in read}


def _case(kind: str, arguments: Mapping[str, Any], inputs: Iterable[Any]) -> Sample:
    data = {f"x{i}": x for i, x in enumerate(inputs)}
    return made((kind, " ".join(data), "y", dict(arguments)), outputs="y"), shapes_of(data)


def samples() -> dict[str, Sample]:
    """Returns a net and the shapes of its inputs for each operator that has a converter."""
    matrix = {"x": MATRIX}
    found = {kind: _of(kind, inputs="x", shapes=matrix) for kind in (*FUNCTIONS, *COPIES)}
    for kind, arguments, inputs, _ in CASES.values():
        found.setdefault(kind, _case(kind, arguments, inputs))
    for kind, other in ALIKE.items():
        arguments, inputs = next(((a, i) for k, a, i, _ in CASES.values() if k == other), ({}, None))
        found[kind] = _of(kind, inputs="x", shapes=matrix) if inputs is None else _case(kind, arguments, inputs)
    for kind, values in FILLS.items():
        found[kind] = _of(kind, inputs="", shapes={}, shape=[2], values=values)
    for kind in ("GaussianFill", "MSRAFill", "UniformFill", "XavierFill"):
        found[kind] = _of(kind, inputs="", shapes={}, shape=[2, 3])
    found["ConstantFill"] = _of("ConstantFill", inputs="", shapes={}, shape=[2], value=1.0)
    found["Range"] = _of("Range", *weights(n=np.array([3], np.int32)), inputs="n", shapes={})
    found["BatchBoxCox"] = _of("BatchBoxCox", inputs="x a a", shapes={"x": "3x4", "a": "4"})
    found["RMSNorm"] = _of("RMSNorm", inputs="x a a", shapes={"x": "3x4", "a": "4"})
    found["TopK"] = _of("TopK", inputs="x", shapes=matrix, outputs="y i", k=2)
    for kind in ("Split", "DepthSplit"):
        found[kind] = _of(kind, inputs="x", shapes=matrix, outputs="y z", axis=1)
    return found | _integers() | _sparse()
