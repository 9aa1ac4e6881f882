"""A small ONNX network on disk with data for it, for the tests of drivers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper, numpy_helper, save

from qmlir.cli import main as driver

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Small:
    """Files in one folder.

    onnx      a convolution, a pool and a dense layer: image [1, 2, 8, 8] → scores [1, 3]
    data      an .npz of 6 samples
    """

    folder: Path
    onnx: Path
    data: Path
    samples: Array

    def __truediv__(self, name: str) -> Path:
        return self.folder / name


def write_small(folder: Path, *, scores: str = "scores") -> Small:
    """Writes the network and its data."""
    rng = np.random.default_rng(1)
    weights = {
        "kernel": rng.standard_normal((4, 2, 3, 3)) / 3,
        "offset": rng.standard_normal(4) / 4,
        "dense": rng.standard_normal((3, 64)) / 8,
        "bias": rng.standard_normal(3),
    }
    nodes = [
        helper.make_node("Conv", ["image", "kernel", "offset"], ["features"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["features"], ["active"], "relu1"),
        helper.make_node("MaxPool", ["active"], ["pooled"], "pool1", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten1"),
        helper.make_node("Gemm", ["flat", "dense", "bias"], [scores], "dense1", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 2, 8, 8])],
        [helper.make_tensor_value_info(scores, TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path, data = folder / "small.onnx", folder / "data.npz"
    save(model, str(path))
    samples = rng.standard_normal((6, 2, 8, 8)).astype(np.float32)
    np.savez(data, image=samples)
    return Small(folder, path, data, samples)


def run(*arguments: object) -> int:
    """The status of the driver `qmlir` with these arguments."""
    return driver.main([str(a) for a in arguments])


def is_one_paragraph(error: str) -> bool:
    """Whether standard error holds one message: a line, and where it is about a place in a text, that with a caret."""
    message, *excerpt = error.splitlines()
    marked = not excerpt or (len(excerpt) == 2 and excerpt[0].startswith("  ") and excerpt[1].strip() == "^")
    return message.startswith(("error: ", "warning: ")) and marked and error.endswith("\n")
