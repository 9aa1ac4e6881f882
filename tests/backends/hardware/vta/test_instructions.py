"""Instructions of VTA: words and text say the same, and what neither can say is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

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
    assembled,
    disassembled,
    instruction,
    parse,
    text_of,
)
from tests.backends.hardware.vta.programs import programs


def test_streams_are_read_and_written_again(shared: Callable[[str], Path]) -> None:
    """Word, instruction and text of each instruction that the design ran; a store's memory field means nothing."""
    for program in programs(shared):
        text = "\n".join(disassembled(program.words))
        again = assembled(f"; {program.name}\n{text}  ; the last one\n\n")
        fields = [word & ~(7 << 7) if word & 7 == Store.OPCODE else word for word in program.words]
        assert [word & ~(7 << 7) if word & 7 == Store.OPCODE else word for word in again] == fields


def test_fields_lie_where_the_device_reads_them() -> None:
    load = Load(memory=Buffer.SUMS, buffer_address=5, address=9, rows=2, columns=3, stride=4, above=1, right=15)
    assert load.word == 3 << 7 | 5 << 10 | 9 << 26 | 2 << 64 | 3 << 80 | 4 << 96 | 1 << 112 | 15 << 124
    alu = Alu(pop_next=1, first=1, end=2, outer=3, inner=4, operation=Operation.SHIFT, immediate=1, value=-2)
    assert alu.word == 4 | 1 << 4 | 1 << 8 | 2 << 21 | 3 << 35 | 4 << 49 | 3 << 108 | 1 << 111 | 0xFFFE << 112
    gemm = Gemm(reset=1, push_next=1, to_outer=1, from_inner=2, weights_inner=3)
    assert gemm.word == 2 | 1 << 6 | 1 << 7 | 1 << 21 | 1 << 35 | 1 << 49 | 1 << 64 | 2 << 97 | 3 << 118
    assert Finish(pop_previous=1, push_previous=1).word == 3 | 1 << 3 | 1 << 5
    assert MicroOp(3, 5, 7).word == 3 | 5 << 11 | 7 << 22


@pytest.mark.parametrize(
    "each",
    [
        Load(memory=Buffer.MICRO_OPS, columns=3),
        Store(rows=2, stride=7, push_previous=1),
        Gemm(reset=1, inner=9),
        Alu(operation=Operation.MIN, immediate=1, value=-32768),
        Finish(pop_next=1),
    ],
    ids=lambda each: each.name,
)
def test_text_is_read_again(each: Load | Store | Gemm | Alu | Finish) -> None:
    assert parse(text_of(each)) == instruction(each.word) == each


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lode memory=data", "must be an instruction, got lode; did you mean load?"),
        ("load memory=dater", "memory must be one of micro_ops, weights, data, sums, results, got dater"),
        ("load rows=1", "load must name its memory"),
        ("gemm rows=1", "gemm must have fields of its own, got rows"),
        ("gemm inner=many", "inner must be an integer, got many"),
        ("gemm inner=16384", "gemm: inner must be from 0 to 16383, got 16384"),
        ("alu operation=add value=32768", "alu: value must be from -32768 to 32767, got 32768"),
    ],
)
def test_lines_that_are_no_instruction(line: str, said: str) -> None:
    with pytest.raises(InstructionError, match=said.replace("?", r"\?")):
        assembled(f"finish\n{line}")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (7, "opcode must be from 0 to 4, got 7"),
        (0 | 5 << 7, "load: buffer must be from 0 to 4, got 5"),
        (4 | 4 << 108, "alu: operation must be from 0 to 3, got 4"),
    ],
)
def test_words_that_are_no_instruction(word: int, said: str) -> None:
    with pytest.raises(InstructionError, match=said):
        instruction(word)


def test_micro_ops_that_do_not_fit() -> None:
    with pytest.raises(InstructionError, match="micro-op: weights must be from 0 to 1023, got 1024"):
        _ = MicroOp(0, 0, 1024).word
