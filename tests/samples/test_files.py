"""Samples on disk: files, folders and raw binaries, as the inputs of a network."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.errors import FileError, InputError
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.samples.arrays import read_arrays
from qmlir.samples.files import Reading, Samples

Array = npt.NDArray[Any]


def network(*shape: int, dtype: str = "float32") -> Signature:
    return Signature((TensorSpec("x", shape, np.dtype(dtype)),), ())


def arrays(samples: Samples, name: str = "x") -> Array:
    found = [sample[name] for sample in samples]
    assert len(found) == len(samples)
    return np.stack(found)


DATA = np.random.default_rng(0).standard_normal((7, 3, 4)).astype(np.float32)


def test_a_folder_of_arrays_in_the_order_of_names(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", DATA[3:6])
    np.savez(tmp_path / "a.npz", anything=DATA[:3])
    np.save(tmp_path / "c.npy", DATA[6])
    (tmp_path / ".hidden").write_text("")
    np.testing.assert_array_equal(arrays(Samples(tmp_path, network(1, 3, 4)))[:, 0], DATA)
    np.testing.assert_array_equal(arrays(Samples(tmp_path, network(3, 4), limit=4)), DATA[:4])


def test_a_bound_batch_takes_as_many_elements(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DATA[:6])
    np.testing.assert_array_equal(arrays(Samples(tmp_path / "a.npy", network(2, 3, 4))), DATA[:6].reshape(3, 2, 3, 4))
    np.savez_compressed(tmp_path / "a.npz", x=DATA[:6])
    np.testing.assert_array_equal(arrays(Samples(tmp_path / "a.npz", network(2, 3, 4))), DATA[:6].reshape(3, 2, 3, 4))
    np.save(tmp_path / "a.npy", DATA)
    with pytest.raises(InputError, match=r"needs samples of float32\[2, 3, 4\], got an array float32\[7, 3, 4\]"):
        Samples(tmp_path / "a.npy", network(2, 3, 4))


def test_several_inputs(tmp_path: Path) -> None:
    signature = Signature((*network(3, 4).inputs, TensorSpec("y", (2,), np.dtype(np.int64))), ())
    for i in range(2):
        np.savez(tmp_path / f"{i}.npz", x=DATA[i], y=np.arange(2) + i)
    samples = Samples(tmp_path, signature)
    np.testing.assert_array_equal(arrays(samples), DATA[:2])
    np.testing.assert_array_equal(arrays(samples, "y"), [[0, 1], [1, 2]])
    (tmp_path / "0.bin").write_bytes(b"")
    with pytest.raises(FileError, match="can be read for a network of one input only, got x, y"):
        Samples(tmp_path / "0.bin", signature)


def test_a_large_file_is_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1 << 18, 3, 4), np.float32))
    samples = Samples(tmp_path / "a.npy", network(3, 4))
    assert len(samples) == 1 << 18
    assert isinstance(next(iter(samples))["x"], np.ndarray)


@pytest.mark.parametrize("dtype", [None, "uint8", ">f8"])
def test_raw_binaries(dtype: str | None, tmp_path: Path) -> None:
    stored = np.abs(DATA * 10).astype(dtype or "float32")
    (tmp_path / "a.bin").write_bytes(stored[:5].tobytes())
    (tmp_path / "b.raw").write_bytes(stored[5:].tobytes())
    reading = Reading(np.dtype(dtype) if dtype else None)
    found = arrays(Samples(tmp_path, network(1, 3, 4), reading=reading))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[:, 0], stored.astype(np.float32))


def test_arrays_that_no_input_takes_are_not_read(tmp_path: Path) -> None:
    samples, other = DATA[:, 0], np.full((7, 5000), 41.5, np.float32)
    np.savez(tmp_path / "s.npz", x=samples, other=other)
    np.savez(tmp_path / "t.npz", any=samples, other=other)
    for file in ("s.npz", "t.npz"):
        whole = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(whole.replace(other.tobytes(), bytes(other.nbytes)))  # whoever reads it fails
        with pytest.raises(FileError, match="something else, or a part of one"):
            read_arrays(tmp_path / file, ["other"])
        assert np.array_equal(arrays(Samples(tmp_path / file, network(4))), samples)
    assert np.array_equal(read_arrays(Path(f"{tmp_path}/t.npz:any"))["any"], samples)
