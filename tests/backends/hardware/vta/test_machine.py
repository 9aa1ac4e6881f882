"""The functional model of VTA against what VTA's own design computed, and what it refuses."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.backends.hardware import vta
from qmlir.backends.hardware.vta.instructions import (
    Alu,
    Buffer,
    Finish,
    Gemm,
    InstructionError,
    Load,
    MicroOp,
    Operation,
    Store,
    Unit,
)
from qmlir.backends.hardware.vta.machine import Machine
from qmlir.errors import QmlirError
from tests.backends.hardware.faults import faulty
from tests.backends.hardware.vta.programs import Program, programs

ORDERS = [(), (Unit.LOAD, Unit.COMPUTE), (Unit.COMPUTE,), (Unit.STORE, Unit.COMPUTE)]


@pytest.fixture(scope="module")
def streams(shared: Callable[[str], Path]) -> list[Program]:
    return programs(shared)


def differing(streams: Sequence[Program], machine: Any, first: Sequence[Unit] = ()) -> int:
    """The bytes of memory that differ from those of the design."""
    found = 0
    for program in streams:
        made = machine(program.before.size, 0)  # the design ran as C++, one step after the other
        made.memory[:] = program.before
        made.run(program.words, first)
        found += int((made.memory != program.after).sum())
    return found


@pytest.mark.parametrize("first", ORDERS)
def test_memory_is_that_of_the_design(streams: list[Program], first: Sequence[Unit]) -> None:
    assert len(streams) >= 100
    assert any((program.before != program.after).any() for program in streams)
    assert differing(streams, Machine, first) == 0


FAULTS = {
    "sums saturate": (
        "machine",
        "return x + y",
        "return np.clip(x.astype(np.int64) + y, -(1 << 31), (1 << 31) - 1).astype(np.int32)",
    ),
    "shifts have no sign": ("machine", "((y & 31) ^ 16) - 16", "y & 31"),
    "shifts have four bits": ("machine", "((y & 31) ^ 16) - 16", "((y & 15) ^ 8) - 8"),
    "shifts round": (
        "machine",
        "x >> np.maximum(amount, 0)",
        "(x + (1 << np.maximum(amount, 1) - 1)) >> np.maximum(amount, 0)",
    ),
    "results saturate": (
        "machine",
        "results[to] = sums[to].astype(np.int8)\n\n\ndef _computed",
        "results[to] = sums[to].clip(-128, 127).astype(np.int8)\n\n\ndef _computed",
    ),
    "a reset shows 0": ("machine", "seen = products +", "seen = 0 * products +"),
    "a reset forgets its products only": ("machine", "            sums[to] = 0\n", ""),
    "weights are transposed": ("machine", "@ tile.T", "@ tile"),
    "stores ignore their stride": (
        "machine",
        "np.arange(rows, dtype=np.int64) * each.stride",
        "np.arange(rows, dtype=np.int64) * each.columns",
    ),
    "padding on the left is on the right": (
        "machine",
        "above : above + rows, left : left + each.columns",
        "above : above + rows, right : right + each.columns",
    ),
    "padding above is below": (
        "machine",
        "above : above + rows, left : left",
        "below : below + rows, left : left",
    ),
    "micro-ops add before their loops": (
        "machine",
        "first + i * outer + j * inner",
        "first + i * inner + j * outer",
    ),
    "the last micro-op is left out": ("machine", "[each.first : each.end]", "[each.first : each.end - 1]"),
    "minimum for maximum": ("machine", "return np.maximum(x, y)", "return np.minimum(x, y)"),
    "immediates have no sign": (
        "instructions",
        'Bits("value", 16, signed=True)',
        'Bits("value", 16)',
    ),
    "tokens go the other way": (
        "machine",
        "for other, flag in ((before, each.push_previous), (behind, each.push_next))",
        "for other, flag in ((behind, each.push_previous), (before, each.push_next))",
    ),
    "the inner loop ends early": ("machine", "np.arange(each.inner)", "np.arange(max(each.inner - 1, 1))"),
}
"""What is wrong → the module, a text in it, and what stands there instead."""


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_caught_by_the_streams(streams: list[Program], tmp_path: Path, fault: str) -> None:
    machine = faulty(vta, tmp_path, *FAULTS[fault])("machine").Machine
    try:
        assert differing(streams, machine) > 0
    except QmlirError:
        pass  # the stream does not run at all


# -- what the streams of the design do not have


def run(*stream: Load | Store | Gemm | Alu | Finish, memory: Any = ()) -> Machine:
    machine = Machine(4096)
    machine.memory[: len(memory)] = np.asarray(memory, np.int64).astype(np.uint8)
    machine.run([each.word for each in stream])
    return machine


def test_steps_that_read_what_others_wrote() -> None:
    """Fibonacci's numbers: each step adds the two vectors before it."""
    micro_ops = np.array([MicroOp(2, 0).word, MicroOp(2, 1).word], "<u4").view(np.uint8)
    machine = Machine(4096, 0)
    machine.memory[:8] = micro_ops
    machine.memory[64 : 64 + 128] = np.ones(32, "<i4").view(np.uint8)
    loads = [
        Load(memory=Buffer.MICRO_OPS, columns=2, stride=2),
        Load(memory=Buffer.SUMS, address=1, columns=2, stride=2),
    ]
    add = Alu(operation=Operation.ADD, end=2, outer=9, to_outer=1, from_outer=1)
    machine.run([each.word for each in (*loads, add, Finish())])
    assert machine.buffers[Buffer.SUMS][:11, 0].tolist() == [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    assert machine.buffers[Buffer.RESULTS][2:11, 5].tolist() == [2, 3, 5, 8, 13, 21, 34, 55, 89]


FLIGHTS = {
    "the array adds to one sum": ([Gemm(inner=2, from_inner=1)], "gemm inner=2 .* got sum 0, 1 behind"),
    "a loop comes back early": ([Gemm(inner=15, outer=2, to_inner=1)], "one of the 15 steps .* sum 0, 15 behind"),
    "a sum is raised twice": ([Alu(immediate=1, inner=2)], "alu inner=2 .* got sum 0, 1 behind"),
    "a sum is added early": ([Alu(inner=3, outer=1, to_inner=1, from_inner=1)], None),
    "a sum is added too early": ([Alu(inner=3, to_inner=2, from_inner=1)], "got sum 2, 1 behind"),
    "a loop comes back late": ([Gemm(inner=16, outer=2, to_inner=1)], None),
    "an instruction for each step": ([Gemm(), Gemm(), Alu(immediate=1), Alu(immediate=1)], None),
}
"""What steps do → the instructions, and what the model says of them; None if it carries them out."""


@pytest.mark.parametrize("what", FLIGHTS)
def test_sums_on_their_way(what: str) -> None:
    stream, said = FLIGHTS[what]
    if said is None:
        run(*stream, Finish())
        return
    with pytest.raises(InstructionError, match=said):
        run(*stream, Finish())


@pytest.mark.parametrize("first", ORDERS)
def test_units_that_wait_for_ever(first: Sequence[Unit]) -> None:
    stream = [Load(memory=Buffer.DATA, columns=1, pop_next=1, push_next=1), Finish(pop_previous=1)]
    with pytest.raises(
        InstructionError, match=r"units must not wait .*, got 0: load pop_next=1 .*; 1: finish pop_prev"
    ):
        Machine(64).run([each.word for each in stream], first)


def test_a_token_that_nobody_takes_does_not_count_twice() -> None:
    gemms = [Gemm(pop_previous=1), Gemm(pop_previous=1)]
    load = Load(memory=Buffer.DATA, columns=1, push_next=1)
    with pytest.raises(InstructionError, match="must not wait"):
        run(load, *gemms, Finish())
    run(load, load, *gemms, Finish())


@pytest.mark.parametrize(
    ("each", "said"),
    [
        (
            Load(memory=Buffer.DATA, address=255, columns=2, stride=2),
            "4096 bytes of external memory, got a last byte at",
        ),
        (Store(address=256), "instruction 0, store memory=results address=256: the rectangle must lie in the 4096"),
        (Load(memory=Buffer.DATA, buffer_address=2047, columns=2), "in the 2048 elements of data, got 2048"),
        (Load(memory=Buffer.DATA, buffer_address=2046, right=2), "in the 2048 elements of data, got 2048"),
        (Store(buffer_address=2048), "in the 2048 elements of results, got 2048"),
        (Gemm(outer=2, to_outer=2047, inner=2, to_inner=1), "in the 2048 elements of sums, got 2048"),
        (Gemm(inner=2, from_inner=2047, outer=2, from_outer=1), "in the 2048 elements of data, got 2048"),
        (Gemm(outer=3, weights_outer=512), "in the 1024 elements of weights, got 1024"),
        (Alu(operation=Operation.ADD, outer=3, from_outer=1024), "in the 2048 elements of sums, got 2048"),
        (Gemm(first=8191, end=8193), "in the 8192 elements of micro-ops, got 8192"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
def test_what_leaves_memory(each: Load | Store | Gemm | Alu, said: str) -> None:
    with pytest.raises(InstructionError, match=said):
        run(each, Finish())


@pytest.mark.parametrize("stream", [[], [Gemm()], [Finish(), Gemm()], [Finish(), Finish()]])
def test_streams_without_their_end(stream: list[Gemm | Finish]) -> None:
    with pytest.raises(InstructionError, match="a stream must end with its only finish, got"):
        run(*stream)
