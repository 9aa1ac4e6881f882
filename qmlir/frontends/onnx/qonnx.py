"""QONNX's Quant operator, which Brevitas and FINN export: floats rounded to integers of any width and back to floats.

    y = (clamp(round(x / scale + zero_point), low, high) − zero_point) · scale

`signed`, `narrow` and the bit width determine low and high. Here a quantized type has this storage and range.
"""

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.types import UniformType
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.quantization import dequantized, requantized
from qmlir.frontends.values import Constant, Dequantized, Refusal, Value
from qmlir.ir.interfaces import Array, Shape

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
"""The rounding of constants by `rounding_mode`; values computed at run time are rounded half to even only."""


def quant(
    node: Node, x: Value, scale: Value, zero_point: Value, bit_width: Value, *,
    narrow: int = 0, rounding_mode: str = "ROUND", signed: int = 1,
) -> Value:  # fmt: skip
    """Quantizes x to integers of a given bit width, and dequantizes them."""
    type = _type(node, node.shape(x), scale, zero_point, bit_width, bool(narrow), bool(signed))
    if rounding_mode.upper() not in ROUNDINGS:
        raise Refusal(f"it rounds by {rounding_mode}, which qmlir does not know")
    rounding = ROUNDINGS[rounding_mode.upper()]
    if isinstance(x, Constant):
        step, point = type.parameters_along(x.array.ndim)
        stored = np.clip(rounding(x.array.astype(np.float64) / step + point), type.storage_min, type.storage_max)
        return Dequantized(stored.astype(type.numpy_dtype), type, x.name)
    if rounding is not np.rint:
        raise Refusal(f"it rounds by {rounding_mode} at run time, and qmlir half to even")
    if any(z % 2 for z in type.zero_points):
        raise Refusal("it adds an odd zero point before it rounds half to even, and qmlir after")
    return dequantized(node, requantized(node, x, type), type)


for _domain in DOMAINS:
    for _operator in ("Quant", "IntQuant"):
        converts(_operator, domain=_domain)(quant)


def _type(
    node: Node, shape: Shape, scale: Value, zero_point: Value, bit_width: Value, narrow: bool, signed: bool
) -> UniformType:
    bits = float(node.array(bit_width, "bit width").reshape(-1)[0])
    if not 2 <= bits <= MOST_BITS or bits != int(bits):
        raise Refusal(f"it has {bits:g} bits, and qmlir's storage 2 to {MOST_BITS}")
    storage = IntegerType(int(bits), Signedness.SIGNLESS if signed else Signedness.UNSIGNED)
    low, high = (-(1 << int(bits) - 1), (1 << int(bits) - 1) - 1) if signed else (0, (1 << int(bits)) - 1)
    low, high = (low + narrow, high) if signed else (low, high - narrow)
    scales, points = node.array(scale, "scale").astype(np.float64), node.array(zero_point, "zero point")
    if (points != np.rint(points)).any():
        raise Refusal("its zero points are no integers")
    both = np.broadcast_shapes(scales.shape, points.shape)
    spread = [np.broadcast_to(a, both) for a in (scales, points)]
    long = [i for i, n in enumerate(both) if n != 1]
    try:
        if not long:
            one, point = (a.reshape(-1)[0] for a in spread)
            return UniformType.per_tensor(storage, float(one), int(point), low, high)
        axis = long[0] + len(shape) - len(both)
        if len(long) > 1 or axis < 0 or shape[axis] != both[long[0]]:
            raise Refusal(f"it has scales of shape {list(both)}, and qmlir one for each index of one axis")
        scale_list, point_list = (a.reshape(-1).tolist() for a in spread)
        return UniformType.per_axis(storage, axis, scale_list, [int(p) for p in point_list], low, high)
    except VerifyException as error:
        raise Refusal(f"its parameters make no quantized type: {' '.join(str(error).split())}") from None
