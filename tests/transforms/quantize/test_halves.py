"""A network in f16 or bf16 is quantized as the same network in f32 is: the same layers, names and integers."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.compiler import Pipeline, load, profile, quantize
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.errors import PipelineError
from qmlir.ir.rewriting import node_name
from qmlir.policies.ledger import decisions
from qmlir.profiles.profile import Profile
from qmlir.settings.policy import Policy, rule_of
from tests.conftest import crossed
from tests.transforms.quantize.calibrated import Array, parsed, quantized

RNG = np.random.default_rng(16)
SAMPLES: list[Array] = [np.round(RNG.normal(size=(1, 3, 8, 8)) * 32) / 32 for _ in range(6)]  # all formats hold them
SHAPES = {
    "w1": (8, 3, 3, 3),
    "b1": (8,),
    "scale": (8,),
    "shift": (8,),
    "mean": (8,),
    "w2": (4, 8, 3, 3),
    "w3": (64, 10),
    "b3": (10,),
}
VALUES: dict[str, Array] = {n: np.round(RNG.normal(0, 0.3, shape) * 64) / 64 for n, shape in SHAPES.items()}
VALUES["variance"] = np.round(RNG.uniform(0.5, 1.5, 8) * 64) / 64

CODES = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16, "float32": TensorProto.FLOAT}
BFLOAT16: type[np.generic] = ml_dtypes.bfloat16


def network(folder: Path, dtype: type[np.generic]) -> Path:
    """A convolutional network of weights that all types hold."""
    code = CODES[np.dtype(dtype).name]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"], "bn1"),
        helper.make_node("Relu", ["n1"], ["r1"], "relu1"),
        helper.make_node("MaxPool", ["r1"], ["p1"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], "conv2", pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("Flatten", ["r2"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], "gemm"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", code, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", code, (1, 10))],
        [numpy_helper.from_array(v.astype(dtype), name) for name, v in VALUES.items()],
    )
    path = folder / f"{np.dtype(dtype).name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10), path)
    return path


def learnt(module: ModuleOp, dtype: type[np.generic]) -> Profile:
    return profile(module, [x.astype(dtype) for x in SAMPLES])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("halves")


@pytest.mark.parametrize("half", [np.float16, BFLOAT16])
def test_simplified_it_has_the_layers_of_f32_between_two_casts(folder: Path, half: type[np.generic]) -> None:
    kinds = [
        [op.name for op in Pipeline("simplify")(load(network(folder, d))).walk() if not isinstance(op, ConstantOp)]
        for d in (half, np.float32)
    ]
    assert [kind for kind in kinds[0] if kind != "nn.cast"] == kinds[1]
    assert kinds[0].count("nn.cast") == 2


def test_it_is_onnxruntimes(folder: Path) -> None:
    path = network(folder, np.float16)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    run = qmlir.compile(Pipeline("simplify")(load(path)))
    for x in [x.astype(np.float16) for x in SAMPLES]:
        want: Any = session.run(None, {"x": x})[0]
        got = run(x)
        assert got.dtype == np.float16
        np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), atol=2**-7 * np.abs(want).max())


@pytest.mark.slow
@crossed(
    {"half": [np.float16, BFLOAT16], "options": [{}, {"precision": "int16"}, {"schema": "symmetric_with_power2_scale"}]}
)
def test_its_integers_are_those_of_f32(folder: Path, half: type[np.generic], options: dict[str, Any]) -> None:
    both: list[ModuleOp] = []
    for dtype in (half, np.float32):
        module = load(network(folder, dtype))
        found = learnt(module, dtype)
        data = [x.astype(dtype) for x in SAMPLES]
        both.append(quantize(module, found, fail_on_float=True, data=data, **options))
    stored = [
        [(op.name, str(r.type)) for op in m.walk() for r in op.results if "quant.uniform" in str(r.type)] for m in both
    ]
    assert stored[0] == stored[1]
    assert [e.node for e in decisions(both[0])] == [e.node for e in decisions(both[1])]
    narrow, full = (qmlir.reference(m) for m in both)
    for x in SAMPLES:
        np.testing.assert_array_equal(narrow(x.astype(half)), full(x.astype(np.float32)).astype(half))


def test_names_are_those_of_layers_and_inputs(folder: Path) -> None:
    module = load(network(folder, np.float16))
    found = learnt(module, np.float16)
    assert list(found.tensors) == list(learnt(load(network(folder, np.float32)), np.float32).tensors)
    rules = [rule_of("name=conv1 precision=int16"), rule_of("name=x range=-8,8")]
    result = quantize(module, found, policy=Policy(rules=rules))
    (conv,) = [op for op in result.walk() if op.name == "nn.conv2d" and "conv1" in node_name(op)]
    assert is_quantized(conv.results[0])
    assert "i16" in str(conv.results[0].type)


TEXT = """
func.func @main(%x: tensor<1x4xf32>) -> tensor<4x1xf32> {{
  calib.observe %x {{name = "x", range = [-1.0, 1.0]}} : tensor<1x4xf32>
  %0 = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  calib.observe %0 {{name = "a", range = [0.0, 1.0]}} : tensor<1x4xf32>
  %1 = nn.cast %0 : tensor<1x4xf32> -> tensor<1x4x{type}>
  %2 = {middle} : tensor<1x4x{type}> -> tensor<4x1x{type}>
  %3 = nn.cast %2 : tensor<4x1x{type}> -> tensor<4x1xf32>
  calib.observe %3 {{name = "b", range = [0.0, 1.0]}} : tensor<4x1xf32>
  %4 = nn.relu %3 : tensor<4x1xf32> -> tensor<4x1xf32>
  calib.observe %4 {{name = "c", range = [0.0, 1.0]}} : tensor<4x1xf32>
  func.return %4 : tensor<4x1xf32>
}}
"""


@pytest.mark.parametrize("type", ["f16", "bf16", "f64"])
def test_no_float_between_integers_escapes(type: str) -> None:
    module = parsed(TEXT.format(type=type, middle="nn.transpose %1 {permutation = array<i64: 1, 0>}"))
    left = [(e.operation, e.code) for e in decisions(quantized(module)) if e.outcome == "float"]
    assert left == [("nn.cast", "type"), ("nn.transpose", "type"), ("nn.cast", "type")]
    with pytest.raises(PipelineError, match=r"must leave no operation float.*nn\.cast.*convert the model to float32"):
        quantized(module, fail_on_float=True)


def test_integers_between_integers_are_none() -> None:
    module = parsed(TEXT.format(type="i32", middle="nn.transpose %1 {permutation = array<i64: 1, 0>}"))
    assert all(e.outcome == "quantized" for e in decisions(quantized(module, fail_on_float=True)))


def test_what_computes_on_f64_is_float_wherever_it_stands() -> None:
    module = parsed("""
func.func @main(%x: tensor<4xf32>, %z: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf64>) {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  calib.observe %0 {name = "a", range = [0.0, 1.0]} : tensor<4xf32>
  %1 = nn.tanh %z : tensor<4xf64> -> tensor<4xf64>
  func.return %0, %1 : tensor<4xf32>, tensor<4xf64>
}
""")
    assert [(e.operation, e.outcome) for e in decisions(quantized(module))] == [
        ("nn.relu", "quantized"),
        ("nn.tanh", "float"),
    ]
