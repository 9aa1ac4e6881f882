"""Runs code for x86 processors that this one is not: Bochs boots an image with the code, without a system.

    outputs = run(executable, inputs, "icelake-server")

The object is linked with a C function into a flat image, which a disk holds before the weights and inputs. A boot
sector switches to 64 bits with the registers of AVX-512 on, reads the disk and calls the function; outputs come back by
the printer's port.

Debian has what this takes as bochs, bochs-term, gcc and binutils. Tests are skipped where one of them is missing.
"""

import os
import pty
import re
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from qmlir.backends.cpu.jit import Executable
from qmlir.numerics import Array
from tests.backends.cpu.emulated import job_of, outputs_of, tool

MODELS = {"icelake-server": "corei7_icelake_u", "skylake-avx512": "corei7_skylake_x"}
"""Bochs's processor for LLVM's. Each has the instructions of its processor only, and stops at others."""

SECONDS = 300
"""The longest that an image may run."""

MEGABYTES = 512

IMAGE = 16 << 20
"""Where the code lies in memory, and behind it the job."""

AT_ONCE = 256 * 512
"""Bytes of the disk that one command reads."""

CYLINDER = 16 * 63 * 512
"""The size of a disk is a multiple of it."""

NUMBERS = 500
"""Where the boot sector has the count of commands that read the disk, and the address of the job."""

MAGIC = b"outputs:"
"""What precedes the outputs; an image that stops early does not write it."""

BOOT = f"""
.code16
  cli
  xorw %ax, %ax
  movw %ax, %ds
  movw %ax, %es
  movw %ax, %ss
  inb $0x92, %al
  orb $2, %al
  andb $0xfe, %al
  outb %al, $0x92              # the line A20, without which odd megabytes are even ones
  cld
  movw $0x1000, %di            # tables of pages of 2 MB: the first GB is mapped to itself
  xorl %eax, %eax
  movw $0xc00, %cx
  rep stosl
  movl $0x2003, 0x1000
  movl $0x3003, 0x2000
  movw $0x3000, %di
  movl $0x83, %eax
  movw $512, %cx
pages:
  movl %eax, (%di)
  addl $0x200000, %eax
  addw $8, %di
  loop pages
  movl $0x1000, %eax
  movl %eax, %cr3
  movl $0x40620, %eax          # PAE, OSFXSR, OSXMMEXCPT, OSXSAVE
  movl %eax, %cr4
  movl $0xc0000080, %ecx       # EFER: long mode
  rdmsr
  orl $0x100, %eax
  wrmsr
  lgdtl table
  movl $0x80000013, %eax       # paging, protection, no emulation of the x87
  movl %eax, %cr0
  ljmpl $8, $long
.code64
long:
  movl $16, %eax
  movl %eax, %ds
  movl %eax, %es
  movl %eax, %ss
  xorl %ecx, %ecx              # XCR0: the state of x87, SSE, AVX and AVX-512
  xorl %edx, %edx
  movl $0xe7, %eax
  xsetbv
  movl commands(%rip), %ebx
  movl ${IMAGE}, %edi
  movl $1, %ebp                # the next sector
command:
  movw $0x1f2, %dx
  xorl %eax, %eax              # 256 sectors
  outb %al, %dx
  movl %ebp, %eax
  incl %edx
  outb %al, %dx
  shrl $8, %eax
  incl %edx
  outb %al, %dx
  shrl $8, %eax
  incl %edx
  outb %al, %dx
  movb $0xe0, %al              # the first disk, sectors by number
  incl %edx
  outb %al, %dx
  movb $0x20, %al              # read
  incl %edx
  outb %al, %dx
  movl $256, %esi
sector:
  movw $0x1f7, %dx
wait:
  inb %dx, %al
  andb $0x88, %al              # busy; data are there
  cmpb $8, %al
  jne wait
  movw $0x1f0, %dx
  movl $256, %ecx
  rep insw
  decl %esi
  jnz sector
  addl $256, %ebp
  decl %ebx
  jnz command
  movl ${IMAGE}, %esp
  movl ${IMAGE}, %eax
  movl job(%rip), %edi
  call *%rax
  movw $0x8900, %dx            # Bochs ends at this word at this port
  leaq word(%rip), %rsi
  movl $8, %ecx
  rep outsb
stop:
  hlt
  jmp stop
word: .ascii "Shutdown"
.balign 8
descriptors: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
table: .word 23
  .long descriptors
.org {NUMBERS}
commands: .long 0
job: .long 0
.org 510
  .word 0xaa55
"""

