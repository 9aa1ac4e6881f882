"""QONNX's operators, which Brevitas and FINN export: floats rounded to integers of any width, and back to floats.

    Quant         y = (clamp(round(x / scale + zero_point), low, high) − zero_point) · scale
    BipolarQuant  y = scale where x ≥ 0, else −scale
    Trunc         rounds the integers x / scale + zero_point to fewer bits, by a power of two

`signed`, `narrow` and the bit width determine low and high. A quantized type has this storage and range.
"""

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.elementwise import AddOp, DivOp, LessEqualOp, MulOp, SubOp, WhereOp
from qmlir.dialects.nn.functions import CeilOp, FloorOp, RoundOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Dequantized, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.quantization import dequantized, requantized
from qmlir.ir.interfaces import Array, Shape

converts = Table()

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas", "finn.custom_op.general")

MOST_BITS = 16

ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "ROUND": np.rint,
    "HALF_EVEN": np.rint,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}
"""The rounding of constants by `rounding_mode`; at run time, a Quant rounds half to even only."""


def quant(
    node: ONNXNode, x: Value, scale: Value, zero_point: Value, bit_width: Value, *,
    narrow: int = 0, rounding_mode: str = "ROUND", signed: int = 1,
) -> Value:  # fmt: skip
    """Quantizes x to integers of a given bit width, and dequantizes them."""
    type = _type(node, node.shape(x), scale, zero_point, _storage(node, bit_width, bool(signed)), bool(narrow))
    rounding = _rounding(rounding_mode)
    if isinstance(x, Constant):
        step, point = type.parameters_along(x.array.ndim)
        stored = np.clip(rounding(x.array.astype(np.float64) / step + point), type.storage_min, type.storage_max)
        return Dequantized(stored.astype(type.numpy_dtype), type, x.name)
    if rounding is not np.rint:
        raise UnsupportedError(f"it rounds by {rounding_mode} at run time, and qmlir half to even")
    if any(z % 2 for z in type.zero_points):
        raise UnsupportedError("it adds an odd zero point before it rounds half to even, and qmlir after")
    return dequantized(node, requantized(node, x, type), type)


def _rounding(mode: str) -> Callable[[Array], Array]:
    if mode.upper() not in ROUNDINGS:
        raise UnsupportedError(f"it rounds by {mode}, which qmlir does not know")
    return ROUNDINGS[mode.upper()]


def bipolar_quant(node: ONNXNode, x: Value, scale: Value) -> Value:
    """Returns scale where x ≥ 0, else −scale: the integers 1 and −1 of a type of 2 bits."""
    storage = IntegerType(2)
    type = _type(node, node.shape(x), scale, Constant(np.zeros((), np.float32)), storage, True)
    if isinstance(x, Constant):
        return Dequantized(np.where(x.array >= 0, 1, -1).astype(type.numpy_dtype), type, x.name)
    step = np.asarray(type.parameters_along(node.rank(x))[0], np.float32)
    up = node.insert(LessEqualOp, [node.number(0.0, x), x])
    y = node.insert(WhereOp, [up, Constant(step), Constant(-step)])
    return dequantized(node, requantized(node, y, type), type)


