"""The package, as it is installed: `pytest examples/plugin/tests` and `lit examples/plugin/tests`."""

from pathlib import Path

import numpy as np
import pytest
from qmlir_example.calibration import clip_tails
from qmlir_example.rounding import carry_errors

import qmlir

X = np.linspace(-4.0, 4.0, 256, dtype=np.float32)
SQUAREPLUS = (X + np.sqrt(X.astype(np.float64) ** 2 + 1)) / 2

TEXT = """
func.func @main(%x: tensor<256xf32>) -> tensor<256xf32> {
  calib.observe %x {name = "x", range = [-4.0, 4.0]} : tensor<256xf32>
  %y = example.squareplus %x : tensor<256xf32> -> tensor<256xf32>
  calib.observe %y {name = "y", range = [0.0, 4.2]} : tensor<256xf32>
  func.return %y : tensor<256xf32>
}
"""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "squareplus.mlir"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_squareplus_is_computed_on_floats(network: Path) -> None:
    network.write_text("\n".join(line for line in TEXT.splitlines() if "calib" not in line), encoding="utf-8")
    np.testing.assert_allclose(qmlir.compile(network)(X), SQUAREPLUS, rtol=1e-6)


@pytest.mark.parametrize(("precision", "step"), [("int8", 4.2 / 255), ("int16", 4.2 / 65535 * 8)])
def test_squareplus_is_computed_in_integers(network: Path, precision: str, step: float) -> None:
    q = qmlir.quantize(network, precision=precision)
    (decision,) = qmlir.decisions(q)
    assert (decision.operation, decision.outcome) == ("example.squareplus", "quantized")
    y = qmlir.compile(q)(X)
    assert (y == qmlir.reference(q)(X)).all()
    assert np.abs(y - SQUAREPLUS).max() < step + 4.0 / 127  # the step of the result, and the half steps of x


def test_clip_tails_is_a_calibration() -> None:
    counts = np.array([1] + [100] * 98 + [99])
    scale, zero_point = qmlir.choose_quantization(-1.0, 1.0, "symmetric", "int8", counts, "clip-tails")
    assert zero_point == 0
    assert 0.98 / 127 < scale < 1 / 127
    assert qmlir.choose_quantization(0.0, 1.0, histogram=counts, calibration="clip-tails")[1] == -128
    assert clip_tails.__name__ == "clip_tails"


def test_carry_errors_makes_mean_errors_small() -> None:
    from qmlir.numerics.roundings import WeightsToRound

    random = np.random.default_rng(0)
    weights = random.uniform(-100, 100, (2, 8, 64))
    data = random.integers(0, 100, (2, 50, 64)).astype(np.float32)
    integers = carry_errors(WeightsToRound("layer", weights, np.rint(weights), data, -127, 127))
    assert (integers == np.rint(integers)).all()
    assert (np.abs(integers - weights) <= 1).all()
    means = data.mean(axis=1)[:, None]
    carried, nearest = (np.abs(((q - weights) * means).sum(axis=2)).mean() for q in (integers, np.rint(weights)))
    assert carried < nearest / 4