HARNESS = r"""
#include <stddef.h>
#include <stdint.h>

void net(const uint8_t *weights, uint8_t *arena, const void *const *inputs, void *const *outputs);

void *memset(void *to, int value, size_t count) {
  void *start = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
  return start;
}

void *memcpy(void *to, const void *from, size_t count) {
  void *start = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  return start;
}

void *memmove(void *to, const void *from, size_t count) {
  if ((uintptr_t)to - (uintptr_t)from >= count) return memcpy(to, from, count);
  for (size_t i = count; i-- > 0;) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}

static void out(uint16_t port, uint8_t byte) { __asm__ volatile("outb %0, %1" : : "a"(byte), "d"(port)); }

static void print(const uint8_t *bytes, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    out(0x378, bytes[i]);
    out(0x37a, 0x0d);
    out(0x37a, 0x0c);
  }
}

static uint8_t *unused;

static uint8_t *memory(int64_t size, int fill) {
  uint8_t *start = unused;
  unused += (size + 127) / 64 * 64;
  return memset(start, fill, size);
}

/* The job: bytes of weights and of the arena, numbers of inputs and outputs, bytes of each; weights; inputs. */
__attribute__((section(".text.first"))) void start(const int64_t *head) {
  const int64_t *sizes = head + 4;
  int64_t tensors = head[2] + head[3], size = 0;
  const uint8_t *data = (const uint8_t *)(sizes + tensors);
  for (int64_t i = 0; i < head[2]; i++) size += sizes[i];
  unused = (uint8_t *)(((uintptr_t)data + head[0] + size + 4095) / 4096 * 4096);
  uint8_t *weights = memcpy(memory(head[0], 0), data, head[0]), *arena = memory(head[1], 0xA5);
  data += head[0];
  void **places = (void **)memory(8 * tensors, 0);
  for (int64_t i = 0; i < tensors; i++) {
    places[i] = memory(sizes[i], 0x5A);
    if (i >= head[2]) continue;
    memcpy(places[i], data, sizes[i]);
    data += sizes[i];
  }
  net(weights, arena, (const void *const *)places, places + head[2]);
  out(0x37a, 0x08);
  out(0x37a, 0x0c);
  print((const uint8_t *)"outputs:", 8);
  for (int64_t i = head[2]; i < tensors; i++) print(places[i], sizes[i]);
}
"""

LAYOUT = f"""
SECTIONS {{
  . = {IMAGE};
  .text : {{ *(.text.first) *(.text .text.*) }}
  .rodata : {{ *(.rodata .rodata.* .lrodata .lrodata.*) }}
  .data : {{ *(.data .data.* .got .got.* .bss .bss.* COMMON) QUAD(0) }}
  /DISCARD/ : {{ *(.comment .note* .eh_frame*) }}
}}
"""

BIOS = Path("/usr/share/bochs")

SETTINGS = f"""
display_library: term
cpu: model={{model}}, ips=20000000, reset_on_triple_fault=0
memory: guest={MEGABYTES}, host={MEGABYTES}
romimage: file={BIOS}/BIOS-bochs-latest
vgaromimage: file={BIOS}/VGABIOS-lgpl-latest
ata0-master: type=disk, path=disk, mode=flat, cylinders={{cylinders}}, heads=16, spt=63
boot: disk
parport1: enabled=1, file=results
sound: waveoutdrv=dummy
log: log
panic: action=fatal
error: action=ignore
info: action=ignore
"""


