"""Every row of what Glow's own quantization functions computed, to the last bit; none is left out."""

import csv
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.numerics.divergence import glow_range
from qmlir.numerics.schemas import Requantization, bias_parameters, requantization

Find = Callable[[str], Path]

FOLDER = "conformance/glow-quantization/"
REFUSED = "nan"
"""What kl.csv has where Glow's own function refuses: a symmetric window of a range without negative values."""


def rows(shared: Find, name: str, count: int) -> Iterator[dict[str, str]]:
    """The rows of a table, which must be `count`."""
    with shared(FOLDER + name).open() as file:
        found = list(csv.DictReader(file))
    assert len(found) == count
    yield from found


def number(text: str) -> float:
    """A number in C99's hexadecimal form."""
    return float.fromhex(text)


@pytest.fixture(scope="module")
def histograms(shared: Find) -> dict[str, Any]:
    """Case → counts, float32."""
    counts = np.frombuffer(gzip.decompress(shared(FOLDER + "kl_hist.bin.gz").read_bytes()), np.float32)
    sizes = {row["case"]: int(row["bins"]) for row in rows(shared, "kl.csv", 320)}
    ends = np.cumsum(list(sizes.values()))
    assert ends[-1] == len(counts)
    return dict(zip(sizes, np.split(counts, ends[:-1]), strict=True))


@pytest.mark.parametrize("glow_exact", [True, False])
def test_parameters(shared: Find, glow_exact: bool) -> None:
    """Without `glow_exact` too, as none of the rows is one of the documented corners where qmlir leaves Glow."""
    for row in rows(shared, "params.csv", 15_000):
        schema: Any = row["schema"]
        precision: Any = row["precision"]
        got = qmlir.choose_quantization(
            number(row["min"]), number(row["max"]), schema, precision, glow_exact=glow_exact
        )
        assert got == (number(row["scale"]), int(row["offset"])), row


def test_thresholds(shared: Find, histograms: dict[str, Any]) -> None:
    compared = 0
    for row in rows(shared, "kl.csv", 320):
        if row["kl_min"] == REFUSED:
            assert row["symmetric"] == "1"
            assert number(row["hist_min"]) >= 0
            continue
        compared += 1
        lo, hi = number(row["hist_min"]), number(row["hist_max"])
        got = glow_range(histograms[row["case"]], lo, hi, symmetric=row["symmetric"] == "1", glow_exact=True)
        assert got == (number(row["kl_min"]), number(row["kl_max"])), row
    assert compared == 280


def test_calibrated_parameters(shared: Find, histograms: dict[str, Any]) -> None:
    for row in rows(shared, "kl.csv", 320):
        schema: Any = row["schema"]
        precision: Any = row["precision"]
        lo, hi = number(row["hist_min"]), number(row["hist_max"])
        got = qmlir.choose_quantization(lo, hi, schema, precision, histograms[row["case"]], "kl", glow_exact=True)
        assert got == (number(row["scale"]), int(row["offset"])), row


def test_biases(shared: Find) -> None:
    for row in rows(shared, "bias.csv", 750):
        precision: Any = row["precision"]
        given = (
            number(row["bias_scale"]),
            int(row["bias_offset"]),
            number(row["input_scale"]),
            number(row["weight_scale"]),
            precision,
        )
        is_zero = row["bias_zero"] == "1"
        plain = bias_parameters(*given, is_zero=is_zero)
        assert (plain.scale, plain.zero_point) == (number(row["new_bias_scale"]), int(row["new_bias_offset"])), row
        channel = bias_parameters(*given, is_zero=is_zero, per_channel=True)
        expected = number(row["per_channel_bias_scale"]), number(row["per_channel_weight_scale"])
        assert (channel.scale, channel.weight_scale) == expected, row


def test_requantizations(shared: Find) -> None:
    for row in rows(shared, "requant.csv", 750):
        offset = int(row["offset"])
        expected = Requantization(int(row["pre"]), int(row["post"]), int(row["multiplier"]), offset)
        assert requantization(number(row["scale"]), offset) == expected, row
