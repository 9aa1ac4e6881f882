"""The table of `make bench`: latency beside other runtimes, and the time to load: `python -m docs.measurements.peers`.

Every contender is a process (contender.py) with one network on as many processors as it has threads. They take turns,
A B C A B C, so that a ratio compares what the machine did at the same time. A turn counts unless something else used
the machine meanwhile; what is lost is taken again, up to a limit. A ratio is the median over the rounds in which both
turns count, and its spread is that of these rounds. All peers are called on arrays that are bound once. We are called
both ways: the ratios are those of calls that check their inputs and make their outputs, and `bound` is the least of the
ratios to calls on bound arrays (`Executable.bind`).

The networks of `$QMLIR_PEERS` (see its build_models.py) are measured beside onnxruntime and OpenVINO, on the same file;
the .tflite files of int8 below `$QMLIR_SHARED` beside LiteRT with XNNPACK. What is not installed or not there is left
out with a note. `$QMLIR_PEERS_PYTHON` may name an interpreter that has the peers.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from docs.measurements.contender import Loaded, Turn
from docs.measurements.depthwise import processor
from qmlir.cli.terminal import say, table_of, terminal
from tests.conftest import ROOT

OURS, BOUND = "qmlir", "qmlir-bound"
"""Our calls that check their inputs and make their outputs, and those on arrays that are bound once, as the peers'."""

CONTENDER = Path(__file__).with_name("contender.py")

LOADS = 3
"""How often a network is loaded without the cache, and with it."""

ENOUGH = 3
"""Rounds in which both turns count, so that a ratio is the median of these; with fewer all rounds count."""

MOST_STOLEN, LEAST_OWN, MOST_OTHERS = 0.02, 0.975, 0.08
"""A turn counts if other machines took less of it than the first number, and one thread ran for more of it than the
second, or others ran beside several threads for less than the third."""


@dataclass(frozen=True)
class Model:
    """A network, the file that all contenders read, and the peers that read it."""

    name: str
    path: Path
    peers: Sequence[str]


PEERS = Path(os.environ.get("QMLIR_PEERS", Path.home() / ".cache" / "qmlir-peers")) / "models"
TFLITE = Path(os.environ.get("QMLIR_SHARED", ROOT.parent / "shared")) / "models" / "tflite"

READ_ONNX, READ_TFLITE = ("onnxruntime", "openvino"), ("litert",)


def _models() -> dict[str, Model]:
    of_peers = ("resnet50", "mobilenetv2", "minilm", "resnet8", "dscnn")
    forms = (("int8", "_qdq_u8s8"), ("f32", ""))
    tflite = ("kws_dscnn_i8", "resnet8_cifar_i8", "vww_mbv1_i8", "ad_fcae_i8", "str_ww_i8")
    made = [
        *(Model(f"{m} {form}", PEERS / f"{m}{end}.onnx", READ_ONNX) for form, end in forms for m in of_peers),
        *(Model(m, TFLITE / f"{m}.tflite", READ_TFLITE) for m in tflite),
    ]
    return {model.name: model for model in made}


MODELS = _models()
"""The networks of the table by name; those of the peers as int8 and as float."""


# ---------------------------------------------------------------------------------------------------------------
# Contenders


class NotThere(Exception):
    """A contender cannot take part; the message says why."""


