"""`qmlir profile`, `qmlir profile merge` and `qmlir quantize`: from ranges to a quantized network and its ledger."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qmlir.cli.automatic import (
    Candidate,
    float_network_of,
    recipe_for_trial,
    require_measurable,
    save_policy,
    try_recipe,
    widen,
)
from qmlir.cli.configuration import print_configuration
from qmlir.cli.data import given_notes, samples_at, samples_of, stored_by
from qmlir.cli.device import target_text
from qmlir.cli.documents import add_json_option, ledger_fields, write_document
from qmlir.cli.flags import ArgumentParser, choice, count, one_of
from qmlir.cli.forms import add_form_options, check_form, write_form
from qmlir.cli.models import entries_of, load_known
from qmlir.cli.pass_list import read_pass
from qmlir.cli.prefix import behind_prefix, check_prefix
from qmlir.cli.printed_options import add_config_file_options
from qmlir.cli.quality import measure, measured_samples, print_quality, require_samples, without_aside
from qmlir.cli.scoring import add_scoring_options, held_out, print_comparison, wants_score
from qmlir.cli.terminal import counting, is_quiet, is_verbose, progress, say
from qmlir.cli.workers import add_worker_options, workers_from
from qmlir.display import counted
from qmlir.ir.option_text import OptionInfo
from qmlir.settings.fields import SAMPLES

# ---------------------------------------------------------------------------------------------------------------
# `qmlir profile` and `qmlir profile merge`: learn the ranges of tensors from data, and merge profiles.


if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.profiles.profile import Profile

FORMATS = ("qmlir", "glow")


def add_profile_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir profile`."""
    with parser.section("samples"):
        parser.add_options(*SAMPLES, "sequence", "prefix-data", what="calibration samples")
    with parser.section("without samples"):
        _add_data_free_options(parser)
    parser.add_argument("--bins", type=count, default=2000, help="the most bins of a histogram (default: 2000)")
    parser.add_argument(
        "--per-channel", action="store_true", help="learn the same of each channel, along the last axis"
    )
    (rotate,) = (option for option in config_options() if option.name == "rotate")
    _add_config_option(parser, rotate)
    add_worker_options(parser)
    _add_output(parser)
    add_config_file_options(parser)
    add_json_option(parser)


def _add_data_free_options(parser: ArgumentParser) -> None:
    help = "take ranges from the statistics of batch normalizations, of an .onnx file, in place of --data"
    parser.add_argument("--data-free", action="store_true", help=help)
    help = "with --data-free: the least and the greatest value of the input; of several inputs, one NAME=LO,HI for each"
    parser.add_argument("--input-range", action="append", metavar="LO,HI", help=help)
    help = "with --data-free: how many standard deviations from the mean ranges reach (default: 6)"
    parser.add_argument("--deviations", type=float, help=help)


