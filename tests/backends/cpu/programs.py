"""Runs code for other processors: an object becomes a program without any library, which an emulator runs.

    results = run(executable, [inputs_of_the_first_call, inputs_of_the_second])

The program reads the weights and then the inputs of call after call, and writes the outputs of each. It is LLVM IR for
the object's own processor beside a few bytes of machine code for calls of Linux, linked by lld: what the object calls
must be in the object. So an object for a microcontroller runs under qemu's user mode on its own processor's
instructions. A program for wasm32 is called by node instead.

Debian has what this takes as lld, qemu-user and nodejs. Tests are skipped where one of them is missing.
"""

import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qmlir.backends.cpu import Executable, Machine
from qmlir.backends.cpu.emit import symbol
from qmlir.backends.cpu.llvm import compile_object, host_triple
from qmlir.numerics import Array
from tests.backends.cpu.emulated import tool

SECONDS = 1800
"""The longest that a program may run."""


@dataclass(frozen=True)
class Linux:
    """How a program of an architecture calls Linux.

    code      a C function of a call's first three arguments and its number, in machine code
    read, write, exit  the numbers of calls
    offset    what is added to the function's address: 1 for Thumb
    """

    code: str
    read: int
    write: int
    exit: int
    offset: int = 0


CALLS: Mapping[str, Linux] = {
    "x86_64": Linux("89c8 0f05 c3", 0, 1, 60),  # mov eax, ecx; syscall; ret
    "aarch64": Linux("e80303aa 010000d4 c0035fd6", 63, 64, 93),  # mov x8, x3; svc #0; ret
    "riscv": Linux("93880600 73000000 67800000", 63, 64, 93),  # mv a7, a3; ecall; ret
    "thumb": Linux("80b5 1f46 00df 80bd", 3, 4, 1, 1),  # push {r7, lr}; mov r7, r3; svc #0; pop {r7, pc}
}
"""What an architecture's name begins with → its calls."""

EMULATORS: Mapping[str, str] = {
    "x86_64": "qemu-x86_64",
    "aarch64": "qemu-aarch64",
    "riscv32": "qemu-riscv32",
    "riscv64": "qemu-riscv64",
    "thumb": "qemu-arm",
}

SEMIHOSTING = Linux("abbe 7047", 6, 5, 24, 1)  # bkpt #0xab; bx lr


@dataclass(frozen=True)
class Board:
    """A microcontroller of qemu's: where its memory and its code are, and the nanoseconds of a tick of SysTick."""

    name: str
    memory: int
    stack: int
    tick: float
    code: int = 0


BOARDS: Mapping[str, Board] = {
    "cortex-m3": Board("mps2-an385", 0x21000000, 0x20400000, 40),
    "cortex-m33": Board("mps2-an505", 0x80000000, 0x38200000, 50, 0x10000000),
    "cortex-m4": Board("mps2-an386", 0x21000000, 0x20400000, 40),
    "cortex-m7": Board("mps2-an500", 0x60000000, 0x20400000, 40),
    "cortex-m55": Board("mps3-an547", 0x70000000, 0x71000000, 31.25),
    "cortex-m85": Board("mps3-an547", 0x70000000, 0x71000000, 31.25),  # whose Cortex-M55 has the instructions, too
}
"""LLVM's name of a processor → a board with it."""

SMALL_BOARD = Board("microbit", 0x20000000, 0x20004000, 62.5)
"""A board with a Cortex-M0, with 16 KiB of memory, for small networks. It has no SysTick."""

SCRIPT = """
SECTIONS {{
  . = {code};
  .vectors : {{ KEEP(*(.vectors)) }}
  .text : {{ *(.text*) *(.calls) *(.rodata*) }}
  .ARM.exidx : {{ *(.ARM.exidx*) }}
  . = {memory};
  .data : {{ *(.data*) }}
  .bss : {{ *(.bss*) }}
}}
"""

