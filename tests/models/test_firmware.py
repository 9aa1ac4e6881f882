"""Real networks as bundles for shipped devices: the outputs are the reference's on native and on emulated processors.

The device is the model in C. `make models` runs four networks on all of them, a share of it keyword spotting on two.
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

pytestmark = [pytest.mark.models, pytest.mark.slow]

INPUTS = 20
NAMES = ("mnist-8", "kws", "resnet8", "vww")
WHOLE = os.environ.get("QMLIR_MODELS_SHARE") == "1"
CASES = [(name, device, cpu) for name in NAMES for device in shipped_devices() for cpu in ("x86-64-v3", *TARGETS)]
SHARE = [("kws", "nmp", "x86-64-v3"), ("kws", "ethos-u55-like", "cortex-m4")]


@pytest.fixture(scope="module")
def quantized(shared: Callable[[str], Path]) -> Callable[[str, str], ModuleOp]:
    prepared: Callable[[str], Prepared] = cache(lambda name: prepare(name, shared))

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
        assert emulated(folder, cpu, "selftest.c", files, "-O2") == 0
        assert emulated(folder, cpu, "painted.c", files, "-O2") == 0
    else:
        assert status(build(folder, LANGUAGES["C99"], "selftest.c", files)) == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    memories = {memory["name"]: memory["bytes"] for memory in manifest["device"]["memories"]}
    record_property("bytes", {**manifest["sizes"], **memories})
