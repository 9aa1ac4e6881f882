"""Products of float rows and weights stored as int8, as LiteRT computes them in its recurrent layers.

Each row x of the data is quantized by its own range at each step, and the sums of integers are scaled back:

    symmetric   s = max|x| / 127,  q = rint(x / s)
    asymmetric  s = (max − min) / 255 with 0 in the range,  z = rint(−128 − min / s) or rint(127 − max / s), by which of
                the two has the smaller terms,  q = clamp(rint(x · (1 / s)) + z, −128, 127) − z

    y = b + (Σ q · w) · (s · s_w)

The integers are computed as floats, which hold them exactly: sums up to 2²⁴, those of 518 elements and more.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.errors import UnsupportedError
from qmlir.frontends.builder import Node
from qmlir.frontends.cells import Place, Product, Weights
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.tflite.node import TFLiteNode

LEAST = 1e-30
"""The smallest range by which a row is divided; the products of rows of zeros are 0 under any scale."""


class Stored(Constant):
    """Weights as the integers that a file stores, in float32, and the scale of each output."""

    def __init__(self, integers: np.ndarray, scales: np.ndarray, name: str = ""):
        super().__init__(integers, name)
        self.scales = scales


def is_hybrid(node: TFLiteNode, x: Value, weights: Sequence[Value | None]) -> bool:
    """Whether a layer computes on floats with weights stored as integers.

    Raises:
        UnsupportedError: Some of the weights are floats, or are stored in a way that LiteRT does not compute with.
    """
    given = [w for w in weights if w is not None]
    types = [node.type_of(w) for w in given]
    if node.is_quantized(x) or not any(types):
        return False
    if not all(isinstance(w, Dequantized) for w in given):
        raise UnsupportedError("only some of its weights are integers beside float data, or they are no constants")
    if wrong := [t for t in types if t is None or t.storage != i8 or any(t.zero_points) or t.axis is not None]:
        raise UnsupportedError(f"its weights are stored as {wrong[0]} beside float data, not as int8 with one scale")
    return True


def stored(node: TFLiteNode, what: str, parts: Sequence[Value | None], shape: tuple[int, ...]) -> Stored:
    """Concatenates the stored integers of several gates; each must be a constant of `shape`."""
    arrays, scales = list[np.ndarray](), list[float]()
    for part in parts:
        if not isinstance(part, Dequantized) or part.shape != shape:
            raise node.error(f"its {what} must be of shape {list(shape)}",
                             "none" if part is None else str(list(node.shape(part))))  # fmt: skip
        arrays.append(part.stored.astype(np.float32))
        scales += [part.type.scale] * shape[0]
    return Stored(np.concatenate(arrays), np.array(scales, np.float32))


def product(*, asymmetric: bool) -> Product:
    """Returns the product of rows and stored weights, plus a bias, for cells (`Cell.product`)."""

    def compute(at: Place, rows: Value, weights: Weights, what: str) -> SSAValue:
        matrix, bias = weights
        assert isinstance(matrix, Stored)
        integers, scale = (_asymmetric if asymmetric else _symmetric)(at.node, rows)
        sums = at.node.insert(nn.FullyConnectedOp, [integers, matrix, None])
        scales = at.node.insert(nn.MulOp, [scale, Constant(matrix.scales.reshape(1, prod(matrix.scales.shape)))])
        if bias is None:
            return at(nn.MulOp, [sums, scales], what)
        return at(nn.AddOp, [at.node.insert(nn.MulOp, [sums, scales]), bias], what)

    return compute


def _number(value: float) -> Constant:
    return Constant(np.array(value, np.float32))


def _extreme(node: Node, op_type: type[nn.ReduceMaxOp | nn.ReduceMinOp], x: Value) -> SSAValue:
    return node.insert(op_type, [x], {"axes": [1]})


def _symmetric(node: Node, x: Value) -> tuple[SSAValue, SSAValue]:
    """Returns each row's integers, and its scale [N, 1]."""
    most = node.insert(nn.MaximumOp, [_extreme(node, nn.ReduceMaxOp, node.insert(nn.AbsOp, [x])), _number(LEAST)])
    factor = node.insert(nn.DivOp, [_number(127), most])
    return (
        node.insert(nn.RoundOp, [node.insert(nn.MulOp, [x, factor])]),
        node.insert(nn.DivOp, [most, _number(127)]),
    )


def _asymmetric(node: Node, x: Value) -> tuple[SSAValue, SSAValue]:
    """Returns each row's integers without its zero point, and its scale [N, 1]."""
    low = node.insert(nn.MinimumOp, [_extreme(node, nn.ReduceMinOp, x), _number(0)])
    high = node.insert(nn.MaximumOp, [_extreme(node, nn.ReduceMaxOp, x), _number(0)])
    range = node.insert(nn.MaximumOp, [node.insert(nn.SubOp, [high, low]), _number(LEAST)])
    scale = node.insert(nn.DivOp, [range, _number(255)])
    lows, highs = (node.insert(nn.DivOp, [end, scale]) for end in (low, high))
    from_low = node.insert(nn.SubOp, [_number(-128), lows])
    from_high = node.insert(nn.SubOp, [_number(127), highs])
    smaller = node.insert(nn.LessOp, [
        node.insert(nn.AddOp, [node.insert(nn.AbsOp, [lows]), _number(128)]),
        node.insert(nn.AddOp, [node.insert(nn.AbsOp, [highs]), _number(127)]),
    ])  # fmt: skip
    nearest = node.insert(nn.RoundOp, [node.insert(nn.WhereOp, [smaller, from_low, from_high])])
    zero = node.insert(nn.ClampOp, [nearest], {"min": -128.0, "max": 127.0})
    steps = node.insert(nn.RoundOp, [node.insert(nn.MulOp, [x, node.insert(nn.DivOp, [_number(1), scale])])])
    integers = node.insert(nn.ClampOp, [node.insert(nn.AddOp, [steps, zero])], {"min": -128.0, "max": 127.0})
    return node.insert(nn.SubOp, [integers, zero]), scale
