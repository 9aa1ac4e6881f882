"""Constants and data movement of any element type, as machine code against their numpy meaning."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, Signedness, TensorType, f32, i64

from qmlir.dialects.nn import AddOp, ConcatOp, ConstantOp, DilateOp, PadOp, ReluOp, ReshapeOp, TransposeOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.ir.types import element_type_of
from qmlir.lowering.nn_to_loops.movement import merge_dilations, merge_pads, merge_permutation
from tests.conftest import crossed
from tests.lowering.both import check, network, quantized, to_loops

Array = npt.NDArray[Any]

DTYPES = ["float32", "int8", "int16", "int32", "bool"]


def counted(dtype: str, *shape: int) -> Array:
    """Distinct values as far as the dtype goes."""
    return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


TRANSPOSES = [
    ((1, 3, 8, 9), (0, 2, 3, 1)),
    ((2, 8, 9, 3), (0, 3, 1, 2)),
    ((5, 7), (1, 0)),
    ((2, 3, 4, 33), (1, 0, 2, 3)),
    ((2, 3, 4, 5), (3, 2, 1, 0)),
    ((1, 6, 1, 5), (2, 1, 0, 3)),
    ((4,), (0,)),
]


@crossed({"shape, permutation": TRANSPOSES, "dtype": DTYPES})
def test_transpose(shape: tuple[int, ...], permutation: tuple[int, ...], dtype: str) -> None:
    check(lambda x: TransposeOp.make([x], {"permutation": ints(permutation)}).y, counted(dtype, *shape))


def test_dimensions_that_stay_neighbours_merge() -> None:
    assert merge_permutation((1, 3, 8, 9), (0, 2, 3, 1)) == ((3, 72), (1, 0))
    assert merge_permutation((2, 8, 9, 3), (0, 3, 1, 2)) == ((2, 72, 3), (0, 2, 1))
    assert merge_permutation((1, 6, 1, 5), (2, 1, 0, 3)) == ((30,), (0,))
    assert merge_permutation((1, 1), (1, 0)) == ((), ())


@crossed({"axis": [0, 1, 2], "dtype": DTYPES})
def test_concat(axis: int, dtype: str) -> None:
    shapes = [[2, 3, 20], [2, 3, 20], [2, 3, 20]]
    for i, size in enumerate((1, 5, 17)):
        shapes[i][axis] = size
    inputs = [counted(dtype, *shape) + i for i, shape in enumerate(shapes)]
    check(lambda *xs: ConcatOp.make([xs], {"axis": IntegerAttr(axis, i64)}).y, *(x.astype(dtype) for x in inputs))


PADS = [
    ((1, 4, 5, 3), (0, 1, 2, 0), (0, 1, 0, 0)),
    ((2, 3), (1, 0), (0, 2)),
    ((3, 1, 4), (1, 1, 1), (2, 2, 2)),
    ((2, 20, 3), (0, 0, 0), (0, 0, 0)),
    ((7,), (3,), (17,)),
    ((2, 2, 5), (1, 0, 0), (0, 0, 0)),
]


@crossed({"shape, low, high": PADS, "dtype": DTYPES})
def test_pad(shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], dtype: str) -> None:
    integer = IntegerAttr(1, 1) if dtype == "bool" else IntegerAttr(-7, int(dtype.lstrip("floatint")))
    value = FloatAttr(-2.5, f32) if dtype == "float32" else integer
    properties = {"low": ints(low), "high": ints(high), "value": value}
    check(lambda x: PadOp.make([x], properties).y, counted(dtype, *shape))


def test_a_quantized_tensor_is_padded_with_the_integer_that_stands_for_the_value() -> None:
    type = UniformType.per_tensor(IntegerType(8, Signedness.UNSIGNED), 0.5, 200)
    properties = {"low": ints([1]), "high": ints([1]), "value": FloatAttr(0.0, f32)}
    x = np.array([3, 4], np.uint8)
    check(lambda x: PadOp.make([x], properties).y, x, types=[quantized([2], type)])


def test_pads_of_dimensions_without_any_merge() -> None:
    assert merge_pads((1, 4, 5, 3), [(0, 0), (1, 1), (2, 0), (0, 0)]) == ((4, 15), ((1, 1), (6, 0)))
    assert merge_pads((2, 2, 5), [(1, 0), (0, 0), (0, 0)]) == ((20,), ((10, 0),))


DILATIONS = [
    ((2, 3, 4, 5), (1, 2, 3, 1)),
    ((3, 1, 4), (2, 7, 3)),
    ((1, 2, 20), (5, 1, 1)),
    ((4, 3), (3, 1)),
    ((9,), (17,)),
    ((2, 2, 2), (2, 2, 2)),
    ((0, 3), (2, 3)),
    ((), ()),
]


@crossed({"shape, dilations": DILATIONS, "dtype": DTYPES})
def test_dilate(shape: tuple[int, ...], dilations: tuple[int, ...], dtype: str) -> None:
    integer = IntegerAttr(1, 1) if dtype == "bool" else IntegerAttr(-7, int(dtype.lstrip("floatint")))
    value = FloatAttr(-2.5, f32) if dtype == "float32" else integer
    check(lambda x: DilateOp.make([x], {"dilations": ints(dilations), "value": value}).y, counted(dtype, *shape))


def test_dilations_of_dimensions_that_keep_their_sizes_merge() -> None:
    assert merge_dilations((1, 4, 5, 3), (9, 2, 1, 1)) == ((4, 15), (2, 1))
    assert merge_dilations((2, 3, 4, 5), (1, 1, 1, 2)) == ((24, 5), (1, 2))
    assert merge_dilations((1, 1), (3, 5)) == ((1,), (1,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_reshape_copies_nothing_but_the_result(dtype: str) -> None:
    def graph(x: Any) -> Any:
        flat = ReshapeOp.make([x], {"shape": ints([2, 12])}).y
        return ReshapeOp.make([flat], {"shape": ints([4, 6])}).y

    check(graph, counted(dtype, 2, 3, 4))
    module = to_loops(network(graph, TensorType(element_type_of(dtype), [2, 3, 4])))
    names = [op.name for op in module.walk()]
    assert "memref.alloc" not in names
    assert "func.call" not in names


def test_a_constant_returned_and_one_used() -> None:
    c = counted("float32", 3, 4)
    check(lambda x: (ConstantOp(c).y, AddOp.make([x, ConstantOp(c).y]).y), counted("float32", 3, 4))


def test_one_value_returned_twice_and_an_input_returned() -> None:
    def graph(x: Any) -> Any:
        y = ReluOp.make([x]).y
        return y, x, y

    check(graph, counted("float32", 5))


def test_equal_kernels_are_shared() -> None:
    def graph(x: Any, y: Any) -> Any:
        a, b = ReluOp.make([x]).y, ReluOp.make([y]).y
        flat = ReshapeOp.make([y], {"shape": ints([6])}).y
        return a, b, ReluOp.make([flat]).y

    type = TensorType(f32, [2, 3])
    module = to_loops(network(graph, type, type))
    calls = [str(op.properties["callee"]) for op in module.walk() if op.name == "func.call"]
    assert calls == ["@nn_relu_0"] * 3
    check(graph, counted("float32", 2, 3) - 3, 3 - counted("float32", 2, 3))
