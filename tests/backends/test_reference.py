"""The reference: program order, every value on the way, and what it refuses."""

import numpy as np
import pytest

import qmlir
from qmlir.backends.reference import Reference, evaluate, trace
from qmlir.compiler import main_function
from qmlir.errors import InputError, NodeError, UnsupportedError
from tests.transforms.quantize.calibrated import parsed

X = np.array([[-1.0, 0.5, 2.0, 3.0]], np.float32)

TEXT = """
func.func @main(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  calib.observe %x {name = "x"} : tensor<1x4xf32>
  %0 = nn.relu %x : tensor<1x4xf32> -> tensor<1x4xf32>
  %1 = nn.add %0, %x : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %1, %x : tensor<1x4xf32>, tensor<1x4xf32>
}
"""


def test_values_on_the_way() -> None:
    function = main_function(parsed(TEXT))
    results, values = trace(function, [X])
    np.testing.assert_array_equal(results[0], [[-1.0, 1.0, 4.0, 6.0]])
    assert results[1] is X
    named = {v.owner.name: a for v, a in values.items() if hasattr(v.owner, "name")}  # pyright: ignore
    np.testing.assert_array_equal(named["nn.relu"], np.maximum(X, 0))
    np.testing.assert_array_equal(evaluate(function, [X])[0], results[0])


def test_called_as_an_executable_is() -> None:
    network = Reference(main_function(parsed(TEXT)))
    assert list(network(X)) == ["output0", "output1"]
    assert len(network.run({"input0": X})) == 2
    with pytest.raises(InputError):
        network(X[0])


def test_quantized_networks_mean_their_integers() -> None:
    module = parsed("""
!a = !quant.uniform<i8:f32, 0.5:3>
func.func @main(%x: tensor<1x4x!a>) -> tensor<1x4x!a> {
  %0 = nn.relu %x : tensor<1x4x!a> -> tensor<1x4x!a>
  func.return %0 : tensor<1x4x!a>
}
""")
    np.testing.assert_array_equal(qmlir.reference(module)(np.array([[-128, 2, 3, 127]], np.int8)), [[3, 3, 3, 127]])


def test_tensors_without_dimensions_are_arrays_of_that_shape() -> None:
    """Tables and factors have a dimension, which results do not take over: reference and CPU give the same shapes."""
    module = parsed("""
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.0078125>
!c = !quant.uniform<i8:f32, 0.25:1>
func.func @main(%x: tensor<!a>) -> (tensor<!b>, tensor<!c>, tensor<!a>) {
  %0 = nn.tanh %x : tensor<!a> -> tensor<!b>
  %1 = nn.requantize %x : tensor<!a> -> tensor<!c>
  %2 = nn.transpose %x {permutation = array<i64>} : tensor<!a> -> tensor<!a>
  func.return %0, %1, %2 : tensor<!b>, tensor<!c>, tensor<!a>
}
""")
    x = np.array(7, np.int8)
    results, code = qmlir.reference(module).run(x), qmlir.compile(module).run(x)
    for ours, theirs in zip(results, code, strict=True):
        assert isinstance(ours, np.ndarray)
        assert ours.shape == theirs.shape == ()
        assert ours.dtype == theirs.dtype
        assert ours == theirs


def test_an_operation_without_a_meaning() -> None:
    module = parsed("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = qmlir.opaque "onnx.Erf"(%x) {reason = "r", source = {}, qmlir.name = #qmlir.name<nodes ["erf"]>}
    : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
""")
    with pytest.raises(UnsupportedError, match=r'qmlir\.opaque "erf": has no meaning that can be evaluated'):
        Reference(main_function(module)).run(np.zeros(4, np.float32))


def test_a_call_wants_inlining() -> None:
    module = parsed("""
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
""")
    with pytest.raises(UnsupportedError, match=r"func\.call .* has no meaning that can be evaluated; run inline first"):
        Reference(main_function(module)).run(np.zeros(4, np.float32))


def test_an_operation_for_which_there_is_no_memory_is_named() -> None:
    """2^46 numbers: more than any address space has."""
    shape = f"tensor<{1 << 46}xf32>"
    function = main_function(
        parsed(f"""
      func.func @main(%x: tensor<1xf32>) -> {shape} {{
        %0 = nn.broadcast %x {{shape = array<i64: {1 << 46}>}} : tensor<1xf32> -> {shape}
        func.return %0 : {shape}
      }}""")
    )
    with pytest.raises(NodeError, match=r"nn.broadcast.*more memory than there is.*--fold-budget.*281474976710660"):
        evaluate(function, [X[0, :1]])
