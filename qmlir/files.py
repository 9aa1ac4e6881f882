"""Files that are there whole or not at all.

Everything qmlir writes goes to a temporary file beside its place and is renamed when complete, so that an error or
an interrupt leaves what was there before. Files that belong together (a module and its weights) are renamed together,
after all of them are complete.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from qmlir.errors import FileError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write one file; see `write_together`."""
    data = content.encode() if isinstance(content, str) else content

    def write(temporary: Path) -> None:
        temporary.write_bytes(data)

    write_together({path: write})


def write_together(writers: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write several files, all or none.

    Args:
        writers: For each file what writes it, given the path to write to.

    Raises:
        FileError: A file cannot be written; nothing has changed.
    """
    temporaries: dict[Path, Path] = {}
    at = Path()
    try:
        for at, write in writers.items():
            if at.exists() and not at.is_file():
                write(at)  # /dev/null, a pipe: renaming over it would replace the device; a folder is an error
                continue
            place = at.resolve()
            temporaries[place] = place.with_name(f".{place.name}.{os.getpid()}.tmp")
            write(temporaries[place])
        for at, temporary in temporaries.items():
            temporary.replace(at)
    except OSError as error:
        raise FileError(at, "cannot be written", got=(error.strerror or str(error)).lower()) from error
    finally:
        for temporary in temporaries.values():
            temporary.unlink(missing_ok=True)
