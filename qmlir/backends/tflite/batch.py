"""Lets the batch of a TFLite file be any number, if the network keeps the samples of a batch apart.

LiteRT computes the shapes of tensors anew when an input is resized, but not the constants of operators: a RESHAPE to
[1, 64] stays one for a sample. Which constants depend on the batch is seen by writing the network twice, for 2 samples
and for 3 (dialects/batches.py): they are the entries that differ, and each size of a tensor that differs is a multiple
of the batch. Both graphs have the same operators otherwise. An entry that differs becomes LiteRT's spelling of "what is
left", and a graph with anything else that differs keeps its batch.
"""

from collections.abc import Callable

import numpy as np

from qmlir.backends.tflite.graph import Graph, Operator, Tensor
from qmlir.ir.interfaces import Array

REST = -1
"""The size in a RESHAPE or a SLICE that stands for what is left."""

Drawn = tuple[Graph, list[Tensor]]
"""A graph, and the tensors of the outputs."""


class Fixed(Exception):
    """Raised for an operator that cannot leave the batch open; the text says why."""


def with_free_batch(draw: Callable[[int], Drawn]) -> Drawn:
    """Returns the graph of a network whose batch is any number, drawn for 1 sample.

    Args:
        draw: Draws the network for a number of samples.

    Raises:
        Fixed: An operator has the size of the batch in a constant that has no spelling for any size.
    """
    (graph, ends), (other, other_ends) = draw(2), draw(3)
    match = _Match()
    for mine, its in zip((*graph.inputs, *ends), (*other.inputs, *other_ends), strict=True):
        match.tensors(mine, its)
    if len(graph.operators) != len(other.operators):
        raise Fixed("it has other operators for other batches")
    for mine, its in zip(graph.operators, other.operators, strict=True):
        match.operators(mine, its)
    for tensor, its in match.found.items():
        _free(tensor, its)
    return graph, ends


class _Match:
    """The tensors of the graph for 2 samples, and the corresponding tensors of the graph for 3."""

    def __init__(self) -> None:
        self.found: dict[Tensor, Tensor] = {}

    def tensors(self, mine: Tensor, its: Tensor) -> None:
        known = self.found.setdefault(mine, its)
        if known is not its or (mine.data is None) != (its.data is None) or len(mine.shape) != len(its.shape):
            raise Fixed("it has other operators for other batches")

    def operators(self, mine: Operator, its: Operator) -> None:
        if (mine.kind, mine.version, len(mine.inputs)) != (its.kind, its.version, len(its.inputs)):
            raise Fixed("it has other operators for other batches")
        for i, (own, other) in enumerate(zip(mine.inputs, its.inputs, strict=True)):
            if own.data is None or other.data is None:
                self.tensors(own, other)
            elif own.data.shape != other.data.shape or (own.data != other.data).any():
                mine.inputs[i] = _open(mine, i, own, other.data)
        if mine.kind == "RESHAPE":  # its option repeats the constant
            mine.options = {**mine.options, "NewShape": [int(size) for size in _data(mine.inputs[1])]}
        elif mine.options != its.options:
            raise Fixed(f"{mine.kind} has the batch among its options")
        for own, other in zip(mine.outputs, its.outputs, strict=True):
            self.tensors(own, other)


def _data(tensor: Tensor) -> Array:
    assert tensor.data is not None
    return tensor.data


def _open(operator: Operator, place: int, mine: Tensor, its: Array) -> Tensor:
    """Returns a constant that is right for any batch instead of one that is right for 2 samples."""
    sizes = _data(mine).copy()
    differs = np.flatnonzero(sizes != its) if sizes.shape == its.shape else np.zeros(0, np.intp)
    if (operator.kind, place) not in (("RESHAPE", 1), ("SLICE", 2)) or len(differs) != 1:
        raise Fixed(f"{operator.kind} has sizes of the batch in a constant")
    sizes[differs] = REST
    return Tensor(mine.form, mine.wanted, sizes)


def _free(tensor: Tensor, its: Tensor) -> None:
    """Gives a tensor the shape for 1 sample, and marks the axes whose sizes the batch decides."""
    two, three = tensor.shape, its.shape
    tensor.free = frozenset(i for i, (a, b) in enumerate(zip(two, three, strict=True)) if a != b)
    tensor.form = tensor.form.shaped(tuple(2 * a - b for a, b in zip(two, three, strict=True)))
