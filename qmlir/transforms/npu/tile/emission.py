"""Emits the commands of a tiled layer: loads boxes of tensors into buffers, works on them, and stores the results.

A `View` is a tensor [rows, columns, channels] somewhere in a buffer. Each tile gets buffers of its own; `npu-place`
later lets them share memory.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, OpResult, SSAValue

from qmlir.devices import Device
from qmlir.devices.description.device import Memory, Queue
from qmlir.devices.description.schema import Role
from qmlir.devices.legality.least import context_fields
from qmlir.devices.model.encoder import unsayable
from qmlir.devices.model.engines import Engines, Region, Rest, WeightBits, regions
from qmlir.devices.model.room import packed_size
from qmlir.devices.model.stored import as_images, merged, stored_bytes, stored_dtype
from qmlir.devices.model.tables import entries, role_of
from qmlir.dialects import qint
from qmlir.dialects.npu import BufferOp, IssueOp, PortAttr
from qmlir.dialects.npu.layers import PartOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.weights import WeightsAttr
from qmlir.isa.commands import Arrange, Mark, Move, SetContext, Unpack
from qmlir.isa.encoding import CONTEXT_BITS, Command, Place, field_kinds, mnemonic
from qmlir.isa.limits import MOST_BYTES, broken
from qmlir.numerics.packing import BYTE, pack
from qmlir.transforms.npu.tile.aliases import home_of


class Spot(NamedTuple):
    """A position in a buffer, as an offset in bytes."""

    buffer: SSAValue
    offset: int = 0

    def later(self, offset: int) -> "Spot":
        """The position some bytes later."""
        return Spot(self.buffer, self.offset + offset)


@dataclass(frozen=True)
class View:
    """A tensor in a buffer, with dense channels.

    memory        the memory of the buffer
    spot          the first element
    shape         rows, columns, channels
    bits          width of an element
    row_pitch     bytes from one row to the next; 0 repeats a single row
    pixel_pitch   bytes from one column to the next; 0 repeats a single column
    """

    memory: Memory
    spot: Spot
    shape: tuple[int, int, int]
    bits: int
    row_pitch: int
    pixel_pitch: int

    @staticmethod
    def dense(memory: Memory, spot: Spot, shape: tuple[int, int, int], bits: int) -> "View":
        """A view without gaps."""
        _, columns, channels = shape
        pixel = channels * bits // 8
        return View(memory, spot, shape, bits, columns * pixel, pixel)

    @property
    def size(self) -> int:
        """Bytes of the view's elements, without gaps."""
        return prod(self.shape) * self.bits // 8

    def box(self, rows: range, columns: range, channels: range) -> "View":
        """The part of the view with the given rows, columns and channels."""
        offset = rows.start * self.row_pitch + columns.start * self.pixel_pitch + channels.start * self.bits // 8
        return replace(self, spot=self.spot.later(offset), shape=(len(rows), len(columns), len(channels)))

    def rows(self, rows: range) -> "View":
        """The part of the view with the given rows."""
        return self.box(rows, range(self.shape[1]), range(self.shape[2]))


Tile = tuple[int, ...]
"""The extents of a tile, along the axes by which an operation is divided."""


