"""One file holds all options of `qmlir quantize`: options, file and Python give the same bytes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml

import qmlir
from qmlir.cli.main import command_parsers
from qmlir.cli.printed_options import words_of
from qmlir.settings.fields import RUN_OPTIONS
from qmlir.settings.quant_config import QuantConfig
from tests.cli.small import Small, is_one_paragraph, run, write_small

OF_ONE_RUN = {
    "policy", "rule", "print-config", "json", "help", "quiet", "verbose", "debug", "entry", "entries", "prefix-data",
    "prefix-entry",
}  # fmt: skip
"""Options that a file does not hold: itself, its rules, the functions that are meant, what the command prints."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    small = write_small(tmp_path_factory.mktemp("configuration"))
    np.savez(small / "tests.npz", image=small.samples[::-1])
    (small / "raw").mkdir()
    for number, sample in enumerate(small.samples):
        (small / "raw" / f"{number}.bin").write_bytes(sample.tobytes())
    (small / "labels.txt").write_text("0\n1\n2\n0\n1\n2\n")
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml") == 0
    return small


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_a_file_holds_what_the_command_line_holds() -> None:
    parser = command_parsers()["quantize"]
    op_config = {field.replace("_", "-") for field in QuantConfig().options()}
    switches = {f"no-{name}" for name in (*op_config, "measure")} | {"per-tensor"}
    assert {*RUN_OPTIONS} == {*parser.long_flags()} - OF_ONE_RUN - op_config - switches


CASES = {
    "op_config": "--data {d}/data.npz --samples 4 --schema symmetric --per-tensor -o {o}/q.mlir",
    "rules": "--profile {d}/p.yaml --rule=name=dense1_keep-float=true --calibration percentile -o {o}/q.mlir",
    "profile": "--profile {d}/p.yaml --test-data {d}/tests.npz --partial-profile -o {o}/q.mlir",
    "raw": "--data {d}/raw --dtype float32 --numerics onnxruntime --fold-budget 1000 -o {o}/q.mlir",
    "scores": "--data {d}/data.npz --test-data {d}/data.npz --labels {d}/labels.txt --label-offset 0 -o {o}/q.mlir",
    "device": "--data {d}/data.npz --target ethos-u55-like --set array.lanes.k=8 -o {o}/q.mlir",
    "16x8 on a device": "--data {d}/data.npz --target ethos-u55-like --precision int16 -o {o}/q.mlir",
    "runtime": "--data {d}/data.npz --for onnxruntime --memory-budget 1MiB -o {o}/q.mlir",
}
"""Command lines whose networks Python can write, too; `_` in a rule stands for a space."""

FORMS = {
    "onnx": "--data {d}/data.npz --for onnxruntime --opset 17 -o {o}/q.onnx",
    "tflite": "--data {d}/data.npz -o {o}/q.tflite",
    "program": "--data {d}/data.npz --target ethos-u55-like -o {o}/q.npu",
    "code": "--data {d}/data.npz --threads 2 --cpu x86-64-v3 --triple x86_64-linux-gnu -o {o}/q.o",
}


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *FORMS])
def test_options_file_and_python_are_one(
    small: Small, case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [tmp_path / name for name in ("options", "file", "python")]
    for folder in folders:
        folder.mkdir()
    text = (CASES | FORMS)[case]
    words = [w.replace("dense1_", "dense1 ") for w in text.format(d=small.folder, o=folders[0]).split()]
    assert run("quantize", small.onnx, *words) == 0
    capsys.readouterr()
    assert run("quantize", small.onnx, *words, "--print-config") == 0
    printed = capsys.readouterr().out
    (tmp_path / "run.yaml").write_text(printed.replace(str(folders[0]), str(folders[1])))
    assert run("quantize", small.onnx, "--policy", tmp_path / "run.yaml") == 0
    assert written(folders[0])
    assert written(folders[1]) == written(folders[0])
    capsys.readouterr()
    assert run("quantize", small.onnx, "--policy", tmp_path / "run.yaml", "--print-config") == 0
    assert capsys.readouterr().out == printed.replace(str(folders[0]), str(folders[1]))
    if case in CASES:
        qmlir.save(qmlir.quantize(small.onnx, policy=tmp_path / "run.yaml"), folders[2] / "q.mlir")
        assert written(folders[2]) == written(folders[0])


def test_defaults_are_resolved(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("quantize", small.onnx, "--data", small.data, "--for", "onnxruntime", "-o", small / "q.onnx")
    assert run(*command, "--print-config") == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert len(found["default"]) == 18
    assert (found["default"]["precision"], found["default"]["weight-precision"]) == ("uint8", "int7")
    options = found["options"]
    assert (options["format"], options["onnx-activations"], options["memory-budget"]) == (
        "onnx-qdq",
        "uint8",
        512 << 20,
    )
    assert options["fail-on-float"] is False


def test_the_command_line_wins(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"data": str(small.data), "samples": 3, "output": str(tmp_path / "a.mlir"), "measure": True}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"options": options}))
    command = ("quantize", small.onnx, "--policy", tmp_path / "run.yaml", "--samples", 2, "--no-measure")
    assert run(*command, "-o", tmp_path / "b.mlir") == 0
    assert "learned from 2 samples" in capsys.readouterr().out
    assert not (tmp_path / "a.mlir").exists()
    assert (tmp_path / "b.mlir").exists()
    samples = list(small.samples[:2, None])
    q = qmlir.quantize(small.onnx, policy=tmp_path / "run.yaml", data=samples, measure=False)
    (tmp_path / "b").mkdir()
    qmlir.save(q, tmp_path / "b" / "b.mlir")
    assert (tmp_path / "b" / "b.mlir").read_bytes() == (tmp_path / "b.mlir").read_bytes()


