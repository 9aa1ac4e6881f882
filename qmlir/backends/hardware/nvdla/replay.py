"""Jobs of a network as traces of NVIDIA's own form, one each: whoever has the RTL replays them, and compares checksums.

A trace begins after a reset. It loads what a job reads, writes its registers in group 0, and checks what the job has
written by a checksum: that which the functional model gives.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qmlir.backends.hardware.nvdla.layouts import to_surfaces
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.program import Command, Kind
from qmlir.backends.hardware.nvdla.registers import BY_ADDRESS, DONE, pack
from qmlir.backends.hardware.nvdla.words import BASE, step_of
from qmlir.devices.model.encoder import EncodedNetwork
from qmlir.running.files import write_whole

PIECE = 32
"""Bytes of a line of a file of memory."""

UNMASKED = ("CDP", "PDP", "SDP")
"""The units whose interrupts traces wait for: those that write results."""


@dataclass(frozen=True)
class JobTrace:
    """A trace: its name, its statements, and the files of memory that it loads, by their names."""

    name: str
    text: str
    files: Mapping[str, str]

    def write(self, folder: Path) -> Path:
        """Writes the trace and its files to `folder/NAME/`, and returns the path of the trace."""
        (folder / self.name).mkdir(parents=True, exist_ok=True)
        for name, text in self.texts():
            write_whole(folder / name, text)
        return folder / self.name / f"{self.name}.cfg"

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yields names behind a folder, `NAME/NAME.cfg` first, and what these files hold."""
        yield f"{self.name}/{self.name}.cfg", self.text
        yield from ((f"{self.name}/{name}", text) for name, text in self.files.items())


def job_traces(words: Sequence[int], device: Nvdla, name: str) -> Iterator[JobTrace]:
    """Yields the trace of each job of a layer, which the functional model computes meanwhile.

    Args:
        words: Those of the layer.
        device: The functional model, in whose memory are the constants and what the layer reads.
        name: What the names of traces begin with.
    """
    memory = device.memory
    for number, steps in enumerate(_jobs(words)):
        device.memory = watched = _Watched(memory)
        device.execute(steps)
        device.memory = memory
        own = f"{name}_{number:03}"
        places = list(_runs(watched.touched))
        files = {
            f"{own}_{n}.dat": _pieces(watched.before.read(at, size).tobytes()) for n, (at, size) in enumerate(places)
        }
        text = [
            line
            for file, (at, size) in zip(files, places, strict=True)
            for line in (f"mem_init(pri_mem, {at:#x}, {size:#x}, ALL_ZERO);", f'mem_load(pri_mem, {at:#x}, "{file}");')
        ]
        text += _statements(steps)
        for at, size in _runs(watched.written):
            crc = zlib.crc32(memory.read(at, size).tobytes())
            text.append(f"check_crc(sync_id_0, 1, {at:#x}, {size:#x}, {crc:#x});")
        yield JobTrace(own, "\n".join(text) + "\n", files)


class _Watched(Memory):
    """A memory that notes what a job reads and writes of another one.

    before            what the job found where it read
    touched, written  addresses and sizes of what was read, and of what was written
    """

    def __init__(self, memory: Memory):
        super().__init__()
        self._memory, self.before = memory, Memory()
        self.touched, self.written = list[tuple[int, int]](), list[tuple[int, int]]()

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        data = self._memory.read(address, size)
        self.before.write(address, data)
        self.touched.append((address, size))
        return data

    def write(self, address: int, data: bytes | NDArray[np.uint8]) -> None:
        self._memory.write(address, data)
        self.written.append((address, len(data)))


def _runs(places: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yields addresses and sizes of ranges that do not touch each other and hold the places."""
    begin = end = 0
    for address, size in sorted(places):
        if address > end:
            if end:
                yield begin, end - begin
            begin = address
        end = max(end, address + size)
    if end:
        yield begin, end - begin


def network_traces(network: EncodedNetwork) -> Iterator[JobTrace]:
    """Yields the traces of all jobs of a network, one layer after the other.

    What its inputs hold, and what the host writes between layers, is seeded noise. Everything else is what the layers
    before have written.
    """
    memory, rng = Memory((BASE + at, data) for at, data in network.constants.items()), np.random.default_rng(0)
    device = Nvdla(memory)
    for placed, words in zip(network.layers, network.words, strict=True):
        for at, tensor in network.sources.get(placed.number, ()):
            if tensor.bits == 8 and tensor.shape[0] == 1:  # no layer reads others
                memory.write(BASE + at, to_surfaces(rng.integers(-128, 128, tensor.shape[1:], np.int8)))
        yield from job_traces(words, device, f"{placed.number:03}")


def _jobs(words: Sequence[int]) -> Iterator[list[Command]]:
    """Yields the steps of each job: those up to the wait for its end."""
    steps: list[Command] = []
    for step in map(step_of, words):
        steps.append(step)
        if step.kind is Kind.WAIT:
            yield steps
            steps = []


def _statements(steps: Sequence[Command]) -> Iterator[str]:
    """Yields the statements of a job as it runs after a reset, with all units in group 0."""
    masked = {f"{unit}_DONE_MASK{group}": 1 for unit in DONE if unit not in UNMASKED for group in (0, 1)}
    yield f"reg_write(NVDLA_GLB.S_INTR_MASK_0, {pack('GLB', 'S_INTR_MASK', **masked):#x});"
    pointers = {place.address for place in BY_ADDRESS.values() if place.name == "S_POINTER"}
    for kind, address, value in steps:
        if kind is Kind.WAIT:
            unit = next(unit for unit, bit in DONE.items() if value in (bit, bit << 1))
            yield f"intr_notify({unit}_0, sync_id_0);"
            continue
        place = BY_ADDRESS[address]
        named = f"NVDLA_{place.unit}.{place.name}_0"
        if kind is Kind.POLL:
            yield f"poll_reg_equal({named}, {value:#x});"
        else:
            yield f"reg_write({named}, {0 if address in pointers else value:#x});"


def _pieces(data: bytes) -> str:
    """A file of memory: its bytes in lines, each with its offset."""
    lines = ["{"]
    for at in range(0, len(data), PIECE):
        own = data[at : at + PIECE]
        lines.append(f"{{offset:{at:#x}, size:{len(own)}, payload:{' '.join(f'0x{byte:02x}' for byte in own)}}} ,")
    return "\n".join([*lines, "}"]) + "\n"
