"""Systems and processors that code is generated for, wherever it is generated: LLVM's names for them, as data.

A system is an architecture and what runs programs on it: Linux, nothing (a microcontroller), or a WebAssembly engine.
Its name is LLVM's triple. A processor is a name that users know, such as `cortex-m4` or `rv64gcv`, for a system, LLVM's
name of the processor, and features.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """An architecture and a system.

    cpu       LLVM's name of the processor whose code every processor of the system runs
    features  features that all processors of the system have beyond those of the name
    bits      the size of an address, and of an index
    hosted    whether programs have a C library and threads; code for others calls nothing
    runtime   whether code has functions for what the processors have no instruction for (runtime.py)
    askable   the features that may be switched on and off; empty for all that LLVM knows. LLVM ends the process at
              features that contradict each other, and calls preferences in generating code features, too
    """

    cpu: str
    features: str = ""
    bits: int = 64
    hosted: bool = False
    runtime: bool = False
    askable: tuple[str, ...] = ()


_ARM = ("dsp", "fp64", "fpregs", "fullfp16", "hwdiv", "lob", "mve", "mve.fp", "strict-align", "thumb2", "vfp4d16sp")
_RISCV = ("m", "a", "f", "d", "c", "v", "zba", "zbb", "zbs", "zicond")

SYSTEMS: Mapping[str, System] = {
    "x86_64-unknown-linux-gnu": System("x86-64", hosted=True),
    "aarch64-unknown-linux-gnu": System("generic", hosted=True),
    "riscv64-unknown-linux-gnu": System("generic-rv64", "+m,+a,+f,+d,+c", hosted=True, askable=_RISCV),
    "riscv32-unknown-elf": System("generic-rv32", "+m,+c", 32, askable=_RISCV),
    "thumbv6m-none-eabi": System("generic", bits=32, runtime=True, askable=("strict-align",)),
    "thumbv7m-none-eabi": System("generic", bits=32, askable=_ARM),
    "thumbv7em-none-eabi": System("generic", bits=32, askable=_ARM),
    "thumbv7em-none-eabihf": System("generic", bits=32, askable=_ARM),
    "thumbv8m.base-none-eabi": System("generic", bits=32, runtime=True, askable=("strict-align",)),
    "thumbv8m.main-none-eabi": System("generic", bits=32, askable=_ARM),
    "thumbv8m.main-none-eabihf": System("generic", bits=32, askable=_ARM),
    "thumbv8.1m.main-none-eabi": System("generic", bits=32, askable=_ARM),
    "thumbv8.1m.main-none-eabihf": System("generic", bits=32, askable=_ARM),
    "wasm32-unknown-unknown": System("generic", bits=32),
}
"""Triple → system. In `eabihf` functions pass floats in registers: a linker wants one or the other in all objects."""

TRIPLES = tuple(SYSTEMS)
"""LLVM's names of architectures and systems that code can be generated for."""


@dataclass(frozen=True)
class Processor:
    """A processor that users name: the triple of its usual system, LLVM's name, and features to switch on."""

    triple: str
    cpu: str
    features: str = ""


PROCESSORS: Mapping[str, Processor] = {
    "x86-64-v2": Processor("x86_64-unknown-linux-gnu", "x86-64-v2"),
    "x86-64-v3": Processor("x86_64-unknown-linux-gnu", "x86-64-v3"),
    "cortex-a53": Processor("aarch64-unknown-linux-gnu", "cortex-a53"),
    "cortex-a72": Processor("aarch64-unknown-linux-gnu", "cortex-a72"),
    "neoverse-n1": Processor("aarch64-unknown-linux-gnu", "neoverse-n1"),
    "cortex-m0": Processor("thumbv6m-none-eabi", "cortex-m0"),
    "cortex-m0plus": Processor("thumbv6m-none-eabi", "cortex-m0plus"),
    "cortex-m3": Processor("thumbv7m-none-eabi", "cortex-m3"),
    "cortex-m33": Processor("thumbv8m.main-none-eabi", "cortex-m33"),
    "cortex-m4": Processor("thumbv7em-none-eabi", "cortex-m4"),
    "cortex-m7": Processor("thumbv7em-none-eabi", "cortex-m7"),
    "cortex-m55": Processor("thumbv8.1m.main-none-eabi", "cortex-m55"),
    "cortex-m85": Processor("thumbv8.1m.main-none-eabi", "cortex-m85"),
    "rv32imc": Processor("riscv32-unknown-elf", "generic-rv32", "+m,+c"),
    "rv64gc": Processor("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c"),
    "rv64gcv": Processor("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v"),
    "wasm32": Processor("wasm32-unknown-unknown", "generic", "+simd128"),
}
"""The name of a processor, which implies its triple → the processor. The tests run code for all of them."""

ALIKE: Mapping[str, Processor] = {
    "cortex-m1": Processor("thumbv6m-none-eabi", "cortex-m1"),
    "cortex-m23": Processor("thumbv8m.base-none-eabi", "cortex-m23"),
    "cortex-m35p": Processor("thumbv8m.main-none-eabi", "cortex-m35p"),
    "cortex-m52": Processor("thumbv8.1m.main-none-eabi", "cortex-m52"),
}
"""More processors that users name, which have the instructions of one of `PROCESSORS`, or few besides."""

NAMED: Mapping[str, Processor] = {**PROCESSORS, **ALIKE}
"""All names that imply a triple."""

OF_NAMES = ("aarch64-unknown-linux-gnu", "x86_64-unknown-linux-gnu", "riscv64-unknown-linux-gnu")
"""The systems whose processors imply their triple by LLVM's names: `cortex-a78`, `znver4`."""

_FAMILIES = ("cortex", "neoverse")


def spelled(text: str, names: Iterable[str]) -> str:
    """Returns the one of some names that a user means by a text: `Cortex-M0+` and `m0plus` are cortex-m0plus.

    Small and capital letters, lines between words and the name of Arm's family make no difference. A text that means
    none of the names, or several, is returned as it is.
    """
    names = list(names)
    if text in names:
        return text
    wanted = _squeezed(text).removeprefix("arm")
    found = {name for name in names if wanted in _spellings(name)}
    return found.pop() if len(found) == 1 else text


def _squeezed(text: str) -> str:
    return re.sub(r"[\s_.-]", "", text.lower()).replace("+", "plus")


def _spellings(name: str) -> set[str]:
    whole = _squeezed(name)
    return {whole, *(whole.removeprefix(family) for family in _FAMILIES)}
