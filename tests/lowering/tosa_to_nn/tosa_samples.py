"""Operations of TOSA 1.0 as text, with inputs; what they yield, tests/lowering/tosa_specification.py says.

A sample is one operation between the arguments and the result of `@main`. Its constant operands are `Const` and
`Shape`, the others are arguments.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from qmlir.ir.context import make_context
from qmlir.ir.signature import main_function
from qmlir.ir.source import parse_text
from tests.lowering.tosa_specification import evaluate

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
    properties  its properties, as text
    """

    name: str
    note: str
    operands: Sequence[Arg | Const | Shape]
    result: str
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
        """The result in the result's type; 48 bits are held in 64."""
        module = parse_text(make_context(), self.text(), "sample.mlir")
        with np.errstate(all="ignore"):
            (result,) = evaluate(main_function(module), inputs)
        return result.astype(DTYPES[split(self.result)[1]])


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
FEW = (Arg("40xi32", 0, 3), Arg("40xi32", 0, 3))
BITS, PLACES = Arg("2x3xi32"), Arg("2x3xi32", 0, 31)
TRUTHS = (Arg("2x3xi1"), Arg("2x3xi1"))
ZERO8 = Const("1xi8", 0)
ZERO_F = Const("1xf32", 0.0)


def _unary(name: str, operand: Arg = F) -> TosaSample:
    return TosaSample(name, operand.type.split("x")[-1], (operand,), operand.type)


def _binary(name: str, *operands: Arg, element: str = "") -> TosaSample:
    shape = np.broadcast_shapes(*(split(o.type)[0] for o in operands))
    kind = element or split(operands[-1].type)[1]
    return TosaSample(name, split(operands[0].type)[1], operands, "x".join([*map(str, shape), kind]))


def _clamp(note: str, x: Arg, low: str, high: str) -> TosaSample:
    kind = split(x.type)[1]
    return TosaSample("clamp", note, (x,), x.type, {"min_val": f"{low} : {kind}", "max_val": f"{high} : {kind}"})


def _cast(x: Arg | Const, element: str, note: str = "") -> TosaSample:
    shape, kind = split(x.type)
    return TosaSample("cast", note or f"{kind} to {element}", (x,), "x".join([*map(str, shape), element]))


def _shifted(note: str, x: Arg, places: Arg, round: str) -> TosaSample:
    return TosaSample("arithmetic_right_shift", note, (x, places), x.type, {"round": round})


