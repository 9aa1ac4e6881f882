"""Cycles that are computed from the registers of a layer are within a tenth of those of the RTL."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmlir.backends.hardware.nvdla.cost import cycles
from qmlir.backends.hardware.nvdla.machine import Nvdla
from qmlir.backends.hardware.nvdla.memory import Memory
from tests.backends.hardware.nvdla.vectors import KINDS, vectors

MEAN = 0.025
"""The largest mean error of a kind."""


@pytest.mark.parametrize("kind", KINDS)
def test_cycles_of_the_last_layer(kind: str, shared: Callable[[str], Path]) -> None:
    errors: dict[str, float] = {}
    for vector in vectors(shared, kind):
        nvdla = Nvdla(Memory(vector.program.segments))
        nvdla.execute(vector.program.commands)
        errors[vector.name] = cycles(nvdla.done[-1]) / vector.cycles - 1
    assert {name: error for name, error in errors.items() if abs(error) > 0.1} == {}
    assert sum(map(abs, errors.values())) / len(errors) < MEAN
