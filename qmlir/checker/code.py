"""The functions of an object file that compute on floats, from a disassembly.

Registers hold integers and floats alike, so an instruction counts by what it computes: arithmetic, comparisons,
roundings and conversions of floats. The list of these verbs is a list of its own, apart from the compiler's.

The casts at a network's entry and exit are told from casts between its integers by their order: behind the first
kernel that dequantizes, none may quantize. So the floats that are quantized are inputs, and the floats that integers
become are read by nothing but the caller.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qmlir.errors import FileError

ENTERING, LEAVING = "quant_qcast_", "quant_dcast_"
"""What the names of the only functions begin with that may compute on floats."""

_X86 = re.compile(
    r"v?(add|sub|mul|div|sqrt|min|max|cmp\w*|u?comi|round|rndscale|rcp\w*|rsqrt\w*|dp|hadd|hsub|addsub|getexp|getmant|"
    r"range|reduce|scalef|fixupimm|fpclass|fc?n?m(add|sub|ul|addsub|subadd)\w*)([sp][sdh])"
    r"|\w*cvt\w*|\w*bf16\w*|tdpfp16ps|f(?!xsave|xrstor|emms)\w+"
)
_AARCH64 = re.compile(r"f(?!mov)\w+|[su]cvtf|bf(cvt|dot|m)\w*")

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
    return function.removeprefix("main_").startswith((ENTERING, LEAVING))


def _enters(function: str) -> bool:
    return function.removeprefix("main_").startswith(ENTERING)


@dataclass
class Code:
    """What an object file computes on floats.

    floats        the functions that compute on floats
    instructions  the number of its instructions
    casts         function that is no cast → the casts that it refers to, by address
    backwards     the functions that branch to an address before
    """

    floats: set[str] = field(default_factory=set[str])
    instructions: int = 0
    casts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    backwards: set[str] = field(default_factory=set[str])

    def wrong(self) -> Iterator[str]:
        """Yields what an object of a network that computes on integers only does not have."""
        for function in sorted(f for f in self.floats if not is_cast(f)):
            yield f"function {function} computes on floats"
        if len(self.casts) > 1:
            yield f"casts called from the functions {', '.join(sorted(self.casts))}"
        for function, kernels in self.casts.items():
            if function in self.backwards:
                yield f"casts in a loop of function {function}"
            entering = [_enters(kernel) for kernel in kernels]
            if sorted(entering, reverse=True) != entering:
                yield f"function {function} quantizes floats behind a cast of integers to floats"


def read_code(path: Path) -> Code:
    """Disassembles an object file.

    Raises:
        FileError: There is no disassembler, or it cannot read the file.
    """
    names = ("llvm-objdump", "objdump", "aarch64-linux-gnu-objdump", "x86_64-linux-gnu-objdump")
    tools = [tool for name in names if (tool := shutil.which(name)) is not None]
    if not tools:
        need, remedy = "needs a disassembler to be checked", "install binutils or LLVM"
        raise FileError(path, need, got="neither objdump nor llvm-objdump", remedy=remedy)
    said = "another file"
    for tool in tools:
        command = [tool, "-d", "-r", "--no-show-raw-insn", str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if not ran.returncode and any(each in ran.stdout for each in ("x86-64", "aarch64")):
            return _code(ran.stdout.splitlines(), _AARCH64 if "aarch64" in ran.stdout else _X86)
        said = (ran.stderr.strip().splitlines() or [said])[-1]
    raise FileError(path, "must be an object file", got=said)


def _code(lines: Sequence[str], floats: "re.Pattern[str]") -> Code:
    labels = [(int(label[1], 16), label[2]) for line in lines if (label := _LABEL.match(line))]
    found, function, first = Code(), "", 0
    for line in lines:
        named: list[str] = []
        if label := _LABEL.match(line):
            first, function = int(label[1], 16), label[2]
        elif code := _CODE.match(line):
            found.instructions += 1
            if floats.fullmatch(code[2]):
                found.floats.add(function)
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
