"""Operations of TOSA 1.0 as text, with inputs, and their results in numpy as TOSA's specification defines them.

A sample is one operation between the arguments and the result of `@main`. Its constant operands are `Const` and
`Shape`, the others are arguments. Floats are computed in float64 here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import erf
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DTYPES = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i1": np.bool_, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i48": np.int64,
}  # fmt: skip


def split(type: str) -> tuple[tuple[int, ...], str]:
    """The shape and the element type of `2x3xf32`."""
    *sizes, element = type.split("x")
    return tuple(map(int, sizes)), element


@dataclass(frozen=True)
class Arg:
    """An argument with random values: all of an integer type's, or between two ends."""

    type: str
    low: float | None = None
    high: float | None = None

    def array(self, rng: np.random.Generator) -> Array:
        shape, element = split(self.type)
        dtype = np.dtype(DTYPES[element])
        if element == "i1":
            return rng.integers(0, 2, shape).astype(np.bool_)
        if element in ("f32", "f16", "bf16"):
            low, high = (-2.0, 2.0) if self.low is None or self.high is None else (self.low, self.high)
            return rng.uniform(low, high, shape).astype(dtype)
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if self.low is None or self.high is None else (int(self.low), int(self.high))
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)


@dataclass(frozen=True)
class Const:
    """A constant tensor: one number everywhere, or a list of numbers."""

    type: str
    values: float | Sequence[Any] | Array

    def array(self) -> Array:
        shape, element = split(self.type)
        given = np.asarray(self.values)
        return (np.full(shape, given) if given.ndim == 0 else given.reshape(shape)).astype(DTYPES[element])

    def text(self) -> str:
        array = self.array()
        if array.dtype.kind == "b":
            listed = str(array.tolist()).lower()
        elif array.dtype.kind in "iu":
            listed = str(array.tolist())
        else:
            listed = _floats(array.astype(np.float64))
        return f'"tosa.const"() <{{values = dense<{listed}> : tensor<{self.type}>}}> : () -> tensor<{self.type}>'


def _floats(array: Array) -> str:
    if array.ndim == 0:
        return f"{array:.9e}"
    return "[" + ", ".join(_floats(part) for part in array) + "]"


