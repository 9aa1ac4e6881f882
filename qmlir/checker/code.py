"""The functions of an object file that compute on floats, from a disassembly.

Registers hold integers and floats alike, so an instruction counts by what it computes: arithmetic, comparisons,
roundings and conversions of floats. The list of these verbs is a list of its own, apart from the compiler's.
"""

import re
import shutil
import subprocess
from pathlib import Path

from qmlir.errors import FileError

CASTS = ("quant_qcast_", "quant_dcast_")
"""What the names of the only functions begin with that may compute on floats."""

_X86 = re.compile(
    r"v?(add|sub|mul|div|sqrt|min|max|cmp\w*|u?comi|round|rndscale|rcp\w*|rsqrt\w*|dp|hadd|hsub|addsub|getexp|getmant|"
    r"range|reduce|scalef|fixupimm|fpclass|fc?n?m(add|sub|ul|addsub|subadd)\w*)([sp][sdh])"
    r"|\w*cvt\w*|\w*bf16\w*|tdpfp16ps|f(?!xsave|xrstor|emms)\w+"
)
_AARCH64 = re.compile(r"f(?!mov)\w+|[su]cvtf|bf(cvt|dot|m)\w*")

_LABEL = re.compile(r"^[0-9a-f]+ <(.+)>:")
_CODE = re.compile(r"^\s+[0-9a-f]+:\s+((?:(?:lock|rep\w*|data16|notrack)\s+)*)([a-z][a-z0-9.]*)")


def float_functions(path: Path) -> tuple[set[str], int]:
    """The functions of an object file that compute on floats, and the number of its instructions.

    Raises:
        FileError: There is no disassembler, or it cannot read the file.
    """
    tool = shutil.which("llvm-objdump") or shutil.which("objdump")
    if tool is None:
        need, remedy = "needs a disassembler to be checked", "install binutils or LLVM"
        raise FileError(path, need, got="neither objdump nor llvm-objdump", remedy=remedy)
    ran = subprocess.run([tool, "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise FileError(path, "must be an object file", got=ran.stderr.strip().splitlines()[-1])
    floats = _AARCH64 if "aarch64" in ran.stdout.lower() else _X86
    found, count, function = set[str](), 0, ""
    for line in ran.stdout.splitlines():
        if label := _LABEL.match(line):
            function = label[1]
        elif code := _CODE.match(line):
            count += 1
            if floats.fullmatch(code[2]):
                found.add(function)
    return found, count
