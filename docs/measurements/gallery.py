"""The gallery: real networks, as float, quantized and repaired, beside onnxruntime on the same samples.

python -m docs.measurements.gallery             measures every file, writes gallery.json and ACCURACY.md's table
python -m docs.measurements.gallery iris cct    measures some files, and prints their rows
python -m docs.measurements.gallery --configs int8,auto …

A file that is absent, or that a tool refuses, says so in its row. Figures of a file that is not measured stay as they
are in gallery.json.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import qmlir
from docs.measurements.accuracy import PAGE, read_page, shared_file, write_pages
from docs.measurements.gallery_files import FILES, File, Samples
from docs.measurements.gallery_page import CONFIGS, STORE, Figures, cells, stored
from qmlir.analysis.counts import decided, totals
from qmlir.running.files import write_whole
from tests.models.networks import Array

PROFILED, SCORED = 32, 16
"""Samples, or a quarter as many sequences."""

Outputs = Mapping[str, Array]
"""Output → its values for all scored samples, one behind the other."""


def decibels(truth: Array, got: Array) -> float:
    """The SQNR in dB; at most 150."""
    truth, got = truth.astype(np.float64), got.astype(np.float64)
    noise, signal = float(((truth - got) ** 2).sum()), float((truth**2).sum())
    return 150.0 if noise <= signal * 1e-15 else 10 * float(np.log10(max(signal, 1e-300) / noise))


def compared(file: File, truth: Outputs, got: Outputs) -> tuple[dict[str, float], float | None]:
    """The SQNR of each output that is no decision, or of all if all are, and the agreement of decisions."""
    found = {name: round(decibels(truth[name], got[name]), 1) for name in truth}
    others = {name: value for name, value in found.items() if name not in file.decides}
    both = [[outputs[name] >= least for name, least in file.decides.items()] for outputs in (truth, got)]
    if file.classes:
        (name,) = truth
        both = [[outputs[name].argmax(-1)] for outputs in (truth, got)]
    if not both[0]:
        return found, None
    same = np.concatenate([(x == y).reshape(-1) for x, y in zip(*both, strict=True)])
    return others or found, round(100 * float(same.mean()), 1)


def run(network: Any, sequences: Sequence[Samples]) -> Outputs:
    """What a callable of qmlir gives for sequences."""
    made: dict[str, list[Array]] = {}
    for sequence in sequences:
        if hasattr(network, "reset"):
            network.reset()
        for sample in sequence:
            y = network(sample)
            named = y if isinstance(y, dict) else {network.signature.outputs[0].name: y}
            for name, values in named.items():
                made.setdefault(name, []).append(np.asarray(values))
    return {name: np.stack(values) for name, values in made.items()}


def latency(call: Callable[[], Any], seconds: float = 0.5) -> float:
    """Milliseconds of a call, the least."""
    least, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < seconds or least == float("inf"):
        before = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - before)
    return round(least * 1000, 3)


@dataclass
class Prepared:
    """A file that is read: its float module, what profiles it, what is scored, and the float's outputs."""

    file: File
    module: Any
    profiled: Sequence[Samples]
    scored: Sequence[Samples]
    truth: Outputs
    latency: float

    @property
    def calibration(self) -> Any:
        """What `quantize` takes as data."""
        return [list(s) for s in self.profiled] if self.file.states else [s[0] for s in self.profiled]


