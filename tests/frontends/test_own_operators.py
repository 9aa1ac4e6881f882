"""Operators that the program defines: imported, in the reference, called by machine code, beside integers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper, save

import qmlir
from qmlir.errors import OptionError, QmlirError
from qmlir.frontends.caffe2 import load_caffe2
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from qmlir.ir import own_operators
from tests.frontends.caffe2.nets import made
from tests.frontends.onnx.agreement import FLOAT
from tests.frontends.tflite.files import Op, T, model


@pytest.fixture(autouse=True)
def nothing_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test defines its own operators."""
    monkeypatch.setattr(own_operators, "_registered", {})


def network(**attributes: Any) -> Any:
    """x [1, 6] → Gemm → Swirl → Gemm → y."""
    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["h"]),
        helper.make_node("Swirl", ["h"], ["s"], domain="mine", name="swirl", **attributes),
        helper.make_node("Gemm", ["s", "v"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [1, 6])],
        [helper.make_tensor_value_info("y", FLOAT, [1, 4])],
        [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in (("w", (6, 5)), ("v", (5, 4)))],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)])


def swirl(h: Any, *, strength: float = 1.0, axes: tuple[int, ...] = ()) -> Any:
    return np.sin(h) * np.float32(strength + len(axes))


def samples() -> list[Any]:
    return list(np.random.default_rng(1).normal(size=(12, 1, 6)).astype(np.float32))


def test_without_a_definition_it_is_unknown() -> None:
    kind, _ = opaque_report(load_onnx(network()))
    assert kind.kind == "mine.Swirl"


def test_reference_and_machine_code_call_it() -> None:
    calls: list[Any] = []

    def counted(h: Any, **attributes: Any) -> Any:
        calls.append(attributes)
        return swirl(h, **attributes)

    qmlir.register_op("mine", "Swirl", counted)
    module = load_onnx(network(strength=2.0, axes=[1, 2]))
    reference, executable = qmlir.reference(module), qmlir.compile(module, 2)
    for x in samples():
        np.testing.assert_array_equal(executable(x), reference(x))
    assert calls == [{"strength": 2.0, "axes": (1, 2)}] * 24
    weights = {t.name: numpy_helper.to_array(t) for t in network().graph.initializer}
    expected = np.sin(x @ weights["w"]) * 4 @ weights["v"]
    np.testing.assert_allclose(executable(x), expected, rtol=1e-5, atol=1e-5)
    bound = executable.bind(x)
    np.testing.assert_array_equal(bound(), executable(x))


def test_several_results_of_other_shapes_and_types() -> None:
    qmlir.register_op("mine", "Pair", lambda x: (x[:, :2], x[0] * 2), shape=lambda x: [(x[0], 2), (x[1],)])
    qmlir.register_op("mine", "Truth", lambda x: x > 0, dtype=bool)
    nodes = [
        helper.make_node("Pair", ["x"], ["a", "b"], domain="mine"),
        helper.make_node("Truth", ["b"], ["c"], domain="mine"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", FLOAT, [1, 5])],
        [helper.make_tensor_value_info(n, FLOAT, None) for n in "abc"],
    )  # fmt: skip
    module = load_onnx(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)])
    )
    x = np.array([[1, -2, 3, -4, 5]], np.float32)
    for found in (qmlir.reference(module)(x), qmlir.compile(module)(x)):
        np.testing.assert_array_equal(found["a"], [[1, -2]])
        np.testing.assert_array_equal(found["b"], [2, -4, 6, -8, 10])
        np.testing.assert_array_equal(found["c"], [True, False, True, False, True])
        assert found["c"].dtype == np.bool_


def test_it_stays_on_floats_between_integers(tmp_path: Path) -> None:
    qmlir.register_op("mine", "Swirl", swirl)
    q = qmlir.quantize(qmlir.Pipeline("simplify")(load_onnx(network())), data=samples())
    (entry,) = (e for e in qmlir.decisions(q) if e.operation == "custom.call")
    assert entry.outcome == "float"
    assert "it is an operator that the program defines, on floats" in entry.reason
    assert [e.outcome for e in qmlir.decisions(q) if e.operation == "nn.fully_connected"] == ["quantized"] * 2
    for each in (q, *qmlir_saved(q, tmp_path)):
        executable, reference = qmlir.compile(each), qmlir.reference(each)
        for x in samples():
            np.testing.assert_array_equal(executable(x), reference(x))


def qmlir_saved(module: Any, folder: Path) -> list[Any]:
    qmlir.save(module, folder / "net.mlir")
    return [qmlir.load(folder / "net.mlir")]


def test_the_host_of_a_device_calls_it() -> None:
    qmlir.register_op("mine", "Swirl", swirl)
    module = qmlir.Pipeline("simplify")(load_onnx(network()))
    q = qmlir.quantize(module, data=samples(), target="nvdla-small")
    simulated, reference = qmlir.compile(q, target="nvdla-small"), qmlir.reference(q)
    for x in samples()[:3]:
        np.testing.assert_array_equal(simulated(x), reference(x))


