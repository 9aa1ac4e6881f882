"""Data movement on quantized and integer types: what is moved are the stored integers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, Signedness, TensorType, f32, f64, i1, i8, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import TensorOp, parts_of

Array = npt.NDArray[Any]

u8 = IntegerType(8, Signedness.UNSIGNED)
SIGNED = UniformType.per_tensor(i8, 0.5, 3)
UNSIGNED = UniformType.per_tensor(u8, 0.5, 128)
NARROW = UniformType.per_tensor(i8, 0.5, 0, -127, 127)


def value(element: Attribute, *shape: int) -> SSAValue:
    return test.TestOp(result_types=[TensorType(element, shape)]).res[0]


def evaluated(op: TensorOp, *inputs: Array) -> Array:
    op.verify()
    return op.evaluate(*inputs)[0]


@pytest.mark.parametrize(
    ("element", "real", "stored"),
    [
        (SIGNED, 0.0, 3),
        (SIGNED, -1.5, 0),
        (SIGNED, 0.75, 5),  # 1.5 steps: half to even, then the zero point
        (SIGNED, 1e9, 127),
        (SIGNED, -np.inf, -128),
        (NARROW, -1e9, -127),
        (UNSIGNED, 0.0, 128),
        (UNSIGNED, -64.0, 0),
    ],
)
def test_pad_stores_the_nearest_integer(element: UniformType, real: float, stored: int) -> None:
    x = np.array([1, 2], element.numpy_dtype)
    op = nn.PadOp.make([value(element, 2)], {"low": ints([1]), "high": ints([0]), "value": FloatAttr(real, f32)})
    result = evaluated(op, x)
    assert result.dtype == x.dtype
    assert result.tolist() == [stored, 1, 2]


@pytest.mark.parametrize(
    ("element", "dtype", "fill", "kind"),
    [(i8, np.int8, -128, i8), (u8, np.uint8, 255, u8), (i8, np.int8, 127, i64), (i1, np.bool_, 1, i1)],
)
def test_pad_of_integers(element: IntegerType, dtype: type[np.generic], fill: int, kind: IntegerType) -> None:
    op = nn.PadOp.make([value(element, 1)], {"low": ints([0]), "high": ints([1]), "value": IntegerAttr(fill, kind)})
    result = evaluated(op, np.zeros(1, dtype))
    assert result.dtype == dtype
    assert result.tolist() == [0, fill]


def test_pad_of_another_float() -> None:
    op = nn.PadOp.make([value(f64, 1)], {"low": ints([0]), "high": ints([1]), "value": FloatAttr(0.1, f64)})
    assert evaluated(op, np.zeros(1)).tolist() == [0.0, 0.1]


@pytest.mark.parametrize(
    ("element", "real", "stored"), [(SIGNED, 0.0, 3), (SIGNED, 1e9, 127), (NARROW, -1e9, -127), (UNSIGNED, 0.0, 128)]
)
def test_dilate_stores_the_nearest_integer(element: UniformType, real: float, stored: int) -> None:
    x = np.array([[1, 2]], element.numpy_dtype)
    op = nn.DilateOp.make([value(element, 1, 2)], {"dilations": ints([5, 3]), "value": FloatAttr(real, f32)})
    result = evaluated(op, x)
    assert result.dtype == x.dtype
    assert result.tolist() == [[1, stored, stored, 2]]


DILATED = [
    ((2, 3), (3, 2)),
    ((2, 3, 4, 5), (1, 2, 3, 1)),
    ((1, 4), (9, 1)),
    ((3,), (1,)),
    ((2, 0, 3), (2, 2, 2)),
    ((), ()),
]


@pytest.mark.parametrize("element", [f32, i8, SIGNED], ids=str)
@pytest.mark.parametrize(("shape", "dilations"), DILATED)
def test_the_parts_of_dilate_compute_it(shape: tuple[int, ...], dilations: tuple[int, ...], element: Attribute) -> None:
    fill = IntegerAttr(7, i8) if element == i8 else FloatAttr(7.0, f32)
    op = nn.DilateOp.make([value(element, *shape)], {"dilations": ints(dilations), "value": fill})
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(np.float32 if element == f32 else np.int8)
    found = x
    with parts_of(op) as parts:
        for part in parts:
            found = evaluated(part, found)
        assert parts[-1].results[0].type == op.y.type
    np.testing.assert_array_equal(found, evaluated(op, x))
    assert sum(1 for _ in op.x.uses) == 1


@pytest.mark.parametrize("element", [SIGNED, UNSIGNED, i8], ids=str)
def test_other_movement_keeps_the_integers(element: Attribute) -> None:
    dtype = np.uint8 if element == UNSIGNED else np.int8
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    operand = value(element, 2, 3)
    flat = evaluated(nn.ReshapeOp.make([operand], {"shape": ints([6])}), x)
    turned = evaluated(nn.TransposeOp.make([operand], {"permutation": ints([1, 0])}), x)
    twice = evaluated(nn.ConcatOp.make([[operand, operand]], {"axis": IntegerAttr(0, i64)}), x, x)
    np.testing.assert_array_equal(flat, x.reshape(-1))
    np.testing.assert_array_equal(turned, x.T)
    np.testing.assert_array_equal(twice, np.concatenate([x, x]))
    assert {flat.dtype, turned.dtype, twice.dtype} == {np.dtype(dtype)}


def test_movement_of_nothing() -> None:
    empty, x = np.zeros((0, 3), np.float32), np.ones((2, 3), np.float32)
    op = nn.ConcatOp.make([[value(f32, 0, 3), value(f32, 2, 3)]], {"axis": IntegerAttr(0, i64)})
    np.testing.assert_array_equal(evaluated(op, empty, x), x)
    assert evaluated(nn.ReshapeOp.make([value(f32, 0, 3)], {"shape": ints([3, 0])}), empty).shape == (3, 0)


def test_a_constant_of_a_quantized_type_holds_its_storage() -> None:
    stored = np.array([0, 200], np.uint8)
    op = nn.ConstantOp(stored, TensorType(UNSIGNED, [2]))
    np.testing.assert_array_equal(evaluated(op), stored)
