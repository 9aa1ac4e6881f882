"""The transposes between ONNX's channels-first layout and nn's channels-last layout.

ONNX stores images as [N, C, H, W], nn as [N, H, W, C]. Converters put one transpose before each spatial operation and
one behind it; a later pass cancels transposes that meet.
"""

from xdsl.ir import SSAValue

from qmlir.frontends.builder import Node
from qmlir.frontends.values import Value


def channels_last(node: Node, x: Value) -> SSAValue:
    """Moves the channels to the end: [N, C, …] → [N, …, C], of any rank."""
    return node.permuted(x, (0, *range(2, node.rank(x)), 1))


def channels_first(node: Node, y: SSAValue) -> SSAValue:
    """Moves the channels behind the batch: [N, …, C] → [N, C, …], of any rank."""
    rank = node.rank(y)
    return node.permuted(y, (0, rank - 1, *range(1, rank - 1)))
