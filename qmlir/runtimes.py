"""Whose rounding a network follows: for each runtime whose bits can be had, one table from operation to rounding.

A module says so in its attribute `qmlir.numerics`; without one the target's own contract holds everywhere. What is
listed for onnxruntime was measured against its CPU provider: a contraction's accumulator is converted to float32,
multiplied by x_scale · w_scale / y_scale in float32, rounded half to even, and then the zero point is added; a product
adds it before; a sum is made of two fused multiply-adds; quantization divides in float32. A softmax of bytes is rounded
correctly. An average pool sums dequantized numbers one by one in float32, divides them by their count and by the scale,
adds the zero point and rounds half to even, so that at a tie its rounding errors decide: that is not followed, nor are
operations that onnxruntime has on floats only. They round as under `default`, which the ledger says.

Its operators on integers, QLinearConv and the like, saturate where u8 meets s8 on processors without VNNI, and models
were published with what they then give: `onnxruntime` does so too, `onnxruntime-vnni` computes the sums exactly. A
model in floats between casts (QDQ) never saturates here.

LiteRT computes one model in three ways, and what is listed was measured against version 2.3.0 on x86-64: with its
reference kernels (`litert-reference`: BUILTIN_REF), with XNNPACK as it does by default (`litert-xnnpack`), and with its
optimized kernels (`litert-builtin`: BUILTIN_WITHOUT_DEFAULT_DELEGATES). Of a convolution, also a transposed one, the
reference rounds twice, half up and then half away from zero; the optimized kernels twice half up; XNNPACK once, half to
even, in float32. A fully connected layer the reference rounds once, halves away from zero, by a factor in float64 of
which 31 bits are followed: of scales in simple ratios 1 of 10,000 may differ. On unsigned integers the optimized
depthwise convolution rounds as the reference; on signed ones it does so of the last channels, fewer than eight, which
is not followed. A quantization divides in float32 and rounds halves away from zero in the reference; elsewhere it
multiplies by the reciprocal in float32 and rounds half to even. Average pools all round halves away from zero, of
stored integers without regard to their zero point. Means round as `double` by a multiplier that the count divides,
truncated; XNNPACK multiplies the sum of stored bytes and adds what the zero points make of it, in float32, and then
rounds; the optimized kernel for means of images multiplies the sum of stored bytes, twice half up, and adds a rounded
zero point (of channels beyond the last 16, as `double`: that is not followed). The last shift of a quotient of two
tensors may be 32 bits and more, which C++ leaves open: quotients of less than half a step, and 0, come out as
processors make them that shift modulo 32, such as those of x86-64. Sums round as `double` in the reference, once
elsewhere; of signed integers the reference adds what is stored and wraps around: neither is that. Sums of unsigned
bytes are multiplied by the ratio of scales in float32 elsewhere and rounded half away from zero, which is not followed,
as the ledger says: beside a tie they may go the other way. Quotients by the root of a sum of squares round as `double`,
of unsigned integers after they were moved left by 7 bits. Logarithms of a softmax the reference takes in fixed point
and rounds half away from zero; elsewhere they are float32 ones, which the exact ones are but for 1 in 10,000. A sum's
operands are each moved left by 20 bits, 15 where they have 16, brought to one scale and rounded, then added and rounded
again; XNNPACK has multipliers of 21 bits and rounds once. What a concatenation brings to its result's scale it
multiplies in float32 if it is of unsigned bytes, rounded half away from zero after the zero point's part is added, and
does not change at all if it is of 16 bits. Of 16 bits it takes no sums and products, and no matrix products whose right
side has a zero point.

Of 16-bit data LiteRT sums products in 64 bits in all three ways: beside an int64 bias or none, but for the optimized
fully connected layer, which needs the bias for that. Convolutions and matrix products then round by the upper half of
their multiplier, fully connected layers by all of it, halves away from zero. Beside an int32 bias,
if the file says in `quantized_bias_type` that it is one, convolutions and fully connected layers sum in 32 bits and
round as those of 8 bits do. If the file does not say so, convolutions and the reference's fully connected layers read
the int32 bias as int64, past its end: what they yield then is no number of the model, and is not followed. A transposed
convolution beside one rounds the last channels, fewer than eight, as the reference in all three ways: not followed.

The bounds of a clamp LiteRT divides by the scale in float32 and rounds half away from zero. XNNPACK, which fuses clamps
of bytes into the operation before, adds the zero point and then rounds half to even; here that holds of those that the
file fuses, but not of pools.

Not followed either are, of the optimized kernels, sums of bytes that are broadcast, and changes of scale between bytes
of the last elements, fewer than sixteen. Where operands and results must have one scale and a file gives them several,
LiteRT moves, chooses or interpolates stored integers all the same; of maxima, minima and resizes the numbers that they
stand for are taken here, and PAD writes the zero point of what it reads, not that of its result. A softmax of unsigned
bytes the reference yields in steps of 1/256 whatever the file says.

Bytes LiteRT compares in rounded steps of 1/256, so that numbers closer than that may be equal; so it sees whether
integers of 16 bits are equal, and which is less of these as they are stored. A scale of 1 and more makes it shift by
too much, which C++ leaves open: then signs alone compare, as on processors that shift modulo 32.

LiteRT has these kernels for some ways of storing data only, for 16 bits only without zero points, and for the results
of sigmoid, tanh, softmax and normalizations at one scale only. Where it has none it refuses the operation or computes
it on floats; here it then rounds as under `default`, which the ledger says (runtime_kernels.py). What LiteRT computes
on floats, between a DEQUANTIZE and a QUANTIZE of the file, is followed as such: by a table of just that, or on floats.

Of 16-bit data exponential, logarithm, gelu and 1 / √x are lines between 513 knots, sigmoid and tanh lines between 256
values of the sigmoid. Differences of knots are taken modulo 2^16, so that a line over 2^15 steps and more leads the
other way. The knots of gelu come from the C library's erfc and tanh of float32, which are correctly rounded here and in
glibc from version 2.41 on: where they are not, about one knot of 10,000 is one step off. A scale within 0.07 % of 2^−12
(tanh 2^−11 too) counts as that power; for such data the optimized kernels have an algorithm of their own, up to 12
steps off, which is not followed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from xdsl.dialects.builtin import ModuleOp, StringAttr

from qmlir.dialects.qmlir import NUMERICS
from qmlir.errors import OptionError, PipelineError
from qmlir.near_misses import near_misses

Runtime = Literal["default", "onnxruntime", "onnxruntime-vnni", "litert-reference", "litert-xnnpack", "litert-builtin"]


@dataclass(frozen=True)
class Rounding:
    """How the result of an operation is rounded.

    contract  a name in numerics.CONTRACTS; of `quant.qcast` one in numerics.QUANTIZATIONS
    float32   whether factors between scales and divisions are computed in float32
    product32 whether the product of the scales of data and of weights with one scale, or of both sides of a matrix
              product, is rounded to float32
    pairs     whether products of u8 by s8 are added in pairs that saturate at 16 bits, where the source model's
              operator is one on integers
    operands  the contract by which a sum's operands are brought to one scale before they are added; none where they
              are added first and rounded once
    bits      of the larger multiplier of a sum that is rounded once
    function  how functions are computed: tables of those of one element, see lowering/nn_to_qint/tables.py,
              softmax's fixed_point, and the ways of lowering/nn_to_qint/resize.py
    wide      the rounding of sums of products that are taken in 64 bits, unless their bias has 32; None where sums have
              32 bits if these are enough
    unbiased  whether that holds without a bias too
    narrow    whether a bias of 32 bits means sums of 32; else they are taken in 64 bits whatever the bias
    truncates whether a mean divides the multiplier by its count, truncated, not the real factor
    stored    whether a mean multiplies the sum of what is stored, and takes what the zero point makes of it off then:
              before it is rounded under a contract that rounds sums, else rounded by itself
    otherwise of what the runtime has another kernel for: matrix products whose right side has a zero point, and changes
              of scale by a factor that 8 bits before and behind the point do not hold
    """

    contract: str
    float32: bool = False
    product32: bool = False
    pairs: bool = False
    operands: str | None = None
    bits: int = 30
    function: str = "exact"
    wide: "Rounding | None" = None
    unbiased: bool = True
    narrow: bool = True
    truncates: bool = False
    stored: bool = False
    otherwise: "Rounding | None" = None


FLOAT = Rounding("float_even", float32=True)
PAIRS = Rounding("float_even", float32=True, pairs=True)

_FUNCTIONS = (
    "relu", "clamp", "requantize", "abs", "neg", "sign", "floor", "ceil", "round", "sqrt", "reciprocal", "rsqrt", "exp",
    "log", "erf", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sin", "cos", "tan", "sigmoid",
    "tanh", "gelu", "hard_sigmoid", "hard_swish", "leaky_relu", "elu", "selu", "celu", "softplus", "softsign", "mish",
    "swish", "thresholded_relu", "shrink",
)  # fmt: skip
"""Functions of one element: tables of what they are in float32."""

ONNXRUNTIME: Mapping[str, Rounding] = {
    "nn.conv2d": PAIRS,
    "nn.depthwise_conv2d": FLOAT,
    "nn.fully_connected": PAIRS,
    "nn.matmul": FLOAT,
    **dict.fromkeys(("nn.global_average_pool", "nn.reduce_mean"), FLOAT),
    "nn.add": FLOAT,
    "nn.mul": Rounding("float_sum", float32=True),
    "quant.qcast": Rounding("float32"),
    **dict.fromkeys((f"nn.{function}" for function in _FUNCTIONS), replace(FLOAT, function="float32")),
}

SINGLE, DOUBLE, UPUP = Rounding("single"), Rounding("double"), Rounding("upup")
DOUBLE_FLOAT = Rounding("double", float32=True)
THRICE = Rounding("double", operands="double")
MEAN = Rounding("double", truncates=True)
SHORT = Rounding("single", float32=True, bits=21)

BYTES, SIGNED, STORAGES = ("i8", "u8"), ("i8", "i16"), ("i8", "u8", "i16")
"""Ways of storing data that LiteRT has kernels for; those of one operation are all stored alike."""


def _on(storages: Sequence[str], rounding: Rounding, *operations: str) -> dict[str, Rounding]:
    """The rounding of operations that have kernels for some ways of storing data only."""
    return {f"nn.{operation}/{storage}": rounding for operation in operations for storage in storages}


FIXED_POINT = replace(DOUBLE_FLOAT, function="fixed_point")
AWAY = replace(DOUBLE_FLOAT, function="float32_away")
SHIFTED = replace(DOUBLE_FLOAT, function="float32_shifted")
LINES = replace(DOUBLE_FLOAT, function="interpolated")

LITERT_FUNCTIONS: Mapping[str, Rounding] = {
    **dict.fromkeys(("nn.relu", "nn.clamp"), DOUBLE_FLOAT),
    **dict.fromkeys(("nn.leaky_relu", "nn.div"), FIXED_POINT),
    **_on(SIGNED, FIXED_POINT, "abs"),
    **_on(BYTES, FIXED_POINT, "prelu", "hard_swish"),
    **_on(["i16 by i8"], FIXED_POINT, "prelu"),
    **_on(["i8"], FIXED_POINT, "rsqrt", "squared_difference"),
    **_on(["operator"], FIXED_POINT, "neg"),
    **_on(["operator"], replace(DOUBLE_FLOAT, function="joined"), "requantize"),
    **_on(BYTES, AWAY, "sigmoid", "tanh", "gelu"),
    **_on(["i8"], AWAY, "exp", "log", "elu"),
    **_on(["i16"], FIXED_POINT, "sigmoid", "tanh"),
    **_on(["i16"], LINES, "exp", "log", "gelu", "rsqrt"),
    **_on(SIGNED, replace(DOUBLE_FLOAT, function="float32_truncated"), "sqrt"),
    **_on(BYTES, DOUBLE, "lp_normalization"),
}
"""Functions of one element, and of a row, in all three ways of LiteRT's, unless XNNPACK has its own."""


