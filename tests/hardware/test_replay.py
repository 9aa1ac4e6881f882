"""Files of programs: what is written runs on the functional model as any program, and what differs is named."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qmlir.backends.hardware.gemmini.machine import Machine as Gemmini
from qmlir.backends.hardware.nvdla.machine import Nvdla, run
from qmlir.backends.hardware.nvdla.memory import Memory
from qmlir.backends.hardware.nvdla.program import Program
from qmlir.backends.hardware.vta.machine import Machine as Vta
from tests.hardware.recorders import Programs
from tests.hardware.replay import differences, main, programs_of


def trained(test: Callable[..., None]) -> Callable[..., None]:
    """Marks a test of a trained network."""
    return pytest.mark.models(pytest.mark.slow(test))


@pytest.fixture(scope="module")
def file(shared: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a network for one input."""
    path = tmp_path_factory.mktemp("replay") / "mnist.npz"
    np.savez(path, allow_pickle=False, **programs_of("mnist-8", shared, 1).arrays())
    return path


@trained
def test_a_file_of_programs(file: Path) -> None:
    """Each program gives its bytes after a reset."""
    with np.load(file) as z:
        assert len(z["name"]) == 6
        for n in range(len(z["name"])):
            at = np.flatnonzero(z["seg_program"] == n)
            segments = [(int(z["seg_addr"][s]), z["seg"][z["seg_at"][s] : z["seg_at"][s + 1]].tobytes()) for s in at]
            memory = run(Program.from_rows(z["op"][z["op_at"][n] : z["op_at"][n + 1]], segments))
            (out,) = np.flatnonzero(z["out_program"] == n)
            expected = z["out"][z["out_at"][out] : z["out_at"][out + 1]]
            assert (memory.read(int(z["out_addr"][out]), len(expected)) == expected).all()