def test_a_custom_operator_of_a_tflite_file() -> None:
    qmlir.register_op("tflite", "Doubled", lambda x, by=2: x * np.float32(by))
    tensors = [T("x", (1, 4)), T("y", (1, 4)), T("z", (1, 4))]
    data = model(tensors, [Op("CUSTOM.Doubled", [0], [1], options={"by": 3}), Op("RELU", [1], [2])], [0], [2])
    module = load_tflite(data)
    x = np.array([[1, -2, 3, -4]], np.float32)
    for found in (qmlir.reference(module)(x), qmlir.compile(module)(x)):
        np.testing.assert_array_equal(found, [[3, 0, 9, 0]])


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda h: 1 / 0, "its function must not fail, got ZeroDivisionError: division by zero"),
        (lambda h: h[0], r"its function must return float32\[1, 5\], got float32\[5\]"),
        (lambda h: h.astype(np.float64), r"must return float32\[1, 5\], got float64\[1, 5\]"),
        (lambda h: (h, h), r"got float32\[1, 5\], float32\[1, 5\]"),
    ],
)
def test_functions_that_fail(function: Any, error: str) -> None:
    """The error of the function is that of the call, in the reference and in machine code."""
    qmlir.register_op("mine", "Swirl", function)
    module = load_onnx(network())
    for run in (qmlir.reference(module), executable := qmlir.compile(module)):
        with pytest.raises(QmlirError, match=f'operator "Swirl" of domain "mine": .*{error}'):
            run(samples()[0])
    with pytest.raises(QmlirError, match=error):
        executable.bind(samples()[0])()


@pytest.mark.parametrize(
    ("shape", "error"),
    [
        (lambda h: 1 / 0, "its shape function must return shapes, got ZeroDivisionError"),
        (lambda h: 5, "its shape function must return 1 shapes, got 5"),
        (lambda h: [h, h], "its shape function must return 1 shapes"),
        (lambda h: (1, -5), "its shape function must return 1 shapes"),
    ],
)
def test_shapes_that_cannot_be(shape: Any, error: str) -> None:
    qmlir.register_op("mine", "Swirl", swirl, shape=shape)
    with pytest.raises(QmlirError, match=error):
        load_onnx(network())


def test_a_definition_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    qmlir.register_op("mine", "Swirl", swirl)
    module = load_onnx(network())
    monkeypatch.setattr(own_operators, "_registered", {})
    for use in (lambda: qmlir.compile(module, cache=False), lambda: qmlir.reference(module)(samples()[0])):
        with pytest.raises(QmlirError, match=r'got no function; call qmlir.register_op\("mine", "Swirl", function\)'):
            use()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"domain": 3}, "register_op domain: must be text"),
        ({"name": ""}, "register_op name: must be text"),
        ({"function": 3}, "register_op function: must be a function"),
        ({"shape": (1, 2)}, "register_op shape: must be a function"),
        ({"dtype": "real"}, "register_op dtype: must be an element type of numpy"),
    ],
)
def test_definitions_that_cannot_be(given: dict[str, Any], error: str) -> None:
    with pytest.raises(OptionError, match=error):
        qmlir.register_op(**{"domain": "mine", "name": "Swirl", "function": swirl, **given})


def test_exports_refuse_it(tmp_path: Path) -> None:
    qmlir.register_op("mine", "Swirl", lambda h: h)
    module = qmlir.Pipeline("simplify")(load_onnx(network()))
    for name in ("net.onnx", "net.tflite"):
        with pytest.raises(QmlirError, match=r"custom\.call"):
            qmlir.export(module, tmp_path / name)


def test_the_cache_keeps_no_code_that_calls_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(tmp_path / "cache"))
    save(network(), str(tmp_path / "net.onnx"))
    x = samples()[0]
    for factor in (1, 3):
        qmlir.register_op("mine", "Swirl", lambda h, factor=factor: h * np.float32(factor))
        for net in (tmp_path / "net.onnx", qmlir.load(tmp_path / "net.onnx")):
            np.testing.assert_array_equal(qmlir.compile(net)(x), qmlir.reference(net)(x))
    assert not list((tmp_path / "cache").glob("*"))


def test_what_qmlir_knows_stays_as_it_is() -> None:
    qmlir.register_op("", "Relu", lambda x: x + 1)
    qmlir.register_op("", "Celu", lambda x: x + 1)
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Celu", ["a"], ["y"])]
    ends = [helper.make_tensor_value_info(n, FLOAT, [2]) for n in "xy"]
    module = load_onnx(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])))
    np.testing.assert_array_equal(qmlir.reference(module)(np.array([-1, 2], np.float32)), [0, 2])


def test_caffe2_nets_have_none() -> None:
    qmlir.register_op("mine", "Swirl", swirl)
    module = load_caffe2(made(("Swirl", "x", "y"), outputs="y"), shapes={"x": "1x4"})
    assert [kind.reason for kind in opaque_report(module)] == ["qmlir knows no Swirl"]
