"""`qmlir.quantize`: quantizes a network, and measures what came out.

`quantize` of compiler.py makes the network. Here stands what needs a float and a quantized network side by side: which
samples are kept aside, what is measured on them, the warning about an output that is worse than its bits allow, the
trial of a recipe where outputs lack decibels, and the precision `auto`.
"""

from collections.abc import Iterator, Mapping, Sized
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.auto_precision import Widened, widened, without_auto
from qmlir.analysis.quality import (
    Quality,
    chosen_samples,
    kept_aside,
    measured,
    picked,
    record_quality,
    warn_of_quality,
)
from qmlir.analysis.recipe_trial import tried
from qmlir.analysis.target import reached
from qmlir.compiler import give_ranges, load, loaded, main_function, rotate, with_interface
from qmlir.compiler import quantize as quantized_by
from qmlir.errors import OptionError, QmlirError
from qmlir.frontends.torch_modules import TorchModule, example_for, is_torch_module
from qmlir.ir.callable_network import Calibration
from qmlir.ir.garbage import collected_rarely
from qmlir.ir.states import states_of
from qmlir.samples.files import Samples
from qmlir.settings import arguments
from qmlir.settings.arguments import Network
from qmlir.settings.policy import Policy
from qmlir.settings.quant_config import QuantOptions, config_of
from qmlir.settings.resolve import resolve
from qmlir.transforms.quantize.prepare.before_ranges import check_before_ranges
from qmlir.transforms.quantize.prepare.recipes import recipe_to_try, with_recipe
from qmlir.transforms.quantize.quantize import learns_ranges

if TYPE_CHECKING:
    from qmlir.devices import Accelerator
    from qmlir.profiles.profile import Profile


