"""`qmlir-opt --PASS --help`: each pass has one, with all of its options, and its examples are command lines."""

import re
import shlex

import pytest

from qmlir.cli import opt
from qmlir.cli.flags import PIPELINE_FLAG
from qmlir.cli.pass_list import pass_table, read_pass
from qmlir.ir.option_parsing import build_pass, parse_options, parse_pipeline
from qmlir.ir.passes import pass_class


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert opt.main([*arguments, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", [*pass_table(), "scf-for-loop-unroll"])
def test_each_pass(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, f"--{name}")
    assert text.startswith(f"--{name}\n")
    if name in pass_table():
        for option in read_pass(pass_table()[name])[1]:
            default = "required" if option.default is None else f"default: {option.default}"
            assert f" {option.name}=<{option.type}> ({default})" in " ".join(text.split())
    _, flag, pipeline = re.split(r"\n  qmlir-opt ", text)
    (spec,) = parse_pipeline(shlex.split(pipeline)[0].removeprefix(f"--{PIPELINE_FLAG}="))
    given = shlex.split(flag)[0].partition("=")[2]
    assert parse_options(name, given) == spec
    assert build_pass(spec, pass_class(name)).name == pass_class(name).name


def test_what_it_says_about_quantize(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--quantize=schema=symmetric")
    assert "Quantizes a network whose observers hold ranges." in text
    assert "how a range becomes a scale and a zero point" in text
    assert '    calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<1x4xf32>\n' in text  # code stays as it is
    assert "```" not in text
    assert "--choose-scales" not in text
    assert max(map(len, text.splitlines())) <= 120


def test_upstreams_spelling_and_two_passes(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--convert-nn-to-qint", "--cse", "-o", "x.mlir")
    assert text.startswith("--convert-nn-to-qint\n\n  Lowers nn on quantized types")
    assert "\n--cse\n" in text


def test_an_unknown_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--quantise", "--help"]) == 1
    assert capsys.readouterr().err == "error: quantise: there is no such pass; did you mean quantize?\n"


def test_general_help_has_a_line_for_each_pass(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in ([], ["--mlir-timing", "--verify-each=true"]):
        lines = shown(capsys, *flags).splitlines()
        assert lines[0].startswith("usage: qmlir-opt")
        passes = [line for line in lines[lines.index("passes:") + 1 :] if line.startswith("  --")]
        assert [line.split()[0] for line in passes] == sorted(f"--{name}" for name in pass_table())
        assert max(map(len, lines)) <= 120