@dataclass(frozen=True)
class Shape:
    """A constant shape."""

    sizes: Sequence[int]

    @property
    def type(self) -> str:
        return f"!tosa.shape<{len(self.sizes)}>"

    def text(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        values = f"dense<[{sizes}]> : tensor<{len(self.sizes)}xindex>"
        return f'"tosa.const_shape"() <{{values = {values}}}> : () -> {self.type}'


@dataclass(frozen=True)
class TosaSample:
    """One operation.

    name        of the operation, without `tosa.`
    note        what is special about the sample
    operands    its operands
    result      the type of its result
    expected    computes the result from the arrays of the arguments
    properties  its properties, as text
    """

    name: str
    note: str
    operands: Sequence[Arg | Const | Shape]
    result: str
    expected: Callable[..., Array]
    properties: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return f"{self.name}-{self.note.replace(' ', '_')}"

    def text(self) -> str:
        """The module in the generic form."""
        lines: list[str] = []
        arguments = [f"%a{i}: tensor<{o.type}>" for i, o in enumerate(self.operands) if isinstance(o, Arg)]
        types = [o.type if isinstance(o, Shape) else f"tensor<{o.type}>" for o in self.operands]
        for i, operand in enumerate(self.operands):
            if not isinstance(operand, Arg):
                lines.append(f"  %a{i} = {operand.text()}")
        values = ", ".join(f"%a{i}" for i in range(len(self.operands)))
        properties = ", ".join(f"{k} = {v}" for k, v in self.properties.items())
        held = f" <{{{properties}}}>" if properties else ""
        lines.append(f'  %y = "tosa.{self.name}"({values}){held} : ({", ".join(types)}) -> tensor<{self.result}>')
        lines.append(f"  func.return %y : tensor<{self.result}>")
        body = "\n".join(lines)
        return f"func.func @main({', '.join(arguments)}) -> tensor<{self.result}> {{\n{body}\n}}\n"

    def inputs(self, seed: int = 0) -> list[Array]:
        """Random values of its arguments."""
        rng = np.random.default_rng(seed)
        return [o.array(rng) for o in self.operands if isinstance(o, Arg)]

    def result_of(self, inputs: Sequence[Array]) -> Array:
        """The result in numpy, in the result's type; 48 bits are held in 64."""
        wide = [x.astype(np.float64) if x.dtype.kind not in "iub" else x for x in inputs]
        wide = [x.astype(np.int64) if x.dtype.kind == "i" else x for x in wide]
        with np.errstate(all="ignore"):
            return self.expected(*wide).astype(DTYPES[split(self.result)[1]])


def _array(width: int, numbers: Sequence[int]) -> str:
    return f"array<i{width}: {', '.join(map(str, numbers))}>"


def _axis(axis: int) -> dict[str, str]:
    return {"axis": f"{axis} : i32"}


# ---------------------------------------------------------------------------------------------------------------
# Single elements

F = Arg("2x3xf32")
PAIR = (Arg("2x3x4xf32"), Arg("2x1x4xf32"))
POSITIVE = Arg("2x3xf32", 0.1, 4.0)
INTS = Arg("2x3xi32", -1000, 1000)
BITS = Arg("2x3xi32")
TRUTHS = (Arg("2x3xi1"), Arg("2x3xi1"))
ZERO8 = Const("1xi8", 0)
ZERO_F = Const("1xf32", 0.0)


def _unary(name: str, function: Callable[[Array], Array], operand: Arg = F) -> TosaSample:
    return TosaSample(name, operand.type.split("x")[-1], (operand,), operand.type, function)


def _binary(name: str, function: Callable[..., Array], *operands: Arg, element: str = "", note: str = "") -> TosaSample:
    shape = np.broadcast_shapes(*(split(o.type)[0] for o in operands))
    kind = element or split(operands[-1].type)[1]
    return TosaSample(name, note or split(operands[0].type)[1], operands, "x".join([*map(str, shape), kind]), function)


def _wrap32(x: Array) -> Array:
    return x.astype(np.int32)


def _unsigned32(x: Array) -> Array:
    return x & 0xFFFFFFFF


def _shift(x: Array, bits: Array) -> Array:
    return (x >> bits) + np.where(bits > 0, x >> np.maximum(bits - 1, 0) & 1, 0)


def _clz(x: Array) -> Array:
    return np.array([32 - int(v).bit_length() for v in _unsigned32(x).reshape(-1)]).reshape(x.shape)


ERF = np.vectorize(erf, otypes=[np.float64])

ELEMENTWISE = [
    _unary("abs", np.abs),
    _unary("abs", np.abs, INTS),
    _unary("ceil", np.ceil),
    _unary("cos", np.cos),
    _unary("erf", ERF),
    _unary("exp", np.exp),
    _unary("floor", np.floor),
    _unary("log", np.log, POSITIVE),
    _unary("reciprocal", lambda x: 1 / x, POSITIVE),
    _unary("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    _unary("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    _unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), Arg("2x3xf16")),
    _unary("sin", np.sin),
    _unary("tanh", np.tanh),
    _unary("tanh", np.tanh, Arg("2x3xbf16")),
    _unary("bitwise_not", np.invert, BITS),
    _unary("logical_not", np.logical_not, TRUTHS[0]),
    _unary("clz", _clz, BITS),
    _binary("add", np.add, *PAIR),
    _binary("add", np.add, INTS, INTS),
    _binary("add", np.add, Arg("4xf16"), Arg("4xf16")),
    _binary("sub", np.subtract, *PAIR),
    _binary("sub", np.subtract, INTS, INTS),
    _binary("pow", np.power, POSITIVE, F),
    _binary("intdiv", lambda a, b: np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)), INTS, Arg("2x3xi32", 1, 40)),
    _binary("bitwise_and", np.bitwise_and, BITS, BITS),
    _binary("bitwise_or", np.bitwise_or, BITS, BITS),
    _binary("bitwise_xor", np.bitwise_xor, BITS, BITS),
    _binary("logical_and", np.logical_and, *TRUTHS),
    _binary("logical_or", np.logical_or, *TRUTHS),
    _binary("logical_xor", np.logical_xor, *TRUTHS),
    _binary("logical_left_shift", lambda a, b: _wrap32(a << b), BITS, Arg("2x3xi32", 0, 31)),
    _binary("logical_right_shift", lambda a, b: _wrap32(_unsigned32(a) >> b), BITS, Arg("2x3xi32", 0, 31)),
    _binary("equal", np.equal, Arg("40xi32", 0, 3), Arg("40xi32", 0, 3), element="i1"),
    _binary("greater", np.greater, *PAIR, element="i1"),
    _binary("greater", np.greater, Arg("40xi32", 0, 3), Arg("40xi32", 0, 3), element="i1"),
    _binary("greater_equal", np.greater_equal, Arg("40xi32", 0, 3), Arg("40xi32", 0, 3), element="i1"),
    _binary("maximum", np.maximum, *PAIR),
    _binary("maximum", np.maximum, INTS, INTS),
    _binary("minimum", np.minimum, *PAIR),
    _binary("minimum", np.minimum, INTS, INTS),
    TosaSample("arithmetic_right_shift", "down", (BITS, Arg("2x3xi32", 0, 31)), "2x3xi32", lambda a, b: a >> b,
               {"round": "false"}),
    TosaSample("arithmetic_right_shift", "rounded", (Arg("40xi32"), Arg("40xi32", 0, 31)), "40xi32", _shift,
               {"round": "true"}),
    TosaSample("arithmetic_right_shift", "rounded i16", (Arg("40xi16"), Arg("40xi16", 0, 15)), "40xi16", _shift,
               {"round": "true"}),
    TosaSample("mul", "f32", (*PAIR, ZERO8), "2x3x4xf32", np.multiply),
    TosaSample("mul", "i8", (Arg("2x3xi8"), Arg("2x3xi8"), ZERO8), "2x3xi32", np.multiply),
    TosaSample("mul", "i16", (Arg("2x3xi16"), Arg("2x3xi16"), ZERO8), "2x3xi32", lambda a, b: _wrap32(a * b)),
    TosaSample("mul", "shifted", (BITS, BITS, Const("1xi8", 31)), "2x3xi32",
               lambda a, b: (a * b + (1 << 30)) >> 31),
    TosaSample("negate", "f32", (F, ZERO_F, ZERO_F), "2x3xf32", np.negative),
    TosaSample("negate", "i8", (Arg("60xi8"), Const("1xi8", 5), Const("1xi8", -9)), "60xi8",
               lambda x: np.clip(-9 - (x - 5), -128, 127)),
    TosaSample("negate", "i32", (INTS, Const("1xi32", 0), Const("1xi32", 0)), "2x3xi32", np.negative),
    TosaSample("select", "f32", (Arg("2x3x4xi1"), *PAIR), "2x3x4xf32", np.where),
    TosaSample("select", "i32", (TRUTHS[0], INTS, INTS), "2x3xi32", np.where),
    TosaSample("clamp", "f32", (F,), "2x3xf32", lambda x: np.clip(x, -0.5, 1.0),
               {"min_val": "-0.5 : f32", "max_val": "1.0 : f32"}),
    TosaSample("clamp", "relu", (F,), "2x3xf32", lambda x: np.maximum(x, 0),
               {"min_val": "0.0 : f32", "max_val": "3.40282347E+38 : f32"}),
    TosaSample("clamp", "f16", (Arg("2x3xf16"),), "2x3xf16", lambda x: np.clip(x, 0, 1),
               {"min_val": "0.0 : f16", "max_val": "1.0 : f16"}),
    TosaSample("clamp", "i8", (Arg("60xi8"),), "60xi8", lambda x: np.clip(x, -9, 100),
               {"min_val": "-9 : i8", "max_val": "100 : i8"}),
    TosaSample("cast", "f32 to i8", (Arg("60xf32", -300, 300),), "60xi8",
               lambda x: np.clip(np.rint(x), -128, 127)),
    TosaSample("cast", "ties", (Const("6xf32", [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]),), "6xi32",
               lambda: np.array([0, 2, 2, 0, -2, -2])),
    TosaSample("cast", "i32 to f32", (INTS,), "2x3xf32", lambda x: x),
    TosaSample("cast", "i8 to i32", (Arg("60xi8"),), "60xi32", lambda x: x),
    TosaSample("cast", "i32 to i8", (Arg("60xi32", -128, 127),), "60xi8", lambda x: x),
    TosaSample("cast", "i8 to i1", (Arg("60xi8", -1, 1),), "60xi1", lambda x: x != 0),
    TosaSample("cast", "i1 to i32", (TRUTHS[0],), "2x3xi32", lambda x: x),
    TosaSample("cast", "f32 to f16", (F,), "2x3xf16", lambda x: x),
    TosaSample("table", "i8", (Arg("90xi8"), Const("256xi8", np.arange(256) * 37 % 256 - 128)), "90xi8",
               lambda x: (np.arange(256) * 37 % 256 - 128)[x + 128]),
    TosaSample("table", "i16", (Arg("90xi16"), Const("513xi16", np.arange(513) * 7919 % 30000 - 15000)), "90xi32",
               lambda x: _interpolated(np.arange(513) * 7919 % 30000 - 15000, x)),
]  # fmt: skip


