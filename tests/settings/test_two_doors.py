"""The command, Python and qmlir-opt make the same module of the same file, flags and arguments, or the same error."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import qmlir
from qmlir.cli import opt
from qmlir.errors import QmlirError
from qmlir.ir.option_text import value_text
from qmlir.ir.passes import option_types
from qmlir.plugins import choices
from qmlir.settings.quant_config import QuantConfig
from tests.cli.small import Small, run, write_small

Drawn = dict[str, Any]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    small = write_small(tmp_path_factory.mktemp("doors"))
    np.save(small / "data.npy", small.samples[:, None])
    (small / "raw").mkdir()
    for number, sample in enumerate(small.samples):
        (small / "raw" / f"{number}.bin").write_bytes(sample.tobytes())
    qmlir.profile(small.onnx, list(small.samples[:, None])).save(small / "p.yaml")
    return small


RUN_OPTIONS: dict[str, list[Any]] = {
    "outputs": ["active", "pooled,scores"],
    "inputs": ["image"],
    "numerics": ["onnxruntime", "litert-reference"],
    "fold-budget": [1000],
    "io": ["int8", "int16", "float"],
    "for": ["onnxruntime"],
    "target": ["ethos-u55-like", "nmp"],
    "samples": [2, 5],
    "memory-budget": ["1MiB", 1 << 20],
    "auto-seconds": [30],
    "dtype": ["float32"],
    "profile": ["{folder}/p.yaml"],
    "fail-on-float": [True],
    "partial-profile": [True],
    "profile-by-name": [True],
}
"""Options of a file that decide what becomes of a network, with values; `data` is always there."""


def settings(rng: np.random.Generator, most: int) -> Drawn:
    """Up to so many of the quantizer's settings, each with a value that it may have.

    Rotations come before ranges, and so do not go with a profile of the network as it is.
    """
    names = [name for name in QuantConfig().options() if name != "rotate"]
    chosen = rng.choice(len(names), size=int(rng.integers(0, most + 1)), replace=False)
    hints = option_types(QuantConfig)
    values = {names[i]: [*(choices(hints[names[i]]) or (True, False))] for i in chosen}
    return {name: known[int(rng.integers(len(known)))] for name, known in values.items()}


def arguments(rng: np.random.Generator, default: Drawn) -> Drawn:
    """Arguments beside a policy's default; at times the standard value of a setting that the default changes."""
    given = settings(rng, 2)
    if default and rng.random() < 0.3:
        name = next(iter(default))
        given[name] = QuantConfig().options()[name]
    return given


def written(settings: Drawn) -> Drawn:
    return {name.replace("_", "-"): value for name, value in settings.items()}


def flags(settings: Drawn) -> list[str]:
    return [
        f"--{'' if value else 'no-'}{name}" if isinstance(value, bool) else f"--{name}={value}"
        for name, value in written(settings).items()
    ]


def text_of(path: Path) -> str:
    """A module's text, with the name of its side file left out, and what was measured.

    The command measures on samples that its option `--samples` leaves over, which Python is not given.
    """
    return re.sub(r"qmlir\.quality = \{[^}]*\}(, )?", "", path.read_text().replace(path.stem, "q"))


def without_record(text: str) -> str:
    """A module's text without the module's own attributes: qmlir-opt does not record the options."""
    return re.sub(r"^(builtin\.)?module.*\{$", "module {", text, count=1, flags=re.MULTILINE)


def by_command(small: Small, file: Path, given: Drawn, capsys: pytest.CaptureFixture[str]) -> str:
    out = file.with_suffix(".mlir")
    status = run("quantize", small.onnx, "--policy", file, *flags(given), "-o", out, "-q")
    error = capsys.readouterr().err
    return text_of(out) if status == 0 else last(error)


def by_python(small: Small, file: Path, given: Drawn) -> str:
    out = file.with_suffix(".mlir")
    try:
        qmlir.save(qmlir.quantize(small.onnx, policy=file, **given), out)
    except QmlirError as error:
        return last(f"error: {error}")
    return text_of(out)


def last(error: str) -> str:
    """The error in what was written, without the remedy, which each door spells in its own way."""
    (line, *_) = [line for line in error.splitlines() if line.startswith("error: ")]
    return line.partition(";")[0].replace("--", "")


@pytest.mark.filterwarnings("ignore::qmlir.errors.QmlirWarning")
@pytest.mark.parametrize("seed", range(24))
def test_the_command_and_python(small: Small, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(seed)
    names = [name for name in RUN_OPTIONS if rng.random() < 0.25]
    options = {name: RUN_OPTIONS[name][int(rng.integers(len(RUN_OPTIONS[name])))] for name in names}
    options["data"] = f"{small.folder}/{'raw' if 'dtype' in options else 'data.npz'}"
    if "profile" in options:
        options["profile"] = str(small / "p.yaml")
    default = settings(rng, 2)
    policy: Drawn = {"default": written(default), "options": options}
    if rng.random() < 0.5:
        policy["rules"] = [{"layer": "first", "precision": "int16"}]
    (file := tmp_path / "drawn.yaml").write_text(yaml.safe_dump(policy))
    given = arguments(rng, default)
    assert by_python(small, file, given) == by_command(small, file, given, capsys)


@pytest.mark.filterwarnings("ignore::qmlir.errors.QmlirWarning")
@pytest.mark.parametrize("seed", range(16))
def test_all_three(small: Small, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(100 + seed)
    default = settings(rng, 2)
    given = arguments(rng, default)
    options = {"data": str(small.data), "profile": str(small / "p.yaml")}
    rules = [{"layer": "last", "keep-float": True}]
    (file := tmp_path / "drawn.yaml").write_text(
        yaml.safe_dump({"default": written(default), "rules": rules, "options": options})
    )
    command = by_command(small, file, given, capsys)
    assert by_python(small, file, given) == command
    out = tmp_path / "drawn.mlir"
    words = " ".join(f"{name}={value_text(value)}" for name, value in written(given).items())
    own = f"--quantize=profile={small / 'p.yaml'} policy={file} data={small / 'data.npy'} {words}"
    status = opt.main([str(small.onnx), "--simplify", "--insert-observers", own, "-o", str(out)])
    error = capsys.readouterr().err
    if status:
        assert last(error).endswith(command.removeprefix("error: "))
    else:
        assert without_record(text_of(out)) == without_record(command)


def test_a_file_says_where_a_network_ends_and_what_it_takes(small: Small, tmp_path: Path) -> None:
    options = {"data": str(small.data), "outputs": "active", "io": "int8"}
    (tmp_path / "drawn.yaml").write_text(yaml.safe_dump({"options": options}))
    signature = qmlir.compile(qmlir.quantize(small.onnx, policy=tmp_path / "drawn.yaml"), cache=False).signature
    assert [(each.name, each.dtype.name) for each in signature.outputs] == [("active", "int8")]
    assert [each.dtype.name for each in signature.inputs] == ["int8"]
