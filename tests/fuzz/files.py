"""`python -m tests.fuzz.files`: damaged files of each format end in a typed error or a result, soon, in little memory.

    python -m tests.fuzz.files --count 5000                          # of each of the twelve formats
    python -m tests.fuzz.files --format mlir --number 4711 --keep d   # one file again, kept in the folder d

Each number stands for one damaged file of a format. It is read as the commands read it, in a process of its own that
may take `SECONDS` of processor time and `MEMORY` bytes. Anything but a result or an error of one printable paragraph
is a finding: a traceback, a crash, a hang, a file outside the model's folder that came in.
"""

import argparse
import io
import json
import os
import shutil
import struct
import sys
import tempfile
import time
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TextIO

import numpy as np

import qmlir
from qmlir.backends.npu.stream import HEADER
from qmlir.cli.diagnostics import diagnostic_of
from qmlir.compiler import load, load_program, main_function
from qmlir.devices import load_device
from qmlir.ir.context import make_context
from qmlir.ir.signature import signature_of
from qmlir.ir.source import parse_text
from qmlir.ir.verify import verification_errors
from qmlir.ir.weights import WeightsMode, module_text
from qmlir.profiles.files import save_glow
from qmlir.profiles.profile import Profile
from qmlir.samples.files import Samples
from qmlir.settings.policy import Policy
from qmlir.transforms.quantize.ranges.apply_profile import apply_profile
from tests.cli.small import write_small
from tests.conformance import flatbuffer_mutations, mutations
from tests.conformance.isolation import Died, isolated
from tests.conftest import ROOT
from tests.frontends.gguf.files import tiny
from tests.fuzz.caffe2_nets import damaged_net, damaged_text
from tests.fuzz.certificates import check_damaged, damaged_certificate
from tests.fuzz.damage import damaged

Random = np.random.Generator

MEMORY = 2 << 30
SECONDS = 20.0
LONGEST = 6000
"""Characters of an error."""

SECRET = "secretsecret"
"""What lies in a file that no model may read; see `mutations.write`."""


@dataclass(frozen=True)
class Format:
    """One kind of files.

    make  number → content of a damaged file, and what was done to it
    read  reads a file of that name in its folder and returns text about it
    file  the name
    """

    make: Callable[[int], tuple[bytes, str]]
    read: Callable[[Path], str]
    file: str


# ---------------------------------------------------------------------------------------------------------------
# Good files


@cache
def good() -> Path:
    """A folder with good files of each format, made once before processes are forked."""
    folder = Path(tempfile.mkdtemp(prefix="qmlir-good-"))
    small = write_small(folder)
    network = qmlir.load(small.onnx)
    qmlir.save(network, folder / "net.mlir")
    samples = list(Samples(small.data, signature_of(main_function(network))))
    profile = qmlir.profile(network, samples)
    profile.save(folder / "profile.yaml")
    save_glow(profile, folder / "glow.yaml")
    (folder / "policy.yaml").write_text(POLICY)
    quantized = qmlir.quantize(network, profile, target=DEVICE)
    qmlir.save(quantized, folder / "quantized.mlir", weights="inline")
    qmlir.compile(quantized, target=DEVICE).save(folder / "net.npu")
    return folder


DEVICE = "nmp"

GGUF = (("llama", "F32"), ("qwen2", "Q4_1"), ("qwen3", "Q8_0"))
"""The architectures and types of good files of language models."""

POLICY = """default: {schema: symmetric, precision: int8, per_channel: true, calibration: mse}
rules:
- {name: conv1, precision: int16, weight_precision: int8}
- {op: fully_connected, keep_float: true}
- {glob: "f*", range: [-1.5, 6.0]}
- {layer: last, schema: asymmetric}
"""


@cache
def texts(kind: str) -> list[str]:
    """Good texts of a format."""
    folder = good()
    match kind:
        case "mlir":
            pieces = [
                piece
                for path in sorted((ROOT / "filecheck_tests").rglob("*.mlir"))
                for piece in path.read_text().split("// -----")
                if len(piece) < 6000
            ]
            return pieces + 20 * [(folder / "quantized.mlir").read_text()]
        case "yaml":
            return [(folder / name).read_text() for name in ("profile.yaml", "glow.yaml", "policy.yaml")]
        case _:
            return [path.read_text() for path in sorted((ROOT / "qmlir" / "targets").glob("*.toml"))]


@cache
def binaries(kind: str) -> list[bytes]:
    """Good binary files of a format."""
    match kind:
        case "onnx":
            return mutations.base_models()
        case "tflite":
            return flatbuffer_mutations.base_files()
        case "gguf":
            return [tiny(architecture, kind, layers=1, vocabulary=2) for architecture, kind in GGUF]
        case "npz":
            return [(good() / "data.npz").read_bytes()]
        case "npu":
            return [(good() / "net.npu").read_bytes()]
        case _:
            return [(good() / "net.safetensors").read_bytes()]


# ---------------------------------------------------------------------------------------------------------------
# Damage