def _interpolated(table: Array, x: Array) -> Array:
    breakpoint, fraction = x + 32768 >> 7, x & 127
    return table[breakpoint] * 128 + (table[breakpoint + 1] - table[breakpoint]) * fraction


# ---------------------------------------------------------------------------------------------------------------
# Requantization

MODES = ("SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND")


def _scaled(x: Array, multiplier: Array, shift: Array, mode: str) -> Array:
    rounding = np.broadcast_to(np.int64(1) << shift - 1, x.shape)
    if mode == "DOUBLE_ROUND":
        rounding = rounding + np.where(shift > 31, np.where(x >= 0, 1 << 30, -(1 << 30)), 0)
    return (x * multiplier + rounding) >> shift


def rescale(
    note: str, x: Arg, result: str, multiplier: Sequence[int], shift: Sequence[int], zero_points: tuple[int, int],
    mode: str = "SINGLE_ROUND", *, scale32: bool = True, unsigned: tuple[bool, bool] = (False, False),
) -> TosaSample:  # fmt: skip
    """A sample of `tosa.rescale`; zero points are as the operation reads them."""
    of_x, of_y = split(x.type)[1], split(result)[1]
    m, s = np.array(multiplier, np.int64), np.array(shift, np.int64)
    bits = {"i8": 8, "i16": 16, "i32": 32, "i48": 48}[of_y]

    def expected(x: Array) -> Array:
        data = x & (1 << bits_of(of_x)) - 1 if unsigned[0] else x
        y = _scaled(data - zero_points[0], m, s, mode) + zero_points[1]
        low, high = (0, (1 << bits) - 1) if unsigned[1] else (-(1 << bits - 1), (1 << bits - 1) - 1)
        return np.clip(y, low, high)

    words = {False: "false", True: "true"}
    properties = {
        "scale32": words[scale32],
        "rounding_mode": f"#tosa.rounding_mode<{mode}>",
        "per_channel": words[len(multiplier) > 1],
        "input_unsigned": words[unsigned[0]],
        "output_unsigned": words[unsigned[1]],
    }
    points = [
        Const(f"1x{kind}", np.array([z]).astype(DTYPES[kind]))
        for kind, z in zip((of_x, of_y), zero_points, strict=True)
    ]
    constants = (
        Const(f"{len(multiplier)}x{'i32' if scale32 else 'i16'}", multiplier), Const(f"{len(shift)}xi8", shift),
    )  # fmt: skip
    return TosaSample("rescale", note, (x, *constants, *points), result, expected, properties)