def _of_16_bits(convolution: str, fully_connected: Rounding) -> dict[str, Rounding]:
    """LiteRT's contractions of 16-bit data; the contracts given are for sums of 32 bits."""
    reduced = Rounding("reduced16")
    return {
        "nn.conv2d/i16": Rounding(convolution, wide=reduced),
        "nn.depthwise_conv2d/i16": Rounding(convolution, wide=reduced, narrow=False),
        "nn.fully_connected/i16": replace(fully_connected, wide=Rounding("away64")),
        "nn.matmul/i16": replace(reduced, wide=replace(reduced, product32=True)),
    }


LITERT_REFERENCE: Mapping[str, Rounding] = {
    **{operation: rounding for operation, rounding in LITERT_FUNCTIONS.items() if operation != "nn.elu/i8"},
    "nn.resize": Rounding("double", function="fixed_places"),
    "nn.resize/u8": Rounding("single", function="float32"),
    "nn.softmax": replace(DOUBLE, function="fixed_point"),
    **_on(BYTES, Rounding("away16", function="fixed_point"), "log_softmax"),
    **_of_16_bits("double", Rounding("away")),
    "nn.conv2d": DOUBLE,
    "nn.depthwise_conv2d": DOUBLE,
    "nn.conv2d/u8": replace(DOUBLE, product32=True),
    "nn.depthwise_conv2d/u8": replace(DOUBLE, product32=True),
    "nn.fully_connected": Rounding("away"),
    "nn.matmul/i8": DOUBLE,
    "nn.add": THRICE,
    "nn.sub": THRICE,
    "nn.mul": DOUBLE_FLOAT,
    "nn.global_average_pool": MEAN,
    "nn.reduce_mean": MEAN,
    "nn.reduce_sum": DOUBLE,
    "nn.requantize": DOUBLE,
    "quant.qcast": Rounding("float32_away"),
}