def mistakes() -> Iterator[tuple[str, str, str]]:
    yield "options: {dat: x}", ":1:11: there is no such option, got dat", "did you mean data"
    yield "options: {precision: int8}", ":1:11: there is no such option, got precision; put it under default", ""
    yield "options: [data]", ":1:10: options must be values by name", ""
    yield "options: {samples: many}", ":1:20: must be a positive number, got many", ""
    yield "options: {fail_on_float: 1}", ":1:26: must be true or false, got 1", ""
    yield "options: {memory-budget: much}", "must be bytes, or a size such as 512MiB or 2GiB, got much", ""
    yield "options: {bind: {N: x}}", "must be positive numbers by name, such as {batch: 1}", ""
    yield "options: {data: 3}", ":1:17: must be text, got 3", ""
    yield "options: {for: tensorrt}", ":1:16: --for: must be one of its values, got tensorrt", ""
    yield "options: {output: q.txt}", ":1:19: -o/--output: must be a file name that ends in", ""
    yield "options: {label-offset: 1.5}", "must be an integer, got 1.5", ""
    yield "options: {fold-budget: 1, fold_budget: 2}", "must name each key once, got fold_budget again", ""
    yield "option: {}", ":1:1: a policy has default, rules and options, got option; did you mean options?", ""


@pytest.mark.parametrize(("text", "message", "remedy"), [*mistakes()])
def test_mistakes_have_places(
    small: Small, text: str, message: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").write_text(text)
    assert run("quantize", small.onnx, "--policy", tmp_path / "run.yaml", "-o", tmp_path / "q.mlir") == 1
    error = capsys.readouterr().err
    assert is_one_paragraph(error)
    assert message in error
    assert remedy in error
    assert "run.yaml:1:" in error


def test_mistakes_in_python(small: Small) -> None:
    with pytest.raises(qmlir.QmlirError, match="policy options samples: must be a positive number, got 0"):
        qmlir.Policy(options={"samples": 0})
    held_out = {"options": {"data": str(small.data), "labels": str(small / "labels.txt")}}
    with pytest.raises(
        qmlir.QmlirError, match="held out of the data by the command only; name other samples as --test-data"
    ):
        qmlir.quantize(small.onnx, policy=held_out)
    with pytest.raises(qmlir.QmlirError, match="runtime: must be one of onnxruntime, got tensorrt"):
        qmlir.quantize(small.onnx, policy={"options": {"data": str(small.data), "for": "tensorrt"}})


def test_words_of_options() -> None:
    options = {"bind": {"N": 2}, "set": {"a.b": True}, "fail-on-float": False, "measure": False, "features": "+f"}
    words = words_of(options, command_parsers()["quantize"], str)
    assert words == ["--bind=N=2", "--set=a.b=true", "--no-measure", "--features=+f"]


def test_remedies_are_carried_out(small: Small) -> None:
    """The remedies of `mistakes` and of `test_mistakes_in_python`."""
    options = {"data": str(small.data), "labels": str(small / "labels.txt"), "test-data": str(small / "tests.npz")}
    q = qmlir.quantize(small.onnx, policy={"default": {"precision": "int16"}, "options": options})
    assert "i16" in qmlir.decisions(q)[0].reason


def test_a_percentile_has_its_percent(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir", "--calibration")
    assert run(*command, "percentile-99.9", "--print-config") == 0
    assert yaml.safe_load(capsys.readouterr().out)["default"]["calibration"] == "percentile-99.9"
    for wrong, remedy in (("percentile-10", "keeps 50 to 100 percent"), ("kl-3", "did you mean kl?")):
        assert run(*command, wrong) == 1
        assert remedy in capsys.readouterr().err
