"""`qmlir compile --target … --emit registers` and `trace`: what an encoder writes besides words, run as it is."""

import ctypes
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.hardware.nvdla.layouts import from_surfaces, to_surfaces
from qmlir.backends.hardware.nvdla.machine import Nvdla, run
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.program import Command, Kind, Program
from qmlir.backends.hardware.nvdla.trace import read
from qmlir.backends.hardware.nvdla.words import BASE
from qmlir.devices.model.encoder import EncodedNetwork, register_encoder
from qmlir.plugins import PluginError
from tests.backends.npu.image_reader import c_bytes
from tests.cli.small import run as qmlir_command
from tests.devices.test_layer_encoder import Numbers

TARGET = ("--target", "nvdla-small")


@pytest.fixture(scope="module")
def quantized(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits; the host gives their image the order of the device, which computes everything else."""
    examples, output = root / "examples" / "digits", tmp_path_factory.mktemp("digits") / "digits.mlir"
    data = f"{examples / 'digits.npz'}:calibration_images"
    model = examples / "digits.onnx"
    assert qmlir_command("quantize", model, "--data", data, "--io", "int8", *TARGET, "-o", output) == 0
    return output


@pytest.fixture(autouse=True)
def _forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmlir.plugins._registered", {})


READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32)

HOOKS = """
#include <stdint.h>
uint32_t (*reads)(uint32_t); void (*writes)(uint32_t, uint32_t);
uint32_t net_read(uint32_t address) { return reads(address); }
void net_write(uint32_t address, uint32_t value) { writes(address, value); }
"""


@pytest.mark.slow
def test_the_driver_in_c(tmp_path: Path, quantized: Path) -> None:
    """A C compiler takes it without a warning, and the functional model behind its registers gives the reference."""
    assert qmlir_command("compile", quantized, *TARGET, "--emit", "registers", "-o", tmp_path / "net.c") == 0
    hooks, library = tmp_path / "hooks.c", tmp_path / "net.so"
    hooks.write_text(HOOKS)
    command = ("cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library)
    subprocess.run([*command, tmp_path / "net.c", hooks, tmp_path / "net.dram.c"], check=True)
    places = json.loads((tmp_path / "net.places.json").read_text())
    held = sorted(c_bytes((tmp_path / "net.dram.c").read_text(), "net_dram").items())
    memory = Memory([(BASE + held[0][0], bytes(byte for _, byte in held))])
    driver = ctypes.CDLL(str(library))
    nvdla = Nvdla(memory)
    hold = READ(lambda at: nvdla.read(at)), WRITE(lambda at, value: nvdla.execute([Command(Kind.WRITE, at, value)]))
    for name, hook in zip(("reads", "writes"), hold, strict=True):
        ctypes.c_void_p.in_dll(driver, name).value = ctypes.cast(hook, ctypes.c_void_p).value
    layers, first = ctypes.c_uint32.in_dll(driver, "net_layers").value, places["steps"][0]
    assert layers == sum("layer" in step for step in places["steps"]) == 8
    (source,), (end,) = first["outputs"], places["outputs"]
    reference = qmlir.reference(qmlir.load(quantized))
    for runs in ([(0, layers)], [(0, 3), (3, 3), (3, 4), (4, layers)]):
        nvdla = Nvdla(memory)
        image = np.random.default_rng(len(runs)).integers(-128, 128, (8, 8, 1), np.int8)
        memory.write(BASE + source["address"], to_surfaces(image))
        for begin, behind in runs:
            driver.net_run(begin, behind)
        got = from_surfaces(memory.read(BASE + end["address"], end["bytes"]).tobytes(), 1, 1, 10)
        assert (got.reshape(-1) == np.asarray(reference(image.reshape(1, 1, 8, 8))).reshape(-1)).all()


def _traces(folder: Path) -> Iterator[Path]:
    return iter(sorted(folder.glob("*/*.cfg")))


@pytest.mark.slow
def test_traces(tmp_path: Path, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each trace gives its checksum after a reset, and no other data do."""
    assert qmlir_command("compile", quantized, *TARGET, "--emit", "trace", "-o", tmp_path / "traces") == 0
    assert "traces: written" in (shown := capsys.readouterr().out)
    assert "files by the encoder nvdla" in shown
    paths = list(_traces(tmp_path / "traces"))
    assert [path.parent.name for path in paths][:2] == ["000_000", "001_000"]
    for path in paths:
        trace = read(path)
        assert trace.checks
        assert all(check.holds(run(trace.program)) for check in trace.checks), path.name
    trace = read(paths[0])
    other = [(at, bytes(byte ^ 1 for byte in data)) for at, data in trace.program.segments]
    assert not trace.checks[0].holds(run(Program(trace.program.commands, other)))
    # The encoder that a device file names is the one that writes.
    named = ("--set", "encoder=nvdla")
    assert qmlir_command("compile", quantized, *TARGET, *named, "--emit", "trace", "-o", tmp_path / "again") == 0
    again = list(_traces(tmp_path / "again"))
    assert [path.read_text() for path in again] == [path.read_text() for path in paths]


@pytest.mark.slow
def test_what_is_refused(tmp_path: Path, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "of.cfg").touch()
    cases = [
        (
            ("--emit", "trace", "-o", tmp_path / "a"),
            "--emit: writes the words of a device, got trace; name it by --target",
        ),
        (
            (*TARGET, "--emit", "registers", "-o", tmp_path / "a.s"),
            "--output: must end in .c with --target --emit registers",
        ),
        ((*TARGET, "--emit", "trace", "-o", tmp_path / "full"), "must be a new or an empty folder"),
        (
            ("--target", "gemmini", "--emit", "trace", "-o", tmp_path / "a"),
            "must be a form that the device's encoder writes, got trace for gemmini, which has no encoder",
        ),
        (
            ("--target", "gemmini", "--set", "encoder=gemmini", "--emit", "registers", "-o", tmp_path / "a.c"),
            "got registers for gemmini, encoder gemmini; choose one of asm, bin, hex, readmemh, c",
        ),
    ]
    capsys.readouterr()
    for arguments, message in cases:
        assert qmlir_command("compile", quantized, *arguments) == 1
        assert message in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "a.c").exists()


@pytest.mark.slow
def test_what_the_refusal_advises(tmp_path: Path, quantized: Path) -> None:
    arguments = ("compile", quantized, *TARGET, "--set", "encoder=nvdla")
    for emit, suffix in (("asm", "s"), ("bin", "bin"), ("hex", "ihex"), ("readmemh", "hex"), ("c", "c")):
        assert qmlir_command(*arguments, "--emit", emit, "-o", tmp_path / f"net.{suffix}") == 0


class Faulty(Numbers):
    """Names a form and does not write it."""

    forms = {"trace": ""}

    def files(self, form: str, network: EncodedNetwork) -> Iterator[tuple[str, str]]:
        raise KeyError(form)


@pytest.mark.slow
def test_encoders_that_do_not_write_their_forms(
    tmp_path: Path, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_encoder("numbers", Faulty)
    arguments = ("--target", "gemmini", "--set", "encoder=numbers", "--emit", "trace", "-o", tmp_path / "a")
    capsys.readouterr()
    assert qmlir_command("compile", quantized, *arguments) == 1
    message = "encoder numbers of this program must write the form trace, got KeyError: 'trace'"
    assert message in capsys.readouterr().err
    assert issubclass(PluginError, qmlir.QmlirError)