def bits_of(element: str) -> int:
    """The width of an integer type."""
    return int(element[1:])


RESCALES = [
    *(rescale(mode, Arg("40x3xi32", -90000, 90000), "40x3xi8", [1518500250, 1073741824, 2147483647], [40, 38, 41],
              (0, -7), mode) for mode in MODES),
    rescale("ties", Arg("60xi32", -64, 64), "60xi8", [1 << 30], [35], (0, 3), "DOUBLE_ROUND"),
    rescale("short multiplier", Arg("60xi32", -64, 64), "60xi8", [3], [8], (0, 0)),
    rescale("short multiplier twice", Arg("60xi32", -9000, 9000), "60xi8", [3 << 20], [33], (0, 5), "DOUBLE_ROUND"),
    rescale("i8 to i8", Arg("90xi8"), "90xi8", [1300000000], [30], (-3, 9)),
    rescale("i8 to i32", Arg("90xi8"), "90xi32", [1073741824], [11], (-3, 0)),
    rescale("i16 to i8", Arg("90xi16"), "90xi8", [1518500250], [38], (0, -1)),
    rescale("i8 to i16", Arg("90xi8"), "90xi16", [1518500250], [24], (7, 0)),
    rescale("unsigned to i8", Arg("90xi8"), "90xi8", [1 << 30], [30], (128, 0), unsigned=(True, False)),
    rescale("i8 to unsigned", Arg("90xi8"), "90xi8", [1300000000], [30], (0, 128), unsigned=(False, True)),
    rescale("i16 to unsigned", Arg("90xi16"), "90xi8", [1518500250], [38], (0, 20),
            unsigned=(False, True)),
    rescale("16-bit multiplier", Arg("90xi32", -9000, 9000), "90xi8", [20000], [21], (0, 3), scale32=False),
    rescale("zero", Arg("30x2xi32", -9000, 9000), "30x2xi8", [0, 1 << 30], [38, 36], (0, 3)),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Data movement


def _pads(array: Array, padding: Sequence[int], number: float) -> Array:
    return np.pad(array, np.array(padding).reshape(-1, 2), constant_values=number)


INDICES = np.array([[0, 3, 3, 1], [2, 2, 0, 3]])

MOVEMENTS = [
    TosaSample("identity", "f32", (F,), "2x3xf32", lambda x: x),
    TosaSample("reshape", "f32", (F, Shape([3, 2])), "3x2xf32", lambda x: x.reshape(3, 2)),
    TosaSample("transpose", "f32", (Arg("2x3x4xf32"),), "4x2x3xf32", lambda x: x.transpose(2, 0, 1),
               {"perms": _array(32, [2, 0, 1])}),
    TosaSample("concat", "f32", (F, Arg("2x2xf32")), "2x5xf32", lambda a, b: np.concatenate([a, b], 1), _axis(1)),
    TosaSample("concat", "i8", (Arg("2x3xi8"), Arg("1x3xi8")), "3x3xi8", lambda a, b: np.concatenate([a, b]), _axis(0)),
    TosaSample("pad", "f32", (F, Shape([0, 1, 2, 0]), Const("1xf32", 0.5)), "3x5xf32",
               lambda x: _pads(x, [0, 1, 2, 0], 0.5)),
    TosaSample("pad", "i8", (Arg("2x3xi8"), Shape([0, 1, 2, 0]), Const("1xi8", -7)), "3x5xi8",
               lambda x: _pads(x, [0, 1, 2, 0], -7)),
    TosaSample("reverse", "f32", (Arg("2x3x4xf32"),), "2x3x4xf32", lambda x: x[:, ::-1], _axis(1)),
    TosaSample("slice", "f32", (Arg("4x5xf32"), Shape([1, 0]), Shape([2, 4])), "2x4xf32", lambda x: x[1:3, :4]),
    TosaSample("tile", "f32", (F, Shape([2, 3])), "4x9xf32", lambda x: np.tile(x, (2, 3))),
    TosaSample("tile", "i8", (Arg("1x3xi8"), Shape([2, 1])), "2x3xi8", lambda x: np.tile(x, (2, 1))),
    TosaSample("gather", "f32", (Arg("2x4x3xf32"), Const("2x4xi32", INDICES)), "2x4x3xf32",
               lambda x: np.take_along_axis(x, INDICES[:, :, None], 1)),
    TosaSample("gather", "computed", (Arg("2x4x3xf32"), Arg("2x5xi32", 0, 3)), "2x5x3xf32",
               lambda x, at: np.take_along_axis(x, at[:, :, None], 1)),
    TosaSample("scatter", "f32", (Arg("2x4x3xf32"), Const("2x2xi32", [[3, 0], [1, 2]]), Arg("2x2x3xf32")),
               "2x4x3xf32", lambda x, rows: _scattered(x, [[3, 0], [1, 2]], rows)),
]  # fmt: skip


def _scattered(x: Array, at: Sequence[Sequence[int]], rows: Array) -> Array:
    y = x.copy()
    for n, places in enumerate(at):
        y[n, list(places)] = rows[n]
    return y


# ---------------------------------------------------------------------------------------------------------------
# Reductions, pools and resizes


def _reduce(name: str, function: Callable[..., Array], operand: Arg, axis: int) -> TosaSample:
    shape, element = split(operand.type)
    kept = [1 if i == axis else size for i, size in enumerate(shape)]
    result = "x".join([*map(str, kept), element])
    return TosaSample(name, element, (operand,), result, lambda x: function(x, axis=axis, keepdims=True), _axis(axis))


def _windows(x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], fill: float) -> Array:
    """[N, OH, OW, KH, KW, C]."""
    top, bottom, left, right = pad
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    views = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernel), (1, 2))
    return views[:, :: stride[0], :: stride[1]].transpose(0, 1, 2, 4, 5, 3)


