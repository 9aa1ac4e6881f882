"""What becomes of networks of all shapes: shared and tiny weights, odd signatures, gaps, parts quantized already."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i64

import qmlir
from qmlir.compiler import Pipeline, load, quantize, save, to_integers
from qmlir.dialects.nn import NN, ConstantOp, FullyConnectedOp, RequantizeOp
from qmlir.dialects.nn.base import NNOp, is_float
from qmlir.dialects.nn.movement import MovementOp
from qmlir.errors import PipelineError, QmlirError, QmlirWarning
from qmlir.ir.context import make_context
from qmlir.ir.facts import QUANTIZER
from qmlir.numerics.schemas import SCHEMAS
from qmlir.policies.ledger import decision_of, decisions
from qmlir.settings.policy import Policy, PolicyError, Rule
from qmlir.transforms.quantize.quantize import QuantizePass
from tests.graphs import Graph, graphs
from tests.transforms.quantize.calibrated import (
    Array,
    calibrated,
    entry,
    learnt,
    operation,
    parsed,
    quantized,
    quantized_values,
    run,
    sqnr,
    text_of,
    undecided,
    uniform,
)

X = np.linspace(-4, 4, 8, dtype=np.float32).reshape(1, 8)
NAME = "qmlir.name = #qmlir.name"


def fully_connected(weights: str, bias: str = "[1.0, -2.0]") -> str:
    return f"""
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {{
  calib.observe %x {{name = "x", range = [-4.0, 4.0]}} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, {weights}> : tensor<2x2xf32>
  %b = nn.constant <tensor<2xf32>, {bias}> : tensor<2xf32>
  %y = nn.fully_connected %x, %w, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %y {{name = "y", range = [-1.0e6, 1.0e6]}} : tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}}
"""


# Weights and biases


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("weights", ["[0.0, 0.0, 1.0, 2.0]", "[1.0e-30, -1.0e-30, 1.0, 2.0]", "[0.0, 0.0, 0.0, 0.0]"])
def test_a_large_bias_widens_the_scale_of_its_weights(weights: str, schema: str, per_channel: bool) -> None:
    module = quantized(parsed(fully_connected(weights, "[1.0e6, -0.25]")), schema=schema, per_channel=per_channel)
    op = operation(module, "nn.fully_connected")
    assert isinstance(op, FullyConnectedOp)
    assert entry(module, "nn.fully_connected").outcome == "quantized"
    assert op.b is not None
    assert isinstance(op.b.owner, ConstantOp)
    stored, scales = op.b.owner.value.array, np.array(uniform(op.b).scales)
    assert np.abs(stored.astype(np.int64)).max() <= 2**30
    np.testing.assert_allclose(stored * scales, [1e6, -0.25], atol=scales.max() / 2)


def test_weights_shared_by_two_operations() -> None:
    module = parsed("""
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
  %b = nn.constant <tensor<2xf32>, [1.0e9, 1.0]> : tensor<2xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  calib.observe %0 {name = "y", range = [-16.0, 16.0]} : tensor<1x2xf32>
  %1 = nn.fully_connected %0, %w, %b : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %1 {name = "z", range = [-1.0, 1.0e9]} : tensor<1x2xf32>
  func.return %0, %1 : tensor<1x2xf32>, tensor<1x2xf32>
}
""")
    first, second = (o for o in quantized(module).walk() if isinstance(o, FullyConnectedOp))
    assert uniform(first.w).scales[1] == uniform(second.w).scales[1]
    assert uniform(first.w).scales[0] < uniform(second.w).scales[0]  # the bias of the second wants room


def test_one_constant_in_three_roles_and_returned() -> None:
    """As weights, as a bias and as an operand; whoever is float reads it unrounded."""
    module = quantized(
        parsed("""
