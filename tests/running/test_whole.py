"""Files that are there whole or not at all."""

from pathlib import Path

import pytest

from qmlir.errors import FileError
from qmlir.running.files import replacing, write_together, write_whole


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "old")

    def fail() -> None:
        with replacing(tmp_path / "a") as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_files_that_belong_together_appear_together(tmp_path: Path) -> None:
    write_together({tmp_path / "a": lambda p: p.write_text("a"), tmp_path / "b": lambda p: p.write_bytes(b"b")})
    assert names(tmp_path) == ["a", "b"]
    with pytest.raises(FileError, match="no/c: must be writable, got no such file or directory"):
        write_together({tmp_path / "a": lambda p: p.write_text("new"), tmp_path / "no/c": lambda p: p.write_text("")})
    assert (tmp_path / "a").read_text() == "a"
    assert names(tmp_path) == ["a", "b"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must be writable, got"):
        write_whole(tmp_path, "x")
