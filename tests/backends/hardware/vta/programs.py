"""What tests of VTA share: streams that its own design ran."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qmlir.numerics import Array


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
