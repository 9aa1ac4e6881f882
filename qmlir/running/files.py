"""Writes files whole or not at all, and sets of files all or none; notes which files are read.

Everything qmlir writes goes to a temporary file in the same folder, which is renamed when complete. An error or an
interrupt leaves the previous file. Files that belong together, such as a module and its weights, form a set: the files
are renamed together, after all of them are complete. If a rename fails, the previous files come back. If the process is
killed between two renames, a journal in the folder says which files were replaced, and the next process that reads or
writes there brings the previous files back. A folder is locked while files of a set are renamed in it, so that two
processes that write the same set leave the set of one of them.
"""

import json
import os
import secrets
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from qmlir.errors import FileError, OptionError

try:
    import fcntl
except ImportError:  # on Windows, where a folder cannot be locked
    fcntl = None

# ---------------------------------------------------------------------------------------------------------------
# What callers write with.


_STAGED: ContextVar[dict[Path, Path] | None] = ContextVar("staged", default=None)
"""Of the set that is being written, the temporary file of each complete file; None outside a set."""


@contextmanager
def together() -> Generator[None]:
    """Makes the files that are written within the block a set: all of them appear at its end, or none.

    A block within another one belongs to the outer set.

    Raises:
        FileError: A file cannot be replaced.
    """
    if _STAGED.get() is not None:
        yield
        return
    staged: dict[Path, Path] = {}
    token = _STAGED.set(staged)
    try:
        try:
            yield
        finally:
            _STAGED.reset(token)
        _replace_all(staged)
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path, *, apart: bool = False) -> Generator[Path]:
    """Yields a temporary file beside `path` that replaces it if the block succeeds and is removed if not.

    Within a set, the temporary file replaces the other one at the set's end. A device or a pipe (`/dev/null`) is
    written to directly, because renaming a file over it would replace it. If `path` is a link, it stays a link and the
    file it points to is replaced.

    Args:
        path: The file.
        apart: Whether the file belongs to no set, so that it appears at once.

    Raises:
        FileError: The file cannot be written.
    """
    place = path.resolve()
    if path.exists() and not path.is_file() and not path.is_dir():
        try:
            yield path
        except OSError as error:
            raise FileError(path, NEED, got=error) from None
        return
    temporary = _temporary(place.parent)
    try:
        if path.is_dir():
            raise IsADirectoryError(0, "a folder")
        yield temporary
        if apart or (staged := _STAGED.get()) is None:
            temporary.replace(place)
            return
        earlier, staged[place] = staged.get(place), temporary
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise FileError(path, NEED, got=error) from None
        raise
    if earlier is not None:
        earlier.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Generator[Path]:
    """Yields a temporary folder beside `path` that becomes it if the block succeeds and is removed if not.

    Files that the block writes there belong to no set.

    Raises:
        FileError: The folder exists and has files, or cannot be made.
    """
    require_empty(path)
    place = path.resolve()
    temporary = _temporary(place.parent)
    try:
        temporary.mkdir()
        yield temporary
        if place.exists():
            place.rmdir()
        temporary.replace(place)
    except OSError as error:
        raise FileError(path, NEED, got=error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


NEED = "must be writable"


def require_empty(path: Path) -> None:
    """Checks that a folder is new or empty, and can be made, so that long work for it need not be done in vain.

    Raises:
        FileError: The folder has files, is a file, or could not be made.
    """
    require_folder(path)
    with _as_file_errors(path):
        got = None
        if path.exists() or path.is_symlink():
            got = "a file" if not path.is_dir() else "a folder with files" if any(path.iterdir()) else None
    if got is not None:
        raise FileError(path, "must be a new or an empty folder", got=got, remedy="choose another, or remove it")


def require_folder(path: Path) -> None:
    """Checks that the folder of a file exists, so that long work for the file need not be done in vain.

    Raises:
        FileError: The file could not be written for lack of the folder.
    """
    if not path.resolve().parent.is_dir():
        raise FileError(path, NEED, got="no such file or directory", remedy="make its folder first")


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes one file; see `replacing`."""
    with replacing(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_together(writers: Mapping[Path, Callable[[Path], object]]) -> None:
    """Writes several files, all or none.

    Args:
        writers: For each file, the function that writes it, given the path to write to.
    """
    with together():
        for path, write in writers.items():
            with replacing(path) as temporary:
                write(temporary)


def staged_at(path: Path) -> Path:
    """Returns where the content of a file lies: within a set, the temporary file of one that is written already."""
    return (_STAGED.get() or {}).get(path.resolve(), path)


# ---------------------------------------------------------------------------------------------------------------
# Replaces the files of a set.
#
# The previous files get a second name, a hard link, before the first rename. The journal lists them:
#
#     {"net.mlir": [".qmlir-0a1b2c3d4e5f", "4711-1700000000-900"], "net.safetensors": [null, "4712-1700000000-64000"]}
#
# For each file, it holds the other name of the previous file (null if there was none) and the identity of the file that
# replaces it. A file comes back only where that replacement lies, so that files which other programs have written since
# then stay. All names are names in the journal's own folder: a folder from a stranger cannot make this
# code touch other folders.


PREFIX = ".qmlir-"
"""The start of the names of temporary files."""

JOURNAL = f"{PREFIX}journal"
"""The name of the journal, which lies in the folder of the files only while they are renamed."""


_Entries = dict[Path, tuple[Path | None, str]]
"""For each file of a set, the other name of the previous file, and the identity of the new one."""


def _temporary(folder: Path) -> Path:
    """Returns the name of a file that does not exist, short enough for any folder."""
    return folder / f"{PREFIX}{secrets.token_hex(6)}"


def _replace_all(staged: Mapping[Path, Path]) -> None:
    """Renames temporary files to their places, all or none; see above.

    Raises:
        FileError: A file cannot be replaced.
    """
    if not staged:
        return
    if len(staged) == 1:
        ((place, temporary),) = staged.items()
        with _as_file_errors(place):
            temporary.replace(place)
        return
    folders = sorted({place.parent for place in staged})
    with ExitStack() as locks:
        for folder in folders:
            with _as_file_errors(folder):
                locks.enter_context(_locked(folder))
                _bring_back(folder)
        _replace_locked(staged, folders)


def _replace_locked(staged: Mapping[Path, Path], folders: Sequence[Path]) -> None:
    """Renames temporary files to their places in locked folders, all or none."""
    entries: _Entries = {}
    try:
        for place, temporary in staged.items():
            with _as_file_errors(place):
                if place.is_dir():
                    raise IsADirectoryError(0, "a folder")
                entries[place] = _second_name(place), _identity(temporary)
        for folder in folders:
            with _as_file_errors(folder):
                _write_journal(folder, entries)
        for place, temporary in staged.items():
            with _as_file_errors(place):
                temporary.replace(place)
    except BaseException:
        for place, entry in entries.items():
            _bring_one_back(place, *entry)
        raise
    finally:
        for folder in folders:
            (folder / JOURNAL).unlink(missing_ok=True)
        for kept, _ in entries.values():
            if kept is not None:
                kept.unlink(missing_ok=True)


@contextmanager
def _as_file_errors(path: Path) -> Generator[None]:
    """Turns errors of the operating system within the block into errors about `path`."""
    try:
        yield
    except OSError as error:
        raise FileError(path, NEED, got=error) from None


def _second_name(place: Path) -> Path | None:
    """Gives an existing file a second name in its folder and returns the name; None if there is no such file."""
    if not place.exists():
        return None
    kept = _temporary(place.parent)
    try:
        os.link(place, kept)
    except OSError:  # a file system without hard links
        shutil.copy2(place, kept)
    return kept


def _write_journal(folder: Path, entries: _Entries) -> None:
    """Writes the journal of a folder."""
    here = {place: entry for place, entry in entries.items() if place.parent == folder}
    text = json.dumps({p.name: [None if kept is None else kept.name, new] for p, (kept, new) in here.items()})
    temporary = _temporary(folder)
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(folder / JOURNAL)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """Locks a folder against other processes and threads that rename files of sets in it, where the system can."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot lock
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def settle(path: Path) -> None:
    """Brings back the previous files of a set in the folder of `path` that a killed process replaced a part of.

    If another process is replacing files of a set there, this waits until all of them are replaced. Call it before
    files of a set are read.
    """
    folder = path.resolve().parent
    if not (folder / JOURNAL).is_file():
        return
    with suppress(OSError), _locked(folder):
        _bring_back(folder)


def _bring_back(folder: Path) -> None:
    """Brings back what the journal of a locked folder lists, and removes the journal."""
    journal = folder / JOURNAL
    if not journal.is_file():
        return
    for name, (kept, new) in _entries(journal).items():
        other = None if kept is None else folder / kept
        _bring_one_back(folder / name, other, new)
        if other is not None:
            other.unlink(missing_ok=True)
    journal.unlink(missing_ok=True)


def _bring_one_back(place: Path, kept: Path | None, new: str) -> None:
    """Brings a previous file back to its place if the replacement of that identity lies there."""
    with suppress(OSError):
        if _identity(place) != new:
            return
        if kept is None:
            place.unlink(missing_ok=True)
        else:
            kept.replace(place)


def _identity(file: Path) -> str:
    """Returns the number, the time and the size of a file, which renaming keeps and writing changes."""
    state = file.stat()
    return f"{state.st_ino}-{state.st_mtime_ns}-{state.st_size}"


def _entries(journal: Path) -> dict[str, tuple[str | None, str]]:
    """Returns the entries of a journal; none of a file that is no journal, which other programs may write."""
    try:
        read: Any = json.loads(journal.read_text(encoding="utf-8"))
        entries = {name: (kept, new) for name, (kept, new) in read.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return {}
    return entries if all(_is_entry(name, *entry) for name, entry in entries.items()) else {}


def _is_entry(name: Any, kept: Any, new: Any) -> bool:
    names: Iterable[Any] = (name, *([] if kept is None else [kept]))
    plain = all(isinstance(each, str) and Path(each).name == each for each in names)
    return plain and (kept is None or kept.startswith(PREFIX)) and isinstance(new, str)


# ---------------------------------------------------------------------------------------------------------------
# Files that a model names. A model is untrusted input: the names must not lead to other files of this machine.


class OutsideError(Exception):
    """Raised when a name in a model does not lead to a plain file in the model's folder; says where it leads."""


def inside(folder: Path, location: str) -> Path:
    """Returns the path of a plain file in a model's folder; links must not lead outside, and `..` is not allowed.

    Raises:
        OutsideError: There is no such file in the folder.
    """
    if not location or "\0" in location:
        raise OutsideError("no location")
    path = folder / location
    if Path(location).is_absolute() or ".." in Path(location).parts:
        raise OutsideError(f'the location "{location}", which is outside the model\'s folder')
    try:
        resolved = path.resolve()
        if not resolved.is_relative_to(folder.resolve()):
            raise OutsideError(f'the location "{location}", a link to outside the model\'s folder')
        if not resolved.is_file():  # reading a pipe would wait for a writer, reading a device might never end
            raise OutsideError(f'no file "{location}"')
    except (OSError, RuntimeError) as error:  # the name is too long, or links form a circle
        raise OutsideError(f'the location "{location[:80]}": {error}') from None
    return resolved


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
