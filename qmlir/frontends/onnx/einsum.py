"""Einsum as transposes, sums, products and matrix products of two operands at a time.

Every dimension has a label: its letter, or for a dimension of an ellipsis its position from the end. Each operand is
first reduced by itself: a repeated label becomes a diagonal, and a label that neither another operand nor the result
has is summed over. Then two operands at a time are multiplied, and the role of a dimension follows from its label:

    label of both operands, needed later       a batch dimension of the matrix product, or a common dimension
    label of both operands, not needed later   summed over by the matrix product
    label of one operand                       a row or a column dimension
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from math import prod

from xdsl.ir import SSAValue

from qmlir.dialects.nn.contraction import FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.elementwise import MulOp
from qmlir.dialects.nn.reduction import ReduceSumOp
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.windows import sliced

converts = Table()

Label = str
"""A dimension's label: a letter, or `.0`, `.1`, … for the dimensions of an ellipsis, counted from the last."""


@dataclass(frozen=True)
class Term:
    """An operand or a product of operands, with the label of each dimension."""

    value: Value
    labels: tuple[Label, ...]


@converts("Einsum")
def einsum(node: ONNXNode, *inputs: Value, equation: str) -> Value:
    """Multiplies the operands and sums over all labels that the result lacks."""
    terms, result = _parsed(node, equation, inputs)
    sizes = _sizes(node, terms)
    if missing := [label for label in result if label not in sizes]:
        raise node.error("its result must have labels of its operands", missing[0])
    terms = [_without_repeated(node, t) for t in terms]
    terms = [
        _squeezed(node, t, [x for x in t.labels if node.shape(t.value)[t.labels.index(x)] != sizes[x]]) for t in terms
    ]
    parts = count()
    first, *others = terms
    for index, other in enumerate(others):
        needed = {*result, *(label for t in others[index + 1 :] for label in t.labels)}
        lhs = _summed(node, first, needed | set(other.labels), f"sum{next(parts)}")
        rhs = _summed(node, other, needed | set(first.labels), f"sum{next(parts)}")
        last = index == len(others) - 1
        first = _product(node, lhs, rhs, needed, None if last else f"product{index}")
    if not others:
        first = _summed(node, first, set(result), None)
    return node.permuted(first.value, [first.labels.index(label) for label in result])


def _parsed(node: ONNXNode, equation: str, inputs: Sequence[Value]) -> tuple[list[Term], tuple[Label, ...]]:
    """Returns the operands with their labels, and the result's labels.

    Raises:
        NodeError: The equation is malformed, or does not fit the operands.
    """
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    written = left.split(",")
    word = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
    if len(written) != len(inputs) or not all(re.fullmatch(word, part) for part in (*written, right)):
        raise node.error(f"its equation must have a term for each of its {len(inputs)} operands", equation)
    terms: list[Term] = []
    for value, part in zip(inputs, written, strict=True):
        spread = node.rank(value) - len(part.replace("...", ""))
        if spread < 0 or (spread and "..." not in part):
            raise node.error(f'the term "{part}" must name {node.rank(value)} dimensions', equation)
        terms.append(Term(value, _labels(part, spread)))
    spread = max((len([x for x in t.labels if len(x) > 1]) for t in terms), default=0)
    if not arrow:
        letters = left.replace("...", "").replace(",", "")
        right = "..." * bool(spread) + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    elif "..." not in right:
        spread = 0
    result = _labels(right, spread)
    if len(set(result)) != len(result):
        raise node.error("its result must have each label once", equation)
    return terms, result


def _labels(part: str, spread: int) -> tuple[Label, ...]:
    """Returns the labels of a term whose ellipsis stands for `spread` dimensions."""
    before, dots, after = part.partition("...")
    return (*before, *(f".{i}" for i in reversed(range(spread)) if dots), *after)