@cache
def _models() -> str:
    """The processors that Bochs knows."""
    done = subprocess.run([tool("bochs", "bochs"), "--help", "cpu"], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def require(cpu: str) -> None:
    """Skips the test where a program that it takes, or Bochs's model of a processor, is missing."""
    tool("gcc", "gcc")
    for name in ("as", "ld", "objcopy", "objdump"):
        tool(name, "binutils")
    if MODELS[cpu] not in _models():
        pytest.skip(f"this Bochs has no {MODELS[cpu]}")
    if not list(Path("/usr/lib").glob("*/bochs/plugins/libbx_term_gui.so")):
        pytest.skip("Bochs has no display in a terminal: apt-get install bochs-term")
    if not (BIOS / "BIOS-bochs-latest").exists() or not (BIOS / "VGABIOS-lgpl-latest").exists():
        pytest.skip("Bochs has no BIOS: apt-get install bochsbios vgabios")


@cache
def _compiled() -> tuple[bytes, bytes]:
    """The boot sector and the object file of the C function, made once a process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "boot.s").write_text(BOOT)
        (folder / "harness.c").write_text(HARNESS)
        subprocess.run(["as", "-o", folder / "boot.o", folder / "boot.s"], check=True)
        link = ["ld", "-Ttext", "0x7c00", "-e", "0x7c00", "--oformat", "binary", "-o", folder / "boot"]
        subprocess.run([*link, folder / "boot.o"], check=True)
        command = [
            "gcc",
            "-O1",
            "-Wall",
            "-Werror",
            "-ffreestanding",
            "-fno-pic",
            "-fno-stack-protector",
            "-mno-red-zone",
        ]
        command += ["-fno-tree-loop-distribute-patterns", "-fcf-protection=none", "-c"]
        subprocess.run([*command, folder / "harness.c", "-o", folder / "harness.o"], check=True)
        return (folder / "boot").read_bytes(), (folder / "harness.o").read_bytes()


def _linked(executable: Executable, folder: Path) -> bytes:
    """The image: the C function at its start, variables that are 0 included."""
    (folder / "harness.o").write_bytes(_compiled()[1])
    (folder / "net.o").write_bytes(executable.object)
    (folder / "layout").write_text(LAYOUT)
    subprocess.run(["objcopy", f"--redefine-sym={executable.entry}=net", folder / "net.o"], check=True)
    link = ["ld", "--no-warn-rwx-segments", "-T", folder / "layout", "-e", "start", "-o", folder / "linked"]
    subprocess.run([*link, folder / "harness.o", folder / "net.o"], check=True)
    subprocess.run(["objcopy", "-O", "binary", folder / "linked", folder / "image"], check=True)
    return _with_displacements_of_bochs((folder / "image").read_bytes(), folder / "linked")


def _with_displacements_of_bochs(image: bytes, linked: Path) -> bytes:
    """The image with displacements as Bochs 2.7 reads them, where it does not read them as processors do.

    A displacement of one byte counts in units of what an instruction with an EVEX prefix accesses: words for vpextrw.
    Bochs counts bytes there, so the byte is doubled. (Found with `vpextrw $2, %xmm17, 4(%rdi)`, which stored at 2.)
    """
    command = ["objdump", "-d", "--insn-width=16", str(linked)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    patched = bytearray(image)
    for address, encoding in re.findall(r"^ +([0-9a-f]+):\t(62(?: [0-9a-f]{2})+) *\tvpextrw ", text, re.MULTILINE):
        modrm = bytes.fromhex(encoding)[5]
        if modrm >> 6 == 1:  # a displacement of one byte, behind the byte that names two registers if there is one
            place = int(address, 16) - IMAGE + (7 if modrm & 7 == 4 else 6)
            patched[place : place + 1] = struct.pack("<b", 2 * struct.unpack("<b", patched[place : place + 1])[0])
    return bytes(patched)


def _disk(image: bytes, job: bytes) -> bytes:
    """The boot sector, the image and the job behind it."""
    image += bytes(-len(image) % 4096)
    data = image + job
    assert IMAGE + len(data) < MEGABYTES << 19
    data += bytes(-len(data) % AT_ONCE)
    boot = bytearray(_compiled()[0])
    struct.pack_into("<II", boot, NUMBERS, len(data) // AT_ONCE, IMAGE + len(image))
    disk = bytes(boot) + data
    return disk + bytes(-len(disk) % CYLINDER)


def run_as(executable: Executable, inputs: Sequence[Array], model: str) -> bytes | None:
    """The bytes of the outputs as a processor of Bochs computes them; None if it stops before."""
    assert not executable.uses_pool
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        disk = _disk(_linked(executable, folder), job_of(executable, inputs))
        (folder / "disk").write_bytes(disk)
        (folder / "settings").write_text(SETTINGS.format(model=model, cylinders=len(disk) // CYLINDER))
        (folder / "debugger").write_text("c\n")  # a Bochs with a debugger waits for a command to go on
        (folder / "results").touch()
        control, terminal = pty.openpty()  # its display wants a terminal
        try:
            with (folder / "screen").open("wb") as screen:
                command = [tool("bochs", "bochs"), "-q", "-f", "settings", "-rc", "debugger"]
                environment = {**os.environ, "TERM": "xterm"}
                subprocess.run(
                    command,
                    cwd=folder,
                    env=environment,
                    check=False,
                    timeout=SECONDS,
                    stdin=terminal,
                    stdout=screen,
                    stderr=screen,
                )
        finally:
            os.close(control)
            os.close(terminal)
        results = (folder / "results").read_bytes()
        return results.removeprefix(MAGIC) if results.startswith(MAGIC) else None


def run(executable: Executable, inputs: Sequence[Array], cpu: str) -> list[Array]:
    """The outputs of an executable as Bochs computes them for a processor of LLVM's name."""
    data = run_as(executable, inputs, MODELS[cpu])
    assert data is not None
    return outputs_of(executable, data)


def instructions(data: bytes) -> set[str]:
    """The instructions of vectors in an object file: names, and the kind of registers, as in `vpdpbusd zmm`."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "net.o"
        path.write_bytes(data)
        command = ["objdump", "-d", "--no-show-raw-insn", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^ +[0-9a-f]+:\t(?:\{\w+\} )?(\w+) .*%([xyz]mm)\d+(?:\{%k\d\})?(?:\{z\})?$", text, re.MULTILINE)
    return {f"{name} {registers}" for name, registers in found}
