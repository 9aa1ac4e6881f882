"""What code computes on floats: LLVM IR, assembly text, and object files, which are disassembled.

Registers hold integers and floats alike, so an instruction counts by what it computes: arithmetic, comparisons,
roundings and conversions of floats. Instructions that are named after floats but copy, shuffle or combine bits, which
may as well be integers, are listed apart, as moves.

The casts at a network's entry and exit are told from casts between its integers by their order: behind the first
kernel that dequantizes, none may quantize. So the floats that are quantized are inputs, and the floats that integers
become are read by nothing but the caller.
"""

import re
import shutil
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qmlir.checker.unproven import RefusedError
from qmlir.errors import FileError

ENTERING, LEAVING = "quant_qcast_", "quant_dcast_"
"""What the names of the only functions begin with that may compute on floats."""

_NAMED = re.compile(r"(?!p|vp(?!erm)|tdpb[su])v?(\w+?)[sp][sdh]")
"""Instructions of x86 that are named after floats; those on packed integers begin with p, and AMX's with tdpb."""

_MOVES = frozenset(
    """
    mov movmsk mova movu movl movh movlh movhl movnt maskmov xor and andn or test blend blendv blendm shuf
    unpckl unpckh perm permil permi2 permt2 broadcast insert extract gather scatter gatherd gatherq scatterd
    scatterq expand compress
    """.split()
)
"""Stems of those that copy, shuffle or combine bits, which may as well be integers."""

_X87 = re.compile(r"f\w*|\w*(cvt|bf16)\w*")
"""Instructions of x87, conversions, and products of bfloat16."""

_AARCH64 = re.compile(r"f(?!mov)\w+|[su]cvtf|bf(cvt|dot|m)\w*")

_LLVM = re.compile(r"f(add|sub|mul|div|rem|neg|cmp|pto[su]i|ptrunc|pext)|[su]itofp|call .*")
"""Instructions of LLVM's; a call that takes or yields floats is `call` with the name of what is called."""


def _on_x86(name: str) -> bool:
    named = _NAMED.fullmatch(name)
    return _X87.fullmatch(name) is not None or (named is not None and named[1] not in _MOVES)


COMPUTES: Mapping[str, Callable[[str], Any]] = {
    "LLVM IR": _LLVM.fullmatch,
    "x86_64": _on_x86,
    "aarch64": _AARCH64.fullmatch,
}
"""Form of code → whether an instruction computes on floats; on x86, all do that are named after floats and no moves."""

NAMED: Mapping[str, Callable[[str], Any]] = {
    "LLVM IR": lambda name: None,
    "x86_64": _NAMED.fullmatch,
    "aarch64": re.compile(r"fmov\w*").fullmatch,
}
"""Form of code → whether an instruction is named after floats; it is a move if it does not compute on them."""

_LABEL = re.compile(r"^([0-9a-f]+) <(.+)>:")
_CODE = re.compile(r"^\s+([0-9a-f]+):\s+(?:(?:lock|rep\w*|data16|notrack)\s+)*([a-z][a-z0-9.]*)(.*)")
_RELOCATION = re.compile(r":\s+R_\w+\s+(\S+)")
_SYMBOL = re.compile(r"<([^>+]+)(\+0x[0-9a-f]+)?>")
_JUMP = re.compile(r"j\w+|loop\w*|bc?(\.\w+)?|[ct]bn?z")


def place_of(function: str) -> str | None:
    """Whether a kernel of a cast stands at the `entry` or at the `exit`; None for any other function.

    A kernel's name begins with that of the network's function, if that is main.
    """
    kernel = function.removeprefix("main_")
    return "entry" if kernel.startswith(ENTERING) else "exit" if kernel.startswith(LEAVING) else None


