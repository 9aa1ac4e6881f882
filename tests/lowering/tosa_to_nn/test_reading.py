"""Files of tosa as other tools write them: loaded, profiled, quantized, compiled; unusual types and constants."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.cli import main as command
from qmlir.compiler import Pipeline, main_function, to_integers
from qmlir.dialects import nn
from qmlir.errors import QmlirError
from qmlir.ir.context import make_context
from qmlir.ir.interfaces import shape_of
from qmlir.ir.source import parse_text
from qmlir.ir.verify import verify

NET = """
func.func @forward(%arg0: tensor<1x8x8x3xf32> {ml_program.identifier = "image"}) -> tensor<1x10xf32> {
  %0 = "tosa.const"() <{value = dense<0.05> : tensor<4x3x3x3xf32>}> : () -> tensor<4x3x3x3xf32>
  %1 = "tosa.const"() <{value = dense<[0.1, -0.2, 0.3, 0.0]> : tensor<4xf32>}> : () -> tensor<4xf32>
  %2 = tosa.conv2d %arg0, %0, %1 {dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>}
    : (tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x8x8x4xf32> loc("conv1")
  %3 = tosa.clamp %2 {max_fp = 3.40282347E+38 : f32, max_int = 2147483647 : i64, min_fp = 0.000000e+00 : f32,
    min_int = 0 : i64} : (tensor<1x8x8x4xf32>) -> tensor<1x8x8x4xf32> loc("relu1")
  %4 = tosa.max_pool2d %3 {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>}
    : (tensor<1x8x8x4xf32>) -> tensor<1x4x4x4xf32> loc("pool1")
  %5 = tosa.reshape %4 {new_shape = array<i64: 1, 64>} : (tensor<1x4x4x4xf32>) -> tensor<1x64xf32>
  %6 = "tosa.const"() <{value = dense<0.02> : tensor<10x64xf32>}> : () -> tensor<10x64xf32>
  %7 = "tosa.const"() <{value = dense<0.0> : tensor<10xf32>}> : () -> tensor<10xf32>
  %8 = tosa.fully_connected %5, %6, %7 : (tensor<1x64xf32>, tensor<10x64xf32>, tensor<10xf32>) -> tensor<1x10xf32>
    loc("dense")
  return %8 : tensor<1x10xf32>
}
"""


def expected(image: np.ndarray) -> np.ndarray:
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    sums = np.sum([padded[:, i : i + 8, j : j + 8].sum(3) for i in range(3) for j in range(3)], axis=0) * 0.05
    features = np.maximum(sums[..., None] + np.array([0.1, -0.2, 0.3, 0.0]), 0)
    pooled = features.reshape(1, 4, 2, 4, 2, 4).max((2, 4))
    return np.full((1, 10), pooled.sum() * 0.02)


def samples(count: int = 8) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, (1, 8, 8, 3)).astype(np.float32) for _ in range(count)]


@pytest.mark.slow
def test_a_float_network_is_profiled_quantized_and_compiled(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(NET, encoding="utf-8")
    module = qmlir.load(tmp_path / "net.mlir")
    profile = qmlir.profile(module, samples())
    assert {"image", "relu1", "dense"} <= set(profile.tensors)
    quantized = qmlir.quantize(module, profile, fail_on_float=True)
    run_float, run_integers = qmlir.compile(module), qmlir.compile(quantized)
    for sample in samples(3):
        wanted = expected(sample)
        np.testing.assert_allclose(run_float(sample), wanted, rtol=1e-5)
        np.testing.assert_allclose(run_integers(sample), wanted, atol=0.02)


def test_commands_read_tosa(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.mlir").write_text(NET, encoding="utf-8")
    np.save(tmp_path / "x.npy", samples(1)[0])
    arguments = ["run", str(tmp_path / "net.mlir"), "--data", str(tmp_path / "x.npy"), "-o", str(tmp_path / "y.npz")]
    assert command.main(arguments) == 0
    (result,) = np.load(tmp_path / "y.npz").values()
    np.testing.assert_allclose(result.reshape(1, 10), expected(samples(1)[0]), rtol=1e-5)
    (tmp_path / "bad.mlir").write_text(NET.replace("1x8x8x3", "?x8x8x3"), encoding="utf-8")
    assert command.main(["run", str(tmp_path / "bad.mlir"), "--data", str(tmp_path / "x.npy")]) == 1
    assert "export it with static shapes" in capsys.readouterr().err


def read(text: str) -> ModuleOp:
    module = parse_text(make_context(), text, "net.mlir")
    verify(module)
    module = Pipeline("tosa-to-nn")(module)
    verify(module)
    return module


def computed(module: ModuleOp, *inputs: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        (y,) = evaluate(main_function(to_integers(module)), inputs)
    return y


QUANTIZED = """
!q = !quant.uniform<i8:f32, 0.5:3>
!u = !quant.uniform<u8:f32, 0.25:100>
func.func @main(%x: tensor<4x!q>) -> tensor<4x!u> {
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<29> : tensor<1xi8>}> : () -> tensor<1xi8>
  %xz = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %yz = "tosa.const"() <{values = dense<100> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = "tosa.rescale"(%x, %m, %s, %xz, %yz) <{scale32 = true, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>,
    per_channel = false, input_unsigned = false, output_unsigned = true}>
    : (tensor<4x!q>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4x!u>
  func.return %y : tensor<4x!u>
}
"""


def test_quantized_types_of_arguments_and_results_stay() -> None:
    """TFLite's importer leaves them, until they are stripped."""
    module = read(QUANTIZED)
    main = main_function(module)
    assert str(main.function_type.inputs.data[0]) == "tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>"
    assert str(main.function_type.outputs.data[0]) == "tensor<4x!quant.uniform<u8:f32, 2.500000e-01:100>>"
    x = np.array([-128, 3, 4, 100], np.int8)
    np.testing.assert_array_equal(computed(module, x), np.clip((x.astype(int) - 3) * 2 + 100, 0, 255))


LARGE = """
func.func @main(%x: tensor<1x1024xf32>) -> tensor<1x1x1024xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %w = "tosa.const"() <{values = dense<0.5> : tensor<1x1024x1024xf32>}> : () -> tensor<1x1024x1024xf32>
  %t = tosa.transpose %w {perms = array<i32: 0, 2, 1>} : (tensor<1x1024x1024xf32>) -> tensor<1x1024x1024xf32>
  %s = tosa.const_shape {values = dense<[1, 1, 1024]> : tensor<3xindex>} : () -> !tosa.shape<3>
  %r = tosa.reshape %x, %s : (tensor<1x1024xf32>, !tosa.shape<3>) -> tensor<1x1x1024xf32>
  %y = tosa.matmul %r, %t, %z, %z : (tensor<1x1x1024xf32>, tensor<1x1024x1024xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x1024xf32>
  func.return %y : tensor<1x1x1024xf32>
}
"""  # noqa: E501


def test_large_constants_with_equal_elements_are_moved_at_import() -> None:
    module = read(LARGE)
    names = [op.name for op in main_function(module).body.block.ops]
    assert names == ["nn.reshape", "nn.constant", "nn.matmul", "func.return"]
    (weights,) = [op for op in module.walk() if isinstance(op, nn.ConstantOp)]
    assert shape_of(weights.y) == (1, 1024, 1024)


NIBBLES = """
func.func @main(%x: tensor<1x1x3x1xi8>) -> tensor<1x1x1x1xi32> {
  %w = "tosa.const"() <{values = dense<[[[[7], [-8], [1]]]]> : tensor<1x1x3x1xi4>}> : () -> tensor<1x1x3x1xi4>
  %b = "tosa.const"() <{values = dense<5> : tensor<1xi32>}> : () -> tensor<1xi32>
  %xz = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %wz = "tosa.const"() <{values = dense<0> : tensor<1xi4>}> : () -> tensor<1xi4>
  %y = tosa.conv2d %x, %w, %b, %xz, %wz {pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>,
    dilation = array<i64: 1, 1>, acc_type = i32} : (tensor<1x1x3x1xi8>, tensor<1x1x3x1xi4>, tensor<1xi32>, tensor<1xi8>,
    tensor<1xi4>) -> tensor<1x1x1x1xi32>
  func.return %y : tensor<1x1x1x1xi32>
}
"""


def test_weights_of_4_bits() -> None:
    x = np.array([3, -5, 100], np.int8).reshape(1, 1, 3, 1)
    assert computed(read(NIBBLES), x).item() == 5 + 7 * 3 + 8 * 5 + 100


@pytest.mark.parametrize(
    ("name", "properties", "wanted"),
    [
        ("maximum", "", [np.nan, np.nan, np.nan, 2.0]),
        ("maximum", "{nan_mode = PROPAGATE}", [np.nan, np.nan, np.nan, 2.0]),
        ("maximum", "{nan_mode = IGNORE}", [1.0, 3.0, np.nan, 2.0]),
        ("minimum", "{nan_mode = IGNORE}", [1.0, 3.0, np.nan, -4.0]),
    ],
)
def test_nan_in_extremes(name: str, properties: str, wanted: list[float]) -> None:
    text = f"""func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = tosa.{name} %a, %b {properties} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      func.return %0 : tensor<4xf32>
    }}"""
    a, b = np.array([1.0, np.nan, np.nan, 2.0], np.float32), np.array([np.nan, 3.0, np.nan, -4.0], np.float32)
    np.testing.assert_array_equal(computed(read(text), a, b), np.array(wanted, np.float32))


@pytest.mark.parametrize(("mode", "wanted"), [("PROPAGATE", np.nan), ("IGNORE", -1.0)])
def test_nan_in_clamps(mode: str, wanted: float) -> None:
    text = f"""func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {{
      %0 = tosa.clamp %a {{min_val = -1.0 : f32, max_val = 1.0 : f32, nan_mode = {mode}}}
        : (tensor<3xf32>) -> tensor<3xf32>
      func.return %0 : tensor<3xf32>
    }}"""
    a = np.array([np.nan, 3.0, -0.5], np.float32)
    np.testing.assert_array_equal(computed(read(text), a), np.array([wanted, 1.0, -0.5], np.float32))


def test_a_clamp_between_both_largest_numbers_replaces_infinities() -> None:
    most = np.finfo(np.float32).max
    text = """func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
      %0 = tosa.clamp %a {min_val = -3.40282347E+38 : f32, max_val = 3.40282347E+38 : f32}
        : (tensor<3xf32>) -> tensor<3xf32>
      func.return %0 : tensor<3xf32>
    }"""
    a = np.array([np.inf, -np.inf, 0.5], np.float32)
    np.testing.assert_array_equal(computed(read(text), a), np.array([most, -most, 0.5], np.float32))


TENSOR = "tensor<1x4x4xf32>"


@pytest.mark.parametrize(
    ("operation", "types"),
    [
        ('"tosa.custom"(%x) <{operator_name = "mine", domain_name = "d", implementation_attrs = ""}>', TENSOR),
        ('"tosa.rfft2d"(%x) <{local_bound = false}>', TENSOR),
        ('"tosa.variable_read"() <{name = "state"}>', ""),
        ('"tosa.while_loop"(%x)', TENSOR),
        ('"tosa.dim"(%x) <{axis = 0 : i32}>', TENSOR),
        ("tosa.rfft2d %x", TENSOR),
    ],
)
def test_operations_that_are_not_read(operation: str, types: str) -> None:
    text = f"func.func @main(%x: {TENSOR}) -> {TENSOR} {{\n  %y = {operation} : ({types}) -> {TENSOR}\n"
    with pytest.raises(QmlirError, match=r"net\.mlir:2:.*tosa\.\w+ is an operation of TOSA that is not read") as error:
        read(text + f"  func.return %y : {TENSOR}\n}}")
    assert "did you mean" not in str(error.value)


def test_a_misspelt_operation_has_a_near_miss() -> None:
    with pytest.raises(QmlirError, match=r"tosa\.maximun is not registered; did you mean tosa\.maximum"):
        read(f'func.func @main(%x: {TENSOR}) {{ %y = "tosa.maximun"(%x, %x) : ({TENSOR}, {TENSOR}) -> {TENSOR} }}')