LITERT_XNNPACK: Mapping[str, Rounding] = {
    **LITERT_FUNCTIONS,
    "nn.softmax/i16": replace(DOUBLE, function="fixed_point"),
    "nn.resize": Rounding("single", function="fixed_weights"),
    "nn.resize/i16": Rounding("double", function="fixed_places"),
    "nn.leaky_relu": replace(DOUBLE_FLOAT, function="fixed_point_short"),
    "nn.leaky_relu/i16": replace(DOUBLE_FLOAT, function="fixed_point"),
    **_on(BYTES, SHIFTED, "sigmoid", "tanh"),
    **_on(["i8"], SHIFTED, "elu"),
    **_of_16_bits("upup", replace(UPUP, product32=True, unbiased=False)),
    "nn.conv2d": FLOAT,
    "nn.depthwise_conv2d": FLOAT,
    "nn.fully_connected": FLOAT,
    "nn.matmul/i8": replace(FLOAT, otherwise=DOUBLE),
    "nn.add": SHORT,
    "nn.add/i16": Rounding("double", operands="single"),
    "nn.sub": SHORT,
    "nn.sub/i16": THRICE,
    "nn.mul": FLOAT,
    "nn.mul/i16": DOUBLE_FLOAT,
    "nn.global_average_pool": replace(FLOAT, contract="float_sum", stored=True),
    "nn.global_average_pool/i16": MEAN,
    "nn.reduce_mean": replace(FLOAT, contract="float_sum", stored=True),
    "nn.reduce_mean/i16": MEAN,
    **_on(SIGNED, SINGLE, "reduce_sum"),
    "nn.requantize": Rounding("single", function="fixed_point_short", otherwise=UPUP),
    "nn.requantize/mixed": UPUP,
    "nn.requantize/i16": DOUBLE,
    "quant.qcast": Rounding("float32_reciprocal"),
}

