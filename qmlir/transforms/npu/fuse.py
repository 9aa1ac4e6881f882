"""The pass `npu-fuse`: merges elementwise layers into the layer whose result they read.

Enters and leaves: functions of `npu.layer` and `npu.host`. A merged operation runs tile by tile on sums that just left
the array: the residual sum of a block, for example, does not travel to the external memory and back. A layer is merged
only if it is the only reader of the result, if it keeps every element at its position, if the smallest tile of the
merged layer fits the memories, and if the device's encoder does not refuse the merged layer.
"""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.devices import Device
from qmlir.devices.legality.fitting import beyond_memories
from qmlir.devices.legality.limits import beyond_layer
from qmlir.devices.model.module import device_of
from qmlir.dialects import qint
from qmlir.dialects.npu.layers import LayerOp, YieldOp
from qmlir.dialects.qint.contraction import ContractionOp
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.npu.tile.aliases import ELEMENTWISE, operations_of

FIRST = (ContractionOp, qint.GlobalSumPoolOp, *ELEMENTWISE)
"""Operations with which a chain of elementwise operations may begin."""


class NPUFusePass(ModulePass):
    """Merges elementwise layers into the layer before them, so that they run tile by tile behind it.

    ```mlir
    %1 = npu.layer "conv2" (%0) { … qint.conv2d … qint.requantize … }
    %2 = npu.layer "add" (%0, %1) { … qint.add … }
    // becomes
    %2 = npu.layer "conv2, add" (%0, %0) { … qint.conv2d … qint.requantize … qint.add … }
    ```
    """

    name = "npu-fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = device_of(op)
        for block in [region.block for function in op.body.block.ops for region in function.regions]:
            _fuse(block, device)


MOST_OPERATIONS = 16
"""The most operations of a merged layer: each has a tile between them, so that long chains would have tiny tiles."""


def _fuse(block: Block, device: Device) -> None:
    """Merges layers where possible, each with the latest of its candidates: all other inputs are computed by then."""
    place = {op: n for n, op in enumerate(block.ops)}
    for layer in [op for op in block.ops if isinstance(op, LayerOp)]:
        before = [owner for v in layer.inputs if isinstance(owner := v.owner, LayerOp) and _joins(layer, owner, device)]
        if before:
            joined = _joined(max(before, key=lambda op: place[op]), layer)
            place[joined] = place[layer]


def _joins(layer: LayerOp, before: LayerOp, device: Device) -> bool:
    """Whether a layer can run tile by tile behind the layer whose result it reads."""
    read, chain = before.outputs[0], operations_of(layer)
    together = [*operations_of(before), *chain]
    inside = layer.block.args[list(layer.inputs).index(read)]
    return (
        read.has_one_use()
        and inside.has_one_use()
        and isinstance(next(iter(operations_of(before)), None), FIRST)
        and all(isinstance(op, ELEMENTWISE) and _keeps_place(op) for op in chain)
        and all(_follows(op, before, device) for op in chain)
        and inside in chain[0].operands
        and len(together) <= MOST_OPERATIONS
        and beyond_memories(together, device) is None
        and beyond_layer(together, device, {inside: before.yielded[0]}) is None
    )


def _keeps_place(op: Operation) -> bool:
    """Whether every element of the result depends only on the operands' elements at the same position."""
    return all(shape_of(operand) == shape_of(op.results[0]) for operand in op.operands)


def _follows(op: Operation, before: LayerOp, device: Device) -> bool:
    """Whether the device lets an operation follow; a lookup table after a contraction needs `lut` in ops.act."""
    behind = isinstance(operations_of(before)[0], ContractionOp)
    return not (isinstance(op, qint.LookupOp) and behind) or "lut" in device.ops.act


def _joined(before: LayerOp, after: LayerOp) -> LayerOp:
    """Replaces two layers by a merged layer at the position of the second."""
    read = before.outputs[0]
    inputs = list(dict.fromkeys([*before.inputs, *(v for v in after.inputs if v is not read)]))
    block = Block(arg_types=[v.type for v in inputs])
    arguments = dict(zip(inputs, block.args, strict=True))
    values: dict[SSAValue, SSAValue] = {a: arguments[v] for a, v in zip(before.block.args, before.inputs, strict=True)}
    _copy(before.operations(), block, values)
    result = values[before.yielded[0]]
    values |= {a: result if v is read else arguments[v] for a, v in zip(after.block.args, after.inputs, strict=True)}
    _copy(after.operations(), block, values)
    block.add_op(YieldOp([values[v] for v in after.yielded]))
    labels = ", ".join(dict.fromkeys((before.label.data, after.label.data)))
    joined = LayerOp(labels, inputs, [v.type for v in after.outputs], Region(block))
    PatternRewriter(after).replace(after, joined)
    PatternRewriter(before).erase(before)
    return joined


def _copy(operations: Sequence[Operation], block: Block, values: dict[SSAValue, SSAValue]) -> None:
    for op in operations:
        block.add_op(op.clone(values))