def _pool(kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]) -> dict[str, str]:
    return {"kernel": _array(64, kernel), "stride": _array(64, stride), "pad": _array(64, pad)}


def _mean(x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]) -> tuple[Array, Array]:
    """The sums over windows, and the number of elements in each."""
    sums = _windows(x, kernel, stride, pad, 0).sum((3, 4))
    return sums, _windows(np.ones_like(x), kernel, stride, pad, 0).sum((3, 4))


def _integer_mean(x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], z: int, to: int) -> Array:
    sums, counts = _mean(x - z, kernel, stride, pad)
    y = np.empty_like(sums)
    for at in np.ndindex(sums.shape):
        count = int(counts[at])
        k = (count - 1).bit_length()
        multiplier = ((1 << 30) + 1 << k) // count
        y[at] = (int(sums[at]) * multiplier + (1 << 29 + k)) >> (30 + k)
    return np.clip(y + to, -128, 127)


def _resized(
    x: Array, scale: Sequence[int], offset: Sequence[int], border: Sequence[int], *, bilinear: bool, whole: bool
) -> Array:
    """Each element by itself, as the specification writes it; `whole` keeps the weights' factor."""
    batch, height, width, channels = x.shape
    rows = ((height - 1) * scale[0] - offset[0] + border[0]) // scale[1] + 1
    columns = ((width - 1) * scale[2] - offset[1] + border[1]) // scale[3] + 1
    y = np.zeros((batch, rows, columns, channels))
    for r, c in np.ndindex(rows, columns):
        ay, ax = r * scale[1] + offset[0], c * scale[3] + offset[1]
        iy, ix = ay // scale[0], ax // scale[2]
        fy, fx = ay - iy * scale[0], ax - ix * scale[2]
        y0, y1 = max(iy, 0), min(iy + 1, height - 1)
        x0, x1 = max(ix, 0), min(ix + 1, width - 1)
        if bilinear:
            top = x[:, y0, x0] * (scale[2] - fx) + x[:, y0, x1] * fx
            bottom = x[:, y1, x0] * (scale[2] - fx) + x[:, y1, x1] * fx
            total = top * (scale[0] - fy) + bottom * fy
            y[:, r, c] = total if whole else total / (scale[0] * scale[2])
        else:
            y[:, r, c] = x[:, y1 if fy * 2 >= scale[0] else y0, x1 if fx * 2 >= scale[2] else x0]
    return y