def _sizes(node: ONNXNode, terms: Sequence[Term]) -> dict[Label, int]:
    """Returns the size of each label; a dimension of size 1 broadcasts.

    Raises:
        NodeError: Two dimensions with the same label have different sizes.
    """
    sizes: dict[Label, int] = {}
    for term in terms:
        for label, size in zip(term.labels, node.shape(term.value), strict=True):
            if {size, sizes.get(label, size)} - {1, max(size, sizes.get(label, size))}:
                raise node.error(f'dimensions with the label "{label}" must be equal', f"{size} and {sizes.get(label)}")
            sizes[label] = max(size, sizes.get(label, 1))
    return sizes


def _without_repeated(node: ONNXNode, term: Term) -> Term:
    """Takes the diagonal along each label that a term has more than once."""
    value, labels = term.value, list(term.labels)
    while repeated := next((x for x in labels if labels.count(x) > 1), None):
        i, j = [at for at, label in enumerate(labels) if label == repeated][:2]
        rest = [at for at in range(len(labels)) if at not in (i, j)]
        shape = node.shape(value)
        if shape[i] != shape[j]:
            raise node.error(f'dimensions with the label "{repeated}" must be equal', f"{shape[i]} and {shape[j]}")
        others = [shape[at] for at in rest]
        flat = node.reshaped(node.moved(value, (*rest, i, j)), (*others, shape[i] * shape[j]))
        steps = [*(1 for _ in rest), shape[i] + 1]
        value = sliced(node, node.builder.ssa(flat), [0] * (len(rest) + 1), [*others, shape[i]], steps)
        labels = [*(labels[at] for at in rest), repeated]
    return Term(value, tuple(labels))


def _squeezed(node: ONNXNode, term: Term, labels: Sequence[Label]) -> Term:
    """Drops dimensions of size 1 from a term."""
    if not labels:
        return term
    kept = [at for at, label in enumerate(term.labels) if label not in labels]
    shape = node.shape(term.value)
    return Term(node.reshaped(term.value, [shape[at] for at in kept]), tuple(term.labels[at] for at in kept))


def _summed(node: ONNXNode, term: Term, needed: set[Label], part: str | None) -> Term:
    """Sums a term over the labels that are not in `needed`."""
    gone = [label for label in term.labels if label not in needed]
    if not gone:
        return term
    axes = [at for at, label in enumerate(term.labels) if label in gone]
    value = node.compute(ReduceSumOp, [term.value], {"axes": axes}, part=part)
    return _squeezed(node, Term(value, term.labels), gone)


def _product(node: ONNXNode, lhs: Term, rhs: Term, needed: set[Label], part: str | None) -> Term:
    """Multiplies two terms and sums over their common labels that are not in `needed`."""
    both = [label for label in lhs.labels if label in rhs.labels]
    batch, along = [x for x in both if x in needed], [x for x in both if x not in needed]
    rows, columns = ([x for x in t.labels if x not in both] for t in (lhs, rhs))
    size = {x: n for t in (lhs, rhs) for x, n in zip(t.labels, node.shape(t.value), strict=True)}

    def arranged(term: Term, *groups: list[Label]) -> Value:
        order = [x for group in groups for x in group]
        return node.moved(term.value, [term.labels.index(x) for x in order])

    def sizes(labels: Sequence[Label]) -> list[int]:
        return [size[x] for x in labels]

    labels = (*batch, *rows, *columns)
    if not along:
        wide = node.reshaped(arranged(lhs, batch, rows), [*sizes(batch), *sizes(rows), *(1 for _ in columns)])
        tall = node.reshaped(arranged(rhs, batch, columns), [*sizes(batch), *(1 for _ in rows), *sizes(columns)])
        return Term(node.compute(MulOp, [wide, tall], part=part), labels)
    m, k, n = (prod(sizes(group)) for group in (rows, along, columns))
    left = node.reshaped(arranged(lhs, batch, rows, along), [*sizes(batch), m, k])
    if isinstance(rhs.value, Constant) and not batch:
        weights = node.reshaped(arranged(rhs, columns, along), [n, k])
        y: SSAValue = node.compute(FullyConnectedOp, [left, weights, None], part=part)
    else:
        right = node.reshaped(arranged(rhs, batch, along, columns), [*sizes(batch), k, n])
        y = node.compute(MatMulOp, [left, right], part=part)
    return Term(node.reshaped(y, sizes(labels)), labels)
