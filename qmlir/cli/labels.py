"""Reads the classes of samples: from a file of labels, from the names of the samples' files, or from their folders."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from qmlir.errors import FileError, OptionError
from qmlir.numerics import Int64s
from qmlir.samples.arrays import ARRAYS, only_array, read_arrays
from qmlir.samples.files import Samples

NAMES, FOLDERS = "names", "folders"
"""Values of `--labels` that stand for the samples' own files: the number that starts a file's name, or the folder."""


def read_labels(source: str, samples: Samples, offset: int = 0) -> Int64s:
    """Returns the classes of the samples, in the order of `samples`.

    Args:
        source: A file, `names` or `folders`, as the help of `--labels` says.
        samples: The samples; a file without names has the classes of all that their path holds, in order.
        offset: Added to each class.

    Raises:
        FileError: The file has no class for a sample, or is not a file of classes.
        OptionError: The samples' files or folders have no classes.
    """
    path = Path(source)
    if source in (NAMES, FOLDERS) and not path.exists():
        found = [*(_starting_numbers(samples) if source == NAMES else _folders(samples))]
    elif path.suffix.partition(":")[0] in ARRAYS:
        found = _array(path, samples)
    else:
        found = _text(path, samples)
    _require_as_many(len(found), path, samples)
    return np.array(found, np.int64)[list(samples.chosen)] + offset


def _require_as_many(found: int, path: Path, samples: Samples) -> None:
    if found != len(samples.files):
        got, need = f"{found} for {len(samples.files)} samples", "must hold a class for each sample"
        raise FileError(path, need, got=got, remedy=f"name the files that lines are for, or give all of {samples.path}")


def _starting_numbers(samples: Samples) -> Iterator[int]:
    for file in samples.files:
        if (match := re.match("[0-9]{1,9}", file.name)) is None:
            need = "needs files whose names start with their class, such as 0017_cat.png"
            raise OptionError(f"--labels {NAMES}", need, got=str(file))
        yield int(match[0])


def _folders(samples: Samples) -> Iterator[int]:
    """Yields the number that a sample's folder is called; or the folder's place, if not all are called numbers."""
    folders = sorted({file.parent.name for file in samples.files})
    if samples.path in {file.parent for file in samples.files} or samples.path.is_file():
        need = "needs a folder of samples for each class"
        raise OptionError(f"--labels {FOLDERS}", need, got=f"samples in {samples.path} itself")
    numbered = all(re.fullmatch("[0-9]{1,9}", folder) for folder in folders)
    for file in samples.files:
        yield int(file.parent.name) if numbered else folders.index(file.parent.name)


def _array(path: Path, samples: Samples) -> list[int]:
    (header,) = only_array(path).values()
    if header.ndim < 1 or header.size != header.shape[0]:
        raise FileError(path, "must hold one class for each sample", got=f"an array {list(header.shape)}")
    _require_as_many(header.size, path, samples)
    (array,) = read_arrays(path).values()
    numbers = array.reshape(-1)
    if numbers.dtype.kind not in "iuf" or not np.array_equal(numbers, np.rint(numbers)):
        raise FileError(path, "must hold integers", got=f"an array of {numbers.dtype.name}")
    return [int(n) for n in numbers]


def _text(path: Path, samples: Samples) -> list[int]:
    """Returns the classes of a text file: by the names of the samples' files if its lines have names, else in order."""
    need = "must have a class on each line, or a file name and a class"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise FileError(path, need, got="something that is no text") from None
    except OSError as error:
        raise FileError(path, "must be readable", got=error) from None
    named: dict[str, int] = {}
    ordered: list[int] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = re.fullmatch(r"(?:(?P<name>.*\S)[\s,;]+)?(?P<label>[0-9]{1,9})", line.strip())
        if match is None or (match["name"] and ordered) or (not match["name"] and named):
            raise FileError(f"{path}:{number}", need, got=f'"{line}"')
        if match["name"]:
            named[match["name"].rstrip(",; ")] = int(match["label"])
        else:
            ordered.append(int(match["label"]))
    return [_named(path, named, file, samples.path) for file in samples.files] if named else ordered


def _named(path: Path, named: dict[str, int], file: Path, folder: Path) -> int:
    """Returns the class of a file by its name, with its folder or without, and with its suffix or without."""
    inside = file.relative_to(folder) if file.is_relative_to(folder) else Path(file.name)
    for name in (str(inside), file.name, file.stem):
        if name in named:
            return named[name]
    raise FileError(path, f'must have a line for the sample "{inside}"', got=f"lines for {len(named)} others")
