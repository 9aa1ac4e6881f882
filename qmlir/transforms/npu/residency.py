"""Tensors that stay inside the device: where each lies, what they leave to tiles, and what layers take then."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from qmlir.device.stored import stored_bytes
from qmlir.dialects.npu import LayerOp
from qmlir.transforms.npu.aliases import joins, readers
from qmlir.transforms.npu.bands import Step
from qmlir.transforms.npu.layer_costs import LayerCosts
from qmlir.transforms.npu.regions import Region, Rest, part_of
from qmlir.transforms.npu.tile_costs import Price


@dataclass(frozen=True)
class Tensor:
    """A result that stays, or may.

    first, last  the layers that write it first and read it last, by their numbers
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

    def meets(self, other: "Tensor") -> bool:
        """Whether both are there at some time, and have a byte in common."""
        at_once = self.first <= other.last and other.first <= self.last
        return at_once and self.address < other.end and other.address < self.end


@dataclass(frozen=True)
class Stays:
    """Layers one after the other, and the tensors that stay meanwhile.

    steps    the layers, and calls of the host
    costs    what layers take
    tensors  what stays, apart from each other
    """

    steps: Sequence[Step]
    costs: LayerCosts
    tensors: Sequence[Tensor] = ()

    @property
    def values(self) -> set[SSAValue]:
        """What stays."""
        return {tensor.value for tensor in self.tensors}

    def numbers(self) -> dict[Step, int]:
        """Which step is which."""
        return {step: number for number, step in enumerate(self.steps)}

    def tensor(self, value: SSAValue, numbers: dict[Step, int]) -> Tensor | None:
        """The result of one of the layers as it may stay; None if something else than layers reads it, or nothing."""
        layer, read = value.owner, [numbers[reader] for reader in readers(value) if reader in numbers]
        if not read or not isinstance(layer, LayerOp):
            return None
        writers = [numbers[o] for v in layer.inputs if isinstance(o := v.owner, LayerOp)] if joins(layer) else []
        align = self.costs.memory.align
        return Tensor(value, min(writers, default=numbers[layer]), max(read), -(-stored_bytes(value) // align) * align)

    def placed(self, tensor: Tensor) -> "Stays | None":
        """With one more tensor, at the address that leaves the most to the tiles; None where there is no room."""
        size = self.costs.memory.bytes
        beside = [other for other in self.tensors if set(other.steps) & set(tensor.steps)]
        edges = {0, size - tensor.size}
        edges |= {other.end for other in beside} | {other.address - tensor.size for other in beside}
        trials = [replace(tensor, address=edge) for edge in edges if 0 <= edge <= size - tensor.size]
        free = [trial for trial in trials if not any(trial.meets(other) for other in beside)]
        found = max(free, key=lambda t: (*self._left(t), t.address), default=None)
        return None if found is None else replace(self, tensors=[*self.tensors, found])

    def _left(self, tensor: Tensor) -> tuple[int, int]:
        """Bytes that the layers meanwhile have left beside one more: the one with the least, and all."""
        sizes = [self._free(number, [*self.tensors, tensor]).size for number in tensor.steps]
        return min(sizes), sum(sizes)

    def price(self, number: int) -> Price | None:
        """What a step takes on the device; None if its tiles do not fit."""
        step = self.steps[number]
        return self.costs.price(step, self.values, self.rest(number)) if isinstance(step, LayerOp) else None

    def rest(self, number: int) -> Rest | None:
        """What is left to the tiles of a layer; None where no tensor stays meanwhile."""
        layer = self.steps[number]
        if not isinstance(layer, LayerOp) or not any(number in tensor.steps for tensor in self.tensors):
            return None
        return Rest(self.costs.memory.id, self._free(number, self.tensors), self.costs.roles(layer, self.values))

    def _free(self, number: int, tensors: Sequence[Tensor]) -> Region:
        """The largest piece that tensors leave in one, in whole parts of the memory."""
        memory, part = self.costs.memory, part_of(self.costs.memory)
        taken = sorted((tensor.address, tensor.end) for tensor in tensors if number in tensor.steps)
        starts = [0, *(end for _, end in taken)]
        ends = [*(start for start, _ in taken), memory.bytes]
        whole = [(-(-start // part) * part, end // part * part) for start, end in zip(starts, ends, strict=True)]
        base, end = max(whole, key=lambda piece: piece[1] - piece[0])
        return Region(base, max(end - base, 0))
