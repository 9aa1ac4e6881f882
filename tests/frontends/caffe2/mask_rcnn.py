"""Weights for the integer Mask R-CNN, whose own are not public: a net as text does not say how wide its layers are.

A convolution of single channels has as many groups as channels, and sums have the width of what they add. These facts
fix most widths; a width that is left over is `WIDTH`.
"""

import numpy as np

from qmlir.frontends.caffe2.reader import Net
from tests.frontends.caffe2.nets import made, stored

WIDTH = 16

SAME = ("Int8Sum", "Int8Quantize", "Int8Dequantize", "NCHW2NHWC", "NHWC2NCHW", "Sigmoid")
"""Operators whose inputs and results have one width."""

RPN = ("rpn_cls_probs", "rpn_bbox_pred")
"""The last tensors before the operators on boxes."""


def init_net(net: Net, seed: int = 0) -> bytes:
    """Returns an init net with random weights for the convolutions of a net."""
    random, fills = np.random.default_rng(seed), []
    widths = _widths(net)
    for op in net.operators:
        if not op.kind.startswith("Int8Conv"):
            continue
        kernel, groups = op.arguments.get("kernel", 1), op.arguments.get("group", 1)
        outputs, inputs = widths[op.outputs[0]], widths[op.inputs[0]]
        w = random.integers(108, 149, (outputs, kernel, kernel, inputs // groups)).astype(np.uint8)
        fills.append(stored(op.inputs[1], w, 0.02, 128))
        fills.append(stored(op.inputs[2], random.integers(-50, 50, outputs).astype(np.int32), 0.01, 0))
    return made(*fills)


def _widths(net: Net) -> dict[str, int]:
    """Returns the number of channels of each tensor."""
    same: dict[str, str] = {}

    def root(name: str) -> str:
        while same.setdefault(name, name) != name:
            name = same[name]
        return name

    known = {"data": 3}
    for op in net.operators:
        groups = op.arguments.get("group", 1)
        if op.kind in SAME or groups > 1:
            for name in op.inputs[: 1 if groups > 1 else None]:
                same[root(name)] = root(op.outputs[0])
            if groups > 1:
                known[op.outputs[0]] = groups
    found = {root(name): width for name, width in known.items()}
    return {name: found.get(root(name), WIDTH) for op in net.operators for name in (*op.inputs, *op.outputs)}
