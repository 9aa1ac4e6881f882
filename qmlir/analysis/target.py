"""What `precision=auto` aims at: outputs that are good enough, also on samples that nobody has measured.

Each output has to have `TARGET` dB, or `AGREEMENT` of at least `COUNTED` samples have float's class. So that the same
holds for other samples, the search aims at more: at `MARGIN` / √n dB more for n samples; and where there are fewer
than `COUNTED` decisions, their probabilities are to have as many dB if a share of them were close (logits.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.analysis.logits import CloseDecisions, before, close_decisions, outputs_of, returning
from qmlir.analysis.quality import Quality, compared, exact_reference, results_of
from qmlir.compiler import Pipeline, reference
from qmlir.dialects.nn import SigmoidOp, SoftmaxOp
from qmlir.transforms.quantize.adjust.side_by_side import on_one_thread

TARGET = 30.0
"""The SQNR in dB that each output is to have."""

AGREEMENT, COUNTED = 0.99, 100
"""The share of samples with float's class that is enough too, and the samples that this takes."""

MARGIN = 3.0
"""The decibels beyond the target that one sample has to show."""

FUNCTIONS = (SoftmaxOp, SigmoidOp)
"""What makes probabilities of logits."""


def missing(quality: Quality) -> float:
    """Returns how many dB the worst output lacks; 0 or less if each is good enough."""
    lacking = [
        TARGET - o.sqnr
        for o in quality.outputs
        if o.sqnr is not None
        and not (o.agreement is not None and o.agreement >= AGREEMENT and quality.samples >= COUNTED)
    ]
    return max(lacking, default=-math.inf)


def reached(quality: Quality) -> bool:
    """Whether each output is good enough on the samples that were measured."""
    return missing(quality) <= 0


@dataclass(frozen=True)
class Verdict:
    """How good a network's outputs are.

    quality  how far they are from float's
    close    the SQNR in dB of probabilities, if a share of their decisions were close
    samples  the samples that were measured
    """

    quality: Quality
    close: float = math.inf
    samples: Sequence[Any] = ()

    @property
    def lacking(self) -> float:
        """The decibels that the worst output lacks; 0 or less if none."""
        return max(missing(self.quality), TARGET - self.close)

    @property
    def missing(self) -> float:
        """The same with the margin for other samples."""
        return self.lacking + MARGIN / math.sqrt(self.quality.samples)

    def worst_samples(self, count: int) -> list[Any]:
        """The sample whose outputs err most, and those behind it."""
        return [*self.samples[self.quality.worst :], *self.samples][:count]


class Judge:
    """Measures networks that are quantized from one float network, which is evaluated once."""

    @on_one_thread
    def __init__(self, module: ModuleOp, samples: Sequence[Any], *, held_out: bool):
        """Evaluates the float network.

        Args:
            module: The float network; it stays unchanged.
            samples: The samples to measure on.
            held_out: Whether quantization does not see them.
        """
        self._samples, self._held_out = samples, held_out
        self._origin = Pipeline("simplify")(module)
        self._outputs = outputs_of(self._origin)
        self._places = [i for i, output in enumerate(self._outputs) if close_decisions(output) is not None]
        network = exact_reference(returning(self._origin, self._places, *FUNCTIONS))
        with np.errstate(all="ignore"):
            self._truth = list(results_of(network, samples))

    def with_logits(self, quantized: ModuleOp) -> tuple[ModuleOp, ModuleOp]:
        """Returns the float and the quantized network with logits behind their outputs, where both have them."""
        places = self._shared(quantized)
        return returning(self._origin, places, *FUNCTIONS), returning(quantized, places, *FUNCTIONS)

    def _shared(self, quantized: ModuleOp) -> list[int]:
        outputs = outputs_of(quantized)
        return [i for i in self._places if before(outputs[i], *FUNCTIONS) is not None]

    @on_one_thread
    def verdict(self, quantized: ModuleOp) -> Verdict:
        """Measures a quantized network."""
        shared, count = self._shared(quantized), len(self._outputs)
        network = reference(returning(quantized, shared, *FUNCTIONS))
        counted = {i: each for i in shared if (each := close_decisions(self._outputs[i])) is not None}
        outputs: list[list[Any]] = []
        with np.errstate(all="ignore"):
            for truth, found in zip(self._truth, results_of(network, self._samples), strict=True):
                outputs.append(found[:count])
                for i, each in counted.items():
                    each.add(truth[count + self._places.index(i)], found[count + shared.index(i)])
        truths = [truth[:count] for truth in self._truth]
        few = (each for each in counted.values() if _is_few(each))
        return Verdict(
            compared(quantized, truths, outputs, held_out=self._held_out),
            min((each.sqnr for each in few), default=math.inf),
            self._samples,
        )


def _is_few(decisions: CloseDecisions) -> bool:
    return 0 < decisions.decisions < COUNTED
