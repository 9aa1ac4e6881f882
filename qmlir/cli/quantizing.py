"""`qmlir profile`, `qmlir profile merge` and `qmlir quantize`: from ranges to a quantized network and its ledger."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.data import add_data_options, samples_of
from qmlir.cli.flags import ArgumentParser, choice, count, file_of, one_of
from qmlir.cli.models import load_known, load_model
from qmlir.cli.pass_list import OptionInfo, read_pass
from qmlir.cli.terminal import progress, say

# ---------------------------------------------------------------------------------------------------------------
# `qmlir profile` and `qmlir profile merge`: learn the ranges of tensors from data, and merge profiles.


if TYPE_CHECKING:
    from qmlir.profiles.profile import Profile

FORMATS = ("qmlir", "glow")


def add_profile_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir profile`."""
    add_data_options(parser, "calibration samples")
    parser.add_argument("--bins", type=count, default=2000, help="the most bins of a histogram (default: 2000)")
    parser.add_argument(
        "--per-channel", action="store_true", help="learn the same of each channel, along the last axis"
    )
    _add_output(parser)


def add_merge_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir profile merge`."""
    parser.add_argument("profiles", type=Path, nargs="+", metavar="PROFILE", help="profiles of parts of the data")
    _add_output(parser)


def _add_output(parser: ArgumentParser) -> None:
    parser.add_argument("--format", **one_of(FORMATS), help="whose format to write (default: qmlir)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .yaml file to write")


def run_profile(arguments: argparse.Namespace) -> None:
    """Learns the ranges of a network's tensors from samples."""
    from qmlir.compiler import main_function, profile
    from qmlir.ir.signature import signature_of

    module = load_known(arguments)
    samples = samples_of(arguments, signature_of(main_function(module)))
    taken = progress(samples, len(samples), "profiling")
    found = profile(module, taken, bins=arguments.bins, per_channel=arguments.per_channel)
    _write(found, arguments)


def run_merge(arguments: argparse.Namespace) -> None:
    """Merges profiles of parts of the data; in any order, the file equals that of one run over all data."""
    from qmlir.errors import FileError, ProfileError
    from qmlir.profiles.profile import Profile

    first, *rest = arguments.profiles
    merged = Profile.load(first)
    for path in rest:
        other = Profile.load(path)
        try:
            merged.merge(other)
        except ProfileError as error:
            raise FileError(path, error.need, got=error.got, remedy=error.remedy) from None
    _write(merged, arguments)


def _write(found: "Profile", arguments: argparse.Namespace) -> None:
    if arguments.format == "glow":
        from qmlir.profiles.files import save_glow

        save_glow(found, arguments.output)
    else:
        found.save(arguments.output)
    say(f"{arguments.output}: {len(found.tensors)} tensors over {found.samples} samples")
    for name, tensor in found.dead().items():
        if tensor.is_dead:
            say(f'  "{name}" never changes: all of it is {tensor.lo:g}')
        else:
            dead = tensor.dead_channels()
            shown = ", ".join(map(str, dead[:8])) + (", …" if len(dead) > 8 else "")
            say(f'  "{name}" has channels that never change: {len(dead)} of them ({shown})')


# ---------------------------------------------------------------------------------------------------------------
# `qmlir quantize`: turns options, profile and policy into a quantized network and its ledger.


if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.cli.samples import Samples
    from qmlir.ir.signature import Array
    from qmlir.policies.policy import Policy

CONFIG = "qmlir.policies.quant_config:QuantConfig"


def config_options() -> list[OptionInfo]:
    """Returns the quantizer's options, read from their source, since importing it takes long."""
    return read_pass(CONFIG)[1]


def add_quantize_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir quantize`."""
    add = parser.add_argument
    add("--profile", type=Path, help="a profile, of ours or of Glow's (default: the ranges in the IR)")
    add("--partial-profile", action="store_true", help="accept a profile that lacks some of the tensors")
    add("--profile-by-name", action="store_true", help="accept tensors that were computed in another way then")
    for option in config_options():
        flag, help = f"--{option.name}", f"{option.help} (default: {option.default})"
        if option.type == "bool":
            add(flag, action=argparse.BooleanOptionalAction, help=help)
        else:
            add(flag, **choice(option.type.split(" | ")), help=help)
    add("--per-tensor", dest="per_channel", action="store_false", default=None, help="the same as --no-per-channel")
    add("--policy", type=Path, help="rules for single operations, a .yaml file")
    add("--rule", action="append", default=[], help='one more rule: "name=conv1 precision=int16"; see the README')
    add("--print-config", action="store_true", help="print the policy that results, and where it holds, and stop")
    add_data_options(parser, "round weights and correct biases, layer by layer, on these samples", required=False)
    add("--target", metavar="DEVICE", help="what a device asks for: a device file, or one that comes with qmlir")
    add("--fail-on-float", action="store_true", help="refuse if an operation stays float")
    add("--ledger", type=Path, help="write the decision for each operation as JSON")
    add("-o", "--output", type=file_of(".mlir"), help="the .mlir file to write")


def run_quantize(arguments: argparse.Namespace) -> None:
    """Quantizes a network and prints the decision about each operation."""
    from qmlir.cli.ledger import print_decisions, write_ledger
    from qmlir.compiler import main_function, quantize, save
    from qmlir.errors import OptionError
    from qmlir.ir.signature import signature_of
    from qmlir.policies.ledger import decisions

    output: Path | None = arguments.output
    if output is None and not arguments.print_config:
        raise OptionError("command line", "the following arguments are required: -o/--output")
    policy = _policy(arguments)
    module = load_model(arguments)
    if output is None or arguments.print_config:
        _print_config(module, policy, arguments)
        return
    samples = samples_of(arguments, signature_of(main_function(module))) if arguments.data is not None else None
    report = _apply_profile(module, arguments) if arguments.profile is not None else []
    data = None if samples is None else _some(samples, module)
    options = _given(arguments) | {"fail_on_float": arguments.fail_on_float, "target": arguments.target}
    quantized = quantize(module, policy=policy, data=data, **options)
    entries = decisions(quantized)
    with write_ledger(entries, arguments.ledger):
        save(quantized, output)
    for line in report:
        say(line)
    print_decisions(entries)
    say(f"{output}: written")


def _some(samples: "Samples", module: "ModuleOp") -> "Iterator[Mapping[str, Array]]":
    """Returns as many samples as rounding can use, with a progress bar; warns if some samples stay unused."""
    from qmlir.transforms.quantize.side_by_side import samples_at_once, warn_of_fewer

    used = min(len(samples), samples_at_once(module))
    if used < len(samples):
        warn_of_fewer(module, used, len(samples))
    return progress(islice(samples, used), used, "rounding weights and correcting biases")


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the quantizer's options that the command line gives, by their names in Python."""
    named = [option.name.replace("-", "_") for option in config_options()]
    return {name: value for name in named if (value := getattr(arguments, name)) is not None}


