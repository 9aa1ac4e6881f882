"""Digests of what the compiler produces for the networks under $QMLIR_SHARED: they show that a change kept the bits.

python -m tests.models.digests -o before.json          writes a digest for each product of each network
python -m tests.models.digests --against before.json   exit status 1 if a product's digest is another one

The products of a network are its profile, its quantized module, its integer module, the outputs of its machine code on
seeded inputs, and the files that `export` writes; for a device, the program with its cycles. Few-bit weights have the
same products. Of commands, the files that they write are digested: objects for each processor, bundles, certificates of
modules, programs and objects. A refusal counts as a product: its sentence is digested. Digests of two commits compare
on one machine only, because sums of floats depend on the processor and on BLAS.
"""

import argparse
import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import qmlir
from docs.measurements.accelerators import PRECISIONS, SMALL, prepare
from docs.measurements.accuracy import CONFIGS, shared_file
from qmlir.backends.cpu.processors import PROCESSORS
from qmlir.cli.main import main as command
from qmlir.compiler import EXPORT_FORMATS, main_function, to_integers
from qmlir.devices import shipped_devices
from qmlir.errors import QmlirError
from qmlir.ir.signature import signature_of
from qmlir.ir.storage import TextForm, self_contained_text
from qmlir.ir.weights import WeightsMode
from tests.models.networks import CLASSIFIERS, NETWORKS, Array, logits, split

Row = tuple[str, str, str]
"""Kind of the row (`config`, `levels`, `file`, `device` or `command`), the network, and the config, the form of
weights, the numerics, the device or the name of the command's row."""

Digests = dict[str, str]

NUMERICS = ("default", "litert-reference", "litert-xnnpack", "onnxruntime")
"""Rounding contracts that quantized model files are digested under."""

LEVELS: Mapping[str, Mapping[str, Any]] = {
    **{f"int{bits}": {"weight_precision": f"int{bits}"} for bits in (2, 3, 4, 5, 6, 7)},
    "group-32": {"weight_precision": "int4", "granularity": "group-32"},
    "codebook": {"weight_precision": "int4", "weight_levels": "codebook"},
}
"""Forms of weights of few bits → the arguments of `quantize`."""

COMMANDS: Mapping[str, Sequence[str]] = {
    **{f"--cpu {cpu}": (f"compile int8.mlir -o net.o --cpu {cpu}",) for cpu in PROCESSORS},
    "--features": ("compile int8.mlir -o net.o --cpu x86-64-v3 --features +avx512f,+avx512bw,+avx512vl,+avx512vnni",),
    "--bundle": (
        "compile int8.mlir --bundle --cpu cortex-m4 -o bundle",
        "compile int8.mlir --bundle --api glow --cpu x86-64-v3 -o glow",
    ),
    "certify": ("certify int8.mlir -o int8.json", "certify --check int8.json"),
    "certify an object": ("compile int8.mlir -o net.o --cpu x86-64-v3", "certify net.o -o object.json"),
    "certify a program": (
        "quantize float.mlir --profile profile.yaml --target ethos-u55-like -o net.npu -q",
        "certify net.npu -o npu.json",
    ),
}
"""Name of a row → what the command `qmlir` is told, with the network in float.mlir and int8.mlir."""

COMMANDED = ("mnist-8", "kws", "resnet8")
"""The networks of these rows."""

INPUTS = 3
"""Seeded inputs that machine code and simulators run on."""


def model_files() -> list[str]:
    """Model files under $QMLIR_SHARED that are no network of NETWORKS, archives with a model included."""
    known = {network.file for network in NETWORKS.values()}
    root = shared_file("models")
    found = (f"models/{path.relative_to(root)}" for path in sorted(root.rglob("*.*")))
    return [f for f in found if f not in known and f.endswith((".onnx", ".tflite", ".tar.gz"))]