@dataclass
class Code:
    """What some code computes on floats.

    form        `LLVM IR`, or the architecture
    functions   function → how often it uses each instruction
    casts       of an object file: function that is no cast → the casts that it refers to, by address
    backwards   the functions that branch to an address before
    """

    form: str
    functions: Mapping[str, Counter[str]]
    casts: dict[str, list[str]] | None = None
    backwards: set[str] = field(default_factory=set[str])

    def require_integers(self) -> None:
        """Requires that no functions but kernels of casts compute on floats.

        Raises:
            RefusedError: Another function does.
        """
        for name, used in self._floats().items():
            if place_of(name) is None:
                got = ", ".join(f"{instruction} ({times}×)" for instruction, times in used.items())
                need = "must compute on integers by integer instructions"
                raise RefusedError(self.form, name, need, got=got)

    def require_ordered_casts(self) -> None:
        """Requires that one function refers to the casts, those of inputs before those of outputs, and in no loop.

        Raises:
            RefusedError: The code is another.
        """
        remedy = "certify the network, which tells where floats come from"
        for number, (function, kernels) in enumerate((self.casts or {}).items()):
            if number or function in self.backwards:
                need = "must call the casts of inputs and outputs once, from one function"
                got = (
                    f"{kernels[0]} in a loop" if function in self.backwards else f"{kernels[0]} from a second function"
                )
                raise RefusedError(self.form, function, need, got=got, remedy=remedy)
            places = list(map(place_of, kernels))
            if "exit" in places and "entry" in places[places.index("exit") :]:
                first = places.index("exit")
                got = f"{kernels[places.index('entry', first)]} behind {kernels[first]}"
                need = "must quantize all inputs before it dequantizes an output"
                raise RefusedError(self.form, function, need, got=got, remedy=remedy)

    def _floats(self) -> Mapping[str, Mapping[str, int]]:
        """The functions with instructions on floats, and how often they use each."""
        found = {name: _chosen(used, COMPUTES[self.form]) for name, used in self.functions.items()}
        return {name: floats for name, floats in found.items() if floats}

    def fields(self) -> dict[str, Any]:
        """The fields of a certificate."""
        every, computes, named = sum(self.functions.values(), Counter[str]()), COMPUTES[self.form], NAMED[self.form]
        moves = _chosen(every, lambda name: named(name) and not computes(name))
        casts = None if self.casts is None else [{"function": f, "kernels": k} for f, k in self.casts.items()]
        return {
            "form": self.form,
            "functions": len(self.functions),
            "instructions": every.total(),
            "floats": [
                {"function": name, "place": place_of(name), "instructions": used}
                for name, used in self._floats().items()
            ],
            "moves": dict(sorted(moves.items())),
            **({} if casts is None else {"casts": casts}),
        }


def _chosen(used: Counter[str], rule: Callable[[str], Any]) -> Mapping[str, int]:
    return {name: times for name, times in used.items() if rule(name)}


def require_casts(code: Sequence[Mapping[str, Any]]) -> None:
    """Requires that code, as a certificate states it, computes on floats in kernels of casts only.

    Raises:
        RefusedError: Another function does, or a kernel stands at another place than its name says.
    """
    for each in code:
        for function in each["floats"]:
            if place_of(function["function"]) != function["place"]:
                need = "must stand where its name says, and be a cast"
                raise RefusedError(each["form"], function["function"], need, got=f"{function['place']}")


def code_fields(data: bytes, path: Path) -> dict[str, Any]:
    """The fields of a certificate about the code of an object file.

    Args:
        data: The content of the file.
        path: The file, for errors.

    Raises:
        FileError: There is no disassembler, or it cannot read the file.
        RefusedError: The code computes on floats elsewhere than in the casts at its entry and exit.
    """
    code = disassembled(data, path)
    code.require_integers()
    code.require_ordered_casts()
    return code.fields()


def disassembled(data: bytes, path: Path) -> Code:
    """The code of an object file; see `code_fields`."""
    return _read(*_listing(data, path))


TOOLS = ("llvm-objdump", "objdump", "aarch64-linux-gnu-objdump", "x86_64-linux-gnu-objdump")

