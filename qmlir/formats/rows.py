"""Operators of model formats that are one operation of nn, as rows of a table.

The importer converts such an operator by its row, and the exporter writes the operation by the same row. If an import
or an export is more than its row, the importer has a converter or the exporter a form of its own, which takes
precedence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from qmlir.dialects import nn
from qmlir.ir.interfaces import TensorOp

PAIR = ("a", "b")
"""The names of two operands."""


@dataclass(frozen=True)
class Operator:
    """An operator that is one operation on its inputs.

    operation    the operation of nn, which is written as the first operator that has it
    kind         the format's name of the operator
    since        the first operator set with this form of the operator
    inputs       the names of the inputs
    attributes   name of an attribute → the name of the operation's property, and the format's default
    exchanged    whether the operation has the inputs in reverse order
    domain       the domain of the operator; empty for the format's own
    on_integers  whether it computes on quantized tensors, and states the type of its result
    """

    operation: type[TensorOp]
    kind: str
    since: int = 1
    inputs: tuple[str, ...] = ("x",)
    attributes: Mapping[str, tuple[str, bool | int | float]] = field(
        default_factory=dict[str, tuple[str, bool | int | float]]
    )
    exchanged: bool = False
    domain: str = ""
    on_integers: bool = False


# ---------------------------------------------------------------------------------------------------------------
# The six comparisons of numbers, which nn has in three operations, for formats that have an operator for each.


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
