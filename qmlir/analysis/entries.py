"""Quantizes the entries of one network together, so that they share weights and states (ir/entries.py)."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp

from qmlir import stages
from qmlir.analysis.auto_precision import without_auto
from qmlir.compiler import Pipeline, give_ranges, loaded, rotate, with_interface
from qmlir.compiler import quantize as quantized_by
from qmlir.errors import OptionError
from qmlir.ir.callable_network import Calibration
from qmlir.ir.context import make_context
from qmlir.ir.entries import joined, signatures_of
from qmlir.ir.verify import verify
from qmlir.settings.arguments import Network
from qmlir.settings.policy import Policy
from qmlir.settings.recorded import RULES, recorded_quantizer
from qmlir.settings.resolve import resolve
from qmlir.transforms.quantize.entries import FirstEntry, adopt_parameters, adopt_ranges
from qmlir.transforms.quantize.prepare.before_ranges import check_before_ranges
from qmlir.transforms.quantize.prepare.recipes import with_recipe
from qmlir.transforms.quantize.quantize import learns_ranges
from qmlir.transforms.quantize.ranges.observers import observers

if TYPE_CHECKING:
    from qmlir.profiles.profile import Profile

Part: TypeAlias = Callable[[ModuleOp, Calibration], tuple[Calibration, Calibration | None]]
Measure: TypeAlias = Callable[[ModuleOp, ModuleOp, Calibration | None, Calibration | None], None]


def quantize_entries(
    entries: Mapping[str, Network], profile: "Profile | str | Path | None", data: Calibration | None, policy: Policy,
    options: Mapping[str, Any], given: Mapping[str, Any], *, io: str | None = None, part: Part | None = None,
    measure: Measure | None = None, tests: Calibration | None = None,
) -> ModuleOp:  # fmt: skip
    """Returns one module with the quantized entries.

    The first entry is quantized as if it were alone: profile and samples are its own. The others take ranges by the
    names of tensors, and then its types, weights and biases.

    Args:
        entries: Float networks, or their paths, by the names of the entries.
        profile: The profile of the first entry, as for `qmlir.quantize`.
        data: Its samples.
        policy: The policy.
        options: The fields of `QuantConfig` that are given.
        given: The other arguments of `qmlir.quantize`.
        io: What the network takes and gives.
        part: Parts samples into those to quantize on and others to measure on; None to use all.
        measure: Measures the first entry: float network, quantized network, samples used and others.
        tests: The samples to measure it on.

    Raises:
        OptionError: A name is none for a function, or an option is for networks of one function.
        QmlirError: The entries do not compute the same from the same states; the error names a tensor that differs.
    """
    rules, asked, automatic = without_auto(policy, options)
    check_entries(entries, given, rules, automatic=automatic)
    modules = {name: loaded(network) for name, network in entries.items()}
    first, *others = modules
    settings = resolve(rules, asked, runtime=given["runtime"])
    check_before_ranges(modules[first], rules, settings)
    rotations = with_recipe(modules[first], rules, settings, ranged=profile is not None)[1].config().rotate
    used, aside = list(data) if isinstance(data, Iterator) else data, tests
    if profile is None and used is not None and learns_ranges(modules[first]) and tests is None and part:
        used, aside = part(modules[first], used)
    ranged, shared = modules[first].clone(), FirstEntry()
    rotate(ranged, rotations)
    calls = give_ranges(ranged, profile, used)
    quantized = {first: quantized_by(ranged, data=calls, policy=rules, first_entry=shared, **given, **asked)}
    if measure is not None:
        measure(modules[first], quantized[first], used, aside)
    same = _options(quantized[first])
    for name in others:
        shared.name, other = name, modules[name].clone()
        rotate(other, rotations)
        if observers(ranged):
            Pipeline(*stages.OBSERVE).apply(other, make_context())
            adopt_ranges(other, ranged)
        quantized[name] = quantized_by(other, first_entry=shared, **same)
        adopt_parameters(quantized[name], quantized[first], name)
    result = joined(quantized)
    result = result if io is None else with_interface(result, io)
    verify(result)
    signatures_of(result)
    return result


def check_entries(entries: Mapping[str, Network], given: Mapping[str, Any], policy: Policy, *, automatic: bool) -> None:
    """Refuses names that no function can have, and options for networks of one function.

    Raises:
        OptionError: Always about the command or the call alone.
    """
    for name in entries:
        if (
            not isinstance(cast(object, name), str)
            or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)
            or name == "main"
        ):
            raise OptionError("entry", "must have a name of letters, digits and _, other than main", got=repr(name))
    if len(entries) < 2:
        raise OptionError("entries", "must be two or more", got=str(len(entries)), remedy="give the network by itself")
    if given["target"] is not None:
        remedy = "quantize the entry that the device is to run by itself"
        raise OptionError("target", "takes a network of one function", got=", ".join(entries), remedy=remedy)
    if automatic:
        remedy = "search for precisions of one entry alone, and follow the policy that --save-policy writes"
        raise OptionError("precision", "auto takes a network of one function", got=", ".join(entries), remedy=remedy)
    if policy.options:
        remedy = "give them as arguments; a policy of several entries has a default and rules only"
        raise OptionError("policy", "must hold no options of the command", got=", ".join(policy.options), remedy=remedy)


def _options(quantized: ModuleOp) -> dict[str, Any]:
    """The arguments that quantize another entry as this one; samples have rounded its weights already."""
    held = recorded_quantizer(quantized)
    if held is None:
        return {}
    options = {name.replace("-", "_"): value for name, value in held.items() if name not in (RULES, "rounding")}
    return {**options, "policy": Policy.of({RULES: held[RULES]})}
