"""Networks of which only the graph is at hand: ONNX's light models, each weight one number repeated, drawn anew.

    python -m tests.models.redrawn light_bvlc_alexnet alexnet.onnx

writes one. Weights are normal with the variance 2 / fan-in (He), from seed 0 in the graph's order; biases stay.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
"""Where ONNX's package has its light models."""


def redrawn(name: str, seed: int = 0) -> onnx.ModelProto:
    """A light model whose weights, filters and matrices of fully connected layers, are He-normal."""
    model = onnx.load(LIGHT / f"{name}.onnx")
    graph = model.graph
    random = np.random.default_rng(seed)
    shapes = {t.name: [int(n) for n in numpy_helper.to_array(t)] for t in graph.initializer if t.name.endswith("SHAPE")}
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape"]:
        shape = shapes[node.input[0]]
        if len(shape) < 2:
            continue  # a bias
        fan_in = int(np.prod(shape[1:]))
        weights = random.standard_normal(shape, np.float32) * np.float32(np.sqrt(2 / fan_in))
        graph.initializer.append(numpy_helper.from_array(weights, node.output[0]))
        graph.node.remove(node)
    return model


if __name__ == "__main__":
    onnx.save(redrawn(sys.argv[1]), sys.argv[2])
