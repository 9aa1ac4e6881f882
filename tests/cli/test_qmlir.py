"""`qmlir`: each command on a small network, end to end in this process, and the C bundle in a C program."""

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
import yaml

import qmlir
from qmlir.cli import quantizing
from qmlir.cli.bundle import c_identifier
from qmlir.ir.passes import pass_class
from qmlir.plugins import numbered, with_number
from qmlir.profiles.profile import Profile
from qmlir.profiles.tensor_profile import structure_of
from qmlir.settings.policy import Policy
from qmlir.settings.quant_config import QuantConfig, QuantOptions
from tests.cli.small import Small, run, write_small


@pytest.fixture
def quantized(small: Small) -> Path:
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "q.mlir") == 0
    return small / "q.mlir"


def test_the_whole_road(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    quantized = small / "q.mlir"
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", quantized) == 0
    out = capsys.readouterr().out
    assert f"{small / 'p.yaml'}: 4 tensors over 6 samples" in out
    count = len(qmlir.decisions(qmlir.load(quantized)))
    assert f"{count} of {count} operations quantized" in out
    assert run("run", quantized, "--data", small.data, "-o", small / "cpu.npz") == 0
    assert run("run", quantized, "--data", small.data, "--reference", "-o", small / "ref.npz") == 0
    assert run("run", small.onnx, "--data", small.data, "-o", small / "float.npz") == 0
    cpu, reference, floats = (np.load(small / f"{n}.npz")["scores"] for n in ("cpu", "ref", "float"))
    np.testing.assert_array_equal(cpu, reference)
    assert cpu.shape == (6, 1, 3)
    assert 0 < np.abs(cpu - floats).max() < 0.1 * np.abs(floats).max()
    assert "6 samples, " in capsys.readouterr().out


def test_an_input_as_a_constant(small: Small) -> None:
    np.save(small / "image.npy", small.samples[:1])
    assert run("import", small.onnx, "--constant", f"image={small / 'image.npy'}", "-o", small / "fixed.mlir") == 0
    assert run("run", small.onnx, "--data", small.data, "--reference", "-o", small / "float.npz") == 0
    module = qmlir.load(small / "fixed.mlir")
    np.testing.assert_allclose(qmlir.reference(module)({}), np.load(small / "float.npz")["scores"][0], rtol=1e-5)


def test_import(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("import", small.onnx, "-o", small / "simple.mlir") == 0
    assert run("import", small.onnx, "--raw", "-o", small / "raw.mlir") == 0
    simple, raw = capsys.readouterr().out.splitlines()
    assert "1 nn.conv2d" in simple
    assert "nn.relu" in raw
    assert "nn.relu" not in simple
    assert (small / "simple.safetensors").exists()
    np.testing.assert_allclose(
        qmlir.reference(qmlir.load(small / "simple.mlir"))(small.samples[:1]),
        qmlir.reference(qmlir.load(small.onnx))(small.samples[:1]),
        rtol=1e-5,
    )


def test_options_of_profile(small: Small) -> None:
    assert run("profile", small.onnx, "--data", small.data, "--samples", 2, "--bins", 64, "-o", small / "p.yaml") == 0
    found = Profile.load(small / "p.yaml")
    assert (found.samples, found.bins) == (2, 64)


@pytest.mark.slow
def test_shards_merge_to_the_profile_of_all(small: Small) -> None:
    shards: list[Path] = []
    for i in range(3):
        np.save(small / f"part{i}.npy", small.samples[2 * i : 2 * i + 2])
        shards.append(small / f"shard{i}.yaml")
        assert run("profile", small.onnx, "--data", small / f"part{i}.npy", "--per-channel", "-o", shards[-1]) == 0
    assert run("profile", small.onnx, "--data", small.data, "--per-channel", "-o", small / "p.yaml") == 0
    assert run("profile", "merge", shards[2], shards[0], shards[1], "-o", small / "merged.yaml") == 0
    assert (small / "merged.yaml").read_bytes() == (small / "p.yaml").read_bytes()
    assert run("profile", "merge", small / "p.yaml", "--format", "glow", "-o", small / "glow.yaml") == 0
    # Glow's file has no averages, which say what more samples may hold; the values alone decide here.
    for profile, network in (("glow.yaml", "g.mlir"), ("p.yaml", "q.mlir")):
        given = ("--profile", small / profile, "--calibration", "mse")
        assert run("quantize", small.onnx, *given, "-o", small / network) == 0
    assert (small / "g.mlir").read_text().replace("g.safe", "q.safe") == (small / "q.mlir").read_text()


def test_dead_tensors_are_named(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(small / "zero.npy", np.zeros((2, 2, 8, 8), np.float32))
    assert run("profile", small.onnx, "--data", small / "zero.npy", "-o", small / "p.yaml") == 0
    assert '"image" never changes: all of it is 0' in capsys.readouterr().out
    assert run("profile", small.onnx, "--data", small / "zero.npy", "--per-channel", "-o", small / "p.yaml") == 0
    assert '"scores" has channels that never change: 3 of them (0, 1, 2)' in capsys.readouterr().out


def test_options_of_quantize(small: Small, quantized: Path) -> None:
    options = ("--schema", "symmetric", "--per-tensor", "--fail-on-float", "--ledger", small / "l.json")
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", *options, "-o", small / "s.mlir") == 0
    text = (small / "s.mlir").read_text()
    assert "f32:0, {" not in text
    rows = json.loads((small / "l.json").read_text())["decisions"]
    assert {r["outcome"] for r in rows} == {"quantized"}


POLICY = """rules:
- {name: conv1, precision: int16, weight-precision: int8}
- {name: dense1, keep-float: true}
"""


def test_options_are_those_of_the_library(small: Small, quantized: Path) -> None:
    options = ("--weight-precision", "int4", "--calibration", "kl", "--bias", "int16", "--data", small.data)
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", *options, "-o", small / "s.mlir") == 0
    module = qmlir.quantize(
        qmlir.load(small.onnx),
        Profile.load(small / "p.yaml"),
        weight_precision="int4",
        calibration="kl",
        bias="int16",
        data=list(small.samples[:, None]),
    )
    qmlir.save(module, small / "t.mlir")
    assert (small / "s.mlir").read_text() == (small / "t.mlir").read_text().replace("t.safe", "s.safe")
    assert "!quant.uniform<i4<-7:7>:f32:0" in (small / "s.mlir").read_text()
    assert (small / "s.safetensors").read_bytes() == (small / "t.safetensors").read_bytes()
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "--glow-exact", "-o", small / "s.mlir") == 0
    assert (small / "s.mlir").read_text() != (small / "q.mlir").read_text().replace("q.safe", "s.safe")


def test_three_lines_take_a_layer_to_int16_and_keep_another_float(
    small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small / "net.policy.yaml").write_text(POLICY)
    command = ("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "s.mlir")
    assert run(*command, "--policy", small / "net.policy.yaml", "--ledger", small / "l.json") == 0
    rows = {r["node"]: r for r in json.loads((small / "l.json").read_text())["decisions"]}
    assert rows["conv1+relu1"]["outcome"] == "quantized"
    assert rows["conv1+relu1"]["reason"] == "i16 activations, i8 weights per channel"
    assert (rows["dense1"]["outcome"], rows["dense1"]["code"]) == ("float", "policy")
    assert rows["dense1"]["remedy"] == "drop the policy's rule"
    text = (small / "s.mlir").read_text()
    assert re.search(r'nn.conv2d .*precision = "int16".* -> tensor<1x8x8x4x!quant.uniform<i16:f32, ', text)
    assert re.search(r"nn.fully_connected .*keep_float = true.* -> tensor<1x3xf32>", text)
    assert "the policy keeps it in floats; drop the policy's rule" in capsys.readouterr().out
    module = qmlir.quantize(
        qmlir.load(small.onnx),
        Profile.load(small / "p.yaml"),
        policy=qmlir.Policy(
            rules=[
                qmlir.Rule({"precision": "int16", "weight_precision": "int8"}, name="conv1"),
                qmlir.Rule({"keep_float": True}, name="dense1"),
            ]
        ),
    )
    sample = small.samples[:1]
    np.testing.assert_array_equal(qmlir.compile(module)(sample), qmlir.reference(qmlir.load(small / "s.mlir"))(sample))
    assert run(*command, "--rule", "name=dense1 keep-float=true", "--fail-on-float") == 1
    assert 'nn.fully_connected "dense1": the policy keeps it in floats' in capsys.readouterr().err


def test_the_configuration_in_effect(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    (small / "net.policy.yaml").write_text("default: {schema: symmetric}\n" + POLICY)
    options = ("--policy", small / "net.policy.yaml", "--rule", "name=image range=-1,1", "--per-tensor")
    assert run("quantize", small.onnx, *options, "--print-config") == 0
    out = capsys.readouterr().out
    assert qmlir.Policy.of(yaml.safe_load(out)).default == QuantConfig("symmetric", per_channel=False).options()
    assert "- name: image\n  range: [-1.0, 1.0]\n" in out
    assert "# rule 1 holds for conv1+relu1" in out
    assert "# rule 3 holds for an input" in out
    (small / "again.yaml").write_text(out)
    assert run("quantize", small.onnx, "--policy", small / "again.yaml", "--print-config") == 0
    assert capsys.readouterr().out == out
    assert run("quantize", small.onnx, *options, "--schema", "symmetric_with_uint8", "--print-config") == 1
    assert "schema: must not contradict the policy's default, symmetric" in capsys.readouterr().err


def test_the_load_report(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = Profile.load(small / "p.yaml")
    found.tensors["imagd"] = found.tensors.pop("image")
    found.tensors["imagd"].key = "0" * 16
    found.structure = structure_of({n: t.shape for n, t in found.tensors.items()})
    found.save(small / "other.yaml")
    command = ("quantize", small.onnx, "--profile", small / "other.yaml", "-o", small / "s.mlir")
    assert run(*command) == 1
    assert '"image" is not there; did you mean imagd?' in capsys.readouterr().err
    assert run(*command, "--partial-profile") == 0
    out = capsys.readouterr().out
    assert "3 of 4 tensors found in the profile" in out
    assert '  not found: "image": not there; did you mean imagd?' in out
    assert '  not used: "imagd": the network observes no such tensor' in out
    assert 'no range is known for "image"' in out


def test_the_ledger_names_kernels(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ledger", quantized, "--cpu", "x86-64-v3", "--json") == 0
    kernels = {each["name"]: each for each in json.loads(capsys.readouterr().out)["kernels"]}
    assert kernels["dense1"]["kernel"] == "paired channels"
    assert kernels["dense1"]["why"].startswith("not Winograd: the window is not 3x3 of stride 1; not pairs of bytes: ")
    assert run("ledger", quantized, "--cpu", "cortex-m4") == 0
    assert re.search(r"^dense1 +halves of words *$", capsys.readouterr().out, re.MULTILINE)
    assert run("ledger", quantized, "--json", small / "l.json") == 0
    capsys.readouterr()
    assert json.loads((small / "l.json").read_text())["kernels"] is None
    assert run("ledger", small / "l.json", "--cpu", "cortex-m4") == 1
    assert "--cpu: needs a quantized .mlir file, got " in capsys.readouterr().err


def test_ledgers_are_shown_and_compared(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "s.mlir")
    assert run(*command, "--rule", "name=dense1 keep-float=true", "--ledger", small / "l.json") == 0
    capsys.readouterr()
    assert run("ledger", small / "s.mlir") == 0
    table = capsys.readouterr().out
    assert run("ledger", small / "l.json") == 0
    assert capsys.readouterr().out == table
    assert "4 of 5 operations quantized" in table
    assert run("ledger", small / "s.mlir", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["decisions"] == json.loads((small / "l.json").read_text())["decisions"]
    assert run("ledger", "diff", quantized, small / "l.json") == 0
    lines = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
    assert ["-", "dense1", "nn.fully_connected", "quantized"] in lines
    assert ["+", "dense1", "nn.fully_connected", "float"] in lines
    assert lines[-1] == ["1", "operation", "changed"]
    assert run("ledger", "diff", quantized, small / "l.json", "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)["changes"]
    assert (row["before"]["outcome"], row["after"]["code"]) == ("quantized", "policy")
    assert run("ledger", "diff", quantized, quantized) == 0
    assert capsys.readouterr().out == "no operation changed\n"


@pytest.mark.slow
def test_analysis(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    command = ("analyze", small.onnx, quantized, "--data", small.data)
    assert run(*command, "--json", small / "a.json") == 0
    out = capsys.readouterr().out
    assert "4 tensors over 6 samples; SQNR in dB" in out
    rows = json.loads((small / "a.json").read_text())["tensors"]
    assert [r["isolated_sqnr"] for r in rows] == sorted(r["isolated_sqnr"] for r in rows)
    assert [line.split()[0] for line in out.splitlines()[1:5]] == [r["tensor"] for r in rows]
    assert f"{rows[0]['isolated_sqnr']:.2f}" in out
    assert run(*command, "--sort", "order", "--worst", 2) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["tensor", "image", "active", "4"]


def test_powers_of_two_are_shown_by_their_exponent(
    small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--profile", small / "p.yaml", "--schema", "symmetric_with_power2_scale", "--ledger", small / "l.json")
    assert run("quantize", small.onnx, *options, "-o", small / "s.mlir", "--verbose") == 0
    rows = json.loads((small / "l.json").read_text())["decisions"]
    assert all(re.fullmatch(r"2\^-?\d+(, weights 2\^-?\d+(…2\^-?\d+)?)?", r["scale"]) for r in rows)
    out = capsys.readouterr().out
    assert all(r["scale"] in out for r in rows)
    assert "qmlir.scales = #qmlir.power_of_two" in (small / "s.mlir").read_text()


def test_ranges_in_the_ir_need_no_profile(small: Small) -> None:
    (small / "r.mlir").write_text("""
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x4xf32>
  %0 = nn.tanh %x : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %0 : tensor<1x4xf32>
}
""")
    assert run("quantize", small / "r.mlir", "-o", small / "s.mlir") == 0
    assert "quant.qcast" in (small / "s.mlir").read_text()


@pytest.mark.parametrize("weights", ["same", "int8"])
def test_precisions_of_16_bits(small: Small, quantized: Path, weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--profile", small / "p.yaml", "--precision", "int16", "--weight-precision", weights)
    assert run("quantize", small.onnx, *options, "--fail-on-float", "-o", small / "s.mlir", "-v") == 0
    assert f"i16 activations, {'i8' if weights == 'int8' else 'i16'} weights" in capsys.readouterr().out
    assert run("run", small / "s.mlir", "--data", small.data, "-o", small / "y.npz") == 0
    assert run("run", small / "s.mlir", "--reference", "--data", small.data, "-o", small / "r.npz") == 0
    np.testing.assert_array_equal(np.load(small / "y.npz")["scores"], np.load(small / "r.npz")["scores"])


@pytest.mark.parametrize(
    "shape", [(1, 2, 8, 8), (2, 8, 8), (5, 2, 8, 8), (5, 1, 2, 8, 8)], ids=lambda s: "x".join(map(str, s))
)
def test_shapes_of_samples(small: Small, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(-3, 3, shape)  # whatever the array is called, integers too
    np.save(small / "a.npy", array)
    np.savez(small / "a.npz", other=array)
    count = shape[0] if len(shape) > 3 else 1
    for name in ("a.npy", "a.npz"):
        assert run("run", small.onnx, "--reference", "--data", small / name, "-o", small / "y.npz") == 0
        assert np.load(small / "y.npz")["scores"].shape == (count, 1, 3)


def test_outputs_of_any_name(tmp_path: Path) -> None:
    small = write_small(tmp_path, scores="file")
    assert run("run", small.onnx, "--reference", "--data", small.data, "-o", small / "y.npz") == 0
    assert np.load(small / "y.npz")["file"].shape == (6, 1, 3)


def values(hint: Any) -> list[str]:
    """The values of a Literal, or of a union of them."""
    return [value for each in get_args(hint) for value in ([each] if isinstance(each, str) else values(each))]


def test_the_values_of_options_are_those_of_the_library() -> None:
    """Flags, passes, policies and functions take the fields of `QuantConfig`, by the same names and values."""
    hints, full = get_type_hints(QuantConfig), get_type_hints(QuantConfig, include_extras=True)
    listed = {name: [*values(hint), *map(with_number, numbered(full[name]))] for name, hint in hints.items()}
    flags = {option.name.replace("-", "_"): option.type for option in quantizing.config_options()}
    assert flags == {name: "bool" if hint is bool else " | ".join(listed[name]) for name, hint in hints.items()}
    assert get_type_hints(QuantOptions) == {
        name: (bool if hint is bool else str) | None for name, hint in hints.items()
    }
    assert hints.items() <= get_type_hints(pass_class("quantize")).items()
    for name in hints:
        (value, *_) = values(hints[name]) or (True,)
        assert Policy.of({"default": {name.replace("_", "-"): value}}).default == {name: value}


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        [],
        ["import"],
        ["profile"],
        ["profile", "merge"],
        ["quantize"],
        ["ledger"],
        ["ledger", "diff"],
        ["compile"],
        ["bench"],
        ["run"],
    ):
        with pytest.raises(SystemExit) as ended:
            run(*command, "--help")
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith("usage: qmlir")


# ---------------------------------------------------------------------------------------------------------------
# The bundle

C_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "{stem}.h"

static void *load(const char *path, size_t size) {{
  void *data = aligned_alloc({prefix}_ALIGNMENT, (size / {prefix}_ALIGNMENT + 1) * {prefix}_ALIGNMENT);
  FILE *file = fopen(path, "rb");
  if (!file || fread(data, 1, size, file) != size) exit(2);
  fclose(file);
  return data;
}}

int main(int argc, char **argv) {{
#ifdef {prefix}_CPU_FEATURES
  if (!{entry}_runs_here()) return 3;
#endif
  const uint8_t *weights = load(argv[1], {prefix}_WEIGHTS_SIZE);
  size_t rounded = ({prefix}_ARENA_SIZE / {prefix}_ALIGNMENT + 1) * {prefix}_ALIGNMENT;
  uint8_t *arena = aligned_alloc({prefix}_ALIGNMENT, rounded);
  float *x = load(argv[2], 128 * sizeof(float)), y[3];
  const void *inputs[] = {{x}};
  void *outputs[] = {{y}};
  {entry}(weights, arena, inputs, outputs);
  return fwrite(y, sizeof(float), 3, stdout) != 3;
}}
"""


@pytest.mark.parametrize("stem", ["net", "8-bit net", "main"])
def test_a_c_program_computes_the_same_bits(small: Small, quantized: Path, stem: str) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler called cc")
    assert run("compile", quantized, "-o", small / f"{stem}.o") == 0
    name = c_identifier(stem)
    entry = f"{name}_net" if name == "main" else name
    (small / "program.c").write_text(C_PROGRAM.format(stem=stem, prefix=name.upper(), entry=entry))
    (small / "x.bin").write_bytes(small.samples[0].tobytes())
    objects = [small / "program.c", small / f"{stem}.o", "-lm"]
    subprocess.run([compiler, "-Wall", "-Werror", "-o", small / "program", *map(str, objects)], check=True)
    done = subprocess.run(
        [small / "program", small / f"{stem}.weights.bin", small / "x.bin"], capture_output=True, check=True
    )
    expected = qmlir.reference(qmlir.load(quantized))(small.samples[:1])
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(1, 3), expected)


def test_other_forms_of_code(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", quantized, "--emit", "llvm-ir", "-o", small / "net.ll") == 0
    assert run("compile", quantized, "--emit", "asm", "-o", small / "net.s") == 0
    assert 'define void @"net"' in (text := (small / "net.ll").read_text()) or "define void @net" in text
    assert "net:" in (small / "net.s").read_text()
    assert not (small / "net.h").exists()
    assert "bytes of code" in capsys.readouterr().out


def test_the_header_says_what_the_tensors_are(small: Small, quantized: Path) -> None:
    assert run("compile", quantized, "-o", small / "net.o") == 0
    header = (small / "net.h").read_text()
    assert "/* inputs[0]: float [1][2][8][8]  image */" in header
    assert "/* outputs[0]: float [1][3]  scores */" in header
    size = (small / "net.weights.bin").stat().st_size
    assert f"#define NET_WEIGHTS_SIZE {size} " in header


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="processors of x86")
def test_the_header_says_what_the_code_needs_of_a_processor(
    small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for cpu in ("x86-64", "x86-64-v3", "sapphirerapids"):
        assert run("compile", quantized, "--cpu", cpu, "-o", small / f"{cpu}.o") == 0
    texts = {cpu: (small / f"{cpu}.h").read_text() for cpu in ("x86-64", "x86-64-v3", "sapphirerapids")}
    assert "FEATURES" not in texts["x86-64"]
    assert "a processor like x86-64-v3, with these features" in texts["x86-64-v3"]
    assert re.search(r'^#define X86_64_V3_CPU_FEATURES "avx,avx2,bmi,', texts["x86-64-v3"], re.MULTILINE)
    assert '__builtin_cpu_supports("avx2")' in texts["x86-64-v3"]
    assert "avx512" not in texts["x86-64-v3"]
    assert "int sapphirerapids_runs_here(void)" in texts["sapphirerapids"]
    for name in ("cc", "c++"):
        if (compiler := shutil.which(name)) is not None:
            (small / "p.c").write_text(
                "".join(f'#include "{cpu}.h"\n' for cpu in texts) + "int main(void) { return 0; }"
            )
            command = [compiler, "-Wall", "-Wextra", "-Werror", "-o", str(small / "p"), str(small / "p.c")]
            subprocess.run(command, check=True)
    capsys.readouterr()
    assert run("compile", quantized, "--features=+avx2,-fma", "--cpu", "x86-64-v2", "-o", small / "net.o") == 0
    assert re.search(r'"avx,avx2,[^"]*"', (small / "net.h").read_text())
    assert run("compile", quantized, "--cpu", "haswel", "-o", small / "net.o") == 1
    assert "got haswel; did you mean haswell" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="processors of x86")
def test_code_runs_here_only_if_this_processor_has_its_features(
    small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", quantized, "--cpu", "x86-64", "--data", small.data, "-o", small / "y.npz") == 0
    assert run("run", quantized, "--reference", "--data", small.data, "-o", small / "r.npz") == 0
    np.testing.assert_array_equal(np.load(small / "y.npz")["scores"], np.load(small / "r.npz")["scores"])
    capsys.readouterr()
    for command in (("run", quantized, "--data", small.data), ("bench", quantized, "--runs", 1)):
        assert run(*command, "--features=+amx-tile,+sm4,+xop") == 1
        assert re.search(r"error: code for \S+: runs on .*, got .* without .*xop", capsys.readouterr().err)
    for other in (("--reference",), ("--target", "vta")):
        assert run("run", quantized, "--data", small.data, "--cpu", "native", *other) == 1
        assert f"--cpu: must not be given with {other[0]}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="an architecture that is not x86")
def test_code_for_another_architecture(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is written and says what it needs; it is not run here, and other triples are refused."""
    triple = ("--triple", "aarch64-linux-gnu")
    for stem, options in (("plain", ()), ("dot", ("--cpu", "cortex-a76")), ("threads", ("--threads", "2"))):
        assert run("compile", quantized, *triple, *options, "-o", small / f"{stem}.o") == 0
    plain, dot = ((small / f"{stem}.h").read_text() for stem in ("plain", "dot"))
    assert '#define PLAIN_TRIPLE "aarch64-unknown-linux-gnu"' in plain
    assert "FEATURES" not in plain
    assert '#define DOT_TRIPLE "aarch64-unknown-linux-gnu"' in dot
    assert re.search(r'^#define DOT_CPU_FEATURES "[^"]*\bdotprod\b', dot, re.MULTILINE)
    assert "int dot_runs_here(void) { return (getauxval(AT_HWCAP) & " in dot
    assert "runs_here" not in plain
    assert (small / "dot.o").read_bytes()[18:20] == b"\xb7\0"  # AArch64, as ELF numbers machines
    assert run("compile", quantized, *triple, "--emit", "llvm-ir", "-o", small / "net.ll") == 0
    assert 'target triple = "aarch64-unknown-linux-gnu"' in (small / "net.ll").read_text()
    assert run("compile", quantized, *triple, "--cpu", "cortex-a76", "--emit", "asm", "-o", small / "net.s") == 0
    assert "sdot" in (small / "net.s").read_text()
    capsys.readouterr()
    assert run("compile", quantized, "--cpu", "cortex-m4", "-o", small / "m4.o") == 0
    assert "for thumbv7em-none-eabi, processors like cortex-m4 with " in capsys.readouterr().out
    assert (small / "m4.o").read_bytes()[4:20:14] == b"\1\50"  # 32 bits, Arm
    assert '#define M4_TRIPLE "thumbv7em-none-eabi"' in (small / "m4.h").read_text()
    for command in (("run", quantized, "--data", small.data), ("bench", quantized, "--runs", 1)):
        assert run(*command, *triple) == 1
        assert "error: code for generic: runs on aarch64-unknown-linux-gnu only" in capsys.readouterr().err
    for options, message in (
        (("--triple", "vax-dec-ultrix"), "triple: must be x86_64-unknown-linux-gnu, aarch64-"),
        ((*triple, "--cpu", "znver3"), "got znver3"),
        ((*triple, "--target", "vta"), "--triple: must not be given with --target"),
    ):
        assert run("compile", quantized, *options, "-o", small / "net.o") == 1
        assert message in capsys.readouterr().err


def test_numerics(small: Small, quantized: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option is in the text it writes, and what an .mlir file says stays without it."""
    assert (
        run("quantize", small.onnx, "--profile", small / "p.yaml", "--numerics", "onnxruntime", "-o", small / "r.mlir")
        == 0
    )
    assert 'qmlir.numerics = "onnxruntime"' in (small / "r.mlir").read_text()
    assert run("import", small / "r.mlir", "-o", small / "again.mlir") == 0
    assert 'qmlir.numerics = "onnxruntime"' in (small / "again.mlir").read_text()
    assert run("import", small / "r.mlir", "--numerics", "default", "-o", small / "again.mlir") == 0
    assert "qmlir.numerics" not in (small / "again.mlir").read_text()
    assert run("import", small.onnx, "--numerics", "onnx", "-o", small / "again.mlir") == 1
    assert "must be one of default, onnxruntime" in capsys.readouterr().err
