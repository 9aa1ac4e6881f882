"""The instructions of functions in LLVM IR and in assembly text, of which the checker tells which compute on floats."""

import re
from collections import Counter

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
_MNEMONIC = re.compile(r"^\t(?:(?:lock|rep\w*|data16|notrack) )*([a-z][a-z0-9.]*)")


def in_assembly(text: str) -> dict[str, Counter[str]]:
    """The instructions of each function in assembly text as LLVM writes it."""
    functions = set(re.findall(r'^\t\.type\t"?([^",]+)"?,[@%]function', text, re.MULTILINE))
    found, current = dict[str, Counter[str]](), Counter[str]()
    for line in text.splitlines():
        if (label := _LABEL.match(line)) and label[1] in functions:
            current = found.setdefault(label[1], Counter())
        elif instruction := _MNEMONIC.match(line):
            current[instruction[1]] += 1
    return found
