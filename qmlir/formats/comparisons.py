"""The six comparisons of numbers, which nn has in three operations, for formats that have an operator for each."""

from collections.abc import Mapping
from typing import NamedTuple

from qmlir.dialects import nn
from qmlir.ir.interfaces import TensorOp


class Comparison(NamedTuple):
    """A comparison in nn: the operation, whether its operands are exchanged, and whether its result is negated."""

    operation: type[TensorOp]
    exchanged: bool = False
    negated: bool = False


ALL = (
    Comparison(nn.EqualOp),
    Comparison(nn.EqualOp, negated=True),
    Comparison(nn.LessOp),
    Comparison(nn.LessEqualOp),
    Comparison(nn.LessOp, exchanged=True),
    Comparison(nn.LessEqualOp, exchanged=True),
)
"""a = b, a ≠ b, a < b, a ≤ b, a > b and a ≥ b."""


def comparisons(*operators: str) -> Mapping[str, Comparison]:
    """Returns the comparison that each of a format's operators is; the operators are given in the order of `ALL`."""
    return dict(zip(operators, ALL, strict=True))
