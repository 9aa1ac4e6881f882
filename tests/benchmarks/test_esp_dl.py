"""The comparison with ESP-DL's quantizer: weights become floats, and where it is installed, a network is compared."""

import os
import subprocess
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.benchmarks.esp_dl import Figures, compared, row
from tests.benchmarks.in_esp_ppq import floats_only

PYTHON = os.environ.get("QMLIR_PEERS_PYTHON", "")


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_stored_weights_become_floats(axis: int | None) -> None:
    rng = np.random.default_rng(0)
    count = 1 if axis is None else (3, 4)[axis]
    scales = np.array(0.5, np.float32) if axis is None else rng.uniform(0.1, 1, count).astype(np.float32)
    stored = {
        "q": rng.integers(-128, 128, (3, 4), np.int8),
        "s": scales,
        "z": rng.integers(-5, 5, scales.shape, np.int8),
    }
    given: dict[str, Any] = {} if axis is None else {"axis": axis}
    nodes = [helper.make_node("DequantizeLinear", list(stored), ["w"], **given),
             helper.make_node("MatMul", ["x", "w"], ["y"])]  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3]), ("y", [1, 4])))
    constants = [numpy_helper.from_array(np.asarray(a), n) for n, a in stored.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    feeds: dict[str, Any] = {"x": rng.standard_normal((1, 3)).astype(np.float32)}
    truth: Any = ReferenceEvaluator(network).run(None, feeds)
    floats_only(onnx, network)
    got: Any = ReferenceEvaluator(network).run(None, feeds)
    assert [node.op_type for node in network.graph.node] == ["MatMul"]
    np.testing.assert_array_equal(got[0], truth[0])


def test_a_line_says_what_is_ahead() -> None:
    own, peer = Figures(33.7, 99.5, 0.0), Figures(21.6, 100.0, -0.25)
    assert row("digits", own, peer) == ("digits", "33.7 / 99.50 / +0.00", "21.6 / 100.00 / -0.25", "+12.1 / -0.50")
    assert row("pictures", Figures(30.7, None, None), Figures(18.7, None, None))[1:] == ("30.7", "18.7", "+12.0")


@pytest.mark.skipif(
    not PYTHON or subprocess.run([PYTHON, "-c", "import esp_ppq"], capture_output=True).returncode != 0,
    reason="QMLIR_PEERS_PYTHON names no interpreter with esp-ppq",
)
def test_digits_are_ahead() -> None:
    own, peer = compared("digits", PYTHON, 0.2, "esp32p4")
    assert own.decibels > peer.decibels
