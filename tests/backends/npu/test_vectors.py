"""Golden vectors: by a reader of its own, each command's images lead from the memories before to those behind."""

import filecmp
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.backends.npu.stream import Program
from qmlir.backends.simulated import Simulated
from qmlir.devices import load_device
from qmlir.errors import FileError, OptionError
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import Convolve, Move
from tests.backends.npu.test_encoder import Size, quantized
from tests.cli.small import write_small
from tests.conftest import ROOT

State = dict[str, dict[int, int]]
"""Memory → address → byte."""


@pytest.fixture(scope="module", params=["small", pytest.param("encoder", marks=pytest.mark.slow)])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Simulated, np.ndarray]:
    """A network on a device, in tiles, with calls of the host, or a block of a transformer; and a sample."""
    if request.param == "encoder":
        size = Size()
        q = quantized(size, "npu-transformer", tmp_path_factory.mktemp("encoder"))
        return qmlir.compile(q, target="npu-transformer"), size.samples(1)[0]
    small = write_small(tmp_path_factory.mktemp("vectors"))
    changes = {"memory.data.bytes": 4096, "memory.weights.bytes": 512, "fallback.setup": 100_000}
    device = load_device(ROOT / "examples" / "rtl" / "array8.toml").with_(changes)
    q = qmlir.quantize(small.onnx, data=list(small.samples[:, None]), target=device, measure=False)
    return qmlir.compile(q, target=device), small.samples[0][None]


