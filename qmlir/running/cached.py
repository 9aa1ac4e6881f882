"""Compiled networks kept on disk: `qmlir.compile` of a network that was compiled before reads its machine code.

An entry is one file: machine code, weights, LLVM IR and the signature. Its name is a hash of all that the code depends
on: the content of the model, the options, the processor, the sources of qmlir and of plugins with dialects, and the
versions of the libraries that take part. What the model refers to (external data) is listed in the entry with its hash.
An entry is used only if its checksum holds; a damaged one is compiled anew and replaced. The folder of the entries is
that of kept_files.py.

This module imports neither xDSL nor a frontend until something has to be compiled.
"""

import hashlib
import json
import mmap
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from qmlir.backends.cpu.jit import Executable
from qmlir.backends.cpu.llvm import Machine
from qmlir.errors import FileError, OptionError, QmlirWarning
from qmlir.ir.garbage import collected_rarely
from qmlir.ir.signature import Batch, Count, Signature, State, TensorSpec
from qmlir.plugins import DIALECTS, installed
from qmlir.running.files import noted_files, replacing
from qmlir.running.kept_files import SUFFIX, most_bytes, place, shrink

if TYPE_CHECKING:
    from qmlir.backends.simulated import Simulated
    from qmlir.devices import Accelerator
    from qmlir.settings.arguments import Network

LIBRARIES = ("llvmlite", "xdsl", "numpy", "ml_dtypes", "onnx", "tflite", "flatbuffers", "protobuf")
"""Distributions whose versions are part of an entry's name."""

MAGIC = b"qmlir-compiled-4"
ALIGNMENT = 4096
"""Bytes of a page, on which the weights start in an entry: they are used where they are mapped."""


@overload
def compile(
    module: "Network",
    threads: int = 1,
    *,
    cpu: str | None = None,
    features: str | None = None,
    triple: str | None = None,
    batch: int | None = None,
    memory: str = "fast",
    io: str | None = None,
    debug_info: bool = False,
    cache: bool = True,
) -> Executable: ...


@overload
def compile(module: "Network", threads: int = 1, *, target: "Accelerator", cache: bool = True) -> "Simulated": ...


def compile(
    module: "Network", threads: int = 1, *, target: "Accelerator | None" = None, cpu: str | None = None,
    features: str | None = None, triple: str | None = None, batch: int | None = None, memory: str = "fast",
    io: str | None = None, debug_info: bool = False, cache: bool = True,
) -> "Executable | Simulated":  # fmt: skip
    """Returns a callable that runs machine code on this processor, or simulates the commands of a device.

    Machine code of a network that was compiled before is read from disk; see qmlir/running/cached.py.

    Args:
        module: A network, or its path; it stays unchanged.
        threads: Threads that one call may use, from 1 to 256: the caller's and those of a pool, one a process. The
            results are the same bits for any number. More threads than processors only cost time. A call that finds the
            pool taken by another computes in its own thread.
        target: A device, its name, or the path of its file. This processor computes the operations that the device
            cannot.
        cpu: The processor to generate code for: `native`, this one, by default; one of the architecture by LLVM's
            name, such as `x86-64-v3` or `znver3`; or a processor with its usual triple: `cortex-m0` to `cortex-m85`,
            `cortex-a72`, `neoverse-n1`, `rv32imc`, `rv64gc`, `rv64gcv` or `wasm32`. Code for another architecture, or
            for features that this processor lacks, can be written to files but not run here.
        features: Features to switch on and off in addition: `+avx2,-avx512f`.
        triple: The architecture and system to generate code for: `aarch64-linux-gnu`, `thumbv7em-none-eabihf`; by
            default this machine's, or the one that `cpu` implies.
        batch: The most samples of a call: inputs then have 1 to so many samples along their first axis, and outputs as
            many. Results are the same bits as those of a call for each sample. None for code of the model's own shapes.
        memory: What the code is made for: "fast" packs and copies data where that saves time; "small" takes as little
            scratch memory as it can, for microcontrollers, and one thread.
        io: What a quantized network takes and gives: "int8", "uint8", "int16" or "float"; the signature has the scale
            and the zero point of integers. By default what the module says.
        debug_info: Whether debug lines name the layer that code computes, for gdb and perf; the instructions are the
            same. Such code is not kept on disk.
        cache: Whether to read and to keep the code on disk; programs of devices never are.

    Raises:
        OptionError: The number of threads, the processor, a feature or a triple does not exist.
        UnsupportedError: An operation has no machine code, or mixes the samples of a batch.

    >>> import qmlir
    >>> network = qmlir.compile(qmlir.quantize("digits.onnx", data=samples))
    >>> network(samples[0]).shape, network(samples[0]).dtype  # float32 [1, 1, 8, 8] → float32 [1, 10]
    ((1, 10), dtype('float32'))
    """

    def make() -> "Executable | Simulated":
        with collected_rarely:
            from qmlir import compiler

        options: dict[str, Any] = {} if target is None else {"target": target}
        chosen: dict[str, Any] = {"cpu": cpu, "features": features, "triple": triple, "batch": batch}
        chosen |= {"memory": memory, "io": io}
        return compiler.compile(module, threads, **chosen, debug_info=debug_info, **options)

    if not isinstance(cast(object, cache), bool):
        raise OptionError("cache", "must be True or False", got=repr(cache))
    known = isinstance(module, str | Path) or type(module).__name__ == "ModuleOp"
    if target is not None or not cache or not known or debug_info is not False:
        return make()
    options = {
        "route": "compile",
        "threads": repr(threads),
        "batch": repr(batch),
        "memory": repr(memory),
        "io": repr(io),
    }
    texts = [given for given in (cpu, features, triple) if given is not None]
    machine = Machine.of(cpu, features, triple) if all(isinstance(cast(object, t), str) for t in texts) else None
    if machine is None:
        return make()
    return kept(module, options, machine, cast(Callable[[], Executable], make))


