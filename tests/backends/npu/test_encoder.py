"""A block of a transformer on devices: all that its host computes is integer, with the reference's bits, and proved."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qmlir
from qmlir.analysis.certify import certificate_of_program
from qmlir.checker import check_certificate
from qmlir.cli.main import main

LENGTH, WIDTH, HEADS, INNER = 8, 16, 2, 32


def encoder() -> onnx.ModelProto:
    """An encoder block, [1, length, width]: attention of two heads, layer norms, and a dense part with GELU."""
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
        split = constant(f"{name}.shape", [1, LENGTH, HEADS, WIDTH // HEADS], np.int64)
        x = node("Reshape", [dense("x", name, WIDTH, WIDTH), split], f"{name}.split")
        return node("Transpose", [x], f"{name}.heads", perm=order)

    def normal(x: str, name: str) -> str:
        scale = constant(f"{name}.scale", 1 + rng.normal(size=WIDTH) / 10)
        return node("LayerNormalization", [x, scale, constant(f"{name}.b", rng.normal(size=WIDTH) / 10)], name)

    q, k, v = head("query", [0, 2, 1, 3]), head("key", [0, 2, 3, 1]), head("value", [0, 2, 1, 3])
    factor = constant("factor", np.sqrt(HEADS / WIDTH))
    weights = node("Softmax", [node("Mul", [node("MatMul", [q, k], "scores"), factor], "scaled")], "weights", axis=-1)
    context = node("Transpose", [node("MatMul", [weights, v], "sums")], "context", perm=[0, 2, 1, 3])
    joined = node("Reshape", [context, constant("joined.shape", [1, LENGTH, WIDTH], np.int64)], "joined")
    first = normal(node("Add", [dense(joined, "out", WIDTH, WIDTH), "x"], "attended"), "norm1")
    inner = node("Gelu", [dense(first, "wide", WIDTH, INNER)], "gelu")
    normal(node("Add", [dense(inner, "narrow", INNER, WIDTH), first], "added"), "y")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, LENGTH, WIDTH]) for n in "xy")
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "encoder", [x], [y], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["ethos-u55-like", "vta"])
def test_an_encoder_block_is_integer_on_a_device(device: str, tmp_path: Path) -> None:
    onnx.save(encoder(), tmp_path / "encoder.onnx")
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(12, 1, LENGTH, WIDTH)).astype(np.float32)
    quantized = qmlir.quantize(tmp_path / "encoder.onnx", data=samples, target=device)
    simulated, native, reference = (
        qmlir.compile(quantized, target=device),
        qmlir.compile(quantized),
        qmlir.reference(quantized),
    )
    for sample in (*samples[:4], *(3 * samples[4:8])):
        expected = reference(sample)
        assert np.array_equal(simulated(sample), expected)
        assert np.array_equal(native(sample), expected)
    program, certificate = tmp_path / "encoder.npu", tmp_path / "encoder.json"
    simulated.save(program)
    assert main(["certify", str(program), "-o", str(certificate)]) == 0
    assert check_certificate(certificate)["sums"] >= 3
    routines = certificate_of_program(program)["routines"]
    called = {operation["operation"] for routine in routines for operation in routine["operations"]}
    assert called >= {"qint.matmul", "qint.softmax", "qint.layer_norm"}
    floats = [each["operation"] for routine in routines for place in ("entry", "exit") for each in routine[place]]
    assert floats == ["quant.qcast", "quant.dcast"]
