"""Programs with words changed at random and the checksum made right again."""

import zlib
from collections.abc import Callable

import numpy as np

from qmlir.backends.npu.stream import Program
from qmlir.isa.blocks import Fault
from qmlir.isa.encoding import StreamError

HEADER = 24
"""Bytes before the text of a program."""


def outcomes(program: Program, seed: int, count: int, run: Callable[[Program], object]) -> dict[str, int]:
    """How often damaged programs were refused when read, stopped at a fault, and had some result."""
    rng = np.random.default_rng(seed)
    raw = bytearray(program.to_bytes()[:-4])
    found = {"refused": 0, "fault": 0, "result": 0}
    for _ in range(count):
        damaged = _damaged(raw, rng)
        try:
            run(Program.from_bytes(bytes(damaged) + zlib.crc32(damaged).to_bytes(4, "little")))
            found["result"] += 1
        except StreamError:
            found["refused"] += 1
        except Fault:
            found["fault"] += 1
    return found


def _damaged(raw: bytearray, rng: np.random.Generator) -> bytearray:
    """One to three words of commands with a bit turned over, with any value, or with a small one."""
    text, words = (int.from_bytes(raw[at : at + 4], "little") for at in (12, 16))
    damaged = bytearray(raw)
    for _ in range(int(rng.integers(1, 4))):
        at = HEADER + text + 4 * int(rng.integers(0, words))
        value = int.from_bytes(damaged[at : at + 4], "little")
        choices = (value ^ 1 << int(rng.integers(0, 32)), int(rng.integers(0, 1 << 32)), int(rng.integers(0, 64)))
        damaged[at : at + 4] = choices[int(rng.integers(0, 3))].to_bytes(4, "little")
    return damaged