def rows() -> list[Row]:
    """All rows, the slowest kind first."""
    configs = [("config", network, config) for network in NETWORKS for config in CONFIGS]
    files = [("file", file, numerics) for file in model_files() for numerics in NUMERICS]
    devices = [("device", network, device) for network in SMALL for device in shipped_devices()]
    levels = [("levels", network, form) for network in SMALL[:4] for form in LEVELS]
    commands = [("command", network, name) for network in COMMANDED for name in COMMANDS]
    return [*configs, *files, *devices, *levels, *commands]


def digest(content: bytes | str) -> str:
    """The first 16 hexadecimal digits of SHA-256."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()[:16]


def product(make: Callable[[], bytes | str]) -> str:
    """The digest of a product, or of the sentence that refuses it."""
    try:
        return digest(make())
    except QmlirError as error:
        return f"refused {digest(str(error))}"


def text_of(module: ModuleOp) -> str:
    """A module's text with all weights in it."""
    return self_contained_text([module], TextForm(weights=WeightsMode.INLINE))


def bytes_of(outputs: Sequence[Array]) -> bytes:
    """Shapes, types and values of outputs."""
    return b"".join(f"{y.shape} {y.dtype} ".encode() + np.ascontiguousarray(y).tobytes() for y in outputs)


def seeded_inputs(module: ModuleOp) -> list[dict[str, Array]]:
    """Inputs drawn for each port: floats from a normal distribution, integers from their whole range."""
    draw = np.random.default_rng(0)

    def drawn(shape: tuple[int, ...], dtype: np.dtype) -> Array:
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            return draw.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        return draw.normal(size=shape).astype(dtype)

    ports = signature_of(main_function(module)).inputs
    return [{p.name: drawn(tuple(p.shape), np.dtype(p.dtype)) for p in ports} for _ in range(INPUTS)]


def exported(module: ModuleOp, format: str) -> bytes:
    """The files of an export, one behind the other."""
    with TemporaryDirectory() as folder:
        name = "model.tflite" if format == "tflite" else "model.onnx"
        return b"".join(path.read_bytes() for path in qmlir.export(module, Path(folder) / name, format=format))


def products(module: ModuleOp) -> Digests:
    """The digests of a network that is quantized: modules, outputs of machine code, exported files."""

    def outputs() -> bytes:
        machine = qmlir.compile(module)
        return b"".join(bytes_of(machine.run(x)) for x in seeded_inputs(module))

    return {
        "quantized": product(lambda: text_of(module)),
        "integers": product(lambda: text_of(to_integers(module))),
        "outputs": product(outputs),
        **{format: product(lambda format=format: exported(module, format)) for format in EXPORT_FORMATS},
    }


def of_config(name: str, config: str) -> Digests:
    """A float network, profiled and quantized by a config; the classifiers with data."""
    network = NETWORKS[name]
    module, data = logits(qmlir.load(shared_file(network.file))), split(network, shared_file)
    profile = qmlir.profile(module, data.profile)
    with TemporaryDirectory() as folder:
        profile.save(file := Path(folder) / "profile.yaml")
        saved = digest(file.read_bytes())
    samples = data.profile if name in CLASSIFIERS else None
    arguments = CONFIGS[config].arguments()
    return {"profile": saved, **products(qmlir.quantize(module, profile, data=samples, **arguments))}


def of_file(file: str, numerics: str) -> Digests:
    """A model as its file has it, under the rounding contracts of a runtime."""
    with TemporaryDirectory() as folder:
        path = shared_file(file)
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path) as archive:
                archive.extractall(folder, filter="data")
            path = next(Path(folder).rglob("*.onnx"))
        try:
            module = qmlir.load(path, numerics=numerics)
        except QmlirError as error:
            return {"module": f"refused {digest(str(error).replace(folder, ''))}"}
        return products(module)


