"""Programs that ran on the RTL of NVDLA, with the bytes it wrote and its cycles: shared `conformance/nvdla`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.program import Program

FILE = "conformance/nvdla/programs.npz"

KINDS = (
    *("acc", "bias32", "chain", "chain3", "conv", "depthwise", "gaps", "groups", "img", "lanes", "pdp", "sdp"),
    "stream",
)
"""What the names of programs begin with."""


@dataclass(frozen=True)
class Vector:
    """A program and what the RTL made of it.

    name     its kind and a number
    meta     what it is, in words and numbers
    program  what was written to the registers, and the memory before
    after    memory after: bytes at addresses, 32 bytes behind each result among them
    cycles   from the first enabling of the last layer to the end of the last wait
    """

    name: str
    meta: dict[str, object]
    program: Program
    after: tuple[tuple[int, NDArray[np.uint8]], ...]
    cycles: int

    @property
    def kind(self) -> str:
        """What the name begins with."""
        return self.name.split("_")[0]

    def differing(self, memory: Memory) -> int:
        """Returns how many bytes of a memory are not what the RTL wrote."""
        return sum(int((memory.read(address, len(data)) != data).sum()) for address, data in self.after)


@cache
def _vectors(path: Path) -> tuple[Vector, ...]:
    with np.load(path) as file:
        z = {name: file[name] for name in file.files}

    def parts(what: str, owner: int) -> list[tuple[int, NDArray[np.uint8]]]:
        at = z[f"{what}_at"]
        rows = np.flatnonzero(z[f"{what}_program"] == owner)
        return [(int(z[f"{what}_addr"][n]), z[what][at[n] : at[n + 1]]) for n in rows]

    vectors: list[Vector] = []
    for n, name in enumerate(z["name"]):
        segments = [(address, data.tobytes()) for address, data in parts("seg", n)]
        program = Program.from_rows(z["op"][z["op_at"][n] : z["op_at"][n + 1]], segments)
        meta = json.loads(str(z["meta"][n]))
        vectors.append(Vector(str(name), meta, program, tuple(parts("out", n)), int(z["cycles"][n])))
    return tuple(vectors)


def vectors(shared: Callable[[str], Path], kind: str | None = None) -> list[Vector]:
    """Returns the programs of a kind, or all; skips the test where the file is missing."""
    return [vector for vector in _vectors(shared(FILE)) if kind in (None, vector.kind)]
