"""Another runtime's programs on the boards that ours are measured on: instructions, memory, code and constants.

python -m tests.models.boards FOLDER -o FILE                     all programs FOLDER/CPU/NETWORK.elf
python -m tests.models.boards FOLDER kws --cpu cortex-m4         one of them
python -m tests.models.boards FOLDER --runtime "Other" -o FILE   the runtime's name, which FILE takes over
python -m tests.models.everywhere --beside FILE                  our figures divided by these

CPU is cortex-m4, cortex-m7 or cortex-m55, and NETWORK one of `tests.models.everywhere`. You build the programs, with
whatever runtime: its part implements the two functions of on_board/network.h, and is linked with on_board/around.c as
on_board/board.ld says. docs/microcontrollers.md shows the commands. What is counted:

instructions        of one call of `network_run`, on average over the inputs, in units of a tick: 40 or 31.25
memory              what the program says: the arena with inputs and outputs
code and constants  bytes of all that is loaded but the program around the network

The emulator, the counter and the seeded inputs are those of `tests.models.everywhere`. A line also says on how many
inputs the outputs are those of our reference, and how many steps the most distant number is away; and the same of
LiteRT's reference kernels, where `ai_edge_litert` is installed and the network is a `.tflite` file.
"""

import argparse
import importlib
import importlib.util
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import qmlir
from qmlir.errors import FileError, OptionError, QmlirError, near_misses
from qmlir.files import require_folder, write_whole
from qmlir.numerics import Array
from tests.backends.cpu.programs import BOARDS, SECONDS, emulation
from tests.models.certificates import QUANTIZED, SHARED, networks
from tests.models.everywhere import INSTRUCTIONS, MEMORY_AND_ENDS, NETWORKS, SIZE, inputs_of, without_casts

INPUTS = 10

VECTORS, AROUND = ".vectors", ".around"
"""The sections of the program around the network."""

EMULATOR = "qemu-system-arm"


@dataclass(frozen=True)
class Measured:
    """What a program printed and takes.

    outputs       an array for each input
    instructions  of a call, on average
    memory        bytes, as the program says
    size          bytes of code and constants
    """

    outputs: list[Array]
    instructions: float
    memory: int
    size: int

    def figures(self) -> dict[str, int]:
        """The figures as `--beside` of `tests.models.everywhere` takes them."""
        return {INSTRUCTIONS: round(self.instructions), MEMORY_AND_ENDS: self.memory, SIZE: self.size}


def loaded_bytes(program: bytes, file: Path) -> int:
    """Bytes of the sections of an ELF program of 32 bits that are loaded, but for the program around the network.

    Raises:
        FileError: It is no such program, or nothing is in the section of the program around the network.
    """
    if program[:6] != b"\x7fELF\x01\x01":
        raise FileError(file, "must be an ELF program of 32 bits", got=f"{len(program)} bytes of another format")
    try:
        (start,) = struct.unpack_from("<I", program, 32)
        size, count, names = struct.unpack_from("<3H", program, 46)
        sections = [struct.unpack_from("<10I", program, start + size * i) for i in range(count)]
        at = sections[names][4]
        sizes = dict[str, int]()
        for name, kind, flags, _, _, length, *_ in sections:
            if flags & 2 and kind != 8:  # has a place in memory, and bytes in the file
                text = program[at + name : program.index(b"\0", at + name)].decode(errors="replace")
                sizes[text] = sizes.get(text, 0) + length
    except (struct.error, IndexError, ValueError):
        raise FileError(file, "must be a whole ELF program", got="a damaged one", remedy="link it again") from None
    sizes.pop(VECTORS, None)
    if not sizes.pop(AROUND, 0):
        remedy = "link it with around.o, and with board.ld as the linker's script"
        raise FileError(file, f"must have a section {AROUND}", got="none", remedy=remedy)
    return sum(sizes.values())


def measured(program: Path, cpu: str, samples: Sequence[Array], shape: Sequence[int], dtype: np.dtype[Any]) -> Measured:
    """Runs a program on the board of a processor; its outputs have the shape and type that are given.

    Raises:
        FileError: It is no program for this, it fails, or its outputs have other sizes.
        OptionError: There is no emulator.
    """
    board, emulator = BOARDS[cpu], shutil.which(EMULATOR)
    if emulator is None:
        raise OptionError("PATH", f"must have {EMULATOR}", got="none", remedy=f"apt-get install {EMULATOR}")
    try:
        size = loaded_bytes(program.read_bytes(), program)
    except OSError as error:
        raise FileError(program, "must be a program that can be read", got=error) from None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job").write_bytes(b"".join(np.ascontiguousarray(sample).tobytes() for sample in samples))
        command = [emulator, *emulation(board, program.resolve())]
        try:
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise FileError(program, f"must end within {SECONDS} s", got="a program that still runs") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()
            raise FileError(
                program, "must end with the status 0", got=f"{done.returncode}: {said or 'it said nothing'}"
            )
        results = (folder / "results").read_bytes() if (folder / "results").exists() else b""
    each = math.prod(shape) * dtype.itemsize
    if len(results) != 4 + len(samples) * (each + 4):
        need = f"must write 4 bytes and {each + 4} for each of {len(samples)} inputs"
        raise FileError(program, need, got=f"{len(results)} bytes", remedy="check the sizes of its input and output")
    records = np.frombuffer(results, np.dtype([("output", dtype, tuple(shape)), ("ticks", "<u4")]), offset=4)
    memory = int.from_bytes(results[:4], "little")
    return Measured(list(records["output"]), float(records["ticks"].mean()) * board.tick, memory, size)


