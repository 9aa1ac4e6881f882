"""Results kept on disk by a hash of all that they depend on.

A result is one JSON file. So a search or a sweep that was interrupted goes on where it stopped, and any number of them
can share a folder: a file appears whole, and always with the same content.
"""

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from qmlir.ir.interfaces import Array
from qmlir.profiles.profile import Profile
from qmlir.running import cached
from qmlir.running.files import write_whole


class KeptResults:
    """Results in memory and in a folder.

    facts  what all of the results depend on, as plain data
    """

    def __init__(self, folder: Path | None, facts: Mapping[str, Any]):
        """Notes the folder.

        Args:
            folder: Where results are kept; None for memory only.
            facts: What all results depend on, besides qmlir and its libraries.
        """
        self._folder = folder
        self.facts = {**facts, "sources": cached.sources_hash(), "libraries": cached.library_versions()}
        self._known: dict[str, Any] = {}

    def load(self, key: Mapping[str, Any]) -> Any:
        """Returns the result of a key, plain data; None if it is not known, or if its file is damaged."""
        name = self._name(key)
        if name not in self._known and (path := self._path(name)) is not None and path.is_file():
            try:
                self._known[name] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                return None  # it is made anew
        return self._known.get(name)

    def store(self, key: Mapping[str, Any], data: Any) -> Any:
        """Keeps a result; returns it as a later `load` does."""
        name = self._name(key)
        text = json.dumps(data, indent=1, sort_keys=True) + "\n"
        if (path := self._path(name)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        self._known[name] = json.loads(text)
        return self._known[name]

    def _name(self, key: Mapping[str, Any]) -> str:
        return hash_of(json.dumps({**self.facts, **key}, sort_keys=True, default=str).encode())

    def _path(self, name: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{name}.json"


def results_folder(given: str | Path | None, name: str) -> Path | None:
    """Returns the folder of results: the one given, or one beside the compiled networks; None to keep nothing.

    Args:
        given: The folder that a user names.
        name: The name of the folder beside the compiled networks.
    """
    if given is not None:
        return Path(given)
    place = cached.place()
    return None if place is None else place / name


def hash_of(data: bytes) -> str:
    """Returns the hash of bytes as text."""
    return hashlib.sha256(data).hexdigest()


def profile_hash(profile: Profile) -> str:
    """Returns the hash of a profile's file."""
    with tempfile.TemporaryDirectory() as folder:
        profile.save(path := Path(folder) / "profile.yaml")
        return hash_of(path.read_bytes())


def samples_hash(samples: Sequence[Any]) -> str:
    """Returns the hash of the samples' arrays with their names, types and shapes."""
    total = hashlib.sha256()
    for sample in samples:
        named: Mapping[str, Any] = cast(Any, sample) if isinstance(sample, Mapping) else {"": sample}
        for name in sorted(named):
            array: Array = np.ascontiguousarray(named[name])
            total.update(f"{name} {array.dtype.str} {array.shape}".encode())
            total.update(array.tobytes())
    return total.hexdigest()