def add_merge_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir profile merge`."""
    parser.add_argument("profiles", type=Path, nargs="+", metavar="PROFILE", help="profiles of parts of the data")
    _add_output(parser)
    add_json_option(parser)


def _add_output(parser: ArgumentParser) -> None:
    parser.add_argument("--format", **one_of(FORMATS), help="whose format to write (default: qmlir)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the .yaml file to write")


def run_profile(arguments: argparse.Namespace) -> None:
    """Learns the ranges of a network's tensors from samples."""
    from qmlir.compiler import main_function, profile
    from qmlir.ir.signature import signature_of
    from qmlir.samples.reading import in_sequences

    module = load_known(arguments)
    if is_data_free(arguments):
        _write(_data_free(module, arguments), arguments)
        return
    check_prefix(arguments, module, {})
    module, _ = behind_prefix(arguments, module, {})
    signature = signature_of(main_function(module))
    samples = samples_of(arguments, signature)
    options: dict[str, Any] = {"bins": arguments.bins, "per_channel": arguments.per_channel}
    options["rotate"] = arguments.rotate or "none"
    with workers_from(arguments) as workers:
        if workers.elsewhere and not signature.states:
            with counting(len(samples), "profiling") as done:
                found = profile(module, samples, **options, workers=workers, done=done)
        else:
            taken = in_sequences(progress(samples, len(samples), "profiling"), arguments.sequence, signature)
            found = profile(module, taken, **options)
    found.notes = given_notes(arguments)
    _write(found, arguments)


def is_data_free(arguments: argparse.Namespace) -> bool:
    """Whether to profile without samples.

    Raises:
        OptionError: There are neither samples nor `--data-free`, or both, or options of the other of the two.
    """
    from qmlir.errors import OptionError

    both = "give --data, or --data-free with --input-range"
    if not arguments.data_free:
        if arguments.data is None:
            raise OptionError("--data", "is needed", got="none", remedy=both)
        if arguments.input_range or arguments.deviations is not None:
            option = "--input-range" if arguments.input_range else "--deviations"
            raise OptionError(option, "goes with --data-free only", remedy=both)
        return False
    if arguments.data is not None or arguments.per_channel:
        option = "--per-channel" if arguments.data is None else "--data"
        raise OptionError("--data-free", f"cannot go with {option}", remedy=both)
    if not arguments.input_range:
        raise OptionError(
            "--data-free", "needs --input-range", got="none", remedy="give one, such as --input-range 0,1"
        )
    return True


def _data_free(module: "ModuleOp", arguments: argparse.Namespace) -> "Profile":
    """The ranges that follow from batch normalizations.

    Raises:
        OptionError: An `--input-range` is not LO,HI or NAME=LO,HI.
    """
    from qmlir.analysis.data_free import DEVIATIONS, profile_of
    from qmlir.errors import OptionError

    ranges: dict[str, tuple[float, float]] = {}
    for text in arguments.input_range:
        name, _, bounds = text.rpartition("=")
        try:
            low, high = map(float, bounds.split(","))
        except ValueError:
            raise OptionError("--input-range", "must be LO,HI or NAME=LO,HI", got=text) from None
        ranges[name] = low, high
    deviations = DEVIATIONS if arguments.deviations is None else arguments.deviations
    return profile_of(module, arguments.model, ranges.get("", ranges), deviations)


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
    say(f"{arguments.output}: {counted(len(found.tensors), 'tensor')} over {counted(found.samples, 'sample')}")
    dead = found.dead()
    for name, tensor in list(dead.items())[: None if is_verbose() else SHOWN]:
        if tensor.is_dead:
            say(f'  "{name}" never changes: all of it is {tensor.lo:g}')
        else:
            channels = tensor.dead_channels()
            shown = ", ".join(map(str, channels[:8])) + (", …" if len(channels) > 8 else "")
            say(f'  "{name}" has channels that never change: {len(channels)} of them ({shown})')
    if not is_verbose() and len(dead) > SHOWN:
        say(f"  and {len(dead) - SHOWN} more such tensors, which --verbose names")
    fields = {
        "model": None if arguments.subcommand == "profile merge" else str(arguments.model),
        "files": [str(arguments.output)],
        "samples": found.samples,
        "tensors": [
            {"name": n, "min": t.lo, "max": t.hi, "constant": t.is_dead, "constant_channels": t.dead_channels()}
            for n, t in found.tensors.items()
        ],
    }
    write_document(arguments, arguments.subcommand, fields)


SHOWN = 8
"""The most tensors that never change that `qmlir profile` names unless the user asks for details."""

# ---------------------------------------------------------------------------------------------------------------
# `qmlir quantize`: turns options, profile and policy into a quantized network and its ledger.


if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from qmlir.ir.replayed import Replayed
    from qmlir.samples.files import Samples
    from qmlir.settings.policy import Policy
    from qmlir.settings.quant_config import Effort

CONFIG = "qmlir.settings.quant_config:QuantConfig"


def config_options() -> list[OptionInfo]:
    """Returns the quantizer's options, read from their source, since importing it takes long."""
    return read_pass(CONFIG)[1]


def add_quantize_options(parser: ArgumentParser) -> None:
    """Adds the options of `qmlir quantize`; those in settings/fields.py can stand in a policy's file, too."""
    add = parser.add_argument
    parser.add_options(
        "entries", "prefix-data", "prefix-entry", "profile", "save-profile", "partial-profile", "profile-by-name"
    )
    with parser.section("how to quantize"):
        add_config_options(parser)
        parser.add_options("save-policy", "auto-seconds")
    help = "a .yaml file of rules for single operations, which may hold all other options, too: what --print-config "
    help += "prints; options of the command line win"
    add("--policy", type=Path, help=help)
    rule = 'one more rule: "name=conv1 precision=int16"; "Rules for single layers" in docs/quantization.md says what '
    rule += "rules may hold"
    add("--rule", action="append", default=[], help=rule)
    add(
        "--print-config",
        action="store_true",
        help="print all options in effect as a file for --policy, and where rules hold, and stop",
    )
    what = "learn ranges, round weights and correct biases, layer by layer, on these samples"
    with parser.section("samples"):
        parser.add_options(*SAMPLES, "sequence", "memory-budget", what=what)
    with parser.section("scores"):
        add_scoring_options(parser, splits=True)
        parser.add_options("measure")
    parser.add_options("for", "target", "set", "fail-on-float", "ledger", what="what a device asks for")
    add_form_options(parser)
    add_json_option(parser)


def add_config_options(parser: ArgumentParser) -> None:
    """Adds the quantizer's options, one for each field of `QuantConfig`."""
    for option in config_options():
        _add_config_option(parser, option)
    help = "the same as --no-per-channel"
    parser.add_argument("--per-tensor", dest="per_channel", action="store_false", default=None, help=help)


def _add_config_option(parser: ArgumentParser, option: OptionInfo) -> None:
    """Adds an option of the quantizer."""
    flag, help = f"--{option.name}", f"{option.help} (default: {option.default})"
    if option.type == "bool":
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=help)
    else:
        parser.add_argument(flag, **choice(option.type.split(" | ")), help=help)


def _with_interface(module: "ModuleOp", io: str | None) -> "ModuleOp":
    """Returns the network that is written, which takes and gives what `--io` says."""
    from qmlir.compiler import with_interface

    return module if io is None else with_interface(module, io)


def run_quantize(arguments: argparse.Namespace) -> None:
    """Quantizes a network and prints the decision about each operation."""
    from qmlir.analysis.auto_precision import without_auto
    from qmlir.analysis.counts import decided
    from qmlir.analysis.entries import check_entries
    from qmlir.cli.ledger import print_decisions, write_ledger
    from qmlir.compiler import give_ranges, main_function, rotate
    from qmlir.errors import OptionError
    from qmlir.ir.signature import signature_of
    from qmlir.settings.resolve import resolve
    from qmlir.transforms.quantize.prepare.before_ranges import check_before_ranges
    from qmlir.transforms.quantize.prepare.recipes import with_recipe

    output: Path | None = arguments.output
    if output is None and not arguments.print_config:
        raise OptionError("command line", "the following arguments are required: -o/--output")
    if output is not None:
        check_form(arguments)
        require_samples(arguments)
    policy = _policy(arguments)
    entries = entries_of(arguments)
    module = next(iter(entries.values()), None) or load_known(arguments)
    if output is None or arguments.print_config:
        notes = given_notes(arguments).over(stored_by((module, arguments.model), profile=arguments.profile)()[0])
        print_configuration(module, policy, given_settings(arguments), arguments, notes)
        return
    check_prefix(arguments, module, entries)
    signature = signature_of(main_function(module))
    stored = stored_by((module, arguments.model), profile=arguments.profile)
    paths = (arguments.data, arguments.test_data)
    samples, tests = (None if p is None else samples_at(p, arguments, signature, stored) for p in paths)
    everything, trial = samples, None
    if wants_score(arguments):
        if signature.states and tests is None:
            need = "must be of other samples than a network with states is quantized on, which follow one another"
            raise OptionError("labels", need, remedy="give these samples as --test-data")
        samples, trial = held_out(arguments, samples, tests, signature)
    elif samples is not None:
        samples = without_aside(arguments, module, samples, tests)
    measured, unseen = measured_samples(everything, samples, tests if trial is None else trial.samples)
    policy, settings_given, automatic = without_auto(policy, given_settings(arguments))
    require_measurable(arguments, automatic)
    if entries:
        check_entries(entries, {"target": arguments.target}, policy, automatic=automatic)
    settings = resolve(policy, settings_given, runtime=arguments.runtime, target=arguments.target)
    check_before_ranges(module, policy, settings)
    module, entries = behind_prefix(arguments, module, entries)
    candidate = recipe_for_trial(arguments, module, measured, settings)
    rotate(module, with_recipe(module, policy, settings, ranged=arguments.profile is not None)[1].config().rotate)
    report, calls = _ranges(module, samples, arguments)
    data = None if samples is None else _some(samples, calls, module, arguments, settings.config().effort, report)
    options: dict[str, Any] = {"fail_on_float": arguments.fail_on_float, "target": arguments.target}
    options["runtime"] = arguments.runtime
    notes = stored()[0] if samples is None else given_notes(arguments).over(stored()[0])
    options |= {"memory_budget": arguments.memory_budget, "preprocess": notes.preprocess, "dtype": notes.dtype}
    several = list(data) if automatic and isinstance(data, Iterator) else None
    given = data if several is None else give_ranges(module, None, several)  # for all attempts

    make = partial(_quantized, module, entries, given, options, candidate, samples)
    widened, known = None, None
    if automatic and measured is not None:
        used, seconds = samples if unseen else None, arguments.auto_seconds
        widened = widen(module, make, measured, used, policy, settings_given, seconds, candidate)
        made = widened.quantized
    else:
        made = make(policy, settings_given)
        made, known = try_recipe(candidate, (module, made), make, policy, settings_given, unseen, report)
    float_network = float_network_of(candidate, module, made)
    quantized = _first_entry(made, entries)
    network = decided(quantized)
    for line in _with_remarks(report, float_network, quantized):
        say(line)
    print_decisions(network)
    found_quality = measure(arguments, (float_network, quantized), measured, unseen, known)
    with write_ledger(network, output, arguments.ledger):
        written = write_form(_with_interface(made, arguments.io), arguments)
        save_policy(arguments, widened)
    accuracy = None
    if trial is not None:
        from qmlir.analysis.scores import score

        taken = progress(trial.samples, len(trial.samples), "scoring")
        print_comparison(found := score(module, quantized, taken, trial.labels, metric=trial.metric), trial)
        accuracy = found.as_dict()
    quality = print_quality(found_quality, widened)
    speed = _print_speed(arguments, module, quantized, written.files)
    others = [path for path in (arguments.ledger, arguments.save_profile, arguments.save_policy) if path is not None]
    fields = {"model": str(arguments.model), "files": [str(f) for f in (*written.files, *others)]}
    fields = {**fields, "target": target_text(arguments), "remarks": report, "accuracy": accuracy}
    fields |= {
        "auto": None if widened is None else widened.as_dict(),
        "quality": quality,
        "speed": speed,
        "code": written.code,
        "program": written.program,
    }
    write_document(arguments, "quantize", fields | ledger_fields(network))


def _with_remarks(report: list[str], module: "ModuleOp", quantized: "ModuleOp") -> list[str]:
    """Adds to the report what was quantized already, and a known kind of networks and its recipe; returns it."""
    from qmlir.dialects.nn.quantizable import QuantizableOp
    from qmlir.dialects.quant.types import quantized_element
    from qmlir.settings.recorded import recorded_config
    from qmlir.transforms.quantize.prepare.recipes import recognized

    of_network = [op for op in module.walk() if isinstance(op, QuantizableOp)]
    before = sum(any(quantized_element(v.type) is not None for v in op.results) for op in of_network)
    if before:
        report.append(f"{before} of {len(of_network)} operations were quantized already: they keep types and scales")
    if (kind := recognized(module)) is not None:
        report.append(kind.text(recorded_config(quantized).recipe))
    return report


def _quantized(
    module: "ModuleOp", entries: Mapping[str, "ModuleOp"], data: Any, options: dict[str, Any],
    candidate: Candidate | None, samples: "Samples | None", policy: "Policy", settings: Mapping[str, Any],
) -> "ModuleOp":  # fmt: skip
    """Quantizes the network, or its entries together; a recipe that is tried learns ranges of its own."""
    from qmlir.analysis.entries import quantize_entries
    from qmlir.compiler import quantize

    if candidate is not None and candidate.is_asked_for(policy):
        return quantize(candidate.module, policy=policy, data=samples, **options, **settings)
    if entries:
        return quantize_entries(entries, None, data, policy, settings, options)
    return quantize(module, policy=policy, data=data, **options, **settings)


def _first_entry(module: "ModuleOp", entries: Mapping[str, object]) -> "ModuleOp":
    """Returns the network that is measured and scored: the first entry, if there are several."""
    from qmlir.ir.entries import entry_of

    return entry_of(module.clone(), next(iter(entries))) if entries else module


def _print_speed(
    arguments: argparse.Namespace, module: "ModuleOp", quantized: "ModuleOp", files: Sequence[Path]
) -> dict[str, object] | None:
    """Prints whether the runtime that `--for` names is faster on integers; returns the figures for the document."""
    if arguments.runtime is None or (is_quiet() and arguments.json is None):
        return None
    from qmlir.analysis.runtime_speed import NotMeasuredError, runtime_speed

    try:
        speed = runtime_speed(module, quantized, next((f for f in files if f.suffix == ".onnx"), None))
    except NotMeasuredError as why:
        say(f"the speed in {arguments.runtime} was not measured: {why}")
        return None
    say(speed.text())
    return speed.as_dict()


def _some(
    samples: "Samples",
    calls: "Replayed | None",
    module: "ModuleOp",
    arguments: argparse.Namespace,
    effort: "Effort",
    report: list[str],
) -> "Replayed | Iterator[Any]":
    """Returns as many samples as fit into memory; the report gets a line on those that layers are adjusted on.

    Args:
        samples: The samples.
        calls: The calls of a network with states that these samples were; None if ranges were not learned from them.
        module: The network.
        arguments: The command line.
        effort: How much time decisions on data may take.
        report: Receives the line.

    Returns:
        Calls, or samples that are read with a progress bar.
    """
    from qmlir.compiler import main_function
    from qmlir.ir.signature import signature_of
    from qmlir.samples.reading import in_sequences
    from qmlir.transforms.quantize.adjust.enough_samples import enough_samples
    from qmlir.transforms.quantize.adjust.side_by_side import samples_at_once, warn_of_fewer

    budget = arguments.memory_budget
    used = min(len(samples), samples_at_once(module, budget))
    if used < len(samples):
        warn_of_fewer(module, used, len(samples), budget)
    enough = int(min(used, enough_samples(module, effort)))
    share = counted(enough, "sample") if enough == len(samples) else f"{enough} of {len(samples)} samples"
    report.append(f"weights rounded and biases corrected on {share}")
    if calls:
        return calls[:used]
    taken = progress(islice(samples, used), used, "rounding weights and correcting biases")
    return iter(in_sequences(taken, arguments.sequence, signature_of(main_function(module))))


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the quantizer's options that the command line gives, by their names in Python."""
    named = [option.name.replace("-", "_") for option in config_options()]
    return {name: value for name in named if (value := getattr(arguments, name)) is not None}


def _policy(arguments: argparse.Namespace) -> "Policy":
    from qmlir.settings.policy import Policy, rule_of

    policy = Policy.load(arguments.policy) if arguments.policy is not None else Policy()
    return Policy(policy.default, policy.rules).with_rules([rule_of(text) for text in arguments.rule])


def _ranges(
    module: "ModuleOp", samples: "Samples | None", arguments: argparse.Namespace
) -> "tuple[list[str], Replayed | None]":
    """Writes a profile's ranges on the model's observers: that given, or one of the samples if the model has none.

    Returns:
        Lines on what the profile is of, its matches and its gaps; and the calls of a network with states, if ranges
        were learned from its samples.
    """
    from qmlir.compiler import main_function, profile_and_calls
    from qmlir.errors import OptionError
    from qmlir.ir.signature import signature_of
    from qmlir.numerics.halves import HALVES
    from qmlir.profiles.profile import Profile
    from qmlir.samples.reading import in_sequences
    from qmlir.transforms.quantize.quantize import lacks_ranges, learns_ranges
    from qmlir.transforms.quantize.ranges.apply_profile import apply_profile

    path, output, calls = arguments.profile, arguments.save_profile, None
    learns = path is None and samples is not None and learns_ranges(module)
    if output is not None and not learns:
        got = "no --data" if samples is None else "ranges that are known already"
        raise OptionError("--save-profile", "keeps what is learned from --data", got=got)
    if learns:
        assert samples is not None
        signature = signature_of(main_function(module))
        found, calls = profile_and_calls(
            module, in_sequences(progress(samples, len(samples), "profiling"), arguments.sequence, signature)
        )
        found.notes = given_notes(arguments)
    elif path is not None:
        found = Profile.load(path)
    elif (
        lacks_ranges(module) and arguments.policy is None and not arguments.rule  # a policy may hold ranges
        and arguments.precision not in HALVES  # which need none
    ):  # fmt: skip
        need, remedy = "must give samples, from which the ranges of tensors are learned", "or give --profile"
        raise OptionError("--data", need, got="neither samples nor a profile", remedy=remedy)
    else:
        return [], None
    applied = apply_profile(
        module,
        found,
        source="profile" if path is None else str(path),
        partial=arguments.partial_profile,
        by_name=arguments.profile_by_name,
        switch="--partial-profile",
    )
    if not learns:
        return applied.lines(), None
    lines = [f"ranges of {counted(len(found.tensors), 'tensor')}, learned from {counted(found.samples, 'sample')}"]
    if output is not None:
        found.save(output)
        lines.append(f"{output}: written")
    return lines, calls