def _resize(
    note: str, x: Arg, result: str, scale: Sequence[int], offset: Sequence[int], border: Sequence[int], mode: str
) -> TosaSample:
    element = split(x.type)[1]
    bilinear = mode == "BILINEAR"
    shapes = (Shape(scale), Shape(offset), Shape(border))
    return TosaSample(
        "resize", note, (x, *shapes), result,
        lambda x: _resized(x, scale, offset, border, bilinear=bilinear, whole=element != "f32"),
        {"mode": f"#tosa.resize_mode<{mode}>"},
    )  # fmt: skip


IMAGE = Arg("2x5x6x3xf32")
BYTES = Arg("2x5x6x3xi8")

REDUCTIONS = [
    _reduce("reduce_all", np.all, Arg("4x5xi1"), 1),
    _reduce("reduce_any", np.any, Arg("4x2xi1"), 1),
    _reduce("reduce_max", np.max, Arg("3x4xf32"), 0),
    _reduce("reduce_max", np.max, Arg("3x4xi32"), 1),
    _reduce("reduce_min", np.min, Arg("3x4xf32"), 1),
    _reduce("reduce_product", np.prod, Arg("3x4xf32"), 1),
    _reduce("reduce_sum", np.sum, Arg("3x4x2xf32"), 1),
    _reduce("reduce_sum", np.sum, Arg("3x4xi32", -1000, 1000), 0),
    TosaSample("argmax", "f32", (Arg("3x4xf32"),), "3xi32", lambda x: x.argmax(1), _axis(1)),
    TosaSample("argmax", "i8", (Arg("40x4xi8", 0, 3),), "40xi32", lambda x: x.argmax(1), _axis(1)),
    TosaSample("max_pool2d", "f32", (IMAGE,), "2x3x3x3xf32",
               lambda x: _windows(x, (3, 2), (2, 2), (1, 1, 0, 0), -np.inf).max((3, 4)),
               _pool((3, 2), (2, 2), (1, 1, 0, 0))),
    TosaSample("max_pool2d", "i8", (BYTES,), "2x3x3x3xi8",
               lambda x: _windows(x, (3, 2), (2, 2), (1, 1, 0, 0), -128).max((3, 4)),
               _pool((3, 2), (2, 2), (1, 1, 0, 0))),
    TosaSample("avg_pool2d", "f32", (IMAGE, ZERO_F, ZERO_F), "2x3x3x3xf32",
               lambda x: np.divide(*_mean(x, (3, 2), (2, 2), (1, 1, 0, 0))),
               _pool((3, 2), (2, 2), (1, 1, 0, 0)) | {"acc_type": "f32"}),
    TosaSample("avg_pool2d", "i8", (BYTES, Const("1xi8", 5), Const("1xi8", -3)), "2x2x3x3xi8",
               lambda x: _integer_mean(x, (3, 2), (2, 2), (0, 0, 0, 0), 5, -3),
               _pool((3, 2), (2, 2), (0, 0, 0, 0)) | {"acc_type": "i32"}),
    TosaSample("avg_pool2d", "i8 padded", (BYTES, Const("1xi8", 5), Const("1xi8", -3)), "2x3x3x3xi8",
               lambda x: _integer_mean(x, (3, 2), (2, 2), (1, 1, 0, 0), 5, -3),
               _pool((3, 2), (2, 2), (1, 1, 0, 0)) | {"acc_type": "i32"}),
    _resize("bilinear", Arg("1x3x4x2xf32"), "1x6x8x2xf32", [4, 2, 4, 2], [-1, -1], [1, 1], "BILINEAR"),
    _resize("bilinear i8", Arg("1x3x4x2xi8"), "1x6x8x2xi32", [4, 2, 4, 2], [-1, -1], [1, 1], "BILINEAR"),
    _resize("align corners", Arg("1x3x4x2xf32"), "1x5x10x2xf32", [2, 1, 3, 1], [0, 0], [0, 0], "BILINEAR"),
    _resize("nearest", Arg("1x3x4x2xf32"), "1x6x8x2xf32", [4, 2, 4, 2], [-1, -1], [1, 1], "NEAREST_NEIGHBOR"),
    _resize("nearest i8", Arg("1x3x4x2xi8"), "1x6x8x2xi8", [2, 1, 2, 1], [0, 0], [1, 1], "NEAREST_NEIGHBOR"),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Convolutions and matrix products


def convolved(
    x: Array, w: Array, b: Array, stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int]
) -> Array:
    """A convolution by weights [O, KH, KW, C], each product by itself."""
    top, bottom, left, right = pad
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    spread = np.zeros((w.shape[0], *((k - 1) * d + 1 for k, d in zip(w.shape[1:3], dilation)), w.shape[3]), w.dtype)
    spread[:, :: dilation[0], :: dilation[1]] = w
    views = np.lib.stride_tricks.sliding_window_view(padded, spread.shape[1:3], (1, 2))
    views = views[:, :: stride[0], :: stride[1]]
    return np.einsum("nhwcij,oijc->nhwo", views, spread) + b


