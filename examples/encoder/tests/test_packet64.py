"""The package, as it is installed: `pytest examples/encoder/tests`."""

from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from packet64 import BITS, DILATIONS, Packet64

import qmlir
from qmlir.backends.npu.words import decoded
from qmlir.isa.commands import COMMANDS, Move
from qmlir.isa.encoding import Command, Place, Signed, StreamError, Wait, field_kinds

DEVICE = qmlir.load_device(Path(__file__).parents[1] / "packet.toml")
ENCODER = Packet64(DEVICE)


def random(kind: type[Command], rng: np.random.Generator) -> Command:
    """A command with random numbers in every field, as large as a packet has bits for them."""

    def number(name: str, field: Any) -> Any:
        bits = BITS.get(name, 24)
        if name in DILATIONS:
            return 1
        if field is Place:
            return Place(int(rng.integers(16)), int(rng.integers(1 << 24)))
        if field is Signed:
            return int(rng.integers(-(1 << bits - 1), 1 << bits - 1))
        return int(rng.integers(1 << bits)) if field is int else list(field)[rng.integers(len(field))]

    waits = tuple(Wait(int(rng.integers(16)), int(rng.integers(1 << 20))) for _ in range(rng.integers(4)))
    values = {name: number(name, field) for name, field in field_kinds(kind).items()}
    return kind(int(rng.integers(16)), waits, int(rng.integers(16)), **values)


def words_of(command: Command) -> list[int]:
    return list(next(iter(ENCODER.encode(iter([SimpleNamespace(command=command)])))))  # type: ignore[list-item]


@pytest.mark.parametrize("kind", COMMANDS)
def test_packets_say_everything(kind: type[Command]) -> None:
    rng = np.random.default_rng(kind.OP)
    commands = [random(kind, rng) for _ in range(50)]
    words = [words_of(command) for command in commands]
    assert all(ENCODER.refuses(command) is None for command in commands)
    assert all(1 <= len(own) <= 8 and all(0 <= word < 1 << 64 for word in own) for own in words)
    assert ENCODER.decode([word for own in words for word in own]) == commands


def test_what_does_not_fit_is_refused() -> None:
    move = random(Move, np.random.default_rng(0))
    for field in fields(Move)[3:]:
        value = getattr(move, field.name)
        wide = Place(0, 1 << 24) if isinstance(value, Place) else 1 << BITS.get(field.name, 24)
        assert f"bits for {field.name} of move" in str(ENCODER.refuses(replace(move, **{field.name: wide})))
    assert "waits for at most 1048575" in str(ENCODER.refuses(replace(move, waits=(Wait(0, 1 << 20),))))


def test_damaged_words() -> None:
    words = words_of(random(Move, np.random.default_rng(0)))
    with pytest.raises(StreamError, match="must lie whole"):
        ENCODER.decode(words[:-1])
    with pytest.raises(StreamError, match="must have a known op"):
        ENCODER.decode([words[0] | 63, *words[1:]])


def test_the_round_trip() -> None:
    """Network → packets → commands: the simulator gives what the network gives."""
    digits = Path(__file__).parents[2] / "digits"
    data = np.load(digits / "digits.npz")
    samples = data["calibration_images"][:20, None]
    quantized = qmlir.quantize(digits / "digits.onnx", data=samples, target=DEVICE, measure=False)
    program = qmlir.compile(quantized, target=DEVICE)
    again = decoded(program.words.all, DEVICE)
    assert again == list(program.program.commands)
    copy, reference = program.with_program(replace(program.program, commands=again)), qmlir.reference(quantized)
    for image in data["test_images"][:4]:
        assert (copy(image[None]) == reference(image[None])).all()
