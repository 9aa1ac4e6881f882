"""Several subgraphs: those that operators call, and those that signatures name. LiteRT is the oracle."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from qmlir.errors import NodeError, OptionError, QmlirError
from qmlir.frontends.opaque import opaque_report
from qmlir.frontends.tflite import load_tflite
from tests.frontends.tflite.files import Graph, Op, T, constant, model
from tests.frontends.tflite.test_cases import assert_agrees

ACT = "FusedActivationFunction"
X = np.linspace(-2, 3, 8, dtype=np.float32).reshape(2, 4)
QUANTIZED = {"dtype": np.int8, "scale": [0.05], "zero": [3]}

pytestmark = pytest.mark.filterwarnings("ignore")


def unary(kind: str, **type: Any) -> Graph:
    """A subgraph of one operator on one tensor."""
    return [T("a", (2, 4), **type), T("b", (2, 4), **type)], [Op(kind, [0], [1])], [0], [1]


def branches(condition: bool | None, **type: Any) -> bytes:
    """relu6 or abs of x by a condition, an input where it is None."""
    known = T("if", (), np.bool_) if condition is None else constant("if", np.array(condition))
    tensors = [known, T("x", (2, 4), **type), T("y", (2, 4), **type)]
    op = Op("IF", [0, 1], [2], "IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
    return model(tensors, [op], [0, 1] if condition is None else [1], [2], others=[unary("RELU6", **type),
                                                                                   unary("RELU", **type)])  # fmt: skip


@pytest.mark.parametrize("condition", [True, False])
def test_the_branch_that_runs(condition: bool) -> None:
    assert_agrees(branches(condition), [X], 0)


def test_branches_of_quantized_tensors() -> None:
    x = np.arange(-60, 60, 15).astype(np.int8).reshape(2, 4)
    assert_agrees(branches(True, **QUANTIZED), [x], 0)


def test_a_condition_that_is_computed_is_opaque() -> None:
    (kind,) = opaque_report(load_tflite(branches(None)))
    assert (kind.kind, kind.reason) == (
        "tflite.IF",
        'its condition "if" is computed at run time and must be constant',
    )


def loop(step: int, limit: int = 4) -> bytes:
    """i, x = i + step, x · 2 for as long as i < limit, from i = 0."""
    number, tensor = T("i", (), np.int32), T("x", (2, 4))
    tensors = [constant("i", np.array(0, np.int32)), tensor, T("last", (), np.int32), T("y", (2, 4))]
    op = Op("WHILE", [0, 1], [2, 3], "WhileOptions", {"CondSubgraphIndex": 1, "BodySubgraphIndex": 2})
    condition: Graph = (
        [number, tensor, constant("limit", np.array(limit, np.int32)), T("less", (), np.bool_)],
        [Op("LESS", [0, 2], [3])],
        [0, 1],
        [3],
    )
    body: Graph = (
        [number, tensor, constant("step", np.array(step, np.int32)), T("next", (), np.int32), T("twice", (2, 4))],
        [Op("ADD", [0, 2], [3], "AddOptions", {ACT: 0}), Op("ADD", [1, 1], [4], "AddOptions", {ACT: 0})],
        [0, 1],
        [3, 4],
    )
    return model(tensors, [op], [1], [2, 3], others=[condition, body])


def test_a_loop_runs_as_often_as_its_condition_holds() -> None:
    assert_agrees(loop(1), [X], 0)
    assert_agrees(loop(5), [X], 0)


@pytest.mark.slow
def test_a_loop_without_end_is_opaque() -> None:
    (kind,) = opaque_report(load_tflite(loop(0)))
    assert kind.reason == "what it stands for has more than 5000 operators"


def test_call() -> None:
    tensors = [T("x", (2, 4)), T("y", (2, 4))]
    op = Op("CALL", [0], [1], "CallOptions", {"Subgraph": 1})
    called = load_tflite(model(tensors, [op], [0], [1], others=[unary("RELU")]))
    assert not opaque_report(called)
    assert any(o.name == "nn.relu" for o in called.walk())


CALLS: dict[str, tuple[int, Sequence[Graph], str]] = {
    "no such subgraph": (7, [], "must call one of 1 subgraphs, got 7"),
    "itself": (0, [], "must not call themselves"),
    "another number of inputs": (1, [([T("a", (2, 4))], [], [], [0])], "must take its 1 inputs, got 0"),
    "another shape": (1, [([T("a", (4, 2))], [], [0], [0])], r"must have shape \[2, 4\], got \[4, 2\]"),
    "another type": (1, [([T("a", (2, 4), np.int32)], [], [0], [0])], "must be f32, got i32"),
}


@pytest.mark.parametrize("lie", CALLS)
def test_calls_that_lie(lie: str) -> None:
    index, others, message = CALLS[lie]
    tensors = [T("x", (2, 4)), T("y", (2, 4))]
    op = Op("CALL", [0], [1], "CallOptions", {"Subgraph": index})
    with pytest.raises(NodeError, match=message):
        load_tflite(model(tensors, [op], [0], [1], others=others))


def test_what_a_called_subgraph_cannot_do_its_caller_cannot() -> None:
    tensors = [T("x", (2, 4)), T("y", (2, 4))]
    op = Op("CALL", [0], [1], "CallOptions", {"Subgraph": 1})
    (kind,) = opaque_report(load_tflite(model(tensors, [op], [0], [1], others=[unary("CUSTOM.Mine")])))
    assert kind.kind == "tflite.CALL"


# ---------------------------------------------------------------------------------------------------------------
# Signatures


def two() -> bytes:
    signatures = {"encode": (0, {"image": 0}, {"code": 1}), "decode": (1, {"code": 0}, {"image": 1})}
    return model(*unary("RELU"), others=[unary("TANH")], signatures=signatures)


def operations(data: bytes, signature: str | None) -> set[str]:
    return {o.name for o in load_tflite(data, signature=signature).walk() if o.name.startswith("nn.")}


def test_a_signature_chooses_its_subgraph() -> None:
    assert operations(two(), None) == operations(two(), "encode") == {"nn.relu"}
    assert operations(two(), "decode") == {"nn.tanh"}


def test_no_such_signature() -> None:
    with pytest.raises(OptionError, match="must be one of the file's: encode, decode, got decoder"):
        load_tflite(two(), signature="decoder")
    with pytest.raises(OptionError, match="it has none"):
        load_tflite(model(*unary("RELU")), signature="decode")


def test_a_signature_of_no_subgraph() -> None:
    with pytest.raises(QmlirError, match="a signature must name a subgraph"):
        load_tflite(model(*unary("RELU"), signatures={"encode": (3, {}, {})}))
