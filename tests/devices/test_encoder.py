"""Encoders of device words: how they are found, what they may refuse, and what becomes of what they refuse."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.placement import judge
from qmlir.backends.npu.words import decoded
from qmlir.cli.main import main
from qmlir.devices import Device
from qmlir.devices.model.encoder import Encoder, Issued, encoder_of, register_encoder
from qmlir.errors import UnsupportedError
from qmlir.isa.commands import Arithmetic, Convolve, End, Mark, Move, Pool, Post, SetContext, Window
from qmlir.isa.encoding import Command, Place, field_kinds
from qmlir.plugins import ENCODERS, PluginError, plugins_in
from tests.packages import install, site

__all__ = ["site"]

DEVICE = "gemmini"


@pytest.fixture(autouse=True)
def _forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmlir.plugins._registered", {})


class Plain(Encoder):
    """The words of the instruction set, and what was asked and issued."""

    def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
        for each in commands:
            SEEN.append(each)
            yield each.command.words()


SEEN: list[Issued] = []


def named(encoder: type[Encoder], name: str = "plain") -> Device:
    register_encoder(name, encoder)
    return qmlir.load_device(DEVICE).with_({"encoder": name})


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions, the second with dilations of 2."""
    path = tmp_path_factory.mktemp("encoder") / "dilated.onnx"
    rng = np.random.default_rng(3)
    weights = {name: rng.standard_normal((8, c, 3, 3)) / 4 for name, c in (("first", 3), ("second", 8))}
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], "plain", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "second"], ["y"], "dilated", pads=[2, 2, 2, 2], dilations=[2, 2]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 12, 12]) for n, c in (("x", 3), ("y", 8))]
    held = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def quantized(network: Path, device: Device) -> ModuleOp:
    samples = list(np.random.default_rng(0).standard_normal((4, 1, 3, 12, 12)).astype(np.float32))
    return qmlir.quantize(network, data=samples, target=device, measure=False)


def test_commands_come_with_names_places_waits_layers_and_contexts(network: Path) -> None:
    device = named(Plain)
    SEEN.clear()
    program = qmlir.compile(quantized(network, device), target=device)
    seen = SEEN[: len(program.program.commands)]
    assert [each.command for each in seen] == list(program.program.commands)
    assert [each.number for each in seen] == list(range(len(seen)))
    for each in seen:
        command = each.command
        assert each.queue == device.queue[command.queue].id
        assert [(device.memory[p.memory].id, p.address) for p in _places(command)] == list(each.places.values())
        assert [(device.queue[w.queue].id, w.finished) for w in command.waits] == list(each.waits)
        uses = isinstance(command, Post | Arithmetic)
        before = [s.command for s in seen[: each.number] if isinstance(s.command, SetContext)]
        assert each.context == next((c for c in reversed(before) if c.ctx == command.ctx), None) if uses else True
        assert (each.context is not None) == uses
    layers = {each.layer for each in seen if isinstance(each.command, Convolve)}
    assert layers == {"plain", "dilated"}
    assert {each.mnemonic for each in seen} >= {"move", "convolve", "post", "set-context", "mark", "end"}


def _places(command: Command) -> list[Place]:
    return [getattr(command, name) for name, kind in field_kinds(type(command)).items() if kind is Place]


class NoDilation(Plain):
    """Has no words for windows with dilations."""

    def refuses(self, command: Command) -> str | None:
        if isinstance(command, Window | Pool) and (command.dilation_rows, command.dilation_columns) != (1, 1):
            return f"there is no word for\n dilations, got {command.dilation_rows}"
        return None


REASON = "there is no word for dilations, got 2 (encoder plain)"


def test_the_host_computes_what_words_cannot_say(network: Path) -> None:
    device = named(NoDilation)
    judged = judge(qmlir.load(network), device)
    refused = {each.node: each.refusals for each in judged if each.operation == "qint.conv2d"}
    assert refused["dilated"] == (REASON,)
    assert refused["plain"] == ()
    q = quantized(network, device)
    program = qmlir.compile(q, target=device)
    windows = [c for c in program.program.commands if isinstance(c, Window)]
    assert windows
    assert all(window.dilation_rows == 1 for window in windows)
    assert any(REASON in entry.reason for entry in program.ledger)
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 12)).astype(np.float32)
    assert (program(x) == qmlir.reference(q)(x)).all()


def test_a_device_without_fallback_refuses(network: Path) -> None:
    device = named(NoDilation).with_({"fallback": {"kind": "error"}})
    with pytest.raises(qmlir.QmlirError, match="there is no word for dilations"):
        qmlir.compile(quantized(network, device), target=device)


