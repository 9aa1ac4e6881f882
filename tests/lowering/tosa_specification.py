"""TOSA 1.0's operations as its specification defines them, with what it requires, in numpy.

    evaluate(function, inputs)      the results; an assertion fails where the specification leaves them undefined

All integers are int64 here, so that what goes beyond a type's range is seen; floats are float64, and each result is
rounded to its type. Written from the specification's text and none of the code under test.
"""

from collections.abc import Callable, Sequence
from itertools import product
from math import erf
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, IntegerType, f32
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
    if x.dtype.kind == "b":
        return x.astype(np.int64)
    return x.view(f"i{x.itemsize}").astype(np.int64) if x.dtype.kind in "iu" else x.astype(np.float64)


def _range(value: SSAValue) -> tuple[int, int]:
    element = element_of(value)
    assert isinstance(element, IntegerType)
    bits = element.width.data
    return (0, 1) if bits == 1 else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _stored(x: Array, value: SSAValue) -> Array:
    """A result, which its type must hold."""
    element = element_of(value)
    if isinstance(element, AnyFloat):
        halves = ml_dtypes.bfloat16 if isinstance(element, BFloat16Type) else np.float16
        return x.astype(np.float32 if element == f32 else halves).astype(np.float64)
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
    dtype = np.float64 if isinstance(element_of(op.results[0]), AnyFloat) else np.int64
    flat = np.array(list(values.get_values()), dtype)
    shape = tensor_type(op.results[0]).get_shape()
    return np.full(shape, flat[0]) if flat.size == 1 else flat.reshape(shape)


def _flag(op: Operation, name: str) -> bool:
    return bool(op.properties[name].value.data)  # type: ignore[attr-defined]


def _rescale(op: Operation, x: Array, multiplier: Array, shift: Array, input_zp: Array, output_zp: Array) -> Array:
    assert multiplier.min() >= 0
    assert shift.min() >= 2
    assert shift.max() <= 62
    if _flag(op, "input_unsigned"):
        most = 2 * _range(op.operands[0])[1] + 1
        x, input_zp = x & most, input_zp & most
    value = x - input_zp
    assert (value >= -(1 << shift - 1)).all()
    assert (value < (1 << shift - 1)).all()
    rounding = np.broadcast_to(np.int64(1) << shift - 1, value.shape)
    if op.properties["rounding_mode"].data.value == "DOUBLE_ROUND":  # type: ignore[attr-defined]
        assert _flag(op, "scale32")
        rounding = rounding + np.where(shift > 31, np.where(value >= 0, 1 << 30, -(1 << 30)), 0)
    scaled = (value * multiplier + rounding) >> shift  # |value · multiplier| < 2^62
    assert (np.abs(scaled) < 1 << 31).all()
    low, high = _range(op.results[0])
    if not _flag(op, "output_unsigned"):
        return np.clip(scaled + output_zp, low, high)
    y = np.clip(scaled + (output_zp & 2 * high + 1), 0, 2 * high + 1)
    return np.where(y > high, y + 2 * low, y)  # as the bits of a signless type


def _ordinary(w: Array, zero: float) -> Array:
    """A depthwise kernel [KH, KW, C, M] as an ordinary one, with zeros."""
    rows, columns, channels, each = w.shape
    full = np.full((channels, each, rows, columns, channels), zero)
    for c in range(channels):
        full[c, :, :, :, c] = w[:, :, c].transpose(2, 0, 1)
    return full.reshape(channels * each, rows, columns, channels)


def _padded(op: Operation, x: Array, value: float = 0) -> Array:
    top, bottom, left, right = _numbers(op, "pad")
    return np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=value)


def _convolution(op: Operation, x: Array, w: Array, b: Array, x_zp: Array, w_zp: Array) -> Array:
    """Every product by itself."""
    w = (_ordinary(w, w_zp[0]) if op.name == "tosa.depthwise_conv2d" else w) - w_zp
    (sh, sw), (dh, dw) = _numbers(op, "stride"), _numbers(op, "dilation")
    x = _padded(op, x - x_zp)
    _, height, width, _ = tensor_type(op.results[0]).get_shape()
    sums = np.zeros(tensor_type(op.results[0]).get_shape(), x.dtype) + b
    for i, j in product(range(w.shape[1]), range(w.shape[2])):
        tap = x[:, i * dh : i * dh + (height - 1) * sh + 1 : sh, j * dw : j * dw + (width - 1) * sw + 1 : sw]
        sums += tap @ w[:, i, j].T
    return sums


