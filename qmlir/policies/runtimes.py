"""How each runtime rounds: for every runtime that qmlir follows bit for bit, one table from operation to `Rounding`.

A module names its runtime in the attribute `qmlir.numerics`. Without the attribute, the target's own contract rounds
every operation. "Not followed" below marks a behaviour of a runtime that qmlir does not reproduce.

**onnxruntime**, measured against its CPU provider. What is not followed rounds as under `default`; the ledger says so.

    contraction       converts the accumulator to float32, multiplies it in float32 by x_scale · w_scale / y_scale,
                      rounds half to even, then adds the zero point
    product           as a contraction, but adds the zero point before rounding
    sum               two fused multiply-adds
    quantization      divides in float32
    softmax of bytes  correctly rounded
    average pool      not followed: adds dequantized numbers one by one in float32, divides by their count and by the
                      scale, adds the zero point, rounds half to even; at a tie its float32 rounding errors decide
    float operations  not followed: operations that onnxruntime has on floats only

Its operators on integers (QLinearConv and the like) saturate where u8 meets s8 on processors without VNNI, and models
were published with the results of that. `onnxruntime` saturates in the same way; `onnxruntime-vnni` computes the sums
exactly. A model that computes on floats between casts (QDQ) never saturates here.

**LiteRT**, measured against version 2.3.0 on x86-64, computes a model in three ways: with its reference kernels
(`litert-reference`: BUILTIN_REF), with XNNPACK, the default (`litert-xnnpack`), and with its optimized kernels
(`litert-builtin`: BUILTIN_WITHOUT_DEFAULT_DELEGATES).

    operation            runtime    how it rounds
    convolution, also    reference  twice: half up, then half away from zero
    transposed           builtin    twice half up; signed and transposed: the last channels, fewer than eight, as the
                                    reference
                         xnnpack    once, half to even, in float32
    depthwise            builtin    unsigned: as the reference; signed: the last channels, fewer than eight, as the
    convolution                     reference
    fully connected      reference  once, half away from zero, by a factor in float64 of which qmlir follows 31 bits:
                                    for scales in simple ratios, 1 result of 10,000 may differ
    quantization         reference  divides in float32, rounds half away from zero
                         others     multiply by the reciprocal in float32, round half to even; except:
                         builtin    the last elements, fewer than eight: divides in float64, rounds half away from zero
    average pool         all        half away from zero, on stored integers regardless of their zero point
    mean                 all        as `double`, by a multiplier divided by the count and truncated; except:
                         xnnpack    multiplies the sum of stored bytes and adds the zero points' share, in float32
      of images          builtin    multiplies the sum of stored bytes, twice half up, adds a rounded zero point;
                                    channels beyond groups of 16 round as `double`, which is not followed
    sum along axes       reference  as `double`; signed: adds stored integers and wraps around, not followed
                         others     once; unsigned bytes: multiplied by the ratio of scales in float32, half away from
                                    zero. Not followed: results beside a tie may differ, as the ledger says.
    L2 normalization     all        as `double`; unsigned integers are first shifted left by 7 bits
    log-softmax          reference  in fixed point, half away from zero
                         others     in float32; exact results differ from that in 1 of 10,000
    sum of two tensors   all        shifts each operand left by 20 bits (16-bit operands: by 15), brings it to a common
                                    scale and rounds it, adds both and rounds again; except:
                         xnnpack    multipliers of 21 bits, rounds once, if each operand's factor is in [2^−10, 2^8)
    concatenation        all        unsigned bytes of another scale: multiplied in float32, rounded half away from
                                    zero after the zero point's share is added; 16-bit operands are not rescaled
    LSTM of bytes        all        sums of products as `double`, products once, half away from zero, those of the
                                    output as `double`; sigmoid and tanh in gemmlowp's fixed point of 16 bits
    LSTM of words        none       as LiteRT for Microcontrollers: sums of products by the upper half of their
                                    multiplier, products as `double`, functions as other layers of 16 bits

What XNNPACK declines, LiteRT computes with its optimized kernels: 16-bit data, matrix products and fully connected
layers whose weights have a zero point, and operators of which the graph computes a weight, bias, shape or axis. Its
optimized kernels leave grouped convolutions to the reference kernels. The last shift of a quotient of two tensors may
be 32 bits or more, which C++ leaves undefined: quotients of less than half a step, and 0, come out as on processors
that shift modulo 32, such as x86-64.

**16-bit data in LiteRT.** Products are added in 64 bits beside an int64 bias or without a bias; the optimized fully
connected layer needs the bias for that. Convolutions and matrix products then round by the upper half of their
multiplier, fully connected layers by all of it, half away from zero. With an int32 bias:

    declared as int32 in `quantized_bias_type`  convolutions, fully connected layers: 32-bit sums, rounded as for 8 bits
    not declared                                not followed: convolutions and the reference's fully connected layers
                                                read the bias as int64, past its end; the results are meaningless
    transposed convolution                      not followed: the last channels, fewer than eight, round as in the
                                                reference in all three ways

Exponential, logarithm, gelu and 1 / √x interpolate between 513 breakpoints, sigmoid and tanh between 256 values of the
sigmoid. Differences of breakpoints are taken modulo 2^16: a segment over 2^15 steps or more slopes the other way. The
breakpoints of gelu come from the C library's float32 erfc and tanh, which are correctly rounded here and in glibc from
version 2.41 on; elsewhere about one breakpoint of 10,000 is one step off. A scale within 0.07 % of 2^−12 (for tanh also
2^−11) counts as that power; for such data the optimized kernels have another algorithm, up to 12 steps off, which is
not followed.

**Clamps and scales in LiteRT.** The bounds of a clamp are divided by the scale in float32 and rounded half away from
zero. XNNPACK fuses clamps of bytes into the operation before, adds the zero point, then rounds half to even; qmlir does
so for clamps that the file fuses, except into pools. Where a file gives operands and results that need one scale
several scales, LiteRT still moves, chooses or interpolates stored integers; in qmlir, maxima, minima and resizes take
the real numbers, and PAD writes the zero point of its operand, not of its result. The reference's softmax of unsigned
bytes has steps of 1/256 whatever the file says. Not followed: the optimized kernels' sums of broadcast bytes, and their
changes of scale between bytes in the last elements, fewer than sixteen.

**Floats in LiteRT.** Operators on floats between DEQUANTIZE and QUANTIZE are computed on floats, never in integers.
Where a result lies halfway between two steps, the last bit of a float decides. So these have LiteRT's floats:

    operation            runtime    how it computes
    dequantization       builtin    bytes: rounds s · q and s · z to float32, then their difference; the last elements,
                                    fewer than eight, as the others
                         others     s · (q − z), rounded once
    sum, mean, product   xnnpack    sums and means: adds along the last of the axes and those right before it in
    along axes                      float32, multiplies by 1 / n, adds these numbers along the axes before
                         others     one after another in float32; a mean is divided
    running sum          all        one after another in float32
    average pool         xnnpack    adds in float32 column by column, nine at a time, multiplies by 1 / n
                         others     adds in float32 row by row, divides; also in place of XNNPACK if a stride is
                                    larger than the window

XNNPACK leaves casts of 16 bits to the optimized kernels. Not followed: XNNPACK's sums and means along the last axis,
which it adds in an order that depends on the processor's vectors, and the optimized kernels' means along the last axes
only. Of 3,200 drawn results none differed; where the scales of data and result have a simple ratio, 1 of 100 sums was a
step off, and 1 of 10 means of five elements. A cast that qmlir moves past a transpose, a slice, a concatenation or a
maximum has other last elements than the file's. The last bits of other operators on floats, such as softmax and
convolutions, are not followed.

**Comparisons in LiteRT.** Bytes are compared in rounded steps of 1/256, so that closer numbers may be equal; so is the
equality of 16-bit integers. Which 16-bit integer is less is decided by the stored integers. A scale of 1 or more makes
LiteRT shift by too much, which C++ leaves undefined: then only signs compare, as on processors that shift modulo 32.

**Missing kernels.** LiteRT has these kernels for some storage types only, for 16 bits only without zero points, and for
the results of sigmoid, tanh, softmax and normalizations at one scale only. Otherwise it refuses the operation or
computes it on floats; here the operation rounds as under `default`, and the ledger says so (runtime_kernels.py). An
operation that LiteRT computes on floats between a DEQUANTIZE and a QUANTIZE of the file is followed as such: by a
lookup table of exactly that computation, or on floats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from qmlir.dialects.nn.functions import FUNCTIONS
from qmlir.errors import OptionError, PipelineError, near_misses
from qmlir.ir.facts import NUMERICS
from qmlir.numerics.factors import Factors

Runtime = Literal["default", "onnxruntime", "onnxruntime-vnni", "litert-reference", "litert-xnnpack", "litert-builtin"]


@dataclass(frozen=True)
class Rounding:
    """How the result of an operation is rounded.

    contract  a name in contracts.CONTRACTS; for `quant.qcast` in fixed_point.QUANTIZATIONS, for `quant.dcast` in
              fixed_point.DEQUANTIZATIONS; for an operation on floats, whose key ends in `/f32`, in additions.ADDITIONS
    float32   whether factors between scales and divisions are computed in float32
    product32 whether a product of scales is rounded to float32: that of data and of per-tensor weights, or of both
              sides of a matrix product
    pairs     whether products of u8 by s8 are added in pairs that saturate at 16 bits, where the source model's
              operator is an operator on integers
    operands  the contract that brings a sum's operands to one scale before adding; None: their sum is rounded once
    bits      bits of the larger multiplier of a sum that is rounded once
    apart     whether a sum's operands are each rounded to the result's scale, in the result's type, before adding
    function  how functions are computed: tables of elementwise functions (see lowering/nn_to_qint/functions.py), the
              fixed_point of softmax, and the methods of lowering/nn_to_qint/movement.py
    wide      the rounding of 64-bit sums, taken unless the bias has 32 bits; None: sums have 32 bits where that fits
    unbiased  whether `wide` also holds without a bias
    narrow    whether a 32-bit bias means 32-bit sums; if not, sums have 64 bits whatever the bias
    truncates whether a mean divides the integer multiplier by its count and truncates, instead of the real factor
    stored    whether a mean multiplies the sum of the stored integers and subtracts the zero point's share afterwards:
              before rounding if the contract rounds sums, else the share is rounded by itself
    rest      the rounding of a layer's last channels, or of a cast's last elements, fewer than eight; None: that of
              the others
    rest_below  for layers: 16 if `rest` is for the last elements of all, fewer than 16, and not for channels
    factors   the factors that the target applies; None: any
    otherwise the rounding by another kernel: of matrix products whose right side has a zero point, of sums and changes
              of scale with a factor outside [2^−10, 2^8) or not of 8 bits before and behind the binary point
    """

    contract: str
    float32: bool = False
    product32: bool = False
    pairs: bool = False
    operands: str | None = None
    bits: int = 30
    apart: bool = False
    function: str = "exact"
    wide: "Rounding | None" = None
    unbiased: bool = True
    narrow: bool = True
    truncates: bool = False
    stored: bool = False
    factors: Factors | None = None
    otherwise: "Rounding | None" = None
    rest: "Rounding | None" = None
    rest_below: int | None = None

    @property
    def dtype(self) -> type[np.float32 | np.float64]:
        """The type in which factors between scales are computed."""
        return np.float32 if self.float32 else np.float64


FLOAT = Rounding("float_even", float32=True)
PAIRS = Rounding("float_even", float32=True, pairs=True)

ONNXRUNTIME: Mapping[str, Rounding] = {
    "nn.conv2d": PAIRS,
    "nn.depthwise_conv2d": FLOAT,
    "nn.fully_connected": PAIRS,
    "nn.matmul": FLOAT,
    **dict.fromkeys(("nn.global_average_pool", "nn.reduce_mean"), FLOAT),
    "nn.add": FLOAT,
    "nn.mul": Rounding("float_sum", float32=True),
    "quant.qcast": Rounding("float32"),
    **dict.fromkeys((function.name for function in FUNCTIONS), replace(FLOAT, function="float32")),
}

SINGLE, DOUBLE, UPUP = Rounding("single"), Rounding("double"), Rounding("upup")
DOUBLE_FLOAT = Rounding("double", float32=True)
THRICE, MEAN = Rounding("double", operands="double"), Rounding("double", truncates=True)
SHORT = Rounding("single", float32=True, bits=21)

TWICE = Rounding("double", float32=True, product32=True)

SVDF = {
    "nn.fully_connected/SVDF": TWICE,
    "nn.depthwise_conv2d/SVDF": replace(TWICE, wide=replace(TWICE, contract="double64"), narrow=False),
}
"""The two contractions of LiteRT's SVDF on bytes; sums of products of 16 by 16 bits are undefined beyond 32 bits."""