LITERT_BUILTIN: Mapping[str, Rounding] = {
    **LITERT_FUNCTIONS,
    "nn.softmax/i16": replace(DOUBLE, function="fixed_point"),
    "nn.resize": Rounding("double", function="fixed_places"),
    "nn.resize/u8": Rounding("single", function="float32_product"),
    **_of_16_bits("upup", replace(UPUP, product32=True, unbiased=False)),
    "nn.conv2d": UPUP,
    "nn.conv2d/u8": replace(UPUP, product32=True),
    "nn.depthwise_conv2d": UPUP,
    "nn.depthwise_conv2d/u8": replace(DOUBLE, product32=True),
    "nn.fully_connected": replace(UPUP, product32=True),
    "nn.matmul/i8": DOUBLE,
    "nn.add": Rounding("double", operands="single"),
    "nn.add/u8": Rounding("double", operands="updown"),
    "nn.sub": THRICE,
    "nn.mul": DOUBLE_FLOAT,
    "nn.global_average_pool": Rounding("upup", float32=True, stored=True),
    "nn.global_average_pool/i16": MEAN,
    "nn.reduce_mean": MEAN,
    **_on(SIGNED, SINGLE, "reduce_sum"),
    "nn.requantize": UPUP,
    "nn.requantize/i16": DOUBLE,
    "quant.qcast": Rounding("float32_reciprocal"),
}

