"""Commands as a tiled layer needs them: tensors as boxes in buffers, brought in, worked on and taken away.

A `View` is a tensor [rows, columns, channels] somewhere in a buffer. Each tile gets buffers of its own; that they share
memories is the business of `npu-place`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xdsl.builder import Builder
from xdsl.ir import Operation, SSAValue

from qmlir.device import Device
from qmlir.device.copies import merged
from qmlir.device.description import Memory, Queue
from qmlir.device.stored import as_images, stored_bytes, stored_dtype
from qmlir.device.values import Role
from qmlir.dialects import qint
from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.npu import BufferOp, IssueOp
from qmlir.dialects.qint.base import width_of
from qmlir.dialects.weights import WeightsAttr
from qmlir.isa.commands import CONTRACTS, Mark, Move, SetContext, Step
from qmlir.isa.encoding import Command, Place, field_kinds
from qmlir.transforms.npu.aliases import home_of
from qmlir.transforms.npu.engines import Engines
from qmlir.transforms.npu.regions import Region, Rest, regions

Array = npt.NDArray[Any]


_Finish = tuple[Operation, range | None]
"""What a context is for: an operation, on some channels."""


class Spot(NamedTuple):
    """A byte of a buffer."""

    buffer: SSAValue
    offset: int = 0


@dataclass(frozen=True)
class View:
    """A tensor in a buffer, channels dense.

    memory        in which the buffer is
    shape         rows, columns, channels
    bits          of an element
    row_pitch     bytes from one row to the next; 0 repeats one
    pixel_pitch   bytes from one column to the next; 0 repeats one
    """

    memory: Memory
    spot: Spot
    shape: tuple[int, int, int]
    bits: int
    row_pitch: int
    pixel_pitch: int

    @staticmethod
    def dense(memory: Memory, spot: Spot, shape: tuple[int, int, int], bits: int) -> "View":
        """A tensor without gaps."""
        _, columns, channels = shape
        pixel = channels * bits // 8
        return View(memory, spot, shape, bits, columns * pixel, pixel)

    @property
    def size(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape) * self.bits // 8

    def box(self, rows: range, columns: range, channels: range) -> "View":
        """A part of it."""
        offset = rows.start * self.row_pitch + columns.start * self.pixel_pitch + channels.start * self.bits // 8
        spot = Spot(self.spot.buffer, self.spot.offset + offset)
        return replace(self, spot=spot, shape=(len(rows), len(columns), len(channels)))

    def rows(self, rows: range) -> "View":
        """Some of its rows."""
        return self.box(rows, range(self.shape[1]), range(self.shape[2]))


@dataclass
class Emitter:
    """Writes the commands of a network at the end of a block.

    tensors    the network's values → the buffer that holds each, dense
    stays      of those that stay inside the device → their address there
    routines   names of what the host runs
    layers     names that `Mark` refers to
    rests      for each layer what tensors that stay leave to its tiles
    """

    device: Device
    builder: Builder
    tensors: dict[SSAValue, Spot] = field(default_factory=dict[SSAValue, Spot])
    stays: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    layers: list[str] = field(default_factory=list[str])
    rests: list[Rest | None] = field(default_factory=list["Rest | None"])
    _constants: dict[tuple[bytes, str], SSAValue] = field(default_factory=dict[tuple[bytes, str], SSAValue])
    _contexts: dict[tuple[Operation, range | None], int] = field(
        default_factory=dict[tuple[Operation, range | None], int]
    )
    _tables: dict[Operation, Spot] = field(default_factory=dict[Operation, Spot])
    _next_context: int = 0

    def __post_init__(self) -> None:
        self.engines = Engines.of(self.device)
        self._memories = {memory.id: memory for memory in self.device.memory}

    @property
    def regions(self) -> Mapping[tuple[str, Role], Region]:
        """Where the tiles of the layer lie."""
        return regions(self.device, self.rests[-1])

    # -- buffers ----------------------------------------------------------------------------------------------------

    def buffer(
        self, memory: Memory, size: int, role: Role, tensor: str | None = None, address: int | None = None
    ) -> SSAValue:
        """Fresh bytes."""
        return self.builder.insert(BufferOp(memory.id, size, role, tensor=tensor, address=address)).buffer

    def memory_of(self, spot: Spot) -> Memory:
        """In which a byte lies."""
        owner = spot.buffer.owner
        assert isinstance(owner, BufferOp)
        return self._memories[owner.memory.data]

    def tile(self, memory: Memory, shape: tuple[int, int, int], bits: int, role: Role) -> View:
        """A fresh tensor without gaps."""
        return View.dense(memory, Spot(self.buffer(memory, prod(shape) * bits // 8, role)), shape, bits)

    def constant(self, array: Array, role: Role) -> Spot:
        """Bytes that are there before anything runs; equal ones are there once."""
        memory = self.engines.constants(role)
        held = np.ascontiguousarray(array).reshape(-1).view(np.int8)
        key = (held.tobytes(), memory.id)
        if key not in self._constants:
            op = BufferOp(memory.id, held.nbytes, role, contents=WeightsAttr(held))
            self._constants[key] = self.builder.insert(op).buffer
        return Spot(self._constants[key])

    def staged(self, array: Array, role: Role) -> Spot:
        """A constant where commands use it: brought there if there is a way."""
        source = self.constant(array, role)
        way = self.engines.staging(role, self.engines.constants(role))
        if way is None:
            return source
        memory, queue = way
        target = Spot(self.buffer(memory, array.nbytes, role))
        self.copy(queue, source, target, array.nbytes)
        return target

    def views(self, value: SSAValue, inside: Mapping[SSAValue, SSAValue] | None = None) -> list[View]:
        """A value of the network, an image [H, W, C] after the other.

        Args:
            value: A tensor of the network, or a constant of a layer.
            inside: Arguments of a layer's body → the network's values.
        """
        outer = (inside or {}).get(value, value)
        shape, bits = shape_of(outer), 8 * stored_dtype(outer).itemsize
        constant = getattr(outer.owner, "value", None) if outer not in self.tensors else None
        if isinstance(constant, WeightsAttr):
            memory, spot = self.engines.constants("ifm"), self.constant(constant.array, "ifm")
        else:
            spot = self.tensors[outer]
            memory = self.memory_of(spot)
        images, image = as_images(shape)
        first = View.dense(memory, spot, image, bits)
        return [replace(first, spot=Spot(spot.buffer, spot.offset + n * first.size)) for n in range(images)]

    def result(self, value: SSAValue, name: str) -> list[View]:
        """Room for a value that the network computes: its own, or in what joins it with others."""
        home, offset = home_of(value)
        if home not in self.tensors:
            stays = self.engines.staying if value in self.stays else None
            memory, address = stays or self.engines.external, self.stays.get(value)
            address = None if address is None else address - offset
            self.tensors[home] = Spot(self.buffer(memory, stored_bytes(home), "ofm", name, address))
        self.tensors[value] = Spot(self.tensors[home].buffer, offset)
        return self.views(value)

    # -- commands ---------------------------------------------------------------------------------------------------

    def issue(self, queue: Queue, kind: type[Command], ctx: int = 0, **fields: Any) -> None:
        """Gives a queue a command, whose places are given as `Spot`s."""
        buffers: list[SSAValue] = []
        given: dict[str, Any] = {}
        for name, field_kind in field_kinds(kind).items():
            value = fields[name]
            if field_kind is Place:
                if value.buffer not in buffers:
                    buffers.append(value.buffer)
                value = Place(buffers.index(value.buffer), value.offset)
            given[name] = value
        self.builder.insert(IssueOp(queue.id, kind(0, (), ctx, **given), buffers))

    def begin(self, layer: str, rest: Rest | None = None) -> None:
        """Says that what follows belongs to a layer, and what its tiles have of the memory where tensors stay."""
        self.layers.append(layer)
        self.rests.append(rest)
        self.issue(self.engines.array, Mark, layer=len(self.layers) - 1)
        self._contexts.clear()
        self._tables.clear()

    def copy(self, queue: Queue, source: Spot, target: Spot, size: int) -> None:
        """Copies bytes."""
        self.issue(
            queue, Move, source=source, target=target, size=size, rows=1, planes=1,
            source_row=0, source_plane=0, target_row=0, target_plane=0,
        )  # fmt: skip

    def move(self, queue: Queue, source: View, target: View) -> None:
        """Copies a tensor, in as few transfers as the queue's loops allow."""
        rows, columns, channels = source.shape
        loops = merged([
            (rows, source.row_pitch, target.row_pitch),
            (columns, source.pixel_pitch, target.pixel_pitch),
            (channels * source.bits // 8, 1, 1),
        ])  # fmt: skip
        outer, inner = loops[: -queue.dims], loops[-queue.dims :]
        (planes, source_plane, target_plane), (rows, source_row, target_row), (size, _, _) = [
            *[(1, 0, 0)] * (3 - len(inner)), *inner,
        ]  # fmt: skip
        for place in np.ndindex(*(count for count, _, _ in outer)):
            self.issue(
                queue,
                Move,
                source=_later(source.spot, sum(n * pitch for n, (_, pitch, _) in zip(place, outer, strict=True))),
                target=_later(target.spot, sum(n * pitch for n, (_, _, pitch) in zip(place, outer, strict=True))),
                size=size,
                rows=rows,
                planes=planes,
                source_row=source_row,
                source_plane=source_plane,
                target_row=target_row,
                target_plane=target_plane,
            )

    def load(self, view: View, queue: Queue, role: Role = "ifm") -> View:
        """A part of a tensor where a queue reads it: brought there without gaps, or in place if it can."""
        way = self.engines.reading(queue)
        if way is None or way[0] == view.memory:
            return view
        memory, dma = way
        tile = self.tile(memory, view.shape, view.bits, role)
        self.move(dma, view, tile)
        return tile

    def room(self, view: View, queue: Queue) -> View:
        """Where a queue leaves a part of a result: see `store`."""
        way = self._leaving(view, queue)
        return view if way is None else self.tile(way[0], view.shape, view.bits, "ofm")

    def store(self, tile: View, view: View, queue: Queue) -> None:
        """Takes a part of a result from where `room` was made for it to its tensor."""
        way = self._leaving(view, queue)
        if way is not None:
            self.move(way[1], tile, view)

    def _leaving(self, view: View, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue leaves a part of a result that something else then takes away; None if it stays there."""
        way = self.engines.writing(queue)
        return None if way is None or way[0] == view.memory else way

    # -- contexts ---------------------------------------------------------------------------------------------------

    def context(self, op: qint.RequantizeOp | qint.LookupOp | qint.AddOp, channels: range | None = None) -> int:
        """The number of a context that finishes numbers as an operation says, written unless it still is.

        Contexts are used in turn; what uses them does so in order, on the queue that writes them.

        Args:
            op: The operation.
            channels: Those that it is for, of a requantization with a factor for each; all unless given.
        """
        wanted = (op, channels if isinstance(op, qint.RequantizeOp) and len(op.multiplier) > 1 else None)
        if wanted not in self._contexts:
            number = self._next_context % CONTEXTS
            self._next_context += 1
            self._contexts = {key: n for key, n in self._contexts.items() if n != number} | {wanted: number}
            self.issue(self.engines.post, SetContext, ctx=number, **self._finishing(op, channels))
        return self._contexts[wanted]

    def _finishing(self, op: qint.RequantizeOp | qint.LookupOp | qint.AddOp, channels: range | None) -> dict[str, Any]:
        bits, table = width_of(op.results[0]), self._table(op)
        if isinstance(op, qint.LookupOp):
            half = 1 << bits - 1
            return _CONTEXT | {"step": Step.LOOKUP, "bits": bits, "lower": -half, "upper": half - 1, "table": table}
        fields: dict[str, Any] = _CONTEXT | {
            "bits": bits, "zero_point": op.zero_point.value.data, "lower": op.lower.value.data,
            "upper": op.upper.value.data, "table": table,
        }  # fmt: skip
        if isinstance(op, qint.AddOp):
            return fields
        per_channel = len(op.multiplier) > 1
        first = channels.start if per_channel and channels is not None else 0
        return fields | {
            "contract": CONTRACTS.index(op.contract.data), "input_zero_point": op.input_zero_point.value.data,
            "per_channel": int(per_channel), "table": _later(table, 8 * first),
        }  # fmt: skip

    def _table(self, op: qint.RequantizeOp | qint.LookupOp | qint.AddOp) -> Spot:
        """The table of an operation, brought to where commands read it once a layer."""
        if op not in self._tables:
            known = {role for memory in self.device.memory for role in memory.holds}
            role: Role = "lut" if isinstance(op, qint.LookupOp) and "lut" in known else self.engines.tables()
            self._tables[op] = self.staged(_entries(op), role)
        return self._tables[op]


CONTEXTS = 16
"""How many contexts there are: their number has four bits."""

_CONTEXT = {"step": Step.REQUANTIZE, "contract": 0, "input_zero_point": 0, "zero_point": 0, "per_channel": 0}
"""A context, unless something else is said."""


def _entries(op: qint.RequantizeOp | qint.LookupOp | qint.AddOp) -> Array:
    """What the table of an operation's context holds; a sum has its factors in the command."""
    if isinstance(op, qint.LookupOp):
        return op.table.array
    if isinstance(op, qint.AddOp):
        return np.array([1 << 30, 1], "<i4")
    return np.stack([op.multiplier.get_values(), op.shift.get_values()], axis=1).astype("<i4")


def _later(spot: Spot, offset: int) -> Spot:
    return Spot(spot.buffer, spot.offset + offset)
