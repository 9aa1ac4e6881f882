"""`--print-config` and `--config` of commands besides `quantize`: one file holds the options of a command."""

import argparse
from pathlib import Path

import pytest
import yaml

from qmlir.cli.main import command_parsers
from qmlir.cli.printed_options import OF_ONE_RUN
from tests.cli.small import is_one_paragraph, run, write_small

COMMANDS = {
    "profile": "profile small.onnx --data data.npz --samples 5 --per-channel --bins 64 -o {o}/p.yaml",
    "profile without samples": "profile small.onnx --data-free --input-range 0,1 --input-range image=0,2 -o {o}/p.yaml",
    "compile": "compile q.mlir --threads 2 --cpu native --io float -o {o}/a.o",
    "compile for a device": "compile q.mlir --target ethos-u55-like --set array.lanes.k=8 --emit asm -o {o}/a.s",
    "bundle": "compile q.mlir --bundle --prefix net --cpu cortex-m4 --io int8 --weights-in array -o {o}/bundle",
    "tune": "tune small.onnx --data data.npz --floor sqnr=5 --most 2 --no-per-channel --levels 4 --results {o}/r "
    "--front {o}/f.csv -o {o}/t.yaml",
    "explore": "explore nmp small.onnx --sweep memory.act.bytes=64KiB,128KiB --schema symmetric --precision int8 "
    "--front cycles,macs --results {o}/r --csv {o}/e.csv",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_small(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def quantized(folder: Path) -> None:
    assert run("quantize", "small.onnx", "--data", "data.npz", "-o", "q.mlir", "-q") == 0


def split(command: str, out: Path) -> tuple[list[str], list[str]]:
    """The words of a command line: the command with its models, and the options."""
    words = command.format(o=out.name).split()
    first = next(place for place, word in enumerate(words) if word.startswith("-"))
    return words[:first], words[first:]


def written(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "r" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["profile", "compile", "compile for a device", "bundle"])
def test_the_printed_file_makes_the_same_files(name: str, quantized: None, folder: Path) -> None:
    check_round(name, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tune", "explore"])
def test_the_printed_file_searches_the_same(name: str, folder: Path) -> None:
    check_round(name, folder)


def check_round(name: str, folder: Path) -> None:
    """Runs a command with options and with the file that it prints of them."""
    for out in ("one", "two"):
        (folder / out).mkdir()
    command, options = split(COMMANDS[name], folder / "one")
    assert run(*command, *options, "-q") == 0
    _, options = split(COMMANDS[name], folder / "two")
    assert run(*command, "--config", printed(folder, command, options), "-q") == 0
    assert written(folder / "one") == written(folder / "two")


def printed(folder: Path, command: list[str], options: list[str]) -> Path:
    """The file of options that a command prints."""
    from contextlib import redirect_stdout
    from io import StringIO

    with redirect_stdout(StringIO()) as out:
        assert run(*command, *options, "--print-config") == 0
    (folder / "config.yaml").write_text(out.getvalue())
    return folder / "config.yaml"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_printed_file_prints_itself(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, options = split(COMMANDS[name], folder / "out")
    file = printed(folder, command, options)
    assert run(*command, "--config", file, "--print-config") == 0
    assert capsys.readouterr().out == file.read_text()
    assert not (folder / "out").exists()  # nothing was done


def test_defaults_are_printed_and_required_options_may_be_missing(folder: Path) -> None:
    found = yaml.safe_load(printed(folder, ["tune", "small.onnx"], []).read_text())
    assert found["tune"]["most"] == 20
    assert found["tune"]["levels"] == "4,5,6,7"
    assert "schema" not in found["tune"]  # which the search may choose
    found = yaml.safe_load(printed(folder, ["compile", "small.onnx"], ["--bundle"]).read_text())
    assert found["compile"] == {
        "fold-budget": 1 << 30, "emit": "obj", "threads": 1, "cpu": "native", "memory": "small", "bundle": True,
        "api": "static",
    }  # fmt: skip


def test_options_of_the_command_line_win(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.yaml").write_text("profile: {bins: 7, data: data.npz, per-channel: true, bind: {n: 3}}")
    assert run("profile", "small.onnx", "--config", "c.yaml", "--bins=9", "--print-config") == 0
    found = yaml.safe_load(capsys.readouterr().out)["profile"]
    assert (found["bins"], found["data"], found["per-channel"], found["bind"]) == (9, "data.npz", True, {"n": 3})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "must hold options of qmlir profile"),
        ("compile: {emit: obj}", "must hold options of qmlir profile, got compile; write one with --print-config"),
        ("profile: 3", "c.yaml:1:10: must hold options of qmlir profile, got no options by name"),
        ("profile: {bin: 3}", "c.yaml:1:11: must hold options of qmlir profile, got bin; did you mean bin"),
        ("profile: {bins: none}", "c.yaml:1:17: --bins: must be a positive number, got none"),
        ("profile: {bins: [3]}", "c.yaml:1:17: must be text or a number, got [3]"),
        ("profile: {per-channel: 3}", "c.yaml:1:24: must be true or false, got 3"),
        ("profile: {bins: true}", "c.yaml:1:17: --bins: must be a positive number, got true"),
        ("profile: {", "must be a file of options in YAML"),
    ],
)
def test_files_that_are_no_options(text: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.yaml").write_text(text)
    assert run("profile", "small.onnx", "--config", "c.yaml", "-o", "p.yaml") == 1
    error = capsys.readouterr().err
    assert message in error
    assert is_one_paragraph(error)


def test_every_option_can_stand_in_a_file() -> None:
    for name in ("profile", "compile", "tune", "explore"):
        parser = command_parsers()[name]
        assert {"config", "print-config"} <= {*parser.long_flags()}
        known = ("_StoreAction", "_StoreTrueAction", "_StoreFalseAction", "_AppendAction", "BooleanOptionalAction")
        for action in parser.all_actions():
            names = {option[2:] for option in action.option_strings}
            assert names & {*OF_ONE_RUN} or not names or type(action).__name__ in known, action
            assert isinstance(action, argparse.Action)


def test_what_the_printed_file_is_advised_for_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "c.yaml").write_text("tune: {}")
    command = ["profile", "small.onnx", "--data", "data.npz", "-o", "p.yaml"]
    assert run(*command, "--config", "c.yaml") == 1
    assert "write one with --print-config" in capsys.readouterr().err
    file = printed(folder, command[:2], command[2:])
    assert run("profile", "small.onnx", "--config", file, "-q") == 0
