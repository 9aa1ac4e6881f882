"""Golden vectors: what the memories hold before and after each command and layer of a run, as files for testbenches.

A folder of vectors holds

    index.json                            the program, command by command, and the files that belong to each (below)
    vectors.npz                           the operands of every command: `12.reads.data` is uint8 [planes, rows, size]
    initial.MEMORY.hex, final.MEMORY.hex  a memory before the first command, and behind the last
    layers/3/before.MEMORY.hex            a memory before a layer, and `after.` behind it
    commands/12/before.MEMORY.hex         a memory before a command, and `after.` behind it

A .hex file is for Verilog's `$readmemh` into a memory of bytes: runs of bytes in hexadecimal digits, each behind its
address, `@40`. By default an image before holds the bytes that the command or layer reads and does not write first; an
image after holds the bytes that it writes. Whole images hold all that was ever written to the memory. So in either case
the images before a command are enough to execute it, and those after it are what has to come out. A command that reads
nothing of a memory, or writes nothing to it, has no file for it.

index.json has these keys; every `crc32` is that of the bytes in order, as eight hexadecimal digits.

    device, images  the name of the device; "changes" or "whole"
    program         the checksum of the program's file
    word_bits       bits of the words of commands
    queues          their names, by number
    memories        of each its name, bytes, whether it is external, and its files `initial` and `final`
    inputs, outputs of each its name, memory, address, shape and type
    layers          of each its name, its first and its last command, and its files `before` and `after`
    commands        of each: mnemonic, queue, ctx, the number of its layer (null before the first), its fields, waits,
                    `context`: the number of the set-context command that it uses (null if none), words in the device's
                    encoding, the blocks that it `reads` and `writes`, and its files `before` and `after`

A file is described by its memory, its path in the folder, the number of its bytes and their checksum. A block is
described by the operand, a field of the command or its context, and by memory, address, size, rows, planes, row_pitch
and plane_pitch as in isa/blocks.py, with the checksum of its bytes.
"""

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.accesses import Accesses
from qmlir.backends.npu.image import byte_lines
from qmlir.backends.npu.machine import Bytes, Memories, strided
from qmlir.backends.npu.stream import Port, Program
from qmlir.backends.npu.words import encoded
from qmlir.devices import Device
from qmlir.isa.blocks import Block
from qmlir.isa.commands import Arithmetic, Mark, Post, SetContext
from qmlir.isa.encoding import Command, Place, field_kinds, mnemonic

INDEX = "index.json"
ARRAYS = "vectors.npz"
IMAGES = ("changes", "whole")

Mask = npt.NDArray[np.bool_]
File = dict[str, Any]


@dataclass
class _Layer:
    """A layer while it runs.

    name    its name
    first   the number of its first command
    data    each memory's bytes before the layer
    reads   of each memory, the bytes that the layer reads and has not written before
    writes  of each memory, the bytes that it writes
    """

    name: str
    first: int
    data: list[Bytes]
    reads: list[Mask]
    writes: list[Mask]


