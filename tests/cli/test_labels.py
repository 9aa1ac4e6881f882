"""The classes of samples: lines of text, arrays, names of files, folders; and samples that are drawn."""

from pathlib import Path

import numpy as np
import pytest

from qmlir.cli.labels import read_labels
from qmlir.errors import FileError, OptionError
from qmlir.ir.signature import Signature, TensorSpec
from qmlir.samples.files import Samples

SIGNATURE = Signature((TensorSpec("x", (2,), np.dtype(np.float32)),), ())


@pytest.fixture
def named(tmp_path: Path) -> Samples:
    """Three samples whose files start with their classes."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("07_b.npy", "3_a.npy", "12 c.npy"):
        np.save(folder / name, np.zeros(2, np.float32))
    return Samples(folder, SIGNATURE)


@pytest.mark.parametrize(
    "text",
    [
        "7\n12\n3\n",
        "# file and class\n3_a.npy 3\n12 c.npy, 12\n07_b 7\n\n",
        "3_a.npy;3\n07_b.npy\t7\n12 c.npy 12\nother.npy 5\n",
    ],
)
def test_lines(named: Samples, tmp_path: Path, text: str) -> None:
    (tmp_path / "labels.txt").write_text(text)
    assert read_labels(str(tmp_path / "labels.txt"), named).tolist() == [7, 12, 3]
    assert read_labels(str(tmp_path / "labels.txt"), named.of([2, 0]), 1).tolist() == [4, 8]


def test_arrays_and_names(named: Samples, tmp_path: Path) -> None:
    np.save(tmp_path / "y.npy", np.array([[7], [12], [3]]))
    np.savez(tmp_path / "y.npz", y=np.array([7.0, 12.0, 3.0]), other=np.zeros(2))
    for source in (f"{tmp_path}/y.npy", f"{tmp_path}/y.npz:y", "names"):
        assert read_labels(source, named).tolist() == [7, 12, 3]


@pytest.mark.parametrize(("names", "classes"), [(("cat", "dog"), [0, 1, 1]), (("10", "9"), [10, 9, 9])])
def test_folders(names: tuple[str, str], classes: list[int], tmp_path: Path) -> None:
    for name, count in zip(names, (1, 2), strict=True):
        (tmp_path / "d" / name).mkdir(parents=True)
        for i in range(count):
            np.save(tmp_path / "d" / name / f"{i}.npy", np.full(2, i, np.float32))
    samples = Samples(tmp_path / "d", SIGNATURE)
    assert [sample["x"][0] for sample in samples] == [0, 0, 1]
    assert read_labels("folders", samples).tolist() == classes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("l.txt", "1\n2\n", "must hold a class for each sample, got 2 for 3 samples"),
        ("l.txt", "1\ncat\n", 'l.txt:2: must have a class on each line.*got "cat"'),
        ("l.txt", "1\na.npy 2\n", "l.txt:2: must have a class on each line"),
        ("l.txt", "3_a.npy 3\n", 'must have a line for the sample "07_b.npy", got lines for 1 others'),
        ("l.txt", b"\xff\xfe", "got something that is no text"),
        ("y.npy", np.zeros((3, 2)), r"must hold one class for each sample, got an array \[3, 2\]"),
        ("y.npy", np.array([0.5, 1, 2]), "must hold integers, got an array of float64"),
        ("none.txt", None, "must be readable, got no such file"),
    ],
)
def test_what_is_no_list_of_classes(named: Samples, tmp_path: Path, name: str, content: object, message: str) -> None:
    path = tmp_path / name
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    with pytest.raises(FileError, match=message):
        read_labels(str(path), named)


def test_files_and_folders_without_classes(named: Samples, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="--labels folders: needs a folder of samples for each class"):
        read_labels("folders", named)
    np.save(named.path / "x.npy", np.zeros(2, np.float32))
    with pytest.raises(OptionError, match=r"--labels names: needs files whose names start with their class.*x.npy"):
        read_labels("names", Samples(named.path, SIGNATURE))


def test_samples_are_drawn(tmp_path: Path) -> None:
    """Two parts, each sample in one of them; the same ones each time."""
    np.save(tmp_path / "a.npy", np.repeat(np.arange(20, dtype=np.float32)[:, None], 2, axis=1))
    samples = Samples(tmp_path / "a.npy", SIGNATURE)
    drawn, rest = samples.split(5)
    held = [[int(sample["x"][0]) for sample in part] for part in (drawn, rest)]
    assert (len(held[0]), sorted(held[0] + held[1]), held[1]) == (5, list(range(20)), sorted(held[1]))
    assert held[0] == [int(s["x"][0]) for s in Samples(tmp_path / "a.npy", SIGNATURE).split(5)[0]]
    assert held[0] != list(range(5))
    assert [int(s["x"][0]) for s in samples.first(3)] == [0, 1, 2]