def kept(model: Any, options: Mapping[str, object], machine: Machine, make: Callable[[], Executable]) -> Executable:
    """Returns the compiled network of an entry, or makes it and keeps it.

    Args:
        model: The path of a model, or a module.
        options: All other settings that the code depends on, as plain data.
        machine: The processor that the code is for.
        make: Compiles the network.
    """
    folder = place()
    path = Path(model) if isinstance(model, str | Path) else None
    content = None if folder is None else _file_hash(path) if path is not None else module_hash(model)
    if folder is None or content is None:
        return make()
    facts: dict[str, object] = {
        "options": dict(options),
        "model": [content, "" if path is None else path.suffix],
        "machine": [machine.cpu, machine.features, machine.triple, sys.platform],
        "sources": sources_hash(),
        "libraries": library_versions(),
    }
    if path is None or path.suffix == ".mlir":  # other model files hold no operations of plugins
        facts["plugins"] = _dialects_of_plugins()
    entry = folder / (_hash(json.dumps(facts, sort_keys=True).encode()) + SUFFIX)
    base = Path() if path is None else path.parent
    if (found := _read(entry, base, machine)) is not None:
        return found
    with noted_files() as noted, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        executable = make()
    if executable.calls_program:  # code on disk cannot call the functions of a program
        return executable
    said = [str(w.message) for w in caught if issubclass(w.category, QmlirWarning)]
    for warning in caught:
        warnings.warn(warning.message, warning.category, stacklevel=3)
    with suppress(OSError, FileError):
        _write(entry, executable, {_name(p, base): _file_hash(p) for p in sorted(noted)}, said)
    return executable


# ---------------------------------------------------------------------------------------------------------------
# What an entry depends on


def _hash(data: "bytes | memoryview") -> str:
    return hashlib.sha256(data).hexdigest()


def _file_hash(path: Path) -> str | None:
    """The hash of a file's content; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def module_hash(module: Any) -> str | None:
    """The hash of a module's text with all of its weights; None if the running program defines operations of it.

    What such an operation means may change under the same text, in a notebook for example.
    """
    from qmlir.ir.weights import WeightsMode, module_text

    known = {"qmlir", "xdsl", *(each.package for each in installed() if each.group == DIALECTS)}
    if any(type(op).__module__.partition(".")[0] not in known for op in module.walk()):
        return None
    return _hash(module_text(module, WeightsMode.INLINE).encode())


@once
def sources_hash(root: Path = Path(__file__).parents[1]) -> str:
    """The hash of a module, or of all files of a package that code depends on; by default of qmlir."""
    total = hashlib.sha256(root.read_bytes() if root.is_file() else b"")
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".toml")):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    content = file.read()
                total.update(f"{os.path.relpath(path, root)} {len(content)}\n".encode())
                total.update(content)
    return total.hexdigest()


def _dialects_of_plugins() -> dict[str, str | None]:
    """The plugins with dialects, each with the hash of its package, which says what the dialect's operations mean."""
    from importlib.util import find_spec

    found: dict[str, str | None] = {}
    for each in installed():
        if each.group == DIALECTS:
            spec = find_spec(each.package)
            place = None if spec is None else next(iter(spec.submodule_search_locations or ()), spec.origin)
            found[each.called] = None if place is None else sources_hash(Path(place))
    return found


@once
def library_versions() -> list[str]:
    """The versions of Python and of the libraries that results depend on."""
    from importlib.metadata import PackageNotFoundError, version

    found = [sys.version]
    for name in LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(name)
    return found


def _name(path: Path, base: Path) -> str:
    """The path of a file that a model refers to: relative to the model's folder if it lies there."""
    whole, folder = path.resolve(), base.resolve()
    return str(whole.relative_to(folder)) if whole.is_relative_to(folder) else str(whole)


# ---------------------------------------------------------------------------------------------------------------
# Entries
#
#     magic, 16 bytes | SHA-256 of what follows, 32 bytes | length of the facts, 8 bytes | facts as JSON
#     | the sections that the facts name with their offsets in the file and their sizes