RUNTIMES: Mapping[str, Mapping[str, Rounding]] = {
    "default": {},
    "onnxruntime": ONNXRUNTIME,
    "onnxruntime-vnni": {operation: replace(rounding, pairs=False) for operation, rounding in ONNXRUNTIME.items()},
    "litert-reference": LITERT_REFERENCE,
    "litert-xnnpack": LITERT_XNNPACK,
    "litert-builtin": LITERT_BUILTIN,
}
"""Runtime → operation → rounding; what is not listed follows the target.

A key `operation/storage`, such as `nn.depthwise_conv2d/u8`, is for data that the source model stores so, and goes
before the operation's own. `operation/operator` is for an operation that an operator on integers computes in the source
model, whatever its data stand for.
"""

Results = Mapping[str, tuple[float, int]]
"""Scale and zero point of a result, by storage."""

PROBABILITY: Results = {"i8": (1 / 256, -128), "u8": (1 / 256, 0), "i16": (1 / 32768, 0)}
LOG_PROBABILITY: Results = {"i8": (16 / 256, 127), "u8": (16 / 256, 255)}
UNIT: Results = {"i8": (1 / 128, 0), "u8": (1 / 128, 128), "i16": (1 / 32768, 0)}

RESULTS: Mapping[str, Results] = {
    "nn.sigmoid": PROBABILITY,
    "nn.tanh": UNIT,
    "nn.softmax": PROBABILITY,
    "nn.log_softmax": LOG_PROBABILITY,
    "nn.lp_normalization": UNIT,
}
"""What LiteRT's kernels give results, by operation."""

EXACT = frozenset(f"nn.{operation}/{storage}" for operation in ("softmax", "log_softmax") for storage in BYTES)
"""What LiteRT rounds correctly where its table says nothing, or as good as correctly, as the target does too."""

_FLOAT_SUMS = {"nn.reduce_sum/u8": "LiteRT scales sums of unsigned bytes in float32"}

NOT_FOLLOWED: Mapping[str, Mapping[str, str]] = {"litert-xnnpack": _FLOAT_SUMS, "litert-builtin": _FLOAT_SUMS}
"""Runtime → `operation/storage` that it rounds in a way that is known and not followed → how, in words."""

LIBRARY_FUNCTIONS: Mapping[str, str] = {"nn.gelu/i16": "LiteRT's C library decides one step now and then"}
"""`operation/storage` of which LiteRT's results depend on the library beneath it → how, in words.

Of bytes no result was seen to do so.
"""

ONNXRUNTIME_EXACT = frozenset(f"nn.softmax/{storage}" for storage in BYTES)
"""What onnxruntime rounds correctly where its table says nothing."""


def rounding_of(operation: str, runtime: str, contract: str, storage: str = "i8") -> Rounding:
    """How a runtime rounds an operation.

    Args:
        operation: Its name.
        runtime: A key of `RUNTIMES`.
        contract: The target's, which holds for what the runtime's table does not list.
        storage: How the source model stores the operation's data: `i8`, `u8`, `i16`, …; `mixed` of a change of scale
            between signed and unsigned bytes.
    """
    table = RUNTIMES[runtime]
    return table.get(f"{operation}/{storage}", table.get(operation, Rounding(contract)))


def follows_litert(runtime: str) -> bool:
    """Whether a runtime is LiteRT in one of its ways."""
    return runtime.startswith("litert-")


def quantization_of(runtime: str) -> str:
    """How a runtime quantizes floats: a name in numerics.QUANTIZATIONS."""
    return rounding_of("quant.qcast", runtime, "exact").contract


def runtime_of(module: ModuleOp) -> str:
    """The runtime whose rounding a module follows.

    Raises:
        PipelineError: Its attribute names none that is known.
    """
    attribute = module.attributes.get(NUMERICS)
    name = attribute.data if isinstance(attribute, StringAttr) else "default" if attribute is None else str(attribute)
    if name not in RUNTIMES:
        raise PipelineError(
            "the module", f"must have one of {', '.join(RUNTIMES)} as {NUMERICS}", got=name,
            remedy="remove the attribute for the target's own rounding",
        )  # fmt: skip
    return name


def follow(module: ModuleOp, runtime: str) -> None:
    """Makes a module follow a runtime's rounding.

    Raises:
        OptionError: There is no such runtime; names near misses.
    """
    known = get_args(Runtime)
    if runtime not in known:
        raise OptionError(
            "numerics", f"must be one of {', '.join(known)}", got=runtime, remedy=near_misses(runtime, list(known))
        )
    if runtime == "default":
        module.attributes.pop(NUMERICS, None)
    else:
        module.attributes[NUMERICS] = StringAttr(runtime)
