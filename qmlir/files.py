"""Writes files whole or not at all; notes which files are read.

Everything qmlir writes goes to a temporary file in the same folder, which is renamed when complete. An error or an
interrupt leaves the previous file. Files that belong together are renamed together, after all of them are complete.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path

from qmlir.errors import FileError, OptionError


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yields a temporary file beside `path` that replaces it if the block succeeds and is removed if not.

    A device or a pipe (`/dev/null`) is written to directly, because renaming a file over it would replace it. If
    `path` is a link, it stays a link and the file it points to is replaced.

    Raises:
        FileError: The file cannot be written.
    """
    place = path.resolve()
    direct = path.exists() and not path.is_file() and not path.is_dir()
    temporary = path if direct else place.with_name(f".{place.name}.{os.getpid()}")
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "a folder")
        yield temporary
        if not direct:
            temporary.replace(place)
    except OSError as error:
        raise FileError(path, "must be writable", got=error) from None
    finally:
        if not direct:
            temporary.unlink(missing_ok=True)


def require_folder(path: Path) -> None:
    """Checks that the folder of a file exists, so that long work for the file need not be done in vain.

    Raises:
        FileError: The file could not be written for lack of the folder.
    """
    if not path.resolve().parent.is_dir():
        raise FileError(path, "must be writable", got="no such file or directory", remedy="make its folder first")


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes one file; see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_together(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """Writes several files, all or none.

    Args:
        writers: For each file, the function that writes it, given the path to write to. List a file that refers to
            others first: it then gets its final name last.
    """
    with ExitStack() as stack:
        for path, write in writers.items():
            write(stack.enter_context(replacing(path)))


# ---------------------------------------------------------------------------------------------------------------
# Notes which files are read while a network is compiled, besides the model itself: side files, devices.


_NOTED: ContextVar[set[Path] | None] = ContextVar("noted", default=None)


@contextmanager
def noted_files() -> Generator[set[Path]]:
    """Yields the set of the files that are read inside the block and whose content decides about the result."""
    noted: set[Path] = set()
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


def note_file(path: Path) -> None:
    """Adds a file to the set of `noted_files`, if somebody asked for it."""
    if (noted := _NOTED.get()) is not None:
        noted.add(path)


def path_of(given: object, what: str = "path") -> Path:
    """Returns a path that a function was given as text or as a `Path`.

    Raises:
        OptionError: The argument is neither; `what` is the argument's name in the error.
    """
    if not isinstance(given, str | Path):
        raise OptionError(what, "must be text or a Path", got=f"{given!r} of type {type(given).__name__}")
    return Path(given)
