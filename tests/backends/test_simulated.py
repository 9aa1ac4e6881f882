"""Networks compiled for devices as callables: the bits of the reference, on shipped devices and on one of our own."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.simulated import serial
from qmlir.devices import shipped_devices
from qmlir.errors import InputError, OptionError, PipelineError
from qmlir.isa.commands import Host
from tests.cli.small import write_small

SIXTH = """
# A device that nobody has: 4 x 6 lanes, one scratchpad, an engine for everything after the array, and a slow bus.
schema = 1
name = "sixth"
clock_mhz = 50

[array]
dataflow = "os"
lanes = { k = 6, n = 4, m = 2 }
modes = [{ a = "i8", w = "i8", acc = "i32" }]
fold = { preload = 3, fill = 2, drain = 2 }

[[memory]]
id = "pad"
bytes = 16384
banks = 8
align = 8
holds = ["ifm", "ofm", "weights", "acc", "bias", "scales"]

[[memory]]
id = "ram"
external = true
bytes = 1048576
align = 4
holds = ["ifm", "ofm", "weights", "bias", "scales"]
bytes_per_cycle = { read = 2.0, write = 1.0 }
latency = { read = 20, write = 10 }

[[queue]]
id = "in"
engine = "dma"
from = ["ram"]
to = ["pad"]
bytes_per_cycle = 2.0
setup = 7
outstanding = 2

[[queue]]
id = "mac"
engine = "array"

[[queue]]
id = "after"
engine = "vector"
elements_per_cycle = 3.0

[[queue]]
id = "out"
engine = "dma"
from = ["pad"]
to = ["ram"]
bytes_per_cycle = 1.0
setup = 7
shares_bus_with = "in"

[sync]
kind = "watermark"
max_waits = 2

[layout]
weights = { n = 4, k = 6 }

[quant]
types = ["i8"]
scale = "mult-shift"
multiplier_bits = 32
granularity = "channel"
round = "half-up"
zero_point = { activations = true }
shift = { min = 0, max = 63 }

[ops]
conv2d = { kernel_max = [5, 5] }
fc = {}
maxpool = { kernel_max = [4, 4] }
requantize = {}
move = {}
act = ["none", "relu"]

[fallback]
kind = "host"
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> tuple[ModuleOp, qmlir.Profile, np.ndarray]:
    small = write_small(tmp_path_factory.mktemp("small"))
    module = qmlir.load(small.onnx)
    samples = small.samples[:, None]
    return module, qmlir.profile(module, samples), samples