func.func @main(%x: tensor<1x1xf32>) -> (tensor<1x1xf32>, tensor<1xf32>) {
  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<1x1xf32>
  %w = nn.constant <tensor<1x1xf32>, [0.3]> : tensor<1x1xf32>
  %c = nn.constant <tensor<1xf32>, [0.3]> : tensor<1xf32>
  %0 = nn.fully_connected %x, %w, %c : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1xf32> -> tensor<1x1xf32>
  calib.observe %0 {name = "y", range = [-2.0, 2.0]} : tensor<1x1xf32>
  %1 = nn.mul %0, %w : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  calib.observe %1 {name = "z", range = [-2.0, 2.0]} : tensor<1x1xf32>
  %2 = nn.add %1, %c : tensor<1x1xf32>, tensor<1xf32> -> tensor<1x1xf32>
  calib.observe %2 {name = "r", range = [-2.0, 2.0]} : tensor<1x1xf32>
  func.return %2, %c : tensor<1x1xf32>, tensor<1xf32>
}
""")
    )
    assert {e.outcome for e in decisions(module)} == {"quantized"}
    got, constant = qmlir.reference(module).run(np.array([[2.0]], np.float32))
    assert constant == np.float32(0.3)
    np.testing.assert_allclose(got, [[(2 * 0.3 + 0.3) * 0.3 + 0.3]], atol=0.05)


def test_constant_tensors_of_every_kind() -> None:
    """All zero, a single value, empty of information: each is stored exactly."""
    for value in ("0.0", "5.0", "-3.0", "1.0e-45", "3.0e38"):
        bounds = f"{value}, 0.0" if value.startswith("-") else f"0.0, {value}"
        module = quantized(
            parsed(f"""
func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {{
  calib.observe %x {{name = "x", range = [0.0, 0.0]}} : tensor<1xf32>
  %c = nn.constant <tensor<1xf32>, [{value}]> : tensor<1xf32>
  %0 = nn.add %x, %c : tensor<1xf32>, tensor<1xf32> -> tensor<1xf32>
  calib.observe %0 {{name = "y", range = [{bounds}]}} : tensor<1xf32>
  func.return %0 : tensor<1xf32>
}}
""")
        )
        assert not undecided(module)
        expected = np.float32(0 if value == "1.0e-45" else value)  # scales stop at the smallest normal number
        np.testing.assert_allclose(run(module, np.zeros(1, np.float32)), [expected], rtol=1e-6)


# Signatures


ODD = """
func.func @main(%x: tensor<1x8xf32>, %unused: tensor<3xf32>)
    -> (tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>) {
  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<1x8xf32>
  %0 = nn.relu %x : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %0 {name = "r", range = [0.0, 4.0]} : tensor<1x8xf32>
  %1 = nn.cumulative_product %x {axis = 1 : i64} : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %x, %0, %0, %1 : tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>, tensor<1x8xf32>
}
"""


def test_returned_arguments_and_values_returned_twice() -> None:
    module = quantized(parsed(ODD))
    network = qmlir.reference(module)
    assert [s.name for s in network.signature.outputs] == ["output0", "output1", "output2", "output3"]
    arrays = network.run({"input0": X, "input1": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(arrays[0], X)  # an argument that is returned is not rounded
    np.testing.assert_array_equal(arrays[1], arrays[2])
    np.testing.assert_allclose(arrays[1], np.maximum(X, 0), atol=8 / 255)
    (read,) = operation(module, "nn.cumulative_product").operands
    assert is_float(read)
    np.testing.assert_allclose(arrays[3], np.cumprod(X, axis=1), atol=1e-5)  # and a float operation reads it so


def test_several_functions_are_quantized_each_by_itself() -> None:
    module = quantized(
        parsed(
            ODD
            + ODD.replace("@main", "@second")
            .replace("[0.0, 4.0]", "[0.0, 2.0]")
            .replace("func.func", "func.func private")
        )
    )
    first, second = (o for o in module.walk() if o.name == "nn.relu")
    assert uniform(first.results[0]).scale == 2 * uniform(second.results[0]).scale


def test_a_profile_is_of_main_and_leaves_the_others() -> None:
    other = """
