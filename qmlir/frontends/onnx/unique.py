"""Unique: the distinct elements of a tensor, or its distinct slices along an axis.

How many there are, only the data tell (counted.py). Each pair of elements is compared, n² of them, so that every result
follows from operations that there are anyway:

    equal[i, j]  whether elements i and j are equal
    first[i]     the first place with an element equal to element i
    which[i]     how many first places come before that of element i, by place or by value: the index of element i's
                 value among the distinct ones
"""

from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from qmlir.frontends.converters import Table
from qmlir.frontends.counted import Counted
from qmlir.frontends.detection import number_of
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode

converts = Table()


@converts("Unique", since=11)
def unique(node: ONNXNode, x: Value, *, axis: int | None = None, sorted: int = 1) -> tuple[Value, ...]:
    """Returns the distinct elements, or distinct slices along an axis, with indices and counts.

    The further outputs are the first position of each distinct element, the index of the distinct element that each
    element of the input equals, and the number of occurrences of each distinct element. NaNs of a computed tensor
    differ from each other; where they are sorted to is not defined.
    """
    over = None if axis is None else node.axis(axis, node.rank(x))
    if isinstance(x, Constant):
        return _known(x, over, sorted=bool(sorted))
    if over is None:
        x, over = node.reshaped(x, (prod(node.shape(x)),)), 0
    pairs = _Pairs(node, x, over)
    places = pairs.by_value() if sorted else pairs.by_place()
    count = number_of(node, node.builder.ssa(pairs.is_first))
    first = pairs.at_rank(places)
    node.builder.counted[node.builder.ssa(first)] = Counted(0, count)
    own = pairs.do("Gather", x, first, axis=over)
    return own, first, places, pairs.do("Gather", pairs.counts(), first, axis=0)


def _known(x: Constant, axis: int | None, *, sorted: bool) -> tuple[Constant, ...]:
    values, first, which, counts = np.unique(x.array, True, True, True, axis=axis)
    which = which.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, which = first[order], counts[order], np.argsort(order)[which]
    return Constant(values), *(Constant(v.astype(np.int64)) for v in (first, which, counts))


class _Pairs:
    """The elements of a tensor along an axis, n rows of d numbers each, compared with each other."""

    def __init__(self, node: ONNXNode, x: Value, axis: int):
        self.node, shape = node, node.shape(x)
        self.count, self.width = shape[axis], prod(shape[:axis] + shape[axis + 1 :])
        order = [axis, *(i for i in range(len(shape)) if i != axis)]
        rows = node.reshaped(node.moved(x, order), (self.count, self.width))
        self.left, self.right = (
            node.reshaped(rows, s) for s in ((self.count, 1, self.width), (1, self.count, self.width))
        )
        self.range = Constant(np.arange(self.count))
        alike = self.do("Equal", self.left, self.right)  # [n, n, d]
        self.differ = self._number(self.do("Not", alike))
        same = self.do("Not", self._truth(self.do("ReduceMax", self.differ, _axes(2), keepdims=0)))
        self.equal = self._number(self.do("Or", same, Constant(np.eye(self.count, dtype=np.bool_))))  # [n, n]
        self.first = self.do("ArgMax", self.equal, axis=1, keepdims=0)  # [n]
        self.is_first = self.do("Equal", self.first, self.range)

    def do(self, operator: str, *inputs: Value, **attributes: Any) -> Value:
        """Adds an ONNX operator in the place of the node, and returns its output."""
        return self.node.operator(operator, *inputs, **attributes)

    def by_place(self) -> Value:
        """Returns for each element the index of its value among the distinct ones, in the order of their places."""
        before = self.do("CumSum", self._number(self.is_first), Constant(np.array(0)), exclusive=1)
        return self.do("Gather", before, self.first, axis=0)

    def by_value(self) -> Value:
        """Returns for each element the index of its value among the distinct ones, in ascending order."""
        place = self.do("ArgMax", self.differ, axis=2)  # of the first number that differs, [n, n, 1]
        here = self.do("Equal", place, Constant(np.arange(self.width)))
        less = self._number(self.do("And", self.do("Less", self.right, self.left), here))
        smaller = self._truth(self.do("ReduceMax", less, _axes(2), keepdims=0))  # row j is less than row i
        counted = self._number(self.do("And", smaller, self.do("Unsqueeze", self.is_first, _axes(0))))
        return self.do("ReduceSum", counted, _axes(1), keepdims=0)

    def at_rank(self, places: Value) -> Value:
        """Returns the first element with each index among the distinct values; −1 behind the last."""
        wanted = self.node.reshaped(self.range, (self.count, 1))
        has = self._number(self.do("Equal", wanted, self.do("Unsqueeze", places, _axes(0))))
        found = self._truth(self.do("ReduceMax", has, _axes(1), keepdims=0))
        return self.do("Where", found, self.do("ArgMax", has, axis=1, keepdims=0), Constant(np.array(-1)))

    def counts(self) -> Value:
        """Returns how many elements are equal to each element."""
        return self.do("ReduceSum", self.equal, _axes(1), keepdims=0)

    def _number(self, truth: Value) -> Value:
        return self.do("Cast", truth, to=TensorProto.INT64)

    def _truth(self, number: Value) -> Value:
        return self.do("Cast", number, to=TensorProto.BOOL)


def _axes(axis: int) -> Constant:
    return Constant(np.array([axis]))