def beside(outputs: Sequence[Array], others: Sequence[Array]) -> str:
    """On how many inputs two lists of integer outputs are the same, and their greatest distance in steps."""
    away = [int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(outputs, others, strict=True)]
    return f"{away.count(0):3} of {len(away):<3} {max(away):4}"


def of_litert(name: str, samples: Sequence[Array]) -> list[Array] | None:
    """What LiteRT's reference kernels compute; None without LiteRT, or for a network that is no `.tflite` file."""
    if NETWORKS[name] not in QUANTIZED or importlib.util.find_spec("ai_edge_litert") is None:
        return None
    litert: Any = importlib.import_module("ai_edge_litert.interpreter")
    interpreter = litert.Interpreter(
        model_path=str(SHARED / "models" / "tflite" / QUANTIZED[NETWORKS[name]]),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF,
    )
    interpreter.allocate_tensors()
    (x,), (y,) = interpreter.get_input_details(), interpreter.get_output_details()
    outputs: list[Array] = []
    for sample in samples:
        interpreter.set_tensor(x["index"], sample)
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(y["index"]))
    return outputs


def all_measured(name: str, programs: Mapping[str, Path], count: int) -> dict[str, dict[str, int]]:
    """Prints a line for each processor's program of a network; processor → figures."""
    module = without_casts(qmlir.to_integers(networks()[NETWORKS[name]]()))
    reference = qmlir.reference(module)
    (x,), (y,) = reference.signature.inputs, reference.signature.outputs
    samples = inputs_of(x.shape, x.dtype, count)
    own, litert = [reference.run(sample)[0] for sample in samples], of_litert(name, samples)
    found: dict[str, dict[str, int]] = {}
    for cpu, program in programs.items():
        got = measured(program, cpu, samples, y.shape, y.dtype)
        found[cpu] = got.figures()
        numbers = f"{found[cpu][INSTRUCTIONS]:12,} {got.memory:9,} {got.size:9,}"
        same = beside(got.outputs, own) + (f"   {beside(got.outputs, litert)}" if litert else "")
        sys.stdout.write(f"{name:8} {cpu:11} {numbers}   {same}\n")
        sys.stdout.flush()
    return found


def chosen_programs(folder: Path, names: Sequence[str], cpus: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Network → processor → its program in the folder, of the networks and processors that are given, or of all.

    Raises:
        OptionError: A name is unknown.
        FileError: There are no such programs, or the file of a network is missing.
    """
    for name in names:
        if name not in NETWORKS:
            raise OptionError("NETWORK", f"must be one of {', '.join(NETWORKS)}", got=name)
    for cpu in cpus:
        if cpu not in BOARDS:
            raise OptionError("--cpu", "must be a processor with a board", got=cpu, remedy=near_misses(cpu, BOARDS))
    found = {n: {c: folder / c / f"{n}.elf" for c in cpus or BOARDS} for n in names or NETWORKS}
    found = {name: {cpu: path for cpu, path in paths.items() if path.is_file()} for name, paths in found.items()}
    if not any(found.values()):
        remedy = "link programs as docs/microcontrollers.md says"
        raise FileError(folder, "must have programs CPU/NETWORK.elf of these names", got="none", remedy=remedy)
    known = networks()
    for name in (name for name, paths in found.items() if paths and NETWORKS[name] not in known):
        remedy = "set QMLIR_SHARED to the folder that has it"
        raise FileError(SHARED, f"must have the network {name}", got="none", remedy=remedy)
    return {name: paths for name, paths in found.items() if paths}


def text_of(runtime: str, found: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """The JSON document of network → processor → figures, with a line for each network of a processor."""
    parts = [f'  "runtime": {json.dumps(runtime)}']
    for cpu in (cpu for cpu in BOARDS if any(cpu in figures for figures in found.values())):
        lines = [f'    "{name}": {json.dumps(figures[cpu])}' for name, figures in found.items() if cpu in figures]
        parts.append(f'  "{cpu}": {{\n' + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def run(words: Sequence[str] | None) -> None:
    """Measures the programs that the words choose."""
    parser = argparse.ArgumentParser(prog="tests.models.boards", description="Another runtime on our boards.")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="has the programs, CPU/NETWORK.elf")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--cpu", action="append", default=[], help=f"of {', '.join(BOARDS)}; all by default")
    parser.add_argument("--inputs", type=int, default=INPUTS, help=f"inputs of each network (default: {INPUTS})")
    parser.add_argument("--runtime", default="the other runtime", help="its name")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="gets the figures, for --beside of everywhere"
    )
    given = parser.parse_args(words)
    if given.inputs < 1:
        raise OptionError("--inputs", "must be at least 1", got=str(given.inputs))
    if given.output:
        require_folder(given.output)
    chosen = chosen_programs(given.folder, given.networks, given.cpu)
    heads = f"{'instructions':>12} {'memory':>9} {'in flash':>9}   same as ours, steps   same as LiteRT, steps"
    sys.stdout.write(f"{'network':8} {'processor':11} {heads}\n")
    found = {name: all_measured(name, programs, given.inputs) for name, programs in chosen.items()}
    if given.output:
        write_whole(given.output, text_of(given.runtime, found))


def main(words: Sequence[str] | None = None) -> int:
    """Prints the table; status 1 with a sentence if it cannot."""
    warnings.simplefilter("ignore")
    try:
        run(words)
    except QmlirError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