def trunc(node: ONNXNode, x: Value, scale: Value, zero_point: Value, bit_width: Value, *outputs: Value,
          narrow: int = 0, rounding_mode: str = "FLOOR", signed: int = 1) -> Value:  # fmt: skip
    """Rounds the integers x / scale + zero_point by a power of two.

    With one more input, the width of the output, both widths say by which power, and scale and zero point stay. As the
    width has no sign, the result is floats. With three, the scale, the zero point and the width of the output, the
    scales say by which power, and the result is clamped to the output's integers, which have a quantized type.
    """
    step, point = (_broadcast(node.array(v, what)) for v, what in ((scale, "scale"), (zero_point, "zero point")))
    if not (step > 0).all():
        raise UnsupportedError("its scales are not positive")
    type, new_step, new_point = None, step, point
    if len(outputs) == 3:
        new_step = _broadcast(node.array(outputs[0], "output scale"))
        if not (new_step > 0).all():
            raise UnsupportedError("its output's scales are not positive")
        factor = np.exp2(-np.rint(np.log2(new_step / step)))
        new_point = point * factor
        storage = _storage(node, outputs[2], bool(signed))
        type = _type(node, node.shape(x), Constant(new_step), Constant(new_point), storage, bool(narrow))
    elif len(outputs) == 1:
        widths = [_broadcast(node.array(v, "bit width")) for v in (bit_width, outputs[0])]
        factor = np.exp2(widths[1] - widths[0])
    else:
        raise node.error("it needs the width, or the scale, the zero point and the width of its output", "neither")
    if isinstance(x, Constant):
        rounded = _rounding(rounding_mode)(np.rint(x.array / step + point) * factor)
        if type is None:
            return Constant((rounded - point) * step, x.name)
        return Dequantized(np.clip(rounded, type.storage_min, type.storage_max).astype(type.numpy_dtype), type, x.name)
    if rounding_mode.upper() not in RUN_TIME:
        raise UnsupportedError(f"it rounds by {rounding_mode} at run time, and qmlir by {', '.join(RUN_TIME)}")
    y = node.compute(DivOp, [x, Constant(step)], part="steps")
    y = y if not point.any() else node.compute(AddOp, [y, Constant(point)], part="shifted")
    y = node.compute(RoundOp, [y], part="integers")
    y = node.compute(MulOp, [y, Constant(np.asarray(factor))], part="scaled")
    y = node.compute(RUN_TIME[rounding_mode.upper()], [y], part="rounded")
    y = y if not point.any() else node.compute(SubOp, [y, Constant(np.asarray(new_point))], part="subtracted")
    y = node.compute(MulOp, [y, Constant(new_step)], part=None if type is None else "floats")
    return y if type is None else dequantized(node, requantized(node, y, type), type)


def _broadcast(array: Array) -> Array:
    """Returns parameters in float32; a single element becomes a scalar, which broadcasts to any rank."""
    return array.astype(np.float32).reshape(() if array.size == 1 else array.shape)


RUN_TIME = {"ROUND": RoundOp, "HALF_EVEN": RoundOp, "FLOOR": FloorOp, "CEIL": CeilOp}
"""The operation that rounds at run time, by `rounding_mode`."""

for _domain in DOMAINS:
    converts("Quant", domain=_domain)(quant)
    converts("IntQuant", domain=_domain)(quant)
    converts("BipolarQuant", domain=_domain)(bipolar_quant)
    converts("Trunc", domain=_domain)(trunc)


def _storage(node: ONNXNode, bit_width: Value, signed: bool) -> IntegerType:
    """Returns the storage type of a constant bit width, which must be whole."""
    bits = float(node.array(bit_width, "bit width").reshape(-1)[0])
    if not 2 <= bits <= MOST_BITS or bits != int(bits):
        raise UnsupportedError(f"it has {bits:g} bits, and qmlir's storage 2 to {MOST_BITS}")
    return IntegerType(int(bits), Signedness.SIGNLESS if signed else Signedness.UNSIGNED)


def _type(
    node: ONNXNode, shape: Shape, scale: Value, zero_point: Value, storage: IntegerType, narrow: bool
) -> UniformType:
    """Returns the quantized type of a tensor of the given shape, whose range has one integer less if it is narrow."""
    bits, signed = storage.width.data, storage.signedness.data != Signedness.UNSIGNED
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    low, high = (low + narrow, high) if signed else (low, high - narrow)
    scales, points = node.array(scale, "scale").astype(np.float64), node.array(zero_point, "zero point")
    if (points != np.rint(points)).any():
        raise UnsupportedError("its zero points are no integers")
    try:
        type = UniformType.broadcast(storage, len(shape), scales, points.astype(np.float64), low, high)
    except VerifyException as error:
        raise UnsupportedError(f"its parameters make no quantized type: {' '.join(str(error).split())}") from None
    if (axis := type.axis) is not None and not (axis < len(shape) and len(type.scales) == shape[axis]):
        raise UnsupportedError(f"it has {len(type.scales)} scales along axis {axis} of a tensor of shape {list(shape)}")
    return type
