"""If, Loop and Scan: what runs is imported in their place; what is not known is refused and leaves nothing behind."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qmlir.backends.reference import evaluate
from qmlir.errors import NodeError
from qmlir.frontends import walk
from qmlir.frontends.onnx import control, load_onnx
from qmlir.frontends.opaque import opaque_report
from qmlir.ir.facts import NAME
from qmlir.ir.rewriting import tensor_name
from tests.frontends.onnx.agreement import FLOAT, INT64, floats, kinds, load, main_of, node, onnxruntime_run, ops_of

BOOL = TensorProto.BOOL


def info(name: str, element: int = FLOAT, shape: Any = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def graph(name: str, nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], **constants: Any) -> Any:
    given = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    return helper.make_graph(nodes, name, inputs, outputs, given)


def network(nodes: list[onnx.NodeProto], inputs: list[Any], *outputs: str, **constants: Any) -> onnx.ModelProto:
    main = graph("main", nodes, inputs, [info(o) for o in outputs or ("y",)], **constants)
    return helper.make_model(main, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def same_as_onnxruntime(proto: onnx.ModelProto, **inputs: Any) -> Any:
    """Our outputs, which equal onnxruntime's."""
    module = load(proto)
    got = evaluate(main_of(module), [np.asarray(a) for a in inputs.values()])
    for ours, theirs in zip(got, onnxruntime_run(proto, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    return module


# ---------------------------------------------------------------------------------------------------------------
# If


def branches(condition: str = "c") -> onnx.NodeProto:
    return node(
        "If",
        condition,
        "y",
        then_branch=graph("then", [node("Add", "x one", "a"), node("Relu", "a", "b")], [], [info("b")], one=floats(3)),
        else_branch=graph("else", [node("Identity", "x", "b")], [], [info("b")]),
    )


@pytest.mark.parametrize("condition", [True, False])
def test_if_takes_a_branch(condition: bool) -> None:
    proto = network([branches()], [info("x", FLOAT, [3])], c=np.array(condition))
    module = same_as_onnxruntime(proto, x=floats(3))
    assert kinds(module) == (["nn.add", "nn.relu"] if condition else [])


def test_if_on_folded_arithmetic() -> None:
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "d"), node("Equal", "d three", "c"), branches()]
    module = same_as_onnxruntime(
        network(nodes, [info("x", FLOAT, [3])], zero=np.array(0), three=np.array(3)), x=floats(3)
    )
    assert kinds(module) == ["nn.add", "nn.relu"]


def test_if_on_an_input_is_opaque() -> None:
    module = load_onnx(network([branches()], [info("c", BOOL, []), info("x", FLOAT, [3])]))
    (found,) = opaque_report(module)
    assert (found.kind, found.reason) == ("onnx.If", 'its condition "c" is computed at run time and must be constant')


def test_names_in_a_branch() -> None:
    module = load(network([branches()], [info("x", FLOAT, [3])], c=np.array(True)))
    texts = [str(NAME.of(o)) for o in ops_of(module)]
    assert ['tensors ["y.one"]' in texts[0], 'tensors ["y.a"]' in texts[1], 'tensors ["y"]' in texts[2]] == [True] * 3


# ---------------------------------------------------------------------------------------------------------------
# Loop


def counting(condition: str = "on") -> onnx.NodeProto:
    """Adds x and the number of the run to the state, and collects the states."""
    body = graph(
        "body",
        [
            node("Cast", "i", "n", to=FLOAT), node("Add", "state x", "sum"), node("Add", "sum n", "next"),
            node("Identity", "next", "seen"), node("Identity", condition, "again"),
        ],
        [info("i", INT64, []), info("on", BOOL, []), info("state")],
        [info("again", BOOL, []), info("next"), info("seen")],
    )  # fmt: skip
    return node("Loop", "count go start", "last all", body=body)


def test_loop_is_unrolled() -> None:
    constants = {"count": np.array(3), "go": np.array(True), "start": floats(3, seed=1)}
    proto = network([counting()], [info("x", FLOAT, [3])], "last", "all", **constants)
    module = same_as_onnxruntime(proto, x=floats(3))
    assert kinds(module).count("nn.add") == 6


def test_loop_until_its_condition_is_false() -> None:
    nodes = [node("Less", "i two", "again"), node("Add", "state x", "next")]
    body = graph(
        "body",
        nodes,
        [info("i", INT64, []), info("on", BOOL, []), info("state")],
        [info("again", BOOL, []), info("next")],
        two=np.array(2),
    )
    loop = node("Loop", "_ go start", "y", body=body)
    proto = network([loop], [info("x", FLOAT, [3])], go=np.array(True), start=floats(3, seed=1))
    assert kinds(same_as_onnxruntime(proto, x=floats(3))) == ["nn.add"] * 3


def test_loop_that_never_runs() -> None:
    constants = {"count": np.array(0), "go": np.array(True), "start": floats(3, seed=1)}
    proto = network([counting(), node("Add", "last x", "y")], [info("x", FLOAT, [3])], **constants)
    assert kinds(same_as_onnxruntime(proto, x=floats(3))) == ["nn.add"]
    module = load(network([counting()], [info("x", FLOAT, [3])], "all", **constants))
    assert str(main_of(module).function_type.outputs.data[0]) == "tensor<0x3xf32>"
    assert kinds(module) == []


