"""What a network takes and gives, as numpy sees it: names, shapes and dtypes, and what does not fit."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pytest

from qmlir.compiler import main_function
from qmlir.errors import InputError
from qmlir.ir.signature import Signature, signature_of
from tests.transforms.quantize.calibrated import parsed

NAMED = """
func.func @main(
    %a: tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["left"]>}, %b: tensor<3x!quant.uniform<u8:f32, 0.5>>)
    -> (tensor<3x!quant.uniform<u8:f32, 0.5>>, tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["same"]>},
        tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["same"]>}) {
  func.return %b, %a, %a : tensor<3x!quant.uniform<u8:f32, 0.5>>, tensor<1x2xf32>, tensor<1x2xf32>
}
"""
ONE = """
func.func @main(%a: tensor<1x2xf32> {qmlir.name = #qmlir.name<tensors ["left"]>}) -> tensor<1x2xf32> {
  func.return %a : tensor<1x2xf32>
}
"""


def signature(text: str) -> Signature:
    return signature_of(main_function(parsed(text)))


def test_names_shapes_and_dtypes() -> None:
    found = signature(NAMED)
    assert [(s.name, str(s)) for s in found.inputs] == [("left", "float32[1, 2]"), ("input1", "uint8[3]")]
    assert [s.name for s in found.outputs] == ["output0", "same", "same.1"]


def test_arrays_in_order() -> None:
    a, b = np.ones((1, 2), np.float32), np.zeros(3, np.uint8)
    assert [x is y for x, y in zip(signature(NAMED).arrays({"input1": b, "left": a}), [a, b], strict=True)] == [
        True
    ] * 2
    assert signature(ONE).arrays(a)[0] is a
    strided = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2))[1:2]
    (dense,) = signature(ONE).arrays(strided)
    assert dense.flags.c_contiguous
    np.testing.assert_array_equal(dense, strided)


@pytest.mark.parametrize("order", ["<", ">", "="])
def test_arrays_of_any_byte_order_keep_their_values(order: Literal["<", ">", "="]) -> None:
    a = np.array([[1.0, 2.0]], np.float32)
    (native,) = signature(ONE).arrays(a.astype(a.dtype.newbyteorder(order)))
    assert native.tobytes() == a.tobytes()


def test_results() -> None:
    a = np.ones(1)
    assert signature(ONE).result([a]) is a
    assert list(signature(NAMED).result([a, a, a])) == ["output0", "same", "same.1"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((2, 2), np.float32), 'input "left": must be float32[1, 2], got float32[2, 2]'),
        (np.zeros((1, 2)), 'input "left": must be float32[1, 2], got float64[1, 2]'),
        ([[1.0, 2.0]], 'input "left": must be given as an array float32[1, 2], got list'),
        ({}, 'input "left": must be given as an array float32[1, 2], got nothing'),
        ({"lef": np.zeros((1, 2))}, 'input "lef": must be one of left'),
    ],
)
def test_what_does_not_fit(given: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        signature(ONE).arrays(given)
    assert str(error.value).startswith(message)


def test_several_inputs_go_by_name() -> None:
    with pytest.raises(InputError, match="must be given by name, got one array; pass a dict of arrays"):
        signature(NAMED).arrays(np.zeros(1))
    lacking: Mapping[str, Any] = {"left": np.zeros((1, 2), np.float32)}
    with pytest.raises(InputError, match=r'input "input1": must be given as an array uint8\[3\], got nothing'):
        signature(NAMED).arrays(lacking)
