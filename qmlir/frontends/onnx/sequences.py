"""Sequences of tensors and optional tensors, which are resolved at import.

A sequence is a list of tensors whose length is known; an optional tensor is the tensor itself, or `Absent`. Neither
enters the IR: what reads a sequence reads its tensors. A sequence that the model returns becomes one result for each of
its tensors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from xdsl.ir import OpResult

from qmlir.dialects.nn.movement import SliceOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Array, Constant, Value
from qmlir.frontends.onnx.movement import slice_properties
from qmlir.frontends.onnx.node import ONNXNode

converts = Table()

UNBOUND = "its parts lose their axis, as in onnxruntime; ONNX keeps it where a split is given"
"""What the ledger says of the parts of a SplitToSequence with a split and without keepdims."""


class Listed(Constant):
    """A sequence of tensors; it has no values of its own, so that converters of tensors refuse it."""

    def __init__(self, items: Sequence[Value]):
        self.items, self.name = tuple(items), ""

    @property
    def array(self) -> Array:
        raise UnsupportedError("it is a sequence of tensors, and not a tensor")


class Absent(Constant):
    """An optional tensor or sequence that is not there."""

    def __init__(self) -> None:
        self.name = ""

    @property
    def array(self) -> Array:
        raise UnsupportedError("it is an optional tensor that is not there")


def _items(node: ONNXNode, sequence: Value) -> tuple[Value, ...]:
    if not isinstance(sequence, Listed):
        raise node.error("it must read a sequence", "a tensor")
    return sequence.items


def _place(node: ONNXNode, position: Value, count: int) -> int:
    """Returns a position in [−count, count), counted from the front."""
    (place,) = node.ints(position, "position")
    if not -count <= place < count:
        raise node.error(f"its position must lie in [{-count}, {count})", str(place))
    return place % count


# ---------------------------------------------------------------------------------------------------------------
# Sequences


@converts("SequenceConstruct", since=11)
def construct(node: ONNXNode, *inputs: Value) -> Value:
    """Returns a sequence of the inputs."""
    return Listed(inputs)


@converts("SequenceEmpty", since=11)
def empty(node: ONNXNode, *, dtype: int = onnx.TensorProto.FLOAT) -> Value:
    """Returns a sequence without tensors, of which `dtype` would be the element type."""
    return Listed(())


@converts("SequenceAt", since=11)
def at(node: ONNXNode, sequence: Value, position: Value) -> Value:
    """Returns the tensor at a position, which counts from the end if it is negative."""
    items = _items(node, sequence)
    return items[_place(node, position, len(items))]


@converts("SequenceInsert", since=11)
def insert(node: ONNXNode, sequence: Value, tensor: Value, position: Value | None = None) -> Value:
    """Returns the sequence with one more tensor before a position, or at its end."""
    items = list(_items(node, sequence))
    if position is None:
        return Listed([*items, tensor])
    (place,) = node.ints(position, "position")
    if not -len(items) <= place <= len(items):
        raise node.error(f"its position must lie in [{-len(items)}, {len(items)}]", str(place))
    items.insert(place, tensor)
    return Listed(items)


@converts("SequenceErase", since=11)
def erase(node: ONNXNode, sequence: Value, position: Value | None = None) -> Value:
    """Returns the sequence without the tensor at a position, or without its last."""
    items = list(_items(node, sequence))
    del items[_place(node, Constant(np.array(-1)) if position is None else position, len(items))]
    return Listed(items)


@converts("SequenceLength", since=11)
def length(node: ONNXNode, sequence: Value) -> Value:
    """Returns the number of tensors."""
    return Constant(np.array(len(_items(node, sequence)), np.int64))


@converts("ConcatFromSequence", since=11)
def concat(node: ONNXNode, sequence: Value, *, axis: int, new_axis: int = 0) -> Value:
    """Joins the tensors along an axis, or stacks them along a new one."""
    parts = list(_items(node, sequence))
    if not parts:
        raise node.error("it must join one tensor or more", "an empty sequence")
    if new_axis:
        axes = Constant(np.array([axis], np.int64))
        parts = [node.operator("Unsqueeze", part, axes, since=13) for part in parts]
    return node.operator("Concat", *parts, since=13, axis=axis)


@converts("SplitToSequence", since=11)
def split(node: ONNXNode, x: Value, split: Value | None = None, *, axis: int = 0, keepdims: int = 1) -> Value:
    """Splits x along an axis into parts of given sizes, of one size but for the last, or of 1.

    Parts of 1 lose the axis if `keepdims` is 0 and no sizes are given. ONNX keeps it where one size is given, even if
    that is 1. onnxruntime drops it, and PyTorch's exporter counts on that: so it writes `x.unbind()`.
    """
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    sizes = _sizes(node, shape[axis], split)
    counted = split is not None and node.rank(split) == 0
    drops = not keepdims and (split is None or (counted and all(size == 1 for size in sizes)))
    parts, first = list[Value](), 0
    for size in sizes:
        steps = [(0, n, 1) for n in shape]
        steps[axis] = first, size, 1
        if isinstance(x, Constant):
            part: Value = Constant(x.array[tuple(slice(a, a + n) for a, n, _ in steps)])
        else:
            part = node.insert(SliceOp, [x], slice_properties(steps))
        if drops:
            part = node.reshaped(part, [*shape[:axis], *shape[axis + 1 :]])
        if drops and counted and isinstance(part, OpResult):
            node.builder.remarked[part] = UNBOUND
        parts.append(part)
        first += size
    return Listed(parts)


def _sizes(node: ONNXNode, whole: int, split: Value | None) -> Sequence[int]:
    """Returns the sizes of the parts of a dimension."""
    if split is None:
        return (1,) * whole
    sizes = node.ints(split, "split")
    if node.rank(split) == 0:
        (each,) = sizes
        if each < 1:
            raise node.error("its split must be positive", str(each))
        return [min(each, whole - first) for first in range(0, whole, each)]
    if sum(sizes) != whole or min(sizes, default=0) < 0:
        # The dimension may be a symbolic one that is bound to another size than the parts are for.
        raise UnsupportedError(f"its parts {list(sizes)} do not add up to {whole}")
    return sizes


@converts("SequenceMap", since=17)
def mapped(node: ONNXNode, sequence: Value, *others: Value, body: onnx.GraphProto) -> tuple[Value, ...]:
    """Runs a body for each tensor of a sequence, and returns a sequence of each of its results.

    Further sequences are read tensor by tensor beside the first, further tensors in every run.
    """
    items = _items(node, sequence)
    every = [other.items if isinstance(other, Listed) else (other,) * len(items) for other in others]
    if any(len(each) != len(items) for each in every):
        raise node.error(f"its sequences must have {len(items)} tensors", [len(each) for each in every])
    runs = [node.run(body, [item, *(each[run] for each in every)], f"{run}.") for run, item in enumerate(items)]
    return tuple(Listed([outputs[i] for outputs in runs]) for i in range(len(body.output)))


# ---------------------------------------------------------------------------------------------------------------
# Optional tensors and sequences


@converts("Optional", since=15)
def optional(node: ONNXNode, x: Value | None = None, *, type: Any = None) -> Value:
    """Returns x, or what is not there; `type` would be its type."""
    return Absent() if x is None else x


@converts("OptionalHasElement", since=15)
def has_element(node: ONNXNode, x: Value | None = None) -> Value:
    """Returns whether an optional tensor or sequence is there."""
    return Constant(np.array(x is not None and not isinstance(x, Absent)))


@converts("OptionalGetElement", since=15)
def get_element(node: ONNXNode, x: Value) -> Value:
    """Returns an optional tensor or sequence, which must be there."""
    if isinstance(x, Absent):
        raise node.error("its optional input must be there", "none")
    return x
