"""What passes that rotate channels share: products of constants with orthogonal matrices, and names of rotated tensors.

A layer y = x · Wᵀ + b that writes rotated channels has Qᵀ · W and b · Q, a layer that reads them W · Q: then

    (x · Q) · (W · Q)ᵀ = x · Wᵀ

All products are computed in f64 and rounded once. A rotated tensor is no tensor of the source model any more: its name
gets the ending `.rotated`, and its source name is among those that its operation has absorbed. Tensors that operations
connect rotate together, or none of them does.
"""

from collections.abc import Callable, Iterable

import numpy as np
from xdsl.ir import Operation, SSAValue, Use

from qmlir.dialects.nn import ConstantOp, FullyConnectedOp
from qmlir.ir.facts import LEVELS, ROTATED
from qmlir.ir.interfaces import Array
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import name_hint, names_of_value, set_names
from qmlir.numerics.blocks import blocks_of_rows
from qmlir.numerics.hadamard import Matrix
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array, set_constant


class InexactError(Exception):
    """Raised where a rotation would not keep what the network computes; its text says why."""


def connected(
    start: SSAValue, made_of: Callable[[SSAValue], list[SSAValue]], read: Callable[[Use], list[SSAValue]]
) -> tuple[dict[SSAValue, None], str]:
    """Returns the tensors that operations connect with one, and why they cannot rotate; empty if they can.

    Args:
        start: One of the tensors.
        made_of: Notes what writes a tensor; returns the tensors that rotate with it. Raises InexactError.
        read: Likewise for an operation that reads it.
    """
    tensors, waiting, refusal = dict[SSAValue, None](), [start], ""
    while waiting:
        if (value := waiting.pop()) in tensors:
            continue
        tensors[value] = None
        try:
            waiting += made_of(value)
            for use in value.uses:
                waiting += read(use)
        except InexactError as why:
            refusal = refusal or str(why)
    return tensors, refusal


def times(rows: Array, matrix: Matrix) -> Array:
    """Returns the products of rows with a square matrix, in f32, as an array that nobody writes to.

    Rows that are longer than the matrix, along the last axis, are multiplied in blocks of its size.
    """
    flat = rows.reshape(-1, len(matrix))
    found = np.empty(flat.shape, np.float32)
    for block in blocks_of_rows(len(flat)):
        found[block] = flat[block].astype(np.float64) @ matrix
    found.flags.writeable = False  # constants that are made of it share its memory
    return found.reshape(rows.shape)


def rotate_written(layer: FullyConnectedOp, matrix: Matrix) -> None:
    """Makes a layer write rotated channels, in blocks of the matrix's size."""
    set_rotated(layer, 1, times(_constant(layer.w).T, matrix).T)
    if layer.b is not None:
        set_rotated(layer, 2, times(_constant(layer.b), matrix))


def rotate_read(layer: FullyConnectedOp, matrix: Matrix, gain: Array | None = None) -> None:
    """Makes a layer read channels rotated in blocks of the matrix's size, which were multiplied by a gain before."""
    weights = _constant(layer.w)
    set_rotated(layer, 1, times(weights if gain is None else weights * gain.astype(np.float64), matrix))


def set_rotated(op: Operation, index: int, array: Array) -> None:
    """Gives an operation a rotated constant as operand `index`, whose numbers follow the old levels no more."""
    old = op.operands[index]
    set_constant(op, index, np.ascontiguousarray(array))
    if isinstance(old.owner, ConstantOp) and not old.uses:
        old.owner.value.data.release()
    made = op.operands[index].owner
    assert isinstance(made, Operation)
    LEVELS.drop(made)


def note_rotated(operations: Iterable[Operation], why: str) -> None:
    """Notes on operations how their channels were rotated, or why they were not, beside what is noted already."""
    for op in operations:
        before = ROTATED.of(op)
        ROTATED.put(op, why if before is None else f"{before}, {why}")


def rename_rotated(values: Iterable[SSAValue]) -> None:
    """Gives rotated tensors names of their own."""
    for value in values:
        names = names_of_value(value)
        tensors = [f"{tensor}.rotated" for tensor in names.tensors if tensor]
        if len(tensors) == 1:
            set_names(value, NameAttr.of([names.nodes], tensors, [names.data.inside, *names.tensors]))
            value.name_hint = name_hint(tensors[0])


def _constant(value: SSAValue) -> Array:
    array = constant_array(value)
    assert array is not None
    return array