WORDS = Rounding("reduced16")

LSTM = {
    "nn.fully_connected/LSTM": TWICE,
    "nn.requantize/LSTM": DOUBLE_FLOAT,
    "nn.requantize/LSTM norm": Rounding("away"),
    **dict.fromkeys(("nn.add/LSTM", "nn.sub/LSTM"), SINGLE),
    "nn.mul/LSTM": Rounding("away"),
    "nn.mul/LSTM hidden": DOUBLE_FLOAT,
    **dict.fromkeys(("nn.sigmoid/LSTM", "nn.tanh/LSTM"), Rounding("double", function="gemmlowp")),
    "nn.fully_connected/LSTM of words": replace(WORDS, wide=WORDS, narrow=False),
    "nn.add/LSTM of words": SINGLE,
    "nn.mul/LSTM of words": DOUBLE,
    **dict.fromkeys(("nn.sigmoid/LSTM of words", "nn.tanh/LSTM of words"), Rounding("double", function="fixed_point")),
}
"""The operations of LiteRT's LSTM on bytes, and of LiteRT for Microcontrollers' on words; sums of tensors are exact.

The kernels are described in frontends/tflite/integer_lstm.py.
"""

BYTES, SIGNED, STORAGES = ("i8", "u8"), ("i8", "i16"), ("i8", "u8", "i16")
"""Storage types that LiteRT has kernels for; one kernel takes tensors of one storage type."""