def _in_bytes(data: bytes, random: Random, bases: Sequence[bytes]) -> tuple[bytes, str]:
    change = mutations.BYTES[int(random.integers(len(mutations.BYTES)))]
    return change(data, random, bases), change.__name__


def _text(kind: str, number: int) -> tuple[bytes, str]:
    random = np.random.default_rng(number)
    known = texts(kind)
    text = known[int(random.integers(len(known)))]
    if random.random() < 0.1:
        return _in_bytes(text.encode() or b" ", random, [t.encode() for t in known])
    changed, how = damaged(text, random, known)
    return changed.encode(errors="surrogatepass"), how


def _onnx(number: int) -> tuple[bytes, str]:
    made = mutations.mutant(number, binaries("onnx"))
    return made.data, made.how


def _tflite(number: int) -> tuple[bytes, str]:
    made = flatbuffer_mutations.flatbuffer_mutant(number, binaries("tflite"))
    return made.data, made.how


def _gguf(number: int) -> tuple[bytes, str]:
    """Mostly with a damaged header: any bytes are weights."""
    random, files = np.random.default_rng(number), binaries("gguf")
    data = files[int(random.integers(len(files)))]
    if random.random() < 0.2:
        return _in_bytes(data, random, files)
    changed, how = _in_bytes(data[: data.index(b"output_norm")], random, files)
    return changed + data[data.index(b"output_norm") :], how


def _safetensors(number: int) -> tuple[bytes, str]:
    random = np.random.default_rng(number)
    (data,) = binaries("safetensors")
    if random.random() < 0.4:
        return _in_bytes(data, random, [data])
    size = int.from_bytes(data[:8], "little")
    changed, how = damaged(data[8 : 8 + size].decode(), random, [data[8 : 8 + size].decode()])
    header = changed.encode(errors="surrogatepass")
    return len(header).to_bytes(8, "little") + header + data[8 + size :], how


def _npu(number: int) -> tuple[bytes, str]:
    """Mostly with a checksum and sizes that fit, since nothing else is read of other files."""
    random = np.random.default_rng(number)
    (data,) = binaries("npu")
    if random.random() < 0.2:
        return _in_bytes(data, random, [data])
    magic, version, text_size, words, data_size = HEADER.unpack_from(data)
    start = HEADER.size
    text, stream = data[start : start + text_size], data[start + text_size : -4 - data_size]
    if random.random() < 0.5:
        changed, how = damaged(text.decode(), random, [text.decode()])
        text = changed.encode(errors="surrogatepass")
    else:
        numbers = bytearray(stream)
        for at in random.integers(words, size=random.integers(1, 4)):
            numbers[4 * at : 4 * at + 4] = _word(random, stream, words)
        stream, how = bytes(numbers), "other words"
    head = HEADER.pack(magic, version, len(text), words, data_size)
    body = head + text + stream + data[len(data) - 4 - data_size : -4]
    return body + zlib.crc32(body).to_bytes(4, "little"), how


def _word(random: Random, stream: bytes, words: int) -> bytes:
    """An absurd word, another one of the stream, or one with a bit flipped."""
    at = 4 * int(random.integers(words))
    match int(random.integers(3)):
        case 0:
            return struct.pack("<I", int(random.choice([0, 1, 0xFFFF, 1 << 20, 1 << 31, 0xFFFFFFFF])))
        case 1:
            return stream[at : at + 4]
        case _:
            return struct.pack("<I", struct.unpack_from("<I", stream, at)[0] ^ 1 << int(random.integers(32)))


