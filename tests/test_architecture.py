"""docs/architecture.md follows a convolution through the package, and says which files an addition touches."""

import re
import subprocess
import sys
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import qmlir
from qmlir.codegen.lowering import MainLowering
from tests.conftest import ROOT

PACKAGE = ROOT / "qmlir"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DIGITS = ROOT / "examples" / "digits"


def section(heading: str) -> str:
    """The text of the page below a heading, up to the next heading of its level."""
    level = heading.partition(" ")[0]
    text = PAGE.partition(f"\n{heading}\n")[2]
    assert text, heading
    return re.split(rf"^{level} ", text, maxsplit=1, flags=re.MULTILINE)[0]


def linked(text: str) -> list[str]:
    """The files of the package that a text links to, in order."""
    return re.findall(r"\]\(\.\./qmlir/([\w/]+\.py)\)", text)


# ---------------------------------------------------------------------------------------------------------------
# Follow a convolution


NAMED = re.compile(r"\b(Conv2DOp|WeightedOp|ContractionOp)\b")
"""What a file names that knows convolutions; other files handle them as any operation."""


def handles_convolutions(path: str) -> bool:
    """Whether a file of the package is about convolutions, or names them."""
    if path.endswith("contraction.py") or path.startswith("codegen/kernels/"):
        return True
    return NAMED.search((PACKAGE / path).read_text(encoding="utf-8")) is not None


def is_about_convolution(value: object) -> bool:
    """Whether an argument is a convolution, a node of a model file that is one, or a state that lowers one."""
    if isinstance(value, MainLowering):
        value = value.at
    return str(getattr(value, "name", "")).endswith(".conv2d") or getattr(value, "kind", None) == "Conv"


def files_on_the_way(run: Callable[[], object]) -> list[str]:
    """The files of the package that handle a convolution, in the order in which they do so first."""
    found: dict[str, bool] = {}

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_flags & CO_OPTIMIZED or not code.co_filename.startswith(str(PACKAGE)):
            return  # bodies of modules and classes are not optimized
        path = str(Path(code.co_filename).relative_to(PACKAGE))
        if path in found:
            return
        given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
        if any(is_about_convolution(value) for value in given):
            found[path] = handles_convolutions(path)

    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return [path for path, handles in found.items() if handles]


def the_main_job() -> None:
    """Reads, quantizes, compiles for a processor and for a device, and evaluates a network with convolutions."""
    samples = list(np.load(DIGITS / "digits.npz")["calibration_images"][:4, None])
    network = qmlir.load(DIGITS / "digits.onnx")
    quantized = qmlir.quantize(network, data=samples, rounding="nearest", measure=False)
    qmlir.compile(quantized, cpu="x86-64-v3", cache=False)
    qmlir.reference(quantized)(samples[0])
    device = qmlir.quantize(network, data=samples, rounding="nearest", measure=False, target="nmp")
    qmlir.compile(device, target="nmp")


@pytest.mark.slow
def test_the_page_follows_a_convolution_through_each_file() -> None:
    assert linked(section("## Follow a convolution")) == files_on_the_way(the_main_job)


# ---------------------------------------------------------------------------------------------------------------
# To add something, touch these files


def additions() -> list[tuple[str, int, str, str]]:
    """The rows of the table: what is added, the most files of the package, the files, and the commit that shows it."""
    rows = re.findall(r"^\| ([^|]+) \| (\d+) \| ([^|]+) \| `([^`]+)` \|$", section("## To add something"), re.MULTILINE)
    assert rows
    return [(what, int(most), files, subject) for what, most, files, subject in rows]


@pytest.mark.parametrize("row", additions(), ids=lambda row: row[0])
def test_a_commit_shows_what_an_addition_touches(row: tuple[str, int, str, str]) -> None:
    """The commit touches at most as many of the package as the table says; the files that the row links to exist."""
    _, most, files, subject = row
    for file in linked(files):
        assert (PACKAGE / file).exists(), file
    git = ["git", "-C", str(ROOT), "log", "--format=", "--name-only", "-1", "--fixed-strings", f"--grep={subject}"]
    try:
        touched = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout of git")
    if not touched:
        pytest.skip("the history does not reach back to the commit")
    assert 0 < sum(name.startswith("qmlir/") for name in touched) <= most
