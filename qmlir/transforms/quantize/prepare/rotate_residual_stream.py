"""`rotate-residual-stream`: multiplies the channels of residual streams by an orthogonal matrix.

A residual stream is what a chain of sums adds to: a row of an embedding table, and the results of layers. In
transformers a few of its channels are far larger than the others, so that one scale for a row leaves the others few
integers. If all writers of the stream multiply by a matrix Q with Q · Qᵀ = I, and all readers by Qᵀ, the network
computes the same. Q is a Hadamard matrix (numerics/hadamard.py): it spreads each channel evenly over all others.

* Writers are layers, rows of constant tables and added constants. They are multiplied by Q, so writing costs nothing.
* Readers are layers. An RMS normalization may stand before them, since x and x · Q have the same root mean square. Its
  gain, which differs by channel, is folded into the weights of the layers behind first: W · diag(g) · Q.
* A head whose weights are the embedding table T, perhaps times the last gain, has the rotated table T · Q too: it can
  be stored once. Its gain cannot be folded then. It becomes a product with the mean gain m, and a layer for the rest,

      x · m + x · Qᵀ · diag(g − m) · Q

  which has as many weights as channels squared: 1 % of a head of 49,152 words and 576 channels. To rotate behind the
  lookup, and back before the last normalization, would take two such layers, and leave the head an unrotated row: of
  SmolLM2-135M, in rows of 8 bits, 92.8 % of the words stay the float network's then, with the layer for the gain
  96.5 %, with a head of its own 96.9 %, and with Qᵀ · diag(g) · Q as a layer of bytes 90.8 %.

A stream is left as it is if anything else reads or writes it, since a rotation mixes what is read element by element:
a layer normalization (a rotation does not keep the mean), a function, a result or a state of the network.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import (
    AddOp,
    ConstantOp,
    FullyConnectedOp,
    GatherOp,
    LayerNormOp,
    MulOp,
    RMSNormOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.normalization import OverTrailingOp
from qmlir.display import counted
from qmlir.ir.facts import ROTATED
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.rewriting import node_name, set_names, take_over, tensor_name
from qmlir.ir.signature import defined_functions
from qmlir.numerics.blocks import blocks_of_rows
from qmlir.numerics.hadamard import Matrix, block_of, rotation
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array, is_scalable
from qmlir.transforms.quantize.adjust.gained_channels import layers_behind, moves_rows
from qmlir.transforms.quantize.prepare.rotated_layers import (
    InexactError,
    connected,
    note_rotated,
    rename_rotated,
    rotate_read,
    rotate_written,
    set_rotated,
    times,
)


@dataclass(frozen=True)
class RotateResidualStreamPass(ModulePass):
    """Rotates residual streams that only RMS normalizations and layers read, and folds the rotation into weights.

    ```mlir
    %1 = nn.fully_connected %0, %w1 : …
    %2 = nn.add %x, %1 : …
    %3 = nn.rms_norm %2 {axis = 1 : i64, epsilon = 1.0e-05 : f32} : …
    %4 = nn.mul %3, %gain : …
    %5 = nn.fully_connected %4, %w2 : …
    // becomes, with %w1q = Qᵀ · %w1 and %w2q = %w2 · diag(%gain) · Q
    %1 = nn.fully_connected %0, %w1q {qmlir.rotated = "rotated by …"} : …
    %2 = nn.add %x, %1 : …
    %3 = nn.rms_norm %2 {axis = 1 : i64, epsilon = 1.0e-05 : f32} : …
    %4 = nn.fully_connected %3, %w2q : …
    ```
    """

    name = "rotate-residual-stream"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in defined_functions(op):
            for stream in residual_streams(function.body.block):
                stream.rotate()


EQUAL = 1e-5
"""The relative distance of weights that are the same but for float rounding."""

Factors = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """A constant whose rows are rotated: its numbers before and after."""

    before: Array
    after: Array

    def factors_of(self, weights: Array) -> Factors | None:
        """The factor of each channel by which weights are those of the table before; None if they are others."""
        if weights.shape != self.before.shape or weights.ndim != 2:
            return None
        rows = _rows_of_largest(self.before)
        base, own = (a[rows, np.arange(weights.shape[1])].astype(np.float64) for a in (self.before, weights))
        factors: Factors = np.where(base == 0, 1, own / np.where(base == 0, 1, base))
        some = slice(0, None, max(1, len(weights) // 8))  # rejects other weights at once
        blocks = (some, *blocks_of_rows(len(weights)))
        like = all(np.allclose(weights[i], self.before[i] * factors, rtol=EQUAL) for i in blocks)
        return factors if like else None


def _rows_of_largest(table: Array) -> npt.NDArray[np.intp]:
    """The row of the largest magnitude of each column, a few rows at a time: tables are as large as all else."""
    rows, largest = np.zeros(table.shape[1:], np.intp), np.zeros(table.shape[1:], table.dtype)
    for block in blocks_of_rows(len(table)):
        magnitudes = np.abs(table[block])
        greatest = magnitudes.max(axis=0)
        rows = np.where(greatest > largest, magnitudes.argmax(axis=0) + block.start, rows)
        largest = np.maximum(largest, greatest)
    return rows


@dataclass
class Reading:
    """What reads a stream, directly or behind a normalization, and the layers that this ends in.

    gain     the product with a constant for each channel that the layers read; None without
    between  operations that move whole rows to the layers
    layers   the layers
    """

    gain: MulOp | None
    between: list[Operation]
    layers: list[FullyConnectedOp]


@dataclass
class ResidualStream:
    """A residual stream: the tensors that sums connect, and all that writes and reads them.

    width      the number of channels
    values     the tensors
    sums       the sums
    writers    layers that write a tensor
    constants  operations that take rows from a constant, or add it: (operation, place of the constant)
    norms      normalizations that read a tensor
    readings   what reads the tensors
    refusal    why the stream cannot be rotated; empty if it can
    """

    width: int
    values: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    sums: list[AddOp] = field(default_factory=list[AddOp])
    writers: list[FullyConnectedOp] = field(default_factory=list[FullyConnectedOp])
    constants: dict[tuple[Operation, int], None] = field(default_factory=dict[tuple[Operation, int], None])
    norms: list[OverTrailingOp] = field(default_factory=list[OverTrailingOp])
    readings: list[Reading] = field(default_factory=list[Reading])
    refusal: str = ""

    @staticmethod
    def around(value: SSAValue) -> "ResidualStream":
        """Returns the stream that a tensor belongs to."""
        found = ResidualStream(shape_of(value)[-1])
        found.values, found.refusal = connected(value, found._made_of, found._read)
        if found.width % 2:
            found.refusal = found.refusal or f"there is no Hadamard matrix for {found.width} channels"
        return found

    def _made_of(self, value: SSAValue) -> list[SSAValue]:
        """Notes what writes a tensor; returns the tensors of the stream that it is made of."""
        match op := value.owner:
            case AddOp() if _connects(op):
                self.sums.append(op)
                operands = list(enumerate(op.operands))
                if any(shape_of(v)[-1:] != (self.width,) for v in op.operands):
                    raise InexactError(f"{_called(op)} adds a number to all channels")
                self.constants |= dict.fromkeys((op, i) for i, v in operands if constant_array(v) is not None)
                return [v for i, v in operands if (op, i) not in self.constants]
            case FullyConnectedOp() if is_scalable(op) and op.bounds() == (None, None):
                self.writers.append(op)
                return []
            case GatherOp() if op.axis.value.data == 0 and constant_array(op.x) is not None:
                self.constants[op, 0] = None
                return []
            case MulOp() if (data := _scaled(op)) is not None:
                return [data]
            case Operation() if moves_rows(op):
                return [op.operands[0]]
            case Operation():
                raise InexactError(f"{_called(op)} writes it")
            case Block():
                place = value.index if isinstance(value, BlockArgument) else 0
                raise InexactError(f'it begins with the input "{tensor_name(value) or f"input{place}"}"')

    def _read(self, use: Use) -> list[SSAValue]:
        """Notes what reads a tensor; returns the tensors of the stream that this makes."""
        match op := use.operation:
            case AddOp() if _connects(op):
                return [op.y]
            case MulOp() if _scaled(op) is not None:
                return [op.y]
            case RMSNormOp() if op.axis.value.data == len(shape_of(op.x)) - 1:
                self.norms.append(op)
                self.readings += [_reading(u) for u in op.y.uses]
                return []
            case OverTrailingOp():
                self.norms.append(op)
                of_mean = isinstance(op, LayerNormOp)
                what = "subtracts the mean, which a rotation does not keep" if of_mean else "joins several axes"
                raise InexactError(f"{_called(op)} reads it and {what}")
            case FullyConnectedOp() if use.index == 0 and is_scalable(op):
                self.readings.append(Reading(None, [], [op]))
                return []
            case ReturnOp():
                raise InexactError(f'the network returns it, "{tensor_name(op.operands[use.index])}"')
            case _ if use.index == 0 and moves_rows(op):
                return [op.results[0]]
            case _:
                raise InexactError(f"{_called(op)} reads it, not channel by channel weighted")

    def rotate(self) -> None:
        """Rotates the stream, or notes on its sums and normalizations why not."""
        matrix = rotation(self.width)
        if self.refusal or matrix is None:
            note_rotated([*self.sums, *self.norms], f"not rotated: {self.refusal}")
            return
        tables = list[Table]()
        for op, place in self.constants:
            before = constant_array(op.operands[place])
            assert before is not None
            tables.append(Table(before, times(before, matrix)))
            set_rotated(op, place, tables[-1].after)
        for layer in self.writers:
            rotate_written(layer, matrix)
        behind = [op for reading in self.readings for op in _rotate_reading(reading, matrix, tables)]
        operations = dict.fromkeys((*self.writers, *self.sums, *(op for op, _ in self.constants), *self.norms, *behind))
        what = f"rotated with a residual stream of {counted(len(self.sums), 'sum')}"
        note_rotated(operations, f"{what} by a Hadamard matrix of order {block_of(self.width)}")
        rename_rotated([*self.values, *(op.y for op in self.norms)])


def residual_streams(block: Block) -> list[ResidualStream]:
    """The residual streams that normalizations of a float network read and that were not rotated before, in order."""
    found, met = list[ResidualStream](), set[SSAValue]()
    for op in block.ops:
        if isinstance(op, OverTrailingOp) and is_float(op.x) and op.x not in met:
            stream = ResidualStream.around(op.x)
            met.update(stream.values)
            found.append(stream)
    return [s for s in found if s.sums and not any(ROTATED.on(op) for op in s.sums)]


def _rotate_reading(reading: Reading, matrix: Matrix, tables: Sequence[Table]) -> list[Operation]:
    """Makes layers read a rotated stream, and folds the gain before them; returns the layers and what was inserted.

    Args:
        reading: The layers.
        matrix: The rotation.
        tables: The constants whose rows are rotated rows of the stream.
    """
    gain, inserted = np.ones(len(matrix)), list[Operation]()
    if reading.gain is not None:
        gain = gain * _gain(reading.gain)
        take_over(_data(reading.gain), [names_of(reading.gain)])
        reading.gain.y.replace_all_uses_with(_data(reading.gain))
        Rewriter.erase_op(reading.gain)
    rename_rotated(op.results[0] for op in reading.between)
    for layer in reading.layers:
        weights = constant_array(layer.w)
        assert weights is not None
        tied = next(((t, f) for t in tables if (f := t.factors_of(weights)) is not None), None)
        if tied is None:
            rotate_read(layer, matrix, gain)
            continue
        table, factors = tied
        set_rotated(layer, 1, table.after)
        if not np.allclose(gain * factors, 1, rtol=EQUAL, atol=0):
            inserted += _insert_gain(layer, gain * factors, matrix)
    return [*inserted, *reading.layers]


def _insert_gain(layer: FullyConnectedOp, gain: Factors, matrix: Matrix) -> list[Operation]:
    """Multiplies the rotated channels that a layer reads by a gain: x · m + x · Qᵀ · diag(g − m) · Q, m the mean gain.

    A matrix of bytes for the whole product would be coarse, since its diagonal is far larger than the other elements.
    """
    mean = float(gain.mean())
    factor = ConstantOp(np.array([mean], np.float32))
    weights = ConstantOp(((matrix.T * (gain - mean)) @ matrix).astype(np.float32))
    even = MulOp.make([layer.x, factor.y])
    rest = FullyConnectedOp.make([layer.x, weights.y, []])
    whole = AddOp.make([even.y, rest.y])
    name = tensor_name(layer.x) or f"{tensor_name(layer.y)}.data"
    for value, part in ((even.y, "gain.mean"), (rest.y, "gain.rest"), (whole.y, "gained")):
        set_names(value, NameAttr.of((), [f"{name}.{part}"]))
    Rewriter.insert_op([factor, weights, even, rest, whole], InsertPoint.before(layer))
    layer.operands[0] = whole.y
    return [even, rest, whole]


def _reading(use: Use) -> Reading:
    """What reads a normalization's result.

    Raises:
        InexactError: It is something else than layers, perhaps behind a gain.
    """
    op = use.operation
    gain = op if isinstance(op, MulOp) and _is_gain(op) else None
    between, layers = list[Operation](), list[FullyConnectedOp]()
    for each in [use] if gain is None else gain.y.uses:
        found = layers_behind(each)
        if found is None:
            raise InexactError(f"{_called(each.operation)} reads the normalized stream, which no layer weighs there")
        between, layers = [*between, *found[0]], [*layers, *found[1]]
    return Reading(gain, between, layers)


def _connects(op: AddOp) -> bool:
    """Whether a sum is part of a residual stream: of floats, and not clamped."""
    return is_float(op.y) and op.bounds() == (None, None)


def _is_gain(op: MulOp) -> bool:
    """Whether a product multiplies each channel by a constant of its own."""
    shapes = [shape_of(v) for v in op.operands if constant_array(v) is not None]
    if len(shapes) != 1 or op.bounds() != (None, None) or shape_of(_data(op)) != shape_of(op.y):
        return False
    return prod(shapes[0]) in (1, shape_of(op.y)[-1] if shapes[0][-1:] == shape_of(op.y)[-1:] else 1)


def _scaled(op: MulOp) -> SSAValue | None:
    """The tensor that a product multiplies by one constant number; None if it is another product."""
    return _data(op) if _is_gain(op) and _gain(op).size == 1 else None


def _gain(op: MulOp) -> Array:
    """The constant factors of a product, in one dimension."""
    (array,) = (a for v in op.operands if (a := constant_array(v)) is not None)
    return array.reshape(-1)


def _data(op: MulOp) -> SSAValue:
    """The operand of a product with a constant that is not the constant."""
    return op.lhs if constant_array(op.lhs) is None else op.rhs


def _called(op: Operation) -> str:
    return f'{op.name} "{node_name(op)}"'
