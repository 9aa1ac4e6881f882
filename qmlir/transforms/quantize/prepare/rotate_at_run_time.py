"""`rotate-at-run-time`: rotates residual streams by transforms at run time, and leaves all weights as they are.

`rotate-residual-stream` folds a rotation into the weights of what writes and reads a stream. Weights whose blocks the
file of the model stores in few bits cannot take it: rounded to as many bits again, a rotated language model loses half
of its answers. So `nn.hadamard` transforms what layers and tables write, in blocks of n neighbouring channels, and
transforms what normalizations give back again, before a layer reads it:

    h = x · H, a stream of rotated rows;   rms_norm(h) · H / √n = rms_norm(x), since H · H = n · I

A rotated row is √n times as large, so epsilon is n times as large, and the gain behind, or a product that is inserted,
is divided by √n. One transform takes n · log n additions, next to the products of the layers nothing.

A table whose rows begin the stream holds no such blocks: as integers it has a scale for each row. So it is multiplied
by H itself, T · H. A head that has the same weights reads rows that are transformed behind the last gain: a few
channels far larger than the others would leave them few of 8 bits.

    (g · x · H / n) · (T · H)ᵀ = g · x · Tᵀ
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, f32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import AddOp, ConstantOp, FullyConnectedOp, HadamardOp, MulOp, RMSNormOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import set_names, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.numerics.blocks import blocks_of_rows
from qmlir.numerics.hadamard import transformed
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array
from qmlir.transforms.quantize.prepare.rotate_products import LEAST, MOST
from qmlir.transforms.quantize.prepare.rotate_residual_stream import (
    EQUAL,
    Reading,
    ResidualStream,
    Table,
    residual_streams,
)
from qmlir.transforms.quantize.prepare.rotated_layers import note_rotated, rename_rotated, set_rotated, times


@dataclass(frozen=True)
class RotateAtRunTimePass(ModulePass):
    """Transforms what is written to residual streams, and transforms their normalizations back before layers read them.

    Constant tables that a stream begins with are multiplied by the transform, and heads of the same weights with them.

    ```mlir
    %1 = nn.fully_connected %0, %w1 : …
    %2 = nn.add %x, %1 : …
    %3 = nn.rms_norm %2 {axis = 1 : i64, epsilon = 1.0e-05 : f32} : …
    %4 = nn.mul %3, %gain : …
    // becomes, with %g = %gain / 8
    %1 = nn.fully_connected %0, %w1 : …
    %h = nn.hadamard %1 {block = 64 : i64} : …
    %2 = nn.add %x, %h : …
    %3 = nn.rms_norm %2 {axis = 1 : i64, epsilon = 6.4e-04 : f32} : …
    %b = nn.hadamard %3 {block = 64 : i64} : …
    %4 = nn.mul %b, %g : …
    ```
    """

    name = "rotate-at-run-time"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for stream in residual_streams(function.body.block):
                _rotate(stream)


def _rotate(stream: ResidualStream) -> None:
    """Rotates a stream, or notes on its sums and normalizations why not."""
    size, norms = min(stream.width & -stream.width, MOST), [o for o in stream.norms if isinstance(o, RMSNormOp)]
    refusal = stream.refusal
    if size < LEAST:
        refusal = refusal or f"its {stream.width} channels have no blocks of {LEAST}, 2 · {LEAST} and so on"
    behind = {id(u.operation) for o in norms for u in o.y.uses}
    if any(reading.gain is None and not behind.intersection(_first(reading)) for reading in stream.readings):
        refusal = refusal or "a layer reads it without a normalization"
    if refusal:
        note_rotated([*stream.sums, *stream.norms], f"not rotated: {refusal}")
        return
    written: list[SSAValue] = [o.y for o in stream.writers]
    for op, place in stream.constants:
        before = constant_array(op.operands[place])
        assert before is not None
        if isinstance(op, AddOp):
            set_rotated(op, place, transformed(before.reshape(-1, size)).reshape(before.shape))
        elif not _rotate_table(op, before, stream, size):
            written.append(op.results[0])
    for value in written:
        _transform(value, size)
    for norm in norms:
        norm.properties["epsilon"] = FloatAttr(norm.epsilon.value.data * size, f32)
        _give_back(norm, size)
    note_rotated(stream.sums, f"rotated at run time in blocks of {size}")
    rename_rotated([*(v for v in stream.values if v not in written), *(o.y for o in norms)])


def _rotate_table(lookup: Operation, before: Array, stream: ResidualStream, size: int) -> bool:
    """Multiplies the table of a lookup, and the same weights of heads, by the transform; False where both stay.

    A head stays that reads rows without a gain, or with a gain for other layers, which would have to hold 1 / n. A
    table stays that would be rounded to larger steps, such as one whose rows are nearly constant.
    """
    table = Table(before, before)
    tied = [(r, [o for o in r.layers if _is_table(o, table)]) for r in stream.readings]
    heads = [(reading, layers) for reading, layers in tied if layers]
    if before.shape[-1] != stream.width or before.ndim != 2 or any(r.gain is None or r.layers != o for r, o in heads):
        return False
    after = times(before, transformed(np.eye(size)))
    if _coarseness(after) > _coarseness(before) * size:
        return False
    set_rotated(lookup, 0, after)
    for reading, layers in heads:
        _rotate_heads(reading, layers, after, size)
    return True


def _coarseness(table: Array) -> float:
    """The mean square of the largest magnitudes of rows, to which the noise of their rounding is proportional."""
    squares = [np.square(np.abs(table[rows]).max(axis=1).astype(np.float64)) for rows in blocks_of_rows(len(table))]
    return float(np.concatenate(squares).mean())


def _is_table(layer: FullyConnectedOp, table: Table) -> bool:
    """Whether the weights of a layer are those of a table."""
    factors = table.factors_of(weights) if (weights := constant_array(layer.w)) is not None else None
    return factors is not None and np.allclose(factors, 1, rtol=EQUAL, atol=0)


def _rotate_heads(reading: Reading, heads: Sequence[FullyConnectedOp], weights: Array, size: int) -> None:
    """Makes heads read transformed rows with the weights of a transformed table, and divides the gain before by n."""
    assert reading.gain is not None
    place = next(i for i, v in enumerate(reading.gain.operands) if constant_array(v) is not None)
    gain = constant_array(reading.gain.operands[place])
    assert gain is not None
    set_rotated(reading.gain, place, gain * np.float32(1 / size))
    for head in heads:
        read = HadamardOp.make([head.x], {"block": IntegerAttr(size, i64)})
        Rewriter.insert_op(read, InsertPoint.before(head))
        if name := tensor_name(head.x):
            set_names(read.y, NameAttr.of((), [f"{name}.rotated"]))
        head.operands[0] = read.y
        set_rotated(head, 1, weights)
    note_rotated(heads, f"reads rows rotated in blocks of {size}")


def _first(reading: object) -> set[int]:
    """The operations that read a stream or its normalization first, of a reading without a gain."""
    return {id(o) for o in (*reading.between[:1], *reading.layers)}  # type: ignore[attr-defined]


def _transform(value: SSAValue, size: int) -> HadamardOp:
    """Makes all readers of a tensor read its transform."""
    made = HadamardOp.make([value], {"block": IntegerAttr(size, i64)})
    assert isinstance(value.owner, Operation)
    Rewriter.insert_op(made, InsertPoint.after(value.owner))
    value.replace_uses_with_if(made.y, lambda use: use.operation is not made)
    if name := tensor_name(value):
        set_names(made.y, NameAttr.of((), [f"{name}.rotated"]))
    return made


def _give_back(norm: RMSNormOp, size: int) -> None:
    """Transforms a normalized row back, and divides it, or the gains behind it, by √size."""
    back = HadamardOp.make([norm.y], {"block": IntegerAttr(size, i64)})
    Rewriter.insert_op(back, InsertPoint.after(norm))
    if name := tensor_name(norm.y):
        set_names(back.y, NameAttr.of((), [f"{name}.back"]))
    share, plain = np.float32(1 / math.sqrt(size)), list[tuple[Operation, int]]()
    for use in [u for u in norm.y.uses if u.operation is not back]:
        op = use.operation
        gain = next((i for i, v in enumerate(op.operands) if constant_array(v) is not None), None)
        if isinstance(op, MulOp) and gain is not None:
            numbers = constant_array(op.operands[gain])
            assert numbers is not None
            set_rotated(op, gain, numbers * share)
            op.operands[use.index] = back.y
        else:
            plain.append((op, use.index))
    if plain:
        factor = ConstantOp(np.full(shape_of(norm.y)[-1:], share, np.float32))
        divided = MulOp.make([back.y, factor.y])
        Rewriter.insert_op([factor, divided], InsertPoint.after(back))
        if name := tensor_name(norm.y):
            set_names(divided.y, NameAttr.of((), [f"{name}.divided"]))
        for op, index in plain:
            op.operands[index] = divided.y
