"""A device's model as code of this machine: compiled once by a C compiler, kept on disk, and called through ctypes.

The loops are compiled for the processor that runs them, and work on larger blocks than in firmware (`BLOCKS`). What a
program needs is decided in C only by its words, so one library serves every program of a device, and every device with
the same array, layout and contracts.
"""

import ctypes
import hashlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.c_model.sources import HEADER, MODEL, model_sources
from qmlir.backends.npu.c_model.status import Status
from qmlir.devices import Device
from qmlir.errors import FileError, QmlirError
from qmlir.running.files import replacing
from qmlir.running.kept_files import SUFFIX, place, shrink

COMPILERS = ("cc", "gcc", "clang")
"""The names by which a C compiler is looked for."""

BLOCKS = {
    "QMLIR_NPU_AT_ONCE": 256,
    "QMLIR_NPU_OUTPUTS": 256,
    "QMLIR_NPU_POSITIONS": 16,
    "QMLIR_NPU_TERMS": 4608,
    "QMLIR_NPU_WEIGHTS": 1 << 18,
    "QMLIR_NPU_DATA": 9 << 14,
    "QMLIR_NPU_STEP": 32,
}
"""What convolutions compute at a time; see convolve.c.

The weights of a command are packed once, as far as the second cache holds them, and so is its data, 16 positions of up
to 4,608 terms (3 x 3 of 512 channels) at a time. A step is the bytes of a vector.
"""

FLAGS = ("-std=c99", "-fPIC", "-shared")

FAST = ("-O3", "-march=native", "-fschedule-insns")
"""For gcc to keep the data of a block in registers, which it else reads again for each product."""

X86 = ("-mprefer-vector-width=256",)
"""For x86-64 besides: vectors of 512 bits multiply no faster, and their lanes take longer to add up."""

CONTEXTS = 16

RUN = f"""
#include "{HEADER}"

/* Executes commands one after the other, up to `end`; returns the first status that is a fault. */
int qmlir_npu_run(qmlir_npu_device *device, const uint32_t *command, const uint32_t *end) {{
  for (; command < end; command += command[0] >> 8 & 0xFF) {{
    const int status = qmlir_npu_model(device, command);
    if (status) return status;
  }}
  return QMLIR_NPU_DONE;
}}
"""
"""The loop over commands, beside the model."""


class _Device(ctypes.Structure):
    """`qmlir_npu_device` of the header."""

    _fields_ = (("memories", ctypes.POINTER(ctypes.c_void_p)), ("contexts", ctypes.c_void_p * CONTEXTS))


class LoadedDevice:
    """A device whose memories are arrays: what the model calls a device, with its contexts."""

    def __init__(self, memories: Sequence[npt.NDArray[np.uint8]]):
        """A device without contexts.

        Args:
            memories: The bytes of each memory, C-contiguous; they have to live as long as the device.
        """
        self._memories = tuple(memories)
        self._addresses = (ctypes.c_void_p * max(len(memories), 1))(*(memory.ctypes.data for memory in memories))
        self.state = _Device(self._addresses)


class Library:
    """The loaded model of a device."""

    def __init__(self, path: Path):
        """Loads a library that `built` compiled.

        Raises:
            OSError: It cannot be loaded.
        """
        self._run = ctypes.CDLL(str(path)).qmlir_npu_run
        self._run.argtypes = (ctypes.POINTER(_Device), ctypes.c_void_p, ctypes.c_void_p)

    def run(self, device: LoadedDevice, words: npt.NDArray[np.uint32], begin: int, end: int) -> Status:
        """Executes the commands in words begin to end − 1.

        Args:
            device: The device, whose memories change.
            words: The words of a whole program; contexts are remembered as places in it.
            begin: The word at which the first command begins.
            end: The word behind the last command.
        """
        first = words.ctypes.data
        return Status(self._run(ctypes.byref(device.state), first + 4 * begin, first + 4 * end))


