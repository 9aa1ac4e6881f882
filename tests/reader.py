"""Follows a page of the documentation: runs its commands and its Python, writes its files, checks the answers it shows.

What a block becomes, by the word behind its fence:

    sh        commands, in the page's folder; each has to succeed, unless the page shows an `error:` as the answer
    python    code, in one scope for the whole page; unless it imports a package of PACKAGES that is not installed
    text      the answer of the block before: each line is part of what that block printed
    plain     shown only: a drawing, the form of a command; json without a title likewise
    others    with `title="net.yaml"`, a file of that name, or more of it

`<!-- not run: REASON -->` in the line above a block says why the block cannot be run.
"""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from qmlir.cli import main as qmlir_main
from qmlir.cli import opt

BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+?) -->\n\n?)?"
    r"(?P<indent> *)```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
MAINS = {"qmlir": qmlir_main.main, "qmlir-opt": opt.main}
SHOWN_ONLY = ("plain", "json")
"""Kinds of blocks without a title that are neither run nor checked."""


@dataclass(frozen=True)
class Block:
    """A block of a page: `reason` says why it is not run, and is empty for most blocks."""

    kind: str
    title: str
    text: str
    reason: str


def blocks_of(text: str) -> list[Block]:
    """Returns the fenced blocks of a page in order, without the indentation of lists and tabs around them."""
    found: list[Block] = []
    for match in BLOCK.finditer(text):
        lines = (line.removeprefix(match["indent"]) for line in match["text"].splitlines(keepends=True))
        found.append(Block(match["kind"], match["title"] or "", "".join(lines), match["reason"] or ""))
    return found


def commands_of(text: str) -> list[list[str]]:
    """Returns the commands of a shell block as words, without comments, lines joined at a backslash."""
    lines = text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


class Reader:
    """Follows a page in the current folder: a scope for its Python, and the answer of the last block."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]):
        self.root, self.capsys = root, capsys
        self.scope: dict[str, Any] = {"__name__": "__page__"}
        self.answer, self.status = "", 0
        self.ran, self.checked = 0, 0
        self.unset: set[str] = set()  # names of Python that skipped blocks would have set
        self.lacks = False  # a tool of this page, and with it what later tools read

    def follow(self, text: str) -> None:
        """Runs the blocks of a page in order."""
        for block in blocks_of(text):
            if not block.reason:
                self.run(block)
        assert self.status == 0, self.answer

    def run(self, block: Block) -> None:
        """Runs, writes or checks one block."""
        if block.title:
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            with Path(block.title).open("a", encoding="utf-8") as file:
                file.write(block.text + "\n")
        if block.kind == "text":
            self.check(block.text)
            return
        assert self.status == 0, self.answer
        if block.kind == "sh":
            self.answer = ""
            for command in commands_of(block.text):
                assert self.status == 0, self.answer
                self.status = self.call(command)
        elif block.kind == "python":
            self.call_python(block.text)
        else:
            assert block.title or block.kind in SHOWN_ONLY, f"neither run nor written: {block.text}"

    def call_python(self, text: str) -> None:
        """Runs Python and hears not the warnings of PACKAGES.

        Skips a block that imports one of them that is not installed, and those that read what such a block would set.
        """
        imported = [p for p in PACKAGES if re.search(rf"^import {p}$", text, re.MULTILINE)]
        names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
        unset = self.unset - set(self.scope)
        if any(find_spec(p) is None for p in imported) or any(node.id in unset for node in names):
            self.unset |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
            self.answer = ""
            return
        with warnings.catch_warnings():
            if imported:
                warnings.simplefilter("ignore")
            exec(text, self.scope)
        self.answer = self.capsys.readouterr().out
        self.ran += 1

    def check(self, text: str) -> None:
        """Checks the answer that the page shows; one that begins with `error:` belongs to a command that fails."""
        for line in filter(None, map(str.strip, text.splitlines())):
            assert line in self.answer, self.answer
            self.checked += 1
        if "error: " in text:
            assert self.status == 1
            self.status = 0

    def call(self, command: list[str]) -> int:
        """Runs a command and adds what it prints to the answer; skips commands of tools that are not installed."""
        command, file = (command[:-2], command[-1]) if command[-2:-1] == [">"] else (command, "")
        tool, *arguments = command
        if tool == "make":
            (target,) = arguments
            assert re.search(rf"^{target}:", (self.root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target
            return 0
        if tool == "touch":
            Path(arguments[0]).touch()
            return 0
        self.ran += 1
        if tool in MAINS:
            status = MAINS[tool](arguments)
            shown = self.capsys.readouterr()
            self.answer += shown.out + shown.err
            if file:
                Path(file).write_text(shown.out, encoding="utf-8")
            return status
        program = sys.executable if tool == "python" else shutil.which(tool)
        if program is None:
            assert tool in TOOLS or tool.startswith("./"), f"{tool}: no such command"
            self.lacks = True
            return 0
        if self.lacks and tool in TOOLS:
            return 0
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
        )
        self.answer += done.stdout + done.stderr
        return done.returncode


TOOLS = ("cc", "aarch64-linux-gnu-gcc", "arm-none-eabi-gcc", "qemu-system-arm", "mlir-opt-19", "mlir-translate-19")
"""Programs that pages call and that may be missing; what they make is then missing too."""

PACKAGES = ("torch",)
"""Packages that pages import and that may be missing; a block that imports one stands by itself."""
