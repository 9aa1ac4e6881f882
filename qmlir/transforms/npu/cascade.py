"""The pass `npu-cascade`: what one layer leaves to the next stays inside the device where that pays.

Enters and leaves: functions of `npu.layer` and `npu.host`; layers get the attributes of stays.py. A tensor that stays
in the memory of the device that holds data and results is neither written to the external memory nor read from it.
While it does, it takes room from tiles: it stays only where the layers meanwhile are predicted to take no more cycles.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from qmlir.device import Device
from qmlir.device.description import Memory
from qmlir.device.module import device_of
from qmlir.device.stored import stored_bytes
from qmlir.dialects import qint
from qmlir.dialects.npu import HostOp, LayerOp
from qmlir.transforms.npu.engines import Engines
from qmlir.transforms.npu.layer_costs import CONTRACTIONS, LayerCosts, first_of, renames
from qmlir.transforms.npu.regions import Region, Rest, part_of
from qmlir.transforms.npu.stays import put

COMPUTES = (
    *CONTRACTIONS, qint.GlobalSumPoolOp, qint.MaxPool2DOp, qint.AveragePool2DOp, qint.RequantizeOp, qint.LookupOp,
    qint.AddOp, qint.MulOp,
)  # fmt: skip
"""What a layer begins with whose result may stay."""


@dataclass(frozen=True)
class NPUCascadePass(ModulePass):
    """Says which results stay inside the device.

    ```mlir
    %1 = npu.layer "expand" (%0) { … }
    %2 = npu.layer "project" (%1) { … }
    // becomes
    %1 = npu.layer "expand" (%0) attributes {stays = 245760 : i64, rest = {memory = "act", …}} { … }
    %2 = npu.layer "project" (%1) attributes {rest = {…}} { … }
    ```
    """

    name = "npu-cascade"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = device_of(op)
        memory = Engines.of(device).staying
        if memory is None:
            return
        for function in [f for f in op.body.block.ops if isinstance(f, func.FuncOp) and not f.is_declaration]:
            _Stays(function.body.block, device, memory).choose()


@dataclass(frozen=True)
class _Tensor:
    """A result that may stay.

    first, last  the layers that write it and read it last, by their numbers
    size         bytes, in whole multiples of what addresses are multiples of
    address      where it stays
    """

    value: SSAValue
    first: int
    last: int
    size: int
    address: int = 0

    @property
    def steps(self) -> range:
        """The layers while which it is there."""
        return range(self.first, self.last + 1)

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size


class _Stays:
    """The choice for one function."""

    def __init__(self, block: Block, device: Device, memory: Memory):
        self.memory, self.part = memory, part_of(memory)
        self.steps = [op for op in block.ops if isinstance(op, LayerOp | HostOp)]
        self.costs = LayerCosts(device, Engines.of(device), memory)
        self.stays: list[_Tensor] = []

    def choose(self) -> None:
        """Takes tensors one by one, the largest first, and writes down what stays where."""
        for tensor in sorted(self._candidates(), key=lambda t: (-t.size, t.first)):
            if (placed := self._placed(tensor)) is not None and self._pays(placed):
                self.stays.append(placed)
        addresses = {tensor.value: tensor.address for tensor in self.stays}
        for number, layer in enumerate(self.steps):
            if isinstance(layer, LayerOp) and (rest := self._rest(number, self.stays)) is not None:
                put(layer, addresses.get(layer.outputs[0]), rest)

    def _candidates(self) -> Iterator[_Tensor]:
        """Results that layers compute and only layers read."""
        numbers = {layer: number for number, layer in enumerate(self.steps)}
        for number, layer in enumerate(self.steps):
            if isinstance(layer, LayerOp) and isinstance(first_of(layer), COMPUTES):
                readers = _readers(layer.outputs[0])
                size = -(-stored_bytes(layer.outputs[0]) // self.memory.align) * self.memory.align
                if readers and size <= self.memory.bytes:
                    yield _Tensor(layer.outputs[0], number, max(numbers[reader] for reader in readers), size)

    def _placed(self, tensor: _Tensor) -> _Tensor | None:
        """A tensor at the address that leaves the most to the tiles of every layer; None where there is no room."""
        beside = [other for other in self.stays if set(other.steps) & set(tensor.steps)]
        edges = {0, self.memory.bytes - tensor.size}
        edges |= {other.end for other in beside} | {other.address - tensor.size for other in beside}
        trials = [replace(tensor, address=edge) for edge in edges if 0 <= edge <= self.memory.bytes - tensor.size]
        free = [t for t in trials if not any(t.address < o.end and o.address < t.end for o in beside)]
        return max(free, key=lambda t: (*self._left(t), t.address), default=None)

    def _left(self, tensor: _Tensor) -> tuple[int, int]:
        """Bytes that the layers meanwhile have left: the one with the least, and all."""
        sizes = [self._free(number, [*self.stays, tensor]).size for number in tensor.steps]
        return min(sizes), sum(sizes)

    def _pays(self, tensor: _Tensor) -> bool:
        """Whether the layers meanwhile take no more cycles."""
        layers = [(number, layer) for number in tensor.steps if isinstance(layer := self.steps[number], LayerOp)]
        before, after = (
            sum(self._cycles(number, layer, stays) for number, layer in layers)
            for stays in (self.stays, [*self.stays, tensor])
        )
        return after <= before and after < inf

    def _cycles(self, number: int, layer: LayerOp, stays: Sequence[_Tensor]) -> float:
        inside = {tensor.value for tensor in stays}
        return self.costs.cycles(layer, inside, self._rest(number, stays))

    def _rest(self, number: int, stays: Sequence[_Tensor]) -> Rest | None:
        """What is left to the tiles of a layer; None where no tensor stays meanwhile."""
        layer = self.steps[number]
        if not isinstance(layer, LayerOp) or not any(number in tensor.steps for tensor in stays):
            return None
        roles = self.costs.roles(layer, {tensor.value for tensor in stays})
        return Rest(self.memory.id, self._free(number, stays), roles)

    def _free(self, number: int, stays: Sequence[_Tensor]) -> Region:
        """The largest piece that tensors leave in one, in whole parts of the memory."""
        taken = sorted((tensor.address, tensor.end) for tensor in stays if number in tensor.steps)
        starts = [0, *(end for _, end in taken)]
        ends = [*(start for start, _ in taken), self.memory.bytes]
        whole = [
            (-(-start // self.part) * self.part, end // self.part * self.part)
            for start, end in zip(starts, ends, strict=True)
        ]
        base, end = max(whole, key=lambda piece: piece[1] - piece[0])
        return Region(base, max(end - base, 0))


def _readers(value: SSAValue) -> list[LayerOp]:
    """The layers that read a tensor, or another name of it; none where anything else reads it as well."""
    found: list[LayerOp] = []
    for use in value.uses:
        reader = use.operation
        if not isinstance(reader, LayerOp):
            return []
        found.append(reader)
        if renames(reader):
            others = _readers(reader.outputs[0])
            if not others:
                return []
            found += others
    return found
