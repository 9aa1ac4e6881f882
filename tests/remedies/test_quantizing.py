"""Remedies about policies, profiles' ranges, options of passes and what a network must be to be quantized."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import pytest

import qmlir
from tests.frontends.onnx.agreement import floats, model, node
from tests.remedies.case import Action, Case, both, check, command, opt, passes, write

QUANTIZE = "quantize net.onnx --profile net.yaml -o o.mlir"


def policy(text: str, *options: str) -> Action:
    """Quantizes by a policy."""
    return both(write("p.yaml", text), command(" ".join([QUANTIZE, "--policy p.yaml", *options])))


def sigmoid(text: str) -> Action:
    """Quantizes a function of a fixed range by a policy."""
    return both(
        lambda f: onnx.save(model(node("Sigmoid", "x"), {"x": [1, 8]}), f / "net.onnx"),
        command("profile net.onnx --data samples.npy -o net.yaml"),
        policy(text),
    )


INT16 = "rules: [{name: l, precision: int16}]"
POLICIES = {
    "see docs/quantization.md for what a policy may say": Case(
        policy("rules: [{"), policy("rules: [{name: l, precision: int16}]")
    ),
    "drop one": Case(
        policy("rules: [{name: l, name: r, precision: int16}]"), policy("rules: [{name: l, precision: int16}]")
    ),
    "put it into quotes": Case(
        both(lambda f: named(f, "12"), policy("rules: [{name: 12, precision: int16}]")),
        both(lambda f: named(f, "12"), policy('rules: [{name: "12", precision: int16}]')),
    ),
    "such as …": Case(
        policy("rules: [{name: l}]"), policy("rules: [{name: l, precision: int16, weight_precision: int8}]")
    ),
    "drop one of the two": Case(
        policy("default: {precision: int16}", "--precision uint8"), policy("default: {precision: int16}")
    ),
    "leave it out, or quantize for the CPU by qmlir's own numerics and another schema": Case(
        command(f"{QUANTIZE} --activations dynamic --schema symmetric_with_power2_scale"),
        both(
            command(f"{QUANTIZE} --schema symmetric_with_power2_scale"),
            command(f"{QUANTIZE} --activations dynamic --schema symmetric"),
        ),
    ),
    "use a rule": Case(policy("default: {keep_float: true}"), policy("rules: [{name: l, keep_float: true}]")),
    "drop the rule, or say something else in it": Case(
        sigmoid("rules: [{name: y, range: [0, 2]}]"),
        both(sigmoid("rules: []"), sigmoid("rules: [{name: y, precision: int16}]")),
    ),
}


def named(folder: Path, name: str) -> None:
    """The network with another name for its first layer."""
    layers = [node("MatMul", "x w", name), node("Relu", name, "r"), node("MatMul", "r w")]
    onnx.save(model(layers, {"x": [1, 8]}, {"w": floats(8, 8)}), folder / "net.onnx")
    qmlir.profile(folder / "net.onnx", [*np.load(folder / "samples.npy")]).save(folder / "net.yaml")


def calibrated(calibration: str, profile: str, *options: str) -> Action:
    return command(" ".join(["quantize net.onnx -o o.mlir --profile", profile, "--calibration", calibration, *options]))


def padded(text: str) -> Action:
    """Quantizes a concat with a constant that reaches to 5."""
    nodes, constants = [node("Relu", "x", "a"), node("Concat", "a c", axis=0)], {"c": 5 * np.ones((1, 8), np.float32)}
    return both(
        lambda f: onnx.save(model(nodes, {"x": [1, 8]}, constants), f / "p.onnx"),
        command("profile p.onnx --data samples.npy -o p.profile.yaml"),
        write("p.yaml", text),
        command("quantize p.onnx --profile p.profile.yaml -o o.mlir --policy p.yaml"),
    )


BY_HAND = "format: qmlir-profile-1\ntensors:\n" + "".join(f"  {n}: {{range: [-1.0, 1.0]}}\n" for n in "xlry")
CONCAT = both(
    lambda f: onnx.save(
        model([node("Neg", "x", "a"), node("Relu", "x", "b"), node("Concat", "a b", axis=0)], {"x": [1, 8]}),
        f / "c.onnx",
    ),
    command("profile c.onnx --data samples.npy -o c.yaml"),
)


def concat(text: str) -> Action:
    return both(CONCAT, write("p.yaml", text), command("quantize c.onnx --profile c.yaml -o o.mlir --policy p.yaml"))


OBSERVED = """
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<1x8xf32>
  %0 = nn.relu %x : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %0 {name = "y", range = [0.0, 4.0]} : tensor<1x8xf32>
  func.return %0 : tensor<1x8xf32>
}
"""

UNNAMED = """
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %0 = nn.relu %x : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %0 : tensor<1x8xf32>
}
"""


def analyzed(text: str) -> Action:
    """Quantizes a network of MLIR text, and compares the two."""
    return both(
        write("u.mlir", text),
        command("quantize u.mlir --data samples.npy -o u_int8.mlir"),
        command("analyze u.mlir u_int8.mlir --data samples.npy"),
    )


RANGES = {
    "write a range that float32 holds, or profile again": Case(
        both(write("net.yaml", BY_HAND.replace("1.0]", "1e39]")), command(QUANTIZE)),
        both(
            both(write("net.yaml", BY_HAND), command(QUANTIZE)),
            both(command("profile net.onnx --data samples.npy -o net.yaml"), command(QUANTIZE)),
        ),
    ),
    "profile the network on data, or use minmax": Case(
        both(write("net.yaml", BY_HAND), calibrated("kl", "net.yaml")),
        both(
            calibrated("minmax", "net.yaml"),
            command("profile net.onnx --data samples.npy -o net.yaml"),
            calibrated("percentile", "net.yaml"),
        ),
    ),
    "write calibration=percentile-99.9": Case(
        calibrated("percentile-10", "net.yaml"), calibrated("percentile-99.9", "net.yaml")
    ),
    "profile the network anew, or use minmax": Case(
        passes(OBSERVED, ("quantize", {"calibration": "moving_average"})),
        both(
            passes(OBSERVED, ("quantize", {"calibration": "minmax"})),
            command("profile net.onnx --data samples.npy -o net.yaml"),
            calibrated("moving_average", "net.yaml"),
        ),
    ),
    "profile the network anew, or give that range and calibrate by minmax": Case(
        lambda f: qmlir.choose_quantization(-1.0, 1.0, "asymmetric", "int8", calibration="moving_average"),
        lambda f: qmlir.choose_quantization(-1.0, 1.0, "asymmetric", "int8", calibration="minmax"),
    ),
    "profile with more bins, or use minmax": Case(
        both(command("profile net.onnx --data samples.npy --bins 64 -o b.yaml"), calibrated("kl", "b.yaml")),
        both(
            calibrated("minmax", "b.yaml"),
            command("profile net.onnx --data samples.npy --bins 4000 -o b.yaml"),
            calibrated("kl", "b.yaml"),
        ),
    ),
    "use int8, or another schema": Case(
        command(QUANTIZE + " --schema symmetric --precision uint8"),
        both(command(QUANTIZE + " --schema symmetric"), command(QUANTIZE + " --schema asymmetric --precision uint8")),
    ),
    "use int8, or schema asymmetric": Case(
        command(QUANTIZE + " --schema symmetric_with_uint8 --precision uint8"),
        both(
            command(QUANTIZE + " --schema symmetric_with_uint8 --precision int8"),
            command(QUANTIZE + " --schema asymmetric --precision uint8"),
        ),
    ),
    "widen it, or drop it": Case(
        padded("rules: [{name: y, range: [-1, 1]}]"),
        both(padded("rules: [{name: y, range: [-6, 6]}]"), padded("rules: []")),
    ),
    "give one of them, or the same for all": Case(
        concat("rules: [{name: a, range: [-1, 1]}, {name: y, range: [-2, 2]}]"),
        both(
            concat("rules: [{name: y, range: [-2, 2]}]"),
            concat("rules: [{name: a, range: [-2, 2]}, {name: y, range: [-2, 2]}]"),
        ),
    ),
}

INTEGERS = """
!q = !quant.uniform<i8:f32, 0.1>
func.func @main(%x: tensor<1x8x!q>) -> tensor<1x8x!q> {
  %0 = nn.relu %x : tensor<1x8x!q> -> tensor<1x8x!q>
  func.return %0 : tensor<1x8x!q>
}
"""


ADDS = "func.func @main(%a: f32) -> f32 {\n  %0 = arith.addf %a, %a : f32\n  func.return %0 : f32\n}"
RETURN = "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  func.return %x : tensor<8xf32>\n}\n"
PASSES = {
    'give one: --apply-policy="file=net.yaml"': Case(
        opt("net.onnx --apply-policy -o o.mlir"),
        both(
            write("net.yaml", "rules: [{name: l, precision: int16}]"),
            opt("net.onnx --apply-policy=file=net.yaml -o o.mlir"),
        ),
    ),
    'give one: --apply-profile="file=profile.yaml"': Case(
        opt("net.onnx --insert-observers --apply-profile -o o.mlir"),
        opt("net.onnx --simplify --insert-observers --apply-profile=file=net.yaml -o o.mlir"),
    ),
    'give some before: --apply-policy="settings={data=samples.npy}"': Case(
        opt("net.onnx --round-weights -o o.mlir"),
        opt(
            "net.onnx --simplify --quantize=profile=net.yaml --apply-policy=settings={data=samples.npy} "
            "--round-weights -o o.mlir"
        ),
    ),
    "profile the network and give profile=FILE, or run --insert-observers and --apply-profile first, or write ranges "
    "into the IR: calib.observe %v {name = …, range = [lo, hi]}": Case(
        opt("net.onnx --quantize -o o.mlir"),
        both(
            opt("net.onnx --simplify --quantize=profile=net.yaml -o o.mlir"),
            opt("net.onnx --simplify --insert-observers --apply-profile=file=net.yaml --quantize -o o.mlir"),
            passes(OBSERVED, "quantize"),
        ),
    ),
    "quantize the .onnx or .tflite file, or what `qmlir import` writes for it": Case(
        both(write("a.mlir", ADDS), opt("a.mlir --quantize")),
        both(command(QUANTIZE), command("import net.onnx -o i.mlir"), command(QUANTIZE.replace("net.onnx", "i.mlir"))),
    ),
    "express it in operations of nn": Case(
        passes(
            "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
            '  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<8xf32>\n'
            "  %0 = arith.addf %x, %x : tensor<8xf32>\n  func.return %0 : tensor<8xf32>\n}",
            ("quantize", {"fail_on_float": True}),
        ),
        passes(
            "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
            '  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<8xf32>\n'
            "  %0 = nn.add %x, %x : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>\n"
            '  calib.observe %0 {name = "y", range = [-8.0, 8.0]} : tensor<8xf32>\n  func.return %0 : tensor<8xf32>\n}',
            ("quantize", {"fail_on_float": True}),
        ),
    ),
    "profile it before quantizing": Case(
        lambda f: qmlir.profile(passes(INTEGERS)(f), [np.zeros((1, 8), np.int8)]),  # type: ignore[arg-type]
        lambda f: qmlir.profile(f / "net.onnx", [*np.load("samples.npy")]),
    ),
    "export the model with input shapes without a dimension of 0": Case(
        lambda f: profiled(f, [1, 0]), lambda f: profiled(f, [1, 8])
    ),
    "run it as it is: there is nothing to quantize": Case(
        lambda f: integers(f) and qmlir.profile(f / "i.onnx", [np.zeros((1, 8), np.int32)]),
        lambda f: qmlir.compile(f / "i.onnx")(np.zeros((1, 8), np.int32)),
    ),
    "load it: qmlir.load(path)": Case(
        lambda f: qmlir.save(cast(Any, "q.mlir"), "r.mlir"), lambda f: qmlir.save(qmlir.load("q.mlir"), "r.mlir")
    ),
    "drop one of them": Case(
        command("analyze net.onnx q.mlir --data samples.npy --budget --channels"),
        command("analyze net.onnx q.mlir --data samples.npy --budget"),
    ),
    "give the network that was quantized, and the .mlir file that `quantize` wrote of it": Case(
        lambda f: qmlir.analyze(f / "net.onnx", f / "net.onnx", [*np.load("samples.npy")]),
        lambda f: qmlir.analyze(f / "net.onnx", f / "q.mlir", [*np.load("samples.npy")]),
    ),
    'give operations names, such as {qmlir.name = #qmlir.name<tensors ["scores"]>}': Case(
        analyzed(UNNAMED), analyzed(UNNAMED.replace("%x :", '%x {qmlir.name = #qmlir.name<tensors ["scores"]>} :'))
    ),
    "remove the attribute for 1 GiB": Case(
        passes('module attributes {qmlir.fold_budget = "all"} {\n' + RETURN + "}", "simplify"),
        passes(RETURN, "simplify"),
    ),
    "remove the attribute for the target's own rounding": Case(
        passes('module attributes {qmlir.numerics = "none"} {\n' + RETURN + "}", "nn-to-qint"),
        passes(RETURN, "nn-to-qint"),
    ),
    "drop the ,": Case(
        opt('net.onnx --quantize="profile=net.yaml, precision=int16" -o o.mlir'),
        opt('net.onnx --simplify --quantize="profile=net.yaml precision=int16" -o o.mlir'),
    ),
    "it takes no options": Case(opt("net.onnx --inline=a=b -o o.mlir"), opt("net.onnx --inline -o o.mlir")),
    "drop this one": Case(opt("net.onnx two.onnx -o o.mlir"), opt("net.onnx -o o.mlir")),
    "see the reasons above; each names the key of the device file": Case(
        both(
            lambda f: onnx.save(model(node("Softmax", "x"), {"x": [1, 8]}), f / "s.onnx"),
            command("profile s.onnx --data samples.npy -o s.yaml"),
            command("quantize s.onnx --profile s.yaml -o s.mlir"),
            command("device check gemmini s.mlir"),
        ),
        both(
            command("quantize net.onnx --profile net.yaml --target gemmini -o g.mlir"),
            command("device check gemmini g.mlir"),
        ),
    ),
    "see --help": Case(opt("net.onnx --zzzzzzzzzzzz"), opt("--help")),
    "known: …": Case(
        command("export q.mlir --format zzz -o o.onnx"), command("export q.mlir --format onnx-integer -o o.onnx")
    ),
    "leave it out": Case(
        command("run q.npu --target nmp --reference --data samples.npy -o o.npz"),
        command("run q.npu --target nmp --data samples.npy -o o.npz"),
    ),
}


def profiled(folder: Path, shape: list[int]) -> object:
    onnx.save(model(node("Relu", "x"), {"x": shape}), folder / "e.onnx")
    return qmlir.profile(folder / "e.onnx", [np.zeros(shape, np.float32)])


def integers(folder: Path) -> bool:
    """A network on integers."""
    proto = model(node("Abs", "x"), {"x": [1, 8]}, element=onnx.TensorProto.INT32)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    onnx.save(proto, folder / "i.onnx")
    return True


CASES = {**POLICIES, **RANGES, **PASSES}


@pytest.mark.parametrize("text", CASES)
def test_what_is_told_about_quantizing_works(text: str, folder: Path) -> None:
    check(text, CASES[text], folder)