def test_device_check_prints_the_reason(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named(NoDilation)
    (tmp_path / "mine.toml").write_text(_toml("plain"), encoding="utf-8")
    assert main(["device", "check", str(tmp_path / "mine.toml"), str(network)]) == 0
    shown = capsys.readouterr().out
    assert "words of 32 bits by the encoder plain of this program" in shown
    assert REASON in " ".join(shown.split())


def _toml(encoder: str) -> str:
    from qmlir.devices.description.summary import toml_of

    return toml_of(qmlir.load_device(DEVICE).with_({"encoder": encoder}))


class Narrow(Plain):
    """Says sizes of a result in 3 bits each."""

    def refuses(self, command: Command) -> str | None:
        if isinstance(command, Convolve) and max(command.out_rows, command.out_columns) > 7:
            return f"results have at most 7 rows and columns, got {command.out_rows} and {command.out_columns}"
        return None


def test_tiles_keep_to_the_sizes_that_words_can_say(network: Path) -> None:
    device = named(Narrow)
    q = quantized(network, device)
    program = qmlir.compile(q, target=device)
    tiles = [c for c in program.program.commands if isinstance(c, Convolve)]
    assert len(tiles) >= 8
    assert max(max(c.out_rows, c.out_columns) for c in tiles) <= 7
    assert not any("results have at most" in entry.reason for entry in program.ledger)
    wide = qmlir.compile(q, target=DEVICE)
    assert max(c.out_columns for c in wide.program.commands if isinstance(c, Convolve)) == 12
    x = np.random.default_rng(5).standard_normal((1, 3, 12, 12)).astype(np.float32)
    assert (program(x) == qmlir.reference(q)(x)).all()


class NoLongMoves(Plain):
    """Moves few bytes at once, which no key of a device file says."""

    def refuses(self, command: Command) -> str | None:
        return (
            f"a move has at most 64 bytes, got {command.size}"
            if isinstance(command, Move) and command.size > 64
            else None
        )


class FewLayers(Plain):
    """Counts layers in one bit."""

    def refuses(self, command: Command) -> str | None:
        return (
            f"there are two layers, got {command.layer + 1}"
            if isinstance(command, Mark) and command.layer > 1
            else None
        )


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        (
            NoLongMoves,
            r'^npu.layer "plain": the smallest tile: a move has at most 64 bytes, got \d+ \(encoder plain\)$',
        ),
        (FewLayers, r'^mark "\S+": there are two layers, got 3 \(encoder plain\)$'),
    ],
)
def test_a_tile_that_words_cannot_say_names_its_layer(encoder: type[Encoder], said: str, network: Path) -> None:
    device = named(encoder)
    with pytest.raises(UnsupportedError, match=said):
        qmlir.compile(quantized(network, device), target=device)


class LowAddresses(Plain):
    """Addresses of 10 bits, which are known when memory is planned."""

    def refuses(self, command: Command) -> str | None:
        if wide := [place.address for place in _places(command) if place.address >= 1 << 10]:
            return f"an address has 10 bits, got {wide[0]:#x}"
        return None


def test_a_place_that_words_cannot_say_names_its_command(network: Path) -> None:
    device = named(LowAddresses)
    said = r"^command \d+ of layer plain, \w+ .*: an address has 10 bits, got 0x\w+ \(encoder plain\)$"
    with pytest.raises(UnsupportedError, match=said):
        qmlir.compile(quantized(network, device), target=device)