@pytest.mark.parametrize("runs", [0, 1, 2])
def test_a_loop_that_collects_what_is_not_known(runs: int) -> None:
    body = graph(
        "body",
        [helper.make_node("Unknown", ["state"], ["seen"], domain="elsewhere"), node("Identity", "on", "again"),
         node("Add", "state x", "next")],
        [info("i", INT64, []), info("on", BOOL, []), info("state")],
        [info("again", BOOL, []), info("next"), info("seen")],
    )  # fmt: skip
    constants = {"count": np.array(runs), "go": np.array(True), "start": floats(3)}
    proto = network(
        [node("Loop", "count go start", "last all", body=body)], [info("x", FLOAT, [3])], "all", **constants
    )
    module = load_onnx(proto)
    module.verify()
    reasons = [f"{o.kind}: {o.reason}" for o in opaque_report(module)]
    assert any("is not known" in r or "Unknown" in r for r in reasons)


def test_tensors_have_names_of_their_own() -> None:
    constants = {"count": np.array(3), "go": np.array(True), "start": floats(3, seed=1)}
    module = load(network([counting()], [info("x", FLOAT, [3])], "last", "all", **constants))
    names = [tensor_name(o.results[0]) for o in ops_of(module) if o.name != "nn.constant"]
    assert len(names) == len(set(names))


def test_a_loop_refused_at_last_leaves_nothing_behind() -> None:
    constants = {"count": np.array(3), "go": np.array(True), "start": floats(3, seed=1)}
    proto = network([counting("flag")], [info("x", FLOAT, [3]), info("flag", BOOL, [])], "last", **constants)
    module = load_onnx(proto)
    module.verify()
    assert [o.name for o in ops_of(module) if o.name != "nn.constant"] == ["qmlir.opaque"]
    assert "its condition after a run" in opaque_report(module)[0].reason
    assert "last.0" not in str(module)


def test_loops_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MOST_RUNS", 50)
    constants = {"count": np.array(1 << 40), "go": np.array(True), "start": floats(3)}
    proto = network([counting()], [info("x", FLOAT, [3])], "last", **constants)
    assert opaque_report(load_onnx(proto))[0].reason == "it runs more than 50 times"
    monkeypatch.setattr(walk, "MOST_OPERATORS", 100)
    assert opaque_report(load_onnx(proto))[0].reason == "what it stands for has more than 100 nodes"


def test_a_loop_in_a_loop() -> None:
    inner = graph(
        "inner",
        [node("Add", "state x", "next"), node("Identity", "on", "again")],
        [info("i", INT64, []), info("on", BOOL, []), info("state")],
        [info("again", BOOL, []), info("next")],
    )
    body = graph(
        "outer",
        [node("Loop", "count go outer_state", "done", body=inner), node("Identity", "outer_on", "outer_again")],
        [info("j", INT64, []), info("outer_on", BOOL, []), info("outer_state")],
        [info("outer_again", BOOL, []), info("done")],
    )
    proto = network(
        [node("Loop", "count go start", "y", body=body)], [info("x", FLOAT, [3])],
        count=np.array(2), go=np.array(True), start=floats(3, seed=1),
    )  # fmt: skip
    assert kinds(same_as_onnxruntime(proto, x=floats(3))) == ["nn.add"] * 4


def test_a_body_that_does_not_fit() -> None:
    loop = counting()
    del loop.attribute[0].g.input[2]
    constants = {"count": np.array(2), "go": np.array(True), "start": floats(3)}
    with pytest.raises(NodeError, match="its subgraph must take 3 inputs, got 2"):
        load_onnx(network([loop], [info("x", FLOAT, [3])], "last", **constants))
    del loop.attribute[0].g.output[1:]
    with pytest.raises(NodeError, match="must have at least 2 outputs, got 1"):
        load_onnx(network([loop], [info("x", FLOAT, [3])], "last", **constants))


# ---------------------------------------------------------------------------------------------------------------
# Scan


@pytest.mark.parametrize("backwards", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scan(axis: int, backwards: int) -> None:
    body = graph(
        "body",
        [node("Add", "state slice", "next"), node("Relu", "next", "seen")],
        [info("state", FLOAT, [4]), info("slice", FLOAT, [4])],
        [info("next", FLOAT, [4]), info("seen", FLOAT, [4])],
    )
    scan = node(
        "Scan", "start x", "last all", body=body, num_scan_inputs=1, scan_input_axes=[axis],
        scan_input_directions=[backwards], scan_output_axes=[axis], scan_output_directions=[backwards],
    )  # fmt: skip
    shape = [3, 4] if axis == 0 else [4, 3]
    proto = network([scan], [info("x", FLOAT, shape)], "last", "all", start=floats(4, seed=1))
    same_as_onnxruntime(proto, x=floats(*shape))


def test_scan_over_a_batch() -> None:
    body = graph(
        "body",
        [node("Add", "state slice", "next"), node("Identity", "next", "seen")],
        [info("state", FLOAT, [2]), info("slice", FLOAT, [2])],
        [info("next", FLOAT, [2]), info("seen", FLOAT, [2])],
    )
    scan = node("Scan", "_ start x", "last all", body=body, num_scan_inputs=1)
    main = graph(
        "main", [scan], [info("start", FLOAT, [2, 2]), info("x", FLOAT, [2, 3, 2])], [info("last"), info("all")]
    )
    proto = helper.make_model(main, opset_imports=[helper.make_opsetid("", 8)], ir_version=8)
    start, x = floats(2, 2), floats(2, 3, 2, seed=1)
    last, every = evaluate(main_of(load(proto)), [start, x])
    np.testing.assert_allclose(every, start[:, None] + np.cumsum(x, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(last, every[:, -1])
