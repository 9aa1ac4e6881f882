"""Random networks, broadcasts and host parts among them, on every device: the reference's values, shapes and types.

QMLIR_NETWORKS says how many on each; every twentieth network of `make fuzz` is such a one.
"""

import os

import pytest

from qmlir.devices import shipped_devices
from tests.fuzz.devices import outcome

NETWORKS = int(os.environ.get("QMLIR_NETWORKS", "12"))


@pytest.mark.slow
@pytest.mark.parametrize("device", shipped_devices())
def test_simulator_equals_reference(device: str) -> None:
    found = [outcome(seed, device) for seed in range(NETWORKS)]
    assert not [str(each.mismatch) for each in found if each.mismatch is not None]
    assert sum(each.compared for each in found) >= NETWORKS // 3
