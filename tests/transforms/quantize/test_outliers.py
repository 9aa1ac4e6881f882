"""Normalizations of data with outlier channels: 16 bits by default, and channels that the next layer reads in 8."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from tests.transforms.quantize.calibrated import Array, calibrated, parsed, sqnr
from tests.transforms.quantize.test_channel_joins import weights

SIZE, ROWS = 48, 16


def network(kind: str, layers: int = 1, gain: Array | None = None) -> str:
    """A normalization, perhaps a product with a gain, and layers that read it."""
    rng = np.random.default_rng(0)
    data, square = f"tensor<{ROWS}x{SIZE}xf32>", f"tensor<{SIZE}x{SIZE}xf32>"
    read, lines = "%n", list[str]()
    if gain is not None:
        lines.append(f"""%g = nn.constant {weights(rng, SIZE, heights=gain)}
  %m = nn.mul %n, %g : {data}, tensor<{SIZE}xf32> -> {data}""")
        read = "%m"
    for i in range(layers):
        lines.append(f"""%w{i} = nn.constant {weights(rng, SIZE, SIZE)}
  %y{i} = nn.fully_connected {read}, %w{i} : {data}, {square} -> {data}""")
    results, types = ", ".join(f"%y{i}" for i in range(layers)), ", ".join([data] * layers)
    body = "\n  ".join(lines)
    return f"""
func.func @main(%x: {data}) -> ({types}) {{
  %n = nn.{kind} %x {{axis = 1 : i64, epsilon = 1.0E-05 : f32}} : {data} -> {data}
  {body}
  func.return {results} : {types}
}}"""


def samples(outlier: float) -> list[Array]:
    rng = np.random.default_rng(4)
    high = np.ones(SIZE)
    high[[3, 17]] = outlier
    return [(rng.standard_normal((ROWS, SIZE)) * high).astype(np.float32) for _ in range(24)]


def score(module: ModuleOp, quantized: ModuleOp, held: list[Array]) -> float:
    truth, found = (np.stack([np.stack(qmlir.reference(m).run(x)) for x in held]) for m in (module, quantized))
    return sqnr(truth, found)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
def test_outliers_behind_a_normalization_keep_the_digits_of_the_rest(kind: str, layers: int) -> None:
    data = samples(40.0)
    module = calibrated(parsed(network(kind, layers)), data[:16])
    default, same = (qmlir.quantize(module, data=data[:16], residuals=r) for r in (None, "same"))
    assert any("widened for outliers" in e.reason for e in qmlir.decisions(default))
    assert all(e.outcome == "quantized" for e in qmlir.decisions(default))
    assert score(module, default, data[16:]) > 30
    assert score(module, same, data[16:]) < 26
    x = data[20]
    for code, exact in zip(qmlir.compile(default).run(x), qmlir.reference(default).run(x), strict=True):
        np.testing.assert_array_equal(code, exact)


def stream(kind: str, gain: Array, shift: bool) -> str:
    """A normalization with a gain, and perhaps a shift, that two layers read, with a sum that adds one of these."""
    rng = np.random.default_rng(1)
    data, square = f"tensor<{ROWS}x{SIZE}xf32>", f"tensor<{SIZE}x{SIZE}xf32>"
    bias = f"""%b = nn.constant {weights(rng, SIZE)}
  %a = nn.add %m, %b : {data}, tensor<{SIZE}xf32> -> {data}"""
    a = "%a" if shift else "%m"
    return f"""
func.func @main(%x: {data}) -> ({data}, {data}) {{
  %n = nn.{kind} %x {{axis = 1 : i64, epsilon = 1.0E-05 : f32}} : {data} -> {data}
  %g = nn.constant {weights(rng, SIZE, heights=gain)}
  %m = nn.mul %n, %g : {data}, tensor<{SIZE}xf32> -> {data}
  {bias if shift else ""}
  %w = nn.constant {weights(rng, SIZE, SIZE, read=gain)}
  %y = nn.fully_connected {a}, %w : {data}, {square} -> {data}
  %v = nn.constant {weights(rng, SIZE, SIZE, read=gain)}
  %z = nn.fully_connected {a}, %v : {data}, {square} -> {data}
  %s = nn.add {a}, %y : {data}, {data} -> {data}
  func.return %s, %z : {data}, {data}
}}"""


@pytest.mark.parametrize(("kind", "shift"), [("layer_norm", False), ("layer_norm", True), ("rms_norm", False)])
def test_gains_of_a_thousand_leave_the_other_channels_their_digits(kind: str, shift: bool) -> None:
    """One scale serves a tensor of the stream; what layers read has factors for its channels."""
    gain = np.ones(SIZE)
    gain[[3, 17]] = 1000.0
    data = samples(1.0)
    module = calibrated(parsed(stream(kind, gain, shift)), data[:16])
    quantized = qmlir.quantize(module, data=data[:16])
    assert all(e.outcome == "quantized" for e in qmlir.decisions(quantized))
    truth, found = (
        [np.stack(each) for each in zip(*(qmlir.reference(m).run(x) for x in data[16:]), strict=True)]
        for m in (module, quantized)
    )
    rest = np.flatnonzero(gain == 1)
    assert sqnr(truth[0][..., rest], found[0][..., rest]) > 32
    assert sqnr(truth[1], found[1]) > 35
    for code, exact in zip(
        qmlir.compile(quantized).run(data[20]), qmlir.reference(quantized).run(data[20]), strict=True
    ):
        np.testing.assert_array_equal(code, exact)


def test_a_gain_that_undoes_outliers_stays_so() -> None:
    """Channels that differ by chance are not brought to one magnitude, which other data would exceed."""
    gain = np.ones(SIZE)
    gain[[3, 17]] = 1 / 40
    data = samples(40.0)
    module = calibrated(parsed(network("layer_norm", gain=gain)), data[:16])
    with_data, profile_only = qmlir.quantize(module, data=data[:16]), qmlir.quantize(module)
    assert score(module, with_data, data[16:]) > score(module, profile_only, data[16:]) - 0.5


def test_normal_data_stay_in_8_bits() -> None:
    data = samples(1.0)
    module = calibrated(parsed(network("layer_norm")), data[:16])
    assert not any("i16" in e.reason for e in qmlir.decisions(qmlir.quantize(module, data=data[:16])))
