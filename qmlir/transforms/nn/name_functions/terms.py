"""Terms: operations over one argument that together compute a function, and the pattern that names the function."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from qmlir.dialects import nn
from qmlir.dialects.nn.base import Clamped, bound, is_float
from qmlir.dialects.nn.elementwise import UnaryOp
from qmlir.dialects.nn.queries import float_constant_of
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import replace

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
        if isinstance(op, term.kind) and not clamps(op) and _alpha_is_one(op):
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


def clamps(op: Operation) -> bool:
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
    properties  further properties of the function
    """

    kind: type[UnaryOp]
    term: Call
    parameters: Callable[[Numbers], Numbers | None] = _same
    properties: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, self.term.kind) or not is_float(op.results[0]):
            return
        for found in matches(op.results[0], self.term, Found()):
            parameters = self.parameters(dict(found.numbers or {}))
            if found.x is None or parameters is None or not _is_whole(found, op):
                continue
            properties = {**self.properties, **{name: bound(value) for name, value in parameters.items()}}
            replace(rewriter, op, self.kind.make([found.x], properties), absorbing=found.operations[:-1])
            return


def _is_whole(found: Found, end: Operation) -> bool:
    """Whether only a term's own operations read its inner values, and its result has the shape of the argument."""
    assert found.x is not None
    inner = [o for o in found.operations if o is not end]
    alone = all(use.operation in found.operations for o in inner for r in o.results for use in r.uses)
    return alone and shape_of(end.results[0]) == shape_of(found.x)