SECONDS, MOST_LISTED = 120, 512 << 20
"""The time that a disassembler may take, and the most bytes that it may write."""


def _listing(data: bytes, path: Path) -> tuple[str, Sequence[str]]:
    """The architecture of an object file, and the lines of its disassembly."""
    tools = [tool for name in TOOLS if (tool := shutil.which(name)) is not None]
    if not tools:
        need, remedy = "needs a disassembler to be certified", "install binutils or LLVM"
        raise FileError(path, need, got="neither objdump nor llvm-objdump", remedy=remedy)
    said = "another file"
    with tempfile.TemporaryDirectory(prefix="qmlir-") as folder:
        copy, listing = Path(folder) / "checked.o", Path(folder) / "listing"
        copy.write_bytes(data)  # what was hashed is what is disassembled
        for tool in tools:
            said = _run([tool, "-d", "-r", "--no-show-raw-insn", str(copy)], listing) or said
            text = listing.read_bytes().decode(errors="replace")
            architecture = next((form for sign, form in _FORMS.items() if sign in text[:4096]), None)
            if architecture is not None and text:
                return architecture, text.splitlines()
    raise FileError(path, "must be an object file for x86-64 or AArch64", got=said)


_FORMS = {"elf64-x86-64": "x86_64", "elf64-littleaarch64": "aarch64", "elf64-aarch64": "aarch64"}
"""How disassemblers call the formats of object files → the architecture."""


def _run(command: Sequence[str], listing: Path) -> str | None:
    """Writes what a disassembler says to a file; returns its error, after which the file is empty."""
    error, complaints = None, listing.with_name("complaints")
    with listing.open("wb") as out, complaints.open("wb") as told:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=told)
        assert process.stdout is not None
        watch = threading.Timer(SECONDS, process.kill)
        watch.start()
        try:
            while block := process.stdout.read(1 << 20):
                if out.tell() + len(block) > MOST_LISTED:
                    error = f"code of more than {MOST_LISTED} bytes of disassembly"
                    break
                out.write(block)
        finally:
            if error is not None:
                process.kill()
            failed = process.wait() != 0
            watch.cancel()
            process.stdout.close()
        if failed and error is None:
            with complaints.open("rb") as file:
                lines = file.read(1 << 16).decode(errors="replace").strip().splitlines()
            error = (lines or ["a file that cannot be disassembled in time"])[-1].replace(command[-1], "the file")
        if error is not None:
            out.truncate(0)
    return error


def _read(form: str, lines: Sequence[str]) -> Code:
    labels = [(int(label[1], 16), label[2]) for line in lines if (label := _LABEL.match(line))]
    used, casts = {name: Counter[str]() for _, name in labels}, dict[str, list[str]]()
    found, function, first = Code(form, used, casts), "", 0
    for line in lines:
        named: list[str] = []
        if label := _LABEL.match(line):
            first, function = int(label[1], 16), label[2]
        elif code := _CODE.match(line):
            used.setdefault(function, Counter())[code[2]] += 1
            for symbol in _SYMBOL.finditer(code[3]):
                named.append(symbol[1])
                target = first + int((symbol[2] or "+0x0")[1:], 16)
                if symbol[1] == function and _JUMP.fullmatch(code[2]) and target <= int(code[1], 16):
                    found.backwards.add(function)
        elif relocation := _RELOCATION.search(line):
            named.append(_relocated(relocation[1], labels))
        if place_of(function) is None:
            for cast in filter(place_of, named):
                casts.setdefault(function, []).append(cast)
    return found


def _relocated(target: str, labels: Sequence[tuple[int, str]]) -> str:
    """The function that a relocation names, by its symbol or by its place in the section."""
    name, _, offset = target.partition("+")
    if not name.startswith(".text"):
        return name.partition("-0x")[0]
    place = int(offset, 16) if offset else 0
    return max(((at, label) for at, label in labels if at <= place), default=(0, ""))[1]
