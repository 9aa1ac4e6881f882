"""`make tune`: the fewest bytes of weights near the accuracy of int8, and what the search costs.

At most 0.5 points of agreement below int8; for super_resolution, which has no classes, at most 0.5 dB of SQNR below.

    python -m docs.measurements.tuning [NETWORK …]                 the table of the networks
    python -m docs.measurements.tuning --exhaustive [NETWORK …]    searches beside all assignments, on small networks

`--samples N` quantizes on the first N samples only; networks are scored on all samples in any case. `--jobs`
makes trials side by side. What was measured is kept in build/tune, where a search that was interrupted goes on.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

import qmlir
from docs.measurements.accuracy import shared_file as shared
from qmlir.analysis.tune import Tuned, tune
from qmlir.analysis.tune.assignment import Assignment
from qmlir.analysis.tune.layers import layers_of
from qmlir.analysis.tune.trials import Laboratory
from qmlir.errors import QmlirWarning
from qmlir.settings.policy import Policy
from tests.conftest import ROOT
from tests.models.networks import NETWORKS, logits, split
from tests.models.transformers import TRANSFORMERS

TUNED = ("kws", "resnet8", "cifar", "mobilenet", "vww", "super_resolution", "bert")
FLOOR = "agreement=int8-0.5"
FLOORS = {"super_resolution": "sqnr=int8-0.5"}
"""The floors of networks without classes."""

SHARE = 60
"""Percent of int8's bytes that each search should stay within."""

TEXTS = (64, 400)
"""Samples of the transformer to quantize on and to score on; its weights are random (transformers.py)."""

SHARES = (55, 60, 70, 80)
"""Percent of int8's bytes that searches are compared at with all assignments."""

LEVELS = {"mnist-8": (4, 5, 6), "digits": (4,)}
"""Bits of weights below 8 that all assignments are made of, and that searches beside them try."""

RESULTS = ROOT / "build" / "tune"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def network(name: str) -> tuple[Any, list[Any], list[Any]]:
    """A network up to its logits, samples to quantize on, and samples to score on."""
    if name == "digits":
        digits = ROOT / "examples" / "digits"
        data = np.load(digits / "digits.npz")
        return (
            qmlir.load(digits / "digits.onnx"),
            list(data["calibration_images"][:, None]),
            list(data["test_images"][:, None]),
        )
    if name in TRANSFORMERS:
        with TemporaryDirectory() as folder:
            onnx.save(TRANSFORMERS[name].model(), path := Path(folder) / "network.onnx")
            module = logits(qmlir.load(path))
        quantizing, scoring = (TRANSFORMERS[name].samples(count, seed) for seed, count in enumerate(TEXTS, 1))
        return module, list(quantizing), list(scoring)
    known = NETWORKS[name]
    samples = split(known, shared)
    return logits(qmlir.load(shared(known.file))), list(samples.profile), list(samples.score)


def row(name: str, found: Tuned, stored: float, seconds: float, one: float) -> str:
    """A line of the table; `stored` is the share of int8's constants in the machine code for this processor."""
    best, base = found.chosen.trial, found.reference.trial
    quality = FLOORS.get(name, FLOOR).partition("=")[0]
    met = [p.trial.quality(quality) or 0.0 for p in found.points if p.trial.bytes <= SHARE / 100 * base.bytes]
    return (
        f"{name:16} {base.sqnr:6.2f} {_percent(base.quality('agreement'))} {base.bytes:8} | {best.sqnr:6.2f} "
        f"{_percent(best.quality('agreement'))} {best.bytes:8} {100 * best.bytes / base.bytes:5.1f} % {stored:5.1f} % "
        f"| {max(met, default=float('nan')):7.2f} | {len(found.points):3} {found.made:3} {seconds:7.1f} {one:6.1f}  "
        f"{found.chosen.said}"
    )


def _percent(value: float | None) -> str:
    return "      -" if value is None else f"{value:7.2f}"


def table(names: Sequence[str], most: int | None, jobs: int | None) -> None:
    """Prints a row for each network."""
    say(f"{'':16} int8: dB, agr., bytes  | chosen: dB, agr., bytes, stored      | ≤ {SHARE} % | networks, made, s, s/1")
    for name in names:
        module, samples, tests = network(name)
        samples = samples[:most]
        start = time.perf_counter()
        profile = qmlir.profile(module, samples)
        begun = time.perf_counter()
        qmlir.quantize(module, profile, data=samples)
        one = time.perf_counter() - begun
        floor = FLOORS.get(name, FLOOR)
        found = tune(module, samples, floor=floor, tests=tests, profile=profile, results=RESULTS, workers=jobs)
        seconds = time.perf_counter() - start - one
        say(row(name, found, _stored(module, profile, samples, found), seconds, one))
        say(found.text())


def _stored(module: Any, profile: Any, samples: Any, found: Tuned) -> float:
    """The constants in the machine code of the chosen network, in percent of those of int8."""
    chosen, whole = (
        qmlir.compile(qmlir.quantize(module, profile, data=samples, policy=Policy.of(each.trial.policy))).sizes.weights
        for each in (found.chosen, found.reference)
    )
    return 100 * chosen / whole


def exhaustive(names: Sequence[str], most: int | None) -> None:
    """Prints the best of all assignments of bits to weights at some shares of int8's bytes, and what a search finds."""
    for name in names:
        module, samples, tests = network(name)
        samples, levels = samples[:most], LEVELS[name]
        profile = qmlir.profile(module, samples)
        laboratory = Laboratory(module, profile, samples, tests, folder=RESULTS, options={"precision": "int8"})
        layers = layers_of(qmlir.quantize(module, profile, data=samples))
        weighted = [layer.tensor for layer in layers if layer.weights]
        trials = [
            laboratory.trial(
                Assignment(tuple(zip(weighted, bits, strict=True)), settings={"precision": "int8"}).policy()
            )
            for bits in product((*levels, 8), repeat=len(weighted))
        ]
        whole = max(trial.bytes for trial in trials)
        for share in SHARES:
            fits = [trial.sqnr for trial in trials if trial.bytes <= share / 100 * whole]
            limits: dict[str, Any] = {"budget": f"bytes={share}%", "precision": "int8", "levels": levels}
            found = tune(module, samples, tests=tests, profile=profile, results=RESULTS, **limits)
            best, reached = max(fits, default=float("nan")), found.chosen.trial.sqnr
            count = f"{len(weighted)} layers, {len(trials)} assignments"
            say(f"{name:8} {count}, bytes ≤ {share} %: best {best:.2f} dB, search {reached:.2f} dB")


def main() -> None:
    """Reads the command line."""
    warnings.simplefilter("ignore", QmlirWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--exhaustive", action="store_true")
    parser.add_argument("networks", nargs="*")
    given = parser.parse_args()
    if given.exhaustive:
        exhaustive(given.networks or list(LEVELS), given.samples)
    else:
        table(given.networks or TUNED, given.samples, given.jobs)


if __name__ == "__main__":
    main()
