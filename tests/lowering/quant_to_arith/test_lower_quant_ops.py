"""`lower-quant-ops` computes what its docstring says: the operations it writes, interpreted one by one in numpy.

Interpreted in the types of the IR, so float32 rounds after each operation; expectations are formulas of their own.
"""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, SSAValue

from qmlir.compiler import Pipeline, main_function
from qmlir.dialects.quant.ops import StorageCastOp
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text
from qmlir.ir.upstream.arith import FPToSIOp, FPToUIOp, SIToFPOp, UIToFPOp

Array = np.ndarray[Any, Any]

PAIRWISE: dict[type, Any] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
}


def dtype_of(type: Attribute) -> np.dtype[Any]:
    element = type.element_type if isinstance(type, TensorType) else type
    return np.dtype(
        f"int{element.width.data}" if isinstance(element, IntegerType) else str(element).replace("f", "float")
    )


def shape_of(type: Attribute) -> tuple[int, ...]:
    return type.get_shape() if isinstance(type, TensorType) else ()


def constant(value: Attribute) -> Any:
    if isinstance(value, DenseIntOrFPElementsAttr):
        return np.array(value.get_values()).reshape(value.get_shape())
    assert isinstance(value, IntegerAttr | FloatAttr)
    return value.value.data


def interpret(block: Block, arguments: list[Array]) -> list[Array]:
    """The operands of the block's terminator."""
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        inputs = [values[o] for o in op.operands]
        if isinstance(op, func.ReturnOp | YieldOp):
            return inputs
        result = op.results[0]
        dtype, shape = dtype_of(result.type), shape_of(result.type)
        unsigned = np.dtype(f"u{dtype}") if dtype.kind == "i" else dtype
        match op:
            case arith.ConstantOp():
                got = constant(op.value)
            case tensor.SplatOp():
                got = np.full(shape, inputs[0])
            case tensor.EmptyOp():
                got = np.zeros(shape, dtype)
            case StorageCastOp() | SIToFPOp():
                got = inputs[0]
            case UIToFPOp():
                got = inputs[0].view(f"u{inputs[0].dtype}")
            case FPToSIOp():
                got = np.trunc(inputs[0]).astype(dtype)
            case FPToUIOp():
                got = np.trunc(inputs[0]).astype(unsigned).view(dtype)
            case arith.MaxUIOp() | arith.MinUIOp():
                pick = np.maximum if isinstance(op, arith.MaxUIOp) else np.minimum
                got = pick(*(i.view(unsigned) for i in inputs)).view(dtype)
            case GenericOp():
                got = interpret_generic(op, inputs)
            case _:
                got = PAIRWISE[type(op)](*inputs)
        values[result] = np.asarray(got, dtype)
    raise AssertionError("the block has no terminator")


def interpret_generic(op: GenericOp, inputs: list[Array]) -> Array:
    maps = [m.data for m in op.indexing_maps]
    result = np.array(inputs[-1])
    for index in np.ndindex(result.shape):
        elements = [np.asarray(x[m.eval(index, ())]) for x, m in zip(inputs, maps, strict=True)]
        (result[index],) = interpret(op.body.block, elements)
    return result


def run(cast: str, source: str, result: str, x: Array) -> Array:
    """The stored integers or the floats that a lowered cast gives; `x` may be stored integers."""
    body = f"%0 = quant.{cast} %x : {source} to {result} func.return %0 : {result}"
    text = f"func.func @f(%x: {source}) -> {result} {{ {body} }}"
    context = make_context()
    module = Pipeline("lower-quant-ops")(parse_text(context, text, "test.mlir"))
    names = {o.name for o in module.walk()}
    assert not names & {"quant.qcast", "quant.dcast"}
    # The interpreter takes storage casts for what they are, so quantized values are their integers.
    function = main_function(module)
    for op in list(function.body.block.ops):
        if isinstance(op, StorageCastOp):
            op.result.replace_all_uses_with(op.input)
            op.detach()
    (got,) = interpret(function.body.block, [x])
    return got


XS = np.array([-7.0, -3.5, -1.0, -0.99, 0.0, 0.99, 1.0, 1.49, 2.5, 3.5, 7.0, 40.0], np.float32)


@pytest.mark.parametrize(("scale", "zero_point"), [(0.5, 0), (0.5, 10), (0.1, -3), (2.0, 5)])
def test_quantizing_truncates(scale: float, zero_point: int) -> None:
    x = XS[:-1]
    got = run("qcast", "tensor<11xf32>", f"tensor<11x!quant.uniform<i8:f32, {scale}:{zero_point}>>", x)
    assert got.dtype == np.int8
    assert got.tolist() == np.trunc(x / np.float32(scale) + np.float32(zero_point)).tolist()


def test_quantizing_differs_from_what_our_casts_mean() -> None:
    """0.99 / 0.5 = 1.98 is 2 rounded, 1 truncated."""
    got = run("qcast", "tensor<1xf32>", "tensor<1x!quant.uniform<i8:f32, 0.5>>", np.array([0.99], np.float32))
    assert got.tolist() == [1]


def test_quantizing_clamps_to_a_narrow_range() -> None:
    got = run("qcast", "tensor<12xf32>", "tensor<12x!quant.uniform<i8<-5:10>:f32, 1.0>>", XS)
    assert got.tolist() == [-5, -3, -1, 0, 0, 0, 1, 1, 2, 3, 7, 10]
    x = np.array([0.0, 100.0, 199.9, 200.0, 254.0], np.float32)
    got = run("qcast", "tensor<5xf32>", "tensor<5x!quant.uniform<u8<2:200>:f32, 1.0>>", x)
    assert got.view(np.uint8).tolist() == [2, 100, 199, 200, 200]


def test_a_scalar() -> None:
    assert (
        run("qcast", "f32", "!quant.uniform<i8:f32, 2.0:10>", np.asarray(-7.0, np.float32)).tolist() == 6
    )  # trunc(6.5)
    assert run("dcast", "!quant.uniform<i8:f32, 2.0:10>", "f32", np.asarray(6, np.int8)).tolist() == -8.0


@pytest.mark.parametrize("storage", ["i8", "u8"])
def test_dequantizing_is_in_the_expressed_type(storage: str) -> None:
    q = np.arange(-128, 128).astype(np.int8)
    got = run("dcast", f"tensor<256x!quant.uniform<{storage}:f32, 0.1:100>>", "tensor<256xf32>", q)
    stored = q.view(np.uint8) if storage == "u8" else q
    assert got.dtype == np.float32
    assert (got == (stored.astype(np.float32) - np.float32(100)) * np.float32(0.1)).all()


def test_each_index_of_an_axis_has_its_scale() -> None:
    q = np.array([[1, 2, 3], [4, 5, 6]], np.int8)
    got = run("dcast", "tensor<2x3x!quant.uniform<i8:f32:1, {2.0:1, 3.0, 0.5:-1}>>", "tensor<2x3xf32>", q)
    assert got.tolist() == [[0.0, 6.0, 2.0], [6.0, 15.0, 3.5]]


def test_each_block_has_its_scale() -> None:
    type = "tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{2.0, 0.5:1}, {1.0:-1, 4.0}}>>"
    got = run("qcast", "tensor<2x4xf32>", type, np.array([[5, -5, 5, -5], [5, -5, 5, -5]], np.float32))
    assert got.tolist() == [[2, -2, 11, -9], [4, -6, 1, -1]]