@dataclass
class Contender:
    """A running process of a contender, and its turns."""

    runtime: str
    model: Path
    threads: int
    cpu: str | None = None
    cache: str = "off"
    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self):
        python = (
            sys.executable if self.runtime in (OURS, BOUND) else os.environ.get("QMLIR_PEERS_PYTHON", sys.executable)
        )
        command = [python, "-W", "ignore", str(CONTENDER), self.runtime, str(self.model), str(self.threads)]
        command += ["--cpu", self.cpu] if self.cpu and self.runtime in (OURS, BOUND) else []
        own = {"OMP_NUM_THREADS": str(self.threads), "TF_CPP_MIN_LOG_LEVEL": "3", "QMLIR_CACHE": self.cache}
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **own, "PYTHONPATH": paths},
        )
        answer = self._answer()
        if "missing" in answer:
            self.end()
            raise NotThere(f"{answer['missing']} is not installed")
        self.loaded = Loaded(**answer)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = self._errors.read().strip().splitlines()[-1:] or ["no message"]
            self.end()
            raise NotThere(f"ended with {self._process.returncode}: {last[0]}")
        return json.loads(line)

    def take(self, seconds: float) -> None:
        """Takes a turn of so many seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        self.turns.append(Turn(**self._answer()))

    def counts(self, turn: Turn) -> bool:
        """Whether nothing else used the machine during a turn; always, where the system does not tell."""
        alone = turn.own >= LEAST_OWN if self.threads == 1 else turn.others <= MOST_OTHERS
        return alone and turn.stolen < MOST_STOLEN

    def end(self) -> None:
        """Ends the process."""
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                stream.close()
        self._process.wait()


# ---------------------------------------------------------------------------------------------------------------
# Measuring. All figures are plain data, as `--json` writes them: seconds, ratios, megabytes.


@dataclass(frozen=True)
class Spread:
    """A median, the least and the greatest of some numbers, and how many rounds counted, of how many."""

    median: float
    low: float
    high: float
    counted: int
    taken: int

    @staticmethod
    def of(numbers: Iterable[tuple[float, bool]]) -> "Spread":
        """The spread of the numbers that count; of all, if fewer than `ENOUGH` do."""
        every = list(numbers)
        counted = [number for number, counts in every if counts]
        used = counted if len(counted) >= ENOUGH else [number for number, _ in every]
        return Spread(statistics.median(used), min(used), max(used), len(counted), len(every))

    @property
    def is_clean(self) -> bool:
        return self.counted >= ENOUGH


@dataclass(frozen=True)
class Row:
    """A row of the table.

    latency    of our calls, in seconds
    bound      of our calls on bound arrays
    ratios     of each peer: its time divided by ours
    to_bound   of each peer: its time divided by that of our calls on bound arrays
    cold       seconds until the first call has ended, without a cache; of some processes
    cached     the same from the cache
    megabytes  the peak of memory without a cache
    notes      peers that are left out, and why
    """

    network: str
    threads: int
    latency: Spread
    bound: Spread
    ratios: Mapping[str, Spread]
    to_bound: Mapping[str, Spread]
    cold: Spread
    cached: Spread
    megabytes: float
    notes: Sequence[str]

    @property
    def fastest(self) -> float | None:
        """The least of the ratios."""
        return min((ratio.median for ratio in self.ratios.values()), default=None)

    @property
    def fastest_bound(self) -> float | None:
        """The least of the ratios to calls on bound arrays."""
        return min((ratio.median for ratio in self.to_bound.values()), default=None)


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds, the most rounds more for turns that do not count, and seconds of a turn."""

    rounds: int
    more: int
    seconds: float


def loads(model: Model, threads: int, cpu: str | None) -> tuple[list[Loaded], list[Loaded]]:
    """What loading a network costs us: into an empty cache, and from it; each in a process of its own."""
    cold: list[Loaded] = []
    cached: list[Loaded] = []
    for _ in range(LOADS):
        with tempfile.TemporaryDirectory() as cache:
            for found in (cold, cached):
                contender = Contender(OURS, model.path, threads, cpu, cache)
                found.append(contender.loaded)
                contender.end()
    return cold, cached


def rounds(contenders: Sequence[Contender], effort: Effort) -> None:
    """Lets contenders take turns until enough rounds count for all, or the limit is reached."""
    for number in range(effort.rounds + effort.more):
        if number >= effort.rounds and all(
            sum(a.counts(x) and b.counts(y) for x, y in zip(a.turns, b.turns, strict=True)) >= effort.rounds // 2 + 1
            for a, b in ((contenders[0], other) for other in contenders)
        ):
            break
        for contender in contenders:
            contender.take(effort.seconds)


