"""Quantized models in float16: scales, data and dequantized numbers of 16 bits, against onnxruntime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from qmlir.compiler import Pipeline, compile, load, reference, to_integers
from qmlir.dialects.nn import CastOp
from qmlir.dialects.nn.base import is_half
from qmlir.ir.signature import main_function
from qmlir.policies.ledger import decisions
from qmlir.stages import IMPORTED
from tests.frontends.onnx.agreement import Array, model, node, onnxruntime_run

RNG = np.random.default_rng(4)


def layer() -> onnx.ModelProto:
    """QuantizeLinear → DequantizeLinear → MatMul with dequantized weights → QuantizeLinear → DequantizeLinear."""
    constants = {
        "s": np.array(0.05, np.float16), "z": np.array(3, np.int8),
        "w": RNG.integers(-127, 128, (8, 4), np.int8), "ws": RNG.uniform(0.01, 0.03, 4).astype(np.float16),
        "ms": np.array(0.21, np.float16), "mz": np.array(-5, np.int8),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("DequantizeLinear", "w ws", "wd", axis=1),
        node("MatMul", "d wd", "m"),
        node("QuantizeLinear", "m ms mz", "mq"),
        node("DequantizeLinear", "mq ms mz"),
    ]
    proto = model(nodes, {"x": [1, 8]}, constants, element=TensorProto.FLOAT16)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    return proto


def samples(count: int) -> list[Array]:
    return [RNG.normal(0, 3, (1, 8)).astype(np.float16) for _ in range(count)]


def saved(proto: onnx.ModelProto, folder: object) -> str:
    path = f"{folder}/half.onnx"
    onnx.save(proto, path)
    return path


def test_a_quantized_network_in_float16_has_integers_only(tmp_path: object) -> None:
    module = load(saved(layer(), tmp_path))
    quantized = Pipeline(*IMPORTED)(module)
    assert [(e.operation, e.outcome) for e in decisions(quantized)] == [("nn.fully_connected", "quantized")]
    casts = [o for o in quantized.walk() if isinstance(o, CastOp)]
    assert casts[0].x in main_function(quantized).body.block.args
    assert [u.operation.name for u in casts[-1].y.uses] == ["func.return"]
    assert len(casts) == 2
    own, code = reference(module), compile(module)
    for x in samples(20):
        got = code(x)
        assert got.dtype == np.float16
        np.testing.assert_array_equal(own(x), got)


def test_it_is_onnxruntimes_within_a_step(tmp_path: object) -> None:
    """onnxruntime rounds the product to float16 before it quantizes it, which qmlir does not."""
    proto = layer()
    own = reference(load(saved(proto, tmp_path)))
    for x in samples(50):
        (want,) = onnxruntime_run(proto, {"x": x})
        assert np.abs(own(x).astype(np.float32) - want.astype(np.float32)).max() <= 0.23


EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FINITE = EVERY[np.isfinite(EVERY)][None]


@pytest.mark.parametrize("scale", [0.05, 0.31, 1.0, 7.0])
def test_each_number_is_quantized_as_by_onnxruntime(scale: float, tmp_path: object) -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")]
    constants = {"s": np.array(scale, np.float16), "z": np.array(3, np.int8)}
    proto = model(nodes, {"x": FINITE.shape}, constants, outputs=("q", "y"), element=TensorProto.FLOAT16)
    for output, code in zip(proto.graph.output, (TensorProto.INT8, TensorProto.FLOAT16), strict=True):
        output.type.tensor_type.elem_type = code
    own = reference(load(saved(proto, tmp_path)))(FINITE)
    for ours, theirs in zip(own.values(), onnxruntime_run(proto, {"x": FINITE}), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_integers_at_the_input_have_the_scale_of_their_reader(tmp_path: object) -> None:
    proto = model([node("DequantizeLinear", "x s")], {"x": [4]}, {"s": np.array(0.3, np.float16)},
                  element=TensorProto.INT8)  # fmt: skip
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    module = load(saved(proto, tmp_path))
    assert "!quant.uniform<i8:f32, 0.300048828125>" in str(main_function(module).function_type)
    assert is_half(main_function(module).body.block.last_op.operands[0])  # type: ignore[union-attr]
    x = np.array([-128, -1, 3, 127], np.int8)
    np.testing.assert_array_equal(reference(module)(x), onnxruntime_run(proto, {"x": x})[0])


def test_the_network_on_the_qint_level_multiplies_integers(tmp_path: object) -> None:
    kinds = {o.name for o in to_integers(load(saved(layer(), tmp_path))).walk()}
    assert "qint.fully_connected" in kinds
