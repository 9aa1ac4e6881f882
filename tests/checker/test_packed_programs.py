"""The checker reads packed weights by itself, whoever unpacks them, and catches what is wrong with them."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.analysis.certify import certificate_of_program
from qmlir.backends.npu.stream import Program, Segment
from qmlir.checker import CheckError, check_certificate
from qmlir.errors import NodeError
from qmlir.isa.commands import Unpack, Window
from tests.checker.test_programs import Certified, text

NETWORK = text()
SAMPLES = [np.random.default_rng(5).normal(size=(1, 8, 8, 2)).astype(np.float32) for _ in range(8)]
"""All certificates are of one network, whichever test asks for them first."""

VARIANTS = {
    "nmp, array": ("nmp", {"queue.exec.unpacks": [3, 4]}),
    "nmp, load": ("nmp", {"queue.load.unpacks": [4]}),
    "ethos-u55-like, array": ("ethos-u55-like", {"queue.kernel.unpacks": [4]}),
}


def certified(folder: Path, name: str, changes: Mapping[str, object]) -> Certified:
    """A network with weights of 4 bits, compiled for a variant of a device and certified."""
    device = qmlir.load_device(name).with_({"fallback.macs_per_cycle": 0.001, **changes})
    (folder / "float.mlir").write_text(NETWORK)
    policy = {"default": {"weight_precision": "int4"}}
    quantized = qmlir.quantize(folder / "float.mlir", data=SAMPLES, target=device, policy=policy)
    qmlir.compile(quantized, target=device).save(folder / "net.npu")
    certificate = certificate_of_program(folder / "net.npu")
    host = (folder / "net.host.mlir").read_text()
    return Certified(folder, Program.load(folder / "net.npu"), host, certificate).write(folder)


@pytest.fixture(scope="module", params=VARIANTS)
def original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return certified(tmp_path_factory.mktemp("program"), *VARIANTS[request.param])


def packed(program: Program) -> list[int]:
    """The numbers of the commands that read packed weights."""
    return [
        number
        for number, command in enumerate(program.commands)
        if isinstance(command, Unpack) or (isinstance(command, Window) and command.weight_bits < 8)
    ]


@pytest.mark.slow
def test_programs_hold(original: Certified) -> None:
    assert len(packed(original.program)) >= 3
    assert check_certificate(original.folder / "net.json")["sums"] >= 3


@pytest.mark.slow
def test_sums_are_those_of_bytes(original: Certified, tmp_path: Path) -> None:
    """Packed or not, the same weights give the same intervals of the same commands."""
    plain = certified(tmp_path, str(original.program.device["name"]), {})
    assert not packed(plain.program)

    def stated(certificate: Certified) -> list[object]:
        commands = certificate.certificate["commands"]
        return [(each["command"], each["range"], each.get("accumulators")) for each in commands]

    assert stated(plain) == stated(original)


def flipped_bit(original: Certified) -> tuple[Certified, str]:
    """A bit of a packed weight is another one, and the hash of the constants is made fresh."""
    program, mutant = original.program, replace(original, certificate=deepcopy(original.certificate))
    largest = max(range(len(program.segments)), key=lambda n: len(program.segments[n].data))
    data = bytearray(program.segments[largest].data)
    data[len(data) // 2] ^= 0x80
    segments = list(program.segments)
    segments[largest] = Segment(segments[largest].place, bytes(data))
    mutant.certificate["constants"][largest]["sha256"] = sha256(data).hexdigest()
    return replace(mutant, program=replace(program, segments=segments)), "where .* follows"


def another_width(original: Certified) -> tuple[Certified, str]:
    """A command reads weights of a width that its queue does not unpack."""
    program = original.program
    commands, number = list(program.commands), packed(program)[0]
    command = commands[number]
    width = {"bits": 2} if isinstance(command, Unpack) else {"weight_bits": 2}
    commands[number] = replace(command, **width)
    return replace(original, program=replace(program, commands=commands)), "unpacks no weights of 2 bits"


MUTATIONS: list[Callable[[Certified], tuple[Certified, str]]] = [flipped_bit, another_width]


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_mutants_are_caught(
    mutation: Callable[[Certified], tuple[Certified, str]], original: Certified, tmp_path: Path
) -> None:
    mutant, said = mutation(original)
    mutant.write(tmp_path)
    with pytest.raises(CheckError, match=said):
        check_certificate(tmp_path / "net.json")


@pytest.mark.parametrize("original", ["nmp, load"], indirect=True)
def test_unpacking_floats_is_refused(original: Certified, tmp_path: Path) -> None:
    """Neither who certifies nor who checks takes the network's floats for packed weights."""
    program = original.program
    number = packed(program)[0]
    command = program.commands[number]
    assert isinstance(command, Unpack)
    commands = list(program.commands)
    commands[number] = replace(command, source=program.inputs[0].place)
    mutant = replace(original, program=replace(program, commands=commands))
    mutant.write(tmp_path)
    with pytest.raises(CheckError, match="must compute on integers, got floats in source"):
        check_certificate(tmp_path / "net.json")
    with pytest.raises(NodeError, match=f"command {number}, unpack.*must compute on integers, got floats in source"):
        certificate_of_program(tmp_path / "net.npu")
