"""The checker holds for programs of every device on integers, and catches every mutant of a certified program.

As in test_mutants.py, the forger signs again whatever a mutation is not about.
"""

import hashlib
import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.certify import certificate_of_program, file_hashes
from qmlir.backends.npu.stream import Program, Segment
from qmlir.checker import CheckError, check_certificate
from qmlir.errors import NodeError
from qmlir.isa.commands import Convolve, Post, SetContext, Step
from qmlir.isa.encoding import Place
from tests.checker.networks import RNG, floats
from tests.conftest import ROOT, crossed

DEVICES = ("ethos-u55-like", "nmp", "nvdla-small", "vta")
"""The devices that come with qmlir and change scales by integer instructions."""

Random = np.random.Generator


@dataclass(frozen=True)
class Certified:
    """A certified program in a folder."""

    folder: Path
    program: Program
    host: str
    certificate: dict[str, Any]

    @property
    def path(self) -> Path:
        return self.folder / "net.npu"

    def write(self, folder: Path, *, fresh: bool = True) -> "Certified":
        """The same in another folder; with `fresh`, the certificate has the hashes of the files that are written."""
        written = replace(self, folder=folder)
        self.program.save(written.path)
        host, side = folder / "net.host.mlir", folder / "net.host.safetensors"
        host.write_text(self.host)
        if folder != self.folder:
            side.write_bytes((self.folder / side.name).read_bytes())
        certificate = dict(self.certificate)
        if fresh:
            certificate["artefact"] = file_hashes([written.path, host, side])
        (folder / "net.json").write_text(json.dumps(certificate))
        return written


def text() -> str:
    """A float network with convolutions, a pool, a sum, a reduction and a logarithm of a softmax."""
    image, wide, half = "tensor<1x8x8x2xf32>", "tensor<1x8x8x16xf32>", "tensor<1x4x4x16xf32>"
    conv, bias, same = "tensor<16x3x3x2xf32>", "tensor<16xf32>", "padding = array<i64: 1, 1, 1, 1>"
    return f"""
func.func @main(%x: {image}) -> tensor<1x5xf32> {{
  %w = {floats(16, 3, 3, 2, scale=0.3)} : tensor<16x3x3x2xf32>
  %b = {floats(16)} : tensor<16xf32>
  %0 = nn.conv2d %x, %w, %b {{{same}}} : {image}, {conv}, {bias} -> {wide}
  %1 = nn.relu %0 : {wide} -> {wide}
  %2 = nn.max_pool2d %1 {{window = array<i64: 2, 2>, strides = array<i64: 2, 2>}} : {wide} -> {half}
  %v = {floats(16, 3, 3, 16, scale=0.1)} : tensor<16x3x3x16xf32>
  %3 = nn.conv2d %2, %v {{{same}}} : {half}, tensor<16x3x3x16xf32> -> {half}
  %4 = nn.add %3, %2 : {half}, {half} -> {half}
  %5 = nn.global_average_pool %4 : {half} -> tensor<1x1x1x16xf32>
  %6 = nn.reshape %5 {{shape = array<i64: 1, 16>}} : tensor<1x1x1x16xf32> -> tensor<1x16xf32>
  %f = {floats(5, 16)} : tensor<5x16xf32>
  %g = {floats(5)} : tensor<5xf32>
  %7 = nn.fully_connected %6, %f, %g : tensor<1x16xf32>, tensor<5x16xf32>, tensor<5xf32> -> tensor<1x5xf32>
  %8 = nn.log_softmax %7 {{axis = 1 : i64}} : tensor<1x5xf32> -> tensor<1x5xf32>
  func.return %8 : tensor<1x5xf32>
}}
"""


def certified(folder: Path, name: str) -> Certified:
    """A network, compiled for a device with a slow host and certified."""
    device = qmlir.load_device(name).with_({"fallback.macs_per_cycle": 0.001})
    (folder / "float.mlir").write_text(text())
    samples = [RNG.normal(size=(1, 8, 8, 2)).astype(np.float32) for _ in range(8)]
    quantized = qmlir.quantize(folder / "float.mlir", data=samples, target=device)
    qmlir.compile(quantized, target=device).save(folder / "net.npu")
    certificate = certificate_of_program(folder / "net.npu")
    host = (folder / "net.host.mlir").read_text()
    return Certified(folder, Program.load(folder / "net.npu"), host, certificate).write(folder)


@pytest.mark.parametrize("device", DEVICES)
def test_programs_hold(device: str, tmp_path: Path) -> None:
    original = certified(tmp_path, device)
    counts = check_certificate(original.folder / "net.json")
    assert counts["sums"] >= 3
    assert counts["calls"] >= 2
    assert any("f32" in each["types"] for each in original.certificate["routines"])


DEVICES = ("ethos-u55-like", "vta")


@pytest.fixture(scope="module", params=DEVICES)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("program"), request.param)