def _policy(arguments: argparse.Namespace) -> "Policy":
    from qmlir.policies.policy import Policy, rule_of

    policy = Policy.load(arguments.policy) if arguments.policy is not None else Policy()
    return policy.with_rules([rule_of(text) for text in arguments.rule])


def _print_config(module: "ModuleOp", policy: "Policy", arguments: argparse.Namespace) -> None:
    """Prints the policy merged with the options as YAML, and as comments the operations that each rule matches."""
    from qmlir.compiler import Pipeline
    from qmlir.dialects.target import load_target
    from qmlir.policies.policy import conflicts
    from qmlir.transforms.quantize.apply_policy import apply_policy

    conflicts(policy.default, _given(arguments))
    whole = policy.with_default(_given(arguments))
    applied = apply_policy(Pipeline("simplify")(module), whole, load_target())
    sys.stdout.write(whole.text())
    for number, each in enumerate(applied, 1):
        say(f"# rule {number} holds for {', '.join(sorted(each.nodes)) or 'an input'}")


def _apply_profile(module: "ModuleOp", arguments: argparse.Namespace) -> list[str]:
    """Writes a profile's ranges on the model's observers; returns lines on its matches and gaps."""
    from qmlir.profiles.profile import Profile
    from qmlir.transforms.quantize.apply_profile import apply_profile

    return apply_profile(
        module,
        Profile.load(arguments.profile),
        source=str(arguments.profile),
        partial=arguments.partial_profile,
        by_name=arguments.profile_by_name,
        switch="--partial-profile",
    ).lines()
