"""The functional model writes, byte for byte, what NVDLA's RTL wrote."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmlir.backends.hardware.nvdla.machine import run
from tests.backends.hardware.nvdla.vectors import KINDS, vectors


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_are_those_of_the_rtl(kind: str, shared: Callable[[str], Path]) -> None:
    programs = vectors(shared, kind)
    assert programs
    assert {v.name: v.differing(run(v.program)) for v in programs} == {v.name: 0 for v in programs}


def test_each_program_is_of_a_kind(shared: Callable[[str], Path]) -> None:
    assert len(vectors(shared)) == sum(len(vectors(shared, kind)) for kind in KINDS) == 224
