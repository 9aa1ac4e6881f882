"""What an object file computes on floats, from a disassembly.

Registers hold integers and floats alike, so an instruction counts by what it computes: arithmetic, comparisons,
roundings and conversions of floats. The list of these verbs is a list of its own, apart from the compiler's.

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qmlir.checker.unproven import UnprovenError
from qmlir.errors import FileError

ENTERING, LEAVING = "quant_qcast_", "quant_dcast_"
"""What the names of the only functions begin with that may compute on floats."""

_X86 = re.compile(
    r"v?(add|sub|mul|div|sqrt|min|max|cmp\w*|u?comi|round|rndscale|rcp\w*|rsqrt\w*|dp|hadd|hsub|addsub|getexp|getmant|"
    r"range|reduce|scalef|fixupimm|fpclass|fc?n?m(add|sub|ul|addsub|subadd)\w*)([sp][sdh])"
    r"|\w*cvt\w*|\w*bf16\w*|tdpfp16ps|f(?!xsave|xrstor|emms)\w+"
)
_AARCH64 = re.compile(r"f(?!mov)\w+|[su]cvtf|bf(cvt|dot|m)\w*")

_MOVES = re.compile(r"(vperm\w*|(?!v?p|tdpb[su])\w+)[sp][sdh]")
"""Instructions of x86 that are named after floats; those on packed integers begin with p, and AMX's with tdpb."""

_FMOV = re.compile(r"fmov\w*")

_LABEL = re.compile(r"^([0-9a-f]+) <(.+)>:")
_CODE = re.compile(r"^\s+([0-9a-f]+):\s+(?:(?:lock|rep\w*|data16|notrack)\s+)*([a-z][a-z0-9.]*)(.*)")
_RELOCATION = re.compile(r":\s+R_\w+\s+(\S+)")
_SYMBOL = re.compile(r"<([^>+]+)(\+0x[0-9a-f]+)?>")
_BRANCHES = ("j", "b", "cb", "tb")
_CALLS = (
    "bl",
    "blr",
    "bic",
    "bfi",
    "bfm",
    "bfxil",
    "bsf",
    "bsr",
    "bt",
    "btc",
    "btr",
    "bts",
    "bswap",
    "bsl",
    "bit",
    "bif",
)


def is_cast(function: str) -> bool:
    """Whether a function is a kernel of a cast, of a network's own function or of one that is called main."""
    return _place(function) is not None


def _place(function: str) -> str | None:
    """Whether a kernel of a cast stands at the `entry` or at the `exit`; None for any other function."""
    kernel = function.removeprefix("main_")
    return "entry" if kernel.startswith(ENTERING) else "exit" if kernel.startswith(LEAVING) else None


@dataclass
class Code:
    """What an object file computes on floats.

    form        the architecture
    functions   function → how often it uses each instruction
    floats      the instructions that compute on floats
    moves       the instructions that are named after floats and move bits only
    casts       function that is no cast → the casts that it refers to, by address
    backwards   the functions that branch to an address before
    """

    form: str
    functions: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    floats: set[str] = field(default_factory=set[str])
    moves: set[str] = field(default_factory=set[str])
    casts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    backwards: set[str] = field(default_factory=set[str])

    def wrong(self) -> Iterator[str]:
        """Yields what an object of a network that computes on integers only does not have."""
        for function, used in self.functions.items():
            if not is_cast(function) and not self.floats.isdisjoint(used):
                yield f"function {function} computes on floats"
        if len(self.casts) > 1:
            yield f"casts called from the functions {', '.join(sorted(self.casts))}"
        for function, kernels in self.casts.items():
            if function in self.backwards:
                yield f"casts in a loop of function {function}"
            entering = [_place(kernel) == "entry" for kernel in kernels]
            if sorted(entering, reverse=True) != entering:
                yield f"function {function} quantizes floats behind a cast of integers to floats"

    def fields(self) -> dict[str, Any]:
        """The fields of a certificate."""
        used = {name: {i: n for i, n in counts.items() if i in self.floats} for name, counts in self.functions.items()}
        every = sum(self.functions.values(), Counter[str]())
        return {
            "form": self.form,
            "functions": len(self.functions),
            "instructions": every.total(),
            "floats": [
                {"function": name, "place": _place(name), "instructions": counts}
                for name, counts in used.items()
                if counts
            ],
            "moves": {name: every[name] for name in sorted(self.moves)},
            "casts": [{"function": name, "kernels": kernels} for name, kernels in self.casts.items()],
        }


