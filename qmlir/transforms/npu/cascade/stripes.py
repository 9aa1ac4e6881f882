"""Striping: splits consecutive layers into stripes of rows of the last result.

A stripe passes through all the layers before the next stripe begins. The tensor between two layers is then only as
large as a stripe, and can stay inside the device although the whole tensor could not. A window reads rows beside its
own, so that some rows are computed for two stripes.

    %2 = npu.layer "expand" (%1) { … }           // 16 rows
    %3 = npu.layer "reduce" (%2) { … }           // 16 rows, a window of 3 rows
    // becomes
    %a = npu.layer "expand" (%1) { nn.slice … }  // rows 0 to 8
    %b = npu.layer "expand" (%a) { … }           // rows 0 to 8
    %c = npu.layer "reduce" (%b) { … }           // rows 0 to 7
    %d = npu.layer "expand" (%1) { nn.slice … }  // rows 7 to 15
    %e = npu.layer "expand" (%d) { … }           // rows 7 to 15
    %f = npu.layer "reduce" (%e) { … }           // rows 8 to 15
    %3 = npu.layer "reduce" (%c, %f) { nn.concat … }
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from qmlir.dialects import qint
from qmlir.dialects.nn import ConcatOp, SliceOp
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.dialects.npu.layers import YieldOp
from qmlir.dialects.windows import WindowOp, ints
from qmlir.ir.fact import restated
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.npu.tile.aliases import ELEMENTWISE, first_of, operations_of, readers

WINDOWED = (qint.Conv2DOp, qint.DepthwiseConv2DOp, qint.MaxPool2DOp, qint.AveragePool2DOp)
"""Operations that compute each row of their result from a few neighbouring rows of their operand."""


Step = LayerOp | HostOp
"""A layer on the device or a part on the host; steps run one after the other."""


@dataclass(frozen=True)
class StripedLayers:
    """Consecutive layers, split into stripes.

    layers   for each stripe, the layers that compute it, in order
    renamed  for each stripe, the slice layers that select rows of other tensors
    joined   the layer that concatenates the stripes to the whole result
    """

    layers: Sequence[Sequence[LayerOp]]
    renamed: Sequence[Sequence[LayerOp]]
    joined: LayerOp

    @property
    def operations(self) -> list[LayerOp]:
        """All layers of the stripes, in order, and the concat behind them."""
        stripes = zip(self.renamed, self.layers, strict=True)
        return [*(op for renamed, layers in stripes for op in (*renamed, *layers)), self.joined]

    def instead_of(self, layers: Sequence[LayerOp], steps: Sequence[Step]) -> list[Step]:
        """The schedule with the original layers replaced by their stripes."""
        first = list(steps).index(layers[0])
        return [*steps[:first], *self.operations, *steps[first + len(layers) :]]

    def put(self, layers: Sequence[LayerOp]) -> None:
        """Inserts the stripes into the block in place of the original layers, which are erased."""
        block, whole = layers[-1].parent, layers[-1].outputs[0]
        assert block is not None
        block.insert_ops_before(self.operations, layers[-1])
        whole.replace_all_uses_with(self.joined.outputs[0])
        for layer in reversed(layers):
            layer.detach()
            layer.erase()

    def erase(self) -> None:
        """Erases the stripes, which are in no block, so that tensors no longer have them as users."""
        for op in reversed(self.operations):
            op.erase()


def can_split(layer: LayerOp) -> bool:
    """Whether rows of a layer's result can be computed from rows of its inputs."""
    shape = shape_of(layer.outputs[0])
    if len(shape) != 4 or shape[0] != 1 or shape[1] < 2:
        return False
    first, *rest = operations_of(layer)
    if not isinstance(first, WINDOWED + ELEMENTWISE) or not all(isinstance(op, ELEMENTWISE) for op in rest):
        return False
    elementwise = rest if isinstance(first, WINDOWED) else [first, *rest]
    if any(shape_of(v) != shape or isinstance(v.owner, ConstantOp) for op in elementwise for v in op.operands):
        return False
    edges = (range(1), range(shape[1] - 1, shape[1]))
    return all(len(rows) > 0 for edge in edges for rows in rows_read(layer, edge))


def hands_on(layer: LayerOp, following: LayerOp) -> bool:
    """Whether the next layer is the only reader of a layer's result, and reads it once."""
    return readers(layer.outputs[0]) == [following] and list(following.inputs).count(layer.outputs[0]) == 1


def runs(steps: Sequence[Step]) -> Iterator[list[LayerOp]]:
    """Yields the first two, three, … layers of a schedule while each can be split and only the next reads it."""
    layers: list[LayerOp] = []
    for step in steps:
        if not isinstance(step, LayerOp) or not can_split(step) or (layers and not hands_on(layers[-1], step)):
            return
        layers.append(step)
        if len(layers) > 1:
            yield [*layers]


def rows_read(layer: LayerOp, rows: range) -> list[range]:
    """For each input of a layer, the rows that are needed to compute some rows of its result."""
    first = first_of(layer)
    if not isinstance(first, WINDOWED):
        return [rows for _ in layer.inputs]
    start, end = _window(first, rows)
    seen = range(max(start, 0), min(end, shape_of(first.x)[1]))
    return [seen if argument is first.x else rows for argument in layer.block.args]


