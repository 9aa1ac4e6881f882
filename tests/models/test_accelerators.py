"""Real networks on shipped devices: the simulator's bits are the reference's, its cycles those of the schedule.

`make npu` prints the table on 50 inputs each; `make models` runs each on a few, and a plain run two of the networks.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import qmlir
from docs.measurements.accelerators import PRECISIONS, SMALL, Prepared, measure, prepare
from qmlir.compiler import to_integers
from qmlir.devices import load_device, shipped_devices
from qmlir.devices.legality.limits import legality_of
from qmlir.devices.model.module import filled_of
from qmlir.stages import TO_COMMANDS, to_layers
from tests.conftest import ROOT

pytestmark = [pytest.mark.models, pytest.mark.slow]

NAMES = SMALL if "QMLIR_MODELS_SHARE" in os.environ else ("kws", "resnet8")
CASES = [(n, d, p) for n in NAMES for d in shipped_devices() for p in PRECISIONS.get(d, ("int8",))]
INPUTS = 3
ETHOS = "ethos-u55-like"


@pytest.fixture(scope="module")
def prepared(shared: Callable[[str], Path]) -> Callable[[str], Prepared]:
    return cache(lambda name: prepare(name, shared))


@pytest.mark.parametrize(("network", "device", "precision"), CASES)
def test_a_network_on_a_device(prepared: Callable[[str], Prepared], network: str, device: str, precision: str) -> None:
    row = measure(prepared(network), device, precision, INPUTS)
    assert row.mismatches == 0
    assert row.predicted == row.cycles
    assert not row.mistakes
    assert row.serial
    assert row.computed[0]
    assert 0 < row.utilization <= 1


@pytest.mark.parametrize("device", shipped_devices())
@pytest.mark.parametrize("network", NAMES)
def test_tensors_take_no_more_bytes_than_live_at_once(
    prepared: Callable[[str], Prepared], network: str, device: str
) -> None:
    given = prepared(network)
    module = to_integers(qmlir.quantize(given.module, given.profile, target=device), device)
    placed = qmlir.Pipeline(*to_layers(device), *TO_COMMANDS[:-1])(module)
    filled = filled_of(placed)
    assert filled
    for memory in filled.values():
        assert memory.tensors == memory.bound


@pytest.mark.parametrize("parts", [7, 6])
def test_a_network_in_stripes(prepared: Callable[[str], Prepared], tmp_path: Path, parts: int) -> None:
    """In so many eighths of the bytes that its tensors have whole."""
    whole = measure(prepared("resnet8"), ETHOS, "int8", 1)
    bytes = load_device(ETHOS).memory_of("ifm").bytes
    text = (ROOT / "qmlir" / "targets" / f"{ETHOS}.toml").read_text(encoding="utf-8")
    small = tmp_path / "small.toml"
    # Of the memory an eighth is for what is brought from flash.
    small.write_text(text.replace(f"bytes = {bytes}", f"bytes = {whole.live * parts // 7}"), encoding="utf-8")
    row = measure(prepared("resnet8"), str(small), "int8", INPUTS)
    assert row.tensors == row.live <= whole.live * parts // 8
    assert row.mismatches == 0
    assert row.predicted == row.cycles
    assert row.serial


@pytest.mark.parametrize(
    "name", ["kws_dscnn_i8", "resnet8_cifar_i8", "vww_mbv1_i8", "ad_fcae_i8", "mobilenet_v1_0.25_224_u8"]
)
def test_a_network_that_came_in_integers(shared: Callable[[str], Path], name: str) -> None:
    """What a converter quantized runs as it is on the device that has zero points, its ports the model's own types."""
    module = qmlir.load(shared(f"models/tflite/{name}.tflite"))
    executable, reference = qmlir.compile(module, target=ETHOS), qmlir.reference(module, target=ETHOS)
    assert executable.signature == reference.signature
    rng = np.random.default_rng(0)
    (spec,) = reference.signature.inputs
    limits = np.iinfo(spec.dtype)
    for _ in range(2):
        x = rng.integers(limits.min, limits.max, spec.shape, spec.dtype, endpoint=True)
        assert [y.tobytes() for y in executable.run(x)] == [y.tobytes() for y in reference.run(x)]
    assert executable.report is not None
    products = sum(v.macs for v in legality_of(to_integers(module, ETHOS), load_device(ETHOS)))
    assert executable.report.products >= 0.99 * products
