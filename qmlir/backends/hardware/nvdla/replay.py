"""Jobs of a network as traces of NVIDIA's own form, one each: whoever has the RTL replays them, and compares checksums.

A trace begins after a reset. It loads what a job reads, writes its registers in group 0, and checks what the job has
written by a checksum: that which the functional model gives.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qmlir.backends.hardware.nvdla.encoder import BASE, step_of
from qmlir.backends.hardware.nvdla.layouts import cube_bytes
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.program import Command, Kind
from qmlir.backends.hardware.nvdla.registers import BY_ADDRESS, DONE, pack
from qmlir.devices.model.layer import PlacedLayer
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
        path = folder / self.name / f"{self.name}.cfg"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, self.text)
        for name, content in self.files.items():
            write_whole(path.parent / name, content)
        return path


def job_traces(
    placed: PlacedLayer, constants: Mapping[int, bytes], words: Sequence[int], device: Nvdla, name: str
) -> Iterator[JobTrace]:
    """Yields the trace of each job of a layer, which the functional model computes meanwhile.

    Args:
        placed: The layer.
        constants: The constants of the network by their addresses.
        words: Those of the layer.
        device: The functional model, in whose memory are the constants and what the layer reads.
        name: What the names of traces begin with.
    """
    memory, layer = device.memory, placed.layer
    written = (BASE + placed.output, cube_bytes(*layer.output.shape[1:]))
    read = [(at, cube_bytes(*tensor.shape[1:])) for at, tensor in zip(placed.inputs, layer.inputs, strict=True)]
    read += [(at, len(constants[at])) for at in placed.constants]
    places = [*((BASE + at, size) for at, size in dict.fromkeys(read)), written]
    for number, steps in enumerate(_jobs(words)):
        own = f"{name}_{number:03}"
        files = {f"{own}_{n}.dat": _pieces(memory.read(*place).tobytes()) for n, place in enumerate(places)}
        device.execute(steps)
        text = [
            line
            for file, (at, size) in zip(files, places, strict=True)
            for line in (f"mem_init(pri_mem, {at:#x}, {size:#x}, ALL_ZERO);", f'mem_load(pri_mem, {at:#x}, "{file}");')
        ]
        crc = zlib.crc32(memory.read(*written).tobytes())
        text += [*_statements(steps), f"check_crc(sync_id_0, 1, {written[0]:#x}, {written[1]:#x}, {crc:#x});"]
        yield JobTrace(own, "\n".join(text) + "\n", files)


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
