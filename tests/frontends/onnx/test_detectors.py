"""Small detectors from the image to the boxes that are kept: imported, quantized, compiled, on a device, in files."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import qmlir
from qmlir.cli import main as driver
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.interfaces import Array

FLOAT = onnx.TensorProto.FLOAT
POST = "it is detection post-processing, which is computed on floats"


def model(nodes: list[onnx.NodeProto], outputs: list[str], constants: dict[str, Any]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "detector", [helper.make_tensor_value_info("image", FLOAT, [1, 3, 16, 16])],
        [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def backbone(rng: np.random.Generator, heads: dict[str, int]) -> tuple[list[onnx.NodeProto], dict[str, Any]]:
    """An image → features [1, 8, 4, 4] → heads of so many channels, [1, 16 places, channels]."""
    nodes = [
        helper.make_node("Conv", ["image", "w0", "b0"], ["c0"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["features"]),
    ]
    shapes = {"w0": (8, 3, 3, 3), "b0": (8,), "w1": (8, 8, 3, 3), "b1": (8,)}
    for head, channels in heads.items():
        shapes |= {f"w_{head}": (channels, 8, 1, 1), f"b_{head}": (channels,)}
        nodes += [
            helper.make_node("Conv", ["features", f"w_{head}", f"b_{head}"], [f"{head}.map"]),
            helper.make_node("Transpose", [f"{head}.map"], [f"{head}.last"], perm=[0, 2, 3, 1]),
            helper.make_node("Reshape", [f"{head}.last", f"shape_{head}"], [head]),
        ]
    constants = {name: (rng.normal(0, 0.4, shape)).astype(np.float32) for name, shape in shapes.items()}
    return nodes, constants | {f"shape_{head}": np.array([1, -1, channels]) for head, channels in heads.items()}


LIMITS = {"most": np.array([5]), "iou": np.array([0.4], np.float32), "least": np.array([0.3], np.float32)}


def ssd() -> onnx.ModelProto:
    """Anchors moved by encodings; softmax scores; the class, score and box of each detection."""
    nodes, constants = backbone(np.random.default_rng(7), {"places": 4, "logits": 4})
    grid = (np.indices((4, 4)).reshape(2, -1).T + 0.5) / 4
    constants |= LIMITS | {
        "centers": grid[None].astype(np.float32), "size": np.array([0.4], np.float32), "zero": np.array([0]),
        "two": np.array([2]), "four": np.array([4]), "last": np.array([2]), "classes": np.array([1, 2, 3]),
        "class_column": np.array([1]), "first_image": np.array(0), "axis": np.array([1]),
    }  # fmt: skip
    nodes += [
        helper.make_node("Slice", ["places", "zero", "two", "last"], ["moves"]),
        helper.make_node("Slice", ["places", "two", "four", "last"], ["grows"]),
        helper.make_node("Mul", ["moves", "size"], ["moved"]),
        helper.make_node("Add", ["moved", "centers"], ["middle"]),
        helper.make_node("Exp", ["grows"], ["factor"]),
        helper.make_node("Mul", ["factor", "size"], ["extent"]),
        helper.make_node("Sub", ["middle", "extent"], ["low"]),
        helper.make_node("Add", ["middle", "extent"], ["high"]),
        helper.make_node("Concat", ["low", "high"], ["boxes"], axis=2),
        helper.make_node("Softmax", ["logits"], ["shares"], axis=2),
        helper.make_node("Transpose", ["shares"], ["by_class"], perm=[0, 2, 1]),
        helper.make_node("Gather", ["by_class", "classes"], ["scores"], axis=1),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["selected"]),
        helper.make_node("Gather", ["selected", "last"], ["kept_column"], axis=1),
        helper.make_node("Squeeze", ["kept_column", "axis"], ["kept"]),
        helper.make_node("Gather", ["boxes", "first_image"], ["all_boxes"], axis=0),
        helper.make_node("Gather", ["all_boxes", "kept"], ["found_boxes"], axis=0),
        helper.make_node("GatherND", ["scores", "selected"], ["found_scores"]),
        helper.make_node("Gather", ["selected", "class_column"], ["found_classes"], axis=1),
    ]
    return model(nodes, ["found_boxes", "found_scores", "found_classes"], constants)


def yolo() -> onnx.ModelProto:
    """Boxes around centers, objectness times class scores, in one head; rows (image, class, box) and their boxes."""
    nodes, constants = backbone(np.random.default_rng(9), {"head": 7})
    grid = (np.indices((4, 4)).reshape(2, -1).T[None, :, ::-1]).astype(np.float32)
    constants |= LIMITS | {
        "least": np.array([0.9], np.float32), "grid": grid, "stride": np.array([4], np.float32),
        "two_f": np.array([2], np.float32),
        "parts": np.array([2, 2, 1, 2]), "box_column": np.array([0, 2]), "wide": np.array([8], np.float32),
    }  # fmt: skip
    nodes += [
        helper.make_node("Sigmoid", ["head"], ["gates"]),
        helper.make_node("Split", ["gates", "parts"], ["at", "size", "object", "class"], axis=2),
        helper.make_node("Mul", ["at", "two_f"], ["at2"]),
        helper.make_node("Add", ["at2", "grid"], ["cell"]),
        helper.make_node("Mul", ["cell", "stride"], ["center"]),
        helper.make_node("Mul", ["size", "size"], ["squared"]),
        helper.make_node("Mul", ["squared", "wide"], ["extent"]),
        helper.make_node("Concat", ["center", "extent"], ["boxes"], axis=2),
        helper.make_node("Mul", ["object", "class"], ["confidence"]),
        helper.make_node("Transpose", ["confidence"], ["scores"], perm=[0, 2, 1]),
        helper.make_node(
            "NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["rows"], center_point_box=1
        ),
        helper.make_node("Gather", ["rows", "box_column"], ["places"], axis=1),
        helper.make_node("GatherND", ["boxes", "places"], ["found"]),
    ]
    return model(nodes, ["rows", "found"], constants)


def images(count: int) -> list[Array]:
    return list(np.random.default_rng(3).normal(size=(count, 1, 3, 16, 16)).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("make", [ssd, yolo])
def test_the_whole_network(make: Any) -> None:
    proto = make()
    names = [o.name for o in proto.graph.output]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    module = load_onnx(proto)
    executable, reference, sizes = qmlir.compile(module, cache=False), qmlir.reference(module), set[int]()
    for image in images(6):
        expected = session.run(None, {"image": image})
        sizes.add(len(np.asarray(expected[0])))
        for name, want in zip(names, map(np.asarray, expected), strict=True):
            got = executable(image)[name]
            np.testing.assert_array_equal(got, reference(image)[name])
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert len(sizes) > 1
    q = qmlir.quantize(qmlir.Pipeline("simplify")(module), data=images(20))
    decisions = qmlir.decisions(q)
    assert [POST in e.reason for e in decisions if e.operation == "nn.non_max_suppression"] == [True]
    assert all(e.outcome == "quantized" for e in decisions if e.operation == "nn.conv2d")
    quantized, meaning = qmlir.compile(q, cache=False), qmlir.reference(q)
    for image in images(6):
        for one, other in zip(quantized(image).values(), meaning(image).values(), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_on_a_device(tmp_path: Path) -> None:
    module = qmlir.Pipeline("simplify")(load_onnx(yolo()))
    q = qmlir.quantize(module, data=images(20), target="nvdla-small")
    simulated, reference = qmlir.compile(q, target="nvdla-small"), qmlir.reference(q)
    simulated.save(tmp_path / "net.npu")
    loaded = qmlir.load_program(tmp_path / "net.npu", "nvdla-small")
    for image in images(2):
        for network in (simulated, loaded):
            for one, other in zip(network(image).values(), reference(image).values(), strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of several samples has as many rows as the sample with the most, and how many count of each."""
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path / "cache"))
    onnx.save(yolo(), str(tmp_path / "net.onnx"))
    np.savez(tmp_path / "data.npz", image=np.concatenate(images(6)))
    executable = qmlir.compile(load_onnx(yolo()), cache=False)
    for _ in range(2):  # the second time from the cache of machine code
        words = ["run", "net.onnx", "--data", "data.npz", "-o", "out.npz", "--quiet"]
        monkeypatch.chdir(tmp_path)
        assert driver.main(words) == 0
        found = np.load("out.npz")
        assert list(found) == ["rows", "found", "rows.count"]
        assert found["rows"].shape == (6, found["rows.count"].max(), 3)
        for image, rows, count in zip(images(6), found["rows"], found["rows.count"], strict=True):
            np.testing.assert_array_equal(executable(image)["rows"], rows[:count])
            assert (rows[count:] == -1).all()
    call = executable.bind(images(1)[0])
    assert call()["rows"].shape == (10, 3)
    assert call()["rows.count"] == len(executable(images(1)[0])["rows"])


@pytest.mark.slow
def test_a_module_keeps_what_counts(tmp_path: Path) -> None:
    module = load_onnx(yolo())
    qmlir.save(module, tmp_path / "net.mlir")
    for image in images(2):
        kept = qmlir.compile(qmlir.load(tmp_path / "net.mlir"), cache=False)(image)
        np.testing.assert_array_equal(kept["rows"], qmlir.reference(module)(image)["rows"])
