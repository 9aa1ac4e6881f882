"""A block of a transformer on devices: the reference's bits, proved; which device computes which of its operations."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.certify import certificate_of_program
from qmlir.backends.npu.execute import Simulator
from qmlir.checker import check_certificate
from qmlir.cli.main import main
from qmlir.compiler import with_interface
from qmlir.isa.commands import Arrange, Mark
from tests.backends.npu.board import Board
from tests.backends.npu.test_firmware import functions_of

COMPUTED = ("nmp", "ethos-u55-like", "npu-transformer")
"""Devices that compute products of two matrices, softmax and normalizations."""


class Size(NamedTuple):
    """The size of a block: positions, channels, heads, and channels of the dense part."""

    length: int = 8
    width: int = 16
    heads: int = 2
    inner: int = 32

    def samples(self, count: int) -> npt.NDArray[np.float32]:
        """Random inputs."""
        shape = (count, 1, self.length, self.width)
        return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def encoder(size: Size) -> onnx.ModelProto:
    """An encoder block, [1, length, width]: attention of some heads, layer norms, and a dense part with GELU."""
    length, width, heads, wide = size
    rng = np.random.default_rng(0)
    constants: dict[str, npt.NDArray[Any]] = {}
    nodes: list[onnx.NodeProto] = []

    def constant(name: str, values: object, kind: type[np.generic] = np.float32) -> str:
        constants[name] = np.array(values, kind)
        return name

    def node(kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def dense(x: str, name: str, into: int, out: int) -> str:
        w = constant(f"{name}.w", rng.normal(size=(into, out)) / np.sqrt(into))
        b = constant(f"{name}.b", rng.normal(size=out) / 10)
        return node("Add", [node("MatMul", [x, w], f"{name}.product"), b], name)

    def head(name: str, order: list[int]) -> str:
        split = constant(f"{name}.shape", [1, length, heads, width // heads], np.int64)
        x = node("Reshape", [dense("x", name, width, width), split], f"{name}.split")
        return node("Transpose", [x], f"{name}.heads", perm=order)

    def normal(x: str, name: str) -> str:
        scale = constant(f"{name}.scale", 1 + rng.normal(size=width) / 10)
        return node("LayerNormalization", [x, scale, constant(f"{name}.b", rng.normal(size=width) / 10)], name)

    q, k, v = head("query", [0, 2, 1, 3]), head("key", [0, 2, 3, 1]), head("value", [0, 2, 1, 3])
    factor = constant("factor", np.sqrt(heads / width))
    weights = node("Softmax", [node("Mul", [node("MatMul", [q, k], "scores"), factor], "scaled")], "weights", axis=-1)
    context = node("Transpose", [node("MatMul", [weights, v], "sums")], "context", perm=[0, 2, 1, 3])
    joined = node("Reshape", [context, constant("joined.shape", [1, length, width], np.int64)], "joined")
    first = normal(node("Add", [dense(joined, "out", width, width), "x"], "attended"), "norm1")
    inner = node("Gelu", [dense(first, "wide", width, wide)], "gelu")
    normal(node("Add", [dense(inner, "narrow", wide, width), first], "added"), "y")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, length, width]) for n in "xy")
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "encoder", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def quantized(size: Size, device: str, folder: Path, count: int = 12) -> ModuleOp:
    """The block, quantized for a device."""
    onnx.save(encoder(size), folder / "encoder.onnx")
    return qmlir.quantize(folder / "encoder.onnx", data=size.samples(count), target=device, measure=False)


@pytest.mark.slow
@pytest.mark.parametrize("device", [*COMPUTED, "vta"])
def test_an_encoder_block_is_integer_on_a_device(device: str, tmp_path: Path) -> None:
    size = Size()
    network, samples = quantized(size, device, tmp_path), size.samples(8)
    simulated, native, reference = (
        qmlir.compile(network, target=device),
        qmlir.compile(network),
        qmlir.reference(network),
    )
    for sample in (*samples[:4], *(3 * samples[4:])):
        expected = reference(sample)
        assert np.array_equal(simulated(sample), expected)
        assert np.array_equal(native(sample), expected)
    assert simulated.report is not None
    assert simulated.report.cycles == simulated.predicted_cycles
    program, certificate = tmp_path / "encoder.npu", tmp_path / "encoder.json"
    simulated.save(program)
    assert main(["certify", str(program), "-o", str(certificate)]) == 0
    assert check_certificate(certificate)["sums"] >= 3
    routines = certificate_of_program(program)["routines"]
    called = {operation["operation"] for routine in routines for operation in routine["operations"]}
    computing = {"qint.matmul", "qint.softmax", "qint.layer_norm"}
    assert called & computing == (set() if device in COMPUTED else computing)
    floats = [each["operation"] for routine in routines for place in ("entry", "exit") for each in routine[place]]
    assert floats == ["quant.qcast", "quant.dcast"]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["once", "late", "device"])
def test_an_encoder_block_has_the_same_outputs_through_the_runtime(order: str, tmp_path: Path) -> None:
    size = Size()
    executable = qmlir.compile(quantized(size, "npu-transformer", tmp_path), target="npu-transformer")
    board = Board(executable.program, executable.device, functions_of(executable), order=order)
    for sample in size.samples(2):
        status, outputs = board.run([sample])
        assert status == 0
        np.testing.assert_array_equal(outputs, [executable(sample)])


def test_heads_are_neither_split_nor_merged_by_copies(tmp_path: Path) -> None:
    """No layer of the device moves data only, and each product arranges one matrix for each head."""
    executable = qmlir.compile(quantized(Size(), "npu-transformer", tmp_path, 2), target="npu-transformer")
    layers, arranged = executable.program.layers, Counter[str]()
    layer = ""
    for command in executable.program.commands:
        layer = layers[command.layer] if isinstance(command, Mark) else layer
        arranged[layer] += isinstance(command, Arrange)
    assert not [name for name in layers if "heads" in name or "split" in name or name in ("context", "joined")]
    assert sorted(arranged[name] for name in layers if arranged[name]) == [2, 2]


@pytest.mark.slow
def test_the_array_is_busy_in_a_block_as_of_minilm(tmp_path: Path) -> None:
    """128 positions of 384 channels in 12 heads: the products take 60 % of the array and more, none are the host's."""
    size = Size(128, 384, 12, 1536)
    network = with_interface(quantized(size, "npu-transformer", tmp_path, 2), "int8")
    executable, reference = qmlir.compile(network, target="npu-transformer"), qmlir.reference(network)
    sample = np.random.default_rng(2).integers(-128, 128, (1, size.length, size.width)).astype(np.int8)
    expected = reference(sample)
    for simulator in ("python", "c"):
        found = Simulator(executable.program, executable.device, simulator=simulator)
        np.testing.assert_array_equal(found.run(sample)[0], expected)
        assert found.by == simulator
        assert found.report is not None
        assert found.report.products == 4 * 128 * 384**2 + 2 * 128 * 384 * 1536 + 2 * 12 * 128**2 * 32
        assert found.report.utilization >= 0.6
    assert not executable.program.routines, "the host computes a part"
