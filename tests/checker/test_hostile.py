"""Hostile certificates and artefacts end in a typed error, soon and in little memory, whatever their names lead to."""

import hashlib
import json
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from qmlir.backends.npu.stream import HEADER
from qmlir.checker import check
from qmlir.cli.main import main
from qmlir.errors import QmlirError
from tests.checker.certificates import CERTIFICATES, NAME, read
from tests.conformance.isolation import Died, isolated
from tests.conftest import THOROUGH

SECONDS, MEMORY = 20.0, 2 << 30

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CERTIFICATES["int8"](tmp_path_factory.mktemp("network"))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return CERTIFICATES["program"](tmp_path_factory.mktemp("program"))


def outcome(path: Path) -> str:
    """The typed error about a certificate, or `holds`."""
    try:
        check(path)
    except QmlirError as error:
        return str(error)
    return "holds"


def refused(path: Path) -> str:
    """The typed error about a certificate, which a process of its own finds within bounds of time and memory."""
    ((_, said),) = isolated(outcome, [path], seconds=SECONDS, memory=MEMORY, jobs=1)
    assert not isinstance(said, Died), said.why
    assert said != "holds"
    return said


def copied(original: Path, folder: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of a certificate with its artefact, and its content."""
    shutil.copytree(original.parent, folder, dirs_exist_ok=True)
    return folder / NAME, read(original)


def signed(path: Path, certificate: dict[str, Any], data: bytes, number: int = 0) -> Path:
    """The certificate with another file of its artefact, whose hash it has."""
    own = deepcopy(certificate)
    (path.parent / own["artefact"][number]["file"]).write_bytes(data)
    own["artefact"][number]["sha256"] = hashlib.sha256(data).hexdigest()
    path.write_text(json.dumps(own))
    return path


# ---------------------------------------------------------------------------------------------------------------
# Names of files


NAMES = (
    *("/dev/zero", "/dev/stdin", "/etc/passwd", "../net.integers.mlir", "..", ".", "", "a/../net.mlir", "a\0b"),
    *("sub/net.mlir", "\\\\server\\net", "x" * 5000, "net\n.mlir"),
)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", NAMES, ids=lambda name: repr(name[:20]))
def test_names_out_of_the_folder(name: str, place: int, network: Path, tmp_path: Path) -> None:
    path, certificate = copied(network, tmp_path)
    certificate["artefact"][place]["file"] = name
    path.write_text(json.dumps(certificate))
    said = outcome(path)
    assert (
        f"artefact[{place}].file has characters that it may not have, or too many" in said
        or "a link" in said
        or (name in (".", ".."))
    )
    assert said != "holds"


def _pipe(file: Path) -> None:
    os.mkfifo(file)


def _link_to(target: str) -> Callable[[Path], None]:
    return lambda file: file.symlink_to(target)


def _link_outside(file: Path) -> None:
    outside = file.parent.parent / "outside"
    outside.write_text("builtin.module {}")
    file.symlink_to(outside)


def _gigantic(file: Path) -> None:
    with file.open("wb") as out:
        out.truncate(1 << 40)


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (_pipe, "a device or a pipe"),
    "folder": (Path.mkdir, "a folder"),
    "device": (_link_to("/dev/zero"), "a link to a file of another folder"),
    "outside": (_link_outside, "a link to a file of another folder"),
    "itself": (lambda file: file.symlink_to(file.name), ""),
    "gigantic": (_gigantic, "1099511627776 bytes, and at most"),
    "missing": (lambda file: None, "no such file"),
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("place", [0, 1])
def test_files_that_are_no_plain_ones(kind: str, place: int, network: Path, tmp_path: Path) -> None:
    path, certificate = copied(network, tmp_path / "c")
    file = path.parent / certificate["artefact"][place]["file"]
    file.unlink()
    make, said = FILES[kind]
    make(file)
    found = refused(path)
    assert "must be the artefact of the certificate" in found
    assert said in found


def test_a_link_within_the_folder_is_followed(network: Path, tmp_path: Path) -> None:
    path, certificate = copied(network, tmp_path / "c")
    file = path.parent / certificate["artefact"][0]["file"]
    file.rename(path.parent / "stored.mlir")
    file.symlink_to("stored.mlir")
    assert outcome(path) == "holds"


@pytest.mark.parametrize("kind", ["pipe", "folder", "gigantic", "missing"])
def test_certificates_that_are_no_plain_files(kind: str, tmp_path: Path) -> None:
    make, said = FILES[kind]
    make(tmp_path / NAME)
    found = refused(tmp_path / NAME)
    assert "must be a certificate" in found
    assert said in found


def test_devices_in_place_of_files(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    assert "a device or a pipe" in refused(tmp_path / "zero.json")
    assert main(["certify", "--check", str(tmp_path / "zero.json")]) == 1
    assert main(["certify", "/dev/zero", "--check", str(network)]) == 1
    assert capsys.readouterr().err.count("a device or a pipe") == 2


# ---------------------------------------------------------------------------------------------------------------
# JSON


TEXTS = {
    "nested": (100_000 * "[" + 100_000 * "]", "nested too deeply"),
    "nested objects": (5000 * '{"a":' + "1" + 5000 * "}", "nested too deeply"),
    "many lists": ("[" + "[]," * 2_000_000 + "[]]", "too many values"),
    "many numbers": ("[" + "1," * 20_000_000 + "1]", "too many values"),
    "a key twice": (
        '{"format": "qmlir-certificate-1", "about": "network", "about": "object"}',
        'the key "about" twice',
    ),
    "not a number": ('{"format": NaN}', "the number NaN"),
    "infinity": ('{"format": -Infinity}', "the number -Infinity"),
    "overflow": ('{"format": 1e9999999}', "the number 1e9999999"),
    "digits": ('{"format": ' + 100_000 * "9" + "}", "a number of 100000 digits"),
    "no text": ("\udcff\udcfe", "not UTF-8"),
    "a string": ('"' + 1_000_000 * "x" + '"', "something else"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_json(kind: str, tmp_path: Path) -> None:
    text, said = TEXTS[kind]
    (tmp_path / NAME).write_bytes(text.encode(errors="surrogateescape"))
    found = refused(tmp_path / NAME)
    assert "must be a certificate" in found
    assert said in found


VALUES = ("1e9999999", "1/3", "1" + 5000 * "0" + "/3", "NaN", None, True, [1.0], {}, 1e300, -1e300, 5e-324, 0, -1.0)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:20])
def test_factors(value: Any, network: Path, tmp_path: Path) -> None:
    path, certificate = copied(network, tmp_path)
    each = next(e for e in certificate["operations"] if "requantization" in e)
    each["requantization"]["factors"] = [value]
    path.write_text(json.dumps(certificate))
    assert "requantization" in refused(path)


# ---------------------------------------------------------------------------------------------------------------
# Modules


def function(body: str, argument: str, result: str) -> bytes:
    return f"func.func @main(%x: {argument}) -> {result} {{\n{body}\n  func.return %y : {result}\n}}\n".encode()


MOVES = "".join(
    f"  %{n + 1} = nn.reshape %{n} {{shape = array<i64: 4>}} : tensor<4xf32> -> tensor<4xf32>\n" for n in range(600)
)
STORED = "!quant.uniform<i8:f32, {}>"

MODULES = {
    "a gigantic shape": function(
        "  %y = qint.max_pool2d %x {window = array<i64: 2, 2>} : tensor<1x4000000000x4000000000x1xi8> "
        "-> tensor<1x3999999999x3999999999x1xi8>",
        "tensor<1x4000000000x4000000000x1xi8>",
        "tensor<1x3999999999x3999999999x1xi8>",
    ),
    "a long image": function(
        "  %y = qint.average_pool2d %x {window = array<i64: 2, 1>} : tensor<1x900000000x1x1xi8> "
        "-> tensor<1x899999999x1x1xi8>",
        "tensor<1x900000000x1x1xi8>",
        "tensor<1x899999999x1x1xi8>",
    ),
    "gigantic padding": function(
        "  %y = qint.max_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 4000000000, 0, 0, 0>} : "
        "tensor<1x4x4x1xi8> -> tensor<1x4000000003x3x1xi8>",
        "tensor<1x4x4x1xi8>",
        "tensor<1x4000000003x3x1xi8>",
    ),
    "gigantic shifts": function(
        "  %y = qint.requantize %x {input_zero_point = 0 : i32, multiplier = array<i32: 1073741824>, "
        'shift = array<i32: -2147483648>, contract = "single", min = -128 : i32, max = 127 : i32} '
        ": tensor<1x3xi32> -> tensor<1x3xi8>",
        "tensor<1x3xi32>",
        "tensor<1x3xi8>",
    ),
    "more constants than bytes": function(
        '  %y = nn.constant <tensor<1000000x1000000xi8>, "net.integers.safetensors#w"> : tensor<1000000x1000000xi8>',
        "tensor<1xi8>",
        "tensor<1000000x1000000xi8>",
    ),
    "weights outside": function(
        '  %y = nn.constant <tensor<100xi8>, "/etc/passwd#w"> : tensor<100xi8>', "tensor<1xi8>", "tensor<100xi8>"
    ),
    "weights above": function(
        '  %y = nn.constant <tensor<100xi8>, "../w.safetensors#w"> : tensor<100xi8>', "tensor<1xi8>", "tensor<100xi8>"
    ),
    "weights of a device": function(
        '  %y = nn.constant <tensor<100xi8>, "/dev/zero#w"> : tensor<100xi8>', "tensor<1xi8>", "tensor<100xi8>"
    ),
    "a long chain": function(
        f"  %q = quant.scast %x : tensor<4xi8> to tensor<4x{STORED.format(0.5)}>\n"
        f"  %0 = quant.dcast %q : tensor<4x{STORED.format(0.5)}> to tensor<4xf32>\n{MOVES}"
        "  %y = nn.reshape %600 {shape = array<i64: 4>} : tensor<4xf32> -> tensor<4xf32>",
        "tensor<4xi8>",
        "tensor<4xf32>",
    ),
    **{
        f"a scale of {scale}": function(
            f"  %y = quant.qcast %x : tensor<4xf32> to tensor<4x{STORED.format(scale)}>",
            "tensor<4xf32>",
            f"tensor<4x{STORED.format(scale)}>",
        )
        for scale in ("0x7FF0000000000000", "0x7FF8000000000000", "1.0e400", "-1.0", "0.0")
    },
    "deep text": 50_000 * b"(",
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("kind", MODULES)
def test_modules(kind: str, network: Path, tmp_path: Path) -> None:
    path, certificate = copied(network, tmp_path)
    refused(signed(path, certificate, MODULES[kind]))


def test_a_header_of_weights_that_never_ends(network: Path, tmp_path: Path) -> None:
    path, certificate = copied(network, tmp_path)
    for header in (b"\xff" * 8 + b"{}", (1 << 30).to_bytes(8, "little") + bytes(100), b"", b"{}"):
        assert "must be a safetensors file" in refused(signed(path, certificate, header, 1))


# ---------------------------------------------------------------------------------------------------------------
# Programs


def rebuilt(data: bytes, text: dict[str, Any], words: list[int]) -> bytes:
    """A program with another text and other commands, whose sizes and checksum fit."""
    magic, version, text_size, count, data_size = HEADER.unpack_from(data)
    own = json.dumps(text).encode()
    own += b" " * (-len(own) % 4)
    start = HEADER.size + text_size + 4 * count
    body = HEADER.pack(magic, version, len(own), len(words), data_size) + own + struct.pack(f"<{len(words)}I", *words)
    body += data[start : start + data_size]
    return body + zlib.crc32(body).to_bytes(4, "little")


def parts(data: bytes) -> tuple[dict[str, Any], list[int]]:
    """The text and the commands of a program."""
    _, _, text_size, count, _ = HEADER.unpack_from(data)
    start = HEADER.size + text_size
    return json.loads(data[HEADER.size : start]), list(struct.unpack_from(f"<{count}I", data, start))


def commands(words: list[int]) -> list[tuple[int, int]]:
    """The place and the number of words of each command."""
    found, at = list[tuple[int, int]](), 0
    while at < len(words):
        found.append((at, words[at] >> 8 & 0xFF))
        at += found[-1][1]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("value", [0, 1 << 20, 1 << 24, (1 << 31) - 1, (1 << 32) - 1] if THOROUGH else [1 << 30])
def test_words_of_commands(value: int, program: Path, tmp_path: Path) -> None:
    """Each word of each kind of command becomes extreme, in memories that are as large as they can be."""
    path, certificate = copied(program, tmp_path)
    data = (program.parent / "net.npu").read_bytes()
    text, words = parts(data)
    for key in text["device"]:
        if key.startswith("memory.") and key.endswith(".bytes"):
            text["device"][key] = 1 << 28
    met, cases = set[int](), list[Path]()
    for start, size in commands(words):
        if (kind := words[start] & 0xFF) in met:
            continue
        met.add(kind)
        for at in range(start + 1, start + size):
            folder = tmp_path / str(len(cases))
            folder.mkdir()
            for file in path.parent.glob("net.*"):
                shutil.copy(file, folder)
            changed = rebuilt(data, text, [*words[:at], value, *words[at + 1 :]])
            cases.append(signed(folder / NAME, certificate, changed))
    for index, said in isolated(outcome, cases, seconds=SECONDS, memory=MEMORY, jobs=2):
        assert not isinstance(said, Died), f"{cases[index]}: {said.why}"


KEYS: dict[str, Any] = {
    "memory.0.bytes": 1 << 60,
    "array.modes.0.acc": "i999999999",
    "layout.weights.n": 0,
    "layout.weights.k": 1 << 60,
    "name": None,
}


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_devices(key: str, program: Path, tmp_path: Path) -> None:
    path, certificate = copied(program, tmp_path)
    text, words = parts((program.parent / "net.npu").read_bytes())
    text["device"][key] = KEYS[key]
    changed = rebuilt((program.parent / "net.npu").read_bytes(), text, words)
    ((_, said),) = isolated(outcome, [signed(path, certificate, changed)], seconds=SECONDS, memory=MEMORY, jobs=1)
    assert not isinstance(said, Died), said.why
