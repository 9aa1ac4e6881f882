"""onnxruntime's MatMulNBits against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.dialects.nn import BlockedFullyConnectedOp
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.interfaces import element_of
from tests.conftest import crossed
from tests.frontends.onnx.agreement import (
    Array,
    assert_close,
    floats,
    load,
    main_of,
    node,
    onnxruntime_run,
    ops_of,
    reason,
)
from tests.frontends.onnx.test_attention import contributed

RNG = np.random.default_rng(12)
N = 6


def constants(bits: int, k: int, block: int) -> dict[str, Array]:
    blocks = -(-k // block)
    return {
        "w": RNG.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8),
        "s": RNG.uniform(0.01, 0.1, N * blocks).astype(np.float32),
        "z": RNG.integers(0, 256, N * -(-blocks * bits // 8)).astype(np.uint8),
        "f": RNG.uniform(0, 1 << bits, (N, blocks)).astype(np.float32),
        "b": floats(N, seed=3),
        "g": np.zeros(blocks * block, np.int32),
    }


def network(inputs: str, bits: int = 4, k: int = 32, block: int = 16, **attributes: Any) -> onnx.ModelProto:
    given = {name: array for name, array in constants(bits, k, block).items() if name in inputs.split()}
    described = {"K": k, "N": N, "bits": bits, "block_size": block} | attributes
    return contributed(node("MatMulNBits", inputs, **described), {"x": [2, 3, k]}, given)


@crossed(
    {
        "bits": [2, 4, 8],
        "k, block": [(32, 16), (96, 32), (80, 32)],
        "inputs": ["x w s", "x w s z", "x w s z _ b", "x w s _ _ b"],
    },
    turns=2,
)
def test_product(bits: int, k: int, block: int, inputs: str) -> None:
    proto = network(inputs, bits, k, block)
    module, x = load(proto), floats(2, 3, k)
    assert_close(evaluate(main_of(module), [x])[0], onnxruntime_run(proto, {"x": x})[0])
    (layer,) = (o for o in ops_of(module) if isinstance(o, BlockedFullyConnectedOp))
    assert (layer.size, str(element_of(layer.w))) == (block, f"ui{bits}")


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_zero_points_of_floats(bits: int) -> None:
    """onnxruntime takes them for weights below 8 bits, and packed ones for 8 bits."""
    proto, x = network("x w s f", bits), floats(2, 3, 32)
    theirs = proto
    if bits == 8:
        points = RNG.integers(0, 256, N * 2).astype(np.uint8)
        theirs = network("x w s z", bits)
        for mine in (proto, theirs):
            mine.graph.initializer[0].CopyFrom(theirs.graph.initializer[0])
            mine.graph.initializer[1].CopyFrom(theirs.graph.initializer[1])
        theirs.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(points, "z"))
        whole = onnx.numpy_helper.from_array(points.reshape(N, 2).astype(np.float32), "f")
        proto.graph.initializer[2].CopyFrom(whole)
    assert_close(evaluate(main_of(load(proto)), [x])[0], onnxruntime_run(theirs, {"x": x})[0])


@crossed({"bits": [2, 4, 8], "inputs": ["x w s", "x w s z", "x w s f _ b"]})
def test_it_is_computed_in_integers(bits: int, inputs: str) -> None:
    """Zero points that are no whole numbers become offsets; without a bias sums begin with 0."""
    samples = [floats(2, 3, 32, seed=seed) for seed in range(2)]
    module = qmlir.quantize(load_onnx(network(inputs, bits)), data=samples)
    (decision,) = (d for d in qmlir.decisions(module) if d.operation == "nn.blocked_fully_connected")
    assert (decision.outcome, decision.reason) == ("quantized", f"i8 activations, u{bits} weights in blocks of 16")
    integers = [op.name for op in qmlir.Pipeline("nn-to-qint")(module.clone()).walk()]
    assert ("qint.affine_fully_connected" in integers) == ("f" in inputs.split())
    run, compiled = qmlir.reference(module), qmlir.compile(module)
    for sample in samples:
        np.testing.assert_array_equal(compiled(sample), run(sample))


def test_its_weights_are_charged_to_the_fold_budget() -> None:
    proto, needed = network("x w s"), N * 32
    assert opaque_report(load_onnx(proto, fold_budget=needed)) == []
    assert "it makes a constant of shape [6, 32]" in str(opaque_report(load_onnx(proto, fold_budget=needed - 1)))


def test_what_is_refused() -> None:
    assert "groups by an index" in reason(network("x w s z g"))
    assert "it stores 3 bits" in reason(network("x w s", bits=3))
    half = network("x w s")
    half.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.ones(12, np.float16), "s"))
    assert "its scale is float16" in reason(half)
    for attributes, message in (
        ({"K": 33}, "33 elements in the last"),
        ({"N": 7}, "its weights must be bytes"),
        ({"block_size": 0}, "must be positive"),
    ):
        with pytest.raises(NodeError, match=message):
            load_onnx(network("x w s", **attributes))
    wrong = network("x w s _ _ b")
    wrong.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.ones(N, np.int8), "b"))
    with pytest.raises(NodeError, match="its bias must be f32"):
        load_onnx(wrong)
    wrong = network("x w s z")
    wrong.graph.initializer[1].CopyFrom(onnx.numpy_helper.from_array(np.ones(11, np.float32), "s"))
    with pytest.raises(NodeError, match="it must have 12 scales"):
        load_onnx(wrong)
    wrong = network("x w s z")
    wrong.graph.initializer[2].CopyFrom(onnx.numpy_helper.from_array(np.ones(5, np.uint8), "z"))
    with pytest.raises(NodeError, match="1 zero points for each output"):
        load_onnx(wrong)
