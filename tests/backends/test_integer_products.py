"""Contractions of integers whose zero points are known at run time only, exported: each runtime has qmlir's bits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import qmlir
from tests.backends.onnx.runtime import computed, session
from tests.backends.tflite.runtime import LiteRT

Array = npt.NDArray[Any]

OPSETS = (("", 17), ("com.microsoft", 1))

FORMATS = ("onnx-qdq", "onnx-qoperator", "onnx-integer", "tflite")


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def saved(
    path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, Array], shape: tuple[int, ...], **constants: Array
) -> Path:
    """A model with one output y, of floats or of int32 sums."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in inputs.items()
    ]
    sums = nodes[-1].op_type.endswith("Integer")
    y = helper.make_tensor_value_info("y", TensorProto.INT32 if sums else TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", infos, [y], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in OPSETS], ir_version=8), str(path)
    )
    return path


def same_everywhere(path: Path, inputs: list[Array], folder: Path, formats: tuple[str, ...] = FORMATS) -> None:
    """Exports a model in each format; the files' runtimes and qmlir, which reads them again, have the model's bits."""
    names = [i.name for i in onnxruntime.InferenceSession(str(path)).get_inputs()]
    feed = dict(zip(names, inputs, strict=True))
    module = qmlir.load(path)
    (want,) = qmlir.reference(module).run(feed)
    for format in formats:
        file = folder / ("again.tflite" if format == "tflite" else "again.onnx")
        qmlir.export(module, file, format=format)
        if format == "tflite":
            found = [LiteRT(file, reference=False).run(inputs)[0]]
        else:
            found = [computed(session(file, optimized=optimized), inputs)[0] for optimized in (False, True)]
        found.append(qmlir.reference(qmlir.load(file)).run(feed)[0])
        for got in found:
            np.testing.assert_array_equal(got, want, err_msg=format)


def conv(groups: int = 1, channels: int = 4, spatial: int = 2) -> Callable[[Path], tuple[Path, list[Array]]]:
    def build(path: Path) -> tuple[Path, list[Array]]:
        x, w = random(1, channels, *[6] * spatial), random(4, channels // groups, *[3] * spatial)
        nodes = [helper.make_node("Conv", ["x", "W", "B"], ["y"], group=groups, pads=[1] * 2 * spatial)]
        return saved(path, nodes, {"x": x}, (1, 4, *[6] * spatial), W=w, B=random(4)), [x]

    return build


def layer(path: Path) -> tuple[Path, list[Array]]:
    x = random(2, 8)
    nodes = [helper.make_node("MatMul", ["x", "W"], ["z"]), helper.make_node("Add", ["z", "B"], ["y"])]
    return saved(path, nodes, {"x": x}, (2, 5), W=random(8, 5), B=random(5)), [x]


def product(path: Path) -> tuple[Path, list[Array]]:
    x, z = random(2, 8), random(8, 3)
    return saved(path, [helper.make_node("MatMul", ["x", "z"], ["y"])], {"x": x, "z": z}, (2, 3)), [x, z]


MODELS = {
    "conv": conv(), "grouped": conv(2), "depthwise": conv(4), "conv1d": conv(spatial=1), "conv3d": conv(spatial=3),
    "large sums": conv(channels=256), "layer": layer, "product": product,
}  # fmt: skip


@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_dynamic_quantization(name: str, weights: QuantType, tmp_path: Path) -> None:
    path, inputs = MODELS[name](tmp_path / "float.onnx")
    dynamic = tmp_path / "dynamic.onnx"
    per_channel = name != "product"
    options = {"MatMulConstBOnly": False}
    quantize_dynamic(path, dynamic, weight_type=weights, per_channel=per_channel, extra_options=options)
    assert {"ConvInteger", "MatMulInteger"} & {node.op_type for node in onnx.load(str(dynamic)).graph.node}
    same_everywhere(dynamic, inputs, tmp_path)


POINTS: dict[str, dict[str, Array]] = {
    "none": {},
    "constant": {"x_zero": np.array(7, np.uint8), "w_zero": np.array(3, np.int8)},
}


def integers(*shape: int, dtype: type[Any]) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(1).integers(limits.min, limits.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("computed", [False, True], ids=["constant weights", "computed weights"])
@pytest.mark.parametrize("points", POINTS)
def test_convolutions_of_integers(points: str, computed: bool, tmp_path: Path) -> None:
    x, w = integers(1, 3, 6, 6, dtype=np.uint8), integers(4, 3, 3, 3, dtype=np.int8)
    constants = POINTS[points]
    node = helper.make_node("ConvInteger", ["x", "w", *constants], ["y"])
    if not computed:
        constants = {**constants, "w": w}
    inputs = {"x": x, "w": w} if computed else {"x": x}
    path = saved(tmp_path / "sums.onnx", [node], inputs, (1, 4, 4, 4), **constants)
    same_everywhere(path, [*inputs.values()], tmp_path)


@pytest.mark.parametrize("computed", [False, True], ids=["constant weights", "computed weights"])
@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("terms", [8, 3000])
def test_matrix_products_of_integers(points: str, computed: bool, terms: int, tmp_path: Path) -> None:
    x, w = integers(2, terms, dtype=np.uint8), integers(terms, 5, dtype=np.int8)
    constants = POINTS[points]
    node = helper.make_node("MatMulInteger", ["x", "w", *constants], ["y"])
    if not computed:
        constants = {**constants, "w": w}
    inputs = {"x": x, "w": w} if computed else {"x": x}
    path = saved(tmp_path / "sums.onnx", [node], inputs, (2, 5), **constants)
    same_everywhere(path, [*inputs.values()], tmp_path)


def test_zero_points_of_channels(tmp_path: Path) -> None:
    x, w = integers(2, 8, dtype=np.uint8), integers(8, 5, dtype=np.uint8)
    node = helper.make_node("MatMulInteger", ["x", "w", "x_zero", "w_zero"], ["y"])
    zeros = {"x_zero": np.array(7, np.uint8), "w_zero": integers(5, dtype=np.uint8)}
    same_everywhere(saved(tmp_path / "sums.onnx", [node], {"x": x}, (2, 5), w=w, **zeros), [x], tmp_path)


@pytest.mark.parametrize("steps", [np.float32(0.02), np.linspace(0.01, 0.02, 5, dtype=np.float32)], ids=["one", "five"])
def test_sums_that_are_scaled(steps: Array, tmp_path: Path) -> None:
    x, w = integers(2, 8, dtype=np.uint8), integers(8, 5, dtype=np.int8)
    node = helper.make_node("MatMulIntegerToFloat", ["x", "w", "a", "s", "z"], ["y"], domain="com.microsoft")
    constants = {"w": w, "a": np.array(0.1, np.float32), "s": np.asarray(steps), "z": np.array(3, np.uint8)}
    same_everywhere(saved(tmp_path / "sums.onnx", [node], {"x": x}, (2, 5), **constants), [x], tmp_path)
