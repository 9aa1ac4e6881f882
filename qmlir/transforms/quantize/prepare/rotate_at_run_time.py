"""`rotate-at-run-time`: rotates residual streams by transforms at run time, and leaves all weights as they are.

`rotate-residual-stream` folds a rotation into the weights of what writes and reads a stream. Weights whose blocks the
file of the model stores in few bits cannot take it: rounded to as many bits again, a rotated language model loses half
of its answers. So `nn.hadamard` transforms what layers and tables write, in blocks of n neighbouring channels, and
transforms what normalizations give back again, before a layer reads it:

    h = x · H, a stream of rotated rows;   rms_norm(h) · H / √n = rms_norm(x), since H · H = n · I

A rotated row is √n times as large, so epsilon is n times as large, and the gain behind, or a product that is inserted,
is divided by √n. One transform takes n · log n additions, next to the products of the layers nothing.
"""

import math
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, f32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import AddOp, ConstantOp, HadamardOp, MulOp, RMSNormOp
from qmlir.display import counted
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import set_names, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.numerics.hadamard import transformed
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array
from qmlir.transforms.quantize.prepare.rotate_products import LEAST, MOST
from qmlir.transforms.quantize.prepare.rotate_residual_stream import ResidualStream, residual_streams
from qmlir.transforms.quantize.prepare.rotated_layers import note_rotated, rename_rotated, set_rotated


@dataclass(frozen=True)
class RotateAtRunTimePass(ModulePass):
    """Transforms what is written to residual streams, and transforms their normalizations back before layers read them.

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
    written = [*(o.y for o in stream.writers), *(o.results[0] for o, _ in stream.constants if not _adds(o))]
    for value in written:
        _transform(value, size)
    for op, place in stream.constants:
        if _adds(op):
            before = constant_array(op.operands[place])
            assert before is not None
            set_rotated(op, place, transformed(before.reshape(-1, size)).reshape(before.shape))
    for norm in norms:
        norm.properties["epsilon"] = FloatAttr(norm.epsilon.value.data * size, f32)
        _give_back(norm, size)
    what = f"rotated at run time with a residual stream of {counted(len(stream.sums), 'sum')}, in blocks of {size}"
    note_rotated([*stream.sums, *norms], what)
    rename_rotated([*(v for v in stream.values if v not in written), *(o.y for o in norms)])


def _adds(op: Operation) -> bool:
    """Whether an operation adds a constant to a stream, rather than looking rows of it up."""
    return isinstance(op, AddOp)


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
        set_names(back.y, NameAttr.of((), [f"{name}.transformed"]))
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
            set_names(divided.y, NameAttr.of((), [f"{name}.back"]))
        for op, index in plain:
            op.operands[index] = divided.y