@pytest.fixture(scope="module")
def sixth(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("devices") / "sixth.toml"
    path.write_text(SIXTH, "utf-8")
    return path


def _check(network: tuple[ModuleOp, qmlir.Profile, np.ndarray], device: str | Path, precision: str) -> None:
    module, profile, samples = network
    quantized = qmlir.quantize(module, profile, target=device, precision=precision)
    executable = qmlir.compile(quantized, target=device)
    reference, native = qmlir.reference(quantized), qmlir.compile(quantized)
    alone = executable.with_program(serial(executable.program, executable.device))
    for sample in samples:
        expected = reference(sample)
        assert np.array_equal(executable(sample), expected)
        assert np.array_equal(alone(sample), expected)
        assert np.array_equal(native(sample), expected)
    assert executable.report is not None
    assert executable.report.cycles == executable.predicted_cycles
    assert executable.report == executable.predicted
    assert alone.report is not None
    assert alone.report.cycles >= executable.report.cycles
    assert executable.report.products == 64 * 4 * 18 + 3 * 64


CASES = [(name, "int8") for name in shipped_devices()] + [("nmp", "int16"), ("ethos-u55-like", "int16")]


@pytest.mark.parametrize(("device", "precision"), CASES)
def test_a_shipped_device(network: tuple[ModuleOp, qmlir.Profile, np.ndarray], device: str, precision: str) -> None:
    _check(network, device, precision)


def test_a_device_of_ones_own_needs_a_file_alone(
    network: tuple[ModuleOp, qmlir.Profile, np.ndarray], sixth: Path
) -> None:
    _check(network, sixth, "int8")


@pytest.mark.slow
@pytest.mark.parametrize("rounding", ["half-even", "tfl-double"])
def test_a_device_follows_the_contract_that_it_names(
    network: tuple[ModuleOp, qmlir.Profile, np.ndarray], rounding: str, tmp_path: Path
) -> None:
    path = tmp_path / "sixth.toml"
    path.write_text(SIXTH.replace('round = "half-up"', f'round = "{rounding}"'), "utf-8")
    _check(network, path, "int8")


def test_where_each_operation_runs_is_recorded(
    network: tuple[ModuleOp, qmlir.Profile, np.ndarray], tmp_path: Path
) -> None:
    module, profile, _ = network
    executable = qmlir.compile(qmlir.quantize(module, profile, target="nmp"), target="nmp")
    codes = {e.operation: e.code for e in executable.ledger}
    assert codes["qint.requantize"] == codes["qint.max_pool2d"] == "device"
    without = tmp_path / "without.toml"
    without.write_text(SIXTH.replace("maxpool", "# maxpool"), "utf-8")
    executable = qmlir.compile(qmlir.quantize(module, profile, target=without), target=without)
    (pool,) = (e for e in executable.ledger if e.operation == "qint.max_pool2d")
    assert pool.code == "host"
    assert pool.reason.endswith("the host computes it: sixth has no maxpool (ops.maxpool)")
    calls = [c for c in executable.program.commands if isinstance(c, Host)]
    assert pool.crossing in [500 + max(-(-(c.read + c.written + c.constants) // 4), -(-c.work // 16)) for c in calls]
    assert pool.as_dict()["crossing"] == pool.crossing
    assert pool.remedy


def test_saved_programs(network: tuple[ModuleOp, qmlir.Profile, np.ndarray], sixth: Path, tmp_path: Path) -> None:
    module, profile, samples = network
    executable = qmlir.compile(qmlir.quantize(module, profile, target=sixth), target=sixth)
    assert executable.save(tmp_path / "net.npu") == [tmp_path / "net.npu", tmp_path / "net.host.mlir"]
    again = qmlir.load_program(tmp_path / "net.npu", sixth)
    assert again.signature == executable.signature
    assert np.array_equal(again(samples[0]), executable(samples[0]))


def test_what_goes_wrong(network: tuple[ModuleOp, qmlir.Profile, np.ndarray], sixth: Path, tmp_path: Path) -> None:
    module, profile, samples = network
    quantized = qmlir.quantize(module, profile, target=sixth)
    with pytest.raises(PipelineError, match="must compute some operation of the network, got none of them"):
        qmlir.compile(module, target=sixth)
    with pytest.raises(InputError, match="must be float32"):
        qmlir.compile(quantized, target=sixth)(samples[0].astype(np.float64))
    with pytest.raises(OptionError, match="did you mean nmp"):
        qmlir.compile(quantized, target="nnp")
    strict = tmp_path / "strict.toml"
    strict.write_text(SIXTH.replace('kind = "host"', 'kind = "error"').replace("maxpool", "# maxpool"), "utf-8")
    with pytest.raises(PipelineError, match=r'qint.max_pool2d "pool1": sixth has no maxpool, got|sixth has no maxpool'):
        qmlir.compile(quantized, target=strict)
    listed = tmp_path / "listed.toml"
    listed.write_text(
        SIXTH.replace('kind = "host"', 'kind = "host"\noperations = ["softmax"]').replace("maxpool", "# maxpool"),
        "utf-8",
    )
    with pytest.raises(PipelineError, match=r"fallback\.operations does not leave to the host"):
        qmlir.compile(quantized, target=listed)
