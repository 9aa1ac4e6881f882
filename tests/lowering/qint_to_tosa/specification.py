"""TOSA 1.0's integer operations as its specification defines them, with what it requires, in numpy.

    evaluate(function, inputs)      the results; an assertion fails where the specification leaves them undefined

All integers are int64 here, so that what goes beyond a type's range is seen. Written from the specification's text and
none of the code under test.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Operation, SSAValue

from qmlir.ir.interfaces import element_of, tensor_type

Array = npt.NDArray[Any]
Properties = dict[str, Any]


def evaluate(function: func.FuncOp, inputs: Sequence[Array]) -> list[Array]:
    """What the function returns for inputs."""
    values: dict[SSAValue, Array] = {a: _wide(x) for a, x in zip(function.body.block.args, inputs, strict=True)}
    for op in function.body.block.ops:
        operands = [values[o] for o in op.operands]
        if isinstance(op, func.ReturnOp):
            return operands
        result = OPERATIONS[op.name](op, *operands)
        if op.name != "tosa.const_shape":
            assert result.shape == tensor_type(op.results[0]).get_shape(), op
            result = _stored(result, op.results[0])
        values[op.results[0]] = result
    raise AssertionError("a function returns")


def _wide(x: Array) -> Array:
    return x.view(f"i{x.itemsize}").astype(np.int64) if x.dtype.kind in "iu" else x


def _range(value: SSAValue) -> tuple[int, int]:
    element = element_of(value)
    assert isinstance(element, IntegerType)
    bits = element.width.data
    return (0, 1) if bits == 1 else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _stored(x: Array, value: SSAValue) -> Array:
    """A result, which its type must hold."""
    if isinstance(element_of(value), AnyFloat):
        return x.astype(np.float32)
    low, high = _range(value)
    assert x.size == 0 or (low <= x.min() and x.max() <= high), value.owner
    return x.astype(np.int64)


def _number(op: Operation, name: str) -> Any:
    return op.properties[name].value.data  # type: ignore[attr-defined]


def _numbers(op: Operation, name: str) -> list[int]:
    return list(op.properties[name].get_values())  # type: ignore[attr-defined]


def _const(op: Operation) -> Array:
    values: Any = op.properties["values"]
    if op.name == "tosa.const_shape":
        return np.array(list(values.get_values()), np.int64)
    dtype = np.float32 if isinstance(element_of(op.results[0]), AnyFloat) else np.int64
    flat = np.array(list(values.get_values()), dtype)
    shape = tensor_type(op.results[0]).get_shape()
    return np.full(shape, flat[0]) if flat.size == 1 else flat.reshape(shape)


def _rescale(op: Operation, x: Array, multiplier: Array, shift: Array, input_zp: Array, output_zp: Array) -> Array:
    assert bool(op.properties["scale32"].value.data)  # type: ignore[attr-defined]
    assert multiplier.min() >= 0
    assert shift.min() >= 2
    assert shift.max() <= 62
    value = x - input_zp
    assert (value >= -(1 << shift - 1)).all()
    assert (value < (1 << shift - 1)).all()
    rounding = np.broadcast_to(np.int64(1) << shift - 1, value.shape)
    if op.properties["rounding_mode"].data.value == "DOUBLE_ROUND":  # type: ignore[attr-defined]
        rounding = rounding + np.where(shift > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    scaled = (value * multiplier + rounding) >> shift  # |value · multiplier| < 2^62
    assert (np.abs(scaled) < 1 << 31).all()
    return np.clip(scaled + output_zp, *_range(op.results[0]))


def _convolution(op: Operation, x: Array, w: Array, b: Array, x_zp: Array, w_zp: Array) -> Array:
    """Every product by itself; a depthwise kernel [KH, KW, C, M] as the ordinary one with zeros."""
    if op.name == "tosa.depthwise_conv2d":
        rows, columns, channels, each = w.shape
        full = np.full((channels, each, rows, columns, channels), w_zp[0])
        for c in range(channels):
            full[c, :, :, :, c] = w[:, :, c].transpose(2, 0, 1)
        w = full.reshape(channels * each, rows, columns, channels)
    top, bottom, left, right = _numbers(op, "pad")
    (sh, sw), (dh, dw) = _numbers(op, "stride"), _numbers(op, "dilation")
    x, w = np.pad(x - x_zp, ((0, 0), (top, bottom), (left, right), (0, 0))), w - w_zp
    _, height, width, _ = tensor_type(op.results[0]).get_shape()
    sums = np.zeros(tensor_type(op.results[0]).get_shape(), np.int64) + b
    for i, j in product(range(w.shape[1]), range(w.shape[2])):
        tap = x[:, i * dh : i * dh + (height - 1) * sh + 1 : sh, j * dw : j * dw + (width - 1) * sw + 1 : sw]
        sums += tap @ w[:, i, j].T
    return sums


def _max_pool(op: Operation, x: Array) -> Array:
    top, bottom, left, right = _numbers(op, "pad")
    (sh, sw), (kh, kw) = _numbers(op, "stride"), _numbers(op, "kernel")
    least = _range(op.results[0])[0]
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=least)
    _, height, width, _ = tensor_type(op.results[0]).get_shape()
    taps = [x[:, i : i + (height - 1) * sh + 1 : sh, j : j + (width - 1) * sw + 1 : sw]
            for i, j in product(range(kh), range(kw))]  # fmt: skip
    return np.max(taps, axis=0)


def _cast(op: Operation, x: Array) -> Array:
    """Integers must fit, which `_stored` wants; floats round half to even and saturate."""
    if x.dtype == np.float32 and isinstance(element_of(op.results[0]), IntegerType):
        assert np.isfinite(x).all()
        return np.clip(np.rint(x.astype(np.float64)), *_range(op.results[0])).astype(np.int64)
    return x


def _shift(op: Operation, x: Array, bits: Array) -> Array:
    assert bits.min() >= 0
    assert bits.max() <= 31
    rounded = bool(_number(op, "round")) & (bits > 0) & ((x >> np.maximum(bits - 1, 0)) & 1 == 1)
    return (x >> bits) + rounded


def _intdiv(op: Operation, a: Array, b: Array) -> Array:
    assert (b != 0).all()
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


def _mul(op: Operation, a: Array, b: Array, shift: Array) -> Array:
    assert shift.tolist() == [0]
    with np.errstate(over="ignore"):
        return a * b


def _gather(op: Operation, values: Array, indices: Array) -> Array:
    assert indices.min() >= 0
    assert indices.max() < values.shape[1]
    return np.take_along_axis(values, indices[:, :, None], axis=1)


def _table(op: Operation, x: Array, table: Array) -> Array:
    if len(table) == 256:
        return table[x + 128]
    breakpoint, fraction = x + 32768 >> 7, x & 127
    slope = table[breakpoint + 1] - table[breakpoint]
    assert np.abs(slope).max() < 1 << 15
    return table[breakpoint] * 128 + slope * fraction


def _pad(op: Operation, x: Array, padding: Array, number: Array) -> Array:
    return np.pad(x, padding.reshape(-1, 2), constant_values=number[0])


def _slice(op: Operation, x: Array, start: Array, size: Array) -> Array:
    return x[tuple(slice(a, a + n) for a, n in zip(start, size, strict=True))]


def _clamp(op: Operation, x: Array) -> Array:
    return np.clip(x, _number(op, "min_val"), _number(op, "max_val"))


OPERATIONS: dict[str, Callable[..., Array]] = {
    "tosa.const": _const,
    "tosa.const_shape": _const,
    "tosa.rescale": _rescale,
    "tosa.conv2d": _convolution,
    "tosa.depthwise_conv2d": _convolution,
    "tosa.matmul": lambda op, a, b, a_zp, b_zp: (a - a_zp) @ (b - b_zp),
    "tosa.max_pool2d": _max_pool,
    "tosa.cast": _cast,
    "tosa.add": lambda op, a, b: a + b,
    "tosa.sub": lambda op, a, b: a - b,
    "tosa.mul": _mul,
    "tosa.intdiv": _intdiv,
    "tosa.arithmetic_right_shift": _shift,
    "tosa.maximum": lambda op, a, b: np.maximum(a, b),
    "tosa.minimum": lambda op, a, b: np.minimum(a, b),
    "tosa.equal": lambda op, a, b: (a == b).astype(np.int64),
    "tosa.greater_equal": lambda op, a, b: (a >= b).astype(np.int64),
    "tosa.select": lambda op, c, a, b: np.where(c == 1, a, b),
    "tosa.clamp": _clamp,
    "tosa.reduce_max": lambda op, x: x.max(axis=_number(op, "axis"), keepdims=True),
    "tosa.reduce_min": lambda op, x: x.min(axis=_number(op, "axis"), keepdims=True),
    "tosa.reduce_sum": lambda op, x: x.sum(axis=_number(op, "axis"), keepdims=True),
    "tosa.table": _table,
    "tosa.gather": _gather,
    "tosa.pad": _pad,
    "tosa.slice": _slice,
    "tosa.reverse": lambda op, x: np.flip(x, _number(op, "axis")),
    "tosa.tile": lambda op, x, times: np.tile(x, times),
    "tosa.reshape": lambda op, x, shape: x.reshape(shape),
    "tosa.transpose": lambda op, x: x.transpose(_numbers(op, "perms")),
    "tosa.concat": lambda op, *xs: np.concatenate(xs, axis=_number(op, "axis")),
}
"""Operation → its meaning: (operation, operands) → result."""
