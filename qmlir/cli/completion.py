"""Completion of command lines in bash, zsh and fish: `qmlir completion SHELL` prints the script that turns it on.

The script calls the program itself with the line typed so far; argcomplete asks the parsers what may follow. Commands
of two words, such as `device check`, are two words for the shell but one for the parser.
"""

import argparse
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import argcomplete
from argcomplete.completers import FilesCompleter
from argcomplete.shell_integration import shellcode

from qmlir.cli.flags import ArgumentParser, argument_parser
from qmlir.cli.pass_list import pass_table
from qmlir.plugins import PASSES, plugins_in

PROGRAMS = ("qmlir", "qmlir-opt")

MODELS = ("onnx", "tflite", "mlir", "npu")
"""Suffixes of models, without dots."""

FILES: dict[str, tuple[str, ...]] = {
    "model": MODELS,
    "quantized": ("mlir",),
    "ledger": ("mlir", "json"),
    "before": ("mlir", "json"),
    "after": ("mlir", "json"),
    "profiles": ("yaml",),
    "profile": ("yaml",),
    "policy": ("yaml",),
    "json": ("json",),
    "against": ("json",),
    "device": ("toml",),
    "target": ("toml",),
}
"""Name of an argument → suffixes of the files that it takes; all other arguments take any file."""


def script(shell: str) -> str:
    """Returns the script that completes the command lines of all our programs in a shell."""
    return shellcode(PROGRAMS, shell=shell) + "\n"


def answer_for_commands(
    parser: argparse.ArgumentParser,
    commands: Mapping[str, ArgumentParser],
    add_command: Callable[[str], argparse.ArgumentParser],
) -> None:
    """Answers a shell about `qmlir`, and exits.

    Args:
        parser: The parser of the command line.
        commands: The parsers of the commands by name; a name may be two words.
        add_command: Adds a parser of a command to `parser`.
    """
    joined = [name for name in commands if " " in name]
    second_words: dict[str, list[str]] = {}
    for first, second in (name.split(" ") for name in joined):
        second_words.setdefault(first, []).append(second)
    for first, words in second_words.items():
        if first not in commands:
            add_command(first).add_argument("part", choices=words)
        else:
            (positional, *_) = commands[first].positionals()
            _complete_with(positional, _files_of(positional, words))
    for each in commands.values():
        for action in each.all_actions():
            if not hasattr(action, "completer"):
                _complete_with(action, _completer_of(action))
    _join_words(joined)
    argcomplete.autocomplete(parser, exclude=joined, always_complete_options="long")


def answer_for_passes() -> None:
    """Answers a shell about `qmlir-opt`, and exits."""
    parser = argument_parser()
    for name in sorted({*pass_table(), *plugins_in(PASSES)}):
        if f"--{name}" not in parser.long_flags():
            parser.add_argument(f"--{name}", action="store_true", help="a pass")
    for action in parser.all_actions():
        if action.dest == "input":
            _complete_with(action, FilesCompleter(MODELS[:3]))
    argcomplete.autocomplete(parser, always_complete_options="long")


def _join_words(joined: Iterable[str]) -> None:
    """Makes commands of two words one word in the line that argcomplete reads, by a backslash before the space."""
    line, point = os.environ["COMP_LINE"], int(os.environ["COMP_POINT"])
    for name in joined:
        first, second = name.split(" ")
        found = re.match(rf"\s*\S+\s+(?:-\S*\s+)*({first}\s+{second})\s", line[:point])
        if found is not None:
            word = rf"{first}\ {second}"
            os.environ["COMP_LINE"] = line[: found.start(1)] + word + line[found.end(1) :]
            os.environ["COMP_POINT"] = str(point + len(word) - len(found[1]))
            return


def _complete_with(action: argparse.Action, completer: Any) -> None:
    """Sets what argcomplete proposes for an argument."""
    vars(action)["completer"] = completer


def _completer_of(action: argparse.Action) -> Any:
    if isinstance(action.metavar, str) and action.metavar.startswith("{"):
        words = [word for word in action.metavar[1:-1].split(",") if not word.endswith("-N")]  # a number is the user's
        return lambda prefix, **others: [word for word in words if word.startswith(prefix)]  # pyright: ignore
    if action.dest in ("device", "target"):
        from qmlir.devices.description.reading import shipped_devices

        return _files_of(action, shipped_devices())
    return _files_of(action, ())


def _files_of(action: argparse.Action, words: Collection[str]) -> Callable[..., list[str]]:
    """Returns a completer that proposes some words, and files with the suffixes of an argument."""
    files: Any = FilesCompleter(FILES.get(action.dest, ()))

    def proposed(prefix: str, **others: Any) -> list[str]:
        return [word for word in words if word.startswith(prefix)] + list(files(prefix, **others))

    return proposed
