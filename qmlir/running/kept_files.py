"""The folder of compiled code that is kept on disk, and how much of it is kept.

    $QMLIR_CACHE          the folder of the entries, `off` for none (default: $XDG_CACHE_HOME/qmlir or ~/.cache/qmlir)
    $QMLIR_CACHE_BYTES    the most bytes that they take; the least recently used are removed (default: 2 GiB)

An entry is a file whose name ends in `SUFFIX`.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from qmlir.errors import OptionError

VARIABLE, BYTES_VARIABLE = "QMLIR_CACHE", "QMLIR_CACHE_BYTES"

MOST_BYTES = 2 * 1024**3
"""The most bytes of all entries by default."""

SUFFIX = ".qmlir"

ABANDONED = 3600.0
"""Seconds after which a temporary file is that of a process that has ended."""


def place() -> Path | None:
    """The folder of the entries; None if nothing is kept, or if the folder belongs to another user."""
    given = os.environ.get(VARIABLE)
    if given in ("", "off", "0"):
        return None
    if given is not None:
        folder = Path(given)
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        home = Path(base) if Path(base).is_absolute() else Path(os.path.expanduser("~")) / ".cache"
        folder = home / "qmlir"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        mine = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()  # code of others is not executed
    except OSError:
        return None
    return folder if mine else None


def most_bytes() -> int:
    """The most bytes that all entries take together.

    Raises:
        OptionError: The environment gives something else than a number.
    """
    given = os.environ.get(BYTES_VARIABLE, str(MOST_BYTES))
    if not given.isdecimal():
        raise OptionError(BYTES_VARIABLE, "must be a number of bytes", got=given)
    return int(given)


def shrink(newest: Path) -> None:
    """Removes the least recently used entries while all of them take too much; never the newest."""
    found: list[tuple[float, int, str]] = []
    with os.scandir(newest.parent) as files:
        for file in files:
            with suppress(OSError):  # another process may have removed it
                state = file.stat(follow_symlinks=False)
                if file.name.startswith(".") and time.time() - state.st_mtime > ABANDONED:
                    os.unlink(file.path)
                elif file.name.endswith(SUFFIX):
                    found.append((state.st_mtime, state.st_size, file.path))
    total, most = sum(size for _, size, _ in found), most_bytes()
    for _, size, path in sorted(found):
        if total <= most:
            break
        if path != str(newest):
            with suppress(OSError):
                os.unlink(path)
            total -= size
