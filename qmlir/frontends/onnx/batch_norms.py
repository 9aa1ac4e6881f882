"""Reads the mean and the variance that batch normalizations leave in their results, from an ONNX file.

In training, BatchNormalization makes each channel's mean 0 and its variance 1, multiplies by `scale` and adds `bias`.
So the result of a trained network has the mean `bias` and the variance scale² · v / (v + ε), with v the stored
variance. Import turns the operator into a product and a sum, which do not know this any more.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx

from qmlir.frontends.onnx.reader import read_model
from qmlir.ir.interfaces import Array

Moments = tuple[Array, Array]
"""The mean and the variance of each channel, [C] float64."""


def batch_norm_moments(path: Path | str) -> Mapping[str, Moments]:
    """Returns the mean and the variance of each channel of the batch normalizations' results, by tensor name.

    Batch normalizations whose parameters are computed, or which are in training mode, are left out.

    Raises:
        FileError: The file is not an ONNX model that qmlir can read.
    """
    model = read_model(path)
    graph = model.proto.graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    found: dict[str, Moments] = {}
    for node in graph.node:
        if node.op_type != "BatchNormalization" or any(name not in stored for name in node.input[1:5]):
            continue
        numbers = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        if numbers.get("training_mode", 0):
            continue
        scale, bias, _, variance = (model.array(stored[name]).astype(np.float64) for name in node.input[1:5])
        found[node.output[0]] = bias, scale**2 * variance / (variance + numbers.get("epsilon", 1e-5))
    return found
