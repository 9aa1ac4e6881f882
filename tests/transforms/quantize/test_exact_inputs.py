"""Inputs that are integers times a step are stored exactly."""

import numpy as np
import pytest

import qmlir
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.transforms.quantize.exact_inputs import integers_of
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
