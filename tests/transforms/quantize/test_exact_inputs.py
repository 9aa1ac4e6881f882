"""Inputs that are integers times a step are stored exactly."""

import numpy as np
import pytest

import qmlir
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.transforms.quantize.adjust.search_inputs import integers_of
from tests.transforms.quantize.calibrated import Array, learnt, parsed, uniform

RNG = np.random.default_rng(5)
STEP = np.float32(0.5847029089927673)
CASES: dict[str, tuple[Array, tuple[float, int] | None]] = {
    "picture": (np.arange(3, 250, 2).astype(np.float32), (2.0, -128)),
    "scaled picture": ((np.arange(250) / 255).astype(np.float32), (float(np.float32(1 / 255)), -128)),
    "recording": (np.arange(-100, 91).astype(np.float32) * STEP, (float(STEP), 4)),
    "too many": (np.arange(300).astype(np.float32), None),
    "no lattice": (np.sort(RNG.standard_normal(100)).astype(np.float32), None),
    "zero between": (np.arange(256).astype(np.float32) / np.float32(127.5) - 1, None),
    "a constant": (np.ones(1, np.float32), None),
}


@pytest.mark.parametrize("case", CASES)
def test_steps(case: str) -> None:
    values, expected = CASES[case]
    if case == "picture":  # odd numbers: one step each way, not two
        assert integers_of(values, "int8") is None
        assert integers_of(np.arange(0, 250, 2).astype(np.float32), "int8") == expected
        return
    got = integers_of(values, "int8")
    assert got == expected
    if got is not None:
        np.testing.assert_allclose(np.rint(values / got[0]) * got[0], values, rtol=1e-6)


def test_the_network_reads_its_input_exactly() -> None:
    module = parsed("""
func.func @main(%x: tensor<1x50xf32>) -> tensor<1x50xf32> {
  %0 = nn.relu %x : tensor<1x50xf32> -> tensor<1x50xf32>
  func.return %0 : tensor<1x50xf32>
}
""")
    samples = [(RNG.integers(-100, 90, (1, 50)).astype(np.float32) * STEP) for _ in range(8)]
    quantized = qmlir.quantize(module, learnt(module, samples), data=samples)
    (cast, *_) = (op for op in quantized.walk() if isinstance(op, QuantizeCastOp))
    assert uniform(cast.result).scale == float(STEP)
    (stored,) = cast.evaluate(samples[0])
    real = (stored.astype(np.float32) - uniform(cast.result).zero_point) * STEP
    np.testing.assert_array_equal(real, samples[0])
    without = qmlir.quantize(module, learnt(module, samples))
    assert all(uniform(c.result).scale != float(STEP) for c in without.walk() if isinstance(c, QuantizeCastOp))


JOINED = """
func.func @main(%a: tensor<1x4xf32>, %b: tensor<1x4xf32>) -> tensor<1x8xf32> {
  %0 = nn.reshape %a {shape = array<i64: 1, 4>} : tensor<1x4xf32> -> tensor<1x4xf32>
  %1 = nn.concat %0, %b {axis = 1 : i64} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x8xf32>
  %2 = nn.relu %1 : tensor<1x8xf32> -> tensor<1x8xf32>
  func.return %2 : tensor<1x8xf32>
}
"""


@pytest.mark.parametrize("precision", ["int8", "uint8", "int16"])
def test_inputs_that_share_a_type_have_no_steps_of_their_own(precision: str) -> None:
    """Integers of different steps in one concat: neither contradicts the other, and neither saturates."""
    module, rng = parsed(JOINED), np.random.default_rng(0)
    draw = lambda most, step: (rng.integers(0, most, (1, 4)) * step).astype(np.float32)  # noqa: E731
    samples = [{"input0": draw(256, 1 / 255), "input1": draw(100, 1 / 8)} for _ in range(8)]
    quantized = qmlir.quantize(module, qmlir.profile(module, samples), data=samples, precision=precision)
    step = 100 / 8 / 255
    for sample in samples:
        exact = np.concatenate([sample["input0"], sample["input1"]], axis=1)
        assert np.abs(qmlir.reference(quantized)(sample) - exact).max() <= step