def _picked(rng: Random, choices: list[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _with_commands(mutant: Certified, changed: dict[int, Any]) -> Certified:
    commands = [changed.get(n, command) for n, command in enumerate(mutant.program.commands)]
    return replace(mutant, program=replace(mutant.program, commands=commands))


# ---------------------------------------------------------------------------------------------------------------
# The mutants: (certified program, random numbers) → the mutant, whether its hashes are made fresh, what is said


Mutation = Callable[[Certified, Random], tuple[Certified, bool, str]]


def _host_through_float(original: Certified, kind: str) -> Certified:
    """The host computes a function of floats before it quantizes the input."""
    lines = original.host.splitlines()
    at = next(n for n, line in enumerate(lines) if "quant.qcast" in line)
    operand, type = lines[at].split("quant.qcast ")[1].split(" to ")[0].split(" : ")
    lines.insert(at, f"    %slipped = {kind} {operand} : {type} -> {type}")
    lines[at + 1] = lines[at + 1].replace(f"quant.qcast {operand} ", "quant.qcast %slipped ")
    return replace(original, host="\n".join(lines))


def float_host_call(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """A routine of the host computes on floats."""
    return _host_through_float(original, _picked(rng, ["nn.exp", "nn.relu", "nn.sigmoid"])), True, "computes on floats"


def host_reads_what_it_dequantized(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The routine at the entry is given the floats of the routine at the exit: the network's second run, as it were."""
    program = original.program
    last, first = program.routines[-1], program.routines[0]
    moved = replace(first.inputs[0], place=last.outputs[0].place)
    routines = [replace(first, inputs=(moved,)), *program.routines[1:]]
    again = [n for n, c in enumerate(program.commands) if type(c).__name__ == "Host"]
    commands = [*program.commands[:-1], program.commands[again[0]], program.commands[-1]]
    mutant = replace(
        original,
        program=replace(program, routines=routines, commands=commands),
        certificate=deepcopy(original.certificate),
    )
    mutant.certificate["routines"][0]["commands"].append(len(commands) - 2)
    return mutant, True, "floats that a routine of the host returned"


def float_contract(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """A context rounds in float32."""
    commands = original.program.commands
    used = [n for n, c in enumerate(commands) if isinstance(c, SetContext) and c.step is Step.REQUANTIZE]
    used = [n for n in used if any(isinstance(c, Post) for c in commands[n + 1 : n + 6])]
    changed = {n: replace(commands[n], contract=3) for n in used}
    return _with_commands(original, changed), True, "contract float_even, which rounds in float32"


def command_on_floats(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """A command reads the network's floats, which lie where nothing else ever does."""
    program = original.program
    far = replace(program.inputs[0], place=Place(program.inputs[0].place.memory, 1 << 20))
    routines = [replace(program.routines[0], inputs=(far,)), *program.routines[1:]]
    mutant = replace(original, program=replace(program, inputs=[far], routines=routines))
    n = _picked(rng, [n for n, c in enumerate(program.commands) if isinstance(c, Post)])
    return (
        _with_commands(mutant, {n: replace(program.commands[n], source=far.place)}),
        True,
        "must compute on integers, got floats in",
    )


def stale_hash(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The program is another one."""
    changed, _, _ = swapped_weight(original, rng)
    return changed, False, "another hash of net.npu"


def _weights(original: Certified) -> list[int]:
    """The segments of at least 64 bytes with the most bytes: weights, not biases or scales."""
    sizes = [len(segment.data) for segment in original.program.segments]
    return [n for n, size in enumerate(sizes) if size == max(sizes)]


def _changed_segment(original: Certified, n: int, data: bytes) -> Certified:
    segments = list(original.program.segments)
    segments[n] = Segment(segments[n].place, data)
    return replace(original, program=replace(original.program, segments=segments))


def swapped_weight(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """Two weights change places."""
    n = _picked(rng, _weights(original))
    data = bytearray(original.program.segments[n].data)
    a = int(rng.integers(len(data)))
    b = _picked(rng, [i for i, byte in enumerate(data) if byte != data[a]])
    data[a], data[b] = data[b], data[a]
    return _changed_segment(original, n, bytes(data)), True, "constants["


def signed_weight(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The weights have other signs, and the hash of the constant is made fresh too."""
    n = _picked(rng, _weights(original))
    data = np.frombuffer(original.program.segments[n].data, np.int8)
    mutant = _changed_segment(original, n, np.where(data == -128, data, -data).astype(np.int8).tobytes())
    mutant = replace(mutant, certificate=deepcopy(original.certificate))
    mutant.certificate["constants"][n]["sha256"] = hashlib.sha256(mutant.program.segments[n].data).hexdigest()
    return mutant, True, ".range[0] = "


def narrowed_accumulator(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The device's accumulators are narrower than the certificate says."""
    bits, said = _picked(rng, [("i24", ".accumulators."), ("i12", "12-bit accumulator")])
    device = {
        k: bits if k.startswith("array.modes.") and k.endswith(".acc") else v
        for k, v in original.program.device.items()
    }
    return replace(original, program=replace(original.program, device=device)), True, said


def narrower_stored_sums(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """A contraction multiplies types for which the array has no mode."""
    commands = original.program.commands
    n = _picked(rng, [n for n, c in enumerate(commands) if isinstance(c, Convolve)])
    return _with_commands(original, {n: replace(commands[n], data_bits=16, weight_bits=16, zero_point=0)}), True, ""


def _certificate(original: Certified) -> Certified:
    return replace(original, certificate=deepcopy(original.certificate))


def false_bound(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """A bound of some sums is off by one."""
    mutant = _certificate(original)
    sums = _picked(rng, [e["accumulators"] for e in mutant.certificate["commands"] if "accumulators" in e])
    end = sums[_picked(rng, ["lowest", "highest"])]
    end[int(rng.integers(len(end)))] += int(_picked(rng, [-1, 1]))
    return mutant, True, ".accumulators."


def false_range(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The range of a result is off by one."""
    mutant = _certificate(original)
    _picked(rng, mutant.certificate["commands"])["range"][int(rng.integers(2))] += 1
    return mutant, True, ".range["


def false_slack(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """More slack than there is."""
    mutant = _certificate(original)
    key = _picked(rng, ["accumulators", "requantization"])
    _picked(rng, [e[key] for e in mutant.certificate["commands"] if key in e])["slack"] += 1
    return mutant, True, f".{key}.slack"


def hidden_command(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The certificate is silent about a command."""
    mutant = _certificate(original)
    commands = mutant.certificate["commands"]
    del commands[int(rng.integers(len(commands)))]
    return mutant, True, "commands"


def hidden_call(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The certificate is silent about a call of the host, or about its types."""
    mutant = _certificate(original)
    routine = _picked(rng, mutant.certificate["routines"])
    key = _picked(rng, ["commands", "types"])
    routine[key] = routine[key][1:]
    return mutant, True, f'("{routine["routine"]}").{key}'


def another_device(original: Certified, rng: Random) -> tuple[Certified, bool, str]:
    """The certificate names another device."""
    mutant = _certificate(original)
    mutant.certificate["device"] = "mine"
    return mutant, True, "device = 'mine'"


MUTATIONS: tuple[Mutation, ...] = (
    float_host_call, host_reads_what_it_dequantized, float_contract, command_on_floats, stale_hash, swapped_weight,
    signed_weight, narrowed_accumulator, narrower_stored_sums, false_bound, false_range, false_slack, hidden_command,
    hidden_call, another_device,
)  # fmt: skip


@crossed({"mutation": MUTATIONS, "seed": range(2), "original": DEVICES}, indirect=["original"])
def test_mutants(mutation: Mutation, seed: int, original: Certified, tmp_path: Path) -> None:
    mutant, fresh, said = mutation(original, np.random.default_rng(seed))
    mutant.write(tmp_path, fresh=fresh)
    with pytest.raises(CheckError, match="must hold for its artefact") as error:
        check_certificate(tmp_path / "net.json")
    assert said in str(error.value)


# ---------------------------------------------------------------------------------------------------------------
# What the prover refuses


def refused(mutant: Certified, folder: Path) -> str:
    with pytest.raises(NodeError) as error:
        certificate_of_program(mutant.write(folder).path)
    return str(error.value)


def test_a_float_host_call_is_named_with_its_path(original: Certified, tmp_path: Path) -> None:
    name = original.program.inputs[0].name
    said = refused(_host_through_float(original, "nn.exp"), tmp_path)
    assert 'host "host_0": must call a routine that computes on integers, got nn.exp "nn.exp" on f32' in said
    assert f'by way of input "{name}" → nn.exp "nn.exp"' in said
    assert said.endswith("quantize it, or give the device file a key for it")
    assert f"command {original.certificate['routines'][0]['commands'][0]}, host" in said


@pytest.mark.parametrize(
    "mutation", [host_reads_what_it_dequantized, command_on_floats], ids=lambda each: each.__name__
)
def test_floats_between_commands(mutation: Mutation, original: Certified, tmp_path: Path) -> None:
    mutant, _, _ = mutation(original, np.random.default_rng(0))
    mutant.write(tmp_path)
    with pytest.raises(qmlir.QmlirError) as error:
        certificate_of_program(mutant.write(tmp_path).path)
    assert "command" in str(error.value)


@pytest.mark.slow
def test_float32_scales(tmp_path: Path) -> None:
    folder = ROOT / "examples" / "digits"
    images = np.load(folder / "digits.npz")["calibration_images"][:10, None]
    device = qmlir.load_device("gemmini")
    advised = {"quant.scale": "mult-shift", "quant.round": "half-up", "quant.shift.max": 62}
    shifts = device.with_(advised)
    for target in (device, shifts):
        quantized = qmlir.quantize(folder / "digits.onnx", data=images, target=target)
        qmlir.compile(quantized, target=target).save(tmp_path / f"{target.quant.scale}.npu")
    with pytest.raises(NodeError, match="got contract float_even, which rounds in float32") as error:
        certificate_of_program(tmp_path / "float32.npu")
    assert "--set quant.scale=mult-shift --set quant.round=half-up --set quant.shift.max=62" in str(error.value)
    assert certificate_of_program(tmp_path / "mult-shift.npu")["verdict"] == "integer-only"
