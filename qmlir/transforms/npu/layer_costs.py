"""What a layer should take when some of its tensors stay inside the device, before it becomes commands."""

from collections.abc import Set as AbstractSet
from math import inf, prod

from xdsl.ir import Operation, SSAValue

from qmlir.device import Device
from qmlir.device.description import Memory
from qmlir.device.stored import stored_bytes, stored_weights
from qmlir.device.values import Role
from qmlir.dialects import qint
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.shape import ConstantOp, ReshapeOp
from qmlir.dialects.npu import LayerOp
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.transforms.npu.contraction_work import groups_of, is_pointwise, other_operands, work_of
from qmlir.transforms.npu.engines import Engines
from qmlir.transforms.npu.regions import Rest, regions
from qmlir.transforms.npu.tiling import tiling
from qmlir.transforms.npu.work import Inside

CONTRACTIONS = (qint.Conv2DOp, qint.DepthwiseConv2DOp, qint.FullyConnectedOp)
"""Layers that the tile search judges."""

LEAST = 2
"""Layers without a contraction have tiles that fit a share of their regions: this part of what they are otherwise."""


class LayerCosts:
    """Cycles of layers on a device, `memory` of which is where tensors stay."""

    def __init__(self, device: Device, engines: Engines, memory: Memory):
        self.device, self.engines, self.memory = device, engines, memory

    def cycles(self, layer: LayerOp, stays: AbstractSet[SSAValue], rest: Rest | None) -> float:
        """What a layer should take; infinitely many if its tiles do not fit.

        Args:
            layer: The layer.
            stays: The results that stay.
            rest: What is left to its tiles.
        """
        first, chain = first_of(layer), chain_of(layer)
        if not isinstance(first, CONTRACTIONS):
            return self._others(layer, first, stays, rest)
        outer: dict[SSAValue, SSAValue] = dict(zip(layer.block.args, layer.inputs, strict=True))
        operands = sum(root_of(outer.get(v, v)) in stays for v in other_operands(first, chain))
        data, result = root_of(outer.get(first.x, first.x)) in stays, layer.outputs[0] in stays
        inside, weight_bits = Inside(rest, data, result, operands), 8 * stored_weights(first, self.device)[0].itemsize
        found = tiling(work_of(first, chain, layer, weight_bits, inside), self.device)
        images = 1 if is_pointwise(first) else shape_of(first.x)[0]
        return inf if found is None else found.cycles * images * groups_of(first)

    def roles(self, layer: LayerOp, stays: AbstractSet[SSAValue]) -> tuple[Role, ...]:
        """Of what a layer has tiles where tensors stay: not of data where all do, nor of results that nothing holds."""
        steps = len([op for op in chain_of(layer) if not isinstance(op, qint.MulOp)])
        written = self.engines.writing(self.engines.post) is not None
        needless: set[Role] = set()
        if layer.inputs and all(root_of(value) in stays for value in layer.inputs):
            needless.add("ifm")
        if not written or (layer.outputs[0] in stays and steps < 2):
            needless.add("ofm")
        return tuple(role for role in self.memory.holds if role not in needless)

    def _others(self, layer: LayerOp, first: Operation, stays: AbstractSet[SSAValue], rest: Rest | None) -> float:
        """Of a layer without a contraction: what its elements take, or their way from and to the external memory."""
        roles = self.roles(layer, stays)
        known, usual = regions(self.device, rest), regions(self.device)
        if any(known[self.memory.id, role].size * LEAST < usual[self.memory.id, role].size for role in roles):
            return inf
        moved = sum(stored_bytes(value) for value in layer.inputs if root_of(value) not in stays)
        moved += sum(stored_bytes(value) for value in layer.outputs if value not in stays)
        way = self.engines.reading(self.engines.pool)
        rate = (way[1].bytes_per_cycle if way is not None else None) or 1.0
        return max(moved / rate, self._elements(layer, first))

    def _elements(self, layer: LayerOp, first: Operation) -> float:
        count = prod(shape_of(layer.outputs[0])) * max(len(chain_of(layer)), 1)
        if isinstance(first, qint.MaxPool2DOp | qint.AveragePool2DOp):
            count *= prod(first.window_values())
        elif isinstance(first, qint.GlobalSumPoolOp):
            count += prod(shape_of(first.x))
        return count / (self.engines.pool.elements_per_cycle or 1.0)


def first_of(layer: LayerOp) -> Operation:
    """The operation that a layer begins with."""
    return next(op for op in layer.operations() if not isinstance(op, ConstantOp))


def chain_of(layer: LayerOp) -> list[Operation]:
    """What follows the first operation of a layer; of a chain on single elements all of it."""
    operations = [op for op in layer.operations() if not isinstance(op, ConstantOp)]
    elementwise = isinstance(operations[0], qint.RequantizeOp | qint.LookupOp | qint.AddOp | qint.MulOp)
    return operations if elementwise else operations[1:]


def renames(layer: LayerOp) -> bool:
    """Whether the result of a layer is another name of what it reads."""
    return isinstance(first_of(layer), ReshapeOp | StorageCastOp) and len(layer.inputs) == 1


def root_of(value: SSAValue) -> SSAValue:
    """The tensor whose bytes a value has: itself, or what it is another name of."""
    while isinstance(layer := value.owner, LayerOp) and renames(layer):
        value = layer.inputs[0]
    return value