def _on(storages: Sequence[str], rounding: Rounding, *operations: str) -> dict[str, Rounding]:
    """Returns table entries `nn.operation/storage` for operations that have kernels for some storage types only."""
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
    **SVDF,
    **LSTM,
}
"""Roundings of elementwise and row-wise functions that LiteRT's three ways share, unless XNNPACK has its own."""


def _of_16_bits(convolution: str, fully_connected: Rounding) -> dict[str, Rounding]:
    """Returns the roundings of LiteRT's 16-bit contractions; the arguments are the roundings for 32-bit sums."""
    reduced = Rounding("reduced16")
    return {
        "nn.conv2d/i16": Rounding(convolution, wide=reduced),
        "nn.depthwise_conv2d/i16": Rounding(convolution, wide=reduced, narrow=False),
        "nn.fully_connected/i16": replace(fully_connected, wide=Rounding("away64")),
        "nn.matmul/i16": replace(reduced, wide=replace(reduced, product32=True)),
    }


FLOAT_SUMS = {
    f"nn.{operation}/f32": Rounding("float32")
    for operation in ("reduce_sum", "reduce_mean", "reduce_prod", "cumulative_sum")
}
"""How LiteRT's own kernels add and multiply floats; its average pools add as nn's do."""

XNNPACK_SUMS = {
    **FLOAT_SUMS,
    **_on(
        ["f32"], Rounding("float32_reciprocal"), "reduce_sum", "reduce_mean", "global_average_pool", "average_pool2d"
    ),
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
    **dict.fromkeys(("nn.conv2d/u8", "nn.conv2d/TRANSPOSE_CONV u8"), replace(DOUBLE, product32=True)),
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
    **FLOAT_SUMS,
}

