"""What an import costs, in time and memory, in a process of its own: ResNet-50, and MobileNet v2 from TFLite."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.slow

MOST_SECONDS = 3
MOST_MEGABYTES = 400
MOST_SECONDS_OF_MOBILENET = 1

MEASURE = """
import re, sys, time
from qmlir.compiler import load
start = time.perf_counter()
module = load(sys.argv[1])
seconds = time.perf_counter() - start
peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
print(seconds, int(peak) / 1024, len(list(module.walk())))
"""


class Network:
    """Nodes and weights in the making; each method returns the name of its output."""

    def __init__(self):
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        values = self.random.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[1:])))
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def conv(self, x: str, inputs: int, outputs: int, size: int, stride: int = 1) -> str:
        kernel, bias, pads = self.weight(outputs, inputs, size, size), self.weight(outputs), [size // 2] * 4
        return self.node("Conv", x, kernel, bias, strides=[stride] * 2, pads=pads)


def resnet50(narrowest: int = 64, side: int = 224) -> onnx.ModelProto:
    """ResNet-50 with random weights: 25.6 M of them, 102 MB; fewer if its narrowest layer has fewer channels."""
    net = Network()
    x = net.node("Relu", net.conv("x", 3, narrowest, 7, 2))
    x, channels = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), narrowest
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = narrowest << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage else 1
            y = net.node("Relu", net.conv(x, channels, width, 1))
            y = net.node("Relu", net.conv(y, width, width, 3, stride))
            y = net.conv(y, width, 4 * width, 1)
            shortcut = x if block else net.conv(x, channels, 4 * width, 1, stride)
            x, channels = net.node("Relu", net.node("Add", y, shortcut)), 4 * width
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    y = net.node("Gemm", x, net.weight(1000, channels), net.weight(1000), transB=1)
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, side, side]), (y, [1, 1000]))
    ]
    graph = helper.make_graph(net.nodes, "resnet50", infos[:1], infos[1:], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def measured(path: Path) -> tuple[float, float, float]:
    """Seconds, the most megabytes, and how many operations there are."""
    command = [sys.executable, "-c", MEASURE, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(found[0]), float(found[1]), float(found[2])


def test_resnet50(tmp_path: Path) -> None:
    path = tmp_path / "resnet50.onnx"
    onnx.save(resnet50(), path)
    assert path.stat().st_size > 100_000_000
    seconds, megabytes, operations = measured(path)
    sys.stdout.write(f"\nresnet50: imported in {seconds:.2f} s, at most {megabytes:.0f} MB of memory\n")
    assert operations > 200
    assert seconds < MOST_SECONDS
    assert megabytes < MOST_MEGABYTES


@pytest.mark.models
def test_mobilenet_v2(shared: Callable[[str], Path]) -> None:
    path = shared("models/tflite/mobilenet_v2_1.0_224_u8.tflite")
    seconds, megabytes, operations = measured(path)
    sys.stdout.write(f"\nmobilenet v2: imported in {seconds:.2f} s, at most {megabytes:.0f} MB of memory\n")
    assert operations > 60
    assert seconds < MOST_SECONDS_OF_MOBILENET