@collected_rarely
def quantize(
    module: "Network | TorchModule | Mapping[str, Network]",
    profile: "Profile | str | Path | None" = None,
    *,
    data: Calibration | None = None,
    fail_on_float: bool | None = None,
    policy: "Policy | Mapping[str, Any] | str | Path | None" = None,
    target: "Accelerator | None" = None,
    runtime: str | None = None,
    preprocess: str | None = None,
    dtype: str | None = None,
    memory_budget: int | None = None,
    io: str | None = None,
    example: Any = None,
    measure: bool | None = None,
    tests: Calibration | None = None,
    auto_seconds: int | None = None,
    **options: Unpack[QuantOptions],
) -> ModuleOp:
    """Returns a network on quantized types, made from a float network and the ranges of its tensors.

    Args:
        module: A float network, its path, or a `torch.nn.Module`; it stays unchanged. A dict of networks by name makes
            them entries of one network that share weights and states, such as {"prefill": …, "decode": …}: one model
            with other sizes, quantized as the first of them, of which profile and samples are.
        profile: The ranges, or the path of a profile; None if the module's observers hold them, or if `data` are to be
            profiled first.
        data: Samples, as for profiling. They serve to equalize channels, to find inputs that are integers times a
            step, to round weights and to correct biases layer by layer. None skips all of this. If neither a profile
            nor the module has ranges, they are learned from these samples. Of 16 samples and more from which ranges
            are learned, one in eight is kept aside to measure the network on.
        fail_on_float: Whether to raise an error if an operation stays float.
        policy: Rules for single operations, the same as plain data, or the path of a file of rules; its options, such
            as data and target, are the arguments that are left out here.
        target: A device, its name, or the path of its file. The device's requirements become the defaults, and an
            option that the device does not support is an error. The module keeps the device, so that `reference` and
            `compile` round as the device does.
        runtime: The runtime that the network is quantized for, whose defaults for other options then hold:
            "onnxruntime" (its fastest kernels exact on every x86 processor: unsigned activations, weights of 7 bits).
        preprocess: How pictures became these samples, as `qmlir --preprocess` reads it. The module keeps the text, and
            commands that read pictures for the module follow it. By default, it is what samples of
            `qmlir.read_samples` or the profile say.
        dtype: The element type in which raw files hold these samples; the module keeps it in the same way.
        memory_budget: Bytes that the values of all samples may take while weights are rounded and biases are corrected;
            a warning says if this allows fewer samples than given. By default 512 MiB.
        io: What the quantized network takes and gives: "int8", "uint8" or "int16", with the network's own scales and
            zero points, or "float". By default, floats stay floats.
        example: What a module of PyTorch is called with, as for `load`; by default the first of the samples.
        measure: Whether to measure the network on the data: `qmlir.quality` then returns what was found, and a
            `QualityWarning` names each output that reaches less than half of the decibels that its bits allow. Where an
            output is below 30 dB, the recipe of the network's kind is tried, if it has one, and the better network is
            returned; recipe="none" forbids it. Without, no sample is kept aside, and no recipe tried.
        tests: Samples to measure on, in place of those of the data.
        auto_seconds: The seconds of processor time after which the search of `precision="auto"` begins no further
            quantization; 600 by default.
        **options: The fields of `QuantConfig` (settings/quant_config.py), which says what each of them means: schema,
            precision, weight_precision, calibration, per_channel, granularity, bias, rounding, residuals, glow_exact.
            An option of None has its default, or what the target asks for.

    >>> import qmlir
    >>> q = qmlir.quantize("digits.onnx", data=samples, schema="symmetric")
    >>> {entry.outcome for entry in qmlir.decisions(q)}
    {'quantized'}
    """
    rules = arguments.policy_given(policy)
    measures = True if measure is None else arguments.flag_given("measure", measure)
    seconds = None if auto_seconds is None else arguments.count_given("auto_seconds", auto_seconds)
    if isinstance(module, Mapping):
        from qmlir.analysis.entries import quantize_entries

        own: dict[str, Any] = {"fail_on_float": fail_on_float, "target": target, "runtime": runtime}
        own |= {"preprocess": preprocess, "dtype": dtype, "memory_budget": memory_budget}
        part, measuring = (partial(parted, learns=True), measure_on) if measures else (None, None)
        return quantize_entries(
            module, profile, data, rules, options, own, io=io, part=part, measure=measuring, tests=tests
        )
    if is_torch_module(module):
        module = load(module, example=example_for(module, data, example))
    if rules.options:
        from qmlir.running.held_options import arguments_of, loading_of

        network = loaded(module) if isinstance(module, ModuleOp) else load(module, **loading_of(rules.options))
        own: dict[str, Any] = {"fail_on_float": fail_on_float, "target": target, "runtime": runtime, "io": io}
        own |= {"measure": measure, "tests": tests, "auto_seconds": auto_seconds}
        own |= {"data": data, "preprocess": preprocess, "dtype": dtype, "memory_budget": memory_budget, **options}
        return quantize(policy=Policy(rules.default, rules.rules), **arguments_of(network, profile, rules.options, own))
    network = loaded(module)
    given: dict[str, Any] = {"fail_on_float": fail_on_float, "target": target, "runtime": runtime}
    given |= {"preprocess": preprocess, "dtype": dtype, "memory_budget": memory_budget}
    rules, asked, automatic = without_auto(rules, options)
    if automatic:
        found = _automatic(network, profile, data, rules, asked, given, measures=measures, tests=tests, seconds=seconds)
        record_quality(found.quantized, found.quality)
        warn_of_quality(found.quality, found.repair)
        return found.quantized if io is None else with_interface(found.quantized, io)
    used, aside = list(data) if isinstance(data, Iterator) and measures else data, tests
    learns = profile is None and data is not None and learns_ranges(network)
    if used is not None and tests is None and measures:
        used, aside = parted(network, used, learns=learns)
    quantized = quantized_by(network, profile, data=used, policy=rules, **given, **asked)
    quality = quality_on(network, quantized, used, aside) if measures else None
    if quality is not None and not reached(quality) and learns:
        settings = resolve(rules, asked, base=config_of(network), runtime=runtime, target=target)
        if (recipe := recipe_to_try(network, settings)) is not None:
            following = rules.with_default({"recipe": recipe})
            trial = tried(
                recipe,
                (quantized, quality),
                lambda: quantized_by(network, data=used, policy=following, **given, **asked),
                lambda made: quality_on(network, made, used, aside),
            )
            quantized, quality = trial.quantized, trial.quality
    _tell(quantized, quality)
    return quantized if io is None else with_interface(quantized, io)


