"""README and the pages of docs/ do what they show: their commands, their Python and their files, in order."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

import qmlir
from tests.conftest import ROOT
from tests.frontends.gguf.files import tiny
from tests.reader import Reader, blocks_of

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWING = [page for page in PAGES if any(not block.reason for block in blocks_of(page.read_text(encoding="utf-8")))]
MOST_NOT_RUN = 8
"""Blocks of all pages together that may be marked as not run."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def sentence() -> onnx.ModelProto:
    """A network of the reader's: of symbolic dimensions, its second input a shape."""
    sizes: dict[str, tuple[int, list[int | str]]] = {
        "x": (TensorProto.FLOAT, ["N", "length"]),
        "shape": (TensorProto.INT64, [3]),
        "y": (TensorProto.FLOAT, ["N", "pairs", 2]),
    }
    x, shape, y = (helper.make_tensor_value_info(name, *size) for name, size in sizes.items())
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]
    graph = helper.make_graph(nodes, "sentence", [x, shape], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


REPOSITORY_ONLY = ("README.md", "docs/tuning.md", "docs/exploring.md", "docs/devices/execution.md")
"""Pages whose commands read the files of the repository, and what earlier commands of the page have written."""


def bring(folder: Path) -> None:
    """Puts the reader's own files into a folder: a model, pictures of what it knows, and the network above."""
    digits = ROOT / "examples" / "digits"
    for copy in ("model.onnx", "net.onnx", "digits.onnx"):
        shutil.copy(digits / "digits.onnx", folder / copy)
    shutil.copy(digits / "digits.npz", folder)
    images = np.load(digits / "digits.npz")["calibration_images"]
    np.savez(folder / "samples.npz", images)
    (folder / "photos").mkdir()
    for index, image in enumerate(images):
        Image.fromarray((image[0] * 15).astype(np.uint8), "L").resize((20, 24)).save(folder / "photos" / f"{index}.png")
    onnx.save(sentence(), folder / "sentence.onnx")
    np.save(folder / "shape.npy", np.array([1, 64, 2]))
    (folder / "model.gguf").write_bytes(tiny(kind="Q4_1", layers=1))


@pytest.mark.slow
@pytest.mark.parametrize("page", SHOWING, ids=name)
def test_page(
    page: Path, root: Path, tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    if name(page) not in REPOSITORY_ONLY:
        bring(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QMLIR_CACHE", str(kept))
    monkeypatch.setenv("COLUMNS", "100")
    for command in ("bench", "report"):
        monkeypatch.setattr(f"qmlir.cli.{command}.SECONDS", 0.1)  # where a page does not say how long to measure
    for registry in ("qmlir.plugins._registered", "qmlir.ir.own_operators._registered"):
        monkeypatch.setattr(registry, {})  # what a page registers is its own
    reader = Reader(root, capsys)
    reader.follow(page.read_text(encoding="utf-8"))


def test_blocks_that_are_not_run_are_few() -> None:
    skipped = [block for page in PAGES for block in blocks_of(page.read_text(encoding="utf-8")) if block.reason]
    assert len(skipped) <= MOST_NOT_RUN
    for block in skipped:
        assert len(block.reason.split()) >= 3, f"say why it cannot be run: {block.text}"


def test_every_block_is_found() -> None:
    """A fence without a kind, or one that the pattern overlooks, would not be run."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert 2 * len(blocks_of(text)) == len(re.findall(r"^ *```", text, re.MULTILINE)), name(page)


def test_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 6_000


def test_links_of_the_repository_lead_somewhere() -> None:
    """Relative links of files that the site does not check, because readers of the repository follow them."""
    for page in [*ROOT.glob("*.md"), *PAGES, *(ROOT / "examples").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{name(page)}: {target}"


def test_api_page_lists_the_public_names() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = {name.rpartition(".")[2] for name in re.findall(r"^### `(qmlir\.\S+)`$", text, re.MULTILINE)}
    assert set(qmlir.__all__) <= listed


def test_changelog_begins_with_the_packages_version() -> None:
    """Versions descend, each has a date, and the first one is what `qmlir --version` says."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    matches = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((\d{4}-\d\d-\d\d)\)", title) for title in titles]
    found = [match for match in matches if match is not None]
    assert len(found) == len(titles) >= 4
    numbers = [tuple(map(int, match.groups()[:3])) for match in found]
    assert numbers == sorted(set(numbers), reverse=True)
    assert [match[4] for match in found] == sorted((match[4] for match in found), reverse=True)
    assert ".".join(map(str, numbers[0])) == version("qmlir")


def test_diagrams_are_fresh() -> None:
    script = ROOT / "docs" / "site" / "diagrams.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