EMULATED: Mapping[str, str] = {
    "x86-64": "qemu64",
    "x86-64-v2": "Nehalem",
    "x86-64-v3": "Haswell",
    "generic": "cortex-a53",
    "cortex-a53": "cortex-a53",
    "cortex-a72": "cortex-a72",
    "cortex-a76": "cortex-a76",
    "neoverse-n1": "neoverse-n1",
    "cortex-m0": "arm1176",
    "cortex-m0plus": "arm1176",
    "cortex-m4": "cortex-a7",
    "cortex-m7": "cortex-a7",
    "generic-rv32": "rv32",
    "generic-rv64": "rv64,v=on,vext_spec=v1.0",
}
"""qemu's processor for LLVM's; ARM1176 has the 16-bit instructions of version 6, and none of Thumb-2."""

LIBRARY = """
define ptr @memset(ptr %to, i32 %value, i64 %size) nounwind noinline "no-builtins" {
  %byte = trunc i32 %value to i8
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %j, %one ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %one, label %done
one:
  %p = getelementptr i8, ptr %to, i64 %i
  store i8 %byte, ptr %p
  %j = add i64 %i, 1
  br label %next
done:
  ret ptr %to
}
define ptr @memcpy(ptr %to, ptr %from, i64 %size) nounwind noinline "no-builtins" {
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %j, %one ]
  %more = icmp ult i64 %i, %size
  br i1 %more, label %one, label %done
one:
  %p = getelementptr i8, ptr %from, i64 %i
  %byte = load i8, ptr %p
  %q = getelementptr i8, ptr %to, i64 %i
  store i8 %byte, ptr %q
  %j = add i64 %i, 1
  br label %next
done:
  ret ptr %to
}
"""
"""What code for Linux calls of the C library, and all that it may call where a network computes on integers."""

PROGRAM = """
target triple = "{triple}"
{library}
{globals}
@inputs = internal global [{input_count} x ptr] [{inputs}]
@outputs = internal global [{output_count} x ptr] [{outputs}]
@system = internal constant [{code_bytes} x i8] c"{code}", section ".calls", align 16
{definitions}
declare void {net}(ptr, ptr, ptr, ptr)

define internal void @all({word} %file, ptr %at, {word} %size, {word} %what) noinline nounwind {{
  br label %next
next:
  %i = phi {word} [ 0, %0 ], [ %j, %part ]
  %more = icmp ult {word} %i, %size
  br i1 %more, label %part, label %done
part:
  %p = getelementptr i8, ptr %at, {word} %i
  %rest = sub {word} %size, %i
  %count = call {word} @call({word} %file, ptr %p, {word} %rest, {word} %what)
  %j = add {word} %i, %count
  %ended = icmp sle {word} %count, 0
  br i1 %ended, label %end, label %next
end:
  {end}
  unreachable
done:
  ret void
}}

define void @start() nounwind "stackrealign" {{
  {begin}
  {read_weights}
  br label %sample
sample:
  {read_inputs}
  {before}
  call void {net}(ptr @weights, ptr @arena, ptr @inputs, ptr @outputs)
  {after}
  {write_outputs}
  br label %sample
}}
"""
"""Ends, with the status 0, when there is nothing more to read."""

LINUX = """
define internal {word} @call({word} %file, ptr %at, {word} %size, {word} %what) noinline nounwind {{
  %entry = getelementptr i8, ptr @system, {word} {offset}
  %done = call {word} %entry({word} %file, ptr %at, {word} %size, {word} %what)
  ret {word} %done
}}
"""

