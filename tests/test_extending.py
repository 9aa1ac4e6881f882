"""The snippets of docs/extending.md are one program, which runs; its TOML names what entry points there are."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest

from qmlir.plugins import NOUNS
from tests.packages import site as site

BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_page_runs(root: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = root / "docs" / "extending.md"
    for name in ("digits.onnx", "digits.npz"):
        shutil.copy(root / "examples" / "digits" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "extending"}
    ran = 0
    for kind, title, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "c":
            Path(title).write_text(text, encoding="utf-8")
        elif title:
            continue  # a file of the package, which tests/packages has
        elif kind == "python":
            exec(compile(text, str(page), "exec"), scope)
            ran += 1
        else:
            assert kind == "toml"
            assert tomllib.loads(text)["project"]["entry-points"].keys() == NOUNS.keys()
    assert ran >= 7


def test_links_lead_somewhere(root: Path) -> None:
    text = (root / "docs" / "extending.md").read_text(encoding="utf-8")
    headings = {
        re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)
    }
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link[1:] in headings if link.startswith("#") else (root / "docs" / link).exists(), link
