"""The pass `npu-place`: assigns an address to every buffer of a device's program.

Enters: `npu.buffer` and `npu.issue` in a function, in a valid serial order. Leaves: the same operations, each buffer
with the attribute `address`, and on the module an attribute that says how full each memory is.

A buffer is live from the first command that touches it to the last; an input from the start, an output to the end. The
kind of buffer decides its place. Tiles lie in the region of their role (devices/model/engines.py), used as a circular
buffer (ir/arena.py); while tensors stay inside the device, the regions lie in the rest of the memory (residency.py).
All other buffers of a memory share an arena from address 0, with the constants behind it, one after the other. In an
external memory, the tiles follow, so that a firmware needs no byte behind them. A buffer that already has an address
keeps it.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from qmlir.devices import Device
from qmlir.devices.description.device import Memory
from qmlir.devices.description.schema import Role
from qmlir.devices.model.engines import Region, Rest, regions, staged_from
from qmlir.devices.model.module import Filled, Life, device_of, function_of, lives_of, steps_of
from qmlir.dialects.npu import IssueOp
from qmlir.errors import PipelineError
from qmlir.ir.arena import Full, Item, around, live_at_most, place
from qmlir.ir.facts import FILLED
from qmlir.isa.commands import Mark
from qmlir.transforms.npu.cascade.residency import rests_of


class NPUPlacePass(ModulePass):
    """Assigns addresses to buffers.

    ```mlir
    %x = npu.buffer "dram" 100 {role = "ifm", tensor = "x"} : !npu.buffer
    %y = npu.buffer "dram" 100 {role = "ofm", tensor = "y"} : !npu.buffer
    %t = npu.buffer "act" 100 {role = "ifm"} : !npu.buffer
    npu.issue "load" "move" source = %x[0] target = %t[0] …
    npu.issue "store" "move" source = %t[0] target = %y[0] …
    ```
    becomes
    ```mlir
    %x = npu.buffer "dram" 100 {role = "ifm", tensor = "x", address = 0 : i64} : !npu.buffer
    %y = npu.buffer "dram" 100 {role = "ofm", tensor = "y", address = 0 : i64} : !npu.buffer
    %t = npu.buffer "act" 100 {role = "ifm", address = 0 : i64} : !npu.buffer
    …
    ```
    """

    name = "npu-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = device_of(op)
        function = function_of(op, self.name)
        lives = [_Life(life.op, life.first, life.last) for life in lives_of(function)]
        phases = _phases(function, rests_of(op), device)
        filled: dict[str, Filled] = {}
        for memory in device.memory:
            buffers = [b for b in lives if b.op.memory.data == memory.id]
            staying = [b for b in buffers if b.stays(memory)]
            _check_staying(staying, phases, memory)
            roles = [role for memory_id, role in regions(device) if memory_id == memory.id]
            end = 0
            if rest := [b for b in buffers if not (b.is_tile(roles) or b.stays(memory))]:
                filled[memory.id] = _place_rest(
                    rest, memory, staged_from(memory, device) if roles else memory.addressable
                )
                end = memory.aligned(max(b.lies.end for b in rest))
            for role in roles:
                here = [b for b in buffers if b.is_tile(roles) and b.op.role.data == role]
                for region, tiles in _divided(here, role, phases, memory):
                    if memory.external:  # its regions are moved down, and nothing is left between them
                        region = Region(end, region.size)
                    _place_tiles(tiles, role, region, memory)
                if memory.external:
                    end = max([end, *(memory.aligned(b.lies.end) for b in here)])
        FILLED.put(op, DictionaryAttr({name: entry.attribute() for name, entry in filled.items()}))


@dataclass(frozen=True)
class _Life(Life):
    """A buffer with its lifetime, to be placed."""

    def is_tile(self, roles: Sequence[str]) -> bool:
        """Whether the buffer is a tile: it lies in the region of its role."""
        return self.op.role.data in roles and self.op.contents is None and self.op.tensor is None

    def stays(self, memory: Memory) -> bool:
        """Whether the buffer is a tensor that stays inside the device, at the address that it already has."""
        return self.op.tensor is not None and self.op.address is not None and not memory.external

    def item(self, align: int) -> Item:
        """The buffer as an item of an arena, its size rounded up to the alignment."""
        name = self.op.tensor.data if self.op.tensor is not None else self.op.role.data
        return Item(name, -(-self.op.size // align) * align, self.first, self.last)

    @property
    def lies(self) -> Region:
        """The bytes that the buffer occupies, once it has an address."""
        assert self.op.address is not None
        return Region(self.op.address.value.data, self.op.size)

    def meets(self, first: int, last: int) -> bool:
        """Whether the buffer is live at one of the steps from `first` to `last`."""
        return self.first <= last and first <= self.last

    def lies_at(self, address: int) -> None:
        """Sets the buffer's address."""
        self.op.address = IntegerAttr(address, i64)


# ---------------------------------------------------------------------------------------------------------------
# Tensors that stay inside the device


@dataclass(frozen=True)
class _Phase:
    """The commands from `first` to before `end`, during which tiles have the same regions."""

    first: int
    end: int
    regions: Mapping[tuple[str, Role], Region]

    def tiles(self, memory: Memory) -> dict[str, Region]:
        """Role → the region of its tiles in a memory."""
        return {role: region for (memory_id, role), region in self.regions.items() if memory_id == memory.id}