@pytest.mark.parametrize("name", ["plian", "nothing-like-it"])
def test_unknown_encoders(name: str, tmp_path: Path, network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    register_encoder("plain", Plain)
    (tmp_path / "mine.toml").write_text(_toml(name), encoding="utf-8")
    remedy = "did you mean plain?" if name == "plian" else f"known: {', '.join(sorted(plugins_in(ENCODERS)))}"
    said = f"error: gemmini: encoder must be one that a package or the program offers, got {name}; {remedy}"
    for command in (["device", "check"], ["device", "check", str(network)]):
        given = [*command[:2], str(tmp_path / "mine.toml"), *command[2:]]
        assert main(given) == 1
        assert said in " ".join(capsys.readouterr().err.split())


def test_no_encoders_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qmlir.devices.model.encoder.plugins_in", lambda group: {})
    with pytest.raises(PluginError, match="got plain; install the package that offers it, or leave the key out"):
        encoder_of(qmlir.load_device(DEVICE).with_({"encoder": "plain"}))


def test_names_of_packages(site: Path) -> None:
    text = "from tests.devices.test_encoder import Plain\n\nclass Mine(Plain):\n    word_bits = 32\n\nnumber = 1\n"
    entries = {ENCODERS: {"mine": "mine:Mine", "number": "mine:number", "twice": "mine:Mine"}}
    install(site, "my-words", entries, {"mine": text})
    install(site, "others", {ENCODERS: {"twice": "mine:Mine"}})
    device = qmlir.load_device(DEVICE)
    found = encoder_of(device.with_({"encoder": "mine"}))
    assert found is not None
    assert (found.plugin.called, found.encoder.device.name) == ("mine of my-words 1.0", DEVICE)
    with pytest.raises(
        PluginError,
        match=r"encoder number of my-words 1\.0 must be a subclass of Encoder or LayerEncoder, got 1 of type int",
    ):
        encoder_of(device.with_({"encoder": "number"}))
    with pytest.raises(PluginError, match="must not offer the encoder twice"):
        encoder_of(device.with_({"encoder": "twice"}))
    with pytest.raises(PluginError, match="encoder mine must have a name of its own"):
        register_encoder("mine", Plain)


class Raises(Plain):
    """Raises in each of its methods, as `WHERE` says."""

    WHERE = ""

    def __init__(self, device: Device):
        if self.WHERE == "init":
            raise RuntimeError("no licence")
        super().__init__(device)

    def refuses(self, command: Command) -> str | None:
        if self.WHERE == "refuses" and isinstance(command, Convolve):
            raise ZeroDivisionError("by\nzero")
        return 3 if self.WHERE == "number" else "" if self.WHERE == "empty" else None  # type: ignore[return-value]

    def encode(self, commands: Iterator[Issued]) -> Iterator[Sequence[int]]:
        for each in commands:
            if self.WHERE == "encode" and isinstance(each.command, Convolve):
                raise KeyError("convolve")
            if self.WHERE == "fewer" and isinstance(each.command, End):
                return
            wrong = {"wide": [1 << 32], "negative": [-1], "float": [1.0], "none": None}.get(self.WHERE)
            if isinstance(each.command, Convolve) and self.WHERE in ("wide", "negative", "float", "none"):
                yield wrong  # type: ignore[misc]
            else:
                yield [] if self.WHERE == "nothing" else each.command.words()
        if self.WHERE == "more":
            yield [1]

    def decode(self, words: Sequence[int]) -> list[Command] | None:
        from qmlir.isa.commands import decode

        if self.WHERE == "decode":
            raise IndexError("word 7")
        if self.WHERE == "kinds":
            return [1]  # type: ignore[list-item]
        commands = decode(words)
        if self.WHERE == "short":
            return commands[:-1]
        if self.WHERE == "others":
            return [Mark(c.queue, c.waits, 0, 9) if isinstance(c, Mark) else c for c in commands]
        return commands


WRONG = {
    "init": r"^encoder plain of this program must take the device gemmini, got RuntimeError: no licence",
    "refuses": r"^gemmini: encoder plain of .* why it refuses a Convolve, or None, got ZeroDivisionError: by zero",
    "number": r"must say why it refuses a \w+, or None, got 3",
    "empty": r"must say why it refuses a \w+, or None, got ''",
    "encode": r"^command \d+ of layer \w+, exec convolve .* must encode every command that .* refuse, got KeyError",
    "fewer": r"^encoder plain of this program must yield the words of each of \d+ commands, got those of \d+",
    "more": r"^encoder plain of this program must yield the words of each of \d+ commands, got those of more",
    "nothing": r"must encode a program in words, got none",
    "wide": r"^command \d+ of layer plain, exec convolve .* each command in words of 32 bits, got 0x100000000",
    "negative": r"must encode each command in words of 32 bits, got -0x1",
    "float": r"must encode each command in words of 32 bits, got 1.0 of type float",
    "none": r"must encode every command that it does not refuse, got TypeError",
    "decode": r"must decode words, or say by a StreamError what is wrong, got IndexError: word 7",
    "kinds": r"^command 0: encoder plain of this program must decode words to commands, got 1",
    "short": r"must decode its words to the commands that they encode, got \d+ commands of \d+",
    "others": r"^command \d+ of layer \S+, exec mark layer=\d: .* must decode its words .* got exec mark layer=9",
}


@pytest.mark.parametrize("where", WRONG)
def test_encoders_that_are_wrong(where: str, network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = quantized(network, qmlir.load_device(DEVICE))
    monkeypatch.setattr(Raises, "WHERE", where)
    with pytest.raises(PluginError, match=WRONG[where]):
        qmlir.compile(ready, target=named(Raises))


@pytest.mark.parametrize("bits", [0, 12, 2048, "32", 64.0])
def test_widths_of_words(bits: object) -> None:
    device = named(type("Odd", (Plain,), {"word_bits": bits}))
    with pytest.raises(PluginError, match="must have words of a multiple of 8 bits, at most 1024, got"):
        encoder_of(device)


def test_what_is_registered_last_counts() -> None:
    device = named(Plain)
    first = encoder_of(device)
    again = encoder_of(named(NoDilation))
    assert first is not None
    assert again is not None
    assert (type(first.encoder), type(again.encoder)) == (Plain, NoDilation)


def test_a_decoder_is_not_needed() -> None:
    device = named(Plain)
    assert decoded([1, 2, 3], device) is None