def _dense_kernel(w: Array) -> Array:
    """Depthwise weights [KH, KW, C, M] as weights [C·M, KH, KW, C]."""
    rows, columns, channels, each = w.shape
    full = np.zeros((channels, each, rows, columns, channels), w.dtype)
    for c in range(channels):
        full[c, :, :, :, c] = w[:, :, c].transpose(2, 0, 1)
    return full.reshape(channels * each, rows, columns, channels)


def _transposed(x: Array, w: Array, b: Array, stride: Sequence[int], pad: Sequence[int]) -> Array:
    """Each element of the input adds its multiple of the kernel."""
    batch, height, width, _ = x.shape
    outputs, rows, columns, _ = w.shape
    y = np.zeros((batch, (height - 1) * stride[0] + rows, (width - 1) * stride[1] + columns, outputs), x.dtype)
    for i, j in np.ndindex(height, width):
        part = np.einsum("nc,oijc->nijo", x[:, i, j], w)
        y[:, i * stride[0] : i * stride[0] + rows, j * stride[1] : j * stride[1] + columns] += part
    low = [max(-p, 0) for p in pad]
    y = y[:, low[0] : y.shape[1] - low[1], low[2] : y.shape[2] - low[3]]
    return np.pad(y, ((0, 0), (max(pad[0], 0), max(pad[1], 0)), (max(pad[2], 0), max(pad[3], 0)), (0, 0))) + b


def _conv(stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int], accumulator: str) -> dict[str, str]:
    return {
        "stride": _array(64, stride), "pad": _array(64, pad), "dilation": _array(64, dilation),
        "acc_type": accumulator,
    }  # fmt: skip


RNG = np.random.default_rng(11)
W8 = RNG.integers(-128, 128, (4, 3, 2, 3))
B32 = RNG.integers(-9000, 9000, 4)
DW8 = RNG.integers(-127, 128, (3, 2, 3, 2))
DB32 = RNG.integers(-9000, 9000, 6)
P5, P0, M9 = Const("1xi8", 5), Const("1xi8", 0), Const("1xi8", -9)

