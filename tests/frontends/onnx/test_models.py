"""Trained models from real exporters: they import whole, keep their names and compute what onnxruntime computes."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report, refuse_opaque
from qmlir.ir.facts import NAME
from tests.conftest import unpack
from tests.frontends.onnx.agreement import assert_close, floats, main_of, onnxruntime_run

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
    found = {NAME.among(attrs.data).tensors[0]: type.get_shape() for type, attrs in results}  # type: ignore[attr-defined]
    assert found == MODELS[name]


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
