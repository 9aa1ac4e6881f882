"""`make tune`: the fewest bytes of weights at 0.5 points of agreement below int8, and what the search costs.

python -m tests.models.tuning [NETWORK …]      the table of the networks
python -m tests.models.tuning --exhaustive     searches beside all assignments, on two small networks
"""

import sys
import time
import warnings
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

import qmlir
from qmlir.analysis.tune import Tuned, tune
from qmlir.analysis.tune.assignment import Assignment
from qmlir.analysis.tune.layers import layers_of
from qmlir.analysis.tune.trials import Laboratory, kept_in
from qmlir.errors import QmlirWarning
from tests.conftest import ROOT
from tests.models.accuracy import shared_file as shared
from tests.models.networks import NETWORKS, logits, split

TUNED = ("kws", "resnet8", "cifar", "mobilenet", "vww")
FLOOR = "agreement=int8-0.5"
SHARES = (55, 60, 70, 80)
"""Percent of int8's bytes that searches are compared at with all assignments."""

LEVELS = (4, 5, 6, 8)


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
    known = NETWORKS[name]
    samples = split(known, shared)
    return logits(qmlir.load(shared(known.file))), list(samples.profile), list(samples.score)


def row(name: str, found: Tuned, seconds: float, one: float) -> str:
    """A line of the table."""
    best, base = found.chosen.trial, found.reference.trial
    share = 100 * best.bytes / base.bytes
    met = [p for p in found.points if p.trial.bytes <= 0.6 * base.bytes]
    at = max((p.trial.quality("agreement") or 0.0 for p in met), default=float("nan"))
    return (
        f"{name:10} {base.sqnr:6.2f} {base.quality('agreement'):7.2f} {base.bytes:8} | {best.sqnr:6.2f} "
        f"{best.quality('agreement'):7.2f} {best.bytes:8} {share:5.1f} % | {at:7.2f} | {len(found.points):3} "
        f"{found.made:3} {seconds:7.1f} {one:6.1f}  {found.chosen.said}"
    )


def table(names: Sequence[str]) -> None:
    """Prints a row for each network."""
    print("           int8: dB agreement    bytes | chosen: dB agr.    bytes       | ≤ 60 % | networks, made, s, s/one")
    for name in names:
        module, samples, tests = network(name)
        start = time.perf_counter()
        profile = qmlir.profile(module, samples)
        begun = time.perf_counter()
        qmlir.quantize(module, profile, data=samples)
        one = time.perf_counter() - begun
        found = tune(module, samples, floor=FLOOR, tests=tests, profile=profile)
        print(row(name, found, time.perf_counter() - start - one, one), flush=True)


def exhaustive(names: Sequence[str], levels: Sequence[int]) -> None:
    """Prints the best of all assignments of bits to weights at some shares of int8's bytes, and what a search finds."""
    for name in names:
        module, samples, tests = network(name)
        profile = qmlir.profile(module, samples)
        laboratory = Laboratory(module, profile, samples, tests, folder=kept_in(None), options={"precision": "int8"})
        layers = layers_of(qmlir.quantize(module, profile, data=samples))
        weighted = [layer.tensor for layer in layers if layer.weights]
        trials = [
            laboratory.trial(Assignment(tuple(zip(weighted, bits, strict=True))).policy())
            for bits in product(levels, repeat=len(weighted))
        ]
        whole = max(trial.bytes for trial in trials)
        for share in SHARES:
            best = max(trial.sqnr for trial in trials if trial.bytes <= share / 100 * whole)
            found = tune(
                module, samples, budget=f"bytes={share}%", tests=tests, profile=profile, precision="int8"
            ).chosen.trial  # fmt: skip
            print(
                f"{name:8} {len(weighted)} layers, {len(trials)} assignments, bytes ≤ {share} %: "
                f"best {best:.2f} dB, search {found.sqnr:.2f} dB ({found.sqnr - best:+.2f})",
                flush=True,
            )


if __name__ == "__main__":
    warnings.simplefilter("ignore", QmlirWarning)
    given = sys.argv[1:]
    if given[:1] == ["--exhaustive"]:
        exhaustive(given[1:] or ["mnist-8", "digits"], LEVELS)
    else:
        table(given or TUNED)
