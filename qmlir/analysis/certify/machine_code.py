"""Instructions on floats: in LLVM IR, in assembly text and in object files.

A register does not tell what it holds: the vector registers of x86-64 and AArch64 hold integers as well as floats, and
compilers copy and shuffle integers by instructions that are named after floats (`movups`, `xorps`). So an instruction
counts by what it computes. An instruction that adds, multiplies, compares, rounds or converts floats counts; a copy, a
shuffle, a broadcast or a bitwise operation does not. Those that are named after floats are listed apart, as moves.

A function that computes on floats must be a kernel of a cast, which its name tells. A cast between the network's layers
has a kernel of the same kind. In an object file the order of calls tells these apart: if no kernel that quantizes is
called behind one that dequantizes, then the floats of the first kind come from the network's inputs, as no other
function makes floats, and those of the second kind leave through its outputs, as nothing reads them any more.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from qmlir.errors import FileError, NodeError
from qmlir.transforms.verify_integer_only import BETWEEN, ENTRY, EXIT, place_of_kernel

Instructions = Mapping[str, Counter[str]]
"""Function → how often it uses each instruction."""


@dataclass
class FloatCode:
    """The instructions on floats of some code.

    form          `LLVM IR`, or the architecture of machine code
    functions     the number of functions
    instructions  the number of instructions
    floats        function → instructions that compute on floats, and how often it uses each
    moves         instructions that are named after floats and only move bits, likewise, over all functions
    casts         of an object file: function → the kernels of casts that it refers to, in order
    """

    form: str
    functions: int = 0
    instructions: int = 0
    floats: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    moves: dict[str, int] = field(default_factory=dict[str, int])
    casts: dict[str, list[str]] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        casts = None if self.casts is None else [{"function": f, "kernels": k} for f, k in self.casts.items()]
        return {
            "form": self.form,
            "functions": self.functions,
            "instructions": self.instructions,
            "floats": [
                {"function": name, "place": place_of_kernel(name), "instructions": used}
                for name, used in self.floats.items()
            ],
            "moves": self.moves,
            **({} if casts is None else {"casts": casts}),
        }

    def require_integers(self) -> None:
        """Refuses code that computes on floats elsewhere than in the casts at the entry and the exit.

        Raises:
            NodeError: A function computes on floats.
        """
        for name, used in self.floats.items():
            if place_of_kernel(name) == BETWEEN:
                need = "must compute on integers by integer instructions"
                listed = ", ".join(f"{instruction} ({times}×)" for instruction, times in used.items())
                raise NodeError(self.form, name, need, got=listed)


def scan_object(path: Path) -> FloatCode:
    """Classifies the instructions of an object file, and requires the order of its casts.

    Raises:
        FileError: There is no disassembler, or the file is no object file that it reads.
        NodeError: A function computes on floats, or integers may be quantized from floats that are no inputs.
    """
    code = disassembled(path)
    found = scan(code.architecture, code.instructions)
    found.require_integers()
    found.casts = code.casts
    remedy = "certify the network, which tells where floats come from"
    for number, (function, kernels) in enumerate(code.casts.items()):
        if number or function in code.loops:
            need = "must call the casts of inputs and outputs once, from one function"
            got = f"{kernels[0]} in a loop" if function in code.loops else f"{kernels[0]} from a second function"
            raise NodeError(found.form, function, need, got=got, remedy=remedy)
        places = [place_of_kernel(kernel) for kernel in kernels]
        if EXIT in places and ENTRY in places[places.index(EXIT) :]:
            first = places.index(EXIT)
            late = kernels[places.index(ENTRY, first)]
            need = "must quantize all inputs before it dequantizes an output"
            raise NodeError(found.form, function, need, got=f"{late} behind {kernels[first]}", remedy=remedy)
    return found


def scan(form: str, used: Instructions) -> FloatCode:
    """Classifies the instructions of some code.

    Args:
        form: What the code is: a key of `RULES`.
        used: The instructions of each function.
    """
    found = FloatCode(form, len(used), sum(counts.total() for counts in used.values()))
    is_float = RULES[form]
    moves = Counter[str]()
    for name, counts in used.items():
        floats = {i: n for i, n in counts.items() if is_float(i)}
        found.floats |= {name: floats} if floats else {}
        moves += Counter({i: n for i, n in counts.items() if i not in floats and _is_move(form, i)})
    found.moves = dict(sorted(moves.items()))
    return found


# ---------------------------------------------------------------------------------------------------------------
# Which instructions compute on floats

_X86_SUFFIXED = re.compile(r"(v?)(\w+?)([sp][sdh])")
"""An instruction of SSE or AVX on floats, or one that only has such a name: a prefix, a stem and the type."""

_X86_MOVES = frozenset(
    """
    mov movmsk mova movu movl movh movlh movhl movnt maskmov xor and andn or test blend blendv blendm shuf
    unpckl unpckh perm permil permi2 permt2 broadcast insert extract gather scatter gatherd gatherq scatterd
    scatterq expand compress
    """.split()
)
"""Stems of instructions that copy, shuffle or combine bits, which may as well be integers."""


def _x86_stem(instruction: str) -> str | None:
    """The stem of an instruction that is named after floats; None for instructions on integers.

    Those on packed integers begin with p or vp, and AMX's on bytes with tdpb, but end alike: paddd, vpmaxsd, tdpbssd.
    """
    suffixed = _X86_SUFFIXED.fullmatch(instruction)
    is_integer = instruction.startswith(("p", "vp", "tdpbs", "tdpbu")) and not instruction.startswith("vperm")
    return None if suffixed is None or is_integer else suffixed[2]


def _x86_float(instruction: str) -> bool:
    if instruction.startswith("f") or "cvt" in instruction or "bf16" in instruction:  # x87, conversions, products
        return True
    stem = _x86_stem(instruction)
    return stem is not None and stem not in _X86_MOVES


def _aarch64_float(instruction: str) -> bool:
    converts = instruction.startswith(("scvtf", "ucvtf", "bfcvt", "bfdot", "bfm"))
    return converts or (instruction.startswith("f") and not instruction.startswith("fmov"))


def _llvm_float(instruction: str) -> bool:
    return instruction in _LLVM_FLOATS or instruction.startswith("call ")


def _is_move(form: str, instruction: str) -> bool:
    """Whether an instruction is named after floats; AArch64's ldrsh ends like one of x86 and is none."""
    return _x86_stem(instruction) is not None if form == "x86_64" else instruction.startswith("fmov")


