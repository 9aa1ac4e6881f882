"""Channels first outside, channels last inside: the transposes around each spatial operation.

ONNX keeps images as [N, C, H, W], nn as [N, H, W, C]. Converters put a transpose before and one after each spatial
operation; a later pass cancels those that meet.
"""

from xdsl.ir import SSAValue

from qmlir.frontends.builder import Node
from qmlir.frontends.values import Value


def channels_last(node: Node, x: Value) -> SSAValue:
    """[N, C, …] → [N, …, C], of any rank."""
    return node.permuted(x, (0, *range(2, node.rank(x)), 1))


def channels_first(node: Node, y: SSAValue) -> SSAValue:
    """[N, …, C] → [N, C, …], of any rank."""
    rank = node.rank(y)
    return node.permuted(y, (0, rank - 1, *range(1, rank - 1)))
