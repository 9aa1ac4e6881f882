"""`--policy` and `--print-config`: one file that holds all options of `qmlir quantize`, read and printed."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from qmlir.cli.flags import ArgumentParser
from qmlir.cli.printed_options import plain, words_of
from qmlir.cli.terminal import say

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.ir.reading import ReadingNotes
    from qmlir.settings.policy import Policy


def words_in(path: Path, parser: ArgumentParser) -> list[str]:
    """Returns the options in a policy's file as words of a command line.

    Args:
        path: The file.
        parser: The parser of the command.

    Raises:
        FileError: The file is not a valid policy, or the command does not take the value of an option; with its place.
    """
    from qmlir.running.yaml_files import read_yaml
    from qmlir.settings.policy import REMEDY, Policy

    def place(name: str) -> str:
        file = read_yaml(path, "a policy", remedy=REMEDY)
        return file.place("options", name if name in file.fields["options"] else name.replace("-", "_"))

    return words_of(Policy.load(path).options, parser, place)


def print_configuration(
    module: "ModuleOp",
    policy: "Policy",
    given: Mapping[str, Any],
    arguments: argparse.Namespace,
    notes: "ReadingNotes",
) -> None:
    """Prints all options in effect as the text of a policy's file, and as comments the operations of each rule.

    Args:
        module: The network.
        policy: The rules and the default of the file and of the command line.
        given: The quantizer's options that the command line gives.
        arguments: The command line.
        notes: How samples are read.
    """
    from qmlir.compiler import Pipeline
    from qmlir.dialects.target import load_target
    from qmlir.settings.policy import Policy
    from qmlir.settings.resolve import resolve
    from qmlir.transforms.quantize.prepare.apply_policy import apply_policy

    settings = resolve(policy, given, runtime=arguments.runtime, target=arguments.target)
    whole = Policy(settings.config().options(), policy.rules, _options_in_effect(arguments, notes))
    applied = apply_policy(Pipeline("simplify")(module), whole, load_target())
    sys.stdout.write(whole.text())
    for number, each in enumerate(applied, 1):
        line = f"# rule {number} holds for {', '.join(sorted(each.nodes)) or 'an input'}"
        for part in wrap(line, 79, subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False):
            say(part)


def _options_in_effect(arguments: argparse.Namespace, notes: "ReadingNotes") -> dict[str, Any]:
    """Returns the options of the command that are given, or whose defaults are values."""
    from qmlir.settings.fields import RUN_OPTIONS

    values: dict[str, Any] = vars(arguments) | {"for": arguments.runtime, **_defaults(arguments)}
    values |= {"preprocess": notes.preprocess or None, "dtype": notes.dtype or None}
    if arguments.set:
        pairs = (each.split("=", 1) for each in arguments.set)
        values |= {"target": arguments.named_device, "set": [(key.strip(), value.strip()) for key, value in pairs]}
    held = {name: plain(values[name.replace("-", "_")]) for name in RUN_OPTIONS}
    return {name: value for name, value in held.items() if value is not None}


def _defaults(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that are not given but whose defaults are known, by their names among the arguments."""
    from qmlir.ir.budget import BUDGET
    from qmlir.settings.fields import ACTIVATIONS, FORMATS
    from qmlir.transforms.quantize.adjust.side_by_side import MEMORY

    defaults: dict[str, Any] = {"fold_budget": BUDGET, "memory_budget": MEMORY}
    match arguments.output.suffix if arguments.output is not None else "":
        case ".onnx":
            defaults["format"] = FORMATS[0]
            if arguments.format in (None, FORMATS[0]):
                defaults["onnx_activations"] = ACTIVATIONS[0]
        case ".tflite":
            defaults["format"] = "tflite"
        case ".o":
            defaults |= {"threads": 1, "cpu": None if arguments.triple else "native"}
        case _:
            pass
    found = {name: value for name, value in defaults.items() if getattr(arguments, name) is None}
    scored = arguments.labels is not None
    return found if scored else found | {"label_offset": arguments.label_offset or None}
