"""The pass `npu-place`: every buffer of a device's program gets its address.

Enters: `npu.buffer` and `npu.issue` in a function, in an order in which they could run one after the other. Leaves: the
same, each buffer with the attribute `address`, and on the module how full each memory is.

A buffer lives from the first command that touches it to the last; inputs from the start, outputs to the end. What it
is decides where it lies: tiles go around the region of their role (regions.py, rings.py); everything else in a memory
shares an arena from address 0 (arena.py), and behind that lie constants, one after the other.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from qmlir.device.description import Memory
from qmlir.device.module import buffers_of, device_of, function_of, steps_of
from qmlir.dialects.npu import BufferOp, IssueOp
from qmlir.errors import PipelineError
from qmlir.isa.commands import Arithmetic, Post, SetContext
from qmlir.transforms.npu.arena import Item, live_at_most, place
from qmlir.transforms.npu.regions import Region, regions, staged_from
from qmlir.transforms.npu.rings import Full, around

FILLED = "npu.filled"
"""The module's attribute that says how full each external memory is: see `_Filled`."""


@dataclass(frozen=True)
class NPUPlacePass(ModulePass):
    """Gives buffers addresses.

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
        lives = _lives(function_of(op, self.name))
        filled: dict[str, _Filled] = {}
        known = regions(device)
        for memory in device.memory:
            buffers = [b for b in lives if b.op.memory.data == memory.id]
            tiles: dict[str, Region] = {role: region for (m, role), region in known.items() if m == memory.id}
            _place_tiles([b for b in buffers if b.is_tile(tiles)], tiles, memory)
            if rest := [b for b in buffers if not b.is_tile(tiles)]:
                filled[memory.id] = _place_rest(rest, memory, staged_from(memory, device) if tiles else memory.bytes)
        op.attributes[FILLED] = DictionaryAttr({name: entry.attribute() for name, entry in filled.items()})


@dataclass(frozen=True)
class _Life:
    """A buffer and the first and last command that touches it."""

    op: BufferOp
    first: int
    last: int

    def is_tile(self, tiles: Mapping[str, Region]) -> bool:
        """Whether it has a place in the region of its role."""
        return self.op.role.data in tiles and self.op.contents is None and self.op.tensor is None

    def item(self, align: int) -> Item:
        """Its bytes, in whole multiples of what addresses are multiples of."""
        name = self.op.tensor.data if self.op.tensor is not None else self.op.role.data
        return Item(name, -(-self.op.size // align) * align, self.first, self.last)

    def lies_at(self, address: int) -> None:
        """Writes its address down."""
        self.op.address = IntegerAttr(address, i64)


def _lives(function: func.FuncOp) -> list[_Life]:
    """The buffers that a command touches, or that are inputs or outputs, and when.

    A command that uses a context reads its table.
    """
    steps = steps_of(function)
    touched: dict[SSAValue, tuple[int, int]] = {}
    tables: dict[int, Sequence[SSAValue]] = {}
    for number, step in enumerate(steps):
        command = step.command.data if isinstance(step, IssueOp) else None
        if isinstance(command, SetContext):
            tables[command.ctx] = step.operands
        context = tables.get(command.ctx, ()) if isinstance(command, Post | Arithmetic) else ()
        for buffer in (*step.operands, *context):
            touched[buffer] = (touched.get(buffer, (number, number))[0], number)
    return [
        _Life(op, *_extended(op, touched.get(op.buffer), len(steps)))
        for op in buffers_of(function)
        if op.buffer in touched or op.port is not None
    ]


def _extended(op: BufferOp, touched: tuple[int, int] | None, end: int) -> tuple[int, int]:
    """An input is there before the first command, an output after the last."""
    first, last = touched or (end, -1)
    direction = op.port.direction.data if op.port is not None else None
    return (-1 if direction == "input" else first), (end if direction == "output" else max(last, first))


# ---------------------------------------------------------------------------------------------------------------
# Tiles


def _place_tiles(buffers: Sequence[_Life], tiles: Mapping[str, Region], memory: Memory) -> None:
    for role, region in tiles.items():
        here = [b for b in buffers if b.op.role.data == role]
        addresses = around([b.item(memory.align) for b in here], region)
        if isinstance(addresses, Full):
            need = f"tiles of the role {role} must fit their {region.size} bytes of the memory {memory.id}"
            raise PipelineError(NPUPlacePass.name, need, got=_sizes(addresses.live))
        for buffer, address in zip(here, addresses, strict=True):
            buffer.lies_at(address)


def _sizes(items: Sequence[Item]) -> str:
    """Who takes how much, the largest first."""
    most = sorted(items, key=lambda item: -item.size)
    named = ", ".join(f"{item.name} {item.size}" for item in most[:6])
    more = f" and {len(most) - 6} more" if len(most) > 6 else ""
    return f"{sum(item.size for item in items)} at once: {named}{more}"


# ---------------------------------------------------------------------------------------------------------------
# Everything else


@dataclass(frozen=True)
class _Filled:
    """How full a memory is, in bytes.

    tensors     what shares its bytes over time
    bound       of that, the most that lives at once
    constants   what is there from the start
    """

    tensors: int
    bound: int
    constants: int

    def attribute(self) -> DictionaryAttr:
        """As the module keeps it."""
        values = {"tensors": self.tensors, "bound": self.bound, "constants": self.constants}
        return DictionaryAttr({name: IntegerAttr(value, i64) for name, value in values.items()})


def _place_rest(buffers: Sequence[_Life], memory: Memory, size: int) -> _Filled:
    """Tensors from address 0, constants behind them, all before `size`."""
    shared = [b for b in buffers if b.op.contents is None]
    items = [b.item(memory.align) for b in shared]
    arena = place(items)
    for buffer, offset in zip(shared, arena.offsets, strict=True):
        buffer.lies_at(offset)
    if arena.size > size:
        _, step = live_at_most(items)
        live = [item for item in items if item.first <= step <= item.last]
        raise PipelineError(
            NPUPlacePass.name,
            f"tensors must fit the {size} bytes that the memory {memory.id} has for them",
            got=f"{arena.size} bytes; {_sizes(live)}",
        )
    end = _place_constants((b for b in buffers if b.op.contents is not None), arena.size, memory)
    if end > size:
        raise PipelineError(
            NPUPlacePass.name,
            f"tensors and constants must fit the {size} bytes that the memory {memory.id} has for them",
            got=f"{arena.size} and {end - arena.size}",
        )
    return _Filled(arena.size, arena.bound, end - arena.size)


def _place_constants(buffers: Iterator[_Life], at: int, memory: Memory) -> int:
    """Lays constants out from an address on; the address behind them."""
    for buffer in buffers:
        buffer.lies_at(at)
        at += -(-buffer.op.size // memory.align) * memory.align
    return at
