"""`--precision auto`: the samples that it needs, and the policy that makes the same network without it."""

import argparse
from typing import TYPE_CHECKING, Any

from qmlir.cli.terminal import say
from qmlir.errors import OptionError
from qmlir.running.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.dialects.builtin import ModuleOp

    from qmlir.analysis.auto_precision import Quantizer, Widened
    from qmlir.samples.files import Samples
    from qmlir.settings.policy import Policy


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
    options: "Mapping[str, Any]", seconds: int | None,
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
    """
    from qmlir.analysis.auto_precision import widened
    from qmlir.analysis.quality import chosen_samples

    chosen = chosen_samples(module, samples, held_out=used is not None)
    seen = [] if used is None else chosen_samples(module, used, held_out=False)
    found = widened(module, make, chosen, policy, options, held_out=used is not None, seen=seen, seconds=seconds)
    for line in found.lines():
        say(line)
    return found


def save_policy(arguments: argparse.Namespace, found: "Widened | None") -> None:
    """Writes the policy that makes the same network, if the user asked for it."""
    if found is not None and arguments.save_policy is not None:
        comments = "".join(f"# {line}\n" for line in found.lines())
        write_whole(arguments.save_policy, comments + found.policy.text())
        say(f"{arguments.save_policy}: written")
