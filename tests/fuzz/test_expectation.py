"""What the fuzzer expects of quantized weights."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.fuzz.expectation import LEAST, MORE_DRAWS, Part, Rounded, is_expectable, rounded
from tests.fuzz.graphs import Array, Graph, Node
from tests.fuzz.options import Options
from tests.fuzz.oracle import Oracle


def expected(weights: list[float], options: Options) -> list[float]:
    """The expected signal to noise of each channel of a depthwise convolution by single weights."""
    count = len(weights)
    constants = {"w": np.array(weights, np.float32).reshape(count, 1, 1)}
    x = tuple(np.random.default_rng(i).normal(size=(2, count, 8)).astype(np.float32) for i in range(2))
    graph = Graph((Node("Conv", ("x", "w"), ("y",), {"group": count}),), constants, {"x": x}, ("y",), 21)
    oracle = Oracle(graph)
    found = rounded(graph, oracle, options, [oracle.run(feed) for feed in graph.feeds()])
    return [found.sqnr("y", (slice(None), channel)) for channel in range(count)]


WEIGHTS = [2.0] + 20 * [1.0]
"""Under 4 bits steps of 2/7 hold the first weight exactly; those of 2/8 hold the others, and cut off the first."""


def test_a_weight_on_the_steps_of_the_largest_raises_no_expectation() -> None:
    first, *others = expected(WEIGHTS, Options(precision="int16", weight_precision="int4", per_channel=False))
    assert first < 25
    assert max(others) < 20


@pytest.mark.parametrize(
    "options",
    [
        Options(precision="int16", weight_precision="int4"),
        Options(precision="int16", weight_precision="int8", per_channel=False),
    ],
)
def test_channels_that_their_bits_hold_are_expected(options: Options) -> None:
    assert min(expected(WEIGHTS, options)) > 40


def test_a_codebook_holds_no_channel_exactly() -> None:
    """Its entries are chosen for all channels; even steps are for each."""
    even = Options(precision="int16", weight_precision="int3")
    assert min(expected([3.0, -1.0, 2.0], even)) > 40
    assert max(expected([3.0, -1.0, 2.0], replace(even, weight_levels="codebook"))) < 30


def test_bits_of_a_rule_have_steps_of_their_own() -> None:
    """5 bits hold whole numbers up to 3 exactly, 8 bits do not."""
    options = Options(precision="int16", weight_precision="int5", per_channel=False)
    weights = [-3.0, 1.0, 2.0, -2.0]
    assert min(expected(weights, options)) > 70
    rule = {"name": "n_y", "precision": "int16", "weight_precision": "int8"}
    assert min(expected(weights, replace(options, rules=(rule,)))) < 50


def test_weights_between_powers_of_two_raise_no_expectation() -> None:
    """9.5 steps of 1/8 leave 25 dB, 8 of them leave all."""
    powers = Options("symmetric_with_power2_scale", precision="int16", weight_precision="int5")
    between, on = expected([9.5 / 8, 1.0], powers)
    assert between < 27
    assert on > 40


def test_a_single_weight_lies_between_powers_of_two() -> None:
    """Every other step ends at it."""
    x = np.random.default_rng(0).normal(size=(2, 1)).astype(np.float32)
    node, constants = Node("Gemm", ("x", "w"), ("y",)), {"w": np.array([[0.61]], np.float32)}
    options = Options("symmetric_with_power2_scale", precision="int16", weight_precision="int3")
    assert kept(node, constants, x, options) < 20
    assert kept(node, constants, x, replace(options, schema="symmetric")) > 50


def test_a_norm_behind_weights_moves_them_against_powers_of_two() -> None:
    """Folded into the weights, its factor may put what lay on powers of two anywhere between them."""
    x = np.random.default_rng(0).normal(size=(2, 1, 8)).astype(np.float32)
    conv, norm = Node("Conv", ("x", "w"), ("c",)), Node("BatchNormalization", ("c", "g", "b", "m", "v"), ("y",))
    constants = {"w": np.array([[[1.0, 0.75]]], np.float32)}  # 4 and 3 steps of 1/4
    constants |= {n: np.array([v], np.float32) for n, v in (("g", 1.0), ("b", 0.0), ("m", 0.0), ("v", 1.0))}
    graph = Graph((conv, norm), constants, {"x": (x,)}, ("y",), 21)
    oracle = Oracle(graph)
    powers = Options("symmetric_with_power2_scale", precision="int16", weight_precision="int4")
    found = rounded(graph, oracle, powers, [oracle.run(feed) for feed in graph.feeds()])
    assert kept(replace(conv, outputs=("y",)), {"w": constants["w"]}, x, powers) > 40
    assert found.sqnr("y") < 30


def test_glow_has_a_step_more_for_negative_weights() -> None:
    """Of 4 bits its steps are 1/8 of a negative weight: what lies on steps of 1/7 lies between those."""
    x = np.random.default_rng(0).normal(size=(2, 1, 8)).astype(np.float32)
    node, constants = Node("Conv", ("x", "w"), ("y",)), {"w": np.array([[[-1.0, 3 / 7]]], np.float32)}
    options = Options("symmetric", precision="int16", weight_precision="int4")
    assert kept(node, constants, x, options) > 40
    assert kept(node, constants, x, replace(options, glow_exact=True)) < 30
    eighths = {"w": np.array([[[-1.0, 3 / 8]]], np.float32)}
    assert kept(node, eighths, x, replace(options, glow_exact=True)) > 40


def test_constants_that_are_no_weights_have_the_bits_of_data() -> None:
    """Beside a row of 100 bits of data do not hold rows of 1, as bits of weights would."""
    rng = np.random.default_rng(0)
    x, skip = (rng.normal(size=(1, 4, 8)).astype(np.float32) for _ in range(2))
    skip[0, 0] *= 100
    constants = {"skip": skip, "gamma": np.ones(8, np.float32)}
    node = Node("SkipLayerNormalization", ("x", "skip", "gamma"), ("y",), domain="com.microsoft")
    graph = Graph((node,), constants, {"x": (x,)}, ("y",), 21)
    oracle = Oracle(graph)
    found = rounded(graph, oracle, Options(weight_precision="int16"), [oracle.run({"x": x})])
    assert found.sqnr("y", (slice(None), slice(1, None))) < 20


def kept(node: Node, constants: dict[str, Array], x: Array, options: Options) -> float:
    """The expected signal to noise of a network of one node that takes x."""
    graph = Graph((node,), constants, {"x": (x,)}, ("y",), 27)
    oracle = Oracle(graph)
    return rounded(graph, oracle, options, [oracle.run({"x": x})]).sqnr("y")


X = np.random.default_rng(0).normal(size=(1, 2, 3)).astype(np.float32)

WEIGHING = {
    "AffineGrid": (Node("AffineGrid", ("x", "size"), ("y",)), {"size": np.array([1, 1, 4, 6])}),
    "Attention": (
        Node("Attention", ("x", "w", "b"), ("y",), {"num_heads": 1}, "com.microsoft"),
        {
            "w": np.random.default_rng(1).normal(size=(3, 9)).astype(np.float32),
            "b": np.zeros(9, np.float32),
        },
    ),
    "Einsum": (
        Node("Einsum", ("w", "x"), ("y",), {"equation": "dz, abd -> abz"}),
        {"w": np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)},
    ),
    "CausalConvWithState": (
        Node("CausalConvWithState", ("x", "w"), ("y", "state")),
        {"w": np.random.default_rng(1).normal(size=(2, 1, 3)).astype(np.float32)},
    ),
}


@pytest.mark.parametrize("operator", WEIGHING)
def test_constants_of_every_contraction_have_the_bits_of_weights(operator: str) -> None:
    """The places of an AffineGrid, too, which are the constant side of a product."""
    node, constants = WEIGHING[operator]
    assert kept(node, constants, X, Options(precision="int16")) > 60
    assert kept(node, constants, X, Options(precision="int16", weight_precision="int8")) > 25
    assert kept(node, constants, X, Options(precision="int16", weight_precision="int2")) < 20


@pytest.mark.parametrize("equation", ["abd, bd -> abd", "abd, bd -> ab", "abd, bz -> abdz"])
def test_an_einsum_that_is_no_product_with_a_matrix_has_bits_of_data(equation: str) -> None:
    """Products of elements, one product for each b, and sums over nothing."""
    node, w = Node("Einsum", ("x", "w"), ("y",), {"equation": equation}), np.random.default_rng(1).normal(size=(2, 3))
    assert kept(node, {"w": w.astype(np.float32)}, X, Options(precision="int16", weight_precision="int2")) > 50


def test_constant_keys_and_values_have_the_bits_of_weights_if_they_are_one_matrix() -> None:
    def of(batch: int) -> float:
        keys = np.random.default_rng(1).normal(size=(batch, 4, 3)).astype(np.float32)
        node = Node("MultiHeadAttention", ("x", "k", "k"), ("y",), {"num_heads": 1}, "com.microsoft")
        return kept(node, {"k": keys}, np.repeat(X, batch, 0), Options(precision="int16", weight_precision="int2"))

    assert of(1) < 20
    assert of(2) > 50


def test_constant_keys_are_rounded_with_the_bias_that_is_added_to_them() -> None:
    def of(bias: float) -> float:
        keys = np.random.default_rng(1).choice([-1.0, 0.0, 1.0], (1, 4, 3)).astype(np.float32)
        node = Node("MultiHeadAttention", ("x", "k", "k", "b"), ("y",), {"num_heads": 1}, "com.microsoft")
        constants = {"k": keys, "b": np.linspace(-bias, bias, 9).astype(np.float32)}
        return kept(node, constants, X, Options(precision="int16", weight_precision="int2"))

    assert of(0.0) > 50
    assert of(1.5) < 20


# Each as (network, input, what a quantizer that lost something made of the outputs).
_LOGITS = np.linspace(-40, 40, 8, dtype=np.float32).reshape(1, 8)
_IMAGE = np.random.default_rng(2).normal(size=(1, 1, 8)).astype(np.float32)
_QUIET = {"w": np.array([1, 1e-5], np.float32).reshape(2, 1, 1), "b": np.array([0.1, 5.0], np.float32)}


@pytest.mark.parametrize(
    ("node", "constants", "x", "part", "damage"),
    [
        (Node("LogSoftmax", ("x",), ("y",)), {}, _LOGITS, (), lambda y: np.maximum(y, -16)),
        (Node("Conv", ("x", "w", "b"), ("y",)), _QUIET, _IMAGE, (slice(None), 1), np.zeros_like),
        (Node("Exp", ("x",), ("y",)), {}, _IMAGE, (), lambda y: np.minimum(y, 1.0)),
    ],
)
def test_known_defects_are_lost_however_often_is_drawn(
    node: Node, constants: dict[str, Array], x: Array, part: Part, damage: Callable[[Array], Array]
) -> None:
    """Logarithms that end at −16, the bias of a quiet channel, an exponential that saturates."""
    graph = Graph((node,), constants, {"x": (x,)}, ("y",), 21)
    oracle = Oracle(graph)
    exact = [oracle.run({"x": x})]
    allowed = rounded(graph, oracle, Options(precision="int16"), exact, MORE_DRAWS)
    y = exact[0]["y"].astype(np.float64)
    assert allowed.lost("y", part, [np.rint(y * 2**9) / 2**9]) is None
    assert allowed.lost("y", part, [damage(y)]) is not None


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LayerNormalization", {}),
        ("InstanceNormalization", {}),
        ("GroupNormalization", {"num_groups": 2}),
        ("MeanVarianceNormalization", {"axes": [2]}),
    ],
)
def test_nothing_is_expected_of_a_norm_of_equal_elements(operator: str, attributes: dict[str, Any]) -> None:
    """What rounding makes of them it divides by its own height."""
    x = np.random.default_rng(0).normal(size=(2, 2, 6)).astype(np.float32)
    graph = Graph((Node(operator, ("x",), ("y",), attributes),), {}, {"x": (x,)}, ("y",), 21)
    assert is_expectable(graph, Options(), [{"x": x}])
    flat = x.copy()
    flat[1, 1] = 0.7
    assert not is_expectable(graph, Options(), [{"x": flat}])


@pytest.mark.parametrize("value", [0.0104, 0.02])
def test_many_draws_know_what_a_single_value_may_lose(value: float) -> None:
    """Of a step of the tensor or two, which few draws leave as they are."""
    x = np.array([[[1.2], [value]]], np.float32)
    graph = Graph((Node("Relu", ("x",), ("y",)),), {}, {"x": (x,)}, ("y",), 21)
    oracle = Oracle(graph)
    found = rounded(graph, oracle, Options(), [oracle.run({"x": x})], MORE_DRAWS)
    assert found.sqnr("y", (slice(None), 1)) < LEAST


@pytest.mark.parametrize("glow", [False, True])
def test_glow_ties_what_a_concatenation_joins(glow: bool) -> None:
    """A quiet result beside a loud one has few steps left, also before it is moved."""
    nodes = (
        Node("Tanh", ("x",), ("quiet",)),
        Node("Transpose", ("quiet",), ("turned",), {"perm": [1, 0]}),
        Node("Concat", ("turned", "loud"), ("y",), {"axis": 0}),
    )
    rng = np.random.default_rng(0)
    samples = {"x": (rng.uniform(-0.1, 0.1, (8, 8)),), "loud": (rng.uniform(-50, 50, (8, 8)),)}
    feeds = {name: tuple(a.astype(np.float32) for a in arrays) for name, arrays in samples.items()}
    graph = Graph(nodes, {}, feeds, ("y", "quiet"), 21)
    oracle = Oracle(graph)
    found = rounded(graph, oracle, Options(glow_exact=glow), [oracle.run(feed) for feed in graph.feeds()])
    assert (found.sqnr("quiet") < LEAST) is glow


@pytest.mark.parametrize(("before", "least", "most"), [(1.0, 30.0, 90.0), (300.0, -60.0, 10.0)])
def test_what_is_put_into_a_tensor_has_the_steps_of_all_that_it_held(before: float, least: float, most: float) -> None:
    """Also of values that are overwritten: operands and result have one type."""
    constants = {"at": np.array([[0]]), "put": np.full((1, 2, 3), 0.77, np.float32)}
    x = np.full((1, 2, 3), before, np.float32)
    assert least < kept(Node("ScatterND", ("x", "at", "put"), ("y",)), constants, x, Options()) < most


@pytest.mark.parametrize(("height", "least", "most"), [(1.0, 25.0, 50.0), (100.0, -20.0, 15.0)])
def test_sums_before_the_gates_of_recurrent_layers_are_rounded(height: float, least: float, most: float) -> None:
    """Where one sum is large, a state of small values is lost beside it."""
    x = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, -0.7], [0.0, 0.6]], np.float32).reshape(4, 1, 2)
    weights = {
        "w": np.array([[height, 1.0]] * 3, np.float32).reshape(1, 3, 2),
        "r": np.full((1, 3, 1), 0.5, np.float32),
    }
    node = Node("GRU", ("x", "w", "r"), ("y",), {"hidden_size": 1})
    graph = Graph((node,), weights, {"x": (x,)}, ("y",), 21)
    oracle = Oracle(graph)
    found = rounded(graph, oracle, Options(weight_precision="int16"), [oracle.run({"x": x})])
    assert least < found.sqnr("y", (slice(1, None),)) < most


def outputs(channels: list[float]) -> Rounded:
    """An output whose channels have these magnitudes, and what steps of 0.01 make of it."""
    x = np.random.default_rng(0).choice([-1.0, 1.0], (2, len(channels), 50)) * np.array(channels)[:, None]
    return Rounded([{"y": x}], [[{"y": x + 0.01 * (x != 0)}]])


def lost(channels: list[float], change: list[float]) -> list[bool]:
    """Of each channel whether it counts as lost once so much was added to it."""
    allowed = outputs(channels)
    found = allowed.exact[0]["y"] + np.array(change)[:, None]
    return [allowed.lost("y", (slice(None), channel), [found]) is not None for channel in range(len(channels))]


def test_noise_in_a_channel_of_zeros_is_held_to_the_whole_output() -> None:
    assert lost([1.0, 0.0, 2.0], [0.01, 0.02, 0.01]) == [False, False, False]


def test_a_channel_of_zeros_that_is_far_from_zero_is_lost() -> None:
    assert lost([1.0, 0.0, 2.0], [0.01, 1.0, 0.01]) == [False, True, False]


def test_a_quiet_channel_is_held_to_its_own_signal() -> None:
    """What it loses is little beside the others; rounding would leave 20 dB of it."""
    assert lost([100.0, 0.1], [0.01, 0.01]) == [False, False]
    assert lost([100.0, 0.1], [0.01, 0.09]) == [False, True]


def test_zeros_beside_nothing_are_zeros() -> None:
    assert lost([0.0, 0.0], [0.0, 0.0]) == [False, False]
    assert lost([0.0, 0.0], [0.5, 0.0]) == [True, False]


def test_zeros_beside_nothing_may_be_the_least_numbers() -> None:
    """Products of gates that are 0 in onnxruntime from exp(−18) on are some 1e-38 in its stead."""
    assert lost([0.0, 0.0], [3e-38, 0.0]) == [False, False]
