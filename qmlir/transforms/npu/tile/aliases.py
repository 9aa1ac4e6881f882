"""What layers consist of, and which of them compute nothing because their result is a view of another tensor's bytes.

A reshape, or a change of type alone, is a view of all bytes of its input; a slice of image rows is a view of some of
them. The opposite case is a concat of rows: each layer writes its rows directly into the joined tensor, so that the
concat itself copies nothing:

    %2 = npu.layer "expand" (%1) { … }           // rows 0 to 7
    %4 = npu.layer "expand" (%3) { … }           // rows 8 to 15
    %5 = npu.layer "expand" (%2, %4) { nn.concat … {axis = 1} }

A transpose that only products of matrices read is a view as well, whose neighbours along an axis lie further apart. The
result of a product that only a transpose reads is written directly into the transposed tensor, row by row:

    %7 = npu.layer "heads" (%6) { nn.transpose … }               // [rows, heads, columns] → [heads, rows, columns]
    %8 = npu.layer "product" (%7, …) { qint.matmul … qint.requantize … }
    %9 = npu.layer "merged" (%8) { nn.transpose … }              // and back
"""

from collections.abc import Iterable, Iterator
from math import prod

from xdsl.ir import BlockArgument, Operation, SSAValue, Use

from qmlir.devices.model.stored import stored_bytes, stored_dtype, strides_of
from qmlir.dialects import qint
from qmlir.dialects.nn import ConcatOp, SliceOp
from qmlir.dialects.nn.movement import ConstantOp, ReshapeOp, TransposeOp
from qmlir.dialects.npu import LayerOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.traversal import needed_first, reached

ELEMENTWISE = (qint.RequantizeOp, qint.LookupOp, qint.AddOp, qint.MulOp)
"""Operations that compute each element of their result from the same element of their operands."""


ROWS = (qint.SoftmaxOp, qint.LayerNormOp, qint.RMSNormOp)
"""Operations that compute each element of their result from a whole row of their operand."""


def operations_of(layer: LayerOp) -> list[Operation]:
    """The operations of a layer, constants apart."""
    return [op for op in layer.operations() if not isinstance(op, ConstantOp)]


def first_of(layer: LayerOp) -> Operation:
    """The first operation of a layer, constants apart."""
    return operations_of(layer)[0]


def renames(layer: LayerOp) -> bool:
    """Whether the result of a layer is a contiguous view of its input."""
    return begins_at(layer) is not None


def begins_at(layer: LayerOp) -> int | None:
    """Byte offset of a layer's result within its input; None if the result is not a view of the input.

    Rows that the host reads are no view: the host is given whole tensors. Nor are tensors that are transposed, except
    for products of matrices, whose commands read rows and columns anywhere.
    """
    if isinstance(first_of(layer), TransposeOp):
        return 0 if _is_operand(layer) else None
    if isinstance(first_of(layer), SliceOp) and not _layers_read(layer.outputs[0]):
        return None
    return _offset_of_view(layer)


def _offset_of_view(layer: LayerOp) -> int | None:
    """Byte offset of a layer's result within its input, whoever reads it; None if the input has no such bytes."""
    first = first_of(layer)
    if len(layer.inputs) != 1 or len(layer.operations()) > 1:
        return None
    if isinstance(first, ReshapeOp | StorageCastOp):
        return 0
    if not isinstance(first, SliceOp):
        return None
    shape, steps = shape_of(first.x), first.steps()
    axis = next((n for n, (extent, (_, size, _)) in enumerate(zip(shape, steps, strict=True)) if size != extent), 0)
    one_piece = all(stride == 1 for _, _, stride in steps) and prod(shape[:axis]) == 1
    whole_behind = all(size == extent for extent, (_, size, _) in list(zip(shape, steps, strict=True))[axis + 1 :])
    if not (one_piece and whole_behind):
        return None
    return steps[axis][0] * prod(shape[axis + 1 :]) * stored_dtype(first.x).itemsize


def _is_operand(layer: LayerOp) -> bool:
    """Whether only products of matrices read a transposed tensor, of which they find the columns or rows dense."""
    first, value = first_of(layer), layer.outputs[0]
    assert isinstance(first, TransposeOp)
    uses = list(value.uses)
    if len(layer.inputs) != 1 or not uses or not all(isinstance(use.operation, LayerOp) for use in uses):
        return False
    last, sides = len(shape_of(value)) - 1, [use for use in uses for use in _read_as(use)]
    dense = list(first.permutation.get_values()).index(last)
    return all(isinstance(use.operation, qint.MatMulOp) and dense in (last, last - use.index) for use in sides)


