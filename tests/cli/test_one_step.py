"""`qmlir quantize --data` without a profile: the same files as in two steps; and what `qmlir` says of itself."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import qmlir
from tests.cli.small import Small, run
from tests.conftest import ROOT


def test_one_step_gives_what_two_give(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = small / "one.mlir", small / "two.mlir"
    assert run("quantize", small.onnx, "--data", small.data, "--save-profile", small / "one.yaml", "-o", one) == 0
    out = capsys.readouterr().out
    assert "ranges of 4 tensors, learned from 6 samples" in out
    assert f"{small / 'one.yaml'}: written" in out
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "two.yaml") == 0
    assert run("quantize", small.onnx, "--profile", small / "two.yaml", "--data", small.data, "-o", two) == 0
    assert (small / "one.yaml").read_bytes() == (small / "two.yaml").read_bytes()
    assert one.read_text().replace("one.safetensors", "two.safetensors") == two.read_text()
    assert one.with_suffix(".safetensors").read_bytes() == two.with_suffix(".safetensors").read_bytes()


@pytest.mark.parametrize("once", [False, True])
def test_one_step_in_python(small: Small, once: bool) -> None:
    samples = [sample[None] for sample in small.samples]
    profile = qmlir.profile(small.onnx, samples)
    two = qmlir.quantize(small.onnx, profile, data=samples)
    one = qmlir.quantize(small.onnx, data=iter(samples) if once else samples)
    x = samples[0]
    assert str(one) == str(two)
    np.testing.assert_array_equal(qmlir.reference(one)(x), qmlir.reference(two)(x))


def test_what_is_not_learned_is_not_kept(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    keep = ("--save-profile", small / "p.yaml", "-o", small / "q.mlir")
    assert run("quantize", small.onnx, *keep) == 1
    assert "--save-profile: keeps what is learned from --data, got no --data" in capsys.readouterr().err
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "known.yaml") == 0
    known = ("--profile", small / "known.yaml", "--data", small.data)
    assert run("quantize", small.onnx, *known, *keep) == 1
    assert "got ranges that are known already" in capsys.readouterr().err
    assert not (small / "p.yaml").exists()
    assert not (small / "q.mlir").exists()


def test_help_names_a_part_of_a_page_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("quantize", "--help")
    found = re.search(r'"([^"]+)" in (docs/[a-z]+\.md)', " ".join(capsys.readouterr().out.split()))
    assert found is not None
    assert f"\n## {found[1]}\n" in (ROOT / found[2]).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [["--version"], ["quantize", "--version"]])
def test_versions(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command) == 0
    assert capsys.readouterr().out.startswith(f"qmlir {qmlir.__version__} (xDSL 0.74")


def test_qmlir_alone_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert capsys.readouterr().out.startswith("usage: qmlir")


def test_the_package_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "qmlir", "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout[:6]) == (0, "qmlir ")


def test_names_are_listed() -> None:
    assert {"quantize", "compile", "__version__"} <= set(dir(qmlir))
    assert "import_module" not in dir(qmlir)