BOARD = """
@vectors = constant {{ ptr, ptr }} {{ ptr inttoptr (i32 {stack} to ptr), ptr @start }}, section ".vectors"
@block = internal global [3 x i32] zeroinitializer
@files = internal global [2 x i32] zeroinitializer
@job = internal constant [4 x i8] c"job\\00"
@results = internal constant [8 x i8] c"results\\00"
@ticks = internal global i32 0

define internal i32 @ask(i32 %what, i32 %first, ptr %second, i32 %third) noinline nounwind {{
  %two = ptrtoint ptr %second to i32
  store volatile i32 %first, ptr @block
  store volatile i32 %two, ptr getelementptr (i8, ptr @block, i32 4)
  store volatile i32 %third, ptr getelementptr (i8, ptr @block, i32 8)
  %entry = getelementptr i8, ptr @system, i32 1
  %done = call i32 %entry(i32 %what, ptr @block)
  ret i32 %done
}}

define internal i32 @call(i32 %file, ptr %at, i32 %size, i32 %what) noinline nounwind {{
  %place = getelementptr i32, ptr @files, i32 %file
  %handle = load i32, ptr %place
  %left = call i32 @ask(i32 %what, i32 %handle, ptr %at, i32 %size)
  %done = sub i32 %size, %left
  ret i32 %done
}}

define internal i32 @open(ptr %name, i32 %mode, i32 %length) noinline nounwind {{
  %at = ptrtoint ptr %name to i32
  %mode.place = inttoptr i32 %mode to ptr
  %file = call i32 @ask(i32 1, i32 %at, ptr %mode.place, i32 %length)
  ret i32 %file
}}
"""
"""Calls by Arm's semihosting, of an emulator that opens files for the program; and the table with which Arm's
profile M starts. SysTick counts time, which is instructions where the emulator is told so."""

BEGIN = """store volatile i32 15728640, ptr inttoptr (i32 -536810104 to ptr)
  %file.job = call i32 @open(ptr @job, i32 1, i32 3)
  store i32 %file.job, ptr @files
  %file.results = call i32 @open(ptr @results, i32 5, i32 7)
  store i32 %file.results, ptr getelementptr (i8, ptr @files, i32 4)
  store volatile i32 16777215, ptr inttoptr (i32 -536813548 to ptr)
  store volatile i32 0, ptr inttoptr (i32 -536813544 to ptr)
  store volatile i32 5, ptr inttoptr (i32 -536813552 to ptr)"""
"""Gives access to the registers of floats and vectors (CPACR), opens the files, starts SysTick."""

END_LINUX = "%ignored = call {word} @call({word} 0, ptr null, {word} 0, {word} {exit})"

END_BOARD = """%out = getelementptr i8, ptr @system, i32 1
  %ignored = call i32 %out(i32 24, ptr inttoptr (i32 131110 to ptr))"""

BEFORE = "%tick.before = load volatile i32, ptr inttoptr (i32 -536813544 to ptr)"

AFTER = """%tick.after = load volatile i32, ptr inttoptr (i32 -536813544 to ptr)
  %tick.count = sub i32 %tick.before, %tick.after
  %tick.whole = and i32 %tick.count, 16777215
  store i32 %tick.whole, ptr @ticks"""
"""SysTick counts down, in 24 bits."""

WASM = """
target triple = "{triple}"
{globals}
@inputs = internal global [{input_count} x ptr] [{inputs}]
@outputs = internal global [{output_count} x ptr] [{outputs}]
declare void {net}(ptr, ptr, ptr, ptr)

define void @run() nounwind {{
  call void {net}(ptr @weights, ptr @arena, ptr @inputs, ptr @outputs)
  ret void
}}
{places}
"""

