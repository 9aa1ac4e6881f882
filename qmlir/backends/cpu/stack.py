"""The most bytes of stack that a call of generated code takes, from its assembly text.

The code calls its own functions, by name, without recursion, and each function moves the stack pointer by numbers that
stand in its instructions. So the bytes of a function at each of its calls, and the most that it takes, are known
(`_walk`). A call of the network takes the largest sum along a path of calls (`stack_bytes`). Functions of a C library,
such as memset on Linux, are not counted.

    main:  push {r4, r5, lr}        12            kernel:  push {r4, lr}          8
           sub  sp, #20             32                     bl   memcpy
           bl   kernel              32 + 8                 pop  {r4, pc}

Frames of vectors whose length the processor chooses (RISC-V's V) have no size that is known here.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class _Function:
    """A function's instructions, and the numbers of those that its labels stand before."""

    lines: list[str] = field(default_factory=list[str])
    labels: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class _Frame:
    """The most bytes that a function takes, and the bytes at each of its calls, by the function called."""

    most: int
    calls: dict[str, int]


class _Unknown(Exception):
    """Raised for an instruction that moves the stack pointer by a number that is not known."""


def stack_bytes(assembly: str, entry: str) -> int | None:
    """Returns the most bytes of stack that a call of `entry` takes; None if its frames have no known size."""
    functions = _functions(assembly)
    on_entry = 8 if "%rsp" in assembly else 0  # the address to return to
    found: dict[str, int] = {}

    def bytes_of(name: str) -> int:
        if name not in found:
            frame = _walk(functions[name])
            called = [at + bytes_of(other) for other, at in frame.calls.items() if other in functions]
            found[name] = on_entry + max([frame.most, *called])
        return found[name]

    try:
        return bytes_of(entry)
    except _Unknown:
        return None


def called_outside(assembly: str) -> set[str]:
    """Returns the functions that a text calls and does not define."""
    functions = _functions(assembly)
    return {
        _name(rest)
        for function in functions.values()
        for name, _, rest in (line.partition(" ") for line in function.lines)
        if name in (*CALLS, *JUMPS) and rest not in function.labels and not rest.startswith("*")
    } - functions.keys()


def _functions(assembly: str) -> Mapping[str, _Function]:
    """Returns the functions of a text; labels that begin with a point or a digit belong to the function they are in."""
    found: dict[str, _Function] = {}
    current = _Function()
    for text in assembly.splitlines():
        line = re.sub(r"(?<!\S)(@|//|#(?!\d|-)).*", "", text).strip()
        if label := re.match(r'^"?([^\s":]+)"?:', line):
            if not label[1].startswith((".", "$")):
                found[label[1]] = current = _Function()
            current.labels[label[1]] = len(current.lines)
        elif line and not line.startswith("."):
            current.lines.append(" ".join(line.split()))
    return found


def _walk(function: _Function) -> _Frame:
    """Follows the jumps of a function from its beginning."""
    frame, seen = _Frame(0, {}), dict[int, int]()
    waiting = [(0, 0)]
    while waiting:
        at, depth = waiting.pop()
        pending = _Pending()
        while at < len(function.lines) and seen.get(at, -1) < depth:
            seen[at] = depth
            line = function.lines[at]
            name, _, rest = line.partition(" ")
            depth += pending.moved(name, rest)
            frame.most = max(frame.most, depth)
            if (target := _called(name, rest)) is not None:
                frame.calls[target] = max(frame.calls.get(target, 0), depth)
            elif _leaves(name, rest):
                break
            elif (label := re.split(r"[\s,]+", rest)[-1]) in function.labels and name not in ("adr", "la", "lea"):
                waiting.append((function.labels[label], depth))
                if name in JUMPS:
                    break
            elif name in JUMPS:  # to another function, in place of a call
                frame.calls[_name(rest)] = max(frame.calls.get(_name(rest), 0), depth)
                break
            at += 1
    return frame


JUMPS = ("jmp", "b", "b.w", "j", "tail")
RETURNS = ("ret", "retq", "bx", "return", "end_function")
CALLS = ("callq", "call", "bl", "jal")
INDIRECT = ("blx", "blr", "jalr", "call_indirect")


def _called(name: str, rest: str) -> str | None:
    """Returns the function that an instruction calls, if it is a call."""
    if name in INDIRECT or (name in CALLS and rest.startswith("*")):
        raise _Unknown
    return _name(rest) if name in CALLS else None


def _name(operands: str) -> str:
    """Returns the function that a call or a jump names."""
    return operands.split(",")[-1].split("@")[0].strip(' "')


def _leaves(name: str, rest: str) -> bool:
    return name in RETURNS or (name.startswith("pop") and "pc" in rest) or (name.startswith("ldm") and "pc" in rest)


