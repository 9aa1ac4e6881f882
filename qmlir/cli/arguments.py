"""The command line of `qmlir-opt`: arguments in, a `Request` out.

The flags of passes are taken out before argparse sees the rest: `--canonicalize model.mlir` would otherwise take the
file for the pass's value, and argparse does not keep the order of different flags.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import NoReturn

from xdsl.passes import ModulePass
from xdsl.transforms import get_all_passes

from qmlir.cli.options import PassSpec, build_pass, parse_options, parse_pipeline
from qmlir.cli.pass_list import pass_list
from qmlir.cli.pipeline import Watch
from qmlir.compiler import PASSES, pass_class
from qmlir.dialects.weights import WeightsMode
from qmlir.errors import OptionError
from qmlir.near_misses import near_misses

_PIPELINE = "pass-pipeline"


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    message  text to print instead of doing anything (help, the list of passes), or None
    input    a file, or `-` for standard input
    output   a file, or `-` for standard output
    """

    message: str | None
    passes: tuple[ModulePass, ...]
    watch: Watch
    input: str
    output: str
    split_input_file: bool
    verify_diagnostics: bool
    verify_each: bool
    timing: bool
    generic: bool
    debuginfo: bool
    weights: WeightsMode
    allow_unregistered: bool


def wants_debug(argv: Sequence[str]) -> bool:
    """Whether a bug should show its traceback; asked before anything can go wrong."""
    return "--debug" in argv or os.environ.get("QMLIR_DEBUG", "0") not in ("", "0")


def parse_arguments(argv: Sequence[str]) -> Request:
    """The request that a command line makes.

    Raises:
        OptionError: A flag, a pass or a pass's option is unknown or has an unusable value; near misses are named.
    """
    specs, rest = _split_off_passes(argv)
    parser = _argument_parser()
    flags, unknown = parser.parse_known_args(rest)
    if unknown:
        raise _unknown(unknown[0], parser)
    message = None
    if flags.help:
        message = parser.format_help() + "\n" + pass_list(with_xdsl=False)
    elif flags.list_passes:
        message = pass_list(with_xdsl=True)
    elif flags.version:
        message = f"qmlir {version('qmlir')} (xDSL {version('xdsl')})\n"
    return Request(
        message=message,
        passes=tuple(build_pass(s, pass_class(s.name)) for s in specs),
        watch=Watch(
            _pass_names("--mlir-print-ir-before", flags.mlir_print_ir_before),
            _pass_names("--mlir-print-ir-after", flags.mlir_print_ir_after),
            flags.mlir_print_ir_before_all,
            flags.mlir_print_ir_after_all,
        ),
        input=flags.input,
        output=flags.output,
        split_input_file=flags.split_input_file,
        verify_diagnostics=flags.verify_diagnostics,
        verify_each=flags.verify_each,
        timing=flags.mlir_timing,
        generic=flags.mlir_print_op_generic,
        debuginfo=flags.mlir_print_debuginfo,
        weights=flags.weights,
        allow_unregistered=flags.allow_unregistered_dialect,
    )


def _split_off_passes(argv: Sequence[str]) -> tuple[list[PassSpec], list[str]]:
    """The passes asked for, in order, and all other arguments."""
    known = {*PASSES, *get_all_passes()}
    specs: list[PassSpec] = []
    rest: list[str] = []
    arguments = iter(argv)
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        name = flag.removeprefix("-").removeprefix("-")
        if not flag.startswith("-"):
            rest.append(argument)
        elif name == _PIPELINE:
            specs += parse_pipeline(value if equals else next(arguments, ""))
        elif name in known:
            specs.append(parse_options(name, value))
        else:
            rest.append(argument)
    return specs, rest


def _pass_names(flag: str, values: Sequence[str]) -> frozenset[str]:
    names = frozenset(name.strip() for value in values for name in value.split(","))
    known = {*PASSES, *get_all_passes()}
    for name in sorted(names - known):
        raise OptionError(flag, f'there is no pass "{name}"', remedy=near_misses(name, known))
    return names


def _unknown(argument: str, parser: "_ArgumentParser") -> OptionError:
    flag = argument.partition("=")[0]
    if not flag.startswith("-"):
        return OptionError(argument, "there can be one input file only", remedy="drop this one")
    known = [*PASSES, *get_all_passes(), _PIPELINE, *parser.long_flags()]
    return OptionError(
        flag, "there is no such pass or flag", remedy=near_misses(flag.lstrip("-"), known, prefix="--") or "see --help"
    )


# ---------------------------------------------------------------------------------------------------------------
# The fixed flags


class _ArgumentParser(argparse.ArgumentParser):
    """argparse without its exits: a wrong command line is an `OptionError`."""

    def error(self, message: str) -> NoReturn:
        raise OptionError("command line", message.removeprefix("argument "))

    def long_flags(self) -> list[str]:
        """The names of all flags, without dashes."""
        return [s[2:] for action in self._actions for s in action.option_strings if s.startswith("--")]


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false, got {text}")
    return text == "true"


def _argument_parser() -> _ArgumentParser:
    parser = _ArgumentParser(
        prog="qmlir-opt",
        usage="qmlir-opt [--PASS[=OPTIONS] …] [FLAGS] [FILE]",
        description="Run passes over MLIR text (or a model file) and print the result. Passes run in the order given.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=34, width=118),
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help="a .mlir or .onnx file; - or none: stdin")
    switches = parser.add_argument_group("flags")

    def switch(name: str, help: str) -> None:
        switches.add_argument(name, action="store_true", help=help)

    switches.add_argument(f"--{_PIPELINE}", metavar="TEXT", help="passes in order: 'builtin.module(a{x=1 y=2},b)'")
    switches.add_argument("-o", dest="output", metavar="FILE", default="-", help="write here instead of stdout")
    switch("--split-input-file", "treat the pieces between lines `// -----` as files of their own")
    switch("--verify-diagnostics", "check errors against the file's expected-error comments instead of printing them")
    switches.add_argument(
        "--verify-each", type=_truth, default=True, metavar="BOOL", help="verify after each pass (default: true)"
    )
    for when in ("before", "after"):
        switches.add_argument(
            f"--mlir-print-ir-{when}",
            action="append",
            default=[],
            metavar="PASS",
            help=f"print the IR to stderr {when} a pass",
        )
        switch(f"--mlir-print-ir-{when}-all", f"print the IR to stderr {when} each pass")
    switch("--mlir-timing", "print to stderr where the time went")
    switch("--mlir-print-op-generic", "print operations in the generic form")
    switch("--mlir-print-debuginfo", "print the location of each operation")
    for flag, mode, help in (
        ("--inline-weights", WeightsMode.INLINE, "print large weights as hexadecimal text, not to a side file"),
        ("--elide-weights", WeightsMode.ELIDED, "leave large weights out; such text cannot be read back"),
    ):
        switches.add_argument(flag, dest="weights", action="store_const", const=mode, help=help)
    parser.set_defaults(weights=WeightsMode.SIDE_FILE)
    switch("--allow-unregistered-dialect", "accept operations nobody registered, in the generic form")
    switch("--list-passes", "list the passes with their options and stop")
    switch("--debug", "show the traceback of a bug (also: QMLIR_DEBUG=1)")
    switch("--version", "print versions and stop")
    switch("--help", "print this and stop")
    switches.add_argument("-h", dest="help", action="store_true", help=argparse.SUPPRESS)
    return parser
