"""Tries the recipe of a network's kind where its outputs lack decibels without it.

    quantize → measure → an output lacks decibels: quantize by the recipe → measure → the better of both

Some recipes serve a part of their kind only, and cost time in the others (`Recipe.tried`). So what decides is the
measurement that `quantize` makes anyway, with the target of `precision=auto`. A trial costs one more profile,
quantization and measurement, and only where the outputs are below the target. The recipe's network is kept if its
worst output is nearer to float's, if it has no more products on floats, and none of its operations where the other
network is on integers only.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.counts import decided
from qmlir.analysis.quality import Quality
from qmlir.analysis.target import missing
from qmlir.errors import QmlirError, QmlirWarning


@dataclass(frozen=True)
class Trial:
    """What trying a recipe gave.

    recipe     the recipe's name
    quantized  the network that is kept
    quality    how far its outputs are from float's
    plain      the same for the network without the recipe
    made       the same for the recipe's network; None if it was refused or cannot be evaluated
    is_kept    whether the recipe's network is kept
    """

    recipe: str
    quantized: ModuleOp
    quality: Quality
    plain: Quality
    made: Quality | None
    is_kept: bool

    def line(self, cost: str = "") -> str:
        """Returns a sentence on what the recipe gained, with what its network costs, and how to forbid the trial."""
        after = "it is refused" if self.made is None else f"{_least(self.made)} with it"
        text = f"recipe {self.recipe}: {_least(self.plain)} without it, {after}, on {self.plain.origin}"
        if not self.is_kept:
            return f"{text}, so it is left out; --recipe none leaves out the trial"
        return f"{text}{cost and f'; {cost}'}; --recipe none leaves it out"


def tried(
    recipe: str,
    plain: tuple[ModuleOp, Quality],
    make: Callable[[], ModuleOp],
    measure: Callable[[ModuleOp], Quality | None],
) -> Trial:
    """Quantizes a network by a recipe, and returns which network is better.

    Args:
        recipe: The recipe's name.
        plain: The network that was quantized without it, and how far its outputs are from float's.
        make: Quantizes the float network by the recipe.
        measure: Measures a network on the samples on which `plain` was measured.
    """
    network, before = plain
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", QmlirWarning)  # what is to be said was said of the plain network
            made = make()
        after = measure(made)
    except QmlirError:
        made, after = network, None
    is_kept = after is not None and missing(after) < missing(before) and _has_no_more_floats(made, network)
    kept, quality = (made, after) if is_kept and after is not None else plain
    return Trial(recipe, kept, quality, before, after, is_kept)


def _has_no_more_floats(made: ModuleOp, plain: ModuleOp) -> bool:
    """Whether a network has no more products on floats than another, and is on integers only if the other is."""
    (operations, products), (others, most) = _floats(made), _floats(plain)
    return products <= most and (operations == 0 or others > 0)


def _floats(network: ModuleOp) -> tuple[int, int]:
    """The number of operations that stayed float, and of their products."""
    found = [int(each.figures["macs"]) for each in decided(network) if each.entry.outcome == "float"]
    return len(found), sum(found)


def _least(quality: Quality) -> str:
    return "no SQNR" if quality.sqnr is None else f"{quality.sqnr:.1f} dB"