NODE = """
const fs = require("fs");
const [path, weights, ...rest] = process.argv.slice(1);
const [inputs, outputs] = rest.map((text) => text.split(",").filter(Boolean).map(Number));
const code = new WebAssembly.Module(fs.readFileSync(path));
const {{ run, memory, ...place }} = new WebAssembly.Instance(code, {{}}).exports;
const data = fs.readFileSync(0), bytes = new Uint8Array(memory.buffer), results = [];
let at = 0;
const take = (name, size) => {{ bytes.set(data.subarray(at, at + size), place[name]()); at += size; }};
take("weights_at", Number(weights));
while (at < data.length) {{
  inputs.forEach((size, i) => take(`input${{i}}_at`, size));
  run();
  outputs.forEach((size, i) => {{
    const start = place[`output${{i}}_at`]();
    results.push(Buffer.from(bytes.slice(start, start + size)));
  }});
}}
fs.writeSync(1, Buffer.concat(results));
""".replace("{{", "{").replace("}}", "}")


COUNTED = ("-icount", "shift=0,sleep=off")
"""Settings of qemu by which each instruction takes a nanosecond."""


def _of(table: Mapping[str, object], architecture: str) -> str:
    return next(name for name in table if architecture.startswith(name))


def require(machine: Machine) -> None:
    """Skips the test where a program that it takes for a processor is missing."""
    if machine.architecture == "wasm32":
        tool("wasm-ld", "lld")
        tool("node", "nodejs")
    elif machine.cpu in BOARDS:
        tool("ld.lld", "lld")
        tool("qemu-system-arm", "qemu-system-arm")
    else:
        tool("ld.lld", "lld")
        tool(EMULATORS[_of(EMULATORS, machine.architecture)], "qemu-user")


def _bytes(specs: Sequence[object]) -> list[int]:
    return [math.prod(s.shape) * s.dtype.itemsize for s in specs]  # pyright: ignore


def program_text(executable: Executable) -> str:
    """The LLVM IR of the program around an object."""
    machine, signature = executable.machine, executable.signature.flat()
    sizes = {
        "weights": executable.weights.nbytes,
        "arena": executable.sizes.arena,
        **{f"input{i}": size for i, size in enumerate(_bytes(signature.inputs))},
        **{f"output{i}": size for i, size in enumerate(_bytes(signature.outputs))},
    }
    inputs, outputs = ([name for name in sizes if name.startswith(kind)] for kind in ("input", "output"))
    word = f"i{machine.system.bits}"
    texts: dict[str, object] = {
        "triple": machine.triple or host_triple(),
        "globals": "\n".join(f"@{n} = internal global [{s} x i8] zeroinitializer, align 64" for n, s in sizes.items()),
        "input_count": len(inputs),
        "output_count": len(outputs),
        "inputs": ", ".join(f"ptr @{name}" for name in inputs),
        "outputs": ", ".join(f"ptr @{name}" for name in outputs),
        "net": f"@{symbol(executable.entry)}",
        "word": word,
    }
    if machine.architecture == "wasm32":
        places = "\n".join(f"define ptr @{name}_at() nounwind {{\n  ret ptr @{name}\n}}" for name in sizes)
        return WASM.format(places=places, **texts)
    board = BOARDS.get(machine.cpu)
    linux = SEMIHOSTING if board else CALLS[_of(CALLS, machine.architecture)]
    code = bytes.fromhex(linux.code)

    def moves(names: Sequence[str], file: int, what: int) -> str:
        sizes["ticks"] = 4
        each = f"call void @all({word} {file}, ptr @{{}}, {word} {{}}, {word} {what})"
        return "\n  ".join(each.format(name, sizes[name]) for name in names)

    library = LIBRARY if machine.system.hosted else ""
    return PROGRAM.format(
        code="".join(f"\\{byte:02x}" for byte in code),
        code_bytes=len(code),
        definitions=BOARD.format(stack=board.stack) if board else LINUX.format(word=word, offset=linux.offset),
        begin=BEGIN if board else "",
        before=BEFORE if board else "",
        after=AFTER if board else "",
        end=END_BOARD if board else END_LINUX.format(word=word, exit=linux.exit),
        read_weights=moves(["weights"], 0, linux.read),
        read_inputs=moves(inputs, 0, linux.read),
        write_outputs=moves([*outputs, "ticks"] if board else outputs, 1, linux.write),
        library=library,
        **texts,
    )


