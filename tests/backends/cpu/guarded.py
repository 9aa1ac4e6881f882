"""Runs networks whose memory lies between pages without access: `python -m tests.backends.cpu.guarded KIND FIRST LAST`.

Weights, arena, each input and each output are regions of their own. A region ends where a page without access begins,
so that an access to one byte behind it is a fault; or it begins where such a page ends, and one byte before it is.
Inputs and weights are read-only during the call. Weights and arena are aligned to 64 bytes, as the code may demand, and
their sizes are multiples of that; inputs and outputs end at any byte, and so begin unaligned if their sizes are odd.
What remains of a region's pages is filled with a pattern, which has to be there after the call, too.

The process prints a line before each run and `done` at the end: whoever started it learns from its last line which
network faulted.
"""

import ctypes
import faulthandler
import mmap
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue

import qmlir
from qmlir.backends.cpu.jit import Executable
from qmlir.compiler import to_integers
from qmlir.dialects import nn
from qmlir.errors import QmlirError
from qmlir.ir.arena import CACHE_LINE
from qmlir.ir.types import element_type_of
from qmlir.numerics import Array
from qmlir.running.machine_code import to_machine_code
from tests import graphs
from tests.lowering.both import network
from tests.lowering.qint_to_loops import (
    test_random_convolutions,
    test_random_depthwise,
    test_random_elementwise,
    test_random_matrices,
    test_random_pools,
)
from tests.lowering.qint_to_loops.random_layers import Layer, network_of
from tests.ops.samples import SAMPLES
from tests.ops.test_lowerings import NOT_RUN

# ---------------------------------------------------------------------------------------------------------------
# Regions

NO_ACCESS, READ, WRITE = 0, 1, 2
"""PROT_NONE, PROT_READ and PROT_WRITE, which are the same numbers on all systems that have mprotect."""


def _protect(address: int, size: int, access: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), ctypes.c_int(access)):
        raise OSError(ctypes.get_errno(), "mprotect")