def _read_as(use: Use) -> Iterable[Use]:
    """The uses in a layer's body of a value that the layer reads."""
    layer = use.operation
    assert isinstance(layer, LayerOp)
    return layer.block.args[use.index].uses


def read_strides(layer: LayerOp, value: SSAValue) -> tuple[int, ...]:
    """How many elements apart the neighbours along each axis of a tensor are that an operation of a layer reads."""
    outer = layer.inputs[value.index] if isinstance(value, BlockArgument) else value
    maker = outer.owner
    if isinstance(maker, LayerOp) and isinstance(first := first_of(maker), TransposeOp) and renames(maker):
        apart = strides_of(shape_of(first.x))
        return tuple(apart[axis] for axis in first.permutation.get_values())
    return strides_of(shape_of(outer))


def written_strides(layer: LayerOp) -> tuple[int, ...]:
    """How many elements apart the neighbours along each axis of a layer's result are written."""
    value = layer.outputs[0]
    reader = next((use.operation for use in value.uses), None)
    if isinstance(reader, LayerOp) and joins(reader) and isinstance(first := first_of(reader), TransposeOp):
        apart = strides_of(shape_of(first.results[0]))
        order = list(first.permutation.get_values())
        return tuple(apart[order.index(axis)] for axis in range(len(order)))
    return strides_of(shape_of(value))


def joins(layer: LayerOp) -> bool:
    """Whether a layer's inputs are written directly into its result.

    A concat of rows is such a layer if nothing else reads them, and a transpose of matrices behind their product if the
    columns of the matrices stay dense.
    """
    first = first_of(layer)
    if isinstance(first, TransposeOp):
        return _is_transposed_product(layer, first)
    if not isinstance(first, ConcatOp) or len(layer.operations()) > 1 or len(set(layer.inputs)) < len(first.inputs):
        return False
    in_one_piece = prod(shape_of(layer.outputs[0])[: first.axis.value.data]) == 1
    return in_one_piece and all(_is_written_for(value, layer) for value in layer.inputs)


def _is_transposed_product(layer: LayerOp, op: TransposeOp) -> bool:
    """Whether a layer transposes the result of a product of matrices, which nothing else reads."""
    order = list(op.permutation.get_values())
    if len(layer.inputs) != 1 or renames(layer) or order[-1] != len(order) - 1:
        return False
    writer = layer.inputs[0].owner
    is_product = isinstance(writer, LayerOp) and isinstance(first_of(writer), qint.MatMulOp)
    return is_product and layer.inputs[0].has_one_use() and writer.parent is layer.parent


def _is_written_for(value: SSAValue, joined: LayerOp) -> bool:
    """Whether a layer computes a value, and `joined` is the only reader."""
    writer = value.owner
    if not isinstance(writer, LayerOp) or len(list(value.uses)) != 1 or writer.parent is not joined.parent:
        return False
    return not renames(writer) and not isinstance(first_of(writer), ConcatOp) and not joins(writer)


def root_of(value: SSAValue) -> SSAValue:
    """The tensor whose bytes a value has: the value itself, or the tensor of which it is a view."""
    while isinstance(layer := value.owner, LayerOp) and renames(layer):
        value = layer.inputs[0]
    return value


def home_of(value: SSAValue) -> tuple[SSAValue, int]:
    """The tensor into which a layer's result is written (itself, or a concat's result), and the byte offset."""
    reader = next((use.operation for use in value.uses), None)
    if not isinstance(reader, LayerOp) or not joins(reader):
        return value, 0
    before = list(reader.inputs)[: list(reader.inputs).index(value)]
    return reader.outputs[0], sum(stored_bytes(other) for other in before)


def readers(value: SSAValue) -> list[LayerOp]:
    """The layers that read a tensor or a view of it; empty if anything but layers reads it too."""
    if not _layers_read(value):
        return []

    def behind(use: Use) -> Iterable[Use]:
        reader = use.operation
        return reader.outputs[0].uses if isinstance(reader, LayerOp) and renames(reader) else ()

    return [use.operation for use in reached(value.uses, behind) if isinstance(use.operation, LayerOp)]


def _layers_read(value: SSAValue) -> bool:
    """Whether layers read a tensor, and nothing but layers reads it or a view of all of it."""
    known: dict[SSAValue, bool] = {}

    def views(value: SSAValue) -> Iterator[SSAValue]:
        layers = (use.operation for use in value.uses)
        return (o.outputs[0] for o in layers if isinstance(o, LayerOp) and _offset_of_view(o) is not None)

    for each in needed_first([value], views):
        layers = [use.operation for use in each.uses]
        known[each] = bool(layers) and all(
            isinstance(o, LayerOp) and (isinstance(first_of(o), SliceOp) or known.get(o.outputs[0], True))
            for o in layers
        )
    return known[value]
