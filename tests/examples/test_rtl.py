"""The Verilog unit computes what golden vectors say, and a mistake in it, or in them, is the error of the command."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import qmlir
from tests.reader import Reader

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("cocotb") is None, reason="needs cocotb: pip install 'qmlir[rtl]'"),
]
PROGRAMS = {"icarus": "iverilog", "verilator": "verilator"}
needs_icarus = pytest.mark.skipif(shutil.which("iverilog") is None, reason="needs Icarus: apt-get install iverilog")


def bench(root: Path, vectors: Path, build: Path, simulator: str = "icarus", unit: Path | None = None) -> str:
    """Runs the bench; returns its answer, which is an error if the bench fails."""
    source = root / "examples" / "rtl"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", source / "run.py", vectors, "--simulator", simulator, "--build", build,
         "--unit", unit or source / "unit.v"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    answer = done.stdout.strip().splitlines()[-1]
    assert done.returncode == answer.startswith("error"), done.stdout + done.stderr
    return answer


def write_network(path: Path) -> None:
    """A convolution with strides to two groups of eight channels, a relu by itself, and layers of many terms."""
    rng = np.random.default_rng(7)
    shapes = {"first": (12, 3, 3, 3), "offset": (12,), "second": (5, 15, 3, 3), "last": (4, 100)}
    weights = {name: (rng.standard_normal(shape) / 6).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "first", "offset"], ["a"], "strided", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("MaxPool", ["x"], ["c"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["d"], "alone"),
        helper.make_node("Concat", ["b", "d"], ["e"], "concat", axis=1),
        helper.make_node("Conv", ["e", "second"], ["f"], "padded", pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["f"], ["g"], "flatten"),
        helper.make_node("Gemm", ["g", "last"], ["y"], "dense", transB=1),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 3, 8, 10]), ("y", [1, 4]))]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """Vectors of a network on small memories, so that sums are added up in several tiles; the data saturates."""
    folder = tmp_path_factory.mktemp("rtl")
    write_network(folder / "net.onnx")
    samples = np.random.default_rng(8).standard_normal((5, 1, 3, 8, 10)).astype(np.float32)
    changes = {"memory.data.bytes": 4096, "memory.weights.bytes": 1024, "fallback.setup": 100_000}
    device = qmlir.load_device(root / "examples" / "rtl" / "array8.toml").with_(changes)
    q = qmlir.quantize(folder / "net.onnx", data=list(samples[:4]), target=device, measure=False)
    qmlir.compile(q, target=device).write_vectors(4 * samples[4], folder / "vectors")
    return folder / "vectors"


def test_the_vectors_have_each_kind_of_command(vectors: Path) -> None:
    """What the unit's registers say differs from command to command, so that a register that is not read is seen."""
    commands = json.loads((vectors / "index.json").read_text(encoding="utf-8"))["commands"]
    sums = [c["fields"] for c in commands if c["mnemonic"] == "convolve"]
    assert {f["init"] for f in sums} == {1, 2}
    assert {f["stride_rows"] for f in sums} == {1, 2}
    assert max(f["out_channels"] for f in sums) == 8
    posts = [(c["fields"], commands[c["context"]]["fields"]) for c in commands if c["mnemonic"] == "post"]
    assert {fields["source_bits"] for fields, _ in posts} == {8, 32}
    assert {context["per_channel"] for _, context in posts} == {0, 1}
    assert any(context["input_zero_point"] for _, context in posts)


@pytest.mark.parametrize("simulator", PROGRAMS)
def test_the_unit_computes_what_vectors_say(simulator: str, root: Path, vectors: Path, tmp_path: Path) -> None:
    if shutil.which(PROGRAMS[simulator]) is None:
        pytest.skip(f"needs {PROGRAMS[simulator]}: apt-get install {PROGRAMS[simulator]}")
    assert re.fullmatch(r"\d+ of \d+ commands computed by the unit", bench(root, vectors, tmp_path / "b", simulator))


