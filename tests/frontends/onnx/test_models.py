"""Trained models from real exporters: they import whole, keep their names and compute what onnxruntime computes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report, refuse_opaque
from qmlir.ir.rewriting import names_of_value
from tests.conftest import unpack
from tests.frontends.onnx.agreement import assert_close, floats, main_of, onnxruntime_run, ops_of

pytestmark = pytest.mark.models

MODELS = {
    "mnist-8.onnx": {"Plus214_Output_0": (1, 10)},
    "cifar_imageclassifier.onnx": {"modelOutput": (1, 10)},
    "ultraface_RFB-320_simplified.onnx": {"scores": (1, 4420, 2), "boxes": (1, 4420, 4)},
    "super_resolution.onnx": {"output": (1, 1, 672, 672)},
}


@pytest.mark.parametrize("name", MODELS)
def test_models_import_whole(name: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/onnx/{name}")
    module = load_onnx(path)
    module.verify()
    refuse_opaque(module, name)
    function = main_of(module)
    assert function.res_attrs is not None
    results = zip(function.function_type.outputs, function.res_attrs, strict=True)
    found = {attrs.data["qmlir.name"].tensors[0]: type.get_shape() for type, attrs in results}  # type: ignore[attr-defined]
    assert found == MODELS[name]


@pytest.mark.parametrize("name", MODELS)
def test_no_name_of_a_computed_tensor_or_node_is_lost(name: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/onnx/{name}")
    proto = onnx.load(path)
    names = [names_of_value(o.results[0]) for o in ops_of(load_onnx(path))]
    tensors = [s for n in names for s in (*n.tensors, *n.absorbed)]
    nodes = {s for n in names for s in n.nodes}
    assert len(tensors) == len(set(tensors))
    # Reshape of a weight and Constant happen at import: their results are constants or shapes.
    known = {t.name for t in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Constant" or all(i in known for i in node.input):
            known.update(node.output)
        else:
            assert set(node.output) <= set(tensors)
            assert not node.name or node.name in nodes


@pytest.mark.parametrize("name", ["mnist-8.onnx", "cifar_imageclassifier.onnx"])
def test_models_agree_with_onnxruntime(name: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"models/onnx/{name}")
    function = main_of(load_onnx(path))
    argument = function.args[0].name_hint
    assert argument is not None
    for seed in range(3):
        x = floats(*function.function_type.inputs.data[0].get_shape(), seed=seed)  # type: ignore[attr-defined]
        (wanted,) = onnxruntime_run(str(path), {argument: x})
        assert_close(evaluate(function, [x])[0], wanted)


def test_a_bound_batch_agrees_with_onnxruntime(shared: Callable[[str], Path]) -> None:
    path = shared("models/onnx/cifar_imageclassifier.onnx")
    function = main_of(load_onnx(path, bind={"batch_size": 3}))
    x = floats(3, 3, 32, 32)
    (wanted,) = onnxruntime_run(str(path), {"modelInput": x})
    assert_close(evaluate(function, [x])[0], wanted)


def test_the_oldest_operator_set(shared: Callable[[str], Path], tmp_path: Path) -> None:
    """mnist as it was first published, in operator set 1: it knows the digits in its archive."""
    unpack(shared("models/onnx/mnist_opset1_with_vectors.tar.gz"), tmp_path)
    function = main_of(load_onnx(tmp_path / "mnist/model.onnx"))
    vectors = sorted(tmp_path.glob("mnist/*.npz"))
    assert len(vectors) == 3
    for path in vectors:
        vector = np.load(path)
        (logits,) = evaluate(function, [vector["inputs"].reshape(1, 1, 28, 28).astype(np.float32)])
        assert logits.argmax() == vector["outputs"].argmax()


def test_quantized_models_are_integers(shared: Callable[[str], Path]) -> None:
    """Casts between floats (QDQ) and operators on integers (QOperator): all are known, no contraction is float."""
    for name in ("mnist_qdq_u8s8.onnx", "mnist_qop_u8u8.onnx", "cifar_imageclassifier_qdq_s8s8_perchan.onnx"):
        module = load_onnx(shared(f"models/onnx/{name}"))
        module.verify()
        assert not opaque_report(module)
        integers = qmlir.to_integers(module)
        contractions = [op for op in integers.walk() if isinstance(op, WeightedOp)]
        assert len(contractions) == (5 if name.startswith("cifar") else 3)
        assert not {op.name for op in integers.walk()} & {"nn.conv2d", "nn.fully_connected", "nn.max_pool2d", "nn.relu"}
