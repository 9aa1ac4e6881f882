"""Two forms of a network side by side: the float file, the quantized network, its exports in their own runtimes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.analysis import other_runtimes
from qmlir.analysis.crosscheck import crosscheck, parted
from qmlir.errors import FileError, OptionError, QmlirError, QmlirWarning, UnsupportedError
from tests.cli.small import Small, run, write_small


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """The network, quantized as q.mlir, and exported as q.onnx and q.tflite."""
    small = write_small(tmp_path_factory.mktemp("crosscheck"))
    q = qmlir.quantize(small.onnx, data=samples_of(small))
    qmlir.save(q, small / "q.mlir")
    qmlir.export(q, small / "q.onnx", activations="kept")
    qmlir.export(q, small / "q.tflite")
    return small


def samples_of(small: Small) -> list[Any]:
    return [each[None] for each in small.samples]


@pytest.mark.parametrize(
    ("first", "second", "maker"),
    [
        ("q.mlir@reference", "q.onnx", "Conv"),
        ("q.mlir@reference", "q.tflite", "CONV_2D"),
        pytest.param("small.onnx", "q.mlir", "nn.conv2d", marks=pytest.mark.slow),
        pytest.param("small.onnx@cpu", "q.onnx", "Conv", marks=pytest.mark.slow),
        pytest.param("q.mlir@nmp", "q.mlir", "nn.conv2d", marks=pytest.mark.slow),
    ],
)
def test_forms_of_one_network_agree_as_far_as_their_bits_allow(
    small: Small, first: str, second: str, maker: str
) -> None:
    found = crosscheck(str(small / first), str(small / second), samples_of(small)[:2])
    assert found.first is None
    rows = {row.tensor: row for row in found.rows}
    assert {"active", "scores"} <= rows.keys()
    assert rows["active"].operation == maker
    assert rows["scores"].bits == 8
    assert (rows["scores"].sqnr or 0) > 30
    assert found.samples == 2


def test_the_first_tensor_that_diverges_and_why(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    policy = {"rules": [{"name": "active", "range": [0.0, 0.05]}]}
    q = qmlir.quantize(small.onnx, data=samples_of(small), policy=policy)
    qmlir.save(q, small / "clipped.mlir")
    command = ("crosscheck", f"{small.onnx}@reference", f"{small / 'clipped.mlir'}@reference", "--data", small.data)
    assert run(*command, "--json", small / "c.json") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "diverge, the first is active (nn.conv2d: i8 activations" in out
    document = json.loads((small / "c.json").read_text())
    assert document["diverging"] == "active"
    (row,) = (row for row in document["tensors"] if row["tensor"] == "active")
    assert row["diverges"]
    assert row["sqnr"] < row["allowed"] / 2
    assert run(*command, "--fail") == 1
    assert "must agree as far as their bits allow, got active that is further off" in capsys.readouterr().err


@pytest.mark.parametrize("second", ["@reference", ".onnx"])
def test_floats_behind_integers_have_the_bits_of_these(tmp_path: Path, second: str) -> None:
    """A logarithm on floats is as close as its argument, which a layer of 8 bits gives."""
    random = np.random.default_rng(3)
    w = random.normal(size=(16, 16)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["product"]),
        onnx.helper.make_node("Softplus", ["product"], ["positive"]),
        onnx.helper.make_node("Log", ["positive"], ["y"]),
    ]
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 16]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], [onnx.numpy_helper.from_array(w, "w")])
    path = tmp_path / "f.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), str(path))
    samples = list(random.normal(size=(20, 1, 16)).astype(np.float32))
    q = qmlir.quantize(path, data=samples, policy={"rules": [{"name": "y", "keep-float": True}]})
    qmlir.save(q, tmp_path / "q.mlir")
    form = tmp_path / "q.mlir@reference"
    if second == ".onnx":
        form = tmp_path / "q.onnx"
        qmlir.export(q, form)
    found = crosscheck(f"{path}@reference", form, samples)
    (last,) = (row for row in found.rows if row.tensor == "y")
    assert last.bits == 8
    assert found.first is None


def test_an_export_that_was_changed_is_caught(small: Small, tmp_path: Path) -> None:
    """A file whose second layer has other weights differs from there on."""
    model = onnx.load(str(small / "q.onnx"))
    (weights,) = (each for each in model.graph.initializer if "dense" in each.name and each.dims[:] == [3, 64])
    array = onnx.numpy_helper.to_array(weights)
    weights.CopyFrom(onnx.numpy_helper.from_array(-array, weights.name))
    onnx.save(model, str(tmp_path / "wrong.onnx"))
    found = crosscheck(f"{small / 'q.mlir'}@reference", tmp_path / "wrong.onnx", samples_of(small))
    assert found.first is not None
    assert found.first.tensor == "scores"
    assert "i8 weights per channel" in found.first.why


def test_a_factor_for_each_channel_is_no_error_inside(small: Small) -> None:
    """Equalization gives channels factors that the next layer takes back; an output has none."""
    q = qmlir.load(small / "q.mlir")
    names = [op for op in q.walk() if "qmlir.channel_factors" in op.attributes]
    found = crosscheck(f"{small.onnx}@reference", q, samples_of(small))
    assert {row.tensor for row in found.rows if row.scaled} <= {"active", "pooled"}
    assert bool(names) == any(row.scaled for row in found.rows)


def test_wrong_uses(small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = samples_of(small)
    with pytest.raises(QmlirError, match="at least one sample"):
        crosscheck(small.onnx, small / "q.mlir", [])
    with pytest.raises(OptionError, match="must be one of cpu, reference"):
        crosscheck(f"{small / 'q.mlir'}@npm", small / "q.mlir", data)
    (small / "broken.npz").write_bytes(b"no model")
    with pytest.raises(FileError, match=r"must be an \.onnx"):
        crosscheck(small / "broken.npz", small / "q.mlir", data)
    monkeypatch.setattr(other_runtimes, "find_spec", lambda _: None)
    with pytest.raises(UnsupportedError, match="runs in onnxruntime, which is not installed; install it: pip install"):
        crosscheck(small.onnx, small / "q.mlir", data)
    assert crosscheck(f"{small.onnx}@cpu", small / "q.mlir", data).first is None  # as the error advises
    assert run("crosscheck", small / "q.tflite", small / "q.mlir", "--data", small.data) == 1
    assert "q.tflite@cpu" in capsys.readouterr().err


def test_a_file_that_its_runtime_refuses(small: Small, tmp_path: Path) -> None:
    model = onnx.load(str(small.onnx))
    model.ir_version = 99
    onnx.save(model, str(tmp_path / "new.onnx"))
    with pytest.raises(FileError, match="must run in onnxruntime on these samples"):
        crosscheck(tmp_path / "new.onnx", f"{small / 'q.mlir'}@reference", samples_of(small)[:1])


def filtered(folder: Path) -> Path:
    """A network with a state, as a file that does not name it: present = 0.9 · past + 0.1 · x, y = relu(present)."""
    value, node = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    nodes = [
        node("Mul", ["past", "keep"], ["decayed"]),
        node("Mul", ["x", "share"], ["part"]),
        node("Add", ["decayed", "part"], ["present"]),
        node("Relu", ["present"], ["y"]),
    ]
    inputs, outputs = (
        [value(name, onnx.TensorProto.FLOAT, [1, 4]) for name in names] for names in (["x", "past"], ["y", "present"])
    )
    held = [onnx.numpy_helper.from_array(np.array(x, np.float32), name) for name, x in (("keep", 0.9), ("share", 0.1))]
    graph = onnx.helper.make_graph(nodes, "filter", inputs, outputs, held)
    opset = [onnx.helper.make_opsetid("", 13)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), str(folder / "filter.onnx"))
    return folder / "filter.onnx"


STATE = {"past": "present"}


def steps(count: int) -> list[Any]:
    draw = np.random.default_rng(0)
    return [draw.uniform(0, 1, (1, 4)).astype(np.float32) for _ in range(count)]


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network with a state, quantized, and exported."""
    folder = tmp_path_factory.mktemp("stream")
    module = qmlir.load(filtered(folder), state=STATE)
    q = qmlir.quantize(module, data=steps(60), precision="int16", weight_precision="int8")
    qmlir.save(module, folder / "filter.mlir")
    qmlir.save(q, folder / "q.mlir")
    qmlir.export(qmlir.quantize(module, data=steps(60)), folder / "q.onnx", activations="kept")
    qmlir.export(qmlir.quantize(module, data=steps(60)), folder / "q.tflite")
    return folder


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("filter.onnx", "q.mlir@reference"),
        ("filter.onnx@cpu", "filter.onnx"),
        ("q.onnx@reference", "q.onnx"),
        ("q.tflite@reference", "q.tflite"),
    ],
)
def test_forms_with_states_agree_step_by_step(stream: Path, first: str, second: str) -> None:
    data = steps(12)
    found = crosscheck(str(stream / first), str(stream / second), [data[:8], data[8:]], state=STATE)
    assert (found.first, found.samples, found.starts) == (None, 12, (0, 8))
    rows = {row.tensor: row for row in found.rows}
    y = rows.get("y") or rows["y.1"]  # before the DequantizeLinear of a file
    assert (y.sqnr or 0) > 30
    assert "decayed" in rows


