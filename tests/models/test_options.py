"""What each option costs: schema × precision × per channel × calibration on the real networks, as a markdown table.

`make models` runs all rows on all scored samples, which takes an hour, where `QMLIR_MODELS_TABLE` is 1; otherwise every
29th row, on the share of the samples that `QMLIR_MODELS_SHARE` says. Rows go to standard output: run with `-s`. A
calibration that cannot act under a precision says why in its row.
"""

import os
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.dialects.quant.schemas import QuantizationError
from tests.models.networks import NETWORKS, Array, logits, score, split, sqnr
from tests.models.test_networks import SCHEMAS, SHARE

pytestmark = pytest.mark.models

CLASSIFIERS = ("mnist-8", "cifar", "kws", "resnet8", "vww", "mobilenet")
PRECISIONS = {"int8": ("int8", "same"), "16x8": ("int16", "int8"), "int16": ("int16", "same")}
"""Name → storage of activations, storage of weights."""

CALIBRATIONS = ("auto", "minmax", "moving_average", "percentile", "kl", "kl_tvm", "mse", "aciq")
STRIDE = 1 if os.environ.get("QMLIR_MODELS_TABLE") == "1" else 29

ROWS = list(product(CLASSIFIERS, SCHEMAS, PRECISIONS, (True, False), CALIBRATIONS))
REFUSED = {("int16", "kl"), ("int16", "kl_tvm"), ("16x8", "kl"), ("16x8", "kl_tvm")}
"""Divergences need a bin for each integer, and a profile has 2000."""


@cache
def prepared(name: str, shared: Callable[[str], Path]) -> tuple[Any, Any, Any, Array]:
    """A network, its profile, its samples and its float logits."""
    network = NETWORKS[name]
    module, data = logits(qmlir.load(shared(network.file))), split(network, shared, SHARE)
    return module, qmlir.profile(module, data.profile), data, outputs(module, data.score)


def outputs(module: Any, samples: Array) -> Array:
    machine = qmlir.compile(module)
    return np.stack([machine.run(x)[0].reshape(-1) for x in samples])


def show(*cells: str) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")


@pytest.fixture(scope="module", autouse=True)
def heading() -> None:
    titles = "network", "schema", "precision", "weights per", "calibration", "SQNR, dB", "agreement, %", "top-1, points"
    sys.stdout.write("\n")
    show(*titles)
    show(*("---" for _ in titles))


@pytest.mark.parametrize(("name", "schema", "precision", "per_channel", "calibration"), ROWS[::STRIDE])
def test_row(
    name: str, schema: str, precision: str, per_channel: bool, calibration: str, shared: Callable[[str], Path]
) -> None:
    module, profile, data, truth = prepared(name, shared)
    activations, weights = PRECISIONS[precision]
    row = name, schema, precision, "channel" if per_channel else "tensor", calibration

    def quantized() -> Any:
        return qmlir.quantize(
            module,
            profile,
            schema=schema,
            precision=activations,
            weight_precision=weights,
            per_channel=per_channel,
            calibration=calibration,
            data=data.profile,
        )

    if (precision, calibration) in REFUSED:
        with pytest.raises(QuantizationError, match="needs at least"):
            quantized()
        show(*row, "needs more bins", "", "")
        return
    got = outputs(quantized(), data.score)
    assert data.labels is not None
    found = score(data.labels, truth, got)
    change = f"{found.points:+.2f} ({found.lost} lost, {found.won} won)"
    show(*row, f"{sqnr(truth, got):.1f}", f"{found.agreement:.2f}", change)