CONTRACTIONS = [
    TosaSample("conv2d", "f32", (IMAGE, Arg("4x3x2x3xf32"), Arg("4xf32"), ZERO_F, ZERO_F), "2x3x5x4xf32",
               lambda x, w, b: convolved(x, w, b, (2, 1), (1, 1, 0, 0), (1, 1)),
               _conv((2, 1), (1, 1, 0, 0), (1, 1), "f32")),
    TosaSample("conv2d", "dilated", (IMAGE, Arg("4x2x2x3xf32"), Const("1xf32", 0.5), ZERO_F, ZERO_F), "2x4x4x4xf32",
               lambda x, w: convolved(x, w, np.full(4, 0.5), (1, 1), (1, 0, 0, 0), (2, 2)),
               _conv((1, 1), (1, 0, 0, 0), (2, 2), "f32")),
    TosaSample("conv2d", "one pixel", (Arg("3x1x1x5xf32"), Arg("4x1x1x5xf32"), Arg("4xf32"), ZERO_F, ZERO_F),
               "3x1x1x4xf32", lambda x, w, b: convolved(x, w, b, (1, 1), (0, 0, 0, 0), (1, 1)),
               _conv((1, 1), (0, 0, 0, 0), (1, 1), "f32")),
    TosaSample("conv2d", "i8", (BYTES, Const("4x3x2x3xi8", W8), Const("4xi32", B32), P5, P0), "2x3x5x4xi32",
               lambda x: convolved(x - 5, W8, B32, (2, 1), (1, 1, 0, 0), (1, 1)),
               _conv((2, 1), (1, 1, 0, 0), (1, 1), "i32")),
    TosaSample("conv2d", "weights with a zero point", (BYTES, Const("4x3x2x3xi8", W8), Const("1xi32", 7), P5, M9),
               "2x3x5x4xi32", lambda x: convolved(x - 5, W8 + 9, np.full(4, 7), (2, 1), (1, 1, 0, 0), (1, 1)),
               _conv((2, 1), (1, 1, 0, 0), (1, 1), "i32")),
    TosaSample("conv2d", "computed weights", (BYTES, Arg("4x3x2x3xi8"), Arg("4xi32", -99, 99), P5, M9), "2x3x5x4xi32",
               lambda x, w, b: convolved(x - 5, w + 9, b, (2, 1), (1, 1, 0, 0), (1, 1)),
               _conv((2, 1), (1, 1, 0, 0), (1, 1), "i32")),
    TosaSample("conv2d", "i16", (Arg("2x5x6x3xi16"), Const("4x3x2x3xi8", W8), Const("4xi48", B32),
                                 Const("1xi16", 0), P0), "2x3x5x4xi48",
               lambda x: convolved(x, W8, B32, (2, 1), (1, 1, 0, 0), (1, 1)),
               _conv((2, 1), (1, 1, 0, 0), (1, 1), "i48")),
    TosaSample("depthwise_conv2d", "f32", (IMAGE, Arg("3x2x3x2xf32"), Arg("6xf32"), ZERO_F, ZERO_F), "2x3x5x6xf32",
               lambda x, w, b: convolved(x, _dense_kernel(w), b, (2, 1), (1, 1, 0, 0), (1, 1)),
               _conv((2, 1), (1, 1, 0, 0), (1, 1), "f32")),
    TosaSample("depthwise_conv2d", "i8", (BYTES, Const("3x2x3x2xi8", DW8), Const("6xi32", DB32), P5, P0),
               "2x3x5x6xi32", lambda x: convolved(x - 5, _dense_kernel(DW8), DB32, (2, 1), (1, 1, 0, 0), (1, 1)),
               _conv((2, 1), (1, 1, 0, 0), (1, 1), "i32")),
    TosaSample("transpose_conv2d", "f32", (Arg("2x3x4x3xf32"), Arg("4x3x2x3xf32"), Arg("4xf32"), ZERO_F, ZERO_F),
               "2x7x12x4xf32", lambda x, w, b: _transposed(x, w, b, (2, 3), (0, 0, 0, 1)),
               {"stride": _array(64, (2, 3)), "out_pad": _array(64, (0, 0, 0, 1)), "acc_type": "f32"}),
    TosaSample("transpose_conv2d", "cropped", (Arg("2x3x4x3xf32"), Arg("4x3x2x3xf32"), Arg("4xf32"), ZERO_F, ZERO_F),
               "2x5x5x4xf32", lambda x, w, b: _transposed(x, w, b, (2, 1), (-1, -1, 0, 0)),
               {"stride": _array(64, (2, 1)), "out_pad": _array(64, (-1, -1, 0, 0)), "acc_type": "f32"}),
    TosaSample("transpose_conv2d", "i8", (Arg("2x3x4x3xi8"), Const("4x3x2x3xi8", W8), Const("4xi32", B32), P5, P0),
               "2x7x11x4xi32", lambda x: _transposed(x - 5, W8, B32, (2, 3), (0, 0, 0, 0)),
               {"stride": _array(64, (2, 3)), "out_pad": _array(64, (0, 0, 0, 0)), "acc_type": "i32"}),
    TosaSample("matmul", "f32", (Arg("2x3x4xf32"), Arg("2x4x5xf32"), ZERO_F, ZERO_F), "2x3x5xf32", np.matmul),
    TosaSample("matmul", "i8", (Arg("2x3x4xi8"), Arg("2x4x5xi8"), P5, M9), "2x3x5xi32",
               lambda a, b: (a - 5) @ (b + 9)),
    TosaSample("matmul", "i16", (Arg("2x3x4xi16"), Arg("2x4x5xi16"), Const("1xi16", 0), Const("1xi16", 0)),
               "2x3x5xi48", np.matmul),
]  # fmt: skip

SAMPLES = [*ELEMENTWISE, *RESCALES, *MOVEMENTS, *REDUCTIONS, *CONTRACTIONS]
