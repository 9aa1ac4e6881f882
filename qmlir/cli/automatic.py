"""`--precision auto`: the samples that it needs, and the policy that makes the same network without it.

Without it, the recipe of a network's kind may be tried, where the outputs lack decibels.
"""

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qmlir.cli.terminal import say
from qmlir.errors import OptionError, QmlirError
from qmlir.running.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.dialects.builtin import ModuleOp

    from qmlir.analysis.auto_precision import Quantizer, Widened
    from qmlir.analysis.quality import Quality
    from qmlir.samples.files import Samples
    from qmlir.settings.policy import Policy
    from qmlir.settings.resolve import Settings


@dataclass(frozen=True)
class Candidate:
    """A recipe to try where a network's outputs lack decibels.

    recipe   the recipe's name
    module   the float network, before ranges are learned
    samples  the samples to measure on
    """

    recipe: str
    module: "ModuleOp"
    samples: "Samples"

    def is_asked_for(self, policy: "Policy") -> bool:
        """Whether a policy asks for the recipe, which rotates the network before ranges are learned."""
        return policy.default.get("recipe") == self.recipe


def require_measurable(arguments: argparse.Namespace, automatic: bool) -> None:
    """Refuses `--precision auto` without samples, and `--save-policy` without `--precision auto`."""
    if not automatic:
        if arguments.save_policy is not None:
            remedy = "leave it out, or give --precision auto"
            raise OptionError("--save-policy", "keeps what --precision auto chooses", got="another", remedy=remedy)
        return
    if arguments.data is None or arguments.measure is False:
        need, got = "auto measures the network on samples", "no --data" if arguments.data is None else "--no-measure"
        raise OptionError("--precision", need, got=got, remedy="give --data, and leave out --no-measure")


def widen(
    module: "ModuleOp", make: "Quantizer", samples: "Samples", used: "Samples | None", policy: "Policy",
    options: "Mapping[str, Any]", seconds: int | None, candidate: Candidate | None,
) -> "Widened":  # fmt: skip
    """Quantizes a network by `--precision auto`, and prints what was changed and what it costs.

    Args:
        module: The float network.
        make: Quantizes it.
        samples: The samples to measure on.
        used: Those that quantization sees, if it does not see the samples to measure on.
        policy: The user's policy.
        options: The user's options of the quantizer.
        seconds: The seconds after which no further quantization begins; None for the default.
        candidate: The recipe to try, if there is one.
    """
    from qmlir.analysis.auto_precision import widened
    from qmlir.analysis.quality import chosen_samples

    chosen = chosen_samples(module, samples, held_out=used is not None)
    seen = [] if used is None else chosen_samples(module, used, held_out=False)
    recipe = None if candidate is None else candidate.recipe
    found = widened(
        module, make, chosen, policy, options, held_out=used is not None, seen=seen, seconds=seconds, recipe=recipe
    )
    for line in found.lines():
        say(line)
    return found


def recipe_for_trial(
    arguments: argparse.Namespace, module: "ModuleOp", samples: "Samples | None", settings: "Settings"
) -> Candidate | None:
    """Returns the recipe to try where a network's outputs lack decibels; None if there is none, or nothing is measured.

    It may rotate the network before ranges are learned, so these are to be learned here, and not to be kept.

    Args:
        arguments: The command line.
        module: The float network, without ranges of samples.
        samples: The samples to measure on.
        settings: The settings in effect.
    """
    from qmlir.transforms.quantize.prepare.recipes import recipe_to_try
    from qmlir.transforms.quantize.quantize import learns_ranges

    if arguments.entries or samples is None or arguments.measure is False or arguments.profile is not None:
        return None
    if arguments.data is None or arguments.save_profile is not None or not learns_ranges(module):
        return None
    recipe = recipe_to_try(module, settings)
    return None if recipe is None else Candidate(recipe, module.clone(), samples)


def try_recipe(
    candidate: Candidate | None, networks: "tuple[ModuleOp, ModuleOp]", make: "Quantizer", policy: "Policy",
    options: "Mapping[str, Any]", held_out: bool, report: list[str],
) -> "tuple[ModuleOp, Quality | None]":  # fmt: skip
    """Quantizes a network by a recipe if its outputs lack decibels, and reports what that gains and costs.

    Args:
        candidate: The recipe to try, if there is one.
        networks: The float network, and the network quantized from it.
        make: Quantizes the float network.
        policy: The user's policy.
        options: The user's options of the quantizer.
        held_out: Whether quantization does not see the samples to measure on.
        report: Gets the line on what the recipe gained.

    Returns:
        The better network, and how far its outputs are from float's; None if that was not measured.
    """
    from qmlir.analysis.auto_precision import milliseconds
    from qmlir.analysis.quality import chosen_samples, measured
    from qmlir.analysis.recipe_trial import tried
    from qmlir.analysis.target import reached

    module, plain = networks
    if candidate is None:
        return plain, None
    recipe, chosen = candidate.recipe, chosen_samples(module, candidate.samples, held_out=held_out)
    try:
        quality = measured(module, plain, chosen, held_out=held_out)
    except QmlirError:
        return plain, None
    if reached(quality):
        return plain, quality
    say(f"the outputs have {quality.sqnr:.1f} dB: the network is quantized once more, by --recipe {recipe}")
    trial = tried(
        recipe,
        (plain, quality),
        lambda: make(policy.with_default({"recipe": recipe}), options),
        lambda made: measured(module, made, chosen, held_out=held_out),
    )
    cost = ""
    if trial.is_kept:
        now, before = (milliseconds(each, chosen[0]) for each in (trial.quantized, plain))
        cost = "" if now is None or before is None else f"{now:.3g} ms a call on this CPU ({before:.3g} ms without)"
    report.append(trial.line(cost))
    return trial.quantized, trial.quality


def float_network_of(candidate: Candidate | None, module: "ModuleOp", quantized: "ModuleOp") -> "ModuleOp":
    """Returns the float network of which a network was made: the given one, or one that the recipe has rotated."""
    from qmlir.compiler import rotate
    from qmlir.settings.recorded import recorded_config

    config = recorded_config(quantized)
    if candidate is None or config.recipe != candidate.recipe:
        return module
    rotated = candidate.module.clone()
    rotate(rotated, config.rotate)
    return rotated


def save_policy(arguments: argparse.Namespace, found: "Widened | None") -> None:
    """Writes the policy that makes the same network, if the user asked for it."""
    if found is not None and arguments.save_policy is not None:
        comments = "".join(f"# {line}\n" for line in found.lines())
        write_whole(arguments.save_policy, comments + found.policy.text())
        say(f"{arguments.save_policy}: written")