class _Pending:
    """What a walk knows of addresses that are computed from the stack pointer before they are moved to it."""

    def __init__(self) -> None:
        self.below: dict[str, int] = {}
        self.constants: Sequence[int] = ()
        self.pointer = False

    def moved(self, name: str, rest: str) -> int:
        """Returns the bytes by which an instruction of any architecture makes the stack grow."""
        if "__stack_pointer" in rest or name.startswith(("i32.", "i64.", "local.", "global.")):
            return self._wasm(name, rest)
        if name.startswith("push"):
            return 8 if "%" in rest or "$" in rest else 4 * _registers(rest)
        if name.startswith("pop"):
            return -8 if "%" in rest else -4 * _registers(rest)
        if name in ("vpush", "vpop"):
            return (1 if name == "vpush" else -1) * _registers(rest) * (8 if "d" in rest else 4)
        if name.startswith("stmdb") and rest.startswith("sp!"):
            return 4 * _registers(rest)
        if name.startswith("ldm") and rest.startswith("sp!"):
            return -4 * _registers(rest)
        if indexed := re.search(r"\[sp, #(-\d+)\]!", rest):
            return -int(indexed[1])
        if indexed := re.search(r"\[sp\], #(\d+)", rest):
            return -int(indexed[1])
        if x86 := re.fullmatch(r"\$(-?\d+), %rsp", rest):
            return _x86(name, int(x86[1]))
        if x86 := re.fullmatch(r"(-?\d*)\(%rsp\), %rsp", rest):
            return -int(x86[1] or 0)
        return self._others(name, rest)

    def _others(self, name: str, rest: str) -> int:
        """Additions and subtractions as Arm and RISC-V write them."""
        operands = [part.strip() for part in rest.split(",")]
        kind = name.split(".")[0].rstrip("w") if name not in ("addiw",) else name
        number = next((int(p.lstrip("#")) for p in operands[1:] if re.fullmatch(r"#?-?\d+", p)), None)
        if "lsl #12" in rest and number is not None:
            number <<= 12
        sign = {"sub": 1, "add": -1, "addi": -1, "subs": 1, "adds": -1}.get(kind)
        if (
            sign is not None
            and operands[0] != "sp"
            and len(operands) > 2
            and operands[1] == "sp"
            and number is not None
        ):
            self.below[operands[0]] = sign * number
        if kind == "bfc" and number is not None and operands[0] in self.below:
            self.below[operands[0]] += (1 << int(operands[2].lstrip("#"))) - 1
        if kind == "mov" and len(operands) == 2 and operands[1] == "sp":
            self.below[operands[0]] = 0
        if operands[0] != "sp" or name.startswith(("st", "cmp", "sw", "sd")):
            return 0
        if kind == "mov" or (sign is not None and number is not None and len(operands) > 2 and operands[1] != "sp"):
            return max(0, self.below.get(operands[1], 0))  # of a frame that is aligned, or the frame pointer again
        if kind in ("and", "andi"):
            mask = int(operands[-1].lstrip("#"), 0)
            alignment = (1 << 64) - mask if mask > 0 else -mask
            return alignment - 1 + self.below.get(operands[1], 0)
        if sign is not None and number is not None:
            return sign * number
        if sign is not None or kind in ("ldr", "lw", "ld"):
            raise _Unknown
        return 0

    def _wasm(self, name: str, rest: str) -> int:
        """`global.get __stack_pointer`, `i32.const N`, `i32.sub`; the engine's own stack is none of the memory's."""
        if name == "global.get":
            self.pointer, self.constants = "__stack_pointer" in rest, ()
        elif name in ("i32.const", "i64.const"):
            number = re.fullmatch(r"-?\d+", rest)  # else the address of an array, which is no size of a frame
            self.constants = (*self.constants, int(rest)) if number else ()
            self.pointer = self.pointer and number is not None
        elif name == "i32.sub" and self.pointer and len(self.constants) == 1:
            (size,), self.constants = self.constants, ()
            return size
        elif name == "i32.and" and self.pointer and len(self.constants) == 1:  # of a frame that is aligned
            return -self.constants[0] - 1
        else:
            self.pointer = self.pointer and name == "local.tee"
        return 0


def _x86(name: str, number: int) -> int:
    match name:
        case "subq":
            return number
        case "addq":
            return -number
        case "andq":
            return -number - 1
        case _:
            return 0


def _registers(text: str) -> int:
    """The number of registers in a list: `{r4, r5, lr}`, `{d8-d15}`."""
    listed = re.search(r"\{(.*?)\}", text)
    count = 0
    for part in (listed[1] if listed else text).split(","):
        first, _, last = part.strip().partition("-")
        count += int(last[1:]) - int(first[1:]) + 1 if last else bool(first)
    return count
