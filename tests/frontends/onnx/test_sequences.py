"""Sequences and optional tensors against onnxruntime."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import qmlir
from qmlir.errors import FileError, NodeError, OptionError
from qmlir.frontends.onnx import load_onnx
from qmlir.frontends.opaque import opaque_report
from tests.frontends.onnx.agreement import Array, floats, load, model, node, onnxruntime_run

X = {"x": floats(6, 4)}
TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, None)


def network(nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array] | None = None) -> onnx.ModelProto:
    return model(nodes, {"x": [6, 4]}, constants, opset=18)


def agrees(nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Array] | None = None) -> None:
    """On the reference and in machine code."""
    proto = network(nodes, constants)
    wanted = onnxruntime_run(proto, X)
    module = load(proto)
    for run in (qmlir.reference(module), qmlir.compile(module)):
        got = np.asarray(run(X["x"]))
        np.testing.assert_allclose(got, wanted[0], rtol=1e-6)
        assert got.shape == wanted[0].shape


def place(number: int) -> Array:
    return np.array(number, np.int64)


PARTS = node("SplitToSequence", "x sizes", "s", axis=0)
SIZES = {"sizes": np.array([1, 2, 3])}

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Array]]] = {
    "parts of given sizes": ([PARTS, node("SequenceAt", "s i")], {**SIZES, "i": place(-1)}),
    "parts of one size": ([PARTS, node("SequenceAt", "s i")], {"sizes": place(4), "i": place(1)}),
    "parts of 1": ([node("SplitToSequence", "x", "s", axis=1), node("SequenceAt", "s i")], {"i": place(2)}),
    "parts without their axis": (
        [node("SplitToSequence", "x", "s", axis=-1, keepdims=0), node("ConcatFromSequence", "s", axis=0)],
        {},
    ),
    "parts of a stated 1 without their axis": (
        [node("SplitToSequence", "x sizes", "s", axis=0, keepdims=0), node("SequenceAt", "s i")],
        {"sizes": place(1), "i": place(-2)},
    ),
    "parts of a stated 1 stacked again": (
        [node("SplitToSequence", "x sizes", "s", axis=-1, keepdims=0),
         node("ConcatFromSequence", "s", axis=-1, new_axis=1)],
        {"sizes": place(1)},
    ),
    "parts of a stated 1 in another sequence": (
        [node("SplitToSequence", "x sizes", "s", axis=-2, keepdims=0), node("SequenceAt", "s i", "a"),
         node("SequenceAt", "s j", "b"), node("SequenceConstruct", "b a b", "t"),
         node("SequenceInsert", "t a", "u"), node("ConcatFromSequence", "u", axis=0)],
        {"sizes": place(1), "i": place(0), "j": place(3)},
    ),
    "parts of a stated 1 with their axis": (
        [node("SplitToSequence", "x sizes", "s", axis=0, keepdims=1), node("SequenceAt", "s i")],
        {"sizes": place(1), "i": place(2)},
    ),
    "parts of listed 1s with their axis": (
        [node("SplitToSequence", "x sizes", "s", axis=1, keepdims=0), node("SequenceAt", "s i")],
        {"sizes": np.array([1, 1, 1, 1]), "i": place(2)},
    ),
    "one listed part with its axis": (
        [node("SplitToSequence", "x sizes", "s", axis=1, keepdims=0), node("SequenceAt", "s i")],
        {"sizes": np.array([4]), "i": place(0)},
    ),
    "parts of listed sizes with their axis": (
        [node("SplitToSequence", "x sizes", "s", axis=-2, keepdims=0), node("SequenceAt", "s i")],
        {"sizes": np.array([1, 5]), "i": place(0)},
    ),
    "stacked": (
        [node("SplitToSequence", "x", "s", axis=1), node("ConcatFromSequence", "s", axis=1, new_axis=1)],
        {},
    ),
    "joined": ([PARTS, node("ConcatFromSequence", "s", axis=0)], SIZES),
    "inserted": (
        [PARTS, node("SequenceInsert", "s x i", "t"), node("SequenceInsert", "t x", "u"),
         node("ConcatFromSequence", "u", axis=0)],
        {**SIZES, "i": place(-3)},
    ),
    "erased": (
        [PARTS, node("SequenceErase", "s i", "t"), node("SequenceErase", "t", "u"),
         node("ConcatFromSequence", "u", axis=0)],
        {**SIZES, "i": place(0)},
    ),
    "constructed": (
        [node("Relu", "x", "a"), node("SequenceConstruct", "a x c", "s"), node("ConcatFromSequence", "s", axis=1)],
        {"c": floats(6, 2, seed=4)},
    ),
    "of nothing first": (
        [node("SequenceEmpty", "", "e"), node("SequenceInsert", "e x", "s"), node("Identity", "s", "t"),
         node("SequenceAt", "t i")],
        {"i": place(0)},
    ),
    "its length": (
        [PARTS, node("SequenceLength", "s", "n"), node("Cast", "n", "f", to=TensorProto.FLOAT), node("Mul", "x f")],
        SIZES,
    ),
    "an optional": (
        [node("Optional", "x", "o"), node("OptionalHasElement", "o", "h"), node("OptionalGetElement", "o", "g"),
         node("Where", "h g c")],
        {"c": np.zeros(1, np.float32)},
    ),
    "an absent optional": (
        [node("Optional", "", "o", type=TENSOR), node("OptionalHasElement", "o", "h"), node("Where", "h c x")],
        {"c": np.zeros(1, np.float32)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_they_are_resolved(name: str) -> None:
    agrees(*CASES[name])


def typed(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


@pytest.mark.parametrize("nodes", [[node("Split", "x", "a b c", axis=0, num_outputs=3)], []])
def test_map(nodes: list[onnx.NodeProto]) -> None:
    """Over computed tensors and over constants, beside a sequence and a tensor."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["p", "q"], ["pq"]), helper.make_node("Add", ["pq", "r"], ["sum"])], "body",
        [typed(n) for n in "pqr"], [typed(n) for n in ("sum", "pq")],
    )  # fmt: skip
    constants = {n: floats(2, 4, seed=i) for i, n in enumerate("abc") if not nodes} | {"k": floats(4, seed=9)}
    agrees(
        [*nodes, node("SequenceConstruct", "a b c", "s"), node("SequenceConstruct", "c b a", "t"),
         helper.make_node("SequenceMap", ["s", "t", "k"], ["u", "v"], body=body),
         node("ConcatFromSequence", "u", "m", axis=0), node("ConcatFromSequence", "v", "n", axis=0),
         node("Add", "m n", "w"), node("Add", "w x")],
        constants,
    )  # fmt: skip