func.func private @other(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %0 = nn.relu %x : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %0 : tensor<1x8xf32>
}
"""
    module = parsed(other.replace("private @other", "@main") + other)
    result = quantize(module, learnt(module, [X]))
    assert [e.outcome for e in decisions(result)] == ["quantized", "float"]
    assert decisions(result)[1].code == "no-range"


# Gaps


def test_operations_without_ranges_name_the_tensor() -> None:
    module = quantized(
        parsed(f"""
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  calib.observe %x {{name = "x", range = [-4.0, 4.0]}} : tensor<1x8xf32>
  %0 = nn.relu %x {{{NAME}<nodes ["a"], tensors ["t"]>}} : tensor<1x8xf32> -> tensor<1x8xf32>
  %1 = nn.clamp %0 {{max = 2.0 : f32, {NAME}<nodes ["b"], tensors ["u"]>}} : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %1 {{name = "u", range = [0.0, 2.0]}} : tensor<1x8xf32>
  %2 = nn.relu %1 {{{NAME}<nodes ["c"], tensors ["v"]>}} : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %2 {{name = "v", range = [0.0, 2.0]}} : tensor<1x8xf32>
  func.return %2 : tensor<1x8xf32>
}}
""")
    )
    for node in ("a", "b"):
        assert entry(module, node).code == "no-range"
        assert 'no range is known for "t"' in entry(module, node).reason
    assert entry(module, "c").outcome == "quantized"
    np.testing.assert_allclose(run(module, X), np.clip(X, 0, 2), atol=2 / 255)


def test_an_unknown_operation_in_the_middle() -> None:
    module = quantized(
        parsed(f"""
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  calib.observe %x {{name = "x", range = [-4.0, 4.0]}} : tensor<1x8xf32>
  %0 = nn.relu %x {{{NAME}<nodes ["a"], tensors ["t"]>}} : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %0 {{name = "t", range = [0.0, 4.0]}} : tensor<1x8xf32>
  %1 = qmlir.opaque "onnx.Erf"(%0)
    {{reason = "no such operator", source = {{}}, {NAME}<nodes ["erf"], tensors ["u"]>}}
    : (tensor<1x8xf32>) -> tensor<1x8xf32>
  %2 = nn.relu %1 {{{NAME}<nodes ["c"], tensors ["v"]>}} : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %2 {{name = "v", range = [0.0, 1.0]}} : tensor<1x8xf32>
  func.return %2 : tensor<1x8xf32>
}}
""")
    )
    assert [(e.outcome, e.code) for e in decisions(module)] == [
        ("quantized", "integer"),
        ("float", "unknown"),
        ("float", "no-range"),
    ]
    assert '"u"' in entry(module, "c").reason
    with pytest.raises(QmlirError, match=r"1 that is not: 1 x onnx\.Erf"):
        qmlir.reference(module)


def test_nothing_quantized_and_everybody_told_why() -> None:
    module = parsed("""
func.func @main(%x: tensor<1x8xf32>) -> tensor<8x1xf32> {
  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<1x8xf32>
  %0 = nn.cumulative_product %x {axis = 1 : i64} : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %0 {name = "n", range = [-1.0, 1.0]} : tensor<1x8xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<1x8xf32> -> tensor<8x1xf32>
  func.return %1 : tensor<8x1xf32>
}
""")
    result = quantized(module)
    assert [(e.outcome, e.code) for e in decisions(result)] == [("float", "target"), ("float", "neighbours")]
    assert not list(quantized_values(result))
    with pytest.raises(
        PipelineError, match=r"must leave no operation float, got 2 \(nn\.cumulative_product .*; nn\.transpose"
    ):
        quantized(module, fail_on_float=True)
    quantized(parsed(fully_connected("[1.0, 2.0, 3.0, 4.0]")), fail_on_float=True)


SUM = """
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {{
  calib.observe %x {{name = "x", range = [-4.0, 4.0]}} : tensor<1x8xf32>
  %0 = {sum}
  calib.observe %0 {{name = "s", range = [-8.0, 8.0]}} : tensor<1x8xf32>
  %1 = nn.relu %0 : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %1 {{name = "r", range = [0.0, 4.0]}} : tensor<1x8xf32>
  func.return %1 : tensor<1x8xf32>
}}
"""


def test_operations_of_other_dialects_stay_float_too() -> None:
    foreign, ours = "arith.addf %x, %x : tensor<1x8xf32>", "nn.add %x, %x : {0}, {0} -> {0}".format("tensor<1x8xf32>")
    with pytest.raises(
        PipelineError, match=r"arith.addf .*: it is no operation of nn\); express it in operations of nn"
    ):
        quantized(parsed(SUM.format(sum=foreign)), fail_on_float=True)
    quantized(parsed(SUM.format(sum=ours)), fail_on_float=True)


def test_a_rule_that_holds_for_some_of_what_it_matches_is_a_warning() -> None:
    module = parsed("""
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<1x8xf32>
  %0 = nn.relu %x : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %0 {name = "r", range = [0.0, 4.0]} : tensor<1x8xf32>
  %1 = nn.cumulative_product %0 {axis = 1 : i64} : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %1 : tensor<1x8xf32>
}
""")
    rules = [Rule({"precision": "int16"}, glob="*", place="net.yaml:3:5")]
    with pytest.warns(
        QmlirWarning, match=r"^net.yaml:3:5: 1 of the 3 that it matches cannot have precision int16: nn.cumulative"
    ):
        result = quantize(module, policy=Policy(rules=rules))
    assert next((e.outcome, e.reason) for e in decisions(result)) == ("quantized", "i16 activations")


def test_sums_too_large_for_32_bits_have_64() -> None:
    depth = 70000
    weights = np.full(depth, 1 / 3, np.float32).tobytes().hex()
    module = quantized(
        parsed(f"""
