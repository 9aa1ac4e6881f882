"""Files of arrays: read within bounds, only as far as needed, and hostile ones with typed errors."""

import io
import os
import sys
import threading
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.errors import FileError
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.samples import arrays as arrays_module
from qmlir.samples.arrays import array_headers, read_arrays, read_rows
from qmlir.samples.files import Samples

SPEC = TensorSpec("x", (1024,), np.dtype(np.float32))
NETWORK = Signature((SPEC,), ())


@pytest.fixture(scope="module")
def gigabyte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An .npz file of a MB that stands for 2 GB, as its directory says: only the first 16 MB are there."""
    path = tmp_path_factory.mktemp("packed") / "big.npz"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (1 << 19, 1024)})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            file.write(head.getvalue())
            for number in range(1 << 4):
                file.write(np.full(1 << 18, number, np.float32).tobytes())
        archive.filelist[0].file_size = (1 << 31) + len(head.getvalue())
    return path


def test_samples_of_a_packed_file_take_no_more_memory_than_they_need(gigabyte: Path) -> None:
    tracemalloc.start()
    samples = Samples(gigabyte, NETWORK)
    assert len(samples) == 1 << 19
    found = [each["x"][0] for each in samples.first(600)]
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
    assert found == [number // 256 for number in range(600)]


def test_a_packed_array_that_is_read_whole_has_a_limit(gigabyte: Path) -> None:
    with pytest.raises(FileError, match=r'the array "x" must take at most 1073741824 bytes, got 2147483648 bytes pack'):
        read_arrays(gigabyte)


@pytest.mark.parametrize("chosen", [[0, 3, 4], [4, 0, 3, 0], range(2, 5), []])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [">f4", "?", "<i8"])
def test_rows_are_those_of_the_array(chosen: Any, save: Any, dtype: str, tmp_path: Path) -> None:
    array = (np.random.default_rng(0).random((5, 7)) * 4).astype(dtype)
    save(tmp_path / "a.npz", rows=array, columns=np.asfortranarray(array), one=array[0])
    np.save(tmp_path / "a.npy", array)
    for name in ("rows", "columns"):
        np.testing.assert_array_equal(list(read_rows(tmp_path / "a.npz", name, 5, chosen)) or array[:0], array[chosen])
    np.testing.assert_array_equal(list(read_rows(tmp_path / "a.npz", "one", 1, [0])), array[:1])
    np.testing.assert_array_equal(list(read_rows(tmp_path / "a.npy", "a", 5, chosen)) or array[:0], array[chosen])


def header(text: str, length: int | None = None) -> bytes:
    """The start of an .npy file."""
    return b"\x93NUMPY\x02\x00" + (len(text) if length is None else length).to_bytes(4, "little") + text.encode()


def described(descr: str, shape: str) -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n"


HOSTILE = {
    "objects": header(described("'|O'", "(1,)")) + bytes(64),
    "objects inside": header(described("[('a', '<f4'), ('b', '|O')]", "(1,)")) + bytes(64),
    "a header as long as it says": header("", 1 << 30),
    "an endless header": header(" " * 200_000),
    "more than the file": header(described("'<f4'", "(1000000000000,)")),
    "a negative size": header(described("'<f4'", "(-4, -1)")) + bytes(64),
    "a size beyond all numbers": header(described("'<f4'", "(0, 99999999999999999999)")) + bytes(64),
    "brackets": header("(" * 9000),
    "no magic": b"NUMPY" * 10,
    "a part": b"\x93NUM",
    "nothing": b"",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("packed", [False, True], ids=["npy", "npz"])
def test_hostile_headers(content: bytes, packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("x.npz" if packed else "x.npy")
    if packed:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", content)
    else:
        path.write_bytes(content)
    for read in (array_headers, read_arrays, lambda path: Samples(path, NETWORK)):
        with pytest.raises(FileError, match=r"must be an .npy or .npz file of plain arrays"):
            read(path)


def test_a_header_in_a_bomb_is_not_read_whole(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("x.npy", header("", 1 << 30) + bytes(1 << 26))
    tracemalloc.start()
    with pytest.raises(FileError):
        array_headers(tmp_path / "x.npz")
    assert tracemalloc.get_traced_memory()[1] < 4e6
    tracemalloc.stop()


def test_a_file_with_a_password(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.zeros((3, 1024), np.float32))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(FileError, match=r"must be an .npy or .npz file of plain arrays"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
@pytest.mark.parametrize("name", ["x.npz", "x.npy"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    said: list[str] = []

    def read() -> None:
        try:
            read_arrays(tmp_path / name)
        except FileError as error:
            said.append(str(error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(10)
    assert [text.rpartition("got ")[2] for text in said] == ["a device or a pipe"]


def test_rows_of_a_file_that_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((300, 1024), np.float32))
    whole = (tmp_path / "x.npz").read_bytes()
    samples = Samples(tmp_path / "x.npz", NETWORK)
    (tmp_path / "x.npz").write_bytes(whole.replace(b"\x00\x00\x80?" * 1024, b"\x00\x00\x00\x00" * 1024, 1))
    with pytest.raises(FileError, match="got something else, or a part of one"):
        list(samples)
    monkeypatch.setattr(arrays_module, "MOST_PACKED", 1000)
    assert next(iter(samples.first(1)))["x"].shape == (1024,)


def test_arrays_and_samples_in_many_files(tmp_path: Path) -> None:
    for number in range(4):
        np.savez(tmp_path / f"{number}.npz", x=np.full((number, 1024), number, np.float32))
    samples = Samples(tmp_path, NETWORK)
    assert [int(each["x"][0]) for each in samples] == [1, 2, 2, 3, 3, 3]
    assert [file.stem for file in samples.files] == ["1", "2", "2", "3", "3", "3"]
    assert [file.stem for file in samples.files[1:4]] == ["2", "2", "3"]
    assert [int(each["x"][0]) for each in samples.of([5, 0, 2, 1])] == [3, 1, 2, 2]
    assert [int(each["x"][0]) for each in Samples(tmp_path, NETWORK, 4).first(2)] == [1, 2]


def test_an_array_that_is_not_packed_and_not_all_there(gigabyte: Path, tmp_path: Path) -> None:
    data = bytearray(gigabyte.read_bytes())
    at = data.index(b"PK\x01\x02")
    data[8:10] = data[at + 10 : at + 12] = bytes(2)  # as if it were stored
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises(FileError, match="got something else, or a part of one"):
        read_arrays(tmp_path / "x.npz")