LITERT_XNNPACK: Mapping[str, Rounding] = {
    **LITERT_FUNCTIONS,
    "nn.resize": Rounding("single", function="fixed_weights"),
    "nn.leaky_relu": replace(DOUBLE_FLOAT, function="fixed_point_short"),
    **_on(BYTES, SHIFTED, "sigmoid", "tanh"),
    **_on(["i8"], SHIFTED, "elu"),
    "nn.conv2d": FLOAT,
    "nn.depthwise_conv2d": FLOAT,
    "nn.fully_connected": FLOAT,
    "nn.matmul/i8": replace(FLOAT, otherwise=DOUBLE),
    "nn.add": replace(SHORT, otherwise=Rounding("double", operands="single")),
    "nn.add/u8": replace(SHORT, otherwise=Rounding("double", operands="updown")),
    "nn.sub": replace(SHORT, otherwise=THRICE),
    "nn.mul": FLOAT,
    "nn.global_average_pool": replace(FLOAT, contract="float_sum", stored=True),
    "nn.reduce_mean": replace(FLOAT, contract="float_sum", stored=True),
    **_on(["i8"], SINGLE, "reduce_sum"),
    "nn.requantize": Rounding("single", function="fixed_point_short", otherwise=UPUP),
    "nn.requantize/mixed": UPUP,
    "quant.qcast": Rounding("float32_reciprocal"),
    **XNNPACK_SUMS,
}

LITERT_BUILTIN: Mapping[str, Rounding] = {
    **LITERT_FUNCTIONS,
    "nn.softmax/i16": replace(DOUBLE, function="fixed_point"),
    "nn.resize": Rounding("double", function="fixed_places"),
    "nn.resize/u8": Rounding("single", function="float32_product"),
    "nn.leaky_relu/i16": replace(DOUBLE_FLOAT, function="fixed_point_turned"),
    **_of_16_bits("upup", replace(UPUP, product32=True, unbiased=False)),
    "nn.conv2d": UPUP,
    "nn.conv2d/u8": replace(UPUP, product32=True),
    "nn.depthwise_conv2d": replace(UPUP, rest=DOUBLE),
    "nn.conv2d/TRANSPOSE_CONV": replace(UPUP, rest=DOUBLE),
    "nn.conv2d/TRANSPOSE_CONV u8": replace(UPUP, product32=True, rest=replace(DOUBLE, product32=True), rest_below=16),
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
    "quant.qcast": Rounding("float32_reciprocal", rest=Rounding("exact_away")),
    "quant.dcast/8 bits": Rounding("float32_apart", rest=Rounding("exact")),
    **FLOAT_SUMS,
}