def test_the_first_step_that_diverges_and_why(stream: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A range of the first steps is exceeded later."""
    module = qmlir.load(stream / "filter.mlir")
    with pytest.warns(QmlirWarning, match="still grows"):
        q = qmlir.quantize(module, data=[steps(10)], measure=False)
    qmlir.save(q, stream / "early.mlir")
    found = crosscheck(module, q, steps(60))
    assert found.first is not None
    assert found.first.tensor in ("past", "decayed", "present")
    assert (found.first.sample or 0) > 8
    assert "of its values lie outside of [" in found.first.why
    np.save(stream / "x.npy", np.stack(steps(60)))
    forms = (f"{stream / 'filter.onnx'}", f"{stream / 'early.mlir'}@reference")
    assert run("crosscheck", *forms, "--state", "past=present", "--data", stream / "x.npy", "--sequence", 30) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "diverge, the first is" in out
    assert "in sample" in out


def test_only_one_form_with_states(stream: Path) -> None:
    with pytest.raises(QmlirError, match="both forms must have the same states, got 0 and 1; name the states of both"):
        crosscheck(stream / "filter.onnx", stream / "q.mlir", steps(2))
    assert crosscheck(stream / "filter.onnx", stream / "q.mlir", steps(2), state=STATE).samples == 2


def test_where_a_form_runs(tmp_path: Path) -> None:
    (tmp_path / "a@b.onnx").write_bytes(b"")
    assert parted(tmp_path / "a@b.onnx") == (tmp_path / "a@b.onnx", "")
    assert parted("net.mlir@nmp") == (Path("net.mlir"), "nmp")
    assert parted("net.onnx") == (Path("net.onnx"), "")
