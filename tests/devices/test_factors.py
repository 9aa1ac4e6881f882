"""The factors that devices apply: whatever the rule for scales, the bits of multipliers and the range of shifts."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.placement import judge
from qmlir.cli.main import main
from qmlir.devices import Device, load_device
from qmlir.devices.legality.limits import refusals
from qmlir.devices.legality.requirements import factors_of
from qmlir.dialects import qint
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.numerics import fixed_point
from tests.ops.sample import Sample, i, narrow, scaled

RULES = [("mult-shift", rounding) for rounding in ("half-up", "half-away", "half-even", "tfl-double")]


def drawn(seed: int) -> Device:
    """A device with a random rule for scales, random bits of multipliers and a random range of shifts."""
    rng = np.random.default_rng(seed)
    scale, rounding = [*RULES, ("pow2", "half-up"), ("float32", "half-even")][seed % 6]
    least = int(rng.choice([0, 0, 0, 1, 8]))
    keys: dict[str, object] = {
        "scale": scale, "round": rounding, "multiplier_bits": int(rng.integers(8, 33)),
        "shift": {"min": least, "max": int(rng.choice([15, 23, 31, 31, 40, 47, 62]))},
        "granularity": str(rng.choice(["tensor", "channel"])),
    }  # fmt: skip
    if rng.random() < 0.3:
        del keys["shift"]
    if rng.random() < 0.3:
        keys["multiplier_bits"] = 32
    base = load_device("ethos-u55-like").with_({"quant.types": ["i8"]})
    data = base.model_dump(mode="json", by_alias=True, exclude_unset=True)
    data["quant"] = {key: value for key, value in data["quant"].items() if key not in ("shift", "multiplier_bits")}
    data["quant"] |= keys
    return Device.model_validate(data)


def changed(device: Device, multiplier: int, shift: int) -> list[str]:
    """Why a device does not apply a factor."""
    sample = Sample(
        qint.RequantizeOp, "", (i(32, 3, 1),), scaled([multiplier], [shift], device.quant.contract) | narrow(),
        i(8).element,
    )  # fmt: skip
    return refusals(sample.build(), device)


@pytest.mark.parametrize("seed", range(60))
def test_a_factor_within_the_range_is_applied_as_precisely_as_promised(seed: int) -> None:
    device = drawn(seed)
    if (factors := factors_of(device)) is None:
        assert device.quant.scale == "float32"
        return
    rng = np.random.default_rng(seed)
    low, high = np.log2(factors.least), np.log2(factors.most)
    if low > high:  # such a device applies no factor as precisely
        return
    for exponent in (low, high, *rng.uniform(low, high, 40)):
        real = min(max(float(2.0**exponent), factors.least), factors.most)
        if factors.bits == 1:
            real = 2.0 ** np.floor(np.log2(real))
        pair = factors.multiplier(real, 1 << 30 if factors.bits == 1 else 1)
        applied = pair[0] * 2.0 ** (pair[1] - 31)
        assert abs(applied - real) <= real * 2.0**-factors.precision
        if device.quant.contract == "away16":
            pair = factors.multiplier(real, 1 << 16)
        assert changed(device, *pair) == []


@pytest.mark.parametrize("seed", range(24))
def test_a_factor_beyond_the_range_is_refused(seed: int) -> None:
    device = drawn(seed)
    factors = factors_of(device)
    if factors is None or factors.bits == 1 or factors.least > factors.most:
        return
    step = 1 << 16 if device.quant.contract == "away16" else 1
    for real in (factors.least * 0.3, factors.most * 2.2):
        if 2.0**-31 < real < 2.0**29:
            pair = factors.multiplier(real, step)
            exact = abs(pair[0] * 2.0 ** (pair[1] - 31) - real) < 1e-12 * real
            assert exact or changed(device, *pair)


NETWORK = """
func.func @main(%x: tensor<1x6x6x4xf32>) -> tensor<1x6x6x8xf32> {
  %w = nn.constant <tensor<8x3x3x4xf32>, [WEIGHTS]> : tensor<8x3x3x4xf32>
  %b = nn.constant <tensor<8xf32>, [BIASES]> : tensor<8xf32>
  %0 = nn.conv2d %x, %w, %b {padding = array<i64: 1, 1, 1, 1>}
    : tensor<1x6x6x4xf32>, tensor<8x3x3x4xf32>, tensor<8xf32> -> tensor<1x6x6x8xf32>
  %1 = nn.relu %0 : tensor<1x6x6x8xf32> -> tensor<1x6x6x8xf32>
  %2 = nn.conv2d %1, %v {padding = array<i64: 1, 1, 1, 1>}
    : tensor<1x6x6x8xf32>, tensor<8x3x3x8xf32> -> tensor<1x6x6x8xf32>
  func.return %2 : tensor<1x6x6x8xf32>
}
"""


def network() -> ModuleOp:
    rng = np.random.default_rng(7)

    def numbers(count: int) -> str:
        return ", ".join(f"{n:.6f}" for n in rng.standard_normal(count) / 6)

    constant = f"%v = nn.constant <tensor<8x3x3x8xf32>, [{numbers(576)}]> : tensor<8x3x3x8xf32>\n  %0 ="
    text = NETWORK.replace("WEIGHTS", numbers(288)).replace("BIASES", numbers(8)).replace("%0 =", constant, 1)
    return parse_text(make_context(), text, "network")


def images(count: int) -> list[Any]:
    return [np.random.default_rng(n).standard_normal((1, 6, 6, 4)).astype(np.float32) for n in range(count)]


@pytest.mark.parametrize("seed", range(30))
def test_networks_are_quantized_well_for_any_device(seed: int) -> None:
    module, device = network(), drawn(seed)
    quantized = qmlir.quantize(module, qmlir.profile(module, images(6)), target=device)
    reference, exact = qmlir.reference(quantized), qmlir.reference(module)
    expected = [exact(x) for x in images(3)]
    found = [reference(x) for x in images(3)]
    noise = sum(float(((a - b) ** 2).sum()) for a, b in zip(expected, found, strict=True))
    ratio = 10 * np.log10(sum(float((a**2).sum()) for a in expected) / noise)
    assert ratio > (24 if device.quant.scale == "pow2" or device.quant.multiplier_bits < 12 else 30)
    factors, judged = factors_of(device), judge(quantized, device)
    if factors is None or (factors.least <= 2.0**-14 and factors.most >= 2):
        assert not any(v.refusals for v in judged)
    if any(not v.refusals for v in judged):
        executable = qmlir.compile(quantized, target=device)
        assert all(np.array_equal(executable(x), y) for x, y in zip(images(3), found, strict=True))


@pytest.mark.parametrize("rule", RULES)
def test_a_device_with_default_keys_computes_it_all(rule: tuple[str, str]) -> None:
    data = load_device("ethos-u55-like").with_({"quant.types": ["i8"]}).model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )  # fmt: skip
    data["quant"] = {"types": ["i8"], "scale": rule[0], "round": rule[1], "granularity": "channel"}
    device, module = Device.model_validate(data), network()
    quantized = qmlir.quantize(module, qmlir.profile(module, images(6)), target=device)
    judged = judge(quantized, device)
    if rule[1] == "tfl-double":  # rounds twice: a factor below 1/2 has no shorter multiplier with the same results
        assert all("products are shifted" in str(v) for v in judged if v.refusals)
    else:
        assert not any(v.refusals for v in judged)


def test_the_check_states_the_factors(capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--set", "quant.shift.max=31", "--set", 'quant.types=["i8"]']
    assert main(["device", "check", "ethos-u55-like", *keys]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "factors" in line)
    assert line.strip() == (
        f"factors between scales are numbers from {2.0**-17:.4g} to {2.0**30:.4g}, "
        "each with an error of at most 2^-15 of it"
    )
    assert main(["device", "check", "nmp"]) == 0
    assert f"are powers of two from {2.0 ** (fixed_point.MIN_SHIFT - 1):.4g} to 1" in capsys.readouterr().out