RUNTIMES: Mapping[str, Mapping[str, Rounding]] = {
    "default": {},
    "onnxruntime": ONNXRUNTIME,
    "onnxruntime-vnni": {operation: replace(rounding, pairs=False) for operation, rounding in ONNXRUNTIME.items()},
    "litert-reference": LITERT_REFERENCE,
    "litert-xnnpack": LITERT_XNNPACK,
    "litert-builtin": LITERT_BUILTIN,
}
"""Runtime → operation → rounding; an operation that is not listed rounds as the target does.

A key `operation/storage`, such as `nn.depthwise_conv2d/u8`, is for operations whose data the source model stores in
that type, and has precedence over the key `operation`. A key `operation/operator` is for an operation that the source
model computes with an operator on integers, whatever real numbers the integers represent. A key `operation/SVDF` or
`operation/LSTM` is for an operation that is a part of such an operator, `operation/TRANSPOSE_CONV` for a
transposed convolution of signed bytes, and `operation/TRANSPOSE_CONV u8` for one of unsigned bytes.
"""

Results = Mapping[str, tuple[float, int]]
"""Scale and zero point of a result, by storage type."""

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
"""Scale and zero point that LiteRT's kernels give an operation's result, by operation."""

EXACT = frozenset(f"nn.{operation}/{storage}" for operation in ("softmax", "log_softmax") for storage in BYTES)
"""Operations not in LiteRT's tables that LiteRT rounds correctly, or nearly always correctly, as the target does."""

_FLOAT_SUMS = {"nn.reduce_sum/u8": "LiteRT scales sums of unsigned bytes in float32"}

NOT_FOLLOWED: Mapping[str, Mapping[str, str]] = {"litert-xnnpack": _FLOAT_SUMS, "litert-builtin": _FLOAT_SUMS}
"""Runtime → `operation/storage` whose rounding is known but not followed → the difference, in words."""

LIBRARY_FUNCTIONS: Mapping[str, str] = {"nn.gelu/i16": "LiteRT's C library decides one step now and then"}
"""`operation/storage` whose results in LiteRT depend on the C library → the difference, in words.

No results of bytes were seen to depend on it.
"""

ONNXRUNTIME_EXACT = frozenset(f"nn.softmax/{storage}" for storage in BYTES)
"""Operations not in onnxruntime's table that onnxruntime rounds correctly."""


def rounding_of(operation: str, runtime: str, contract: str, storage: str = "i8") -> Rounding:
    """Returns how a runtime rounds an operation.

    Args:
        operation: The operation's name.
        runtime: A key of `RUNTIMES`.
        contract: The target's contract, which holds for operations that the runtime's table does not list.
        storage: How the source model stores the operation's data: `i8`, `u8`, `i16`, …; `mixed` for a change of scale
            between signed and unsigned bytes.
    """
    table = RUNTIMES[runtime]
    return table.get(f"{operation}/{storage}", table.get(operation, Rounding(contract)))


def follows_litert(runtime: str) -> bool:
    """Whether a runtime is one of LiteRT's three ways to compute."""
    return runtime.startswith("litert-")


def runtime_of(module: ModuleOp) -> str:
    """Returns the runtime whose rounding a module follows; `default` without the attribute `qmlir.numerics`.

    Raises:
        PipelineError: The attribute does not name a known runtime.
    """
    name = "default" if (given := NUMERICS.of(module)) is None else given
    if name not in RUNTIMES:
        raise PipelineError(
            "the module", f"must have one of {', '.join(RUNTIMES)} as {NUMERICS}", got=name,
            remedy="remove the attribute for the target's own rounding",
        )  # fmt: skip
    return name


def follow(module: ModuleOp, runtime: str) -> None:
    """Makes a module follow a runtime's rounding by setting its attribute `qmlir.numerics`.

    Raises:
        OptionError: There is no such runtime; the error proposes similar names.
    """
    known = get_args(Runtime)
    if runtime not in known:
        raise OptionError(
            "numerics", f"must be one of {', '.join(known)}", got=runtime, remedy=near_misses(runtime, list(known))
        )
    NUMERICS.set(module, None if runtime == "default" else runtime)
