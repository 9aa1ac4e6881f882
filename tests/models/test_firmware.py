"""Real networks as bundles for shipped devices: the outputs are the reference's on native and on emulated processors.

The device is the model in C. `make models` runs five networks on all of them, a share of it keyword spotting on two.

MobileNetV2 comes with integers; its float form is quantized for each device. On the emulated boards it takes up to
15 MB of memory: the samples, the program and the constants as they are linked, and the memories of the device.
"""

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from docs.measurements.accelerators import Prepared, prepare
from qmlir.devices import shipped_devices
from tests.cli.test_bundles import LANGUAGES, status
from tests.cli.test_device_bundles import PAINTED, TARGETS, build, emulated, sources_of
from tests.models.floats import floats_of
from tests.models.networks import Network, logits, mobilenet, split

pytestmark = [pytest.mark.models, pytest.mark.slow]

INPUTS = 20
MOST_SECONDS = 1800
MOBILENETV2 = Network("mobilenetv2", "models/tflite/mobilenet_v2_1.0_224_u8.tflite", mobilenet, 25, 225)
NAMES = ("mnist-8", "kws", "resnet8", "vww", MOBILENETV2.name)
WHOLE = os.environ.get("QMLIR_MODELS_SHARE") == "1"
CASES = [(name, device, cpu) for name in NAMES for device in shipped_devices() for cpu in ("x86-64-v3", *TARGETS)]
SHARE = [("kws", "nmp", "x86-64-v3"), ("kws", "ethos-u55-like", "cortex-m4")]


def mobilenetv2(shared: Callable[[str], Path]) -> Prepared:
    """MobileNetV2 on floats, with a profile of pictures."""
    module = logits(floats_of(qmlir.load(shared(MOBILENETV2.file))))
    data = split(MOBILENETV2, shared)
    return Prepared(MOBILENETV2.name, module, qmlir.profile(module, data.profile), data)


@pytest.fixture(scope="module")
def quantized(shared: Callable[[str], Path]) -> Callable[[str, str], ModuleOp]:
    prepared = cache(lambda name: mobilenetv2(shared) if name == MOBILENETV2.name else prepare(name, shared))

    @cache
    def of(name: str, device: str) -> ModuleOp:
        return qmlir.quantize(prepared(name).module, prepared(name).profile, target=device, io="int8")

    return of


@pytest.mark.parametrize(("network", "device", "cpu"), CASES if WHOLE else SHARE)
def test_a_network_in_a_firmware(
    quantized: Callable[[str, str], ModuleOp],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    network: str,
    device: str,
    cpu: str,
    record_property: Callable[[str, object], None],
) -> None:
    """The self-test has twenty samples, all integers of 8 bits, and what the reference makes of them."""
    monkeypatch.setattr("qmlir.cli.embedded.vectors.SAMPLES", INPUTS)
    monkeypatch.setattr("qmlir.cli.embedded.vectors.MOST", 1 << 22)
    folder = tmp_path / "out"
    qmlir.bundle(quantized(network, device), folder, prefix="net", target=device, cpu=cpu)
    assert f"#define NET_SAMPLES {INPUTS}" in (folder / "net_vectors.h").read_text()
    files = sources_of(folder)
    (folder / "painted.c").write_text(PAINTED)
    if cpu in TARGETS:
        assert emulated(folder, cpu, "selftest.c", files, "-O2", MOST_SECONDS) == 0
        assert emulated(folder, cpu, "painted.c", files, "-O2", MOST_SECONDS) == 0
    else:
        assert status(build(folder, LANGUAGES["C99"], "selftest.c", files)) == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    memories = {memory["name"]: memory["bytes"] for memory in manifest["device"]["memories"]}
    record_property("bytes", {**manifest["sizes"], **memories})
