"""Cast, CastLike and BitCast; a constant operand is cast at import if the budget of constants allows."""

import numpy as np
from xdsl.dialects.builtin import BoolAttr, NoneType, i8
from xdsl.ir import Attribute

from qmlir.dialects.nn.casts import BitcastOp, CastOp, converted, power_of_two
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.types import element_name, element_type
from qmlir.frontends.values import Constant, Refusal, Value, once
from qmlir.ir.dtypes import dtype_of, element_type_of
from qmlir.ir.interfaces import element_of


@converts("Cast", since=6)
def cast(node: Node, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts x to the ONNX element type `to`."""
    element = element_type(to)
    if isinstance(element, NoneType) or node.element(x) == "none":
        raise Refusal(f"it casts {node.element(x)} to {element_name(to)}")
    return _converted(node, x, element, bool(saturate), round_mode)


@converts("CastLike", since=15)
def cast_like(node: Node, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts x to the element type of `like`."""
    return _converted(node, x, _element(like), bool(saturate), round_mode)


def _element(x: Value) -> Attribute:
    """Returns the MLIR element type of an input."""
    try:
        return element_type_of(x.array.dtype) if isinstance(x, Constant) else element_of(x)
    except KeyError:
        raise Refusal("MLIR has no type like its other input's") from None


def _converted(node: Node, x: Value, element: Attribute, saturate: bool, round_mode: str) -> Value:
    if _element(x) == element:
        return x
    dtype = dtype_of(element)
    if dtype.name == "float8_e8m0fnu" and round_mode != "nearest":
        if round_mode not in ("up", "down"):
            raise node.error("its attribute round_mode must be up, down or nearest", round_mode)
        if not isinstance(x, Constant):
            raise Refusal(f"it rounds {round_mode} to powers of two, and qmlir constants only")
        return Constant(power_of_two(x.array, up=round_mode == "up", saturate=saturate), x.name)
    if isinstance(x, Constant) and node.builder.budget.take(once(x.array).shape, dtype.itemsize):
        return Constant(np.broadcast_to(converted(once(x.array), dtype, saturate=saturate), x.shape), x.name)
    return node.compute(CastOp, [x], {"saturate": BoolAttr.from_bool(saturate)}, element=element)


@converts("BitCast", since=26)
def bit_cast(node: Node, x: Value, *, to: int) -> Value:
    """Reinterprets the bits of x as another element type."""
    element = element_type(to)
    if isinstance(element, NoneType):
        raise Refusal(f"it takes {node.element(x)} for {element_name(to)}")
    if element == _element(x):
        return x
    if node.element(x) == "i1":  # an i1 element becomes a byte that is 0 or 1
        x = _converted(node, x, i8, saturate=True, round_mode="up")
    if isinstance(x, Constant) and x.array.dtype.itemsize == np.dtype(dtype_of(element)).itemsize:
        return Constant(x.array.view(dtype_of(element)), x.name)
    return node.compute(BitcastOp, [x], element=element)