def _npz(number: int) -> tuple[bytes, str]:
    random = np.random.default_rng(number)
    (data,) = binaries("npz")
    if random.random() < 0.5:
        return _in_bytes(data, random, [data])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = archive.read("image.npy")
    if random.random() < 0.5:
        header = member[10:128].decode()
        changed, how = damaged(header, random, [header])
        member = member[:8] + struct.pack("<H", len(changed.encode()) & 0xFFFF) + changed.encode() + member[128:]
    else:
        member, how = _in_bytes(member, random, [member])
    out = io.BytesIO()
    compression = int(random.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr(str(random.choice(["image.npy", "other.npy", "../image.npy", ""])) or "x", member)
        if random.random() < 0.1:
            archive.writestr("zeros.npy", b"\x93NUMPY" + bytes(1 << 24))
    return out.getvalue(), how


# ---------------------------------------------------------------------------------------------------------------
# Reading


def _model(path: Path) -> str:
    module = load(path)
    module.verify()
    return module_text(module, WeightsMode.ELIDED)


def _opaque_model(path: Path) -> str:
    """A model in a folder where side files are, and files that it must not read."""
    moved = mutations.write(path.parent, mutations.Mutant(path.read_bytes(), ""))
    return _model(moved)


def _mlir(path: Path) -> str:
    """Reads, verifies and prints a module, and reads that."""
    module = parse_text(make_context(), path.read_text(encoding="utf-8", errors="replace"), str(path))
    for error in verification_errors(module):
        raise error
    printed = module_text(module, WeightsMode.INLINE)
    if len(printed) < 1_000_000:
        parse_text(make_context(), printed, "printed")
    return ""


def _side_file(path: Path) -> str:
    shutil.copy(good() / "net.mlir", path.parent / "net.mlir")
    module = load(path.parent / "net.mlir")
    module.verify()
    return str(len(module_text(module, WeightsMode.INLINE)))


def _yaml(path: Path) -> str:
    """A profile that is applied, or a policy."""
    text = path.read_bytes()
    if b"rules:" in text:
        return Policy.load(path).text()
    profile = Profile.load(path)
    report = apply_profile(network().clone(), profile, source=str(path), partial=True, by_name=True)
    return "\n".join(report.lines())


@cache
def network():  # noqa: ANN201
    """The network that profiles and samples are for."""
    return load(good() / "net.mlir")


def _toml(path: Path) -> str:
    from qmlir.cli.main import main

    return str(main(["device", "check", str(path)])) if load_device(path) else ""


def _program(path: Path) -> str:
    shutil.copy(good() / "net.host.mlir", path.parent / "net.host.mlir")
    for side in good().glob("net.host.safetensors"):
        shutil.copy(side, path.parent)
    program = load_program(path, DEVICE)
    inputs = {spec.name: np.zeros(spec.shape, spec.dtype) for spec in program.signature.inputs}
    return str(program(inputs))


def _samples(path: Path) -> str:
    found = Samples(path, signature_of(main_function(network())))
    return str(sum(float(np.abs(array).max(initial=0)) for sample in found for array in sample.values()))


FORMATS = {
    "onnx": Format(_onnx, _opaque_model, "net.onnx"),
    "tflite": Format(_tflite, _model, "net.tflite"),
    "gguf": Format(_gguf, _model, "net.gguf"),
    "pb": Format(damaged_net, _model, "net.pb"),
    "pbtxt": Format(damaged_text, _model, "net.pbtxt"),
    "mlir": Format(partial(_text, "mlir"), _mlir, "net.mlir"),
    "safetensors": Format(_safetensors, _side_file, "net.safetensors"),
    "yaml": Format(partial(_text, "yaml"), _yaml, "file.yaml"),
    "toml": Format(partial(_text, "toml"), _toml, "device.toml"),
    "npu": Format(_npu, _program, "net.npu"),
    "npz": Format(_npz, _samples, "data.npz"),
    "certificate": Format(damaged_certificate, check_damaged, "net.zip"),
}


# ---------------------------------------------------------------------------------------------------------------
# Outcomes


def outcome(kind: str, number: int, keep: Path | None = None) -> str:
    """`read`, `refused`, or what went wrong with a damaged file."""
    format = FORMATS[kind]
    data, how = format.make(number)
    folder = keep or Path(tempfile.mkdtemp(prefix="qmlir-damaged-"))
    folder.mkdir(exist_ok=True)
    path = folder / format.file
    path.write_bytes(data)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    streams, sys.stdout, sys.stderr = (sys.stdout, sys.stderr), io.StringIO(), io.StringIO()
    try:
        about = format.read(path)
        return f"{how}: leaked" if SECRET in about else "read"
    except Exception as error:
        text = str(diagnostic_of(error, doing="reading"))
        fine = text.isprintable() and len(text) < LONGEST and "this is a bug" not in text and SECRET not in text
        return "refused" if fine else f"{how}: {text[-600:]}"
    finally:
        sys.stdout, sys.stderr = streams
        if keep is None:
            shutil.rmtree(folder)


def survey(kind: str, numbers: range, *, jobs: int | None = None) -> tuple[Counter[str], dict[int, str]]:
    """How many files of a format were read and refused, and by number what went wrong."""
    for made_before_processes_are_forked in (network, partial(FORMATS[kind].make, 0)):
        made_before_processes_are_forked()
    wrong: dict[int, str] = {}
    counts = Counter[str]()
    for index, result in isolated(partial(outcome, kind), numbers, seconds=SECONDS, memory=MEMORY, jobs=jobs):
        told = result.why if isinstance(result, Died) else result
        counts[told if told in ("read", "refused") else "wrong"] += 1
        if told not in ("read", "refused"):
            wrong[numbers[index]] = told
    return counts, wrong


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Runs the survey; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.files", description=__doc__)
    parser.add_argument("--format", choices=FORMATS, action="append", help="only files of this format")
    parser.add_argument("--count", type=int, default=int(os.environ.get("N", "5000")), help="how many of each")
    parser.add_argument("--start", type=int, default=0, help="the number of the first")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--number", type=int, help="only the file of this number")
    parser.add_argument("--keep", type=Path, help="the folder to keep it in")
    options = parser.parse_args(arguments)
    found = 0
    for kind in options.format or FORMATS:
        if options.number is not None:
            out.write(json.dumps(outcome(kind, options.number, options.keep), ensure_ascii=False) + "\n")
            continue
        began = time.monotonic()
        numbers = range(options.start, options.start + options.count)
        counts, wrong = survey(kind, numbers, jobs=options.jobs)
        for number, told in sorted(wrong.items()):
            out.write(f"  {kind} {number}: {told}\n")
        out.write(f"{kind}: {dict(counts)} in {time.monotonic() - began:.0f} s\n")
        out.flush()
        found += len(wrong)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