def rows_of(layers: Sequence[LayerOp], rows: range) -> list[range]:
    """For each of several consecutive layers, the rows of its result that some rows of the last result need."""
    wanted = [rows]
    for before, layer in zip(layers[-2::-1], layers[:0:-1], strict=True):
        place = list(layer.inputs).index(before.outputs[0])
        wanted.insert(0, rows_read(layer, wanted[0])[place])
    return wanted


def split(layers: Sequence[LayerOp], rows: int) -> StripedLayers:
    """Splits consecutive layers into stripes of `rows` rows of the last result.

    The original layers are not changed, and their readers still read them.

    Args:
        layers: Layers of which each but the last is read by the next layer only.
        rows: Rows of the last result in a stripe; the last stripe may have fewer.
    """
    total = shape_of(layers[-1].outputs[0])[1]
    made = [_stripe(layers, range(first, min(first + rows, total))) for first in range(0, total, rows)]
    ends = [computed[-1].outputs[0] for _, computed in made]
    whole = layers[-1].outputs[0]
    joined = _alias(layers[-1], ends, ConcatOp, {"axis": IntegerAttr(1, i64)}, whole.type)
    joined.outputs[0].name_hint = whole.name_hint
    return StripedLayers([computed for _, computed in made], [renamed for renamed, _ in made], joined)


def _stripe(layers: Sequence[LayerOp], rows: range) -> tuple[list[LayerOp], list[LayerOp]]:
    """The slice layers and the computing layers of the stripe with the given rows of the last result."""
    renamed: list[LayerOp] = []
    computed: list[LayerOp] = []
    for number, (layer, some) in enumerate(zip(layers, rows_of(layers, rows), strict=True)):
        inputs: list[SSAValue] = []
        for value, seen in zip(layer.inputs, rows_read(layer, some), strict=True):
            if number and value is layers[number - 1].outputs[0]:
                inputs.append(computed[-1].outputs[0])
            elif len(seen) == shape_of(value)[1]:
                inputs.append(value)
            else:
                renamed.append(_rows(layer, value, seen))
                inputs.append(renamed[-1].outputs[0])
        computed.append(_part(layer, some, inputs))
    return renamed, computed


def _rows(layer: LayerOp, value: SSAValue, rows: range) -> LayerOp:
    """A layer that slices some rows of a value that `layer` reads."""
    _, _, columns, channels = shape_of(value)
    taken = {
        "offsets": ints([0, rows.start, 0, 0]), "sizes": ints([1, len(rows), columns, channels]),
        "strides": ints([1, 1, 1, 1]),
    }  # fmt: skip
    return _alias(layer, [value], SliceOp, taken, _of_rows(value, len(rows)))


def _part(layer: LayerOp, rows: range, inputs: Sequence[SSAValue]) -> LayerOp:
    """A copy of a layer that computes only some rows of its result."""
    block = Block(arg_types=[value.type for value in inputs])
    values: dict[SSAValue, SSAValue] = dict(zip(layer.block.args, block.args, strict=True))
    for op in layer.operations():
        if isinstance(op, ConstantOp):
            made: Operation = op.clone()
        else:
            made = type(op).create(
                operands=[values[operand] for operand in op.operands],
                result_types=[_of_rows(result, len(rows)) for result in op.results],
                properties=op.properties | _padding(op, rows),
                attributes=restated(op),
            )
        block.add_op(made)
        values.update(zip(op.results, made.results, strict=True))
    block.add_op(YieldOp([values[value] for value in layer.yielded]))
    types = [_of_rows(value, len(rows)) for value in layer.outputs]
    return LayerOp(layer.label.data, inputs, types, Region(block))


def _padding(op: Operation, rows: range) -> dict[str, Attribute]:
    """The padding of an operation that computes only some rows of its result; empty if it has no window."""
    if not isinstance(op, WINDOWED):
        return {}
    start, end = _window(op, rows)
    _, _, left, right = op.padding_values()
    return {"padding": ints([max(-start, 0), max(end - shape_of(op.x)[1], 0), left, right])}


def _window(op: WindowOp, rows: range) -> tuple[int, int]:
    """The rows that windows cover for some rows of the result, as [first, end); padding rows lie outside the input."""
    extent = shape_of(op.w)[1] if isinstance(op, qint.Conv2DOp | qint.DepthwiseConv2DOp) else _extent(op)
    stride, before = op.stride_values()[0], op.padding_values()[0]
    return rows.start * stride - before, (rows.stop - 1) * stride - before + (extent - 1) * op.dilation_values()[0] + 1


def _extent(op: WindowOp) -> int:
    assert isinstance(op, qint.MaxPool2DOp | qint.AveragePool2DOp)
    return op.window_values()[0]


def _alias(
    layer: LayerOp,
    inputs: Sequence[SSAValue],
    kind: type[Operation],
    properties: Mapping[str, Attribute],
    type: Attribute,
) -> LayerOp:
    """A layer with a single operation that only gives bytes another name."""
    block = Block(arg_types=[value.type for value in inputs])
    op = kind.create(operands=list(block.args), result_types=[type], properties=properties)
    block.add_ops([op, YieldOp(op.results)])
    return LayerOp(layer.label.data, inputs, [type], Region(block))


def _of_rows(value: SSAValue, rows: int) -> TensorType[Attribute]:
    """The type of a tensor with another number of rows."""
    images, _, columns, channels = shape_of(value)
    whole = cast(TensorType[Attribute], value.type)
    return TensorType(whole.element_type, [images, rows, columns, channels], whole.encoding)
