"""What each option costs: `ACCURACY.md`, schema × precision × granularity of weights × calibration on six networks.

python -m docs.measurements.accuracy            measures all rows, writes the page and docs' table (`make accuracy`)
python -m docs.measurements.accuracy --check    exit status 1 if the page lacks a row or docs' table is not the page's
python -m docs.measurements.accuracy kws vww    prints the tables of some networks, and writes nothing

A row is quantizing and compiling, by halves; running all samples takes an eighth of it at most. So every row is scored
on all of them, and processes share the rows.
"""

import argparse
import inspect
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from docs.measurements.gallery_page import gallery_section, stored
from docs.measurements.tables import table
from qmlir.running.files import write_whole
from tests.conftest import ROOT
from tests.models.networks import CLASSIFIERS, NETWORKS, Array, Split, logits, score, split, sqnr

PAGE, GUIDE = ROOT / "ACCURACY.md", ROOT / "docs" / "accuracy.md"

Find = Callable[[str], Path]


@dataclass(frozen=True)
class Options:
    """Of `quantize`; the defaults are those of `quantize`."""

    schema: str = "asymmetric"
    precision: str = "int8"
    weight_precision: str = "same"
    per_channel: bool = True
    calibration: str = "auto"

    def arguments(self) -> dict[str, Any]:
        """What `quantize` has to be told."""
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) != f.default}

    @property
    def storage(self) -> str:
        """Of data and weights, as the tables call it."""
        return next(name for name, both in STORAGE.items() if both == (self.precision, self.weight_precision))


SCHEMAS = ("asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale")
STORAGE = {"int8": ("int8", "same"), "16x8": ("int16", "int8"), "int16": ("int16", "same")}
CALIBRATIONS = ("auto", "minmax", "moving_average", "percentile", "kl", "kl_tvm", "mse", "aciq")

CONFIGS = {
    "default": Options(),
    "symmetric": Options("symmetric"),
    "powers of two": Options("symmetric_with_power2_scale"),
    "int16, powers of two": Options("symmetric_with_power2_scale", "int16"),
    "16x8": Options("symmetric", "int16", "int8"),
}
"""What docs/accuracy.md shows; the same for every network."""

LINES = [Options(s, *STORAGE[p], per_channel=c) for s, p, c in product(SCHEMAS, STORAGE, (True, False))]
"""The lines of a network's table; its columns are the calibrations."""

Row = tuple[str, Options]
"""A network and the options it is quantized with."""


def with_calibration(options: Options, calibration: str) -> Options:
    """The same but for how ranges are narrowed."""
    return Options(**{**asdict(options), "calibration": calibration})


def is_refused(options: Options) -> bool:
    """Whether `quantize` says no: divergences need a bin for each integer, and a profile has fewer."""
    return options.precision == "int16" and options.calibration in ("kl", "kl_tvm")


REFUSED = "–"
BINS = inspect.signature(qmlir.profile).parameters["bins"].default

ALL = [(n, with_calibration(line, c)) for n in CLASSIFIERS for line in LINES for c in CALIBRATIONS]
MEASURED = [row for row in ALL if not is_refused(row[1])]


# ---------------------------------------------------------------------------------------------------------------
# Measuring


@dataclass(frozen=True)
class Figures:
    """What a row has: offset-free SQNR in dB, agreement with float's arg-max in percent, points of top-1 won."""

    decibels: float
    agreement: float
    points: float

    def __str__(self) -> str:
        return f"{self.decibels:.1f} / {self.agreement:.2f} / {self.points:+.2f}"

    @classmethod
    def of(cls, text: str) -> "Figures":
        """The figures of a cell."""
        return cls(*map(float, text.split(" / ")))


@dataclass(frozen=True)
class Prepared:
    """A network, its profile, its samples and its float logits [n, classes]."""

    module: ModuleOp
    profile: Any
    data: Split
    truth: Array


@lru_cache(maxsize=1)
def prepared(name: str, find: Find) -> Prepared:
    """A network of `NETWORKS`. Rows come network by network, so one is kept."""
    network = NETWORKS[name]
    module, data = logits(qmlir.load(find(network.file))), split(network, find)
    return Prepared(module, qmlir.profile(module, data.profile), data, _outputs(module, data.score))


def _outputs(module: ModuleOp, samples: Array) -> Array:
    machine = qmlir.compile(module)
    return np.stack([machine.run(x)[0].reshape(-1) for x in samples])


def quantized(network: Prepared, options: Options) -> ModuleOp:
    """The network with some options, biases corrected on what profiled it."""
    return qmlir.quantize(network.module, network.profile, data=network.data.profile, **options.arguments())


def measure(name: str, options: Options, find: Find) -> Figures:
    """The figures of one row, over all samples that are scored."""
    network = prepared(name, find)
    got = _outputs(quantized(network, options), network.data.score)
    assert network.data.labels is not None
    found = score(network.data.labels, network.truth, got)
    return Figures(sqnr(network.truth, got), found.agreement, found.points)


def shared_file(name: str) -> Path:
    """A file below $QMLIR_SHARED."""
    return Path(os.environ.get("QMLIR_SHARED", ROOT.parent / "shared")) / name


def _measured(row: Row) -> tuple[Row, Figures]:
    return row, measure(*row, shared_file)