def _transposed_convolution(op: Operation, x: Array, w: Array, b: Array, x_zp: Array, w_zp: Array) -> Array:
    """Each element of the input adds its multiple of the kernel."""
    x, w, stride, pad = x - x_zp, w - w_zp, _numbers(op, "stride"), _numbers(op, "out_pad")
    batch, height, width, _ = x.shape
    outputs, rows, columns, _ = w.shape
    y = np.zeros((batch, (height - 1) * stride[0] + rows, (width - 1) * stride[1] + columns, outputs), x.dtype)
    for i, j in np.ndindex(height, width):
        part = np.einsum("nc,oijc->nijo", x[:, i, j], w)
        y[:, i * stride[0] : i * stride[0] + rows, j * stride[1] : j * stride[1] + columns] += part
    low = [max(-p, 0) for p in pad]
    y = y[:, low[0] : y.shape[1] - low[1], low[2] : y.shape[2] - low[3]]
    return np.pad(y, ((0, 0), (max(pad[0], 0), max(pad[1], 0)), (max(pad[2], 0), max(pad[3], 0)), (0, 0))) + b


def _windows(op: Operation, x: Array) -> Array:
    """The elements of each window of a padded image, [N, OH, OW, KH · KW, C]."""
    (sh, sw), (kh, kw) = _numbers(op, "stride"), _numbers(op, "kernel")
    _, height, width, _ = tensor_type(op.results[0]).get_shape()
    taps = [x[:, i : i + (height - 1) * sh + 1 : sh, j : j + (width - 1) * sw + 1 : sw]
            for i, j in product(range(kh), range(kw))]  # fmt: skip
    return np.stack(taps, axis=3)


def _max_pool(op: Operation, x: Array) -> Array:
    least = -np.inf if x.dtype.kind == "f" else _range(op.results[0])[0]
    return _windows(op, _padded(op, x, least)).max(axis=3)


