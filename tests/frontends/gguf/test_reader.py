"""GGUF files that are damaged, of another version, or of types that qmlir lacks: typed errors, at once."""

import struct
from pathlib import Path
from time import process_time

import numpy as np
import pytest

import qmlir
from qmlir.errors import FileError, QmlirError
from qmlir.frontends.gguf.reader import read_file
from tests.conftest import THOROUGH
from tests.frontends.gguf.files import file_of, parts, text, tiny, value

SMALL = {"general.architecture": "llama", "general.flags": [1, 2, 3], "tokenizer.ggml.tokens": ["a", "bc"]}
TENSOR = {"t": ("Q4_0", (2, 64), b"\0" * 72)}


def refused(folder: Path, data: bytes, need: str) -> None:
    (folder / "model.gguf").write_bytes(data)
    with pytest.raises(FileError, match=need):
        qmlir.load(folder / "model.gguf")


@pytest.mark.parametrize("version", [2, 3])
def test_what_a_file_says(version: int, tmp_path: Path) -> None:
    metadata = {**SMALL, "a": True, "b": 2.5, "c": -7, "general.alignment": 64}
    (tmp_path / "model.gguf").write_bytes(file_of(metadata, TENSOR, version))
    file = read_file(tmp_path / "model.gguf")
    assert {k: file.metadata[k] for k in "abc"} == {"a": True, "b": 2.5, "c": -7}
    assert file.metadata["a"] is True
    assert np.array_equal(file.metadata["general.flags"], [1, 2, 3])  # type: ignore[arg-type]
    assert file.metadata["tokenizer.ggml.tokens"] is None
    assert (file.tensors["t"].shape, file.tensors["t"].start % 64, file.tensors["t"].bytes) == ((2, 64), 0, 72)


GOOD = file_of(SMALL, TENSOR)
HUGE = struct.pack("<Q", 1 << 60)


def head(tensors: int, pairs: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


CASES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "must be a GGUF file, got other bytes at its start"),
    "other": (b"GGML" + GOOD[4:], "must be a GGUF file, got other bytes"),
    "short": (b"GGUF", "must hold a number at byte 4, 4 bytes, got 0 more"),
    "version 1": (
        b"GGUF\1\0\0\0" + GOOD[8:],
        "version 2 or 3 with little-endian numbers, got version 1; convert the model again",
    ),
    "big-endian": (b"GGUF\0\0\0\3" + GOOD[8:], "got big-endian numbers"),
    "2^60 tensors": (GOOD[:8] + HUGE + GOOD[16:], "as many tensors as it says, got 1152921504606846976 in"),
    "2^60 keys": (GOOD[:16] + HUGE + GOOD[24:], "as many metadata keys as it says"),
    "2^60 bytes of a key": (GOOD[:24] + HUGE + GOOD[32:], "as many bytes of a text as it says"),
    "2^60 numbers": (head(0, 1) + text("k") + struct.pack("<II", 9, 4) + HUGE, 'as many numbers of "k" as it says'),
    "2^60 texts": (head(0, 1) + text("k") + struct.pack("<II", 9, 8) + HUGE, 'as many texts of "k" as it says'),
    "a long text": (head(0, 1) + text("k") + struct.pack("<IIQ", 9, 8, 1) + HUGE, 'must hold the texts of "k"'),
    "lists of lists": (head(0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 0) + b"\0" * 8, "got type 9"),
    "type of a value": (head(0, 1) + text("k") + struct.pack("<I", 99) + b"\0" * 8, '"k" must be numbers, texts'),
    "no UTF-8": (head(0, 1) + struct.pack("<Q", 2) + b"\xff\xff" + value(1), "must have a metadata key in UTF-8"),
    "a key twice": (head(0, 2) + 2 * (text("k") + value(1)), 'different metadata keys, got "k" twice'),
    "no dimensions": (head(1, 0) + text("t") + b"\0" * 40, '"t" must have 1 to 4 dimensions, got 0'),
    "no elements": (head(1, 0) + text("t") + struct.pack("<IQIQ", 1, 0, 0, 0) + b"\0" * 32, "shape that fits a memory"),
    "2^120 elements": (head(1, 0) + text("t") + struct.pack("<I", 2) + 2 * HUGE + b"\0" * 32, "fits a memory"),
    "a type": (head(1, 0) + text("t") + struct.pack("<IQIQ", 1, 32, 23, 0) + b"\0" * 32, r"got type 23 \(IQ4_XS\)"),
    "no type": (head(1, 0) + text("t") + struct.pack("<IQIQ", 1, 32, 77, 0) + b"\0" * 32, "got type 77; quantize"),
    "a part of a block": (
        head(1, 0) + text("t") + struct.pack("<IQIQ", 1, 33, 2, 0) + b"\0" * 32,
        'rows of "t" must be whole blocks of 32, got 33 values',
    ),
    "a tensor twice": (
        head(2, 0) + 2 * (text("t") + struct.pack("<IQIQ", 1, 1, 0, 0)) + b"\0" * 64,
        'must have different tensors, got "t" twice',
    ),
    "an odd place": (
        head(1, 0) + text("t") + struct.pack("<IQIQ", 1, 1, 0, 5) + b"\0" * 64,
        '"t" must begin at a multiple of 32, got 5',
    ),
    "a place behind the end": (
        head(1, 0) + text("t") + struct.pack("<IQIQ", 1, 1, 0, 1 << 40) + b"\0" * 64,
        'bytes up to the end of "t"',
    ),
    "alignment": (file_of({"general.alignment": 12}, {}), "general.alignment must be a multiple of 8, got 12"),
    "no architecture": (file_of({}, {}), "general.architecture must be of the Llama family"),
    "cut off": (GOOD[:-25], r'must hold the \d+ bytes up to the end of "t"'),
}


@pytest.mark.parametrize("name", CASES)
def test_damaged_files(name: str, tmp_path: Path) -> None:
    refused(tmp_path, *CASES[name])


def test_every_cut_is_refused(tmp_path: Path) -> None:
    whole = tiny(layers=1, vocabulary=2)
    header = len(whole) - sum(len(data) for *_, data in parts(layers=1, vocabulary=2)[1].values())
    for end in range(0, header, 1 if THOROUGH else 13):
        refused(tmp_path, whole[:end], "model.gguf: ")


def test_random_damage_is_refused_or_read(tmp_path: Path) -> None:
    """Changed bytes of the header give a network or a typed error, and take no long time."""
    whole, path = tiny(layers=1, vocabulary=2), tmp_path / "model.gguf"
    header = len(whole) - sum(len(data) for *_, data in parts(layers=1, vocabulary=2)[1].values())
    rng, results, begun = np.random.default_rng(0), set[bool](), process_time()
    for _ in range(3000 if THOROUGH else 150):
        data = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            at = rng.integers(0, header)
            data[at] = rng.choice(np.array([0, 1, 127, 128, 255, rng.integers(256)]))
        path.write_bytes(data)
        try:
            qmlir.load(path, bind={"context": 4})
        except QmlirError:
            results.add(False)
        else:
            results.add(True)
    assert results == {True, False}
    assert process_time() - begun < (200 if THOROUGH else 20)
