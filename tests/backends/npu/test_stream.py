"""Programs as text and as files: both ways, and no damage goes unnoticed."""

from dataclasses import fields, replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.backends.npu.execute import Simulator
from qmlir.backends.npu.stream import Kept, Named, Port, Program, Routine, assemble, disassemble
from qmlir.errors import FileError
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import BY_OP, COMMANDS, Convolve, End, Sync, decode, encode
from qmlir.isa.encoding import Command, Place, Signed, StreamError, Wait, field_kinds
from tests.backends.npu.damage import outcomes
from tests.backends.npu.programs import DEVICE, Layer, image
from tests.conftest import THOROUGH

END = End(1, (), 0, 0)


def drawn(command: type[Command], rng: np.random.Generator) -> Command:
    """A command with numbers of all magnitudes."""

    def value(kind: Any) -> Any:
        if kind is Place:
            return Place(int(rng.integers(0, 4)), int(rng.integers(0, 1 << 28)))
        if isinstance(kind, type) and issubclass(kind, IntEnum):
            return kind(int(rng.integers(0, len(kind))))
        low, high = (-(1 << 31), 1 << 31) if kind is Signed else (0, 1 << 32)
        return int(rng.integers(low, high)) >> int(rng.integers(0, 32))

    return command(int(rng.integers(0, 4)), (), int(rng.integers(0, 16)), *map(value, field_kinds(command).values()))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_both_ways(command: type[Command]) -> None:
    rng = np.random.default_rng(command.OP)
    for _ in range(20):
        first = Sync(2, (), 0, 0)
        made = drawn(command, rng)
        waiting = command(made.queue, (Wait(2, 1),), made.ctx, *(getattr(made, f.name) for f in fields(made)[3:]))
        program = [first, waiting] if command is End else [first, waiting, END]
        assert decode(encode(program)) == program
        assert assemble(disassemble(program, DEVICE), DEVICE) == program


def test_operation_codes_are_different() -> None:
    assert len(BY_OP) == len(COMMANDS)


BROKEN = [
    ([0xFF | 1 << 8], "must be a known one, got op 0xff"),
    ([End.OP | 9 << 8, 0], "must lie whole in the stream, got 2 left"),
    ([End.OP | 1 << 8], "End needs 1 words after its waits, got 0"),
    ([End.OP | 2 << 8 | 1 << 26, 0], "reserved bits"),
    ([Sync.OP | 2 << 8, 0], "must end with the command End"),
    ([*END.words(), *END.words()], "nothing may follow the end"),
    ([Sync.OP | 3 << 8 | 1 << 24, 2 << 28 | 1, 0, *END.words()], "may wait for earlier ones only"),
    ([0x10, 0], "must lie whole"),
]


@pytest.mark.parametrize(("words", "message"), BROKEN)
def test_words_that_are_no_commands(words: list[int], message: str) -> None:
    with pytest.raises(StreamError, match=message):
        decode(words)


def test_an_enumeration_knows_its_members() -> None:
    commands = [c for c in assemble(Layer.random().text(), DEVICE) if isinstance(c, Convolve)]
    words = encode([Sync(0, (), 0, 0)] * 3 + commands)
    words[3 * 2 + 1 + 1 + 4] = 9  # behind three commands, the head, the wait and four places
    with pytest.raises(
        StreamError, match=r"Convolve init must be one of 0 \(zero\), 1 \(bias\), 2 \(accumulate\), got 9"
    ):
        decode(words)


TEXTS = [
    ("exec", "a line needs a queue and a command"),
    ("exce end status=0", "there is no such queue, got exce; did you mean exec?"),
    ("exec ende status=0", "there is no such command, got ende; did you mean end?"),
    ("exec end state=0", "there is no such field of end, got state; did you mean status?"),
    ("exec end", "end needs status"),
    ("exec end status", "a field is written name=value"),
    ("exec end status=one", "must be a number, got one"),
    ("exec end status=0 after lode:1", "there is no such queue"),
    ("exec fill target=dream:0x0", "fill needs size"),
]


@pytest.mark.parametrize(("text", "message"), TEXTS)
def test_text_that_is_no_command(text: str, message: str) -> None:
    with pytest.raises(StreamError) as error:
        assemble(f"; a comment\n{text}", DEVICE)
    assert str(error.value).startswith("line 2: ")
    assert message in str(error.value)


def test_a_file_both_ways(tmp_path: Path) -> None:
    port = Port("y", Place(3, 0x3000), (6, 5, 8), "i8")
    program = replace(Layer.random().program(), routines=(Routine("argmax", (port,), (replace(port, type="f32"),)),))
    program = replace(program, inputs=(*program.inputs, port), states=(Kept(1, 0), Kept(1, 0, bytes(range(240)))))
    program = replace(program, tensors=[Named(port, 7)])
    program.save(tmp_path / "net.npu")
    assert Program.load(tmp_path / "net.npu") == Program(
        dict(program.device),
        list(program.commands),
        list(program.segments),
        list(program.inputs),
        list(program.outputs),
        list(program.layers),
        list(program.routines),
        list(program.states),
        tensors=list(program.tensors),
    )
    for wrong in (Kept(0, 0), Kept(1, 0, b"short"), Kept(2, 0)):
        with pytest.raises(StreamError, match="its text must describe the program"):
            Program.from_bytes(replace(program, states=(wrong,)).to_bytes())
    for named in (Named(port, -1), Named(replace(port, type="i4"), 7), Named(replace(port, shape=(1 << 40,)), 7)):
        with pytest.raises(StreamError, match="its text must describe the program"):
            Program.from_bytes(replace(program, tensors=(named,)).to_bytes())


def test_tensors_with_names_lie_in_the_memories() -> None:
    """What a file says about tensors is checked like what it says about inputs."""
    program = Layer.random().program()
    beyond = Named(Port("y", Place(3, (1 << 28) - 1), (1 << 20,), "i8"), 1)
    with pytest.raises(Fault, match="must stay within a memory"):
        Simulator(replace(program, tensors=(beyond,)), DEVICE)
    seen: list[dict[str, Any]] = []
    late = Named(program.outputs[0], 1 << 20)
    Simulator(replace(program, tensors=(late,)), DEVICE).run_all([[image()]], seen)
    assert seen == [{}]


def test_files_that_are_none(tmp_path: Path) -> None:
    raw = Layer.random().program().to_bytes()
    for name, content, message in (
        ("absent", None, "must be a readable program"),
        ("other", b"\x7fELF" + bytes(40), "must begin with QMLIRNPU"),
        ("short", raw[:-9], "must have"),
        ("newer", raw[:8] + b"\x09" + raw[9:], "must be of version 4, got 9"),
        ("flipped", raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:], "the checksum must fit the contents"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=message):
            Program.load(tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_damaged_streams(seed: int) -> None:
    """Words changed at random and the checksum made right again: a typed error, a fault, or some defined result.

    8 times 60 of them; 8 times 1,250 in `make conformance`.
    """
    count = 1250 if THOROUGH else 60
    found = outcomes(Layer.random().program(), seed, count, lambda p: Simulator(p, DEVICE).run(image()))
    assert all(found.values()), found
