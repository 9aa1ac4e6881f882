"""Installs small packages with entry points, as pip leaves them, into a folder that Python searches."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from qmlir.plugins import installed


def install(
    folder: Path, name: str, entry_points: Mapping[str, Mapping[str, str]], sources: Mapping[str, str] | None = None
) -> None:
    """Writes a package's modules and its metadata.

    Args:
        folder: A folder on `sys.path`.
        name: The distribution's name; its version is 1.0.
        entry_points: Group → name → `module:attribute`.
        sources: Names of top-level modules → their text.
    """
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    sections = (f"[{g}]\n" + "".join(f"{n} = {at}\n" for n, at in held.items()) for g, held in entry_points.items())
    (info / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")
    for module, text in (sources or {}).items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that Python searches for packages in this test and in the commands that it runs."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    installed.cache_clear()
    monkeypatch.setattr("qmlir.plugins._registered", {})
    yield folder
    installed.cache_clear()