def _automatic(
    module: ModuleOp, profile: "Profile | str | Path | None", data: Calibration | None, policy: Policy,
    options: Mapping[str, Any], given: Mapping[str, Any], *, measures: bool, tests: Calibration | None,
    seconds: int | None,
) -> Widened:  # fmt: skip
    """Quantizes a network by `precision=auto`; see auto_precision.py."""
    if data is None or not measures:
        got = "no data" if data is None else "measure=False"
        remedy = "give data, and leave measure out"
        raise OptionError("precision", "auto measures the network on samples", got=got, remedy=remedy)
    settings = resolve(policy, options, runtime=given["runtime"], target=given["target"])
    check_before_ranges(module, policy, settings)
    learns = profile is None and learns_ranges(module)
    held = list(data) if isinstance(data, Iterator) else data
    used, aside = parted(module, held, learns=learns) if tests is None else (held, tests)
    recipe = recipe_to_try(module, settings) if learns else None
    ranged = module.clone()
    rotate(ranged, with_recipe(ranged, policy, settings, ranged=not learns)[1].config().rotate)
    calls = give_ranges(ranged, profile, used)  # once for all attempts
    held_out = aside is not None and is_unseen(aside, used)
    samples = chosen_samples(module, used if aside is None else aside, held_out=held_out)

    def make(policy: Policy, options: Mapping[str, Any]) -> ModuleOp:
        if recipe is not None and policy.default.get("recipe") == recipe:  # it rotates before ranges are learned
            return quantized_by(module, data=used, policy=policy, **given, **options)
        return quantized_by(ranged, data=calls, policy=policy, **given, **options)

    seen = chosen_samples(module, used, held_out=False) if held_out else []
    return widened(module, make, samples, policy, options, held_out=held_out, seen=seen, seconds=seconds, recipe=recipe)


def parted(module: ModuleOp, data: Calibration, *, learns: bool) -> tuple[Calibration, Calibration | None]:
    """Returns the samples to quantize on, and others: those that their files hold beside them, or that are kept aside.

    There are none, None, if the samples are too few.

    Args:
        module: The float network.
        data: All samples.
        learns: Whether ranges are learned from these samples; an earlier profile may have seen all of them.
    """
    held = list(arguments.samples_given(data)) if isinstance(data, Iterator) else data
    if isinstance(held, Samples) and (others := held.others()):
        return held, held.of(others)
    count = len(held) if learns and isinstance(held, Sized) else 0
    if states_of(main_function(module)) and not (
        isinstance(held, list) and all(isinstance(s, list | tuple) for s in held)
    ):
        count = 0  # samples follow one another
    aside = kept_aside(module, count)
    if not aside:
        return held, None
    used = sorted({*range(count)} - {*aside})
    return picked(held, used), picked(held, aside)


def is_unseen(tests: Calibration, used: Calibration | None) -> bool:
    """Whether quantization has not seen the samples to measure on, as far as files and objects tell."""
    if isinstance(tests, Samples) and isinstance(used, Samples):
        return tests.path.resolve() != used.path.resolve() or not {*tests.chosen} & {*used.chosen}
    return tests is not used


def measure_on(module: ModuleOp, quantized: ModuleOp, used: Calibration | None, aside: Calibration | None) -> None:
    """Measures a network, writes the quality on it, and warns; a network that cannot be evaluated is not measured."""
    _tell(quantized, quality_on(module, quantized, used, aside))


def quality_on(
    module: ModuleOp, quantized: ModuleOp, used: Calibration | None, aside: Calibration | None
) -> Quality | None:
    """Returns how far a network's outputs are from float's; None without samples, or if it cannot be evaluated."""
    samples = used if aside is None else aside
    if samples is None:
        return None
    held_out = aside is not None and is_unseen(aside, used)
    try:
        return measured(module, quantized, chosen_samples(module, samples, held_out=held_out), held_out=held_out)
    except QmlirError:
        return None


def _tell(quantized: ModuleOp, found: Quality | None) -> None:
    """Writes on a network how far its outputs are from float's, and warns of outputs that are below their bits."""
    if found is not None:
        record_quality(quantized, found)
        warn_of_quality(found)
