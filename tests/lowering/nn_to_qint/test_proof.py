"""The proof that sums fit 32 bits is right at its edge; the widest sums it admits, and wider ones, are exact."""

import numpy as np

import qmlir
from qmlir.compiler import to_integers
from qmlir.policies.ledger import decisions
from tests.conftest import crossed
from tests.transforms.quantize.calibrated import parsed


def network(weights: list[int], bias: float, zero_point: int = 0, bias_type: str = "i32") -> str:
    n, b = len(weights), "!b" if bias_type == "i32" else bias_type
    return f"""
!x = !quant.uniform<i8:f32, 1.0:{zero_point}>
!w = !quant.uniform<i8:f32, 1.0>
!b = !quant.uniform<i32:f32, 1.0>
!y = !quant.uniform<i8:f32, 16777216.0>
func.func @main(%x: tensor<1x{n}x!x>) -> tensor<1x1x!y> {{
  %w = nn.constant <tensor<1x{n}xi8>, {weights}> : tensor<1x{n}x!w>
  %b = nn.constant <tensor<1x{bias_type}>, [{bias}]> : tensor<1x{b}>
  %y = nn.fully_connected %x, %w, %b : tensor<1x{n}x!x>, tensor<1x{n}x!w>, tensor<1x{b}> -> tensor<1x1x!y>
  func.return %y : tensor<1x1x!y>
}}
"""


@crossed({"zero_point": [0, -128, 127], "sign": [1, -1]})
def test_the_edge(zero_point: int, sign: int) -> None:
    weights, furthest = [127, -128, 1], max(127 - zero_point, zero_point + 128)
    room = 2**31 - (1 if sign > 0 else 0) - 256 * furthest  # there is one number more below zero
    at_edge, beyond = (
        parsed(network(weights, sign * room, zero_point)),
        parsed(network(weights, sign * (room + 1), zero_point)),
    )
    assert "tensor<1x1xi32>" in str(to_integers(at_edge))
    assert "tensor<1x1xi64>" not in str(to_integers(at_edge))
    assert "tensor<1x1xi32>" not in str(to_integers(beyond))
    assert "tensor<1x1xi64>" in str(to_integers(beyond))
    top, bottom = (127, -128) if zero_point <= 0 else (-128, 127)
    for stored in ([top, bottom, top], [bottom, top, bottom], [zero_point] * 3):
        x = np.array([stored], np.int8)
        acc = int((x[0].astype(np.int64) - zero_point) @ np.array(weights)) + sign * room
        assert -(2**31) <= acc <= 2**31 - 1
        for module, total in ((at_edge, acc), (beyond, acc + sign)):
            expected = min(max((total + 2**23) >> 24, -128), 127)
            assert qmlir.reference(module)(x) == qmlir.compile(module)(x) == expected


def test_sums_of_48_bits() -> None:
    """Up to which a 64-bit accumulator can be rescaled."""
    largest = 2**47 - 1 - 128  # of which the last is left out, as there is one number more below zero
    at_edge, beyond = (parsed(network([1], bias, bias_type="i64")) for bias in (largest - 1, largest))
    assert [e.code for e in decisions(to_integers(beyond))] == ["accumulator"]
    x = np.array([[-128]], np.int8)
    assert qmlir.reference(at_edge)(x) == qmlir.compile(at_edge)(x) == 127
    less = parsed(network([1], -(2**33), bias_type="i64"))
    assert qmlir.reference(less)(x) == qmlir.compile(less)(x) == -128


def test_the_promise_of_the_quantizer_is_kept() -> None:
    """legality.py is asked twice, about the same thing: what `quantize` calls quantized has an integer form."""
    module = parsed(network([1, 2, 3], 1.0e15, bias_type="f32"))
    assert [e.code for e in decisions(qmlir.Pipeline("quantize-ops")(module))] == ["bias"]
    assert [e.code for e in decisions(to_integers(module))] == ["bias"]
