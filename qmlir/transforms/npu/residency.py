"""Tensors that stay inside the device: their addresses, the memory that they leave to tiles, and the layers' cycles."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from qmlir.devices.stored import stored_bytes
from qmlir.dialects.npu import LayerOp
from qmlir.transforms.npu.aliases import joins, readers
from qmlir.transforms.npu.bands import Step
from qmlir.transforms.npu.layer_costs import LayerCosts
from qmlir.transforms.npu.regions import Region, Rest, part_of
from qmlir.transforms.npu.tile_costs import Price


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
        size = self.costs.memory.bytes
        beside = [other for other in self.tensors if set(other.steps) & set(tensor.steps)]
        edges = {0, size - tensor.size}
        edges |= {other.end for other in beside} | {other.address - tensor.size for other in beside}
        trials = [replace(tensor, address=edge) for edge in edges if 0 <= edge <= size - tensor.size]
        free = [trial for trial in trials if not any(trial.meets(other) for other in beside)]
        found = max(free, key=lambda t: (*self._left(t), t.address), default=None)
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
        taken = sorted((tensor.address, tensor.end) for tensor in tensors if number in tensor.steps)
        starts = [0, *(end for _, end in taken)]
        ends = [*(start for start, _ in taken), memory.bytes]
        whole = [(-(-start // part) * part, end // part * part) for start, end in zip(starts, ends, strict=True)]
        base, end = max(whole, key=lambda piece: piece[1] - piece[0])
        return Region(base, max(end - base, 0))
