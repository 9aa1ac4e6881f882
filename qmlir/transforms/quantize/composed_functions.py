"""Patterns that replace elementwise functions that a quantized model writes as several operators by one operation.

TFLite lacks some functions of nn, so its exporter writes, for data of 16 bits,

    sin(x) / cos(x)                                    nn.tan
    1 / x                                              nn.reciprocal
    x / (1 + |x|)                                      nn.softsign
    max(x, 0) + log(1 + e^−|x|)                        nn.softplus
    x · tanh(softplus(x))                              nn.mish
    max(x, 0) + alpha · elu(min(x, 0))                 nn.elu
    gamma · elu(x)                                     nn.selu
    max(x, 0) + alpha · elu(min(x / alpha, 0))         nn.celu
    max(0, min(1, alpha · x + beta))                   nn.hard_sigmoid
    x where alpha < x, else 0                          nn.thresholded_relu
    x + bias where x < −threshold, x − bias where threshold < x, else 0      nn.shrink

A term describes each form: operations over one argument, with numbers that are given or have a name. The operations
within a term have no ranges of their own and would stay float; the function has a lookup table. So a network that is
exported and read again gives the same bits.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects import nn
from qmlir.dialects.nn.base import Clamped, bound, is_float
from qmlir.dialects.nn.pointwise import UnaryOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import replace
from qmlir.transforms.nn.matching import float_constant_of, keeps_shape, split_constant, used_once

COMMUTES = (nn.AddOp, nn.MulOp, nn.MinimumOp)
"""Operations whose operands may stand in either order in a term."""


@dataclass(frozen=True)
class Argument:
    """The argument of a function: the same value wherever it stands in a term."""


X = Argument()


@dataclass(frozen=True, init=False)
class Call:
    """An operation in a term.

    kind      the class of the operation
    operands  its operands; a number is given by its value, or by a name under which any number is found
    """

    kind: type[Operation]
    operands: "tuple[Term, ...]"

    def __init__(self, kind: type[Operation], *operands: "Term"):
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "operands", operands)


Term: TypeAlias = Argument | Call | float | str


@dataclass(frozen=True)
class Found:
    """A match of a term in a graph.

    x           the argument, once it is known
    numbers     name → number
    operations  the operations of the term, each before its readers
    """

    x: SSAValue | None = None
    numbers: Mapping[str, float] | None = None
    operations: tuple[Operation, ...] = ()

    def number(self, name: str, value: float) -> "Found | None":
        """The match with a number under a name added; None if the name stands for another number already."""
        numbers = self.numbers or {}
        return Found(self.x, {**numbers, name: value}, self.operations) if numbers.get(name, value) == value else None


def matches(value: SSAValue, term: Term, found: Found) -> Iterator[Found]:
    """The ways in which a value matches a term, each added to what is found already."""
    if isinstance(term, Argument):
        if found.x in (None, value):
            yield Found(value, found.numbers, found.operations)
    elif isinstance(term, Call):
        op = value.owner
        if isinstance(op, term.kind) and not _clamps(op) and _alpha_is_one(op):
            yield from _operands_match(op, term, found)
    elif (constant := float_constant_of(value)) is not None and constant.value.array.size == 1:
        number = float(constant.value.array.reshape(()))
        with_it = found.number(term, number) if isinstance(term, str) else found
        if with_it is not None and (isinstance(term, str) or number == term):
            yield with_it


def _operands_match(op: Operation, term: Call, found: Found) -> Iterator[Found]:
    orders = [tuple(op.operands)]
    if term.kind in COMMUTES:
        orders.append(orders[0][::-1])
    for operands in orders:
        ways = [found]
        for operand, inner in zip(operands, term.operands, strict=True):
            ways = [further for way in ways for further in matches(operand, inner, way)]
        for way in ways:
            known = () if op in way.operations else (op,)
            yield Found(way.x, way.numbers, (*way.operations, *known))


def _clamps(op: Operation) -> bool:
    """Whether a clamp is fused to an operation."""
    return isinstance(op, Clamped) and op.bounds() != (None, None)


def _alpha_is_one(op: Operation) -> bool:
    """Whether an operation has alpha 1, as TFLite's ELU has, if it is an ELU."""
    return not isinstance(op, nn.EluOp) or op.alpha.value.data == 1


Numbers = dict[str, float]


def _same(numbers: Numbers) -> Numbers | None:
    """Parameters with the names and the values of the numbers."""
    return numbers


