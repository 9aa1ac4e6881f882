"""Parses the command line of `qmlir-opt` into a `Request`.

The flags of passes are removed before argparse sees the other arguments. Otherwise `--canonicalize model.mlir` would
take the file for the pass's value; and argparse does not keep the order of different flags.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.passes import ModulePass

from qmlir.cli.flags import PIPELINE_FLAG, ArgumentParser, argument_parser
from qmlir.cli.pipeline import Changes, Watch
from qmlir.errors import OptionError, near_misses
from qmlir.ir.option_parsing import PassSpec, build_pass, parse_options, parse_pipeline
from qmlir.ir.passes import known_passes, listed_name, pass_class, refuse_taken
from qmlir.ir.storage import TextForm
from qmlir.ir.weights import WeightsMode


@dataclass(frozen=True)
class Request:
    """The passes, files and flags of one `qmlir-opt` command line.

    input    a file, or `-` for standard input
    output   a file, or `-` for standard output
    form     the form in which the result is written
    loading  arguments of `load` for a model file
    """

    passes: tuple[ModulePass, ...]
    watch: Watch
    input: str
    output: str
    split_input_file: bool
    verify_diagnostics: bool
    verify_each: bool
    timing: bool
    form: TextForm
    allow_unregistered: bool
    loading: Mapping[str, Any]


def parse_arguments(argv: Sequence[str]) -> Request:
    """Returns the request of a command line.

    Raises:
        OptionError: A flag, a pass or a pass's option is unknown or has an unusable value; the error proposes similar
            names.
    """
    specs, rest = _split_off_passes(argv)
    for spec in specs:
        refuse_taken(spec.name)
    parser = argument_parser()
    flags, unknown = parser.parse_known_args(rest)
    if unknown:
        raise _unknown(unknown[0], parser)
    return Request(
        passes=tuple(build_pass(s, pass_class(s.name)) for s in specs),
        watch=Watch(
            _pass_names("--mlir-print-ir-before", flags.mlir_print_ir_before),
            _pass_names("--mlir-print-ir-after", flags.mlir_print_ir_after),
            flags.mlir_print_ir_before_all,
            flags.mlir_print_ir_after_all,
            _changes(flags.mlir_print_ir_after_change, flags.mlir_print_ir_diff),
        ),
        input=flags.input,
        output=flags.output,
        split_input_file=flags.split_input_file,
        verify_diagnostics=flags.verify_diagnostics,
        verify_each=flags.verify_each,
        timing=flags.mlir_timing,
        form=TextForm(
            flags.mlir_print_op_generic, flags.mlir_print_debuginfo, WeightsMode(flags.weights), flags.print_upstream
        ),
        allow_unregistered=flags.allow_unregistered_dialect,
        loading={
            "weights": flags.init_net,
            "shapes": dict(flags.shape),
            "inputs": flags.inputs,
            "outputs": flags.outputs,
        },
    )


def _split_off_passes(argv: Sequence[str]) -> tuple[list[PassSpec], list[str]]:
    """Returns the passes of a command line, in order, and all other arguments."""
    known = set(known_passes())
    specs: list[PassSpec] = []
    rest: list[str] = []
    arguments = iter(argv)
    for argument in arguments:
        flag, equals, value = argument.partition("=")
        name = flag.removeprefix("-").removeprefix("-")
        if not flag.startswith("-"):
            rest.append(argument)
        elif name == PIPELINE_FLAG:
            specs += parse_pipeline(value if equals else next(arguments, ""))
        elif listed_name(name) in known:
            specs.append(parse_options(listed_name(name), value))
        else:
            rest.append(argument)
    return specs, rest


def _changes(module: bool, lines: bool) -> Changes:
    return Changes.LINES if lines else Changes.MODULE if module else Changes.NOTHING


def _pass_names(flag: str, values: Sequence[str]) -> frozenset[str]:
    names = frozenset(listed_name(name.strip()) for value in values for name in value.split(","))
    known = set(known_passes())
    for name in sorted(names - known):
        raise OptionError(flag, f'there is no pass "{name}"', remedy=near_misses(name, known))
    return names


def _unknown(argument: str, parser: ArgumentParser) -> OptionError:
    flag = argument.partition("=")[0]
    if not flag.startswith("-"):
        return OptionError(argument, "there can be one input file only", remedy="drop this one")
    known = [*known_passes(), PIPELINE_FLAG, *parser.long_flags()]
    return OptionError(
        flag, "there is no such pass or flag", remedy=near_misses(flag.lstrip("-"), known, prefix="--") or "see --help"
    )