@needs_icarus
def test_the_page(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    page = (root / "examples" / "rtl" / "README.md").read_text("utf-8")
    lines = [line for line in page.splitlines(keepends=True) if not line.startswith("pip ")]
    reader = Reader(root, capsys)
    reader.follow("".join(lines))
    assert reader.checked == 1
    unit = root / "examples" / "rtl" / "unit.v"
    Path("unit.v").write_text(unit.read_text("utf-8").replace("(bits - 1)", "bits"), encoding="utf-8")
    answer = bench(root, Path("vectors"), Path("mistaken"), unit=Path("unit.v"))
    for shown in (page, (root / "docs" / "devices" / "vectors.md").read_text("utf-8")):
        assert f"\n{answer}\n" in shown
    assert all(shlex.split(line)[0] in ("qmlir", "python") for line in lines if line.startswith(("qmlir", "python")))


MISTAKES = {
    "no rounding": ("if (bits != 0) scaled", "if (0) scaled", "post"),
    "no bias": ("r[INIT] == BIAS_FIRST", "r[INIT] == 3", "convolve"),
    "the data's zero point": ("+ channel]) - r[ZERO_POINT]", "+ channel])", "convolve"),
    "a row of padding too few": ("- r[TOP];", ";", "convolve"),
    "weights by columns": ("64 * tile + 8 * n + k", "64 * tile + 8 * k + n", "convolve"),
    "one factor for all channels": ("r[PER_CHANNEL] != 0 ?", "0 ?", "post"),
    "no upper bound": ("x > r[UPPER] ? r[UPPER] : x", "x", "post"),
    "sums from the beginning": ("r[INIT] == ACCUMULATE", "r[INIT] == 3", "convolve"),
}
"""What is wrong with the unit: a text of unit.v, the text in its place, and the kind of command that fails."""


@needs_icarus
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_unit_is_the_command_s(mistake: str, root: Path, vectors: Path, tmp_path: Path) -> None:
    right, wrong, kind = MISTAKES[mistake]
    text = (root / "examples" / "rtl" / "unit.v").read_text(encoding="utf-8")
    assert text.count(right) == 1
    (tmp_path / "unit.v").write_text(text.replace(right, wrong), encoding="utf-8")
    answer = bench(root, vectors, tmp_path / "b", unit=tmp_path / "unit.v")
    assert re.match(rf"error: command \d+ {kind} of layer \S+: writes \d+ bytes that differ: byte 0x", answer), answer


def first(vectors: Path, kind: str) -> tuple[dict, dict]:
    """The index, and the first command of a kind."""
    index = json.loads((vectors / "index.json").read_text(encoding="utf-8"))
    return index, next(command for command in index["commands"] if command["mnemonic"] == kind)


def damage_file(vectors: Path) -> str:
    """Changes a byte of what a command leaves."""
    _, command = first(vectors, "post")
    file = vectors / command["after"][0]["path"]
    lines = file.read_text().splitlines()
    lines[1] = f"{int(lines[1][:2], 16) ^ 1:02x}{lines[1][2:]}"
    file.write_text("\n".join(lines))
    return rf"command {command['number']} post of layer \S+: \S+ has the checksum \w+, not \w+"


def damage_file_and_checksum(vectors: Path) -> str:
    """Changes a byte of what a command leaves, and the checksum with it."""
    damage_file(vectors)
    index, command = first(vectors, "post")
    text = (vectors / command["after"][0]["path"]).read_text()
    held = bytes(int(word, 16) for word in text.split() if word[0] != "@")
    command["after"][0]["crc32"] = f"{zlib.crc32(held):08x}"
    (vectors / "index.json").write_text(json.dumps(index))
    return rf"command {command['number']} post of layer \S+: writes 1 bytes that differ"


def damage_checksum(vectors: Path) -> str:
    """Changes a checksum of what a command needs."""
    index, command = first(vectors, "convolve")
    command["before"][0]["crc32"] = "00000000"
    (vectors / "index.json").write_text(json.dumps(index))
    return rf"command {command['number']} convolve of layer \S+: \S+ has the checksum \w+, not 00000000"


def lose_a_line(vectors: Path) -> str:
    """Loses the end of what a command needs, and makes the checksum fit."""
    index, command = first(vectors, "convolve")
    entry = command["before"][-1]
    file = vectors / entry["path"]
    lines = file.read_text().splitlines()[:-1]
    file.write_text("\n".join(lines))
    held = bytes(int(word, 16) for word in " ".join(lines).split() if word[0] != "@")
    entry["crc32"] = f"{zlib.crc32(held):08x}"
    (vectors / "index.json").write_text(json.dumps(index))
    return rf"command {command['number']} convolve of layer \S+: \S+ has the size \d+, not \d+"


def change_a_field(vectors: Path) -> str:
    """Changes the number of output columns of a convolution."""
    index, command = first(vectors, "convolve")
    command["fields"]["out_columns"] -= 1
    (vectors / "index.json").write_text(json.dumps(index))
    return rf"command {command['number']} convolve of layer \S+: writes \d+ bytes"


@needs_icarus
@pytest.mark.parametrize(
    "damage", [damage_file, damage_file_and_checksum, damage_checksum, lose_a_line, change_a_field]
)
def test_damaged_vectors_are_the_command_s(
    damage: Callable[[Path], str], root: Path, vectors: Path, tmp_path: Path
) -> None:
    shutil.copytree(vectors, tmp_path / "vectors")
    said = damage(tmp_path / "vectors")
    assert re.match(f"error: {said}", answer := bench(root, tmp_path / "vectors", tmp_path / "b")), answer


def test_the_unit_is_small(root: Path) -> None:
    assert len((root / "examples" / "rtl" / "unit.v").read_text().splitlines()) <= 300
