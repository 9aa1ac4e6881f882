"""A layer in 16 bits reads and yields 16 bits: what only moves its data, and what comes as floats, follow it."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from qmlir.compiler import quantize
from qmlir.dialects.nn import NN, ConstantOp, RequantizeOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.errors import PipelineError
from qmlir.policies.ledger import decisions
from qmlir.settings.policy import Policy, rule_of
from tests.graphs import Graph, graphs
from tests.transforms.quantize.calibrated import Array, calibrated, learnt, parsed, run, sqnr, uniform

RNG = np.random.default_rng(15)
SAMPLES: list[Array] = [RNG.standard_normal((1, 3, 8, 8)).astype(np.float32) for _ in range(12)]


def constant(name: str, *shape: int) -> str:
    array = (RNG.standard_normal(shape) * 0.3).astype(np.float32)
    type = f"tensor<{'x'.join(map(str, shape))}xf32>"
    return f'{name} = nn.constant <{type}, "0x{array.tobytes().hex()}"> : {type}'


IMAGE = "tensor<1x8x8x4xf32>"
CONV1 = f"""
  {constant("%w1", 4, 3, 3, 3)}
  %t = nn.transpose %x {{permutation = array<i64: 0, 2, 3, 1>}} : tensor<1x3x8x8xf32> -> tensor<1x8x8x3xf32>
  %1 = nn.conv2d %t, %w1
    {{padding = array<i64: 1, 1, 1, 1>, min = 0.0 : f32, qmlir.name = #qmlir.name<nodes ["conv1"]>}}
    : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32> -> {IMAGE}"""
PRODUCTS = f"""
  %2 = nn.cumulative_product %1 {{axis = 3 : i64}} : {IMAGE} -> {IMAGE}"""
CONV2 = f"""
  {constant("%w2", 4, 3, 3, 4)}
  %3 = nn.conv2d %2, %w2 {{padding = array<i64: 1, 1, 1, 1>, qmlir.name = #qmlir.name<nodes ["conv2"]>}}
    : {IMAGE}, tensor<4x3x3x4xf32> -> {IMAGE}"""
BACK = f"""
  %y = nn.transpose %3 {{permutation = array<i64: 0, 3, 1, 2>}} : {IMAGE} -> tensor<1x4x8x8xf32>"""


def network(*parts: str, result: str = "%y : tensor<1x4x8x8xf32>") -> ModuleOp:
    """An image in channels-first order through some parts."""
    type = result.partition(" : ")[2]
    return parsed(f"func.func @main(%x: tensor<1x3x8x8xf32>) -> {type} {{{''.join(parts)}\n  func.return {result}\n}}")


def ruled(module: ModuleOp, *rules: str) -> ModuleOp:
    """The network quantized under rules; its ranges are those of the samples."""
    profile = learnt(module, SAMPLES[:8])
    return quantize(calibrated(module, SAMPLES[:8]), profile, policy=Policy(rules=[rule_of(r) for r in rules]))


def quality(module: ModuleOp, *rules: str) -> float:
    """Signal to noise of the network under rules, on samples that were not profiled."""
    result = ruled(module, *rules)
    return float(np.mean([sqnr(run(module, x), run(result, x)) for x in SAMPLES[8:]]))


def widths(module: ModuleOp, *kinds: str) -> list[int]:
    """The bits of the results of quantized operations of some kinds, in order."""
    return [
        uniform(op.results[0]).storage_width
        for op in module.walk()
        if op.name in kinds and not isinstance(op, ConstantOp) and is_quantized(op.results[0])
    ]


def requantized(module: ModuleOp) -> list[tuple[int, int]]:
    """The bits before and after each change of scale."""
    changes = [op for op in module.walk() if isinstance(op, RequantizeOp)]
    return [(uniform(op.x).storage_width, uniform(op.y).storage_width) for op in changes]


# What moves data


def test_what_moves_the_result_of_a_layer_in_16_bits_has_16() -> None:
    module = ruled(network(CONV1, PRODUCTS, CONV2, BACK), "layer=last precision=int16 weight-precision=int8")
    assert widths(module, "nn.transpose") == [8, 16]
    assert requantized(module) == []


def test_a_promoted_layer_behind_a_float_one_is_better() -> None:
    module = network(CONV1, PRODUCTS, CONV2, BACK)
    assert quality(module, "layer=last precision=int16 weight-precision=int8") > quality(module) + 0.5


def test_an_input_takes_the_precision_of_its_only_reader_through_a_transpose() -> None:
    module = ruled(network(CONV1, PRODUCTS, CONV2, BACK), "name=conv1 precision=int16")
    assert widths(module, "quant.qcast") == [16, 8]
    assert widths(module, "nn.transpose") == [16, 8]
    assert requantized(module) == []


def test_an_input_that_layers_of_two_precisions_read_is_rounded_to_each() -> None:
    other = f"""
  {constant("%w3", 4, 3, 1, 1)}
  %r = nn.relu %x {{qmlir.name = #qmlir.name<nodes ["relu"]>}} : tensor<1x3x8x8xf32> -> tensor<1x3x8x8xf32>
  %y = nn.tanh %x {{qmlir.name = #qmlir.name<nodes ["tanh"]>}} : tensor<1x3x8x8xf32> -> tensor<1x3x8x8xf32>"""
    two = "%r, %y : tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>"
    module = parsed(
        f"func.func @main(%x: tensor<1x3x8x8xf32>) -> (tensor<1x3x8x8xf32>, tensor<1x3x8x8xf32>) "
        f"{{{other}\n  func.return {two}\n}}"
    )
    result = ruled(module, "name=tanh precision=int16")
    casts = [op for op in result.walk() if isinstance(op, QuantizeCastOp)]
    assert sorted(uniform(c.result).storage_width for c in casts) == [8, 16]
    assert all(c.input is result.body.block.first_op.body.block.args[0] for c in casts)  # type: ignore[union-attr]


def test_a_constant_operand_takes_the_precision_of_its_reader() -> None:
    module = network(
        CONV1,
        f"""
  {constant("%c", 8, 8, 4)}
  %3 = nn.add %1, %c {{qmlir.name = #qmlir.name<nodes ["add"]>}} : {IMAGE}, tensor<8x8x4xf32> -> {IMAGE}""",
        BACK,
    )
    result = ruled(module, "name=add precision=int16")
    (constants,) = [op for op in result.walk() if isinstance(op, ConstantOp) and op.y.type.get_shape() == (8, 8, 4)]
    assert uniform(constants.y).storage_width == 16
    assert len(np.unique(constants.value.array)) == 256
    assert requantized(result) == [(8, 16)]


# What moves data of several layers


def branches(join: str, result: str) -> ModuleOp:
    convolutions = [
        f"""
  {constant(f"%w{name}", 4, 3, 3, 4)}
  %{name} = nn.conv2d %1, %w{name} {{padding = array<i64: 1, 1, 1, 1>, qmlir.name = #qmlir.name<nodes ["{name}"]>}}
    : {IMAGE}, tensor<4x3x3x4xf32> -> {IMAGE}"""
        for name in ("a", "b")
    ]
    return network(CONV1, *convolutions, join, result=result)


CONCAT = f"""
  %c = nn.concat %a, %b {{axis = 3 : i64, qmlir.name = #qmlir.name<nodes ["concat"], tensors ["c"]>}}
    : {IMAGE}, {IMAGE} -> tensor<1x8x8x8xf32>"""
READ = f"""
  {constant("%w4", 4, 1, 1, 8)}
  %r = nn.conv2d %c, %w4 {{qmlir.name = #qmlir.name<nodes ["read"]>}}
    : tensor<1x8x8x8xf32>, tensor<4x1x1x8xf32> -> {IMAGE}"""


@pytest.mark.parametrize("rule", ["name=a precision=int16", "name=b precision=int16", "name=concat precision=int16"])
def test_a_rule_before_a_concat_leaves_its_reader_in_integers(rule: str) -> None:
    module = branches(CONCAT + READ, f"%r : {IMAGE}")
    result = ruled(module, rule)
    assert [e.node for e in decisions(result) if e.outcome == "float"] == []
    assert quality(module, rule) > quality(module) - 1.5


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_concat_that_a_layer_in_8_bits_reads_has_8(name: str) -> None:
    result = ruled(branches(CONCAT + READ, f"%r : {IMAGE}"), f"name={name} precision=int16")
    assert widths(result, "nn.concat") == [8]
    assert requantized(result) == [(8, 16), (16, 8)]  # before and behind the layer in 16 bits


@pytest.mark.parametrize("name", ["a", "b"])
def test_a_concat_that_is_a_result_keeps_all_bits(name: str) -> None:
    module = branches(CONCAT, "%c : tensor<1x8x8x8xf32>")
    result = ruled(module, f"name={name} precision=int16")
    assert widths(result, "nn.concat") == [16]
    assert quality(module, f"name={name} precision=int16") > quality(module)


@pytest.mark.parametrize(
    "move",
    [
        "nn.pad %a {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>, value = -20.0 : f32, NAME}"
        f" : {IMAGE} -> tensor<1x10x10x4xf32>",
        f"nn.max_pool2d %a {{window = array<i64: 2, 2>, NAME}} : {IMAGE} -> tensor<1x7x7x4xf32>",
        f"nn.average_pool2d %a {{window = array<i64: 2, 2>, NAME}} : {IMAGE} -> tensor<1x7x7x4xf32>",
        f"nn.reduce_max %a {{axes = array<i64: 1>, NAME}} : {IMAGE} -> tensor<1x1x8x4xf32>",
    ],
    ids=["pad", "max pool", "average pool", "reduce max"],
)
def test_a_rule_for_what_keeps_a_scale_takes_the_range_of_its_operand(move: str) -> None:
    result = "%m : " + move.rpartition("-> ")[2]
    named = move.replace("NAME", 'qmlir.name = #qmlir.name<nodes ["move"]>')
    module = branches(f"\n  %m = {named}", result)
    rules = ["name=a precision=int16"]
    if "reduce" not in move:  # which this target computes on 8 bits only
        rules.append("name=move precision=int16")
    for rule in rules:
        integers = ruled(module, rule)
        assert [e.node for e in decisions(integers) if e.outcome == "float"] == []
        x = SAMPLES[9]
        step = max(uniform(op.results[0]).scale for op in integers.walk() if op.name == "nn.conv2d")
        assert np.abs(run(integers, x) - run(module, x)).max() < 8 * step, "nothing saturates"


# Everywhere


MOVEMENT = {op.name for op in NN.operations if issubclass(op, MovementOp)}


@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(graphs(), st.integers(0, 20))
def test_no_rule_makes_a_reader_float_or_a_chain_of_requantizations(graph: Graph, choice: int) -> None:
    """Whatever layer is promoted: no tensor loses its range by that, and none is rounded twice on its way."""
    plain = _quantized(graph, [])
    layers = [e.node for e in decisions(plain) if e.outcome == "quantized" and e.operation not in MOVEMENT]
    if not layers:
        return
    result = _quantized(graph, [f"name={layers[choice % len(layers)]} precision=int16"])
    before = {e.node for e in decisions(plain) if e.outcome == "float"}
    assert {e.node for e in decisions(result) if e.code == "no-range"} <= before
    for change in [op for op in result.walk() if isinstance(op, RequantizeOp)]:
        inner = change.x.owner
        while isinstance(inner, MovementOp):
            inner = inner.operands[0].owner
        assert not isinstance(inner, RequantizeOp)


def _quantized(graph: Graph, rules: list[str]) -> ModuleOp:
    try:
        return quantize(graph.module, policy=Policy(rules=[rule_of(r) for r in rules]))
    except PipelineError:  # no observer of this network holds a range
        return graph.module
