"""Real networks on shipped devices: the simulator's bits are the reference's, its cycles those of the schedule.

`make npu` prints the table on 50 inputs each; here each runs on a few.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import DictionaryAttr

import qmlir
from qmlir.compiler import TO_LAYERS, to_integers
from qmlir.device import shipped_devices
from qmlir.transforms.npu.place import FILLED
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


@pytest.mark.parametrize("device", shipped_devices())
@pytest.mark.parametrize("network", SMALL)
def test_tensors_take_no_more_bytes_than_live_at_once(
    prepared: Callable[[str], Prepared], network: str, device: str
) -> None:
    given = prepared(network)
    module = to_integers(qmlir.quantize(given.module, given.profile, target=device), device)
    *plan, to_npu, fuse = TO_LAYERS
    placed = qmlir.Pipeline(*plan, (to_npu, {"device": device}), fuse, "npu-tile", "npu-place")(module)
    filled = placed.attributes[FILLED]
    assert isinstance(filled, DictionaryAttr)
    for memory in filled.data.values():
        assert isinstance(memory, DictionaryAttr)
        assert memory.data["tensors"] == memory.data["bound"]
