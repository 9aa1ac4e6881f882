"""Remedies of bundles, and of what the inputs and outputs of compiled networks hold."""

from pathlib import Path

import pytest
from xdsl.dialects.builtin import StringAttr

import qmlir
from qmlir.ir.signature import entry_functions
from tests.remedies.case import Action, Case, both, check, command, write


def bundle(*options: str, model: str = "q.mlir") -> Action:
    return command(" ".join(["compile", model, "--bundle -o bundle", *options]))


def declares(header: str, text: str) -> Action:
    """Requires that a header has a text."""

    def run(folder: Path) -> None:
        assert text in (folder / header).read_text("utf-8")

    return run


def in_python(most: int | None) -> Action:
    """Writes a bundle of a network whose calls take up to so many samples, or one."""

    def run(folder: Path) -> None:
        module = qmlir.load(folder / "q.mlir")
        if most is not None:
            module = qmlir.Pipeline(("batch-samples", {"most": most}))(module)
        qmlir.bundle(module, folder / "python")

    return run


def twice(folder: Path) -> None:
    """Writes a module with the network of q.mlir as two entries."""
    module = qmlir.load(folder / "q.mlir")
    (first,) = entry_functions(module)
    second = first.clone()
    first.sym_name, second.sym_name = StringAttr("first"), StringAttr("second")
    module.body.block.add_op(second)
    qmlir.save(module, folder / "twice.mlir")


DELAY = """
func.func @main(%s: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["s"]>, qmlir.state = #qmlir.state<1>},
                %x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  func.return %s, %x : tensor<1x4xf32>, tensor<1x4xf32>
}
"""
ENTRIES = """
func.func @first(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %0 = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}
func.func @run(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %0 = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}
"""
WIDE = "quantize net.onnx --profile net.yaml --precision int16 -o w.mlir"
COMPILE = "compile q.mlir -o q.o"
CASES = {
    "leave it out, or write an .o file without --bundle": Case(
        bundle("--threads 2"), both(bundle(), command(COMPILE + " --threads 2"))
    ),
    "leave --api and --weights-in out, or leave the key encoder out": Case(
        bundle("--target gemmini --set encoder=gemmini --api dynamic"),
        both(
            bundle("--target gemmini --set encoder=gemmini"),
            command("compile q.mlir --target gemmini --api dynamic --bundle -o other"),
        ),
    ),
    "name a folder": Case(command("compile q.mlir --bundle -o q.o"), bundle()),
    "choose another name": Case(
        bundle("--prefix int"), both(bundle("--prefix net"), declares("bundle/net.h", "net_run"))
    ),
    "leave it out: Glow's layout has the weights in files": Case(
        bundle("--api glow", "--weights-in object"), bundle("--api glow")
    ),
    "add --bundle, or leave it out": Case(command(COMPILE + " --archive"), both(bundle("--archive"), command(COMPILE))),
    "take --api static or dynamic": Case(
        both(write("delay.mlir", DELAY), bundle("--api glow", model="delay.mlir")),
        both(bundle("--api static", model="delay.mlir"), bundle("--api dynamic", model="delay.mlir")),
    ),
    "take --api static or dynamic, or choose one with --entry": Case(
        both(write("two.mlir", ENTRIES), bundle("--api glow", model="two.mlir")),
        both(bundle("--api static", model="two.mlir"), bundle("--api glow --entry run", model="two.mlir")),
    ),
    "choose one with --entry": Case(
        both(twice, bundle("--target nmp", model="twice.mlir")),
        bundle("--target nmp --entry second", model="twice.mlir"),
    ),
    "give the entry another name in --entries of quantize": Case(
        both(write("two.mlir", ENTRIES.replace("@run", "@reset")), bundle(model="two.mlir")),
        both(write("two.mlir", ENTRIES.replace("@run", "@decode")), bundle(model="two.mlir")),
    ),
    "make it of the network before batch-samples: its calls compute the same bits one by one": Case(
        in_python(3), in_python(None)
    ),
    "choose integers with --io, another --cpu, or compile an .o file without --bundle": Case(
        bundle("--cpu x86-64"),
        both(bundle("--cpu x86-64", "--io int8"), bundle("--cpu x86-64-v3"), command(COMPILE + " --cpu x86-64")),
    ),
    "ask for integers that the network holds, or for float": Case(
        both(command(WIDE), command("compile w.mlir --io int8 -o w.o")),
        both(command("compile w.mlir --io int16 -o w.o"), command("compile w.mlir --io float -o w.o")),
    ),
}


@pytest.mark.parametrize("text", CASES)
def test_what_is_told_about_bundles_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)