def require_casts(code: Sequence[Mapping[str, Any]]) -> None:
    """Requires that code, as a certificate states it, computes on floats in kernels of casts only.

    Raises:
        UnprovenError: Another function does, or a kernel stands at another place than its name says.
    """
    for each in code:
        for function in each["floats"]:
            if _place(function["function"]) != function["place"]:
                raise UnprovenError(f"floats in the function {function['function']} of the code ({each['form']})")


def code_fields(data: bytes, path: Path) -> dict[str, Any]:
    """The fields of a certificate about the code of an object file.

    Args:
        data: The content of the file.
        path: The file, for errors.

    Raises:
        FileError: There is no disassembler, or it cannot read the file.
        UnprovenError: The code computes on floats elsewhere than in the casts at its entry and exit.
    """
    form, lines = _disassembled(data, path)
    found = _code(form, lines)
    if wrong := next(found.wrong(), None):
        raise UnprovenError(wrong)
    return found.fields()


TOOLS = ("llvm-objdump", "objdump", "aarch64-linux-gnu-objdump", "x86_64-linux-gnu-objdump")

SECONDS, MOST_LISTED = 120, 512 << 20
"""The time that a disassembler may take, and the most bytes that it may write."""


def _disassembled(data: bytes, path: Path) -> tuple[str, Sequence[str]]:
    """The architecture of an object file, and the lines of its disassembly."""
    tools = [tool for name in TOOLS if (tool := shutil.which(name)) is not None]
    if not tools:
        need, remedy = "needs a disassembler to be checked", "install binutils or LLVM"
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


def _code(form: str, lines: Sequence[str]) -> Code:
    labels = [(int(label[1], 16), label[2]) for line in lines if (label := _LABEL.match(line))]
    found, function, first = Code(form, {name: Counter() for _, name in labels}), "", 0
    computes, moves = (_X86, _MOVES) if form == "x86_64" else (_AARCH64, _FMOV)
    for line in lines:
        named: list[str] = []
        if label := _LABEL.match(line):
            first, function = int(label[1], 16), label[2]
        elif code := _CODE.match(line):
            found.functions.setdefault(function, Counter())[code[2]] += 1
            if computes.fullmatch(code[2]):
                found.floats.add(code[2])
            elif moves.fullmatch(code[2]):
                found.moves.add(code[2])
            for symbol in _SYMBOL.finditer(code[3]):
                named.append(symbol[1])
                target = first + int((symbol[2] or "+0x0")[1:], 16)
                branches = code[2].startswith(_BRANCHES) and code[2] not in _CALLS
                if symbol[1] == function and branches and target <= int(code[1], 16):
                    found.backwards.add(function)
        elif relocation := _RELOCATION.search(line):
            named.append(_relocated(relocation[1], labels))
        if not is_cast(function):
            for cast in filter(is_cast, named):
                found.casts.setdefault(function, []).append(cast)
    return found


def _relocated(target: str, labels: Sequence[tuple[int, str]]) -> str:
    """The function that a relocation names, by its symbol or by its place in the section."""
    name, _, offset = target.partition("+")
    if not name.startswith(".text"):
        return name.partition("-0x")[0]
    place = int(offset, 16) if offset else 0
    return max(((at, label) for at, label in labels if at <= place), default=(0, ""))[1]
