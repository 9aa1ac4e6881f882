"""What a certificate states, and which networks get none."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.analysis.certify import certificate_of
from qmlir.errors import NodeError
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def digits() -> dict[str, Any]:
    samples = np.load(DIGITS / "digits.npz")["calibration_images"][:16, None]
    return certificate_of(qmlir.quantize(DIGITS / "digits.onnx", data=samples))[1]


@pytest.mark.slow
def test_floats_are_at_the_entry_and_the_exit_only(digits: dict[str, Any]) -> None:
    assert digits["verdict"] == "integer-only"
    assert [each["operation"] for each in digits["entry"]] == ["quant.qcast"]
    assert [each["operation"] for each in digits["exit"]] == ["quant.dcast"]
    assert digits["entry"][0]["path"] == ['input "image"', 'quant.qcast "quant.qcast"']


def test_sums_have_an_interval_for_each_channel(digits: dict[str, Any]) -> None:
    first = next(each for each in digits["operations"] if each["operation"] == "qint.conv2d")
    assert first["node"] == "conv1+relu1"
    assert first["types"] == ["i8", "i8", "i32", "i32"]
    assert first["accumulators"]["bits"] == 32
    assert len(first["accumulators"]["lowest"]) == len(first["accumulators"]["highest"]) == 8
    assert first["range"] == [min(first["accumulators"]["lowest"]), max(first["accumulators"]["highest"])]


def test_requantizations_are_off_by_half_a_step(digits: dict[str, Any]) -> None:
    errors = [each["requantization"]["error"] for each in digits["operations"] if "requantization" in each]
    assert len(errors) == 5
    assert all(0.5 <= error < 0.50001 for error in errors)


def _refused(text: str) -> str:
    with pytest.raises(NodeError) as caught:
        certificate_of(parse_text(make_context(), text, "text"))
    return str(caught.value)


def _layer(bias: int, *, point: int = 0, contract: str = "single", subtracted: int = 0, weight: int = 100) -> str:
    return f"""
func.func @main(%x: tensor<1x2xi8>) -> tensor<1x3xi8> {{
  %w = nn.constant <tensor<3x2xi8>, [1, 2, {weight}, 100, 0, 0]> : tensor<3x2xi8>
  %b = nn.constant <tensor<3xi32>, [0, {bias}, 0]> : tensor<3xi32>
  %0 = qint.fully_connected %x, %w, %b {{zero_point = {point} : i32, qmlir.name = #qmlir.name<nodes ["f"]>}} : tensor<1x2xi8>, tensor<3x2xi8>, tensor<3xi32> -> tensor<1x3xi32>
  %1 = qint.requantize %0 {{input_zero_point = {subtracted} : i32, multiplier = array<i32: 1073741824>, shift = array<i32: -8>, contract = "{contract}", min = -128 : i32, max = 127 : i32}} : tensor<1x3xi32> -> tensor<1x3xi8>
  func.return %1 : tensor<1x3xi8>
}}
"""  # noqa: E501


def test_a_channel_that_overflows_is_named() -> None:
    most = (1 << 31) - 1
    certificate_of(parse_text(make_context(), _layer(most - 25400), "text"))  # 200 · 127 fits
    refused = _refused(_layer(most - 25399))
    assert 'qint.fully_connected "f": must have sums that fit its 32-bit accumulator' in refused
    assert f"got sums from -25600 to {most + 1} in channel 1" in refused


def test_every_entry_is_certified() -> None:
    most = (1 << 31) - 1
    first, second = _layer(0).replace("@main", "@prefill"), _layer(most - 25400).replace("@main", "@decode")
    certificate = certificate_of(parse_text(make_context(), first + second, "text"))[1]
    assert certificate["about"] == "entries"
    assert [each["name"] for each in certificate["entries"]] == ["prefill", "decode"]
    highest = [max(each["operations"][0]["accumulators"]["highest"]) for each in certificate["entries"]]
    assert highest == [25400, most]
    alone = certificate_of(parse_text(make_context(), _layer(most - 25400), "text"))[1]
    assert {key: alone[key] for key in ("entry", "exit", "weights", "operations")} | {"name": "decode"} == (
        certificate["entries"][1]
    )
    too_much = _layer(most - 25399).replace("@main", "@decode")
    assert f"got sums from -25600 to {most + 1} in channel 1" in _refused(first + too_much)


def test_a_partial_sum_counts() -> None:
    """Products that cancel overflow all the same, if they come in an order that no one chose."""
    most = (1 << 31) - 1
    refused = _refused(_layer(most - 100, point=-(1 << 20), weight=-100))
    assert "in channel 1" in refused


def test_accumulators_beyond_a_contract_are_refused() -> None:
    text = _layer(1 << 30, contract="double", subtracted=-(1 << 31) + 1)
    assert "must have accumulators that contract double takes, within ±2147483648" in _refused(text)


def test_floats_between_integers_are_refused() -> None:
    assert "contract float_even rounds in float32" in _refused(_layer(0, contract="float_even"))


def test_an_operation_without_a_rule_is_refused() -> None:
    text = """
func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = nn.cumulative_product %x {axis = 0 : i64} : tensor<4xi32> -> tensor<4xi32>
  func.return %0 : tensor<4xi32>
}
"""
    assert "must be an operation on quantized numbers, or one that moves, compares or chooses numbers" in _refused(text)