def compiler() -> str | None:
    """The path of a C compiler; None if there is none."""
    return next((path for name in COMPILERS if (path := shutil.which(name)) is not None), None)


def library(device: Device) -> Library:
    """The model of a device, compiled if no process did so before.

    Raises:
        QmlirError: There is no C compiler, or it fails.
    """
    return _library(tuple(sorted(model_sources(device).items())))


def is_built(device: Device) -> bool:
    """Whether the model of a device has been compiled, in this process or by another that kept it."""
    text = tuple(sorted(model_sources(device).items()))
    return text in _LOADED or ((path := _kept(text)) is not None and path.exists())


_LOADED: dict[tuple[tuple[str, str], ...], Library] = {}
"""The libraries of this process, by their sources."""


def _library(sources: tuple[tuple[str, str], ...]) -> Library:
    if sources not in _LOADED:
        _LOADED[sources] = _loaded(sources)
    return _LOADED[sources]


def _loaded(sources: tuple[tuple[str, str], ...]) -> Library:
    path = _kept(sources)
    if path is not None and path.exists():
        with suppress(OSError):
            path.touch()  # the time of its last use
            return Library(path)
    with tempfile.TemporaryDirectory() as folder:
        made = build(dict(sources), Path(folder))
        if path is not None:
            with suppress(OSError, FileError):
                with replacing(path, apart=True) as temporary:
                    shutil.copyfile(made, temporary)
                shrink(path)
        return Library(made)  # a library stays loaded when its file is gone


def build(sources: Mapping[str, str], folder: Path, *, quick: bool = False) -> Path:
    """Compiles a model in a folder; returns the path of the library.

    Args:
        sources: The C text by the names of its files, as `model_sources` returns it.
        folder: An empty folder.
        quick: Whether the compiler is to be fast instead of the code, which then has the blocks of firmware.

    Raises:
        QmlirError: There is no C compiler, or it fails.
    """
    if (found := compiler()) is None:
        raise QmlirError(
            "must have a C compiler",
            where="the simulator in C",
            got=f"none of {', '.join(COMPILERS)}",
            remedy="install one, or simulate in Python",
        )
    for name, text in (*sources.items(), ("run.c", RUN)):
        (folder / name).write_text(text, encoding="ascii")
    made = folder / "model.so"
    flags = ("-O0",) if quick else _fast()
    command = [found, *FLAGS, *flags, MODEL, "run.c", "-o", made.name]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error)
        got = next(iter(said.splitlines()), "no word")
        raise QmlirError(f"{found} must compile it", where="the simulator in C", got=got) from None
    return made


def _fast() -> tuple[str, ...]:
    """The flags of code that is to be fast on this machine."""
    vectors = X86 if platform.machine().lower() in ("x86_64", "amd64") else ()
    return (*FAST, *vectors, *(f"-D{name}={value}" for name, value in BLOCKS.items()))


def _kept(sources: tuple[tuple[str, str], ...]) -> Path | None:
    """The path at which the library of some sources is kept; None if nothing is kept."""
    folder = place()
    if folder is None:
        return None
    facts = repr((sources, RUN, FLAGS, _fast(), _compiler_facts(), _processor()))
    return folder / (hashlib.sha256(facts.encode()).hexdigest() + ".so" + SUFFIX)


@cache
def _compiler_facts() -> tuple[str, float] | None:
    """The compiler's path, and when it was installed."""
    found = compiler()
    return None if found is None else (found, Path(found).stat().st_mtime)


@cache
def _processor() -> tuple[str, ...]:
    """The processor for which `native` code is, as far as the system says it."""
    lines = Path("/proc/cpuinfo")
    known = set[str]()
    with suppress(OSError):
        known = {
            line for line in lines.read_text().splitlines() if line.startswith(("model name", "flags", "Features"))
        }
    return (platform.machine(), platform.processor(), *sorted(known))
