"""Remedies of certificates: of networks, of devices' programs, of object files."""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.checker.rounding import SCALES_REMEDY
from qmlir.dialects.nn import ConstantOp
from tests.frontends.onnx.agreement import model, node
from tests.remedies.case import Action, Case, CommandError, both, check, command, write


def program(device: str, *options: str) -> Action:
    """Quantizes the network to a device's program, and certifies that."""
    given = " ".join(options)
    return both(
        command(f"quantize net.onnx --profile net.yaml --target {device} {given} -o p.npu"),
        command("certify p.npu -o p.json"),
        command("certify --check p.json"),
    )


def keeps_weights(options: str) -> Action:
    """Requires that a device's shifts leave weights their 8 bits: where they are too short, steps become coarser."""

    def run(folder: Path) -> None:
        command(f"quantize net.onnx --profile net.yaml {options} -o w.mlir")(folder)
        constants = [op for op in qmlir.load(folder / "w.mlir").walk() if isinstance(op, ConstantOp)]
        assert min(int(np.abs(op.value.array.astype(np.int64)).max()) for op in constants) > 100

    return run


def squared(folder: Path) -> None:
    """Writes a network with the squares of indices behind the indices."""
    nodes = [node("ArgMax", "x", "a", axis=1, keepdims=1), node("Mul", "a a")]
    onnx.save(model(nodes, {"x": [1, 8]}), folder / "squared.onnx")


def chosen(folder: Path) -> None:
    """Writes a network that chooses by floats, which it casts to indices, with data for it and for it without casts."""
    nodes = [node("Relu", "x", "r"), node("Cast", "i", "k", to=onnx.TensorProto.INT32), node("Gather", "r k", axis=1)]
    onnx.save(model(nodes, {"x": [1, 8], "i": [1, 8]}), folder / "chosen.onnx")
    samples = np.load(folder / "samples.npy")
    np.savez(folder / "floats.npz", x=samples, i=np.zeros(samples.shape, np.float32))
    np.savez(folder / "indices.npz", x=samples, k=np.zeros(samples.shape, np.int32))


def disassembler(folder: Path) -> None:
    """Skips a test where no program lists the instructions of an object file."""
    if not (shutil.which("objdump") or shutil.which("llvm-objdump")):
        pytest.skip("needs objdump or llvm-objdump")


def refused(action: Action, message: str) -> Action:
    """What a command refuses with a message."""

    def run(folder: Path) -> None:
        with pytest.raises(CommandError, match=message):
            action(folder)

    return run


def elsewhere(folder: Path) -> None:
    """Moves the artefact of a certificate to another folder, and leaves a link to it."""
    name = json.loads((folder / "c.json").read_text(encoding="utf-8"))["artefact"][0]["file"]
    (folder / "elsewhere").mkdir()
    (folder / name).rename(folder / "elsewhere" / name)
    (folder / name).symlink_to(folder / "elsewhere" / name)


def beside(folder: Path) -> None:
    """Copies it beside the certificate."""
    (moved,) = (folder / "elsewhere").iterdir()
    (folder / moved.name).unlink()
    shutil.copy(moved, folder / moved.name)


CERTIFIED = both(
    command("quantize net.onnx --data samples.npy -o net_int8.mlir"), command("certify net_int8.mlir -o c.json")
)
QUANTIZE_SQUARED = "quantize squared.onnx --data samples.npy -o s.mlir"
SHIFTS = SCALES_REMEDY.partition(": ")[2]
KEPT_FLOAT = "--rule 'name=r keep-float=true'"
ISLAND = """
!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, 0.25>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!a>
  %1 = nn.relu %0 {qmlir.decision = #qmlir.decision<quantized, "integer", "i8">} : tensor<4x!a> -> tensor<4x!a>
  %2 = quant.dcast %1 : tensor<4x!a> to tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!b>
  %4 = quant.dcast %3 : tensor<4x!b> to tensor<4xf32>
  func.return %4 : tensor<4xf32>
}
"""
"""A network whose integers are floats for a while."""

CASES = {
    "quantize it first: qmlir quantize … --data SAMPLES -o …_int8.mlir": Case(
        command("certify net.onnx -o c.json"),
        both(
            command("quantize net.onnx --data samples.npy -o net_int8.mlir"),
            command("certify net_int8.mlir -o c.json"),
        ),
    ),
    "copy the file beside the certificate": Case(
        both(CERTIFIED, elsewhere, command("certify --check c.json")),
        both(beside, command("certify --check c.json")),
    ),
    "--inputs … leaves the cast out, so that the network is given what it yields": Case(
        both(chosen, command("quantize chosen.onnx --data floats.npz -o c.mlir"), command("certify c.mlir -o c.json")),
        both(
            command("quantize chosen.onnx --data indices.npz --inputs x,k -o c.mlir"),
            command("certify c.mlir -o c.json"),
        ),
    ),
    "leave it out: --outputs cuts a network": Case(
        both(squared, command(QUANTIZE_SQUARED), command("certify s.mlir -o s.json")),
        both(command(QUANTIZE_SQUARED + " --outputs a"), command("certify s.mlir -o s.json")),
    ),
    "quantize it, or give the device file a key for it": Case(program("nmp", KEPT_FLOAT), program("nmp")),
    SCALES_REMEDY: Case(
        program("gemmini"), both(program("gemmini", SHIFTS), keeps_weights(f"--target gemmini {SHIFTS}"))
    ),
    "certify the network, which tells where floats come from": Case(
        both(disassembler, write("i.mlir", ISLAND), command("compile i.mlir -o i.o"), command("certify i.o -o i.json")),
        refused(command("certify i.mlir -o i.json"), r"quant\.dcast .* by way of qint\.\w+ "),
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_what_certificates_tell_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)