START = len(MAGIC) + 32


def _write(entry: Path, executable: Executable, files: Mapping[str, str | None], said: list[str]) -> None:
    """Writes an entry, whole or not at all, and removes others if they take too much.

    Raises:
        FileError: The entry cannot be written.
        OSError: Other entries cannot be listed.
    """
    sections = {
        "object": memoryview(executable.object),
        "llvm_ir": memoryview(executable.llvm_ir.encode()),
        "weights": executable.weights.data if executable.weights.size else memoryview(b""),
    }
    facts: dict[str, Any] = {
        "files": dict(files),
        "warnings": said,
        "entry": executable.entry,
        "arena": executable.sizes.arena,
        **_facts_of(executable.signature),
        "entries": [[name, _facts_of(each.signature)] for name, each in executable.entries.items()],
        "sections": {name: [0, data.nbytes] for name, data in sections.items()},
    }
    room = len(json.dumps(facts)) + 64 * len(sections)  # for the offsets
    offset = START + 8 + room
    for name, data in sections.items():
        offset = -(-offset // ALIGNMENT) * ALIGNMENT
        facts["sections"][name][0] = offset
        offset += data.nbytes
    if offset > most_bytes():
        return
    with replacing(entry, apart=True) as temporary, temporary.open("w+b") as file:
        total = hashlib.sha256()

        def write(data: "bytes | memoryview") -> None:
            file.write(data)
            total.update(data)

        file.write(MAGIC + bytes(32))
        text = json.dumps(facts).encode().ljust(room)
        write(len(text).to_bytes(8, "little") + text)
        for name, data in sections.items():
            write(bytes(facts["sections"][name][0] - file.tell()))
            write(data)
        file.seek(len(MAGIC))
        file.write(total.digest())
    shrink(entry)


def _read(entry: Path, base: Path, machine: Machine) -> Executable | None:
    """Returns the compiled network of an entry; None if there is none, if it is damaged, or if a file has changed."""
    try:
        with entry.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        view = memoryview(mapped)
        if bytes(view[:START]) != MAGIC + hashlib.sha256(view[START:]).digest():
            return None
        length = int.from_bytes(view[START : START + 8], "little")
        facts = json.loads(bytes(view[START + 8 : START + 8 + length]))
        if any(_file_hash(base / name) != digest for name, digest in facts["files"].items()):
            return None
        parts = {name: view[start : start + size] for name, (start, size) in facts["sections"].items()}
        executable = Executable(
            lambda: bytes(parts["llvm_ir"]).decode(),
            weights=np.frombuffer(parts["weights"], np.uint8),
            arena_size=facts["arena"],
            signature=_signature(facts),
            entry=facts["entry"],
            machine=machine,
            compiled=bytes(parts["object"]),
        )
        executable = executable.with_entries({str(name): _signature(each) for name, each in facts["entries"]})
        said = [str(text) for text in facts["warnings"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RuntimeError):
        return None
    with suppress(OSError):
        os.utime(entry)  # the time of the last use
    for text in said:
        warnings.warn(text, QmlirWarning, stacklevel=4)
    return executable


def _signature(facts: Mapping[str, Any]) -> Signature:
    inputs, outputs = _specs(facts["inputs"]), _specs(facts["outputs"])
    rows = [(int(i), int(o), bytes.fromhex(str(data)), bool(own)) for i, o, data, own in facts["states"]]
    states = [State.stored(inputs, outputs, (i, o), data, own) for i, o, data, own in rows]
    counts = tuple(Count(*count) for count in facts["counts"])
    own = Signature.of(inputs, outputs, states)
    batch = None if facts["batch"] is None else Batch(int(facts["batch"][0]), tuple(map(bool, facts["batch"][1])))
    return Signature(own.inputs, own.outputs, own.states, counts, batch)


def _facts_of(signature: Signature) -> dict[str, Any]:
    flat = signature.flat()
    return {
        "inputs": [[s.name, list(s.shape), s.dtype.name, s.quantization] for s in flat.inputs],
        "outputs": [[s.name, list(s.shape), s.dtype.name, s.quantization] for s in flat.outputs],
        "states": [[*state.places, state.data.hex(), state.in_place] for state in signature.states],
        "counts": signature.counts,
        "batch": _batch_facts(signature),
    }


def _batch_facts(signature: Signature) -> tuple[int, list[bool]] | None:
    return None if signature.batch is None else (signature.batch.most, [*signature.batch.inputs])


def _specs(rows: list[Any]) -> tuple[TensorSpec, ...]:
    def quantization(given: Any) -> tuple[float, int] | None:
        return None if given is None else (float(given[0]), int(given[1]))

    return tuple(TensorSpec(name, tuple(shape), _dtype(dtype), quantization(q)) for name, shape, dtype, q in rows)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        return np.dtype(name)
    except TypeError:  # numpy knows types such as bfloat16 only by their class
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
