"""Powers of two beside ESP-DL's quantizer, esp-ppq, on the same float networks and samples.

python -m tests.benchmarks.esp_dl                                  all networks
python -m tests.benchmarks.esp_dl kws digits --python ~/esp/bin/python

All scales of ESP-DL are powers of two, as those of `symmetric_with_power2_scale`. Both tools take the float network up
to its logits and the same samples to calibrate on, with their default settings otherwise, and are scored on the same
other samples: offset-free SQNR of the logits, float's arg-max, and top-1. esp-ppq quantizes for ESP32-P4, which has a
weight scale for each output channel as we have, and simulates the network itself; we run machine code. It runs in
another interpreter (in_esp_ppq.py): `--python`, by default `$QMLIR_PEERS_PYTHON`, which `pip install esp-ppq` equips.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.cli.terminal import say, table_of, terminal
from tests.conftest import ROOT
from tests.models.accuracy import RECIPES, shared_file
from tests.models.networks import NETWORKS, Array, Split, logits, score, split, sqnr

CONTENDER = Path(__file__).with_name("in_esp_ppq.py")

DIGITS = ROOT / "examples" / "digits"

NAMES = ("digits", *NETWORKS)


@dataclass(frozen=True)
class Figures:
    """What a tool reaches on a network.

    decibels   of offset-free SQNR, over all outputs where there are no classes
    agreement  with float's arg-max in percent; None where there are no classes
    points     of top-1 won against float; None where there are no classes
    """

    decibels: float
    agreement: float | None
    points: float | None

    def __str__(self) -> str:
        if self.agreement is None:
            return f"{self.decibels:.1f}"
        return f"{self.decibels:.1f} / {self.agreement:.2f} / {self.points:+.2f}"


def loaded(name: str, share: float) -> tuple[ModuleOp, Split]:
    """A float network up to its logits, and its samples."""
    if name == "digits":
        with np.load(DIGITS / "digits.npz") as data:
            images, tests, labels = (data[k] for k in ("calibration_images", "test_images", "test_labels"))
        count = max(2, round(share * len(tests)))
        return logits(qmlir.load(DIGITS / "digits.onnx")), Split(
            images[:, None], tests[:count, None], labels[:count].astype(int)
        )
    network = NETWORKS[name]
    return logits(qmlir.load(shared_file(network.file))), split(network, shared_file, share)


def ours(module: ModuleOp, data: Split) -> tuple[Array, Array]:
    """The first output of float and of powers of two for each sample, [n, values]."""
    quantized = qmlir.quantize(
        module, qmlir.profile(module, data.profile), data=data.profile, **RECIPES["powers of two"].arguments()
    )

    def run(network: ModuleOp) -> Array:
        machine = qmlir.compile(network)
        return np.stack([machine.run(x)[0].reshape(-1) for x in data.score])

    return run(module), run(quantized)


def theirs(module: ModuleOp, data: Split, python: str, chip: str) -> Array:
    """The first output of esp-ppq's network for each sample, [n, values].

    Raises:
        RuntimeError: It does not take the network; what it said last.
    """
    with tempfile.TemporaryDirectory() as folder:
        model, samples, results = (Path(folder) / name for name in ("float.onnx", "samples.npz", "results.npy"))
        qmlir.export(module, model)
        np.savez(samples, profile=data.profile, score=data.score)
        command = [python, str(CONTENDER), str(model), str(samples), str(results), "--chip", chip]
        ended = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, PYTHONPATH=""))
        if ended.returncode:
            raise RuntimeError((ended.stderr.strip().splitlines() or ["it said nothing"])[-1])
        found: Array = np.load(results)
        return found


def figures(data: Split, truth: Array, got: Array) -> Figures:
    """The figures of some outputs beside float's; both [n, values]."""
    if data.labels is None:
        return Figures(sqnr(truth, got), None, None)
    found = score(data.labels, truth, got)
    return Figures(sqnr(truth, got), found.agreement, found.points)


def compared(name: str, python: str, share: float, chip: str) -> tuple[Figures, Figures]:
    """What we and esp-ppq reach on a network.

    Raises:
        RuntimeError: esp-ppq does not take the network.
    """
    module, data = loaded(name, share)
    truth, powers = ours(module, data)
    return figures(data, truth, powers), figures(data, truth, theirs(module, data, python, chip))


def row(name: str, own: Figures, peer: Figures) -> tuple[Any, ...]:
    """A line of the table: both tools, and what we have above the other."""
    ahead = f"{own.decibels - peer.decibels:+.1f}"
    if own.agreement is not None and peer.agreement is not None:
        ahead += f" / {own.agreement - peer.agreement:+.2f}"
    return name, str(own), str(peer), ahead


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares networks and prints the table; exit status 1 if esp-ppq has more SQNR on one of them."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.esp_dl")
    parser.add_argument("networks", nargs="*", help=f"of {', '.join(NAMES)}; all unless given")
    parser.add_argument("--python", default=os.environ.get("QMLIR_PEERS_PYTHON", sys.executable), help="has esp-ppq")
    parser.add_argument("--share", type=float, default=1.0, help="the part of the samples that counts (default: 1)")
    parser.add_argument("--chip", default="esp32p4", help="what esp-ppq quantizes for (default: esp32p4)")
    given = parser.parse_args(arguments)
    if unknown := set(given.networks) - set(NAMES):
        parser.error(f"there is no network {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    rows: list[tuple[Any, ...]] = []
    behind, refused = 0, list[str]()
    for name in (n for n in NAMES if n in given.networks or not given.networks):
        try:
            own, peer = compared(name, given.python, given.share, given.chip)
        except RuntimeError as reason:
            refused.append(f"{name}: without esp-ppq: {reason}")
            continue
        rows.append(row(name, own, peer))
        behind += own.decibels < peer.decibels
        say(f"{name}: {own}; esp-ppq {peer}")
    say("SQNR in dB / agreement in % / points of top-1 won")
    terminal().print(table_of(("network", "qmlir", "esp-ppq", "ahead"), rows, ()))
    for line in refused:
        say(line)
    return int(behind > 0)


if __name__ == "__main__":
    sys.exit(main())
