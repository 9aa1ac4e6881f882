"""The four schemas, per tensor and per channel, on a network with every kind of scale rule."""

import math

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.numerics.schemas import SCHEMAS, QuantizationError
from qmlir.policies.ledger import decision_of
from tests.transforms.quantize.calibrated import (
    Array,
    calibrated,
    operation,
    parsed,
    quantized,
    quantized_values,
    run,
    sqnr,
    undecided,
    uniform,
)

RNG = np.random.default_rng(7)


def values(*shape: int, spread: float = 1.0, draw: np.random.Generator = RNG) -> str:
    """Random numbers as an attribute of MLIR's; other modules give a generator, so that imports change no number."""
    array = (draw.standard_normal(shape) * spread).astype(np.float32)
    type = f"tensor<{'x'.join(map(str, shape))}xf32>"
    return f'<{type}, "0x{array.tobytes().hex()}"> : {type}'


TEXT = f"""
func.func @main(%x: tensor<1x8x8x3xf32>) -> tensor<1x4xf32> {{
  %w0 = nn.constant {values(6, 3, 3, 3, spread=0.3)}
  %b0 = nn.constant {values(6, spread=0.1)}
  %0 = nn.conv2d %x, %w0, %b0 {{padding = array<i64: 1, 1, 1, 1>, min = 0.0 : f32}}
    : tensor<1x8x8x3xf32>, tensor<6x3x3x3xf32>, tensor<6xf32> -> tensor<1x8x8x6xf32>
  %w1 = nn.constant {values(1, 3, 3, 6, spread=0.3)}
  %1 = nn.depthwise_conv2d %0, %w1 {{padding = array<i64: 1, 1, 1, 1>}}
    : tensor<1x8x8x6xf32>, tensor<1x3x3x6xf32> -> tensor<1x8x8x6xf32>
  %2 = nn.add %0, %1 : tensor<1x8x8x6xf32>, tensor<1x8x8x6xf32> -> tensor<1x8x8x6xf32>
  %3 = nn.max_pool2d %2 {{window = array<i64: 2, 2>, strides = array<i64: 2, 2>}}
    : tensor<1x8x8x6xf32> -> tensor<1x4x4x6xf32>
  %4 = nn.sigmoid %3 : tensor<1x4x4x6xf32> -> tensor<1x4x4x6xf32>
  %5 = nn.concat %3, %4 {{axis = 3 : i64}} : tensor<1x4x4x6xf32>, tensor<1x4x4x6xf32> -> tensor<1x4x4x12xf32>
  %6 = nn.global_average_pool %5 : tensor<1x4x4x12xf32> -> tensor<1x1x1x12xf32>
  %7 = nn.reshape %6 {{shape = array<i64: 1, 12>}} : tensor<1x1x1x12xf32> -> tensor<1x12xf32>
  %w2 = nn.constant {values(4, 12)}
  %b2 = nn.constant {values(4)}
  %8 = nn.fully_connected %7, %w2, %b2 : tensor<1x12xf32>, tensor<4x12xf32>, tensor<4xf32> -> tensor<1x4xf32>
  func.return %8 : tensor<1x4xf32>
}}
"""


@pytest.fixture(scope="module")
def samples() -> list[Array]:
    return [RNG.standard_normal((1, 8, 8, 3)).astype(np.float32) for _ in range(8)]


@pytest.fixture(scope="module")
def network(samples: list[Array]) -> ModuleOp:
    return calibrated(parsed(TEXT), samples)


def zero_point_is_legal(schema: str, zero_point: int) -> bool:
    return {"asymmetric": -128 <= zero_point <= 127, "symmetric_with_uint8": zero_point in (0, -128)}.get(
        schema, zero_point == 0
    )


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_types(network: ModuleOp, schema: str, per_channel: bool) -> None:
    module = quantized(network, schema=schema, per_channel=per_channel)
    assert not undecided(module)
    for value in quantized_values(module):
        type = uniform(value)
        weights = isinstance(value.owner, ConstantOp)
        assert weights or not type.is_per_axis
        assert all(zero_point_is_legal("symmetric" if weights else schema, z) for z in type.zero_points)
        if type.storage_width == 8 and schema == "symmetric_with_power2_scale":
            assert all(math.frexp(s)[0] == 0.5 for s in type.scales), "powers of two, weights and sigmoids too"
    for op in (o for o in module.walk() if isinstance(o, WeightedOp)):
        weights = uniform(op.w)
        assert weights.is_per_axis == per_channel
        assert (weights.storage_min, weights.storage_max) == (-127, 127)
        if op.b is not None:
            assert uniform(op.b).scales == tuple(uniform(op.x).scale * s for s in weights.scales)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_one_scale(network: ModuleOp, schema: str) -> None:
    """Sum, pool, sigmoid and concat are one group; the mean has a scale of its own, which its reshape keeps."""
    module = quantized(network, schema=schema)
    concat, pool, reshape = (operation(module, f"nn.{n}") for n in ("concat", "max_pool2d", "reshape"))
    group = {uniform(v) for v in (*concat.operands, *concat.results, *pool.operands, *pool.results)}
    assert len(group) == 1
    assert uniform(reshape.operands[0]) == uniform(reshape.results[0]) not in group


def test_unsigned_ranges_use_all_integers(network: ModuleOp) -> None:
    module = quantized(network, schema="symmetric_with_uint8")
    convolution = operation(module, "nn.conv2d")
    assert uniform(convolution.results[0]).zero_point == -128  # never negative: it ends with a relu
    assert uniform(convolution.operands[0]).zero_point == 0


@pytest.mark.parametrize(("schema", "least"), [*((s, 25.0) for s in SCHEMAS[:3]), (SCHEMAS[3], 20.0)])
def test_accuracy(network: ModuleOp, samples: list[Array], schema: str, least: float) -> None:
    module, floats = quantized(network, schema=schema), parsed(TEXT)
    truth = np.concatenate([run(floats, x) for x in samples])
    assert sqnr(truth, np.concatenate([run(module, x) for x in samples])) > least


def test_unsigned_bytes_are_signed_ones_with_another_zero_point(network: ModuleOp, samples: list[Array]) -> None:
    signed, unsigned = (quantized(network, precision=precision) for precision in ("int8", "uint8"))
    activations = [v for v in quantized_values(unsigned) if not isinstance(v.owner, ConstantOp)]
    assert {uniform(v).is_signed for v in activations} == {False}
    for x in samples:
        np.testing.assert_array_equal(run(unsigned, x), run(signed, x))


def test_sixteen_bits_are_integers_throughout(network: ModuleOp, samples: list[Array]) -> None:
    """Where sums do not fit 32 bits, they have 64."""
    module = quantized(network, precision="int16")
    assert {d.outcome.data for o in module.walk() if (d := decision_of(o)) is not None} == {"quantized"}
    assert not undecided(module)
    truth = run(parsed(TEXT), samples[0])
    assert np.abs(run(module, samples[0]) - truth).max() < 0.001 * np.abs(truth).max()


@pytest.mark.parametrize("on_data", [False, True])
@pytest.mark.parametrize("schema", ["symmetric", "symmetric_with_power2_scale"])
def test_a_schema_that_needs_signed_integers_refuses_unsigned_ones(
    samples: list[Array], schema: str, on_data: bool
) -> None:
    with pytest.raises(
        QuantizationError, match=f"quantize: schema {schema} needs signed integers, got uint8; use int8"
    ):
        qmlir.quantize(
            calibrated(parsed(TEXT), samples), schema=schema, precision="uint8", data=samples if on_data else None
        )
