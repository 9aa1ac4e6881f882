"""Comparisons, logic, bitwise operations, and Where."""

import numpy as np
from xdsl.dialects.builtin import BoolAttr

from qmlir.dialects.nn.comparison import EqualOp, IsInfOp, IsNaNOp, LessEqualOp, LessOp, WhereOp
from qmlir.dialects.nn.logic import AndOp, NotOp, OrOp, ShiftLeftOp, ShiftRightOp, XorOp
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.values import Value, filled


@converts("Equal", since=7)
def equal(node: Node, a: Value, b: Value) -> Value:
    """y = (a = b)."""
    return node.compute(EqualOp, [a, b])


@converts("Less", since=7)
def less(node: Node, a: Value, b: Value) -> Value:
    """y = (a < b)."""
    return node.compute(LessOp, [a, b])


@converts("LessOrEqual", since=12)
def less_or_equal(node: Node, a: Value, b: Value) -> Value:
    """y = (a ≤ b)."""
    return node.compute(LessEqualOp, [a, b])


@converts("Greater", since=7)
def greater(node: Node, a: Value, b: Value) -> Value:
    """y = (a > b), computed as b < a."""
    return node.compute(LessOp, [b, a])


@converts("GreaterOrEqual", since=12)
def greater_or_equal(node: Node, a: Value, b: Value) -> Value:
    """y = (a ≥ b), computed as b ≤ a."""
    return node.compute(LessEqualOp, [b, a])


@converts("BitwiseAnd", since=18)
@converts("And", since=7)
def both(node: Node, a: Value, b: Value) -> Value:
    """Bitwise or logical AND of a and b."""
    return node.compute(AndOp, [a, b])


@converts("BitwiseOr", since=18)
@converts("Or", since=7)
def either(node: Node, a: Value, b: Value) -> Value:
    """Bitwise or logical OR of a and b."""
    return node.compute(OrOp, [a, b])


@converts("BitwiseXor", since=18)
@converts("Xor", since=7)
def one(node: Node, a: Value, b: Value) -> Value:
    """Bitwise or logical XOR of a and b."""
    return node.compute(XorOp, [a, b])


@converts("BitwiseNot", since=18)
@converts("Not")
def lacking(node: Node, x: Value) -> Value:
    """Bitwise or logical NOT of x."""
    return node.compute(NotOp, [x])


@converts("BitShift", since=11)
def shift(node: Node, x: Value, count: Value, *, direction: str) -> Value:
    """Shifts x by `count` bits to the left or right."""
    if direction not in ("LEFT", "RIGHT"):
        raise node.error("its attribute direction must be LEFT or RIGHT", direction)
    return node.compute(ShiftLeftOp if direction == "LEFT" else ShiftRightOp, [x, count])


@converts("IsNaN", since=9)
def is_nan(node: Node, x: Value) -> Value:
    """Tests whether x is NaN."""
    return node.compute(IsNaNOp, [x])


@converts("IsInf", since=10)
def is_inf(node: Node, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Tests whether x is an infinity of a sign that the attributes select."""
    if not detect_negative and not detect_positive:
        return filled(node.shape(x), np.False_)
    signs = {"negative": detect_negative, "positive": detect_positive}
    return node.compute(IsInfOp, [x], {k: BoolAttr.from_bool(bool(v)) for k, v in signs.items()})


@converts("Where", since=9)
def where(node: Node, condition: Value, x: Value, y: Value) -> Value:
    """Selects x where the condition holds, else y."""
    return node.compute(WhereOp, [condition, x, y])
