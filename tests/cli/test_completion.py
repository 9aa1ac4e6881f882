"""Completion in real shells: what TAB proposes behind commands, options and values, and that it is fast to answer."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small import run

BIN = Path(sys.executable).parent

ASK_BASH = """
eval "$(qmlir completion bash)"
while IFS= read -r COMP_LINE; do
  COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; read -ra COMP_WORDS <<< "$COMP_LINE"
  [[ "$COMP_LINE" == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
  _python_argcomplete "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}"
  echo "${COMPREPLY[@]}"
done < lines
"""
"""What bash does at TAB: it calls the function that the script registered, with the line in variables."""

ASK_FISH = "qmlir completion fish | source; complete --do-complete 'qmlir device check v'"


def ask(shell: list[str], script: str, folder: Path) -> list[str]:
    environment = os.environ | {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(folder)}
    asked = subprocess.run([*shell, script], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return [line.partition("\t")[0].rstrip() for line in asked.stdout.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for name in ("net.onnx", "net.yaml", "net.npz", "mine.toml"):
        (folder / name).touch()
    return folder


LINES: dict[str, tuple[set[str], set[str]]] = {
    "qmlir qua": ({"quantize"}, {"run"}),
    "qmlir device ": ({"check", "list", "show"}, {"device check", "net.onnx"}),
    "qmlir device check ": ({"vta", "mine.toml"}, {"net.yaml"}),
    "qmlir profile mer": ({"merge"}, set()),
    "qmlir profile merge --fo": ({"--format"}, {"--bins"}),
    "qmlir quantize --sch": ({"--schema"}, {"--save-profile"}),
    "qmlir quantize --schema symmetric_with_u": ({"symmetric_with_uint8"}, {"asymmetric"}),
    "qmlir quantize net": ({"net.onnx"}, {"net.npz"}),
    "qmlir run net.onnx --target v": ({"vta"}, {"gemmini"}),
    "qmlir-opt --quanti": ({"--quantize", "--quantize-ops", "--quantize-bias"}, {"--simplify"}),
}
"""The line at TAB → words that are proposed, and words that are not."""


@pytest.mark.slow
def test_in_bash(folder: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (folder / "lines").write_text("".join(f"{line}\n" for line in LINES))
    answers = ask(["bash", "--norc", "-c"], ASK_BASH, folder)
    for (line, (expected, others)), answer in zip(LINES.items(), answers, strict=True):
        found = set(answer.split())
        assert expected <= found, line
        assert not others & found, line


def test_in_fish(folder: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish")
    assert ask(["fish", "--no-config", "-c"], ASK_FISH, folder) == ["vta"]


ASK_ZSH = """
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=""; autoload -Uz compinit; compinit -u; eval "$(qmlir completion zsh)"; LISTMAX=1000; print READY'
zpty -r z seen '*READY*READY*'
zpty -w -n z $'qmlir device check v\\t'
zpty -r z seen '*check vta*' && print -r -- vta
zpty -d z
"""


def test_in_zsh(folder: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("there is no zsh")
    assert ask(["timeout", "120", "zsh", "-f", "-c"], ASK_ZSH, folder) == ["vta"]


def test_nothing_heavy_is_imported_to_answer() -> None:
    code = "import sys, qmlir.cli.main, qmlir.cli.opt, qmlir.cli.completion; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.partition(".")[0] in ("xdsl", "numpy", "onnx", "llvmlite")]


def test_other_shells(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("completion", "tcsh") == 1
    assert "must be one of its values, got tcsh; known: bash, fish, zsh" in capsys.readouterr().err
