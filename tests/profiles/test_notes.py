"""How samples were read: kept in a profile's file, and the same in what is merged."""

from pathlib import Path

import pytest

from qmlir.errors import FileError, ProfileError
from qmlir.ir.reading import ReadingNotes
from qmlir.profiles.profile import Profile


def noted(*texts: str) -> Profile:
    profile = Profile.empty({"x": (4,)})
    profile.notes = ReadingNotes(*texts)
    return profile


def test_notes_are_kept(tmp_path: Path) -> None:
    noted("scale=0.5 mean=1", "uint8").save(tmp_path / "p.yaml")
    assert "preprocess: scale=0.5 mean=1\ndtype: uint8\n" in (tmp_path / "p.yaml").read_text()
    assert Profile.load(tmp_path / "p.yaml").notes == ReadingNotes("scale=0.5 mean=1", "uint8")
    noted().save(tmp_path / "q.yaml")
    assert "preprocess" not in (tmp_path / "q.yaml").read_text()
    assert not Profile.load(tmp_path / "q.yaml").notes


def test_notes_that_are_no_text(tmp_path: Path) -> None:
    noted("scale=1").save(tmp_path / "p.yaml")
    text = (tmp_path / "p.yaml").read_text().replace("scale=1", "[1]")
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(FileError, match=r"p.yaml:5:\d+: must be a whole profile, got .*preprocess is a text"):
        Profile.load(tmp_path / "p.yaml")


def test_notes_are_merged() -> None:
    merged = noted("", "uint8")
    merged.merge(noted("scale=1", "uint8"))
    assert merged.notes == ReadingNotes("scale=1", "uint8")
    with pytest.raises(
        ProfileError, match='read in the same way: "preprocess scale=1, dtype uint8", got "preprocess sc'
    ):
        merged.merge(noted("scale=2"))
    assert merged.samples == 0
