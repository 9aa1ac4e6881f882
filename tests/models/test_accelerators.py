"""Real networks on shipped devices: the simulator's bits are the reference's, its cycles those of the schedule.

`make npu` prints the table on 50 inputs each; here each runs on a few.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from qmlir.device import shipped_devices
from tests.models.accelerators import PRECISIONS, SMALL, Prepared, measure, prepare

pytestmark = [pytest.mark.models, pytest.mark.slow]

CASES = [(n, d, p) for n in SMALL for d in shipped_devices() for p in PRECISIONS.get(d, ("int8",))]
INPUTS = 3


@pytest.fixture(scope="module")
def prepared(shared: Callable[[str], Path]) -> Callable[[str], Prepared]:
    return cache(lambda name: prepare(name, shared))


@pytest.mark.parametrize(("network", "device", "precision"), CASES)
def test_a_network_on_a_device(prepared: Callable[[str], Prepared], network: str, device: str, precision: str) -> None:
    row = measure(prepared(network), device, precision, INPUTS)
    assert row.mismatches == 0
    assert row.predicted == row.cycles
    assert row.serial
    assert row.computed[0]
    assert 0 < row.utilization <= 1