@pytest.fixture(scope="module", params=["changes", "whole"])
def vectors(
    request: pytest.FixtureRequest, network: tuple[Simulated, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("vectors") / request.param
    program, sample = network
    assert program.write_vectors(sample, folder, request.param) == folder / "index.json"
    return folder, json.loads((folder / "index.json").read_text(encoding="utf-8"))


def bytes_of(folder: Path, file: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Yields the addresses and bytes of an image, and checks the checksum."""
    address, held = 0, bytearray()
    for word in (folder / file["path"]).read_text(encoding="ascii").split():
        if word[0] == "@":
            address = int(word[1:], 16)
            continue
        held.append(int(word, 16))
        yield address, held[-1]
        address += 1
    assert (len(held), f"{zlib.crc32(held):08x}") == (file["bytes"], file["crc32"])


def image(folder: Path, files: list[dict[str, Any]]) -> State:
    return {file["memory"]: dict(bytes_of(folder, file)) for file in files}


def addresses(block: dict[str, Any]) -> list[int]:
    """The addresses of a block's bytes, in order."""
    return [
        block["address"] + plane * block["plane_pitch"] + row * block["row_pitch"] + byte
        for plane in range(block["planes"])
        for row in range(block["rows"])
        for byte in range(block["size"])
    ]


def at(memories: list[dict[str, Any]], when: str) -> list[dict[str, Any]]:
    return [memory[when] for memory in memories if memory[when] is not None]


def test_a_program_can_be_followed(vectors: tuple[Path, dict[str, Any]], network: tuple[Simulated, np.ndarray]) -> None:
    """Each image before is what the memories hold, and the images behind lead to the outputs."""
    folder, index = vectors
    program, sample = network
    state: State = {m["name"]: {} for m in index["memories"]}
    for memory, held in image(folder, at(index["memories"], "initial")).items():
        state[memory] |= held
    layers = {layer["first"]: layer for layer in index["layers"]}
    begun: State = {}
    for command in index["commands"]:
        if (layer := layers.get(command["number"])) is not None:
            begun = {memory: dict(held) for memory, held in state.items()}
            for memory, held in image(folder, layer["before"]).items():
                assert held.items() <= state[memory].items()
        before, after = image(folder, command["before"]), image(folder, command["after"])
        for memory, held in before.items():
            assert held.items() <= state[memory].items()
        if index["images"] == "whole":
            assert before == {memory: held for memory, held in state.items() if held}
        for memory, held in after.items():
            state[memory] |= held
        if index["images"] == "whole":
            assert after == {memory: held for memory, held in state.items() if held}
        for ended in (layer for layer in layers.values() if layer["last"] == command["number"]):
            behind = image(folder, ended["after"])
            for memory, held in behind.items():
                assert held.items() <= state[memory].items()
            changed = {
                (memory, address)
                for memory, held in state.items()
                for address, byte in held.items()
                if begun[memory].get(address) != byte
            }
            assert changed <= {(memory, address) for memory, held in behind.items() for address in held}
    assert image(folder, at(index["memories"], "final")) == {m: held for m, held in state.items() if held}
    (port,) = index["outputs"]
    size = int(np.prod(port["shape"])) * 4
    raw = bytes(state[port["memory"]][port["address"] + n] for n in range(size))
    assert (np.frombuffer(raw, np.float32).reshape(port["shape"]) == program(sample)).all()


def test_layers_read_what_they_have_not_written(vectors: tuple[Path, dict[str, Any]]) -> None:
    """The image before a layer is enough for its commands, and has nothing else."""
    folder, index = vectors
    if index["images"] == "whole":
        return
    for layer in index["layers"]:
        first, written = dict[tuple[str, int], None](), set[tuple[str, int]]()
        for command in index["commands"][layer["first"] : layer["last"] + 1]:
            for block in command["reads"]:
                first |= {(block["memory"], a): None for a in addresses(block) if (block["memory"], a) not in written}
            written |= {(block["memory"], a) for block in command["writes"] for a in addresses(block)}
        before, after = (
            {(memory, a) for memory, held in image(folder, layer[when]).items() for a in held}
            for when in ("before", "after")
        )
        assert before == set(first)
        assert after == written


def test_blocks_are_the_operands(vectors: tuple[Path, dict[str, Any]], network: tuple[Simulated, np.ndarray]) -> None:
    folder, index = vectors
    commands = network[0].program.commands
    assert [c["mnemonic"] for c in index["commands"]].count("convolve") == sum(
        isinstance(c, Convolve) for c in commands
    )
    with np.load(folder / "vectors.npz") as arrays:
        names = set(arrays.files)
        for command in index["commands"]:
            for side, when in (("reads", "before"), ("writes", "after")):
                held = image(folder, command[when])
                for block in command[side]:
                    array = arrays[name := f"{command['number']}.{side}.{block['operand']}"]
                    names.remove(name)
                    assert array.shape == (block["planes"], block["rows"], block["size"])
                    assert [held[block["memory"]][a] for a in addresses(block)] == array.reshape(-1).tolist()
                    assert block["crc32"] == f"{zlib.crc32(array.tobytes()):08x}"
    assert not names


def test_the_index_says_what_commands_are(
    vectors: tuple[Path, dict[str, Any]], network: tuple[Simulated, np.ndarray]
) -> None:
    _, index = vectors
    program, device = network[0].program, network[0].device
    assert index["program"] == program.to_bytes()[-4:][::-1].hex()
    assert [layer["name"] for layer in index["layers"]] == list(program.layers)
    for command, entry in zip(program.commands, index["commands"], strict=True):
        assert entry["queue"] == device.queue[command.queue].id
        assert [int(word, 16) for word in entry["words"]] == command.words()
        for name, value in entry["fields"].items():
            own = getattr(command, name)
            assert value == ([device.memory[own.memory].id, own.address] if isinstance(value, list) else int(own))
        if entry["mnemonic"] == "post":
            context = index["commands"][entry["context"]]
            assert (context["mnemonic"], context["ctx"]) == ("set-context", entry["ctx"])
            assert not [
                c
                for c in index["commands"][entry["context"] + 1 : entry["number"]]
                if (c["mnemonic"], c["ctx"]) == ("set-context", entry["ctx"])
            ]
        layer = None if entry["layer"] is None else index["layers"][entry["layer"]]
        assert layer is None or layer["first"] <= entry["number"] <= layer["last"]


def test_equal_runs_give_equal_files(network: tuple[Simulated, np.ndarray], tmp_path: Path) -> None:
    program, sample = network
    for name in ("one", "two"):
        program.write_vectors(sample, tmp_path / name)
    files = [path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file()]
    assert len(files) > 50
    assert filecmp.cmpfiles(tmp_path / "one", tmp_path / "two", map(str, files), shallow=False)[0] == [*map(str, files)]
    assert len(files) == sum(path.is_file() for path in (tmp_path / "two").rglob("*"))


# ---------------------------------------------------------------------------------------------------------------
# Whole or not at all


def test_an_empty_folder_is_filled(network: tuple[Simulated, np.ndarray], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    network[0].write_vectors(network[1], tmp_path / "out")
    assert (tmp_path / "out" / "index.json").exists()
    said = r"out: must be a new or an empty folder, got a folder with files; choose another, or remove it"
    with pytest.raises(FileError, match=said):
        network[0].write_vectors(network[1], tmp_path / "out")


def test_a_fault_leaves_nothing(network: tuple[Simulated, np.ndarray], tmp_path: Path) -> None:
    """A program that reads what nothing has written, in its middle."""
    program, sample = network
    commands = list(program.program.commands)
    number = next(n for n, c in enumerate(commands) if isinstance(c, Move) and n > 10)
    moved = replace(commands[number], source=replace_address(commands[number], 1 << 20))
    broken = replace(program.program, commands=[*commands[:number], moved, *commands[number + 1 :]])
    with pytest.raises(Fault, match=rf"^command {number}, load move .*: must read what was written before"):
        program.with_program(broken).write_vectors(sample, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def replace_address(command: Any, address: int) -> Any:
    return command.source._replace(address=address)


@pytest.mark.parametrize(
    ("name", "said"),
    [("a/b", "must be writable, got no such file"), ("file", "must be a new or an empty folder, got a file")],
)
def test_folders_that_cannot_be(name: str, said: str, network: tuple[Simulated, np.ndarray], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=said):
        network[0].write_vectors(network[1], tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_kinds_of_images(network: tuple[Simulated, np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="images: must be one of changes, whole, got all"):
        network[0].write_vectors(network[1], tmp_path / "out", "all")


def test_a_loaded_program_gives_the_same(network: tuple[Simulated, np.ndarray], tmp_path: Path) -> None:
    program, sample = network
    program.save(tmp_path / "net.npu")
    loaded = qmlir.load_program(tmp_path / "net.npu", program.device)
    assert Program.load(tmp_path / "net.npu").commands == program.program.commands
    for name, each in (("one", program), ("two", loaded)):
        each.write_vectors(sample, tmp_path / name)
    assert (tmp_path / "one" / "index.json").read_bytes() == (tmp_path / "two" / "index.json").read_bytes()
