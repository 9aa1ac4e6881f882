"""Steps of NVDLA's driver as words of 64 bits: what it does in bits 48 and up, a register's address, and 32 bits."""

from qmlir.backends.hardware.nvdla.program import Command, Kind

BASE = 0x8000_0000
"""Where the memory of tensors begins on the bus."""


def word(step: Command) -> int:
    """Returns a step of a driver as a word."""
    return step.kind << 48 | step.address << 32 | step.value


def step_of(word: int) -> Command:
    """Returns the step of a driver that a word says."""
    return Command(Kind(word >> 48), word >> 32 & 0xFFFF, word & 0xFFFFFFFF)