def test_a_loop_carries_a_sequence() -> None:
    going = helper.make_tensor_value_info("going", TensorProto.BOOL, [])
    listed = [helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, None) for n in ("s", "more")]
    nodes = [node("Add", "t t", "double"), node("SequenceInsert", "s double", "more")]
    body = helper.make_graph(
        nodes, "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []), going, listed[0], typed("t")],
        [going, listed[1], typed("double")],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["n", "", "first", "x"], ["s", "t"], body=body)
    agrees(
        [node("SequenceConstruct", "x", "first"), loop, node("ConcatFromSequence", "s", axis=0)],
        {"n": np.array(3)},
    )  # fmt: skip


def test_parts_that_onnxruntime_cannot_drop_the_axis_of_keep_it() -> None:
    """One size above 1: onnxruntime fails, ONNX keeps the axis."""
    proto = network(
        [node("SplitToSequence", "x sizes", "s", axis=0, keepdims=0), node("SequenceAt", "s i")],
        {"sizes": place(4), "i": place(1)},
    )
    with pytest.raises(Exception, match="was false"):
        onnxruntime_run(proto, X)
    np.testing.assert_array_equal(qmlir.reference(load(proto))(X["x"]), X["x"][4:])


def test_the_ledger_says_that_onnxruntime_is_followed() -> None:
    nodes = [node("SplitToSequence", "x sizes", "s", axis=0, keepdims=0), node("SequenceAt", "s i", "a")]
    proto = network([*nodes, node("Sigmoid", "a")], {"sizes": place(1), "i": place(1)})
    quantized = qmlir.quantize(load(proto), data=[X["x"]])
    said = [e.reason for e in qmlir.decisions(quantized) if "as in onnxruntime" in e.reason]
    assert said == [
        "moves i8 values; its parts lose their axis, as in onnxruntime; ONNX keeps it where a split is given"
    ]
    wanted = 1 / (1 + np.exp(-X["x"][1].astype(np.float64)))
    np.testing.assert_allclose(qmlir.reference(quantized)(X["x"]), wanted, atol=0.01)


def test_a_constant_is_split_alike() -> None:
    proto = network(
        [node("SplitToSequence", "c sizes", "s", axis=1, keepdims=0), node("SequenceAt", "s i", "a"),
         node("Add", "x a")],
        {"c": floats(1, 4, 4), "sizes": place(1), "i": place(3)},
    )  # fmt: skip
    (wanted,) = onnxruntime_run(proto, X)
    np.testing.assert_array_equal(qmlir.reference(load(proto))(X["x"]), wanted)


