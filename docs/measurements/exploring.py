"""`make explore`: networks on variants of devices that come with qmlir, and the picture of docs/exploring.md.

    python -m docs.measurements.exploring [NETWORK …] [--jobs N] [--picture]

`digits` is the network of examples/digits; others need QMLIR_SHARED. Results are kept in build/explore. `--picture`
writes docs/images/explore.svg from the sweep of `digits`; a test checks that the picture is fresh.
"""

import argparse
import sys
import warnings
from typing import Any

from docs.measurements.tuning import network
from qmlir.analysis.explore import Workload, explore
from qmlir.analysis.explore.result import Explored
from qmlir.errors import QmlirWarning
from qmlir.running.files import write_whole
from tests.conftest import ROOT

PICTURE = ROOT / "docs" / "images" / "explore.svg"

DEVICE = "ethos-u55-like"
SWEEP: dict[str, list[object]] = {"array.lanes.n": [4, 8, 16], "memory.sram.bytes": [16384, 65536, 262144]}
POLICIES: dict[str, Any] = {
    "int8": {"default": {"precision": "int8"}},
    "int16": {"default": {"precision": "int16", "weight_precision": "int8"}},
}
SAMPLES = 8
"""The most samples that a network is quantized on."""

SCORED = 50
"""The most samples that errors are measured on."""


def swept(name: str, workers: int | None = None) -> Explored:
    """Returns the rows of a network."""
    module, samples, tests = network(name)
    load = Workload(module, samples[:SAMPLES], tests[:SCORED], name=name)
    return explore(DEVICE, load, sweep=SWEEP, policies=POLICIES, workers=workers, results=ROOT / "build" / "explore")


def main() -> None:
    """Reads the command line."""
    warnings.simplefilter("ignore", QmlirWarning)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--picture", action="store_true")
    parser.add_argument("networks", nargs="*", default=["digits", "kws"])
    given = parser.parse_args()
    for name in ["digits"] if given.picture else given.networks:
        found = swept(name, given.jobs)
        sys.stdout.write(f"{found.table().text()}\n\n")
        sys.stdout.flush()
        if given.picture:
            write_whole(PICTURE, found.svg())


if __name__ == "__main__":
    main()