def _smaller(largest: Tile) -> Iterator[Tile]:
    """Yields a tile, and then those with some of its extents halved, once or more: the larger ones first."""
    yield largest
    halved: list[list[int]] = []
    for extent in largest:
        sizes = [extent]
        while sizes[-1] > 1:
            sizes.append(-(-sizes[-1] // 2))
        halved.append(sizes)
    yield from sorted(product(*halved), key=prod, reverse=True)[1:]


class UnsayableError(UnsupportedError):
    """Raised for a command that a device has no words for; `need` says why."""


class Emitter:
    """Emits the commands of a network at the end of a block.

    tensors    the network's values, and the arguments of layers' bodies → where they lie, dense
    stays      values that stay inside the device → their addresses there
    layers     the layer names that `Mark` commands refer to
    rests      for each layer, the memory that tensors staying inside the device leave to its tiles
    """

    def __init__(self, device: Device, builder: Builder):
        self.device, self.builder, self.engines = device, builder, Engines.of(device)
        self.tensors: dict[SSAValue, Spot] = {}
        self.stays: dict[SSAValue, int] = {}
        self.layers: list[str] = []
        self.rests: list[Rest | None] = []
        self._constants: dict[tuple[bytes, str], SSAValue] = {}
        self._contexts: dict[tuple[Operation, range | None], int] = {}
        self._tables: dict[Operation, Spot] = {}
        self._next_context = 0
        self._memories = {memory.id: memory for memory in device.memory}

    @property
    def regions(self) -> Mapping[tuple[str, Role], Region]:
        """The regions of the current layer's tiles."""
        return regions(self.device, self.rests[-1])

    # -- buffers ----------------------------------------------------------------------------------------------------

    def buffer(
        self, memory: Memory, size: int, role: Role, tensor: str | None = None, address: int | None = None
    ) -> SSAValue:
        """Creates a buffer."""
        return self.builder.insert(BufferOp(memory.id, size, role, tensor=tensor, address=address)).buffer

    def result_buffer(self, memory: Memory, value: SSAValue, label: str, address: int | None = None) -> SSAValue:
        """Creates a buffer for a result of a layer or of the host; the buffer knows the tensor's name, if it has one.

        Args:
            memory: The memory of the buffer.
            value: The result.
            label: The name of the layer, for reports.
            address: The address in the memory, if it is known already.
        """
        op = BufferOp(memory.id, stored_bytes(value), "ofm", tensor=label, address=address)
        part = value.owner
        if isinstance(value, OpResult) and isinstance(part, PartOp):
            name = tensor_name(part.yielded[value.index])
            op.named = port_of("between", 0, name, value) if name else None
        return self.builder.insert(op).buffer

    def memory_of(self, spot: Spot) -> Memory:
        """The memory of a spot's buffer."""
        owner = spot.buffer.owner
        assert isinstance(owner, BufferOp)
        return self._memories[owner.memory.data]

    def tile(self, memory: Memory, shape: tuple[int, int, int], bits: int, role: Role) -> View:
        """Creates a buffer for a dense tensor."""
        return View.dense(memory, Spot(self.buffer(memory, prod(shape) * bits // 8, role)), shape, bits)

    def constant(self, array: Array, role: Role) -> Spot:
        """A buffer with constant bytes that are there from the start; equal constants share a buffer."""
        memory = self.engines.constants(role)
        held = np.ascontiguousarray(array).reshape(-1).view(np.int8)
        key = (held.tobytes(), memory.id)
        if key not in self._constants:
            op = BufferOp(memory.id, held.nbytes, role, contents=WeightsAttr(held))
            self._constants[key] = self.builder.insert(op).buffer
        return Spot(self._constants[key])

    def staged(self, array: Array, role: Role) -> Spot:
        """A constant where commands read it: loaded there if a queue can do so, otherwise in place."""
        source = self.constant(array, role)
        way = self.engines.staging(role, self.engines.constants(role))
        if way is None:
            return source
        memory, queue = way
        target = Spot(self.buffer(memory, array.nbytes, role))
        self.copy(queue, source, target, array.nbytes)
        return target

    def weights(self, array: Array, bits: WeightBits) -> Spot:
        """Weights where the array reads them, packed if the device stores them so; the load may unpack them."""
        if bits.stored == BYTE * array.itemsize:
            return self.staged(array, "weights")
        packed = pack(array, bits.stored)
        way = self.engines.staging("weights", self.engines.constants("weights"))
        if bits.stored == bits.read or way is None:
            return self.staged(packed, "weights")
        memory, queue = way
        target = Spot(self.buffer(memory, array.nbytes, "weights"))
        source = self.constant(packed, "weights")
        self.issue(queue, Unpack, source=source, target=target, count=array.size, bits=bits.stored)
        return target

    def arranged(self, matrix: View, transposed: bool) -> Spot:
        """A part of a computed matrix [rows, 1, columns] where the array reads it as weights, in whole tiles.

        Args:
            matrix: The part.
            transposed: Whether its columns are the output channels, and not its rows.
        """
        arranging, (rows, _, columns) = self.engines.arranging, matrix.shape
        assert arranging is not None, "legality has refused the product"
        source, (outputs, terms) = (
            self.load(matrix, arranging.queue),
            (columns, rows) if transposed else (rows, columns),
        )
        size = packed_size(outputs, terms, matrix.bits, self.device)
        target = Spot(self.buffer(arranging.target, size, "weights"))
        self.issue(
            arranging.queue, Arrange, source=source.spot, target=target, bits=matrix.bits, rows=rows, columns=columns,
            pitch=source.row_pitch, transposed=int(transposed),
        )  # fmt: skip
        return target

    def views(self, value: SSAValue) -> list[View]:
        """A tensor of the network, an argument of a layer's body, or a layer's constant as one view for each image."""
        shape, bits = shape_of(value), 8 * stored_dtype(value).itemsize
        constant = getattr(value.owner, "value", None) if value not in self.tensors else None
        if isinstance(constant, WeightsAttr):
            memory, spot = self.engines.constants("ifm"), self.constant(constant.array, "ifm")
        else:
            spot = self.tensors[value]
            memory = self.memory_of(spot)
        images, image = as_images(shape)
        first = View.dense(memory, spot, image, bits)
        return [replace(first, spot=spot.later(n * first.size)) for n in range(images)]

    def result(self, value: SSAValue, name: str) -> list[View]:
        """The views for a computed value: in a buffer of its own, or in the tensor that joins it with others."""
        home, offset = home_of(value)
        if home not in self.tensors:
            stays = self.engines.staying if value in self.stays else None
            memory, address = stays or self.engines.external, self.stays.get(value)
            address = None if address is None else address - offset
            self.tensors[home] = Spot(self.result_buffer(memory, home, name, address))
        self.tensors[value] = Spot(self.tensors[home].buffer, offset)
        return self.views(value)

    # -- commands ---------------------------------------------------------------------------------------------------

    def issue(self, queue: Queue, kind: type[Command], ctx: int = 0, **fields: Any) -> None:
        """Emits a command on a queue; places are given as `Spot`s.

        Raises:
            UnsupportedError: The command breaks a limit of commands.
            UnsayableError: The device has no words for it.
        """
        buffers: list[SSAValue] = []
        given: dict[str, Any] = {}
        for name, field_kind in field_kinds(kind).items():
            value = fields[name]
            if field_kind is Place:
                if value.buffer not in buffers:
                    buffers.append(value.buffer)
                value = Place(buffers.index(value.buffer), value.offset)
            given[name] = value
        command = kind(0, (), ctx, **given)
        if (found := broken(command)) is not None:
            need, got = found
            raise UnsupportedError.at(mnemonic(kind), self.layers[-1], need, got=got)
        if (reason := unsayable(command, self.device)) is not None:
            raise UnsayableError(reason, where=f'{mnemonic(kind)} "{self.layers[-1]}"')
        self.builder.insert(IssueOp(queue.id, command, buffers))

    def begin(self, layer: str, rest: Rest | None = None) -> None:
        """Marks the beginning of a layer; `rest` is the memory that tensors inside the device leave to its tiles."""
        self.layers.append(layer)
        self.rests.append(rest)
        self.issue(self.engines.array, Mark, layer=len(self.layers) - 1)
        self._contexts.clear()
        self._tables.clear()

    def in_tiles(self, largest: Tile, emit: Callable[[Tile], None]) -> None:
        """Emits commands in the largest tiles for which the device has words; what smaller tiles replace is taken back.

        Args:
            largest: The extents of the largest tile that fits the memories; smaller tiles halve some of them.
            emit: Emits the commands in tiles of the given extents.

        Raises:
            UnsupportedError: The device has no words for the smallest tile either.
        """
        refused: UnsayableError | None = None
        for tile in _smaller(largest):
            last = self.builder.insertion_point.block.last_op
            tensors, constants, contexts = self.tensors.copy(), self._constants.copy(), self._contexts.copy()
            tables, next_context = self._tables.copy(), self._next_context
            try:
                return emit(tile)
            except UnsayableError as error:
                refused = error
            self._erase_after(last)
            self.tensors, self._constants, self._contexts = tensors, constants, contexts
            self._tables, self._next_context = tables, next_context
        assert refused is not None, "there is a tile"
        raise UnsupportedError.at("npu.layer", self.layers[-1], f"the smallest tile: {refused.need}") from refused

    def _erase_after(self, last: Operation | None) -> None:
        """Erases the operations that were emitted after another one, or all of them."""
        block = self.builder.insertion_point.block
        while (op := block.last_op) is not None and op is not last:
            op.detach()
            op.erase()

    def copy(self, queue: Queue, source: Spot, target: Spot, size: int) -> None:
        """Copies contiguous bytes."""
        for at in range(0, size, MOST_BYTES):
            self.issue(
                queue, Move, source=source.later(at), target=target.later(at), size=min(size - at, MOST_BYTES), rows=1,
                planes=1, source_row=0, source_plane=0, target_row=0, target_plane=0,
            )  # fmt: skip

    def move(self, queue: Queue, source: View, target: View) -> None:
        """Copies a tensor in as few transfers as the queue's loops allow."""
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
            there, here = (sum(n * loop[side] for n, loop in zip(place, outer, strict=True)) for side in (1, 2))
            self.issue(
                queue, Move, source=source.spot.later(there), target=target.spot.later(here), size=size, rows=rows,
                planes=planes, source_row=source_row, source_plane=source_plane, target_row=target_row,
                target_plane=target_plane,
            )  # fmt: skip

    def load(self, view: View, queue: Queue, role: Role = "ifm") -> View:
        """A part of a tensor where a queue can read it: loaded into a dense tile, or in place if possible."""
        way = self.engines.reading(queue)
        if way is None or way[0] == view.memory:
            return view
        memory, dma = way
        tile = self.tile(memory, view.shape, view.bits, role)
        self.move(dma, view, tile)
        return tile

    def room(self, view: View, queue: Queue) -> View:
        """The view into which a queue writes a part of a result: the part itself, or a tile for `store` to copy."""
        way = self._leaving(view, queue)
        return view if way is None else self.tile(way[0], view.shape, view.bits, "ofm")

    def store(self, tile: View, view: View, queue: Queue) -> None:
        """Copies a part of a result from the tile that `room` made to its tensor; nothing if it is there already."""
        way = self._leaving(view, queue)
        if way is not None:
            self.move(way[1], tile, view)

    def _leaving(self, view: View, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue leaves a part of a result, and the queue that stores it; None if it is written in place."""
        way = self.engines.writing(queue)
        return None if way is None or way[0] == view.memory else way

    # -- contexts ---------------------------------------------------------------------------------------------------

    def context(self, op: qint.RequantizeOp | qint.LookupOp | qint.AddOp, channels: range | None = None) -> int:
        """The number of a context that finishes values as an operation says; emits the context unless it is still set.

        The context numbers are used in turn. Commands that use a context run on the queue that sets it, in order.

        Args:
            op: The operation.
            channels: The channels to finish, if the requantization has a factor for each channel; all by default.
        """
        wanted = (op, channels if isinstance(op, qint.RequantizeOp) and len(op.multiplier) > 1 else None)
        if wanted not in self._contexts:
            number = self._next_context % CONTEXTS
            self._next_context += 1
            self._contexts = {key: n for key, n in self._contexts.items() if n != number} | {wanted: number}
            self.issue(self.engines.post, SetContext, ctx=number, **self._finishing(op, channels))
        return self._contexts[wanted]

    def _finishing(self, op: qint.RequantizeOp | qint.LookupOp | qint.AddOp, channels: range | None) -> dict[str, Any]:
        fields, table = context_fields(op), self._table(op)
        first = channels.start if fields["per_channel"] and channels is not None else 0
        return fields | {"table": table.later(8 * first)}

    def _table(self, op: qint.RequantizeOp | qint.LookupOp | qint.AddOp) -> Spot:
        """The table of an operation at the place where commands read it; a layer loads each table once."""
        if op not in self._tables:
            self._tables[op] = self.staged(entries(op), role_of(op, self.engines))
        return self._tables[op]


ELEMENTS = {"bool": "i1", "float32": "f32", "float64": "f64", "float16": "f16"} | {
    f"{sign}int{bits}": f"{sign}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""numpy type of a port's elements → its name in a program."""


def port_of(direction: str, index: int, name: str, value: SSAValue) -> PortAttr:
    """The mark of a buffer that holds a tensor of the network."""
    shape = ArrayAttr(IntegerAttr(n, i64) for n in shape_of(value))
    element = StringAttr(ELEMENTS[stored_dtype(value).name])
    return PortAttr(StringAttr(direction), IntegerAttr(index, i64), StringAttr(name), shape, element)


CONTEXTS = 1 << CONTEXT_BITS
"""The number of contexts."""