def test_a_dimension_of_one_part_loses_its_axis() -> None:
    """One size, not less than the dimension of 1."""
    given = {"x": floats(1, 4)}
    proto = model(
        [node("SplitToSequence", "x sizes", "s", axis=0, keepdims=0), node("SequenceAt", "s i")],
        {"x": [1, 4]}, {"sizes": place(1), "i": place(0)}, opset=18,
    )  # fmt: skip
    (wanted,) = onnxruntime_run(proto, given)
    np.testing.assert_array_equal(qmlir.reference(load(proto))(given["x"]), wanted)
    assert wanted.shape == (4,)


def test_a_returned_sequence_is_its_tensors() -> None:
    module = load_onnx(model([PARTS], {"x": [6, 4]}, SIZES, outputs=["s"], opset=18))
    results = qmlir.reference(module).run(X["x"])
    assert [r.shape for r in results] == [(1, 4), (2, 4), (3, 4)]
    assert "s.0" in str(module)
    assert "s.2" in str(module)


REFUSED = {
    "a position of run time": ([node("SplitToSequence", "x", "s"), node("ArgMax", "x", "i", axis=0, keepdims=0),
                                node("SequenceAt", "s i")], "its position"),
    "an operator of tensors": ([node("SplitToSequence", "x", "s"), node("Relu", "s")], "it is a sequence of tensors"),
    "an operator of a tensor": ([node("Optional", "", "o", type=TENSOR), node("Relu", "o")], "that is not there"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    nodes, message = REFUSED[name]
    assert message in str(opaque_report(load_onnx(network(nodes))))


WRONG = {
    "beyond the end": ([PARTS, node("SequenceAt", "s i")], r"must lie in \[-3, 3\), got 3"),
    "an insertion beyond the end": ([PARTS, node("SequenceInsert", "s x i", "t"), node("SequenceAt", "t i")],
                                    r"must lie in \[-3, 3\], got 4"),
    "of nothing": ([node("SequenceEmpty", "", "e"), node("ConcatFromSequence", "e", axis=0)], "one tensor or more"),
    "a tensor": ([node("SequenceLength", "x", "n"), node("Add", "x n")], "it must read a sequence, got a tensor"),
    "an absent optional": ([node("Optional", "", "o", type=TENSOR), node("OptionalGetElement", "o")], "must be there"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name: str) -> None:
    nodes, message = WRONG[name]
    with pytest.raises(NodeError, match=message):
        load_onnx(network(nodes, {**SIZES, "i": place(4 if "insertion" in name else 3)}))


# ---------------------------------------------------------------------------------------------------------------
# Sequences and optional tensors as inputs


def with_input(kind: onnx.TypeProto, nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """A model with the input s of a type that is no tensor."""
    proto = model(nodes, {}, opset=18)
    proto.graph.input.append(helper.make_value_info("s", kind))
    return proto


SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 3]))


def test_a_sequence_is_as_many_arguments_as_are_asked_for() -> None:
    proto = with_input(SEQUENCE, [node("ConcatFromSequence", "s", axis=0)])
    module = load(proto, bind={"s": 3, "s.0.N": 1, "s.1.N": 2, "s.2.N": 4})
    given = {f"s.{i}": floats(n, 3, seed=i) for i, n in enumerate((1, 2, 4))}
    wanted = onnxruntime_run(proto, {"s": list(given.values())})[0]  # type: ignore[dict-item]
    for run in (qmlir.reference(module), qmlir.compile(module)):
        np.testing.assert_array_equal(run(given), wanted)


def test_an_optional_input_is_there_or_not() -> None:
    kinds = {"tensor": helper.make_tensor_type_proto(TensorProto.FLOAT, [3]), "sequence": SEQUENCE}
    nodes = [node("OptionalHasElement", "s", "h"), node("Cast", "h", "y", to=TensorProto.FLOAT)]
    for name, kind in kinds.items():
        proto = with_input(helper.make_optional_type_proto(kind), nodes)
        for count in (0, 1):
            sizes = {"s.0.N": 2} if count and name == "sequence" else {}
            run = qmlir.reference(load(proto, bind={"s": count} | sizes))
            shape = {"tensor": (3,), "sequence": (2, 3)}[name]
            given = {("s" if name == "tensor" else "s.0"): floats(*shape)} if count else {}
            assert run(given) == count


def test_numbers_of_tensors_that_cannot_be() -> None:
    sequence = with_input(SEQUENCE, [node("ConcatFromSequence", "s", axis=0)])
    with pytest.raises(FileError, match=r"whose number of tensors must be given, got none; give --bind s=…"):
        load_onnx(sequence)
    with pytest.raises(OptionError, match=r"--bind s=-1: a sequence must have 0 to 10000 tensors, got -1"):
        load_onnx(sequence, bind={"s": -1})
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3]))
    with pytest.raises(OptionError, match=r"--bind s=2: an optional tensor is there or not, 1 or 0, got 2"):
        load_onnx(with_input(optional, [node("OptionalGetElement", "s", "y")]), bind={"s": 2})