def measured(model: Model, threads: int, effort: Effort, cpu: str | None = None) -> Row:
    """The row of a network.

    Raises:
        NotThere: The file is missing, or we do not compile it.
    """
    if not model.path.exists():
        raise NotThere(f"there is no {model.path}")
    cold, cached = loads(model, threads, cpu)
    ours, bound = (Contender(runtime, model.path, threads, cpu) for runtime in (OURS, BOUND))
    contenders, notes = [ours, bound], list[str]()
    for peer in model.peers:
        try:
            contenders.append(Contender(peer, model.path, threads))
        except NotThere as reason:
            notes.append(f"without {peer}: {reason}")
    try:
        rounds(contenders, effort)
    finally:
        for contender in contenders:
            contender.end()

    def ratio(peer: Contender, own: Contender) -> Spread:
        both = zip(own.turns, peer.turns, strict=True)
        return Spread.of((b.median / a.median, own.counts(a) and peer.counts(b)) for a, b in both)

    def latency(own: Contender) -> Spread:
        return Spread.of((turn.median, own.counts(turn)) for turn in own.turns)

    peers = contenders[2:]

    return Row(
        model.name,
        threads,
        latency(ours),
        latency(bound),
        {peer.runtime: ratio(peer, ours) for peer in peers},
        {peer.runtime: ratio(peer, bound) for peer in peers},
        Spread.of((load.seconds, True) for load in cold),
        Spread.of((load.seconds, True) for load in cached),
        max(load.megabytes for load in cold),
        notes,
    )


# ---------------------------------------------------------------------------------------------------------------
# Showing


def shown(spread: Spread, digits: Callable[[float], str]) -> str:
    """A median with its spread; `~` marks one of turns that others disturbed."""
    disturbed = "" if spread.is_clean else "~"
    return f"{disturbed}{digits(spread.median)} [{digits(spread.low)}–{digits(spread.high)}]"


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def show(rows: Sequence[Row]) -> None:
    """Prints the table, and notes below it."""
    peers = list(dict.fromkeys(peer for row in rows for peer in row.ratios))
    numbers = [
        "threads",
        "qmlir ms",
        *(f"{peer} ÷ qmlir" for peer in peers),
        "fastest",
        "bound",
        "cold s",
        "cached s",
        "MB",
    ]
    lines = [
        (
            row.network,
            row.threads,
            shown(row.latency, milliseconds),
            *(shown(row.ratios[p], "{:.2f}".format) if p in row.ratios else "" for p in peers),
            "" if row.fastest is None else f"{row.fastest:.2f}",
            "" if row.fastest_bound is None else f"{row.fastest_bound:.2f}",
            f"{row.cold.median:.2f}",
            f"{row.cached.median:.2f}",
            f"{row.megabytes:.0f}",
        )
        for row in rows
    ]
    terminal().print(table_of(("network", *numbers), lines, numbers))
    disturbed = [row for row in rows if not all(s.is_clean for s in (row.latency, *row.ratios.values()))]
    if disturbed:
        say(f"~ something else used the machine in all but {ENOUGH - 1} rounds at most; all rounds count")
    for row in rows:
        for note in row.notes:
            say(f"{row.network}, {row.threads} threads: {note}")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _names(text: str) -> list[str]:
    """The networks whose names begin with one of some words."""
    found = [name for word in text.split(",") for name in MODELS if name.startswith(word)]
    if not found:
        raise argparse.ArgumentTypeError(f"there is no network of {text}; there are {', '.join(MODELS)}")
    return list(dict.fromkeys(found))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures networks and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m docs.measurements.peers")
    parser.add_argument("--models", type=_names, default=list(MODELS), help="how their names begin: resnet8,kws")
    parser.add_argument("--threads", type=_numbers, default=[1, 2], help="1,2 by default")
    parser.add_argument("--cpu", help="what we compile for, by LLVM's name (default: this processor)")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of turns (default: 9)")
    parser.add_argument("--more", type=int, default=9, help="the most rounds more, for turns that do not count")
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn (default: 0.3)")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    given = parser.parse_args(arguments)
    effort = Effort(given.rounds, given.more, given.seconds)
    rows: list[Row] = []
    missing: list[str] = []
    for name in given.models:
        for threads in given.threads:
            if threads > (os.cpu_count() or 1):
                missing.append(f"{name}, {threads} threads: this machine has {os.cpu_count()} processors")
                continue
            try:
                rows.append(measured(MODELS[name], threads, effort, given.cpu))
            except NotThere as reason:
                missing.append(f"{name}, {threads} threads: {reason}")
    say(f"{processor()}; ratios are a peer's time divided by ours, medians [least–greatest] of rounds")
    show(rows)
    for line in missing:
        say(line)
    if given.json is not None:
        found = [{**asdict(row), "fastest": row.fastest, "fastest_bound": row.fastest_bound} for row in rows]
        given.json.write_text(json.dumps({"processor": processor(), "rows": found}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
