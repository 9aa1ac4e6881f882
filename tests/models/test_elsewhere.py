"""Large networks on another processor: an emulator runs objects for AArch64, with the bits of the reference."""

import os
import platform
from pathlib import Path

import numpy as np
import pytest

import qmlir
from docs.measurements.everywhere import inputs_of, without_casts
from qmlir.backends.cpu import Machine
from tests.backends.cpu import programs
from tests.conftest import crossed

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

PEERS = Path(os.environ.get("QMLIR_PEERS", Path.home() / ".cache" / "qmlir-peers")) / "models"

NETWORKS = ("mobilenetv2_qdq_s8s8", "resnet50_qdq_s8s8")
"""As onnxruntime quantized them, with integers at both ends here."""


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this is the processor")
@crossed({"cpu": ["cortex-a53", "cortex-a76"], "name": NETWORKS})
def test_large_networks_have_the_same_bits_on_aarch64(name: str, cpu: str) -> None:
    """One input; the reference computes in numpy. Cortex-A53 multiplies by `smull`, Cortex-A76 by `sdot`."""
    path = PEERS / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"there is no {path}: the script build_models.py of the peers writes it")
    machine = Machine.of(cpu, triple="aarch64-linux-gnu")
    programs.require(machine)
    network = without_casts(qmlir.to_integers(path))
    reference = qmlir.reference(network)
    (x,) = reference.signature.inputs
    sample = inputs_of(x.shape, x.dtype, 3)[-1]
    executable = qmlir.compile(network, cpu=cpu, triple="aarch64-linux-gnu")
    (found,) = programs.run(executable, [[sample]])
    for got, expected in zip(found, reference.run(sample), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert np.unique(expected).size > 10