def of_device(name: str, device: str) -> Digests:
    """A float network compiled for a device: its program and what the simulator makes of seeded inputs."""
    prepared, found = prepare(name, shared_file), {}
    for precision in PRECISIONS.get(device, ("int8",)):

        def program(precision: str = precision) -> bytes:
            quantized = qmlir.quantize(prepared.module, prepared.profile, target=device, precision=precision)
            simulated = qmlir.compile(quantized, target=device)
            with TemporaryDirectory() as folder:
                files = b"".join(path.read_bytes() for path in simulated.save(Path(folder) / "net.npu"))
            runs = [bytes_of(simulated.run(x)) for x in prepared.data.score[:INPUTS]]
            return b"".join([files, *runs, str(simulated.predicted_cycles).encode()])

        found[precision] = product(program)
    return found


def of_levels(name: str, form: str) -> Digests:
    """A float network whose weights have few bits."""
    prepared = prepare(name, shared_file)
    return products(qmlir.quantize(prepared.module, prepared.profile, **LEVELS[form]))


def of_command(name: str, row: str) -> Digests:
    """The files that commands write of a float network and its quantized form, and what they print."""
    prepared, found = prepare(name, shared_file), {}
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        qmlir.save(prepared.module, Path("float.mlir"))
        prepared.profile.save(Path("profile.yaml"))
        qmlir.save(qmlir.quantize(prepared.module, prepared.profile), Path("int8.mlir"))
        for line in COMMANDS[row]:
            before, printed = {*Path().rglob("*")}, io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                status = command(line.split())
            written = sorted(p for p in {*Path().rglob("*")} - before if p.is_file())
            found |= {f"{line}: {path}": digest(path.read_bytes()) for path in written}
            found[line] = f"{status} {digest(printed.getvalue())}"
    return found


MAKERS = {"config": of_config, "file": of_file, "device": of_device, "levels": of_levels, "command": of_command}


def _measured(row: Row) -> tuple[Row, Digests]:
    kind, network, how = row
    return row, MAKERS[kind](network, how)


def measure(chosen: Sequence[Row], processes: int) -> Iterator[tuple[Row, Digests]]:
    """Rows with their digests, in order; each process computes with one thread."""
    os.environ["OMP_NUM_THREADS"] = "1"  # what the processes inherit before they load numpy
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap(_measured, chosen)


def differences(before: Mapping[str, Digests], after: Mapping[str, Digests]) -> list[str]:
    """A line for each product whose digests differ, or that only one side has."""
    lines: list[str] = []
    for row in sorted(after):
        had, has = before.get(row, {}), after[row]
        lines += [f"{row}: {key}" for key in sorted({*had, *has}) if had.get(key) != has.get(key)]
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Writes digests, or compares them."""
    parser = argparse.ArgumentParser(description="Digests of everything the compiler produces.")
    parser.add_argument("names", nargs="*", help="parts of the names of rows; all rows unless given")
    parser.add_argument("-o", "--output", type=Path, help="the .json file to write")
    parser.add_argument("--against", type=Path, help="the .json file to compare with")
    parser.add_argument("-j", "--processes", type=int, default=os.cpu_count() or 1, help="how many share the rows")
    arguments = parser.parse_args(argv)
    chosen = [r for r in rows() if not arguments.names or any(n in " ".join(r) for n in arguments.names)]
    found: dict[str, Digests] = {}
    started = time.monotonic()
    for row, digests in measure(chosen, arguments.processes):
        found[" ".join(row)] = digests
        sys.stdout.write(f"{time.monotonic() - started:6.0f} s {len(found):4d}/{len(chosen)} {' '.join(row)}\n")
        sys.stdout.flush()
    if arguments.output:
        arguments.output.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    if not arguments.against:
        return 0
    lines = differences(json.loads(arguments.against.read_text("utf-8")), found)
    sys.stdout.write("\n".join([*lines, f"{len(lines)} products differ, of {sum(map(len, found.values()))}"]) + "\n")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
