"""Whole exponents of powers stay whole: powers of negative numbers have values and signs."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import qmlir
from qmlir.numerics.schemas import exponent_of
from tests.frontends.onnx.agreement import load, model, node, onnxruntime_run
from tests.transforms.quantize.calibrated import operation, parsed, uniform

BASES = np.concatenate([np.linspace(-1.5, -0.3, 30), np.linspace(0.3, 1.4, 30)]).astype(np.float32).reshape(20, 3)

EXPONENTS = {"3": [3.0], "1 to 3": [1.0, 2.0, 3.0], "5 and -1": [5.0, -1.0, 2.0], "a fraction too": [3.0, 1.7, 1.0]}


def _values(quantized: ModuleOp) -> list[SSAValue]:
    op = operation(quantized, "nn.pow")
    return [*op.operands, *op.results]


@pytest.mark.parametrize("schema", ["asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"])
@pytest.mark.parametrize("kind", EXPONENTS)
def test_powers_of_negative_numbers(kind: str, schema: str, tmp_path: Path) -> None:
    """Results are off by what rounding costs: in the exported file and in the network that is read of it, too."""
    exponents = np.array(EXPONENTS[kind], np.float32)
    bases = np.where(exponents == np.rint(exponents), BASES, np.abs(BASES))
    module = load(model(node("Pow", "x e"), {"x": [20, 3]}, {"e": exponents}))
    quantized = qmlir.quantize(module, data=[bases], calibration="minmax", schema=schema)
    base, exponent, result = map(uniform, _values(quantized))
    (got,) = qmlir.reference(quantized).run(bases)
    want, size = bases.astype(np.float64) ** exponents, np.abs(bases.astype(np.float64))
    slopes = np.abs(exponents) * size ** (exponents - 1), (exponents % 1 != 0) * size**exponents * np.abs(np.log(size))
    room = slopes[0] * base.scale + slopes[1] * exponent.scale + result.scale
    assert (np.abs(got - want) <= room).all()
    qmlir.export(quantized, tmp_path / "q.onnx", format="onnx-qdq")
    (theirs,) = onnxruntime_run(str(tmp_path / "q.onnx"), {"x": bases})
    assert np.abs(theirs - got).max() <= 1.001 * result.scale
    (again,) = qmlir.reference(qmlir.load(tmp_path / "q.onnx")).run(bases)
    np.testing.assert_array_equal(again, got)


def test_exponents_that_are_converted_integers() -> None:
    """Their values are known only when the network runs; that they are whole is known before."""
    inputs = {"x": TensorProto.FLOAT, "n": TensorProto.INT64}
    nodes = [helper.make_node("Cast", ["n"], ["e"], to=TensorProto.FLOAT), helper.make_node("Pow", ["x", "e"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "powers",
        [helper.make_tensor_value_info(name, element, [20, 3]) for name, element in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {"x": BASES, "n": np.tile(np.array([0, 1, 2, 3, 5], np.int64), 12).reshape(20, 3)}
    quantized = qmlir.quantize(load(proto), data=[feed], calibration="minmax")
    op = operation(quantized, "nn.pow")
    assert exponent_of(uniform(op.operands[1]).scale) is not None
    (got,) = qmlir.reference(quantized).run(feed)
    want = BASES.astype(np.float64) ** feed["n"]
    assert np.abs(got - want).max() <= 5 * 1.5**4 * uniform(op.operands[0]).scale + uniform(op.results[0]).scale


def test_a_range_of_the_policy_keeps_its_scale() -> None:
    proto = model([node("Round", "n", "e"), node("Pow", "x e")], {"x": [20, 3], "n": [20, 3]}, {})
    feed = {"x": BASES, "n": np.full([20, 3], 3, np.float32)}
    policy = {"rules": [{"name": "e", "range": [0.0, 3.0]}]}
    scales = [
        uniform(operation(qmlir.quantize(load(proto), data=[feed], policy=given), "nn.pow").operands[1]).scale
        for given in (None, policy)
    ]
    assert scales == [2**-6, np.float32(3 / 255)]


def test_other_exponents_are_rounded_as_data() -> None:
    """Nothing says that they are whole; the rule that keeps a power float keeps its values."""
    module = load(model([node("Relu", "n", "e"), node("Pow", "x e")], {"x": [20, 3], "n": [20, 3]}))
    feed = {"x": BASES, "n": np.tile(np.array([1, 2, 3], np.float32), (20, 1))}
    negative = BASES[:, 0] < 0
    quantized = qmlir.quantize(module, data=[feed], schema="symmetric", calibration="minmax")
    assert uniform(_values(quantized)[1]).scale == np.float32(3 / 127)
    assert not qmlir.reference(quantized).run(feed)[0][negative, :2].any()
    policy = {"rules": [{"glob": "*", "keep-float": True}]}
    kept = qmlir.quantize(module, data=[feed], schema="symmetric", calibration="minmax", policy=policy)
    np.testing.assert_allclose(qmlir.reference(kept).run(feed)[0], BASES ** np.array([1, 2, 3]), rtol=1e-6)
    assert [{e.outcome for e in qmlir.decisions(each)} for each in (quantized, kept)] == [{"quantized"}, {"float"}]


STORED = """
func.func @main(%x: tensor<60x!quant.uniform<i8:f32, 0.125>>) -> tensor<60x!quant.uniform<i8:f32, 0.23>> {{
  %e = nn.constant <tensor<60xi8>, [{exponents}]> : tensor<60x!quant.uniform<i8:f32, {scale}:-128>>
  %0 = nn.{name} %x, %e : tensor<60x!quant.uniform<i8:f32, 0.125>>, tensor<60x!quant.uniform<i8:f32, {scale}:-128>>
      -> tensor<60x!quant.uniform<i8:f32, 0.23>>
  func.return %0 : tensor<60x!quant.uniform<i8:f32, 0.23>>
}}"""


@pytest.mark.parametrize("largest", [1, 3, 5, 7])
@pytest.mark.parametrize("name", ["pow", "mod"])
def test_the_largest_integer_of_a_given_scale_is_whole(name: str, largest: int) -> None:
    """A file has n/255 as float32: 255 such steps are n in float32, as runtimes compute, but not in float64."""
    scale = float(np.float32(largest / 255))
    module = parsed(STORED.format(name=name, scale=repr(scale), exponents=", ".join(["127"] * 60)))
    x = np.arange(-30, 30, dtype=np.int8)
    (got,) = qmlir.reference(module).run(x)
    real = x * 0.125
    want = real**largest if name == "pow" else np.mod(real, largest)
    np.testing.assert_array_equal(got, np.clip(np.rint(want / 0.23), -128, 127))
