"""The example encoder in an environment of its own: pip installs it, and the commands of its page use it."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.examples.test_plugin import Environment, installed

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Environment:
    return installed(root, tmp_path_factory.mktemp("encoder"), "encoder")


def test_the_page(environment: Environment, root: Path, tmp_path: Path) -> None:
    page = (root / "examples" / "encoder" / "README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (listed,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for folder in ("digits", "encoder"):
        shutil.copytree(root / "examples" / folder, tmp_path / "examples" / folder)
    shown = ""
    for tool, *arguments in map(shlex.split, commands.splitlines()):
        if tool != "pip":  # the fixture has installed it
            shown += environment.run(tool, *arguments, cwd=tmp_path)
    assert listed.strip() in shown
    assert (tmp_path / "digits.bin").stat().st_size % 8 == 0
    assert "; words " in (tmp_path / "digits.s").read_text(encoding="utf-8")
    assert "conv1+relu1: conv2d " in (tmp_path / "layers.s").read_text(encoding="utf-8")


def test_its_own_tests(environment: Environment, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "examples" / "encoder", tmp_path / "encoder")
    shutil.copytree(root / "examples" / "digits", tmp_path / "digits")
    for name in ("packet64.py", "registers.py"):
        (tmp_path / "encoder" / name).unlink()  # the installed ones are tested
    done = environment.run("pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=tmp_path / "encoder")
    assert "24 passed" in done
