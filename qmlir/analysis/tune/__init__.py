"""Searches the best precision for a budget: which weights, which data and which options, as a policy.

The search makes real quantizations, at most `MOST` of them, in four steps:

1. The int8 network of the default options, and other options of the quantizer, one at a time: first on int8, then on
   weights of few bits (search.py). The best by SQNR, if they are better than the defaults by `BETTER` dB, hold for all
   that follow.
2. Uniform networks with weights of fewer bits (`LEVELS`), with groups of weights, and with data of 16 bits. Each is a
   point of the front, and gives the effect of every part on the output (analysis/effects.py).
3. A predicted front: sums of effects over all assignments, or over those that greedy changes reach (front.py).
4. Verification by real quantizations, and repair of the best (verification.py). Under a floor of counts, such as
   agreement, each network is the one with the largest expected saving (chances.py).

Where there are no more assignments of bits to weights than quantizations left, all of them are made instead of steps 3
and 4, and the result is the best there is.

The best and the front are chosen among networks that were really quantized and scored, never by prediction. The same
arguments give the same policy: nothing depends on time or on chance, except a budget of milliseconds.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy.typing as npt

from qmlir.analysis.kept_results import results_folder
from qmlir.analysis.scores import Metric, check_count, classes_of, labels_given, require_classes
from qmlir.analysis.tune.assignment import PLAIN
from qmlir.analysis.tune.attempts import Attempts
from qmlir.analysis.tune.limits import Budget, Floor, budget_of, floor_of
from qmlir.analysis.tune.result import Point as Point
from qmlir.analysis.tune.result import Tuned as Tuned
from qmlir.analysis.tune.search import Search
from qmlir.analysis.tune.trials import FOLDER, Laboratory
from qmlir.compiler import loaded, main_function
from qmlir.compiler import profile as learn
from qmlir.devices import load_device
from qmlir.errors import OptionError, QmlirError
from qmlir.frontends.opaque import refuse_opaque
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import signature_of
from qmlir.ir.states import states_of
from qmlir.running.executors import Given, workers_of
from qmlir.settings.arguments import Network, integer_given, options_given, profile_given, samples_given
from qmlir.settings.quant_config import QuantConfig, QuantOptions

if TYPE_CHECKING:
    from qmlir.devices import Accelerator
    from qmlir.profiles.profile import Profile


MOST = 20
"""The most quantizations of a search."""

LEVELS = (4, 5, 6, 7)
"""Bits of weights below 8 that are tried by default; 8 and 16 are tried always."""


def tune(
    module: Network,
    samples: Iterable[Array | Mapping[str, Array]],
    *,
    budget: str | None = None,
    floor: str | None = None,
    tests: Iterable[Array | Mapping[str, Array]] | None = None,
    labels: npt.ArrayLike | None = None,
    metric: Metric | None = None,
    profile: "Profile | str | Path | None" = None,
    target: "Accelerator | None" = None,
    results: str | Path | None = None,
    most: int = MOST,
    levels: Sequence[int] = LEVELS,
    workers: Given = None,
    **options: Unpack[QuantOptions],
) -> Tuned:
    """Searches the policy that costs least above a floor, or reaches most within a budget.

    Args:
        module: The float network, or its path; it stays unchanged.
        samples: Samples to learn ranges and to quantize on, as for `quantize`.
        budget: The most that the network may cost: `bytes=24KiB`, `stored=…`, `macs-bits=…`, `arena=…`,
            `cycles:nmp=100000`, `ms=1.5`, or a share of the int8 network's cost: `bytes=60%`.
        floor: The least that the network must reach: `sqnr=30`, `agreement=99`, `top1=…`, `metric=…`, or a difference
            to the int8 network: `agreement=int8-0.5`. The cost is then that of bytes.
        tests: Samples to score on; by default those to quantize on, which flatters the result.
        labels: The class of each of the samples to score on.
        metric: A user's own score of the outputs, as for `score`; the larger, the better.
        profile: The ranges of the network's tensors; by default they are learned from the samples.
        target: The device to quantize for, its name, or the path of its file.
        results: The folder in which trials are kept; by default within the cache of compiled networks, if there is one.
        most: The most quantizations.
        levels: Bits of weights below 8 to try; 8 and 16 are tried always.
        workers: A number of processes, the address of a Dask scheduler, or a `concurrent.futures.Executor`, which
            make trials side by side; the result is the same. By default this process.
        **options: Options of `quantize` that all trials share; the search leaves them as they are.

    Raises:
        OptionError: There are both a budget and a floor, or neither, or one of them cannot be measured.
        QmlirError: No network that was tried meets the limit; the error says what is the best reached.

    >>> import qmlir
    >>> found = qmlir.tune("digits.onnx", samples, floor="agreement=int8-0.5", most=8)
    >>> found.chosen.trial.bytes < found.reference.trial.bytes
    True
    """
    if (budget is None) == (floor is None):
        got = "neither" if budget is None else "both"
        raise OptionError("budget", "or a floor must be given, and not both", got=got)
    limit: Budget | Floor = floor_of(floor) if budget is None else budget_of(budget)
    if isinstance(limit, Floor):
        limit.require_measure(labels, metric)
    for device in (target, limit.device if isinstance(limit, Budget) else ""):
        if device:
            load_device(device)
    network = loaded(module)
    refuse_opaque(network, "the network")
    if states_of(main_function(network)):
        raise QmlirError("a search needs samples of their own", got="a network with states")
    given = list(samples_given(samples))
    scored = given if tests is None else list(samples_given(tests))
    classes = None if labels is None else labels_given(labels)
    if classes is not None:
        check_count(classes, len(scored))
        outputs = signature_of(main_function(network)).outputs
        require_classes(classes, classes_of([spec.shape for spec in outputs]))
    allowed = integer_given("most", most)
    if allowed < 1:
        raise OptionError("most", "must be a positive number", got=str(allowed))
    narrow = _levels_given(levels)
    fixed = options_given("tune", options, QuantConfig().options())
    if (granularity := fixed.get("granularity")) not in (None, PLAIN):
        need = "is chosen for each layer, beside the bits of its weights"
        raise OptionError(
            "granularity", need, got=str(granularity), remedy="leave it out, or ask for channel: no groups"
        )
    chosen = workers_of(workers)
    try:
        ranges = learn(network, given, workers=chosen) if profile is None else profile_given(profile)[0]
        laboratory = Laboratory(
            network,
            ranges,
            given,
            scored,
            labels=classes,
            metric=metric,
            target=target,
            budget=limit if isinstance(limit, Budget) else None,
            folder=results_folder(results, FOLDER),
            options=fixed,
            workers=chosen,
        )
        return Search(Attempts(laboratory, limit, allowed), fixed, narrow).run()
    finally:
        if chosen is not workers:
            chosen.close()


def _levels_given(levels: object) -> list[int]:
    """Returns bits of weights in rising order; raises `OptionError` unless they are from 2 to 7."""
    given: list[Any] = list(cast("Sequence[Any]", levels)) if isinstance(levels, list | tuple) else [levels]
    if any(not isinstance(bits, int) or isinstance(bits, bool) or not 2 <= bits <= 7 for bits in given):
        raise OptionError("levels", "must be bits of weights, each from 2 to 7", got=repr(given))
    return sorted(set(given))