@dataclass(frozen=True)
class NameFunction(RewritePattern):
    """Replaces the operations that match a term by the function that they compute.

    kind        the class of the function
    term        the operations that it is written as
    parameters  gives the function's parameters from the term's numbers; None if no parameters give these numbers
    """

    kind: type[UnaryOp]
    term: Call
    parameters: Callable[[Numbers], Numbers | None] = _same

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, self.term.kind) or not is_float(op.results[0]):
            return
        for found in matches(op.results[0], self.term, Found()):
            parameters = self.parameters(dict(found.numbers or {}))
            if found.x is None or parameters is None or not _is_whole(found, op):
                continue
            properties = {name: bound(value) for name, value in parameters.items()}
            replace(rewriter, op, self.kind.make([found.x], properties), absorbing=found.operations[:-1])
            return


def _is_whole(found: Found, end: Operation) -> bool:
    """Whether only a term's own operations read its inner values, and its result has the shape of the argument."""
    assert found.x is not None
    inner = [o for o in found.operations if o is not end]
    alone = all(use.operation in found.operations for o in inner for r in o.results for use in r.uses)
    return alone and shape_of(end.results[0]) == shape_of(found.x)


def _celu(numbers: Numbers) -> Numbers | None:
    """The parameter alpha, if the other number is its reciprocal in float32; else None."""
    alpha, inverse = numbers["alpha"], numbers["inverse"]
    return {"alpha": alpha} if alpha and float(np.float32(1 / alpha)) == inverse else None


def _shrink(numbers: Numbers) -> Numbers | None:
    """The parameters bias and threshold, if the lower threshold is the negative of the upper; else None."""
    threshold, bias = numbers["threshold"], numbers["bias"]
    return {"bias": bias, "threshold": threshold} if numbers["least"] == -threshold else None


class NameSelu(RewritePattern):
    """gamma · elu(x) → nn.selu(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MulOp, rewriter: PatternRewriter) -> None:
        split = split_constant(op)
        if split is None or split[1].value.array.size != 1 or _clamps(op) or not keeps_shape(op, split[0]):
            return
        elu = split[0].owner
        if isinstance(elu, nn.EluOp) and used_once(elu) and is_float(op.y):
            gamma = float(split[1].value.array.reshape(()))
            selu = nn.SeluOp.make([elu.x], {"alpha": elu.alpha, "gamma": bound(gamma)})
            replace(rewriter, op, selu, absorbing=[elu])


RELU = Call(nn.ReluOp, X)
SOFTPLUS = Call(nn.AddOp, RELU, Call(nn.LogOp, Call(nn.AddOp, Call(nn.ExpOp, Call(nn.NegOp, Call(nn.AbsOp, X))), 1.0)))
ELU = Call(nn.AddOp, RELU, Call(nn.MulOp, Call(nn.EluOp, Call(nn.MinimumOp, X, 0.0)), "alpha"))
CELU_BELOW = Call(nn.EluOp, Call(nn.MinimumOp, Call(nn.MulOp, X, "inverse"), 0.0))
LINE = Call(nn.AddOp, Call(nn.MulOp, X, "alpha"), "beta")
ABOVE = Call(nn.WhereOp, Call(nn.LessOp, "threshold", X), Call(nn.SubOp, X, "bias"), 0.0)
SHRINK = Call(nn.WhereOp, Call(nn.LessOp, X, "least"), Call(nn.AddOp, X, "bias"), ABOVE)

COMPOSED = (
    NameFunction(nn.SoftplusOp, SOFTPLUS),
    NameFunction(nn.EluOp, ELU),
    NameFunction(nn.CeluOp, Call(nn.AddOp, RELU, Call(nn.MulOp, CELU_BELOW, "alpha")), _celu),
    NameFunction(nn.TanOp, Call(nn.DivOp, Call(nn.SinOp, X), Call(nn.CosOp, X))),
    NameFunction(nn.ReciprocalOp, Call(nn.DivOp, 1.0, X)),
    NameFunction(nn.SoftsignOp, Call(nn.DivOp, X, Call(nn.AddOp, Call(nn.AbsOp, X), 1.0))),
    NameFunction(nn.HardSigmoidOp, Call(nn.ReluOp, Call(nn.MinimumOp, LINE, 1.0))),
    NameFunction(nn.ThresholdedReluOp, Call(nn.WhereOp, Call(nn.LessOp, "alpha", X), X, 0.0)),
    NameFunction(nn.ShrinkOp, SHRINK, _shrink),
)
"""Patterns over operations that a model file has."""

OF_COMPOSED = (NameFunction(nn.MishOp, Call(nn.MulOp, X, Call(nn.TanhOp, Call(nn.SoftplusOp, X)))), NameSelu())
"""Patterns over functions, some of which `COMPOSED` must have put together before."""