def measure_all(rows: Sequence[Row], processes: int) -> Iterator[tuple[Row, Figures]]:
    """Rows with their figures as they come, of several processes, each with one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"  # what the processes inherit, before they load numpy
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(_measured, rows)


# ---------------------------------------------------------------------------------------------------------------
# The page

HEADER = """\
# Accuracy

Generated by `make accuracy`, which `make models` ends with; the table of docs/accuracy.md is this page's first, and
`make lint` fails where either lacks a row.

Each cell is **offset-free SQNR in dB / agreement in % / top-1 in points**: the SQNR of the logits, before a final
softmax, without each sample's mean and mean error; the samples with float's arg-max; and the samples that became right
less those that became wrong, of those with a label. Options are those of `qmlir quantize`, and the same for every
network.

Samples are permuted by `numpy.random.default_rng(0).permutation(n)`: the first profile the network and correct its
biases, those after them are scored. vww is profiled on pictures of ImageNet, without labels, and scored on labelled
ones of COCO and on more of ImageNet.

"""

OPTIONS = f"""\
## Options

Lines are schema, storage of data and weights (16x8: data of 16 bits, weights of 8), and whether weights have a scale
for each output channel or one for the tensor; columns are how histograms narrow ranges. `{REFUSED}`: divergences need a
bin for each integer, and a profile has {BINS} of them, so that `kl` and `kl_tvm` are errors beside 16 bits.
"""


def configs_table(found: Mapping[Row, Figures]) -> str:
    """The guide's, and the page's first."""
    lines = ([name, *(str(found[name, o]) for o in CONFIGS.values())] for name in CLASSIFIERS)
    return table(["network", *CONFIGS], lines)


def options_table(name: str, found: Mapping[Row, Figures]) -> str:
    """All options on one network."""

    def line(options: Options) -> list[str]:
        who = [options.schema, options.storage, "channel" if options.per_channel else "tensor"]
        cells = ((name, with_calibration(options, c)) for c in CALIBRATIONS)
        return [*who, *(REFUSED if is_refused(row[1]) else str(found[row]) for row in cells)]

    return f"### {name}\n\n{table(['schema', 'storage', 'per', *CALIBRATIONS], map(line, LINES))}"


def page(found: Mapping[Row, Figures]) -> str:
    """The page with the figures of all measured rows."""
    samples = table(["network", "profiled", "scored"],
                    ([n, str(NETWORKS[n].profiled), str(NETWORKS[n].all_scored)] for n in CLASSIFIERS))  # fmt: skip
    tables = [options_table(name, found) for name in CLASSIFIERS]
    return "\n".join(
        [f"{HEADER}{samples}", "## Configurations\n", configs_table(found), gallery_section(stored()), OPTIONS, *tables]
    )


def read_page(text: str) -> dict[Row, Figures]:
    """The figures of a page.

    Raises:
        ValueError: It is not a whole page.
    """
    cells: list[str] = []
    for line in text.partition("## Options")[2].splitlines():
        if line.startswith(tuple(f"| {schema} |" for schema in SCHEMAS)):
            cells += line.strip("| ").split(" | ")[3:]
    said = dict(zip(ALL, cells, strict=True))
    return {row: Figures.of(said[row]) for row in MEASURED}


def with_table(guide: str, configs: str) -> str:
    """The guide with another table of configs."""
    start = guide.index("| network | default")
    end = guide.index("\n\n", start) + 1
    return guide[:start] + configs + guide[end:]


def is_fresh() -> bool:
    """Whether the page is whole and the guide has its table."""
    try:
        found = read_page(text := PAGE.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return text == page(found) and configs_table(found) in GUIDE.read_text("utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, or checks the page."""
    parser = argparse.ArgumentParser(description="What each option costs.")
    parser.add_argument("networks", nargs="*", help=f"of {', '.join(CLASSIFIERS)}; all unless given")
    parser.add_argument("--check", action="store_true", help="fail where the page is not whole, and measure nothing")
    parser.add_argument("-j", "--processes", type=int, default=os.cpu_count() or 1, help="how many share the rows")
    arguments = parser.parse_args(argv)
    if arguments.check:
        fresh = is_fresh()
        sys.stderr.write("" if fresh else f"{PAGE.name} is not whole, or not {GUIDE.name}'s; run `make accuracy`\n")
        return int(not fresh)
    names = [n for n in CLASSIFIERS if n in arguments.networks] or CLASSIFIERS
    found: dict[Row, Figures] = {}
    rows, started = [row for row in MEASURED if row[0] in names], time.monotonic()
    for (name, options), figures in measure_all(rows, arguments.processes):
        found[name, options] = figures
        told = " ".join(f"{key}={value}" for key, value in options.arguments().items()) or "default"
        sys.stdout.write(f"{time.monotonic() - started:6.0f} s {len(found):4d}/{len(rows)} {name} {told}: {figures}\n")
        sys.stdout.flush()
    if arguments.networks:
        sys.stdout.write("\n".join(["", *(options_table(name, found) for name in names)]))
        return 0
    write_pages(found)
    return 0


def write_pages(found: Mapping[Row, Figures]) -> None:
    """Writes the page, and the guide's table."""
    write_whole(PAGE, page(found).encode())
    write_whole(GUIDE, with_table(GUIDE.read_text("utf-8"), configs_table(found)).encode())


if __name__ == "__main__":
    sys.exit(main())
