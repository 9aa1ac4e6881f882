"""Tensors that stay inside the device (SRAM-resident): their addresses, the memory left to tiles, the layers' cost."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import prod
from typing import get_args

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from qmlir.devices import Device
from qmlir.devices.description.device import Memory
from qmlir.devices.description.schema import Role
from qmlir.devices.legality.fitting import PoolOp, Regions, RowOp, pool_room, row_bytes, row_room, windows_of
from qmlir.devices.model.engines import Engines, Region, Rest, part_of, regions
from qmlir.devices.model.properties import passes_of
from qmlir.devices.model.stored import stored_bytes, stored_dtype
from qmlir.devices.model.work import Contraction, Inside, Weighted, other_operands, times_of, weight_bits_of, work_of
from qmlir.dialects import qint
from qmlir.dialects.nn.movement import ConstantOp
from qmlir.dialects.npu import LayerOp
from qmlir.errors import UnsupportedError
from qmlir.ir.arena import gaps
from qmlir.ir.facts import LAYER_REST, RESTS, STAYS
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.npu.cascade.stripes import Step
from qmlir.transforms.npu.tile.aliases import (
    ELEMENTWISE,
    first_of,
    home_of,
    joins,
    operations_of,
    readers,
    renames,
    root_of,
)
from qmlir.transforms.npu.tile.costs import Price, nothing_used
from qmlir.transforms.npu.tile.search import tiling

# ---------------------------------------------------------------------------------------------------------------
# The attributes that say which tensors stay inside the device (SRAM-resident tensors).
#
# They lie on layers, and on the module once the layers are commands.
#
#     %1 = npu.layer "expand" (…) -> (…) attributes {stays = 65536 : i64, rest = {…}} { … }
#
# The result of a layer with `stays` lies at that address of the memory in which tensors can stay
# (devices/model/engines.py), instead of in the external memory. `rest` is the part of this memory that tensors leave to
# the layer's tiles while it runs.


def address_of(layer: LayerOp) -> int | None:
    """The address at which the result of a layer stays; None if the result goes to the external memory."""
    return STAYS.of(layer)


def rest_of(layer: LayerOp) -> Rest | None:
    """The memory that is left to the tiles of a layer; None if no tensor stays meanwhile."""
    return _rest(LAYER_REST.of(layer))


def put(layer: LayerOp, address: int | None, rest: Rest) -> None:
    """Sets the attributes of a layer: where its result stays, and the memory that is left to its tiles."""
    if address is not None:
        STAYS.put(layer, address)
    LAYER_REST.put(layer, _attribute(rest))


def rests_of(module: ModuleOp) -> Sequence[Rest | None]:
    """For each layer of a module of commands, the memory left to its tiles; empty if no tensor stays in any layer."""
    return [_rest(each) for each in RESTS.of(module) or ()]


def put_rests(module: ModuleOp, rests: Sequence[Rest | None]) -> None:
    """Sets the module attribute with the memory that is left to the tiles of each layer."""
    if any(rests):
        RESTS.put(module, ArrayAttr(UnitAttr() if rest is None else _attribute(rest) for rest in rests))


def _attribute(rest: Rest) -> DictionaryAttr:
    return DictionaryAttr({
        "memory": StringAttr(rest.memory), "base": IntegerAttr(rest.region.base, i64),
        "bytes": IntegerAttr(rest.region.size, i64), "roles": ArrayAttr(StringAttr(role) for role in rest.roles),
    })  # fmt: skip


def _rest(attribute: object) -> Rest | None:
    if not isinstance(attribute, DictionaryAttr):
        return None
    match attribute.data:
        case {
            "memory": StringAttr(data=memory), "base": IntegerAttr(value=base), "bytes": IntegerAttr(value=size),
            "roles": ArrayAttr(data=roles),
        }:  # fmt: skip
            known: dict[str, Role] = {role: role for role in get_args(Role)}
            named: tuple[Role, ...] = tuple(
                known[role.data] for role in roles if isinstance(role, StringAttr) and role.data in known
            )
            return Rest(memory, Region(base.data, size.data), named)
        case _:
            need = f"{LAYER_REST} must say memory, base, bytes and roles"
            raise UnsupportedError.at("npu.layer", "", need, got=str(attribute), remedy="run npu-cascade")


# ---------------------------------------------------------------------------------------------------------------
# Predicts the cycles of a layer, given the tensors that stay inside the device, before any command is emitted.


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
        if not isinstance(first, Contraction):
            return self._others(layer, first, stays, rest)
        outer: dict[SSAValue, SSAValue] = dict(zip(layer.block.args, layer.inputs, strict=True))
        operands = sum(root_of(outer.get(v, v)) in stays for v in other_operands(first, chain))
        data, matrix = (root_of(outer.get(v, v)) in stays for v in first.operands[:2])
        inside = Inside(rest, data, matrix, home_of(layer.outputs[0])[0] in stays, operands)
        widths = weight_bits_of(first, self.device)
        found = tiling(work_of(first, chain, layer.label.data, widths, inside, self.device), self.device)
        times = times_of(first)
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
        if isinstance(first, PoolOp | RowOp) and not self._fits(first, layer, stays, known):
            return None
        moved = sum(stored_bytes(value) for value in layer.inputs if root_of(value) not in stays)
        moved += sum(stored_bytes(value) for value in layer.outputs if home_of(value)[0] not in stays)
        usage, way = self._nothing.usage.copy(), self.engines.reading(self.engines.pool)
        queue = self.engines.post if isinstance(first, RowOp) else self.engines.pool
        usage[self.engines.index(queue)] = self._elements(layer, first) / (queue.elements_per_cycle or 1.0)
        if way is not None:
            usage[self.engines.index(way[1])] = moved / (way[1].bytes_per_cycle or 1.0)
        return Price(float(usage.max()), usage)

    def _fits(self, op: PoolOp | RowOp, layer: LayerOp, stays: AbstractSet[SSAValue], known: Regions) -> bool:
        """Whether a window of a pool, or a row, fits the regions of tiles."""
        inside, external = self.memory, self.engines.external
        source = inside if root_of(layer.inputs[0]) in stays else external
        target = inside if home_of(layer.outputs[0])[0] in stays else external
        if isinstance(op, RowOp):
            data, result = row_room(self.engines, known, source, target)
            return row_bytes(op, op.x) <= data and row_bytes(op, op.y) <= result
        room = pool_room(self.engines, known, source, target)
        return room.fits(windows_of(op), 8 * stored_dtype(op.x).itemsize, (1, 1, 1))

    def _elements(self, layer: LayerOp, first: Operation) -> int:
        """How many elements are computed, each as often as the device goes over it."""
        count = prod(shape_of(layer.outputs[0])) * max(len(chain_of(layer)), 1)
        if isinstance(first, qint.MaxPool2DOp | qint.AveragePool2DOp):
            count *= prod(first.window_values())
        elif isinstance(first, qint.GlobalSumPoolOp):
            count += prod(shape_of(first.x))
        elif isinstance(first, RowOp):
            count *= passes_of(first, self.device)
        return count


def _loads_constants(layer: LayerOp) -> bool:
    """Whether a layer reads a constant as data, which lies in the external memory; weights and biases do not count."""
    read = (v for op in layer.operations() for v in (op.operands[:1] if isinstance(op, Weighted) else op.operands))
    return any(isinstance(value.owner, ConstantOp) for value in read)


def chain_of(layer: LayerOp) -> list[Operation]:
    """The operations after the first operation of a layer; if the layer is elementwise, all its operations."""
    operations = operations_of(layer)
    return operations if isinstance(operations[0], ELEMENTWISE) else operations[1:]


# ---------------------------------------------------------------------------------------------------------------
# Tensors that stay inside the device: their addresses, the memory that they leave to tiles, and the layers' cycles.


@dataclass(frozen=True)
class Tensor:
    """A result that stays inside the device, or may stay.

    value        the result
    first, last  numbers of the layer that first writes it and the layer that last reads it
    size         bytes, rounded up to the alignment
    address      where it stays
    """

    value: SSAValue
    first: int
    last: int
    size: int
    address: int = 0

    @property
    def steps(self) -> range:
        """The numbers of the layers during which the tensor is live."""
        return range(self.first, self.last + 1)

    @property
    def end(self) -> int:
        """The address behind the tensor."""
        return self.address + self.size

    def meets(self, other: "Tensor") -> bool:
        """Whether both tensors are live at some step and overlap."""
        at_once = self.first <= other.last and other.first <= self.last
        return at_once and self.address < other.end and other.address < self.end


@dataclass(frozen=True)
class Stays:
    """A schedule of layers, and the tensors that stay inside the device during it.

    steps    the layers and host parts, in order
    costs    predicts the cycles of layers
    tensors  the tensors that stay; they do not overlap
    """

    steps: Sequence[Step]
    costs: LayerCosts
    tensors: Sequence[Tensor] = ()

    @property
    def values(self) -> set[SSAValue]:
        """The values that stay."""
        return {tensor.value for tensor in self.tensors}

    def numbers(self) -> dict[Step, int]:
        """The number of each step."""
        return {step: number for number, step in enumerate(self.steps)}

    def tensor(self, value: SSAValue, numbers: dict[Step, int]) -> Tensor | None:
        """A layer's result as a tensor that could stay; None if it has no readers, or readers that are no layers."""
        layer, read = value.owner, [numbers[reader] for reader in readers(value) if reader in numbers]
        if not read or not isinstance(layer, LayerOp):
            return None
        writers = [numbers[o] for v in layer.inputs if isinstance(o := v.owner, LayerOp)] if joins(layer) else []
        align = self.costs.memory.align
        return Tensor(value, min(writers, default=numbers[layer]), max(read), -(-stored_bytes(value) // align) * align)

    def placed(self, tensor: Tensor) -> "Stays | None":
        """The schedule with one more tensor that stays, at the address that leaves tiles the most memory.

        Returns:
            The new schedule; None if there is no room for the tensor.
        """
        beside = [(other.address, other.end) for other in self.tensors if set(other.steps) & set(tensor.steps)]
        free = [gap for gap in gaps(beside, self.costs.memory.addressable) if gap[1] - gap[0] >= tensor.size]
        ends = [replace(tensor, address=at) for low, high in free for at in (low, high - tensor.size)]
        found = max(ends, key=lambda t: (*self._left(t), t.address), default=None)
        return None if found is None else replace(self, tensors=[*self.tensors, found])

    def _left(self, tensor: Tensor) -> tuple[int, int]:
        """Bytes left to tiles if one more tensor stays: the least of any layer meanwhile, and the layers' sum."""
        sizes = [self._free(number, [*self.tensors, tensor]).size for number in tensor.steps]
        return min(sizes), sum(sizes)

    def price(self, number: int) -> Price | None:
        """The predicted price of a step; None if it is not a layer, or if its tiles do not fit."""
        step = self.steps[number]
        return self.costs.price(step, self.values, self.rest(number)) if isinstance(step, LayerOp) else None

    def rest(self, number: int) -> Rest | None:
        """The memory that is left to the tiles of a layer; None if no tensor stays meanwhile."""
        layer = self.steps[number]
        if not isinstance(layer, LayerOp) or not any(number in tensor.steps for tensor in self.tensors):
            return None
        return Rest(self.costs.memory.id, self._free(number, self.tensors), self.costs.roles(layer, self.values))

    def _free(self, number: int, tensors: Sequence[Tensor]) -> Region:
        """The largest contiguous region that tensors leave during a step, in whole parts of the memory."""
        memory, part = self.costs.memory, part_of(self.costs.memory)
        taken = [(tensor.address, tensor.end) for tensor in tensors if number in tensor.steps]
        whole = [(-(-start // part) * part, end // part * part) for start, end in gaps(taken, memory.addressable)]
        base, end = max(whole, key=lambda piece: piece[1] - piece[0])
        return Region(base, max(end - base, 0))