@trained
def test_what_differs_is_named(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same, wrong = tmp_path / "same.npz", tmp_path / "wrong.npz"
    shutil.copy(file, same)
    assert main(["--compare", str(file), str(same)]) == 0
    with np.load(file) as z:
        arrays = {name: z[name] for name in z.files}
    arrays["out"] = arrays["out"].copy()
    arrays["out"][arrays["out_at"][2] + 8 * (14 * 14 + 3 * 14 + 5) + 1] ^= 0x40  # the second surface of the third layer
    np.savez(wrong, allow_pickle=False, **arrays)
    assert main(["--compare", str(file), str(wrong)]) == 1
    (sentence,) = differences(file, wrong)
    assert sentence.startswith("mnist-8_0_02, layer ")
    assert ": 1 of 3136 bytes differ, first at byte 1945: row 3, column 5, channel 9: 0x" in sentence
    assert sentence in capsys.readouterr().out
    arrays["name"] = np.array([f"other_{n}" for n in range(6)])
    np.savez(wrong, allow_pickle=False, **arrays)
    assert differences(file, wrong)[0].endswith("bytes expected, got none")


@trained
def test_a_stream_of_layers(shared: Callable[[str], Path], tmp_path: Path) -> None:
    """All layers in one program after a reset: each has its bytes when its last wait has ended."""
    path, wrong = tmp_path / "stream.npz", tmp_path / "wrong.npz"
    np.savez(path, allow_pickle=False, **programs_of("mnist-8", shared, 2, stream=True).arrays())
    with np.load(path) as file:
        z = {name: file[name] for name in file.files}
    assert z["name"].tolist() == ["mnist-8_0", "mnist-8_1"]
    for n in range(2):
        memory = Memory()
        for s in np.flatnonzero((z["seg_program"] == n) & (z["seg_op"] == 0)):
            memory.write(int(z["seg_addr"][s]), z["seg"][z["seg_at"][s] : z["seg_at"][s + 1]].tobytes())
        commands = Program.from_rows(z["op"][z["op_at"][n] : z["op_at"][n + 1]]).commands
        device, done, outs = Nvdla(memory), 0, np.flatnonzero(z["out_program"] == n)
        assert len(outs) == len(json.loads(str(z["meta"][n]))["layers"]) == 6
        for out in outs:
            device.execute(commands[done : z["out_op"][out]])
            done = int(z["out_op"][out])
            expected = z["out"][z["out_at"][out] : z["out_at"][out + 1]]
            assert (memory.read(int(z["out_addr"][out]), len(expected)) == expected).all()
        assert done == len(commands)
    z["out"] = z["out"].copy()
    z["out"][[z["out_at"][8], z["out_at"][11]]] ^= 1
    np.savez(wrong, allow_pickle=False, **z)
    first, second = differences(path, wrong)
    layers = json.loads(str(z["meta"][1]))["layers"]
    assert first.startswith(
        f"mnist-8_1, layer {layers[2]['layer']}: 1 of 3136 bytes differ, first at byte 0: row 0, column 0"
    )
    assert second.startswith(f"mnist-8_1, layer {layers[5]['layer']}: 1 of 16 bytes differ")


def carried_out(z: dict[str, Any], program: int, target: str) -> Iterator[tuple[int, bytes]]:
    """What a model of Gemmini or VTA makes of a program of a file: the number of each result, and its bytes."""
    of = {name: np.flatnonzero(z[f"{name}_program"] == program) for name in ("seg", "out")}
    size = max(int(z[f"{n}_addr"][k] + z[f"{n}_at"][k + 1] - z[f"{n}_at"][k]) for n in of for k in of[n])
    memory = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    gemmini, vta = Gemmini(memory), Vta(size)
    vta.memory = memory
    steps = z["op"][z["op_at"][program] : z["op_at"][program + 1]]
    for at in range(len(steps) + 1):
        for out in of["out"][z["out_op"][of["out"]] == at]:
            first = int(z["out_addr"][out])
            yield out, memory[first : first + int(z["out_at"][out + 1] - z["out_at"][out])].tobytes()
        for seg in of["seg"][z["seg_op"][of["seg"]] == at]:
            data = z["seg"][z["seg_at"][seg] : z["seg_at"][seg + 1]]
            memory[int(z["seg_addr"][seg]) :][: len(data)] = data
        if at == len(steps):
            continue
        if target == "gemmini":
            gemmini.run([steps[at].tolist()])
        else:
            first, count = steps[at].tolist()
            stream = memory[first : first + 16 * count].reshape(-1, 16)
            vta.run(int.from_bytes(word.tobytes(), "little") for word in stream)


@trained
@pytest.mark.parametrize("stream", [False, True], ids=["layers", "stream"])
@pytest.mark.parametrize(("target", "layers"), [("gemmini", 7), ("vta", 7)])
def test_programs_of_other_devices(
    shared: Callable[[str], Path], tmp_path: Path, target: str, layers: int, stream: bool
) -> None:
    """From the file alone: each program gives its bytes, after a reset and with noise in what the file leaves out."""
    path, wrong = tmp_path / "right.npz", tmp_path / "wrong.npz"
    np.savez(path, allow_pickle=False, **programs_of("mnist-8", shared, 2, stream=stream, target=target).arrays())
    with np.load(path) as file:
        z: dict[str, Any] = {name: file[name] for name in file.files}
    assert len(z["name"]) == (2 if stream else 2 * layers)
    got = dict(found for n in range(len(z["name"])) for found in carried_out(z, n, target))
    assert len(got) == 2 * layers
    np.savez(wrong, allow_pickle=False, **z | {"out": np.frombuffer(b"".join(got[n] for n in sorted(got)), np.uint8)})
    assert differences(path, wrong) == []

    meta = [layer for each in z["meta"] for layer in json.loads(str(each))["layers"]]
    number = next(n for n, layer in enumerate(meta) if layer["out"][0] > 5 and layer["out"][2] == 16)
    rows, columns, _ = meta[number]["out"]
    z["out"] = z["out"].copy()
    byte = (3 * columns + 5) * 16 + 9  # VTA's one vector, and Gemmini's one block, have the 16 channels
    z["out"][z["out_at"][number] + byte] ^= 1
    np.savez(wrong, allow_pickle=False, **z)
    (sentence,) = differences(path, wrong)
    assert f"layer {meta[number]['layer']}: 1 of {rows * columns * 16} bytes differ, first at byte {byte}: " in sentence
    assert "row 3, column 5, channel 9: 0x" in sentence


def test_help_says_what_the_arrays_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for name in ("--stream", "--device", "--compare EXPECTED GOT", *Programs().arrays()):
        assert name in text


@pytest.mark.parametrize("given", [[], ["--network", "nothing"], ["--compare", "one"], ["--compare", "one", "two"]])
def test_commands_that_are_refused(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    assert "usage: python -m tests.hardware.replay" in capsys.readouterr().err
