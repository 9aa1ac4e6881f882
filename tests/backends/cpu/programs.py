"""Runs code for other processors: an object becomes a program without any library, which an emulator runs.

    results = run(executable, [inputs_of_the_first_call, inputs_of_the_second])

The program reads the weights and then the inputs of call after call, and writes the outputs of each. It is LLVM IR for
the object's own processor beside a few bytes of machine code for calls of Linux, linked by lld: what the object calls
must be in the object. So an object for a microcontroller runs under qemu's user mode on its own processor's
instructions. A program for wasm32 is called by node instead.

Debian has what this takes as lld, qemu-user and nodejs. Tests are skipped where one of them is missing.
"""

import math
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.cpu import Executable, Machine
from qmlir.backends.cpu.emit import symbol
from qmlir.backends.cpu.machine import compile_object, host_triple
from qmlir.numerics import Array

SECONDS = 600
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

EMULATED: Mapping[str, str] = {
    "x86-64": "qemu64",
    "x86-64-v2": "Nehalem",
    "x86-64-v3": "Haswell",
    "generic": "cortex-a53",
    "cortex-a53": "cortex-a53",
    "cortex-a76": "cortex-a76",
    "cortex-m4": "cortex-a7",
    "cortex-m7": "cortex-a7",
    "generic-rv32": "rv32",
    "generic-rv64": "rv64,v=on,vext_spec=v1.0",
}
"""qemu's processor for LLVM's."""

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
declare void {net}(ptr, ptr, ptr, ptr)

define internal {word} @call({word} %file, ptr %at, {word} %size, {word} %what) noinline nounwind {{
  %entry = getelementptr i8, ptr @system, {word} {offset}
  %done = call {word} %entry({word} %file, ptr %at, {word} %size, {word} %what)
  ret {word} %done
}}

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
  %status = zext i1 %ended to {word}
  %ignored = call {word} @call({word} 0, ptr null, {word} 0, {word} {exit})
  unreachable
done:
  ret void
}}

define void @start() nounwind "stackrealign" {{
  {read_weights}
  br label %sample
sample:
  {read_inputs}
  call void {net}(ptr @weights, ptr @arena, ptr @inputs, ptr @outputs)
  {write_outputs}
  br label %sample
}}
"""
"""Ends, with the status 0, when there is nothing more to read."""

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


def tool(name: str, package: str) -> str:
    """The path of a program; skips the test where it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}: apt-get install {package}")
    return found


def _of(table: Mapping[str, object], architecture: str) -> str:
    return next(name for name in table if architecture.startswith(name))


def require(machine: Machine) -> None:
    """Skips the test where a program that it takes for a processor is missing."""
    if machine.architecture == "wasm32":
        tool("wasm-ld", "lld")
        tool("node", "nodejs")
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
    linux = CALLS[_of(CALLS, machine.architecture)]
    code = bytes.fromhex(linux.code)

    def moves(names: Sequence[str], file: int, what: int) -> str:
        each = f"call void @all({word} {file}, ptr @{{}}, {word} {{}}, {word} {what})"
        return "\n  ".join(each.format(name, sizes[name]) for name in names)

    library = LIBRARY if machine.system.hosted else ""
    return PROGRAM.format(
        code="".join(f"\\{byte:02x}" for byte in code),
        code_bytes=len(code),
        offset=linux.offset,
        exit=linux.exit,
        read_weights=moves(["weights"], 0, linux.read),
        read_inputs=moves(inputs, 0, linux.read),
        write_outputs=moves(outputs, 1, linux.write),
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
        command = [tool("ld.lld", "lld"), "--omagic", "--entry=start"]
    done = subprocess.run([*command, "-o", path, *objects], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


def command_of(executable: Executable, program: Path) -> list[str]:
    """The command that runs a program."""
    machine, signature = executable.machine, executable.signature.flat()
    if machine.architecture == "wasm32":
        sizes = [",".join(map(str, _bytes(specs))) for specs in (signature.inputs, signature.outputs)]
        return [tool("node", "nodejs"), "-e", NODE, "--", str(program), str(executable.weights.nbytes), *sizes]
    emulator = EMULATORS[_of(EMULATORS, machine.architecture)]
    return [tool(emulator, "qemu-user"), "-cpu", EMULATED.get(machine.cpu, "max"), str(program)]


def run(executable: Executable, calls: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each call, as the emulator of the executable's processor computes them."""
    require(executable.machine)
    data = [executable.weights, *(np.ascontiguousarray(x) for call in calls for x in call)]
    with tempfile.TemporaryDirectory() as name:
        program = link(executable, Path(name))
        command = command_of(executable, program)
        given = b"".join(x.tobytes() for x in data)
        done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}"
    results: list[list[Array]] = []
    at = 0
    for _ in calls:
        results.append([])
        for spec in executable.signature.flat().outputs:
            count = math.prod(spec.shape)
            results[-1].append(np.frombuffer(done.stdout, spec.dtype, count, at).reshape(spec.shape))
            at += count * spec.dtype.itemsize
    assert at == len(done.stdout)
    return results
