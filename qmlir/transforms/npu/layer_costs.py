"""Predicts the cycles of a layer, given the tensors that stay inside the device, before any command is emitted."""

from collections.abc import Set as AbstractSet
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from qmlir.devices import Device
from qmlir.devices.description import Memory
from qmlir.devices.stored import stored_bytes, stored_weights
from qmlir.devices.values import Role
from qmlir.dialects import qint
from qmlir.dialects.nn.shape import ConstantOp
from qmlir.dialects.npu import LayerOp
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.npu.aliases import first_of, home_of, joins, renames, root_of
from qmlir.transforms.npu.contraction_work import groups_of, is_pointwise, other_operands, work_of
from qmlir.transforms.npu.engines import Engines
from qmlir.transforms.npu.regions import Rest, regions
from qmlir.transforms.npu.tile_costs import Price, nothing_used
from qmlir.transforms.npu.tiling import tiling
from qmlir.transforms.npu.work import Inside

CONTRACTIONS = (qint.Conv2DOp, qint.DepthwiseConv2DOp, qint.FullyConnectedOp)
"""Contractions, whose layers are priced by the tile search."""

LEAST = 2
"""A layer without a contraction needs regions of at least 1 / LEAST of their usual size."""


class LayerCosts:
    """Predicted cycles of layers on a device; `memory` is the memory in which tensors stay."""

    def __init__(self, device: Device, engines: Engines, memory: Memory):
        self.device, self.engines, self.memory = device, engines, memory
        self._nothing = Price(0.0, nothing_used(device))

    def price(self, layer: LayerOp, stays: AbstractSet[SSAValue], rest: Rest | None) -> Price | None:
        """The predicted price of a layer; None if its tiles do not fit.

        Args:
            layer: The layer.
            stays: The results that stay inside the device.
            rest: The memory that is left to the layer's tiles.
        """
        first, chain = first_of(layer), chain_of(layer)
        if renames(layer) or joins(layer):
            return self._nothing
        if not isinstance(first, CONTRACTIONS):
            return self._others(layer, first, stays, rest)
        outer: dict[SSAValue, SSAValue] = dict(zip(layer.block.args, layer.inputs, strict=True))
        operands = sum(root_of(outer.get(v, v)) in stays for v in other_operands(first, chain))
        data, result = root_of(outer.get(first.x, first.x)) in stays, home_of(layer.outputs[0])[0] in stays
        inside, weight_bits = Inside(rest, data, result, operands), 8 * stored_weights(first, self.device)[0].itemsize
        found = tiling(work_of(first, chain, layer, weight_bits, inside, self.device), self.device)
        times = (1 if is_pointwise(first) else shape_of(first.x)[0]) * groups_of(first)
        return None if found is None else Price(found.price.cycles * times, found.price.usage * times)

    def without_transfers(self, price: Price) -> Price:
        """The price that would remain if all transfers were free."""
        usage = np.zeros_like(price.usage)
        computing = [number for number, queue in enumerate(self.device.queue) if queue.engine != "dma"]
        usage[computing] = price.usage[computing]
        return Price(float(usage.max()) + price.waits, usage)

    def roles(self, layer: LayerOp, stays: AbstractSet[SSAValue]) -> tuple[Role, ...]:
        """The roles of the tiles that a layer has in the memory where tensors stay.

        Data needs no tiles if all inputs stay there and the layer reads no constant as data. Results need no tiles if
        no queue stores tiles, or if the result stays and a single step computes it.
        """
        steps = len([op for op in chain_of(layer) if not isinstance(op, qint.MulOp)])
        written = self.engines.writing(self.engines.post) is not None
        needless: set[Role] = set()
        if layer.inputs and all(root_of(value) in stays for value in layer.inputs) and not _loads_constants(layer):
            needless.add("ifm")
        if not written or (home_of(layer.outputs[0])[0] in stays and steps < 2):
            needless.add("ofm")
        return tuple(role for role in self.memory.holds if role not in needless)

    def _others(
        self, layer: LayerOp, first: Operation, stays: AbstractSet[SSAValue], rest: Rest | None
    ) -> Price | None:
        """The price of a layer without a contraction: the larger of computing its elements and transferring them."""
        roles = self.roles(layer, stays)
        known, usual = regions(self.device, rest), regions(self.device)
        if any(known[self.memory.id, role].size * LEAST < usual[self.memory.id, role].size for role in roles):
            return None
        moved = sum(stored_bytes(value) for value in layer.inputs if root_of(value) not in stays)
        moved += sum(stored_bytes(value) for value in layer.outputs if home_of(value)[0] not in stays)
        usage, way = self._nothing.usage.copy(), self.engines.reading(self.engines.pool)
        usage[self.engines.index(self.engines.pool)] = self._elements(layer, first)
        if way is not None:
            usage[self.engines.index(way[1])] = moved / (way[1].bytes_per_cycle or 1.0)
        return Price(float(usage.max()), usage)

    def _elements(self, layer: LayerOp, first: Operation) -> float:
        count = prod(shape_of(layer.outputs[0])) * max(len(chain_of(layer)), 1)
        if isinstance(first, qint.MaxPool2DOp | qint.AveragePool2DOp):
            count *= prod(first.window_values())
        elif isinstance(first, qint.GlobalSumPoolOp):
            count += prod(shape_of(first.x))
        return count / (self.engines.pool.elements_per_cycle or 1.0)


def _loads_constants(layer: LayerOp) -> bool:
    """Whether a layer reads a constant as data, which lies in the external memory; weights and biases do not count."""
    read = (v for op in layer.operations() for v in (op.operands[:1] if isinstance(op, CONTRACTIONS) else op.operands))
    return any(isinstance(value.owner, ConstantOp) for value in read)


def chain_of(layer: LayerOp) -> list[Operation]:
    """The operations after the first operation of a layer; if the layer is elementwise, all its operations."""
    operations = [op for op in layer.operations() if not isinstance(op, ConstantOp)]
    elementwise = isinstance(operations[0], qint.RequantizeOp | qint.LookupOp | qint.AddOp | qint.MulOp)
    return operations if elementwise else operations[1:]