ELEMENTWISE = [
    *(_unary(name) for name in ("abs", "ceil", "cos", "erf", "exp", "floor", "sigmoid", "sin", "tanh")),
    *(_unary(name, POSITIVE) for name in ("log", "reciprocal", "rsqrt")),
    *(_unary(name, BITS) for name in ("bitwise_not", "clz")),
    _unary("abs", INTS), _unary("sigmoid", Arg("2x3xf16")), _unary("tanh", Arg("2x3xbf16")),
    _unary("logical_not", TRUTHS[0]),
    *(_binary(name, *PAIR) for name in ("add", "sub", "maximum", "minimum")),
    *(_binary(name, INTS, INTS) for name in ("add", "sub", "maximum", "minimum")),
    *(_binary(name, BITS, BITS) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")),
    *(_binary(name, *TRUTHS) for name in ("logical_and", "logical_or", "logical_xor")),
    *(_binary(name, BITS, PLACES) for name in ("logical_left_shift", "logical_right_shift")),
    *(_binary(name, *FEW, element="i1") for name in ("equal", "greater", "greater_equal")),
    _binary("add", Arg("4xf16"), Arg("4xf16")), _binary("greater", *PAIR, element="i1"),
    _binary("pow", POSITIVE, F), _binary("intdiv", INTS, Arg("2x3xi32", 1, 40)),
    _shifted("down", BITS, PLACES, "false"), _shifted("rounded", Arg("40xi32"), Arg("40xi32", 0, 31), "true"),
    _shifted("rounded i16", Arg("40xi16"), Arg("40xi16", 0, 15), "true"),
    TosaSample("mul", "f32", (*PAIR, ZERO8), "2x3x4xf32"),
    TosaSample("mul", "i8", (Arg("2x3xi8"), Arg("2x3xi8"), ZERO8), "2x3xi32"),
    TosaSample("mul", "i16", (Arg("2x3xi16"), Arg("2x3xi16"), ZERO8), "2x3xi32"),
    TosaSample("mul", "shifted", (BITS, BITS, Const("1xi8", 31)), "2x3xi32"),
    TosaSample("negate", "f32", (F, ZERO_F, ZERO_F), "2x3xf32"),
    TosaSample("negate", "i8", (Arg("60xi8"), Const("1xi8", 5), Const("1xi8", -9)), "60xi8"),
    TosaSample("negate", "i32", (INTS, Const("1xi32", 0), Const("1xi32", 0)), "2x3xi32"),
    TosaSample("select", "f32", (Arg("2x3x4xi1"), *PAIR), "2x3x4xf32"),
    TosaSample("select", "i32", (TRUTHS[0], INTS, INTS), "2x3xi32"),
    _clamp("f32", F, "-0.5", "1.0"), _clamp("relu", F, "0.0", "3.40282347E+38"),
    _clamp("f16", Arg("2x3xf16"), "0.0", "1.0"), _clamp("i8", Arg("60xi8"), "-9", "100"),
    _cast(Arg("60xf32", -300, 300), "i8"), _cast(Const("6xf32", [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]), "i32", "ties"),
    _cast(INTS, "f32"), _cast(Arg("60xi8"), "i32"), _cast(Arg("60xi32", -128, 127), "i8"),
    _cast(Arg("60xi8", -1, 1), "i1"), _cast(TRUTHS[0], "i32"), _cast(F, "f16"),
    TosaSample("table", "i8", (Arg("90xi8"), Const("256xi8", np.arange(256) * 37 % 256 - 128)), "90xi8"),
    TosaSample("table", "i16", (Arg("90xi16"), Const("513xi16", np.arange(513) * 7919 % 30000 - 15000)), "90xi32"),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Requantization

MODES = ("SINGLE_ROUND", "DOUBLE_ROUND", "INEXACT_ROUND")


def rescale(
    note: str, x: Arg, result: str, multiplier: Sequence[int], shift: Sequence[int], zero_points: tuple[int, int],
    mode: str = "SINGLE_ROUND", *, scale32: bool = True, unsigned: tuple[bool, bool] = (False, False),
) -> TosaSample:  # fmt: skip
    """A sample of `tosa.rescale`; zero points are as the operation reads them."""
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
        for kind, z in zip((split(x.type)[1], split(result)[1]), zero_points, strict=True)
    ]
    constants = (
        Const(f"{len(multiplier)}x{'i32' if scale32 else 'i16'}", multiplier), Const(f"{len(shift)}xi8", shift),
    )  # fmt: skip
    return TosaSample("rescale", note, (x, *constants, *points), result, properties)


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

PADS = Shape([0, 1, 2, 0])

MOVEMENTS = [
    TosaSample("identity", "f32", (F,), "2x3xf32"),
    TosaSample("reshape", "f32", (F, Shape([3, 2])), "3x2xf32"),
    TosaSample("transpose", "f32", (Arg("2x3x4xf32"),), "4x2x3xf32", {"perms": _array(32, [2, 0, 1])}),
    TosaSample("concat", "f32", (F, Arg("2x2xf32")), "2x5xf32", _axis(1)),
    TosaSample("concat", "i8", (Arg("2x3xi8"), Arg("1x3xi8")), "3x3xi8", _axis(0)),
    TosaSample("pad", "f32", (F, PADS, Const("1xf32", 0.5)), "3x5xf32"),
    TosaSample("pad", "i8", (Arg("2x3xi8"), PADS, Const("1xi8", -7)), "3x5xi8"),
    TosaSample("reverse", "f32", (Arg("2x3x4xf32"),), "2x3x4xf32", _axis(1)),
    TosaSample("slice", "f32", (Arg("4x5xf32"), Shape([1, 0]), Shape([2, 4])), "2x4xf32"),
    TosaSample("tile", "f32", (F, Shape([2, 3])), "4x9xf32"),
    TosaSample("tile", "i8", (Arg("1x3xi8"), Shape([2, 1])), "2x3xi8"),
    TosaSample("gather", "f32", (Arg("2x4x3xf32"), Const("2x4xi32", [[0, 3, 3, 1], [2, 2, 0, 3]])), "2x4x3xf32"),
    TosaSample("gather", "computed", (Arg("2x4x3xf32"), Arg("2x5xi32", 0, 3)), "2x5x3xf32"),
    TosaSample("scatter", "f32", (Arg("2x4x3xf32"), Const("2x2xi32", [[3, 0], [1, 2]]), Arg("2x2x3xf32")),
               "2x4x3xf32"),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Reductions, pools and resizes


def _reduce(name: str, operand: Arg, axis: int) -> TosaSample:
    shape, element = split(operand.type)
    kept = [1 if i == axis else size for i, size in enumerate(shape)]
    return TosaSample(name, element, (operand,), "x".join([*map(str, kept), element]), _axis(axis))


def _pool(pad: Sequence[int], accumulator: str = "") -> dict[str, str]:
    made = {"kernel": _array(64, (3, 2)), "stride": _array(64, (2, 2)), "pad": _array(64, pad)}
    return made | ({"acc_type": accumulator} if accumulator else {})


def _resize(
    note: str, x: Arg, result: str, scale: Sequence[int], offset: Sequence[int], border: Sequence[int], mode: str
) -> TosaSample:
    operands = (x, Shape(scale), Shape(offset), Shape(border))
    return TosaSample("resize", note, operands, result, {"mode": f"#tosa.resize_mode<{mode}>"})


IMAGE = Arg("2x5x6x3xf32")
BYTES = Arg("2x5x6x3xi8")
SMALL = Arg("1x3x4x2xf32")
POINTS = (Const("1xi8", 5), Const("1xi8", -3))
EDGE, NONE = (1, 1, 0, 0), (0, 0, 0, 0)

REDUCTIONS = [
    _reduce("reduce_all", Arg("4x5xi1"), 1), _reduce("reduce_any", Arg("4x2xi1"), 1),
    _reduce("reduce_max", Arg("3x4xf32"), 0), _reduce("reduce_max", Arg("3x4xi32"), 1),
    _reduce("reduce_min", Arg("3x4xf32"), 1), _reduce("reduce_product", Arg("3x4xf32"), 1),
    _reduce("reduce_sum", Arg("3x4x2xf32"), 1), _reduce("reduce_sum", Arg("3x4xi32", -1000, 1000), 0),
    TosaSample("argmax", "f32", (Arg("3x4xf32"),), "3xi32", _axis(1)),
    TosaSample("argmax", "i8", (Arg("40x4xi8", 0, 3),), "40xi32", _axis(1)),
    TosaSample("max_pool2d", "f32", (IMAGE,), "2x3x3x3xf32", _pool(EDGE)),
    TosaSample("max_pool2d", "i8", (BYTES,), "2x3x3x3xi8", _pool(EDGE)),
    TosaSample("avg_pool2d", "f32", (IMAGE, ZERO_F, ZERO_F), "2x3x3x3xf32", _pool(EDGE, "f32")),
    TosaSample("avg_pool2d", "i8", (BYTES, *POINTS), "2x2x3x3xi8", _pool(NONE, "i32")),
    TosaSample("avg_pool2d", "i8 padded", (BYTES, *POINTS), "2x3x3x3xi8", _pool(EDGE, "i32")),
    _resize("bilinear", SMALL, "1x6x8x2xf32", [4, 2, 4, 2], [-1, -1], [1, 1], "BILINEAR"),
    _resize("bilinear i8", Arg("1x3x4x2xi8"), "1x6x8x2xi32", [4, 2, 4, 2], [-1, -1], [1, 1], "BILINEAR"),
    _resize("align corners", SMALL, "1x5x10x2xf32", [2, 1, 3, 1], [0, 0], [0, 0], "BILINEAR"),
    _resize("nearest", SMALL, "1x6x8x2xf32", [4, 2, 4, 2], [-1, -1], [1, 1], "NEAREST_NEIGHBOR"),
    _resize("nearest i8", Arg("1x3x4x2xi8"), "1x6x8x2xi8", [2, 1, 2, 1], [0, 0], [1, 1], "NEAREST_NEIGHBOR"),
]  # fmt: skip

# ---------------------------------------------------------------------------------------------------------------
# Convolutions and matrix products


def _conv(
    accumulator: str, stride: Sequence[int] = (2, 1), pad: Sequence[int] = EDGE, dilation: Sequence[int] = (1, 1)
) -> dict[str, str]:
    shapes = {"stride": _array(64, stride), "pad": _array(64, pad), "dilation": _array(64, dilation)}
    return shapes | {"acc_type": accumulator}


def _transposed(note: str, operands: Sequence[Arg | Const], result: str, stride: Sequence[int], pad: Sequence[int],
                accumulator: str) -> TosaSample:  # fmt: skip
    properties = {"stride": _array(64, stride), "out_pad": _array(64, pad), "acc_type": accumulator}
    return TosaSample("transpose_conv2d", note, operands, result, properties)


RNG = np.random.default_rng(11)
W8 = Const("4x3x2x3xi8", RNG.integers(-128, 128, (4, 3, 2, 3)))
B32 = RNG.integers(-9000, 9000, 4)
DW8 = Const("3x2x3x2xi8", RNG.integers(-127, 128, (3, 2, 3, 2)))
DB32 = Const("6xi32", RNG.integers(-9000, 9000, 6))
P5, P0, M9 = Const("1xi8", 5), Const("1xi8", 0), Const("1xi8", -9)
WF, BF = Arg("4x3x2x3xf32"), Arg("4xf32")
ZEROS_F = (ZERO_F, ZERO_F)

CONTRACTIONS = [
    TosaSample("conv2d", "f32", (IMAGE, WF, BF, *ZEROS_F), "2x3x5x4xf32", _conv("f32")),
    TosaSample("conv2d", "dilated", (IMAGE, Arg("4x2x2x3xf32"), Const("1xf32", 0.5), *ZEROS_F), "2x4x4x4xf32",
               _conv("f32", (1, 1), (1, 0, 0, 0), (2, 2))),
    TosaSample("conv2d", "one pixel", (Arg("3x1x1x5xf32"), Arg("4x1x1x5xf32"), BF, *ZEROS_F), "3x1x1x4xf32",
               _conv("f32", (1, 1), NONE)),
    TosaSample("conv2d", "i8", (BYTES, W8, Const("4xi32", B32), P5, P0), "2x3x5x4xi32", _conv("i32")),
    TosaSample("conv2d", "weights with a zero point", (BYTES, W8, Const("1xi32", 7), P5, M9), "2x3x5x4xi32",
               _conv("i32")),
    TosaSample("conv2d", "computed weights", (BYTES, Arg("4x3x2x3xi8"), Arg("4xi32", -99, 99), P5, M9), "2x3x5x4xi32",
               _conv("i32")),
    TosaSample("conv2d", "i16", (Arg("2x5x6x3xi16"), W8, Const("4xi48", B32), Const("1xi16", 0), P0), "2x3x5x4xi48",
               _conv("i48")),
    TosaSample("depthwise_conv2d", "f32", (IMAGE, Arg("3x2x3x2xf32"), Arg("6xf32"), *ZEROS_F), "2x3x5x6xf32",
               _conv("f32")),
    TosaSample("depthwise_conv2d", "i8", (BYTES, DW8, DB32, P5, P0), "2x3x5x6xi32", _conv("i32")),
    _transposed("f32", (Arg("2x3x4x3xf32"), WF, BF, *ZEROS_F), "2x7x12x4xf32", (2, 3), (0, 0, 0, 1), "f32"),
    _transposed("cropped", (Arg("2x3x4x3xf32"), WF, BF, *ZEROS_F), "2x5x5x4xf32", (2, 1), (-1, -1, 0, 0), "f32"),
    _transposed("i8", (Arg("2x3x4x3xi8"), W8, Const("4xi32", B32), P5, P0), "2x7x11x4xi32", (2, 3), NONE, "i32"),
    TosaSample("matmul", "f32", (Arg("2x3x4xf32"), Arg("2x4x5xf32"), *ZEROS_F), "2x3x5xf32"),
    TosaSample("matmul", "i8", (Arg("2x3x4xi8"), Arg("2x4x5xi8"), P5, M9), "2x3x5xi32"),
    TosaSample("matmul", "i16", (Arg("2x3x4xi16"), Arg("2x4x5xi16"), Const("1xi16", 0), Const("1xi16", 0)),
               "2x3x5xi48"),
]  # fmt: skip

SAMPLES = [*ELEMENTWISE, *RESCALES, *MOVEMENTS, *REDUCTIONS, *CONTRACTIONS]
