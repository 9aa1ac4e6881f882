"""What tests of VTA share: streams that its own design ran, and copies of its package with a fault."""

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import ModuleType

import numpy as np

from qmlir.backends.hardware import vta
from qmlir.numerics import Array

PACKAGE = Path(vta.__file__).parent

_copies = count()


@dataclass(frozen=True)
class Program:
    """A stream, the memory before, and what the design made of it."""

    name: str
    words: list[int]
    before: Array
    after: Array


def programs(shared: Callable[[str], Path]) -> list[Program]:
    """The streams of $QMLIR_SHARED/conformance/vta."""
    with np.load(shared("conformance/vta/programs.npz")) as file:
        held = dict(file)

    def part(name: str, n: int) -> Array:
        at = held[f"{name}_at"]
        return held[name][at[n] : at[n + 1]]

    def each() -> Iterator[Program]:
        for n, name in enumerate(held["name"]):
            before, written, low = part("mem", n), part("out", n), held["out_lo"][n]
            after = before.copy()
            after[low : low + written.size] = written
            words = [int(first) | int(second) << 64 for first, second in part("insn", n)]
            yield Program(str(name), words, before, after)

    return list(each())


def faulty(folder: Path, file: str, old: str, new: str) -> Callable[[str], ModuleType]:
    """Imports modules of a copy of the package, in one of whose files a text, which it has once, is another."""
    name = f"faulty_vta_{next(_copies)}"
    (folder / name).mkdir()
    for path in PACKAGE.glob("*.py"):
        text = path.read_text("utf-8")
        if path.name == file:
            assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
            text = text.replace(old, new)
        text = text.replace("qmlir.backends.hardware.vta", name)
        (folder / name / path.name).write_text(text, "utf-8")
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()

    def imported(module: str) -> ModuleType:
        return importlib.import_module(f"{name}.{module}")

    return imported
