"""Locations of the source model: what importers state, what passes keep, and what text holds."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from xdsl.dialects.builtin import FusedLoc, ModuleOp
from xdsl.ir import Operation

import qmlir
from qmlir.cli import opt
from qmlir.dialects.nn import ConstantOp, ReluOp
from qmlir.dialects.nn.movement import TransposeOp
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.ir.interfaces import TensorOp
from qmlir.ir.locations import MOST_PARTS, UNKNOWN, inherit, node_location, place_of
from qmlir.ir.names import names_of
from tests.conftest import ROOT
from tests.frontends.caffe2.nets import made
from tests.frontends.onnx.agreement import floats, model, node
from tests.frontends.tflite.files import Op, T
from tests.frontends.tflite.files import model as tflite_model

DIGITS = ROOT / "examples" / "digits"


def tensor_operations(module: ModuleOp) -> Iterable[Operation]:
    """The operations that compute or move data."""
    return (o for o in module.walk() if isinstance(o, TensorOp) and not isinstance(o, ConstantOp))


def places(module: ModuleOp) -> list[tuple[str, str, str, int]]:
    """The kind of each operation on tensors, and where it comes from; movement that importers add is left out."""
    found = [(o.name, place_of(o.location)) for o in tensor_operations(module) if not isinstance(o, TransposeOp)]
    return [(kind, p.name, p.file, p.line) for kind, p in found if p is not None]


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """Two layers, the second without a name, and a node that nothing reads."""
    nodes = [node("Conv", "x w", "a", name="first"), node("Relu", "a", "unread"), node("Relu", "a", "b"),
             node("Conv", "b v", "y")]  # fmt: skip
    constants = {"w": floats(4, 3, 3, 3), "v": floats(2, 4, 1, 1)}
    onnx.save(model(nodes, {"x": [1, 3, 6, 6]}, constants, opset=17), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_onnx_nodes(network: Path) -> None:
    """The name of a node, or of its output, and its number in the file; constants have the name of their tensor."""
    module = qmlir.load(network)
    assert places(module) == [
        ("nn.conv2d", "first", "net.onnx", 1), ("nn.relu", "b", "net.onnx", 3), ("nn.conv2d", "y", "net.onnx", 4)
    ]  # fmt: skip
    constants = [place_of(o.location) for o in module.walk() if isinstance(o, ConstantOp)]
    assert [(p.name, p.file) for p in constants if p] == [("w", ""), ("v", "")]


def test_nodes_of_functions_are_the_call(tmp_path: Path) -> None:
    """What a function of the model holds comes from the node that calls it."""
    body = [helper.make_node("Sin", ["p"], ["q"]), helper.make_node("Cos", ["q"], ["r"])]
    function = helper.make_function("own", "Twice", ["p"], ["r"], body, [helper.make_opsetid("", 17)])
    call = helper.make_node("Twice", ["a"], ["y"], "called", domain="own")
    proto = model([node("Relu", "x", "a"), call], {"x": [2]}, opset=17)
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(function)
    onnx.save(proto, tmp_path / "net.onnx")
    assert places(qmlir.load(tmp_path / "net.onnx"))[1:] == [
        ("nn.sin", "called", "net.onnx", 2), ("nn.cos", "called", "net.onnx", 2)
    ]  # fmt: skip


def test_tflite_operators(tmp_path: Path) -> None:
    tensors = [T("x", (1, 4)), T("a", (1, 4)), T("y", (1, 4))]
    data = tflite_model(tensors, [Op("COS", [0], [1]), Op("SIN", [1], [2])], [0], [2])
    (tmp_path / "net.tflite").write_bytes(data)
    assert places(qmlir.load(tmp_path / "net.tflite")) == [
        ("nn.cos", "a", "net.tflite", 1), ("nn.sin", "y", "net.tflite", 2)
    ]  # fmt: skip


def test_caffe2_operators(tmp_path: Path) -> None:
    (tmp_path / "net.pb").write_bytes(made(("Sigmoid", "x", "a"), ("Tanh", "a", "y"), outputs="y"))
    found = places(load_caffe2(tmp_path / "net.pb", shapes={"x": "1x4"}))
    assert [(name, file, line) for _, name, file, line in found] == [("a", "net.pb", 1), ("y", "net.pb", 2)]


def test_passes_keep_locations() -> None:
    """Through fusing, quantizing and the integer level, each operation comes from the nodes that it is named by."""
    samples = list(np.load(DIGITS / "digits.npz")["calibration_images"][:4, None])
    quantized = qmlir.quantize(DIGITS / "digits.onnx", data=samples)
    for module in (quantized, qmlir.to_integers(quantized)):
        named = [o for o in tensor_operations(module) if names_of(o).nodes]
        assert len(named) >= 7
        for op in named:
            place = place_of(op.location)
            assert place is not None
            assert place.name == "+".join(names_of(op).nodes)
            assert place.file == "digits.onnx"
    joined = next(o for o in quantized.walk() if o.name == "nn.conv2d" and isinstance(o.location, FusedLoc))
    assert place_of(joined.location) == qmlir_place("conv1+relu1", 1)


def qmlir_place(name: str, line: int) -> object:
    """A place in the digits network."""
    return place_of(node_location(name, "digits.onnx", line))


def test_text_has_locations_where_they_are_asked_for(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As mlir-opt prints them; text that has them is read with them."""
    assert opt.main(["--simplify", "--elide-weights", "--mlir-print-debuginfo", str(network)]) == 0
    text = capsys.readouterr().out
    assert 'loc(fused["first"("net.onnx":1:0), "b"("net.onnx":3:0)])' in text
    assert 'loc("y"("net.onnx":4:0))' in text
    path = network.parent / "net.mlir"
    assert opt.main(["--simplify", "--mlir-print-debuginfo", str(network), "-o", str(path)]) == 0
    assert opt.main(["--elide-weights", "--mlir-print-debuginfo", str(path)]) == 0
    assert 'loc(fused["first"("net.onnx":1:0), "b"("net.onnx":3:0)])' in capsys.readouterr().out
    assert opt.main(["--elide-weights", str(network)]) == 0
    assert "loc(" not in capsys.readouterr().out


def test_fused_locations_are_bounded() -> None:
    """An operation that stands for a thousand nodes names the first of them, and replacing it takes no longer."""
    ops = [ReluOp.create(operands=[], result_types=[]) for _ in range(50)]
    for i, op in enumerate(ops[:-1]):
        op.location = node_location(f"n{i}", "net.onnx", i + 1)
    inherit(ops[-1:], ops[:-1])
    fused = ops[-1].location
    assert isinstance(fused, FusedLoc)
    place = place_of(fused)
    assert place is not None
    assert (len(place.name.split("+")), place.line) == (MOST_PARTS, 1)
    new = ReluOp.create(operands=[], result_types=[])
    inherit([new], [ops[-1], ops[3]])
    assert place_of(new.location) == place
    assert place_of(UNKNOWN) is None