def prepared(file: File) -> Prepared | None:
    """A file of the gallery; None if it is absent."""
    if (path := file.find(shared_file)) is None:
        return None
    module = qmlir.load(path, bind=dict(file.shapes), constants=dict(file.constants), state=dict(file.states) or None)
    network = qmlir.compile(module)
    divisor = 4 if file.states else 1
    drawn = file.draw(shared_file, (PROFILED + SCORED) // divisor)
    first = network.signature.inputs[0].name
    named = [[{name or first: x for name, x in sample.items()} for sample in sequence] for sequence in drawn]
    profiled, scored = named[: len(named) // 2], named[len(named) // 2 :]
    return Prepared(file, module, profiled, scored, run(network, scored), latency(lambda: network(scored[0][0])))


def measured(network: Prepared, options: Mapping[str, Any]) -> Figures:
    """The figures of a file with some options of `quantize`."""
    try:
        q = qmlir.quantize(network.module, data=network.calibration, **options)
        executable = qmlir.compile(q)
        found, agreement = compared(network.file, network.truth, run(executable, network.scored))
    except qmlir.QmlirError as error:
        return Figures(refusal=str(error))
    all_of = {key: value or 0 for key, value in totals(decided(q)).items()}
    share = 100 * (1 - all_of["quantized_macs"] / all_of["macs"]) if all_of["macs"] else 0.0
    x = network.scored[0][0]
    spent = latency(lambda: executable(x))
    return Figures(found, agreement, all_of["float"], round(share, 2), all_of["weight_bytes"], spent)


# ---------------------------------------------------------------------------------------------------------------
# onnxruntime, on what qmlir exports of the float network


def onnxruntime_figures(network: Prepared) -> dict[str, Figures]:
    """Float, and what `quantize_static` makes of the float network with a scale for each channel."""
    import onnxruntime as ort
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.calibrate import CalibrationDataReader

    settings = ort.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3
    with tempfile.TemporaryDirectory() as folder:
        plain, quantized = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        try:
            qmlir.export(network.module, plain)
            session = ort.InferenceSession(str(plain), settings)
        except Exception as error:  # what another tool raises
            return {"onnxruntime float": Figures(refusal=str(error)), "onnxruntime int8": Figures(refusal=str(error))}
        states = _states(network, session)
        rows = [row for s in network.profiled for row, _ in _stepped(session, s, states)]
        found = {"onnxruntime float": _scored(network, session, states)}

        class Reader(CalibrationDataReader):
            def __init__(self) -> None:
                self.rows: Iterator[Any] = iter(rows)

            def get_next(self) -> Any:
                return next(self.rows, None)

        try:
            quantize_static(str(plain), str(quantized), Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                            activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)  # fmt: skip
            found["onnxruntime int8"] = _scored(network, ort.InferenceSession(str(quantized), settings), states)
        except Exception as error:
            found["onnxruntime int8"] = Figures(refusal=str(error))
    return found


def _states(network: Prepared, session: Any) -> dict[str, str]:
    """Inputs of an exported network that no sample gives → the outputs that are their next values, in order."""
    given, made = set(network.scored[0][0]), set(network.truth)
    inputs = [i.name for i in session.get_inputs() if i.name not in given]
    return dict(zip(inputs, [o.name for o in session.get_outputs() if o.name not in made], strict=True))


def _stepped(
    session: Any, sequence: Samples, states: Mapping[str, str]
) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
    shapes = {i.name: i.shape for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    kept = {name: np.zeros([d if isinstance(d, int) else 1 for d in shapes[name]], np.float32) for name in states}
    for sample in sequence:
        row = {**sample, **kept}
        results = dict(zip(names, session.run(names, row), strict=True))
        kept = {name: results[after] for name, after in states.items()}
        yield row, results


def _scored(network: Prepared, session: Any, states: Mapping[str, str]) -> Figures:
    made: dict[str, list[Array]] = {name: [] for name in network.truth}
    for sequence in network.scored:
        for _, results in _stepped(session, sequence, states):
            for name in made:
                made[name].append(results[name])
    found, agreement = compared(network.file, network.truth, {name: np.stack(v) for name, v in made.items()})
    row = next(iter(_stepped(session, network.scored[0], states)))[0]
    return Figures(found, agreement, latency=latency(lambda: session.run(None, row)))


# ---------------------------------------------------------------------------------------------------------------
# All files


def _row(task: tuple[str, Sequence[str], bool]) -> tuple[str, dict[str, Figures]]:
    name, configs, peers = task
    warnings.simplefilter("ignore")
    network = prepared(next(f for f in FILES if f.name == name))
    if network is None:
        return name, {}
    row = {"float": Figures({}, latency=network.latency)}
    for config in configs:
        started = time.monotonic()
        row[config] = measured(network, CONFIGS[config])
        sys.stderr.write(f"{name} {config}: {row[config]} ({time.monotonic() - started:.0f} s) {row[config].refusal}\n")
    return name, {**row, **(onnxruntime_figures(network) if peers else {})}


def main(argv: Sequence[str] | None = None) -> int:
    """Measures."""
    parser = argparse.ArgumentParser(description="Real networks, quantized.")
    parser.add_argument("files", nargs="*", help="names of the table; all unless given")
    parser.add_argument("--configs", default=",".join(CONFIGS), help="of the columns")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="leave onnxruntime out")
    parser.add_argument("--store", action="store_true", help="write gallery.json although only some are measured")
    parser.add_argument("--json", type=Path, default=STORE, help="where figures are kept")
    parser.add_argument("-j", "--processes", type=int, default=1, help="how many share the files")
    given = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = "1"
    tasks = [(f.name, given.configs.split(","), given.peers) for f in FILES if not given.files or f.name in given.files]
    found = stored()
    with get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        for name, row in pool.imap_unordered(_row, tasks):
            if not row:
                sys.stdout.write(f"{name}: absent\n")
                continue
            found[name] = {**found.get(name, {}), **row}
            sys.stdout.write(" | ".join(cells(name, found[name])) + "\n")
            sys.stdout.flush()
            if given.store or not given.files:
                text = json.dumps({n: {c: asdict(f) for c, f in r.items()} for n, r in found.items()}, indent=1)
                write_whole(given.json, (text + "\n").encode())
                if given.json == STORE:
                    write_pages(read_page(PAGE.read_text("utf-8")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