func.func @main(%x: tensor<1x{depth}xf32>) -> tensor<1x1xf32> {{
  calib.observe %x {{name = "x", range = [0.0, 1.0]}} : tensor<1x{depth}xf32>
  %w = nn.constant <tensor<1x{depth}xf32>, "0x{weights}"> : tensor<1x{depth}xf32>
  %y = nn.fully_connected %x, %w {{{NAME}<nodes ["fc"]>}}
    : tensor<1x{depth}xf32>, tensor<1x{depth}xf32> -> tensor<1x1xf32>
  calib.observe %y {{name = "y", range = [0.0, 30000.0]}} : tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}}
""")
    )
    assert (entry(module, "fc").outcome, entry(module, "fc").code) == ("quantized", "integer")
    assert operation(to_integers(module), "qint.fully_connected").results[0].type == TensorType(i64, [1, 1])


# Order, repetition, storage


def test_twice_is_once() -> None:
    module = quantized(parsed(ODD))
    assert text_of(quantized(module)) == text_of(module)


def test_a_part_that_is_quantized_already_keeps_its_types() -> None:
    module = parsed("""
!q = !quant.uniform<i8:f32, 0.03125:7>
func.func @main(%x: tensor<1x8x!q>) -> tensor<1x8xf32> {
  %0 = nn.relu %x : tensor<1x8x!q> -> tensor<1x8x!q>
  %1 = quant.dcast %0 : tensor<1x8x!q> to tensor<1x8xf32>
  %2 = nn.clamp %1 {max = 1.0 : f32} : tensor<1x8xf32> -> tensor<1x8xf32>
  calib.observe %2 {name = "y", range = [0.0, 1.0]} : tensor<1x8xf32>
  func.return %2 : tensor<1x8xf32>
}
""")
    result = quantized(module)
    clamp = operation(result, "nn.clamp")
    assert uniform(clamp.operands[0]) == uniform(operation(result, "nn.relu").results[0])
    assert {e.outcome for e in decisions(result)} == {"quantized"}


def test_casts_of_different_scales_become_one_requantization() -> None:
    module = parsed("""
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %0 = quant.qcast %x : tensor<1x8xf32> to tensor<1x8x!quant.uniform<i8:f32, 0.03125>>
  %1 = quant.dcast %0 : tensor<1x8x!quant.uniform<i8:f32, 0.03125>> to tensor<1x8xf32>
  %2 = quant.qcast %1 : tensor<1x8xf32> to tensor<1x8x!quant.uniform<i8:f32, 0.0625:3>>
  %3 = quant.dcast %2 : tensor<1x8x!quant.uniform<i8:f32, 0.0625:3>> to tensor<1x8xf32>
  func.return %3 : tensor<1x8xf32>
}
""")
    before, result = run(module, X), quantized(module)
    assert isinstance(operation(result, "nn.requantize"), RequantizeOp)
    np.testing.assert_allclose(run(result, X), before, atol=0.0625)


@pytest.mark.slow
@settings(max_examples=15)
@given(graphs(), st.sampled_from(SCHEMAS), st.booleans())
def test_random_networks(graph: Graph, schema: str, per_channel: bool) -> None:
    """Decisions everywhere, and true ones; once more changes nothing; simplifying keeps the bits."""
    try:
        module = quantized(graph.module, schema=schema, per_channel=per_channel)
    except PipelineError:  # no observer of this network holds a range
        return
    assert not undecided(module)
    assert text_of(quantized(module)) == text_of(module)
    said = sum(e.outcome == "float" for e in decisions(module))
    integers = to_integers(module)
    # The extremes of integers stay operations of nn.
    left = [o for o in integers.walk() if isinstance(o, NNOp) and is_float(o.results[0])]
    assert len(left) == sum(e.operation not in MOVEMENT and e.outcome == "float" for e in decisions(module)) <= said
    assert all(d.outcome.data == "float" for o in left if (d := decision_of(o)))
    simple = Pipeline("simplify")(module)
    for x in graph.samples[:1]:
        for a, b in zip(qmlir.reference(module).run(x), qmlir.reference(simple).run(x), strict=True):
            np.testing.assert_array_equal(a, b)


MOVEMENT = {op.name for op in NN.operations if issubclass(op, MovementOp)}


@settings(max_examples=5)
@given(graphs(), st.sampled_from(SCHEMAS))
def test_saved_and_loaded_gives_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, graph: Graph, schema: str
) -> None:
    try:
        module = quantized(graph.module, schema=schema)
    except PipelineError:
        return
    folder: Path = tmp_path_factory.mktemp("saved")
    for name, saved in (("quantized", module), ("integers", to_integers(module))):
        save(saved, folder / f"{name}.mlir")
        again = load(folder / f"{name}.mlir")
        assert text_of(again) == text_of(saved)
        for x in graph.samples[:1]:
            for a, b in zip(qmlir.reference(saved).run(x), qmlir.reference(again).run(x), strict=True):
                np.testing.assert_array_equal(a, b)


def test_accuracy_of_a_chain() -> None:
    """A sanity check that needs no model: residual sums of activations come back within a percent."""
    x: Array = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    module: ModuleOp = parsed("""
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %0 = nn.tanh %x : tensor<1x8xf32> -> tensor<1x8xf32>
  %1 = nn.add %0, %x : tensor<1x8xf32>, tensor<1x8xf32> -> tensor<1x8xf32>
  %2 = nn.mul %1, %0 : tensor<1x8xf32>, tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %2 : tensor<1x8xf32>
}
""")
    assert sqnr(run(module, x), run(quantized(calibrated(module, [x])), x)) > 40


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("%y = arith.addf %x, %x : tensor<4xf32>", "got operations of arith only"),
        (
            '%e = tensor.empty() : tensor<4xf32>\n%y = "test.op"(%e) : (tensor<4xf32>) -> tensor<4xf32>',
            "tensor, test only",
        ),
    ],
)
def test_a_module_without_a_network_of_nn_is_refused(text: str, got: str) -> None:
    module = parsed(
        f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{text}\nfunc.return %y : tensor<4xf32>\n}}"
    )
    with pytest.raises(PipelineError, match="needs a network of operations of nn, ") as refusal:
        quantize(module)
    assert got in str(refusal.value)


def test_an_empty_module_is_refused_and_a_network_that_returns_its_input_is_not() -> None:
    with pytest.raises(PipelineError, match="got a module without functions"):
        quantize(parsed("module {}"))
    same = parsed("func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\nfunc.return %x : tensor<4xf32>\n}")
    quantized = quantize(same)
    QUANTIZER.drop(quantized)  # which options there were
    assert str(quantized) == str(same)


def test_the_pass_runs_in_a_context_of_xdsl() -> None:
    """It needs nothing of a `QmlirContext`, and leaves nothing behind in one, also where it refuses."""
    text = """
      func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        calib.observe %x {name = "x", range = [-1.0, 1.0]} : tensor<4xf32>
        %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
        func.return %0 : tensor<4xf32>
      }"""
    plain, own = parsed(text), parsed(text)
    QuantizePass(rules="kind=relu keep-float=true").apply(Context(), plain)
    context = make_context()
    QuantizePass(rules="kind=relu keep-float=true").apply(context, own)
    assert str(plain) == str(own)
    with pytest.raises(PolicyError):
        QuantizePass(rules="kind=conv9 precision=int16").apply(context, parsed(text))
    assert context.policy is None