def _average_pool(op: Operation, x: Array, x_zp: Array, y_zp: Array) -> Array:
    """Sums over what lies inside the image; integers are divided by a multiplier of 31 bits."""
    sums = _windows(op, _padded(op, x - x_zp)).sum(axis=3)
    counts = _windows(op, _padded(op, np.ones_like(x))).sum(axis=3)
    if x.dtype.kind == "f":
        return sums / counts
    k = np.array([(int(n) - 1).bit_length() for n in counts.reshape(-1)]).reshape(counts.shape)
    y = sums * (((1 << 30) + 1 << k) // counts) + (1 << 29 + k) >> 30 + k
    return np.clip(y + y_zp, *_range(op.results[0]))


def _resize(op: Operation, x: Array, scale: Array, offset: Array, border: Array) -> Array:
    """Each element by itself; integers keep the weights' factor."""
    y = np.zeros(tensor_type(op.results[0]).get_shape(), x.dtype)
    (_, height, width, _), (_, rows, columns, _) = x.shape, y.shape
    assert rows == ((height - 1) * scale[0] - offset[0] + border[0]) // scale[1] + 1
    assert columns == ((width - 1) * scale[2] - offset[1] + border[1]) // scale[3] + 1
    for r, c in np.ndindex(rows, columns):
        iy, fy = divmod(r * scale[1] + offset[0], scale[0])
        ix, fx = divmod(c * scale[3] + offset[1], scale[2])
        y0, y1, x0, x1 = max(iy, 0), min(iy + 1, height - 1), max(ix, 0), min(ix + 1, width - 1)
        if op.properties["mode"].data.value == "BILINEAR":  # type: ignore[attr-defined]
            top = x[:, y0, x0] * (scale[2] - fx) + x[:, y0, x1] * fx
            bottom = x[:, y1, x0] * (scale[2] - fx) + x[:, y1, x1] * fx
            total = top * (scale[0] - fy) + bottom * fy
            y[:, r, c] = total if x.dtype.kind == "i" else total / (scale[0] * scale[2])
        else:
            y[:, r, c] = x[:, y1 if fy * 2 >= scale[0] else y0, x1 if fx * 2 >= scale[2] else x0]
    return y


def _cast(op: Operation, x: Array) -> Array:
    """Integers must fit, which `_stored` wants, or become truth values; floats round half to even and saturate."""
    if not isinstance(element_of(op.results[0]), IntegerType):
        return x.astype(np.float64)
    if _range(op.results[0]) == (0, 1):
        return (x != 0).astype(np.int64)
    if x.dtype.kind == "f":
        assert np.isfinite(x).all()
        return np.clip(np.rint(x), *_range(op.results[0])).astype(np.int64)
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
    """Integers of 32 bits may be scaled down, a half rounded up."""
    with np.errstate(over="ignore"):
        return a * b if shift[0] == 0 else a * b + (1 << int(shift[0]) - 1) >> shift[0]


def _negate(op: Operation, x: Array, x_zp: Array, y_zp: Array) -> Array:
    return -x if x.dtype.kind == "f" else np.clip(y_zp - (x - x_zp), *_range(op.results[0]))


def _logical_shift(op: Operation, x: Array, bits: Array) -> Array:
    """Of 32 bits without a sign, as the bits of a signless type."""
    x = x & 0xFFFFFFFF
    return (x << bits if op.name == "tosa.logical_left_shift" else x >> bits).astype(np.int32)


def _leading_zeros(op: Operation, x: Array) -> Array:
    return np.array([32 - (int(v) & 0xFFFFFFFF).bit_length() for v in x.reshape(-1)]).reshape(x.shape)


def _gather(op: Operation, values: Array, indices: Array) -> Array:
    assert indices.min() >= 0
    assert indices.max() < values.shape[1]
    return np.take_along_axis(values, indices[:, :, None], axis=1)


def _scatter(op: Operation, values: Array, indices: Array, rows: Array) -> Array:
    y = values.copy()
    np.put_along_axis(y, indices[:, :, None], rows, axis=1)
    return y


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


def _over_axis(function: Callable[..., Array]) -> Callable[[Operation, Array], Array]:
    return lambda op, x: function(x, axis=_number(op, "axis"), keepdims=True)


def _plain(function: Callable[..., Array]) -> Callable[..., Array]:
    """The meaning of an operation that has no properties; truth values are 0 and 1."""

    def meaning(op: Operation, *operands: Array) -> Array:
        y = function(*operands)
        return y.astype(np.int64) if y.dtype == np.bool_ else y

    return meaning


PLAIN: dict[str, Callable[..., Array]] = {
    "identity": lambda x: x, "abs": np.abs, "ceil": np.ceil, "cos": np.cos, "exp": np.exp, "floor": np.floor,
    "erf": np.vectorize(erf, otypes=[np.float64]), "log": np.log, "reciprocal": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "sin": np.sin, "tanh": np.tanh,
    "bitwise_not": np.invert, "logical_not": lambda x: 1 - x, "add": np.add, "sub": np.subtract, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "logical_and": np.bitwise_and, "logical_or": np.bitwise_or,
    "logical_xor": np.bitwise_xor, "equal": np.equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "select": lambda c, a, b: np.where(c == 1, a, b), "matmul": lambda a, b, a_zp, b_zp: (a - a_zp) @ (b - b_zp),
    "tile": np.tile, "reshape": np.reshape,
}  # fmt: skip
"""Operation without properties → its meaning, of its operands."""

OPERATIONS: dict[str, Callable[..., Array]] = {f"tosa.{name}": _plain(meaning) for name, meaning in PLAIN.items()} | {
    "tosa.const": _const,
    "tosa.const_shape": _const,
    "tosa.rescale": _rescale,
    "tosa.conv2d": _convolution,
    "tosa.depthwise_conv2d": _convolution,
    "tosa.transpose_conv2d": _transposed_convolution,
    "tosa.max_pool2d": _max_pool,
    "tosa.avg_pool2d": _average_pool,
    "tosa.resize": _resize,
    "tosa.cast": _cast,
    "tosa.mul": _mul,
    "tosa.negate": _negate,
    "tosa.intdiv": _intdiv,
    "tosa.clz": _leading_zeros,
    "tosa.arithmetic_right_shift": _shift,
    "tosa.logical_left_shift": _logical_shift,
    "tosa.logical_right_shift": _logical_shift,
    "tosa.clamp": _clamp,
    "tosa.argmax": lambda op, x: x.argmax(axis=_number(op, "axis")),
    "tosa.reduce_all": _over_axis(np.min),
    "tosa.reduce_any": _over_axis(np.max),
    "tosa.reduce_max": _over_axis(np.max),
    "tosa.reduce_min": _over_axis(np.min),
    "tosa.reduce_sum": _over_axis(np.sum),
    "tosa.reduce_product": _over_axis(np.prod),
    "tosa.table": _table,
    "tosa.gather": _gather,
    "tosa.scatter": _scatter,
    "tosa.pad": _pad,
    "tosa.slice": _slice,
    "tosa.reverse": lambda op, x: np.flip(x, _number(op, "axis")),
    "tosa.transpose": lambda op, x: x.transpose(_numbers(op, "perms")),
    "tosa.concat": lambda op, *xs: np.concatenate(xs, axis=_number(op, "axis")),
}
"""Operation → its meaning: (operation, operands) → result."""
