"""Operations that units of NVDLA compute and no key of device files names: the host computes them, with the reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import qmlir
from qmlir.compiler import to_integers
from qmlir.devices.legality.limits import refusals
from tests.backends.hardware.boards import Network, device_of

NODES: dict[str, tuple[Any, str]] = {
    "PRelu": (helper.make_node("PRelu", ["a", "s"], ["y"], "last"), "qint.pair_lookup"),
    "LRN": (helper.make_node("LRN", ["a"], ["y"], "last", size=5), "qint.local_response_normalization"),
}
"""What follows a convolution, and the operation that the quantizer makes of it."""


@pytest.mark.parametrize("name", NODES)
def test_what_no_key_names(name: str, tmp_path: Path) -> None:
    node, kind = NODES[name]
    rng, device = np.random.default_rng(0), device_of("nvdla-small", fallback__macs_per_cycle=0.01)
    held = {"k": rng.standard_normal((8, 8, 1, 1)), "s": abs(rng.standard_normal((8, 1, 1))) / 4}
    constants = [
        numpy_helper.from_array(held[key].astype(np.float32), key) for key in ("k", "s") if key in ["k", *node.input]
    ]
    ends = [helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, 8, 9, 9]) for end in "xy"]
    nodes = [helper.make_node("Conv", ["x", "k"], ["a"], "conv"), node]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "net.onnx")
    samples = rng.standard_normal((4, 1, 8, 9, 9)).astype(np.float32)
    quantized = qmlir.quantize(tmp_path / "net.onnx", data=samples, target=device, io="int8", measure=False)
    (last,) = (op for op in to_integers(quantized, device).walk() if op.name == kind)
    (reason,) = refusals(last, device)
    assert reason == f"no device file has a key for {kind}"
    network = Network.of(quantized, device)
    assert [placed.layer.kind for placed in network.program.layers] == ["conv2d"]
    inputs = rng.integers(-128, 128, (1, 8, 9, 9), np.int8)
    run = network.run(inputs)
    assert set(run.differing.values()) == {0}
    assert (run.outputs[0] == np.asarray(qmlir.reference(quantized)(inputs))).all()
