"""The functional model of Gemmini: programs that another model ran, faults that they catch, and refusals."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from qmlir.backends.hardware import gemmini
from qmlir.backends.hardware.gemmini.machine import Machine
from qmlir.backends.hardware.gemmini.words import (
    ACCUMULATOR,
    ADD,
    NOTHING,
    Command,
    Configured,
    Function,
    InstructionError,
    command,
)
from tests.backends.hardware.faults import faulty


class Program(NamedTuple):
    """A program with memory before and after."""

    name: str
    kind: str
    commands: Any
    before: Any
    after: Any


@pytest.fixture(scope="module")
def programs(shared: Callable[[str], Path]) -> list[Program]:
    with np.load(shared("conformance/gemmini/programs.npz")) as file:
        held = {name: file[name] for name in file.files}

    def part(name: str, at: str, n: int) -> Any:
        return held[name][held[at][n] : held[at][n + 1]]

    found = list[Program]()
    for n, name in enumerate(held["name"]):
        before, written, first = part("mem", "mem_at", n), part("out", "out_at", n), held["out_lo"][n]
        after = before.copy()
        after[first : first + written.size] = written
        found.append(
            Program(str(name), json.loads(str(held["meta"][n]))["kind"], part("insn", "insn_at", n), before, after)
        )
    return found


def differing(programs: list[Program], made: Callable[[Any], Any]) -> Iterator[str]:
    """The names of programs after which memory differs, or that the machine refuses."""
    for program in programs:
        memory = program.before.copy()
        try:
            made(memory).run(program.commands)
        except Exception:  # a planted fault may leave arrays
            yield program.name
            continue
        if (memory != program.after).any():
            yield program.name


def test_the_model_computes_every_program(programs: list[Program]) -> None:
    assert len(programs) == 300
    assert sum(int((program.before != program.after).sum()) for program in programs) > 100_000
    assert list(differing(programs, Machine)) == []


def test_words_one_after_the_other_are_the_same_program(programs: list[Program]) -> None:
    program = next(p for p in programs if p.kind == "loop_ws")
    memory = program.before.copy()
    Machine(memory).run_words([int(word) for row in program.commands for word in row])
    assert (memory == program.after).all()


PLANTED = {
    "a field one bit too low": ("words", '"block_stride": Field(0, 16, 16)', '"block_stride": Field(0, 15, 16)'),
    "padding above and left exchanged": ("words", '"above": Field(1, 32, 16)', '"above": Field(1, 16, 8)'),
    "halves away from zero": ("arithmetic", "np.rint(product)", "np.trunc(product + np.copysign(0.5, product))"),
    "shifted halves up": ("arithmetic", "- 1 + (wide >> shift & 1)", ""),
    "products in double precision": ("arithmetic", "values.astype(np.float32) * np.float32(scale)",
                                     "values.astype(np.float64) * scale"),
    "padding of pools below all": ("array", "np.int8(0)))", "np.int8(-128)))"),
    "ReLU before the scale": ("array", "return np.maximum(values, 0) if self.outward.relu else values",
                              "return np.maximum(values, -1) if self.outward.relu else values"),
    "moves that overwrite sums": ("array", "held += values.astype(np.int32)", "held[:] = values"),
    "blocks at 16 rows": ("array", "block * way.block_stride, part", "block * DIM, part"),
    "pixels without a step back": ("array", "base + skipped - pixel", "base + skipped"),
    "weights that stay are not transposed": ("array", "own.weights_stay and own.transpose_b", "False"),
    "sums forget the array's last ones": ("array", "self.held = self.held + a @", "self.held = 0 * self.held + a @"),
    "one half for all convolutions": ("loops", "halves[1] ^ ACCUMULATOR_ROWS // 2", "halves[1]"),
    "rows that a stride skips are left out": ("loops", 'results * self.v["stride"] + reach - 1',
                                              '(results - 1) * self.v["stride"] + reach'),
    "taps that are never turned": ("loops", 'v["kernel_rows"] - y - 1 if v["rotated"] else y', "y"),
    "one weight for all taps of a channel": ("loops", "offset = tap\n", "offset = 0\n"),
    "dilated taps side by side": ("loops", 'x * v["dilation"] + self.spread', "x + self.spread"),
    "an addition of unscaled operands": ("array", "if not wide and way.scale != 1:", "if not sums and way.scale != 1:"),
}  # fmt: skip
"""Faults: the module, its text, and what stands there instead."""


@pytest.mark.parametrize("fault", PLANTED)
def test_programs_catch_each_fault(programs: list[Program], tmp_path: Path, fault: str) -> None:
    machine = faulty(gemmini, tmp_path, *PLANTED[fault])("machine")
    assert next(differing(programs, machine.Machine), None) is not None


def test_a_machine_without_a_fault_passes(programs: list[Program], tmp_path: Path) -> None:
    machine = faulty(gemmini, tmp_path, "words", "class Field", "class Field")("machine")
    assert list(differing(programs, machine.Machine)) == []


STAYS = command(Configured.EXECUTE, weights_stay=1, a_stride=1, c_stride=1)
IN = command(Configured.IN, block_stride=16, stride=16, scale=0x3F800000)


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        ([(99, 0, 0)], "command 0: must be a function that Gemmini has, got function 99"),
        ([(0, 3, 0)], "must configure the array or a move, got a normalization"),
        ([STAYS, command(Configured.EXECUTE, transpose_b=1)], "command 1: .* transpose what it can where outputs stay"),
        ([command(Configured.EXECUTE, weights_stay=1, transpose_a=1, transpose_b=1)], "where weights stay"),
        ([command(Configured.EXECUTE, shift=32)], "shifted by at most 31 bits, got 32"),
        ([command(Configured.OUT, activation=2)], "activation must be none or ReLU, got activation 2"),
        ([command(Configured.IN, which=3)], "three moves in, got number 3"),
        ([command(Configured.OUT, scale=0x7F800000)], "a scale must be a finite number, got the bits 0x7f800000"),
        ([IN, command(Function.MOVE_IN, address=250, local_rows=1, local_columns=16)], "in the 256 bytes of memory"),
        (
            [IN, command(Function.MOVE_IN, address=16, local=16380, local_rows=5, local_columns=1)],
            "16384 of the scratch",
        ),
        ([IN, command(Function.MOVE_IN, local=ACCUMULATOR + 1024, local_rows=1, local_columns=1)], "1024 of the accum"),
        (
            [command(Configured.IN, pixels=3), command(Function.MOVE_IN, local_rows=1, local_columns=6)],
            "16 channels, got 18",
        ),
        ([command(Function.MOVE_OUT, local=ACCUMULATOR | 1 << 26)], "without a normalization"),
        (
            [STAYS, command(Function.COMPUTE, a=NOTHING, a_rows=1, a_columns=1)],
            "must be a matrix, got the address for no",
        ),
        (
            [STAYS, command(Function.COMPUTE, a=ADD, a_rows=1, a_columns=1)],
            "must lie in the scratchpad, got 0x40000000",
        ),
        ([STAYS, command(Function.COMPUTE, a=0, a_rows=17, a_columns=1)], "at most 16 rows and columns, got A 17x1"),
        ([command(Function.LOOP)], "all its commands before it, got none of function 9"),
        ([command(Function.CONV)], "all its commands before it, got none of function 16"),
    ],
)
def test_what_the_model_refuses(commands: list[Command], said: str) -> None:
    with pytest.raises(InstructionError, match=said):
        Machine(np.zeros(256, np.uint8)).run(commands)


LOOP = [command(Function(kind)) for kind in range(Function.LOOP_AB, Function.LOOP_DC_STRIDES + 1)]
CONV = [command(Function(kind)) for kind in range(Function.CONV_1, Function.CONV_6 + 1)]


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        (
            [STAYS, command(Function.LOOP_SIZES, i=1, j=33, k=1), *LOOP, command(Function.LOOP)],
            "one half .* got 1x33x1",
        ),
        ([command(Function.LOOP_SIZES, i=1, j=1, k=1), *LOOP, command(Function.LOOP)], "weights must stay for a loop"),
        ([*CONV, command(Function.CONV)], "weights must stay for a loop"),
        ([STAYS, command(Function.CONV_1, stride=2), *CONV[1:], command(Function.CONV, spread=1)], "stride 1, got 2"),
        (
            [STAYS, *CONV[:4], command(Function.CONV_5, output=1), CONV[5], command(Function.CONV)],
            "stride of a pool must",
        ),
    ],
)
def test_what_loops_refuse(commands: list[Command], said: str) -> None:
    with pytest.raises(InstructionError, match=said):
        Machine(np.zeros(256, np.uint8)).run(commands)


def test_a_program_of_incomplete_commands() -> None:
    with pytest.raises(InstructionError, match="three words each, got 4 words"):
        Machine(np.zeros(16, np.uint8)).run_words([0, 2, 0, 0])
