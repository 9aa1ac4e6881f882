"""A network in several functions is, once inlined, the network in one."""

import numpy as np

import qmlir
from qmlir.compiler import Pipeline, main_function
from qmlir.transforms.quantize.ranges.observers import observed_shapes
from tests.graphs import names_in
from tests.transforms.quantize.calibrated import parsed

BLOCK = """
  %w{n} = nn.constant <tensor<2x2xf32>, [1.0, -0.5, 0.25, 2.0]> : tensor<2x2xf32>
  %s{n} = nn.fully_connected %{x}, %w{n} {{qmlir.name = #qmlir.name<nodes ["dense"], tensors ["s"]>}}
    : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %y{n} = nn.sigmoid %s{n} {{qmlir.name = #qmlir.name<nodes ["squash"], tensors ["{y}"]>}}
    : tensor<1x2xf32> -> tensor<1x2xf32>
"""

ONE = f"""
func.func @main(%x: tensor<1x2xf32> {{qmlir.name = #qmlir.name<tensors ["image"]>}}) -> tensor<1x2xf32> {{
  {BLOCK.format(n=1, x="x", y="a")}
  {BLOCK.format(n=2, x="y1", y="y")}
  func.return %y2 : tensor<1x2xf32>
}}"""

TWO = f"""
func.func private @block(%v: tensor<1x2xf32> {{qmlir.name = #qmlir.name<tensors ["v"]>}}) -> tensor<1x2xf32> {{
  {BLOCK.format(n="", x="v", y="y")}
  func.return %y : tensor<1x2xf32>
}}
func.func @main(%image: tensor<1x2xf32> {{qmlir.name = #qmlir.name<tensors ["image"]>}}) -> tensor<1x2xf32> {{
  %a = func.call @block(%image) {{qmlir.name = #qmlir.name<nodes ["first"], tensors ["a"]>}}
    : (tensor<1x2xf32>) -> tensor<1x2xf32>
  %b = func.call @block(%a) : (tensor<1x2xf32>) -> tensor<1x2xf32>
  func.return %b : tensor<1x2xf32>
}}"""

SAMPLES = list(np.random.default_rng(0).normal(size=(20, 1, 2)).astype(np.float32))


def test_the_same_network() -> None:
    one, two = parsed(ONE), Pipeline("inline")(parsed(TWO))
    assert len(list(two.ops)) == 1
    profiles = [qmlir.profile(module, SAMPLES) for module in (one, two)]
    assert list(profiles[0].tensors) == ["image", "s", "a", "s.1", "y"]
    ranges = [{name: p.range_of(name) for name in p.tensors} for p in profiles]
    assert ranges[0] == ranges[1]
    networks = [qmlir.quantize(m, p, fail_on_float=True) for m, p in zip((one, two), profiles, strict=True)]
    expected = qmlir.reference(networks[0])
    assert len({expected(x).tobytes() for x in SAMPLES}) > len(SAMPLES) // 2
    for network in (qmlir.reference(networks[1]), qmlir.compile(networks[1])):
        for x in SAMPLES:
            np.testing.assert_array_equal(network(x), expected(x))


def test_no_name_is_lost() -> None:
    given = {"image", "first", "a", "v", "dense", "s", "squash", "y"}
    assert names_in(Pipeline("inline")(parsed(TWO))) == given


def test_observers_of_a_function_called_twice_learn_from_both_calls() -> None:
    """The copies have one name; a profile pools what they see, and gives both the range."""
    observed = Pipeline("insert-observers", "inline")(parsed(TWO))
    assert list(observed_shapes(main_function(observed))) == ["image", "v", "s", "y"]
    profile = qmlir.profile(observed, SAMPLES)
    whole = qmlir.profile(parsed(ONE), SAMPLES)
    each = [whole.range_of(name) for name in ("s", "s.1")]
    assert each[0] != each[1]
    assert profile.range_of("s") == (min(lo for lo, _ in each), max(hi for _, hi in each))
    assert profile.tensors["s"].count == 2 * len(SAMPLES) * 2