class Recorder:
    """Writes the vectors of a run into a folder; the simulator calls it before each command and behind the last."""

    def __init__(
        self, program: Program, device: Device, accesses: Sequence[Accesses], folder: Path, images: str = "changes"
    ):
        """Begins the vectors of a run of one sample.

        Args:
            program: The program.
            device: Its device.
            accesses: The operands of each command.
            folder: An empty folder.
            images: "changes" or "whole", a word of `IMAGES`.

        Raises:
            UnsupportedError: The device's encoder refuses a command.
        """
        self.program, self.device, self.accesses, self.folder = program, device, accesses, folder
        self.whole = images == "whole"
        self._words = encoded(program, device)
        self._queues = [queue.id for queue in device.queue]
        self._commands: list[dict[str, Any]] = []
        self._layers: list[dict[str, Any]] = []
        self._layer: _Layer | None = None
        self._contexts: dict[int, int] = {}
        self._initial: list[File | None] = []
        self._final: list[File | None] = []
        self._archive = zipfile.ZipFile(folder / ARRAYS, "w")

    def __call__(self, number: int, memories: Memories) -> None:
        """Records the memories before command `number`, and with it those behind the command before."""
        if number:
            self._after(number - 1, memories)
        else:
            self._initial = self._all(memories, "initial")
        if number < len(self.program.commands):
            self._before(number, memories)
        else:
            self._end_layer(number - 1, memories)
            self._final = self._all(memories, "final")

    def finish(self) -> None:
        """Writes the index."""
        self._archive.close()
        index = {
            "version": 1,
            "device": self.device.name,
            "images": "whole" if self.whole else "changes",
            "program": _checksum(self.program.to_bytes()[:-4]),
            "word_bits": self._words.bits,
            "queues": self._queues,
            "memories": [
                {"name": m.id, "bytes": m.bytes, "external": m.external, "initial": initial, "final": final}
                for m, initial, final in zip(self.device.memory, self._initial, self._final, strict=True)
            ],
            "inputs": [self._port(port) for port in self.program.inputs],
            "outputs": [self._port(port) for port in self.program.outputs],
            "layers": self._layers,
            "commands": self._commands,
        }
        (self.folder / INDEX).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")

    # -- commands ---------------------------------------------------------------------------------------------------

    def _before(self, number: int, memories: Memories) -> None:
        command, accesses = self.program.commands[number], self.accesses[number]
        if isinstance(command, Mark):
            self._end_layer(number - 1, memories)
            self._begin_layer(command, number, memories)
        if self._layer is not None:
            for block in accesses.reads.values():
                read = strided(self._layer.reads[block.place.memory][None], block)
                read |= ~strided(self._layer.writes[block.place.memory][None], block)
        uses = isinstance(command, Post | Arithmetic)
        self._commands.append(
            {
                "number": number,
                "mnemonic": mnemonic(type(command)),
                "queue": self._queues[command.queue],
                "layer": None if self._layer is None else len(self._layers),
                "ctx": command.ctx,
                "fields": self._fields(command),
                "waits": [[self._queues[wait.queue], wait.finished] for wait in command.waits],
                "context": self._contexts.get(command.ctx) if uses else None,
                "words": [f"{word:0{self._words.bits // 4}x}" for word in self._words.commands[number]],
                "reads": self._blocks(number, "reads", accesses.reads, memories),
                "before": self._files(f"commands/{number}/before", accesses.reads, memories),
            }
        )
        if isinstance(command, SetContext):
            self._contexts[command.ctx] = number

    def _after(self, number: int, memories: Memories) -> None:
        accesses, entry = self.accesses[number], self._commands[number]
        if self._layer is not None:
            for block in accesses.writes.values():
                strided(self._layer.writes[block.place.memory][None], block)[...] = True
        entry["writes"] = self._blocks(number, "writes", accesses.writes, memories)
        entry["after"] = self._files(f"commands/{number}/after", accesses.writes, memories)

    def _fields(self, command: Command) -> dict[str, Any]:
        """The fields of a command as numbers; a place as its memory's name and its address."""
        found: dict[str, Any] = {}
        for name in field_kinds(type(command)):
            value: Place | int = getattr(command, name)
            if isinstance(value, Place):
                found[name] = [self.device.memory[value.memory].id, value.address]
            else:
                found[name] = int(value)
        return found

    def _blocks(self, number: int, side: str, blocks: Mapping[str, Block], memories: Memories) -> list[dict[str, Any]]:
        """Adds the bytes of a command's operands to the archive, and describes their blocks."""
        found: list[dict[str, Any]] = []
        for operand, block in blocks.items():
            held = memories.read(block)[0]
            named = zipfile.ZipInfo(f"{number}.{side}.{operand}.npy")  # without the time, so that equal runs are equal
            named.compress_type = zipfile.ZIP_DEFLATED
            with self._archive.open(named, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, held, allow_pickle=False)
            memory, address = self.device.memory[block.place.memory].id, block.place.address
            sizes = {"size": block.size, "rows": block.rows, "planes": block.planes}
            pitches = {"row_pitch": block.row_pitch, "plane_pitch": block.plane_pitch}
            place = {"operand": operand, "memory": memory, "address": address}
            found.append({**place, **sizes, **pitches, "crc32": _checksum(held.tobytes())})
        return found

    def _files(self, name: str, blocks: Mapping[str, Block], memories: Memories) -> list[File]:
        """Writes the images of the memories that some blocks lie in."""
        masks: dict[int, Mask] = {}
        for block in blocks.values():
            if not block.empty:
                _, written = memories.image(block.place.memory)
                mask = masks.setdefault(block.place.memory, np.zeros_like(written))
                strided(mask[None], block)[...] = True
        if self.whole:
            masks = {n: memories.image(n)[1] for n in range(len(self.device.memory))}
        return [f for n, mask in masks.items() if (f := self._file(name, n, memories.image(n)[0][0], mask)) is not None]

    # -- layers -----------------------------------------------------------------------------------------------------

    def _begin_layer(self, mark: Mark, number: int, memories: Memories) -> None:
        images = [memories.image(n) for n in range(len(self.device.memory))]
        reads, writes = ([np.zeros_like(written) for _, written in images] for _ in range(2))
        data = [data[0].copy() for data, _ in images]
        name = self.program.layers[mark.layer] if mark.layer < len(self.program.layers) else str(mark.layer)
        self._layer = _Layer(name, number, data, reads, writes)
        if self.whole:
            for mask, (_, written) in zip(reads, images, strict=True):
                mask |= written

    def _end_layer(self, last: int, memories: Memories) -> None:
        """Writes the images of the layer that ends with a command."""
        if (layer := self._layer) is None:
            return
        folder, before, after = f"layers/{len(self._layers)}", list[File | None](), list[File | None]()
        for n, (data, reads, writes) in enumerate(zip(layer.data, layer.reads, layer.writes, strict=True)):
            now, written = memories.image(n)
            before.append(self._file(f"{folder}/before", n, data, reads))
            after.append(self._file(f"{folder}/after", n, now[0], written if self.whole else writes))
        self._layers.append(
            {
                "number": len(self._layers),
                "name": layer.name,
                "first": layer.first,
                "last": last,
                "before": [file for file in before if file is not None],
                "after": [file for file in after if file is not None],
            }
        )
        self._layer = None

    # -- files ------------------------------------------------------------------------------------------------------

    def _all(self, memories: Memories, name: str) -> list[File | None]:
        """Writes all that was ever written to each memory; None for a memory with nothing."""
        images = (memories.image(n) for n in range(len(self.device.memory)))
        return [self._file(name, n, data[0], written) for n, (data, written) in enumerate(images)]

    def _file(self, name: str, memory: int, data: Bytes, mask: Mask) -> File | None:
        """Writes the bytes of a memory that a mask names, and describes the file; None if there are none."""
        if not mask.any():
            return None
        path = f"{name}.{self.device.memory[memory].id}.hex"
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(hex_text(data, mask), encoding="ascii")
        held = data[mask]
        return {
            "memory": self.device.memory[memory].id,
            "path": path,
            "bytes": len(held),
            "crc32": _checksum(held.tobytes()),
        }

    def _port(self, port: Port) -> dict[str, Any]:
        memory = self.device.memory[port.place.memory].id
        place = {"memory": memory, "address": port.place.address}
        return {"name": port.name, **place, "shape": list(port.shape), "type": port.type}


def hex_text(data: Bytes, mask: Mask) -> str:
    """The bytes that a mask names as Verilog's `$readmemh` reads them: runs behind their addresses, 16 bytes a line."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2)
    return byte_lines({begin: data[begin:end].tobytes() for begin, end in edges.tolist()})


def _checksum(held: bytes) -> str:
    return f"{zlib.crc32(held):08x}"