def link(executable: Executable, folder: Path) -> Path:
    """The program around an object, linked in a folder."""
    machine = executable.machine
    (folder / "program.o").write_bytes(compile_object(program_text(executable), machine))
    (folder / "net.o").write_bytes(executable.object)
    objects, path = [folder / "program.o", folder / "net.o"], folder / "program"
    if machine.architecture == "wasm32":
        command = [tool("wasm-ld", "lld"), "--no-entry", "--export-dynamic", "--export=run", "-z", "stack-size=1048576"]
        names = ["weights", *(f"input{i}" for i, _ in enumerate(executable.signature.flat().inputs))]
        names += [f"output{i}" for i, _ in enumerate(executable.signature.flat().outputs)]
        command += [f"--export={name}_at" for name in names]
    else:
        board = BOARDS.get(machine.cpu)
        command = [tool("ld.lld", "lld"), "--nmagic" if board else "--omagic", "--entry=start"]
        if board:
            (folder / "script").write_text(SCRIPT.format(code=board.code, memory=board.memory))
            command += ["-T", str(folder / "script")]
    done = subprocess.run([*command, "-o", path, *objects], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def emulation(board: Board, program: Path) -> list[str]:
    """The options of qemu-system-arm that run a program on a board: it has files, and its time counts instructions."""
    settings = ["-M", board.name, "-nographic", "-monitor", "none", "-serial", "none", "-semihosting"]
    return [*settings, *COUNTED, "-kernel", str(program)]


def command_of(executable: Executable, program: Path) -> list[str]:
    """The command that runs a program."""
    machine, signature = executable.machine, executable.signature.flat()
    if machine.architecture == "wasm32":
        sizes = [",".join(map(str, _bytes(specs))) for specs in (signature.inputs, signature.outputs)]
        return [tool("node", "nodejs"), "-e", NODE, "--", str(program), str(executable.weights.nbytes), *sizes]
    if (board := BOARDS.get(machine.cpu)) is not None:
        return [tool("qemu-system-arm", "qemu-system-arm"), *emulation(board, program)]
    emulator = EMULATORS[_of(EMULATORS, machine.architecture)]
    return [tool(emulator, "qemu-user"), "-cpu", EMULATED.get(machine.cpu, "max"), str(program)]


@dataclass(frozen=True)
class Ran:
    """What calls computed: the outputs of each, and the instructions that each took, if the emulator counts them."""

    outputs: list[list[Array]]
    instructions: list[int]


def run(executable: Executable, calls: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each call, as the emulator of the executable's processor computes them."""
    return ran(executable, calls).outputs


def ran(executable: Executable, calls: Sequence[Sequence[Array]]) -> Ran:
    """What the emulator of the executable's processor computes, call by call."""
    require(executable.machine)
    board = BOARDS.get(executable.machine.cpu)
    data = [executable.weights, *(np.ascontiguousarray(x) for call in calls for x in call)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = command_of(executable, link(executable, folder))
        given = b"".join(x.tobytes() for x in data)
        (folder / "job").write_bytes(given if board else b"")
        done = subprocess.run(
            command, cwd=folder, input=b"" if board else given, capture_output=True, check=False, timeout=SECONDS
        )
        assert done.returncode == 0, f"{done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}"
        made = (folder / "results").read_bytes() if board else done.stdout
    results = Ran([], [])
    at = 0
    for _ in calls:
        results.outputs.append([])
        for spec in executable.signature.flat().outputs:
            count = math.prod(spec.shape)
            results.outputs[-1].append(np.frombuffer(made, spec.dtype, count, at).reshape(spec.shape))
            at += count * spec.dtype.itemsize
        if board:
            results.instructions.append(round(int.from_bytes(made[at : at + 4], "little") * board.tick))
            at += 4
    assert at == len(made)
    return results
