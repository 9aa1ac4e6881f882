"""The proof that sums fit 32 bits is right at its edge, and the widest sums it admits are computed exactly."""

import numpy as np
import pytest

import qmlir
from qmlir.compiler import to_integers
from qmlir.ledger import decisions
from tests.transforms.quantize.calibrated import parsed


def network(weights: list[int], bias: int, zero_point: int = 0) -> str:
    n = len(weights)
    return f"""
!x = !quant.uniform<i8:f32, 1.0:{zero_point}>
!w = !quant.uniform<i8:f32, 1.0>
!b = !quant.uniform<i32:f32, 1.0>
!y = !quant.uniform<i8:f32, 16777216.0>
func.func @main(%x: tensor<1x{n}x!x>) -> tensor<1x1x!y> {{
  %w = nn.constant <tensor<1x{n}xi8>, {weights}> : tensor<1x{n}x!w>
  %b = nn.constant <tensor<1xi32>, [{bias}]> : tensor<1x!b>
  %y = nn.fully_connected %x, %w, %b : tensor<1x{n}x!x>, tensor<1x{n}x!w>, tensor<1x!b> -> tensor<1x1x!y>
  func.return %y : tensor<1x1x!y>
}}
"""


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("zero_point", [0, -128, 127])
def test_the_edge(zero_point: int, sign: int) -> None:
    weights, furthest = [127, -128, 1], max(127 - zero_point, zero_point + 128)
    room = 2**31 - (1 if sign > 0 else 0) - 256 * furthest  # there is one number more below zero
    at_edge, beyond = (
        parsed(network(weights, sign * room, zero_point)),
        parsed(network(weights, sign * (room + 1), zero_point)),
    )
    assert [e.outcome for e in decisions(to_integers(beyond))] == ["float"]
    assert "nn.fully_connected" not in str(to_integers(at_edge))
    top, bottom = (127, -128) if zero_point <= 0 else (-128, 127)
    for stored in ([top, bottom, top], [bottom, top, bottom], [zero_point] * 3):
        x = np.array([stored], np.int8)
        acc = int((x[0].astype(np.int64) - zero_point) @ np.array(weights)) + sign * room
        assert -(2**31) <= acc <= 2**31 - 1
        expected = min(max((acc + 2**23) >> 24, -128), 127)
        assert qmlir.reference(at_edge)(x) == expected


def test_the_promise_of_the_quantizer_is_kept() -> None:
    """legality.py is asked twice, about the same thing: what `quantize` calls quantized has an integer form."""
    module = parsed(network([1, 2, 3], 2**31 - 1))
    assert [e.code for e in decisions(qmlir.Pipeline("quantize-ops")(module))] == ["accumulator"]
    assert [e.code for e in decisions(to_integers(module))] == ["accumulator"]
