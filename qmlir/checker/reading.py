"""Files from strangers, read within bounds: plain files of a limited size, and JSON of a limited depth and length.

Whoever writes a certificate chooses the names in it. A name may lead to a device that never ends, to a pipe that nobody
writes to, to a file outside the folder, or to one of a terabyte. So a file is opened without waiting, and the opened
file must be a plain one of a size within the limit; a name in a certificate is that of a file in the same folder.
"""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qmlir.errors import FileError, printable

MIB = 1 << 20

MOST_CERTIFICATE, MOST_TEXT, MOST_WEIGHTS = 64 * MIB, 32 * MIB, 1024 * MIB
MOST_PROGRAM, MOST_OBJECT = 256 * MIB, 64 * MIB
"""The most bytes of a certificate, of a module's text, of a side file, of a program and of an object file."""

MOST_LISTS, MOST_VALUES, MOST_DIGITS, DEEPEST = 1 << 20, 1 << 22, 40, 16
"""The most lists and objects of a document in JSON, the most values, the most digits of a number, and its depth."""

NEED = "must be a plain file that can be read"

_WITHOUT_WAITING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class _NotPlainError(Exception):
    """Raised for a file that is not read; the text says why."""


def read_plain(path: Path, most: int, need: str = NEED) -> bytes:
    """Reads a file that a user named; links are followed.

    Raises:
        FileError: It is no plain file, cannot be read, or has more than `most` bytes.
    """
    try:
        return _contents(os.open(path, _WITHOUT_WAITING), most)
    except OSError as error:
        raise FileError(path, need, got=error) from None
    except ValueError as error:  # a name with a null character
        raise FileError(printable(str(path)), need, got=str(error)) from None
    except _NotPlainError as why:
        raise FileError(path, need, got=str(why)) from None


def read_beside(folder: Path, name: str, most: int, need: str = NEED) -> bytes:
    """Reads a file that a certificate or a module names; it has to lie in the folder itself.

    A link counts as what it leads to, so a link to another file of the folder is followed and all others are not.

    Raises:
        FileError: The name has a folder in it, leads out of the folder, or the file is refused by `read_plain`.
    """
    remedy = "copy the file beside the certificate"
    if not is_plain_name(name):
        raise FileError(printable(name), need, got="a name with a folder in it", remedy=remedy)
    path = folder / name
    try:
        place = path.resolve(strict=True)
        if place.parent != folder.resolve(strict=True):
            raise FileError(path, need, got="a link to a file of another folder", remedy=remedy)
        return _contents(os.open(place, _WITHOUT_WAITING | getattr(os, "O_NOFOLLOW", 0)), most)
    except (OSError, RuntimeError) as error:  # a RuntimeError for links that lead to each other, until Python 3.13
        raise FileError(path, need, got=error if isinstance(error, OSError) else str(error)) from None
    except _NotPlainError as why:
        raise FileError(path, need, got=str(why)) from None


def is_plain_name(name: str) -> bool:
    """Whether a name is that of a file in a folder: without separators and drives, and not the folder itself."""
    return name not in ("", ".", "..") and len(name) <= 255 and not set(name) & set("/\\\0") and Path(name).name == name


def _contents(descriptor: int, most: int) -> bytes:
    """The bytes of an opened file, which this closes."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise _NotPlainError("a folder" if stat.S_ISDIR(found.st_mode) else "a device or a pipe")
    with open(descriptor, "rb") as file:
        if found.st_size > most:
            raise _NotPlainError(f"{found.st_size} bytes, and at most {most} are read")
        data = file.read(found.st_size + 1)
        if len(data) != found.st_size:
            raise _NotPlainError("a file that changes while it is read")
        return data


# ---------------------------------------------------------------------------------------------------------------
# JSON


def parse_json(data: bytes) -> Any:
    """The value of a text in JSON, whose objects have distinct keys and whose numbers are finite and short.

    Raises:
        ValueError: The text is no such JSON; the error's text says why.
    """
    if data.count(b"[") + data.count(b"{") > MOST_LISTS or data.count(b",") > MOST_VALUES:
        raise ValueError("JSON of too many values")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8") from None
    try:
        found = json.loads(
            text, object_pairs_hook=_distinct, parse_constant=_no_number, parse_int=_integer, parse_float=_real
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"something that is no JSON (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    _require_shallow(found)
    return found


def _require_shallow(found: Any) -> None:
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        if not level:
            return
        level = [
            each
            for value in level
            if isinstance(value, list | dict)
            for each in (value.values() if isinstance(value, dict) else value)  # pyright: ignore[reportUnknownVariableType]
            if isinstance(each, list | dict)
        ]
    if level:
        raise ValueError("JSON that is nested too deeply")


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        met = set[str]()
        twice = next(name for name, _ in pairs if name in met or met.add(name))
        raise ValueError(f'the key "{printable(twice, longest=80)}" twice')
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"the number {text}")


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _real(text: str) -> float:
    found = float(text) if len(text) <= 2 * MOST_DIGITS else float("inf")
    if found in (float("inf"), -float("inf")):
        raise ValueError(f"the number {printable(text, longest=80)}")
    return found