@dataclass
class Region:
    """Some bytes beside a page without access.

    size     in bytes
    at_end   whether the page follows the bytes; else it precedes them
    align    the alignment of the first byte; a page that follows is as near as that permits
    fill     the byte that the bytes, and the rest of their pages, hold at first
    """

    size: int
    at_end: bool
    align: int = 1
    fill: int = 0xA5
    _pages: mmap.mmap = field(init=False)

    def __post_init__(self):
        inner = max(1, -(-self.size // mmap.PAGESIZE)) * mmap.PAGESIZE
        self._pages = mmap.mmap(-1, inner + 2 * mmap.PAGESIZE)
        whole = np.frombuffer(self._pages, np.uint8)
        self._inner = whole[mmap.PAGESIZE : mmap.PAGESIZE + inner]
        self._inner[:] = self.fill
        self._start = (inner - self.size) // self.align * self.align if self.at_end else 0
        for page in (whole.ctypes.data, whole.ctypes.data + mmap.PAGESIZE + inner):
            _protect(page, mmap.PAGESIZE, NO_ACCESS)

    @property
    def bytes(self) -> Array:
        """The bytes themselves, uint8."""
        return self._inner[self._start : self._start + self.size]

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return self._inner.ctypes.data + self._start

    def hold(self, data: Array) -> "Region":
        """Copies an array's bytes into the region, which nobody may write from then on."""
        self.bytes[:] = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        _protect(self._inner.ctypes.data, self._inner.size, READ)
        return self

    def rest_is_whole(self) -> bool:
        """Whether what remains of the pages is as it was."""
        before, after = self._inner[: self._start], self._inner[self._start + self.size :]
        return bool((before == self.fill).all() and (after == self.fill).all())


def run_guarded(executable: Executable, inputs: Sequence[Array], *, at_end: bool, fill: int) -> list[Array]:
    """The outputs of a network whose memory is guarded on one side.

    Args:
        executable: The network.
        inputs: Its inputs in order.
        at_end: Whether a page without access follows each region; else it precedes each.
        fill: The byte that the arena and the outputs hold before the call.
    """
    assert executable.weights.nbytes % CACHE_LINE == executable.sizes.arena % CACHE_LINE == 0, (
        "ends before its page does"
    )
    weights = Region(executable.weights.nbytes, at_end, CACHE_LINE).hold(executable.weights)
    arena = Region(executable.sizes.arena, at_end, CACHE_LINE, fill)
    given = [Region(x.nbytes, at_end).hold(x) for x in inputs]
    specs = executable.signature.outputs
    results = [Region(int(np.prod(s.shape)) * s.dtype.itemsize, at_end, fill=fill) for s in specs]
    tables = [(ctypes.c_void_p * len(each))(*(region.address for region in each)) for each in (given, results)]
    executable._function(weights.address, arena.address, *tables)
    assert all(region.rest_is_whole() for region in (weights, arena, *given, *results)), "wrote beside a region"
    return [r.bytes.copy().view(s.dtype).reshape(s.shape) for r, s in zip(results, specs, strict=True)]


# ---------------------------------------------------------------------------------------------------------------
# Networks


@dataclass(frozen=True)
class Case:
    """A network, its inputs in order, and what it is called."""

    name: str
    module: ModuleOp
    inputs: Sequence[Array]


FAMILIES: Sequence[Callable[[np.random.Generator], Layer]] = (
    test_random_convolutions.draw,
    test_random_depthwise.draw,
    test_random_matrices.draw,
    test_random_pools.draw,
    test_random_elementwise.draw,
)


def layer(number: int) -> Iterator[Case]:
    """A random layer of integers; the families take turns."""
    drawn = FAMILIES[number % len(FAMILIES)](np.random.default_rng([1, number]))
    yield Case(f"layer {number}: {drawn.drawn}", network_of([drawn]), drawn.inputs)


RUN = [sample for sample in SAMPLES if str(sample) not in NOT_RUN]


def operation(number: int) -> Iterator[Case]:
    """A sample of an operation of nn or qint."""
    sample = RUN[number]
    arrays = sample.arrays(3)
    inputs, constants = arrays[: sample.inputs], arrays[sample.inputs :]

    def graph(*values: SSAValue) -> SSAValue:
        return sample.build([*values, *(nn.ConstantOp(c).y for c in constants)]).results[0]

    types = [TensorType(element_type_of(x.dtype), x.shape) for x in inputs]
    yield Case(f"operation {number}: {sample}", network(graph, *types), inputs)


def random_network(number: int) -> Iterator[Case]:
    """A random float network of up to eight steps, and its forms of 8 and of 16 bits where these can be made."""
    drawn = graphs.network(np.random.default_rng([2, number]))
    yield Case(f"network {number}", drawn.module, drawn.samples[0])
    for precision in ("int8", "int16"):
        with suppress(QmlirError):
            quantized = qmlir.quantize(drawn.observed(simplified=True), precision=precision)
            yield Case(f"network {number}, {precision}", to_integers(quantized), drawn.samples[0])


KINDS: dict[str, Callable[[int], Iterator[Case]]] = {
    "layer": layer,
    "operation": operation,
    "network": random_network,
}


def file(path: str) -> Iterator[Case]:
    """The network of a model file, on random inputs."""
    module = to_integers(qmlir.load(path))
    rng = np.random.default_rng(0)
    specs = qmlir.reference(module).signature.inputs
    yield Case(path, module, [_random(rng, spec.shape, spec.dtype) for spec in specs])


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Array:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def bits(arrays: Sequence[Array]) -> list[bytes]:
    """The bytes of arrays."""
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


def hold(case: Case) -> None:
    """Asserts that a network gives the same bits between guards, whatever the arena holds, as anywhere."""
    executable = to_machine_code(case.module.clone())
    found: list[list[bytes]] = []
    for at_end, fill in ((True, 0xA5), (False, 0xFF)):
        sys.stdout.write(f"{case.name}, guarded {'behind' if at_end else 'before'}\n")
        sys.stdout.flush()
        found.append(bits(run_guarded(executable, case.inputs, at_end=at_end, fill=fill)))
    expected = bits(executable.run_in_order(case.inputs))
    assert found == [expected, expected], "the bits are not those of unguarded memory"


def main() -> None:
    """Runs the cases of a kind from one number to before another, or those of a file."""
    faulthandler.enable()
    kind, *rest = sys.argv[1:]
    cases = file(rest[0]) if kind == "file" else (c for n in range(*map(int, rest)) for c in KINDS[kind](n))
    with np.errstate(all="ignore"):
        for case in cases:
            hold(case)
    sys.stdout.write("done\n")


if __name__ == "__main__":
    main()
