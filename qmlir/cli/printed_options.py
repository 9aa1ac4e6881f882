"""`--print-config` and `--config`: all options of a command as one file, printed and read.

    qmlir tune digits.onnx --data digits.npz:images --budget bytes=60% --print-config > tune.yaml
    qmlir tune digits.onnx --config tune.yaml -o policy.yaml

The file has one key, the command, with the options by their names. An option that may be given more than once is a
list, or a mapping if its values are NAME=VALUE. `qmlir quantize` has `--policy` in place of `--config`.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from qmlir.cli.flags import ArgumentParser
from qmlir.errors import FileError, OptionError, near_misses
from qmlir.settings.fields import scalar_text

OF_ONE_RUN = ("help", "quiet", "verbose", "debug", "json", "print-config", "config")
"""Options that a file does not hold: how the command prints, and the file itself."""


def add_config_file_options(parser: ArgumentParser) -> None:
    """Adds `--config` and `--print-config`."""
    help = "a .yaml file of options: what --print-config prints; options of the command line win"
    parser.add_argument("--config", type=Path, metavar="FILE", help=help)
    help = "print all options in effect as a file for --config, and stop"
    parser.add_argument("--print-config", action="store_true", help=help)


def asks_for_options(arguments: argparse.Namespace) -> bool:
    """Whether a command that takes `--config` is to print its options and stop."""
    return bool(getattr(arguments, "print_config", False)) and hasattr(arguments, "config")


def print_options(arguments: argparse.Namespace, parser: ArgumentParser) -> None:
    """Prints all options in effect, those that are given and those with known defaults."""
    import yaml

    from qmlir.running.yaml_files import Dumper

    values = {**vars(arguments), **_defaults(arguments)}
    options: dict[str, Any] = {}
    for name, action in _held(parser).items():
        held = plain(values[action.dest])
        if held is not None and (held is not False or isinstance(action, argparse.BooleanOptionalAction)):
            options[name] = held
    whole = {arguments.subcommand: options}
    sys.stdout.write(yaml.dump(whole, Dumper=Dumper, sort_keys=False, default_flow_style=False, width=120))


def _held(parser: ArgumentParser) -> dict[str, argparse.Action]:
    """Returns the options that a file may hold by their names, one for each value."""
    found: dict[str, argparse.Action] = {}
    taken: set[str] = set()
    for action in parser.all_actions():
        names = [option[2:] for option in action.option_strings if option.startswith("--")]
        if names and names[0] not in OF_ONE_RUN and action.dest not in taken:
            found[names[0]] = action
            taken.add(action.dest)
    return found


def plain(value: Any) -> Any:
    """Returns a value as plain data; None for one that is not given."""
    match value:
        case None | bool() | int() | float():
            return value
        case tuple():
            return ",".join(map(str, cast(tuple[Any, ...], value)))
        case list():
            entries = cast(list[Any], value)
            if entries and all(isinstance(each, tuple) for each in entries):
                return {str(key): plain(each) for key, each in entries}
            return [plain(each) for each in entries] or None
        case _:
            return str(value)


def _defaults(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that are not given but whose defaults are known, by their names among the arguments."""
    from qmlir.ir.budget import BUDGET

    defaults: dict[str, Any] = {"fold_budget": BUDGET, "jobs": None if getattr(arguments, "scheduler", None) else 1}
    match arguments.subcommand:
        case "compile" if arguments.target is None:
            from qmlir.cli.models import memory_of

            defaults |= {"threads": 1, "cpu": None if arguments.triple else "native", "memory": memory_of(arguments)}
            defaults |= {"api": "static"} if arguments.bundle else {}
        case "tune":
            from qmlir.analysis.tune import LEVELS, MOST

            defaults |= {
                "most": MOST,
                "levels": tuple(LEVELS),
            }  # the search decides about options of the quantizer that are not given
        case "explore":
            from qmlir.analysis.explore.result import FRONT

            defaults |= {"front": tuple(FRONT)}
        case "profile" if arguments.data_free:
            from qmlir.analysis.data_free import DEVIATIONS

            defaults |= {"deviations": DEVIATIONS}
        case _:
            pass
    return {name: value for name, value in defaults.items() if getattr(arguments, name, 0) is None}


# ---------------------------------------------------------------------------------------------------------------
# Reads a file of options.


REMEDY = "write one with --print-config"


def words_in(path: Path, command: str, parser: ArgumentParser) -> list[str]:
    """Returns the options in a file as words of a command line.

    Args:
        path: The file.
        command: The command that reads it.
        parser: A parser of the command, which then requires nothing.

    Raises:
        FileError: The file is no file of options of this command, or an option has a value that the command does not
            take; with its place.
    """
    from qmlir.running.yaml_files import read_yaml

    file = read_yaml(path, "a file of options", remedy=REMEDY)
    need = f"must hold options of qmlir {command}"
    if [*file.fields] != [command]:
        raise FileError(path, need, got=", ".join(map(str, file.fields)) or "another file", remedy=REMEDY)
    options: Any = file.fields[command] or {}
    if not isinstance(options, dict):
        raise FileError(file.place(command), need, got="no options by name", remedy=REMEDY)
    known = _held(parser)
    parser.require_nothing()
    options = cast(dict[str, Any], options)
    for name in options:
        if name not in known:
            remedy = near_misses(str(name), known)
            raise FileError(file.place(command, name, name=True), need, got=str(name), remedy=remedy)
    return words_of(options, parser, lambda name: file.place(command, name))


def words_of(options: Mapping[str, Any], parser: ArgumentParser, place: Callable[[str], str]) -> list[str]:
    """Returns options as words of a command line.

    Args:
        options: Option → plain value.
        parser: The parser of the command.
        place: Says where a file holds an option.

    Raises:
        FileError: The command does not take the value of an option; with its place.
    """
    known, rest, words = _held(parser), ["model"] * len(parser.positionals()), list[str]()
    for name, value in options.items():
        try:
            own = _words(name, value, known[name])
            parser.parse_args([*rest, *own])
        except OptionError as error:
            raise FileError(place(name), error.need, got=error.got, remedy=error.remedy) from None
        words += own
    return words


def _words(name: str, value: Any, action: argparse.Action) -> list[str]:
    """Returns an option and its value as words of a command line."""
    repeated = type(action).__name__ == "_AppendAction"
    if isinstance(value, bool):
        if isinstance(action, argparse.BooleanOptionalAction) or (action.nargs == 0 and value):
            return [f"--{name}"] if value else [f"--no-{name}"]
        if action.nargs == 0:
            return []
    entries: list[object] = [value]
    if repeated and isinstance(value, dict):
        entries = [f"{key}={scalar_text(each)}" for key, each in cast(dict[Any, Any], value).items()]
    elif repeated and isinstance(value, list):
        entries = [*cast(list[object], value)]
    if action.nargs == 0 or not all(isinstance(each, str | int | float) for each in entries):
        need = "must be true or false" if action.nargs == 0 else "must be text or a number"
        raise OptionError(f"--{name}", need, got=f"{value}")
    return [f"--{name}={str(each).lower() if isinstance(each, bool) else each}" for each in entries]