def _phases(function: func.FuncOp, rests: Sequence[Rest | None], device: Device) -> list[_Phase]:
    """The commands of a function, divided where the memory that is left to tiles changes."""
    steps = steps_of(function)
    found: list[_Phase] = []
    first, rest = 0, None
    for number, step in enumerate(steps):
        command = step.command.data if isinstance(step, IssueOp) else None
        if isinstance(command, Mark) and rests and rests[command.layer] != rest:
            found.append(_Phase(first, number, regions(device, rest)))
            first, rest = number, rests[command.layer]
    return [*found, _Phase(first, len(steps), regions(device, rest))]


def _divided(
    tiles: Sequence[_Life], role: str, phases: Sequence[_Phase], memory: Memory
) -> Iterator[tuple[Region, list[_Life]]]:
    """Divides the tiles of a role where its region changes.

    Returns:
        Pairs of a region and the tiles in it.

    Raises:
        PipelineError: A tile is used after its region has changed.
    """
    ends = [phase.end for phase in phases]
    found: list[tuple[Region, list[_Life]]] = []
    for tile in sorted(tiles, key=lambda tile: tile.first):
        phase = phases[bisect_right(ends, tile.first)]
        if tile.last >= phase.end:
            need = f"tiles of the role {role} must not be used once tensors that stay leave something else to tiles"
            raise PipelineError(NPUPlacePass.name, need, got=f"steps {tile.first} to {tile.last} of {phase.end}")
        region = phase.tiles(memory).get(role, NOWHERE)
        if not found or found[-1][0] != region:
            found.append((region, []))
        found[-1][1].append(tile)
    return iter(found)


NOWHERE = Region(0, 0)
"""The empty region, for a role without a region in a phase."""


def _check_staying(staying: Sequence[_Life], phases: Sequence[_Phase], memory: Memory) -> None:
    """Raises PipelineError unless tensors that stay fit their memory and overlap neither each other nor tiles."""
    for number, life in enumerate(staying):
        others = [other for other in staying[:number] if life.meets(other.first, other.last)]
        beside = [("another that stays", other.lies) for other in others]
        for phase in (phase for phase in phases if life.meets(phase.first, phase.end - 1)):
            beside += [(f"tiles of the role {role}", region) for role, region in phase.tiles(memory).items()]
        beside.append(
            (
                f"what is behind the memory {memory.id}",
                Region(memory.addressable, max(life.lies.end - memory.addressable, 0)),
            )
        )
        for what, region in beside:
            if life.lies.base < region.end and region.base < life.lies.end:
                need = f"a tensor that stays must lie apart from {what}, bytes {region.base} to {region.end}"
                got = f"{life.item(1).name}: {life.lies.base} to {life.lies.end}"
                raise PipelineError(NPUPlacePass.name, need, got=got)


# ---------------------------------------------------------------------------------------------------------------
# Tiles


def _place_tiles(tiles: Sequence[_Life], role: str, region: Region, memory: Memory) -> None:
    offsets = around([tile.item(memory.align) for tile in tiles], region.size)
    if isinstance(offsets, Full):
        need = f"tiles of the role {role} must fit their {region.size} bytes of the memory {memory.id}"
        raise PipelineError(NPUPlacePass.name, need, got=_sizes(offsets.live))
    for tile, offset in zip(tiles, offsets, strict=True):
        tile.lies_at(region.base + offset)


def _sizes(items: Sequence[Item]) -> str:
    """The sizes of items as text, the largest first."""
    most = sorted(items, key=lambda item: -item.size)
    named = ", ".join(f"{item.name} {item.size}" for item in most[:6])
    more = f" and {len(most) - 6} more" if len(most) > 6 else ""
    return f"{sum(item.size for item in items)} at once: {named}{more}"


# ---------------------------------------------------------------------------------------------------------------
# Arena and constants


def _place_rest(buffers: Sequence[_Life], memory: Memory, size: int) -> Filled:
    """Places tensors from address 0 and the constants behind them; everything lies before `size`.

    Raises:
        PipelineError: The tensors and constants do not fit.
    """
    shared = [b for b in buffers if b.op.contents is None]
    items = [b.item(memory.align) for b in shared]
    arena = place(items)
    for buffer, offset in zip(shared, arena.offsets, strict=True):
        buffer.lies_at(offset)
    if arena.size > size:
        raise PipelineError(
            NPUPlacePass.name,
            f"tensors must fit the {size} bytes that the memory {memory.id} has for them",
            got=f"{arena.size} bytes; {_sizes(live_at_most(items)[1])}",
        )
    end = _place_constants((b for b in buffers if b.op.contents is not None), arena.size, memory)
    if end > size:
        raise PipelineError(
            NPUPlacePass.name,
            f"tensors and constants must fit the {size} bytes that the memory {memory.id} has for them",
            got=f"{arena.size} and {end - arena.size}",
        )
    return Filled(arena.size, arena.bound, end - arena.size)


def _place_constants(buffers: Iterator[_Life], at: int, memory: Memory) -> int:
    """Places constants one after the other from an address on; returns the address behind them."""
    for buffer in buffers:
        buffer.lies_at(at)
        at += memory.aligned(buffer.op.size)
    return at
