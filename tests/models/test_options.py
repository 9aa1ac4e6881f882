"""The page of what each option costs is whole, and what its rows say is what is measured; the page is `ACCURACY.md`."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.measurements import accuracy
from docs.measurements.accuracy import ALL, CONFIGS, MEASURED, Figures, Options, Row
from qmlir.numerics.schemas import QuantizationError
from tests.models.networks import NETWORKS

Shared = Callable[[str], Path]

MADE_UP = {row: Figures(i / 10, 50 + i / 100, i / 100 - 2) for i, row in enumerate(MEASURED)}

DECIBELS, PERCENT = 0.5, 1.0
"""How far another machine's floats may bring a row from the page."""

AGAIN = [("kws", options) for options in CONFIGS.values()] + [
    ("mnist-8", Options("symmetric_with_uint8", calibration="percentile")),
    ("mnist-8", Options("symmetric_with_power2_scale", per_channel=False, calibration="kl")),
    ("mnist-8", Options(precision="int16", weight_precision="int8", calibration="aciq")),
]
"""Rows that take a second."""


def test_all_combinations_have_a_row() -> None:
    assert len(set(ALL)) == len(ALL) == 6 * 4 * 3 * 2 * 8
    assert {(n, o) for n, _ in ALL for o in CONFIGS.values()} <= set(MEASURED)


def test_a_page_reads_as_it_was_written() -> None:
    text = accuracy.page(MADE_UP)
    read = accuracy.read_page(text)
    assert list(read) == MEASURED
    assert {row: str(f) for row, f in read.items()} == {row: str(f) for row, f in MADE_UP.items()}
    assert accuracy.page(read) == text


@pytest.mark.parametrize("missing", ["| asymmetric | int8", "| symmetric_with_power2_scale | int16"])
def test_a_page_without_a_row_is_none(missing: str) -> None:
    lines = accuracy.page(MADE_UP).splitlines(keepends=True)
    del lines[max(i for i, line in enumerate(lines) if line.startswith(missing))]
    with pytest.raises(ValueError, match="shorter"):
        accuracy.read_page("".join(lines))


def test_readme_gets_the_table() -> None:
    old, new = (accuracy.configs_table({**MADE_UP, ("kws", Options()): Figures(*f)}) for f in ((1, 2, 3), (4, 5, 6)))
    readme = f"before\n\n{old}\nafter\n"
    assert accuracy.with_table(readme, new) == f"before\n\n{new}\nafter\n"


@pytest.mark.models
@pytest.mark.parametrize("options", [o for n, o in ALL if n == "kws" and accuracy.is_refused(o)][::7])
def test_a_divergence_beside_16_bits_is_refused(options: Options, shared: Shared) -> None:
    with pytest.raises(QuantizationError, match="needs at least"):
        accuracy.quantized(accuracy.prepared("kws", shared), options)


@pytest.mark.models
@pytest.mark.parametrize("row", AGAIN, ids=lambda row: f"{row[0]} {row[1].arguments()}")
def test_a_row_is_as_the_page_says(row: Row, shared: Shared) -> None:
    said, found = accuracy.read_page(accuracy.PAGE.read_text("utf-8"))[row], accuracy.measure(*row, shared)
    assert found.decibels == pytest.approx(said.decibels, abs=DECIBELS)
    assert found.agreement == pytest.approx(said.agreement, abs=PERCENT)


SCRIPT = """
import sys
from qmlir.ir.weights import WeightsMode, module_text
from docs.measurements import accuracy
network = accuracy.prepared("kws", accuracy.shared_file)
quantized = accuracy.quantized(network, accuracy.CONFIGS["powers of two"])
sys.stdout.write(module_text(quantized, WeightsMode.INLINE))
"""


@pytest.mark.models
def test_the_number_of_threads_changes_no_bit(shared: Shared) -> None:
    shared(NETWORKS["kws"].file)
    threads = [os.environ | {"OMP_NUM_THREADS": n, "OPENBLAS_NUM_THREADS": n} for n in ("1", "2")]
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    one, two = (subprocess.run(command, check=True, capture_output=True, env=env).stdout for env in threads)
    assert b"!quant.uniform" in one
    assert one == two
