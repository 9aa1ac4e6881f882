"""Layers as writes of registers: the made-up device computes what the network computes, from words and memory alone."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from registers import Machine, Registers
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.layered import LayerProgram
from qmlir.cli.main import main

HERE = Path(__file__).parents[1]
DEVICE = HERE / "registers.toml"
DATA = np.load(HERE.parent / "digits" / "digits.npz")


@pytest.fixture(scope="module")
def quantized() -> ModuleOp:
    samples = DATA["calibration_images"][:20, None]
    return qmlir.quantize(HERE.parent / "digits" / "digits.onnx", data=samples, target=DEVICE, io="int8", measure=False)


@pytest.fixture(scope="module")
def program(quantized: ModuleOp) -> LayerProgram:
    found = qmlir.compile(quantized, target=DEVICE).layered
    assert found is not None
    return found


def test_the_device_computes_the_network(quantized: ModuleOp, program: LayerProgram) -> None:
    first, last = program.layers[0], program.layers[-1]  # the host gives the image its shape
    reference = qmlir.reference(quantized)
    for image in DATA["test_images"][:20]:
        given = np.round(image[None] / 16 * 127).astype(np.int8)
        machine = Machine(program.size)
        for address, data in program.constants.items():
            machine.memory[address : address + len(data)] = np.frombuffer(data, np.uint8)
        machine.put(first.inputs[0], given.reshape(first.layer.inputs[0].shape[1:]))
        machine.run(program.words.all)
        got = machine.get(last.output, *last.layer.output.shape[1:])
        assert (got.reshape(-1) == np.asarray(reference(given)).reshape(-1)).all()


def test_the_files_of_emit_are_all_that_a_driver_needs(quantized: ModuleOp, tmp_path: Path) -> None:
    qmlir.save(quantized, tmp_path / "net.mlir")
    main(
        [
            "compile",
            str(tmp_path / "net.mlir"),
            "--target",
            str(DEVICE),
            "--emit",
            "bin",
            "-o",
            str(tmp_path / "net.bin"),
        ]
    )
    index = json.loads((tmp_path / "net.places.json").read_text())
    words = np.frombuffer((tmp_path / index["words"]).read_bytes(), "<u8").tolist()
    (held,), (result,) = index["memories"], index["outputs"]
    data = np.frombuffer((tmp_path / held["file"]).read_bytes(), np.uint8)
    assert held["memory"] == result["memory"]
    assert sum(step["words"] for step in index["steps"] if "layer" in step) == len(words)
    shaped, *_ = (step for step in index["steps"] if "host" in step)  # the host gives the image its shape
    image = DATA["test_images"][7]
    given = np.round(image[None] / 16 * 127).astype(np.int8)
    machine = Machine(held["address"] + held["bytes"])
    machine.memory[held["address"] :] = data
    (first,) = shaped["outputs"]
    assert (first["memory"], first["bits"], first["bytes"]) == (held["memory"], 8, 8 * 8 * 8)
    machine.put(first["address"], given.reshape(first["shape"][1:]))
    machine.run(words)
    got = machine.get(result["address"], *result["shape"][1:])
    assert (got.reshape(-1) == np.asarray(qmlir.reference(quantized)(given)).reshape(-1)).all()


def test_wide_layers_become_several_runs(program: LayerProgram) -> None:
    for placed, words in zip(program.layers, program.words.commands, strict=True):
        runs = sum(word >> 32 == 15 for word in words)
        outputs = placed.layer.output.shape[3]
        assert runs == (-(-outputs // 16) if placed.layer.kind in ("conv2d", "fc") else 1)


def test_what_is_refused(program: LayerProgram) -> None:
    encoder = Registers(qmlir.load_device(DEVICE))
    layer = program.layers[0].layer
    convolution, scale = layer.steps
    wide = replace(convolution, dilation=(2, 2))
    assert encoder.refuses(layer) is None
    assert "no dilations, got 2" in str(encoder.refuses(replace(layer, steps=(wide, scale))))
    assert "got convolution" in str(encoder.refuses(replace(layer, steps=(convolution,))))
    assert "one image" in str(encoder.refuses(replace(layer, output=replace(layer.output, bits=16))))