_LLVM_FLOATS = frozenset(
    ("fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "fcmp", "fptosi", "fptoui", "sitofp", "uitofp", "fptrunc", "fpext")
)

RULES = {"LLVM IR": _llvm_float, "x86_64": _x86_float, "aarch64": _aarch64_float}
"""Form of code → whether an instruction computes on floats."""


# ---------------------------------------------------------------------------------------------------------------
# The instructions of functions


_DEFINITION = re.compile(r'^define .*?@"?([^"(]+)"?\(')
_INSTRUCTION = re.compile(r"^\s+(?:%\S+ = )?(?:(?:tail|musttail|notail) )?([a-z_]+)\b(.*)")
_CALLED = re.compile(r'@"?([\w.$-]+)"?\(')
_FLOATS = re.compile(r"\b(half|bfloat|float|double|fp128|x86_fp80)\b")


def in_llvm_ir(text: str) -> dict[str, Counter[str]]:
    """The instructions of each function in LLVM IR; a call that takes or yields floats is `call` and the function."""
    found, current = dict[str, Counter[str]](), Counter[str]()
    for line in text.splitlines():
        if definition := _DEFINITION.match(line):
            current = found.setdefault(definition[1], Counter())
        elif instruction := _INSTRUCTION.match(line):
            name = instruction[1]
            if name == "call":
                called = _CALLED.search(line)
                name = f"call {called[1] if called else '?'}" if _FLOATS.search(line) else "call"
            current[name] += 1
    return found


_LABEL = re.compile(r'^"?([A-Za-z_$][\w.$-]*)"?:')
_MNEMONIC = re.compile(r"^\t([a-z][a-z0-9.]*)")
_PREFIXES = frozenset(("lock", "rep", "repe", "repne", "repz", "repnz", "data16", "notrack"))


def in_assembly(text: str) -> dict[str, Counter[str]]:
    """The instructions of each function in assembly text as LLVM writes it."""
    functions = set(re.findall(r'^\t\.type\t"?([^",]+)"?,[@%]function', text, re.MULTILINE))
    found, current = dict[str, Counter[str]](), Counter[str]()
    for line in text.splitlines():
        if (label := _LABEL.match(line)) and label[1] in functions:
            current = found.setdefault(label[1], Counter())
        elif _MNEMONIC.match(line):
            current[_without_prefix(line.split())] += 1
    return found


def _without_prefix(words: list[str]) -> str:
    """The mnemonic of an instruction, which may stand behind prefixes."""
    return next((w for w in words if w not in _PREFIXES), words[0])


class Disassembled(NamedTuple):
    """An object file.

    architecture  `x86_64` or `aarch64`
    instructions  the instructions of each function
    casts         function that is no kernel of a cast → the kernels of casts that it refers to, in order
    loops         functions that jump back
    """

    architecture: str
    instructions: dict[str, Counter[str]]
    casts: dict[str, list[str]]
    loops: set[str]


TOOLS = ("llvm-objdump", "objdump", "aarch64-linux-gnu-objdump", "x86_64-linux-gnu-objdump")
"""Disassemblers; those of binutils mostly read files for one architecture only."""


def disassembled(path: Path) -> Disassembled:
    """Disassembles an object file.

    Raises:
        FileError: There is no disassembler, the file is no object file, or it is for another architecture.
    """
    tools = list(filter(None, map(shutil.which, TOOLS)))
    if not tools:
        need, remedy = "needs a disassembler to be certified", "install binutils or LLVM"
        raise FileError(path, need, got="neither llvm-objdump nor objdump", remedy=remedy)
    got = "another file"
    for tool in tools:
        command = [tool, "-d", "-r", "--no-show-raw-insn", str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        architecture = next((a for pattern, a in _ARCHITECTURES if re.search(pattern, ran.stdout)), None)
        if not ran.returncode and architecture is not None:
            return _read(architecture, ran.stdout.splitlines())
        got = (ran.stderr.strip().splitlines() or [got])[-1]
    raise FileError(path, "must be an object file for x86-64 or AArch64", got=got)


_ARCHITECTURES = ((r"file format elf64-x86-64", "x86_64"), (r"file format elf64-(little)?aarch64", "aarch64"))

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:")
_AT = re.compile(r"^\s+([0-9a-f]+):\s+([a-z].*)")
_NAMED = re.compile(r"<([^<>+]+)(?:\+0x([0-9a-f]+))?>")
_RELOCATED = re.compile(r"R_[A-Z0-9_]+\s+(\.text\S*?|[^\s+-]+)(?:[+-]0x([0-9a-f]+))?\s*$")
_JUMP = re.compile(r"j\w+|b(\.\w+)?|[ct]bn?z")


def _read(architecture: str, lines: Sequence[str]) -> Disassembled:
    starts = {int(label[1], 16): label[2] for line in lines if (label := _FUNCTION.match(line))}
    found = Disassembled(architecture, {name: Counter() for name in starts.values()}, {}, set())
    function, start = "", 0

    def refer(name: str) -> None:
        if place_of_kernel(name) != BETWEEN and place_of_kernel(function) == BETWEEN:
            found.casts.setdefault(function, []).append(name)

    for line in lines:
        if label := _FUNCTION.match(line):
            start, function = int(label[1], 16), label[2]
        elif code := _AT.match(line):
            words = code[2].split()
            mnemonic = _without_prefix(words)
            found.instructions.setdefault(function, Counter())[mnemonic] += 1
            for name, offset in _NAMED.findall(line):
                refer(name)
                if (
                    name == function
                    and _JUMP.fullmatch(mnemonic)
                    and int(offset or "0", 16) <= int(code[1], 16) - start
                ):
                    found.loops.add(function)
        elif relocation := _RELOCATED.search(line):
            name, offset = relocation[1], int(relocation[2] or "0", 16)
            if name.startswith(".text"):  # a place in the section instead of a symbol
                name = starts.get(max((s for s in starts if s <= offset), default=0), name)
            refer(name)
    return found
