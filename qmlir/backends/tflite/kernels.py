"""The table of LiteRT's kernels: for each operator its element types and versions.

The table lists the types that LiteRT 2.3.0 was seen to run with its reference kernels, as far as the kernels compute
what `nn` defines. ELU, CEIL and ROUND have default kernels only. The versions are the numbers that TFLite's own
converter writes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qmlir.ir.types import is_numpys_own
from qmlir.policies import runtimes

PROBABILITY, LOG_PROBABILITY, UNIT = (
    {f"{'u' if storage[0] == 'u' else ''}int{storage[1:]}": result for storage, result in each.items()}
    for each in (runtimes.PROBABILITY, runtimes.LOG_PROBABILITY, runtimes.UNIT)
)


@dataclass(frozen=True)
class Kernel:
    """A kernel of LiteRT. The lists of types are names of numpy types separated by spaces.

    plain      the types of plain numbers that the kernel takes as data
    quantized  the types of quantized data that the kernel takes
    result     the scale and the zero point that a quantized result must have, by type
    versions   the operator's version by the type of its data, if it is not 1
    wide       the least version for data of more than four dimensions
    data       the index of the input whose type selects the kernel
    keeps      whether a quantized result has the parameters of the first input
    most       the most dimensions of the data
    """

    plain: str = "float32"
    quantized: str = ""
    result: Mapping[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    wide: int = 1
    data: int = 0
    keeps: bool = False
    most: int = 8

    def version(self, dtype: str, rank: int) -> int:
        """Returns the operator's version for data of a type and a rank."""
        return max(self.versions.get(dtype, 1), self.wide if rank > 4 else 1)


BYTES = "int8 uint8"
ALL = "int8 uint8 int16"
NUMBERS = "float32 int32 int64"
MOVED = "float32 float16 int8 uint8 int16 int32 int64 bool"
"""The types that most data-movement operators take."""
ANYTHING = "float32 float16 float64 int8 uint8 int16 int32 int64 uint16 uint32 uint64 bool"
SECOND_THIRD = {"int8": 2, "int16": 3}
SECOND = {"int8": 2}

KERNELS: Mapping[str, Kernel] = {
    # Contractions
    "CONV_2D": Kernel(quantized=ALL, versions={"int8": 3, "int16": 4}),
    "DEPTHWISE_CONV_2D": Kernel(quantized=ALL, versions={"int8": 3, "int16": 5}),
    "FULLY_CONNECTED": Kernel(quantized=ALL, versions={"int8": 4, "int16": 7}),
    "BATCH_MATMUL": Kernel(quantized="int8 int16", versions=SECOND_THIRD, most=5),
    # Two operands
    "ADD": Kernel(NUMBERS, ALL, versions={"int8": 2, "int16": 3, "int64": 4}),
    "SUB": Kernel(NUMBERS, ALL, versions={"int8": 2, "int16": 5, "int64": 4}, wide=3),
    "MUL": Kernel(NUMBERS, ALL, versions={"int8": 2, "int16": 4, "int64": 5}),
    "DIV": Kernel("float32 int32", wide=2),  # on quantized data, 0 and large quotients are undefined
    "MAXIMUM": Kernel(f"{NUMBERS} {ALL}", ALL, versions={"int8": 2, "int16": 4}, wide=3,
                      keeps=True),
    "MINIMUM": Kernel(f"{NUMBERS} {ALL}", ALL, versions={"int8": 2, "int16": 4}, wide=3,
                      keeps=True),
    "POW": Kernel("float32 int32"),
    "FLOOR_MOD": Kernel(f"{NUMBERS} int8 int16", versions={"int8": 2, "int16": 2}),
    "PRELU": Kernel(quantized=BYTES),
    "SQUARED_DIFFERENCE": Kernel("float32 int32", "int8", versions=SECOND),
    "LOGICAL_AND": Kernel("bool"),
    "LOGICAL_OR": Kernel("bool"),
    "BITWISE_XOR": Kernel("int8 uint8 int16 int32 uint16 uint32"),
    # One operand
    "RELU": Kernel("float32", ALL, versions={"int8": 2, "uint8": 2, "int16": 3}),
    "RELU6": Kernel("float32", ALL, versions=SECOND_THIRD),
    "RELU_N1_TO_1": Kernel("float32", BYTES),
    "LOGISTIC": Kernel("float32", ALL, PROBABILITY, SECOND_THIRD),
    "TANH": Kernel("float32", ALL, UNIT, SECOND_THIRD),
    "HARD_SWISH": Kernel("float32", BYTES),
    "LEAKY_RELU": Kernel("float32", ALL, versions={"int16": 2}),
    "GELU": Kernel("float32", ALL, versions=dict.fromkeys(ALL.split(), 2)),
    "ELU": Kernel("float32", "int8"),
    "EXP": Kernel("float32", "int8 int16", versions={"int8": 2, "int16": 2}),
    "LOG": Kernel("float32", "int8 int16", versions={"int8": 2, "int16": 2}),
    "RSQRT": Kernel("float32", "int8 int16", versions=SECOND_THIRD),
    "SQRT": Kernel("float32", "int8 int16"),
    "SIN": Kernel(),
    "COS": Kernel(),
    "ABS": Kernel("float32 int32", "int8 int16", versions={"int8": 2, "int16": 3}),
    "NEG": Kernel("float32 int8 int16 int32 int64"),
    "FLOOR": Kernel(),
    "CEIL": Kernel(),
    "ROUND": Kernel(),
    "SIGN": Kernel("float32 float64 int32", versions={"int32": 2}),
    "LOGICAL_NOT": Kernel("bool"),
    # Along axes
    "SOFTMAX": Kernel("float32", ALL, PROBABILITY, SECOND_THIRD),
    "LOG_SOFTMAX": Kernel("float32", BYTES, LOG_PROBABILITY, SECOND),
    "L2_NORMALIZATION": Kernel("float32", BYTES, UNIT, SECOND),
    "LOCAL_RESPONSE_NORMALIZATION": Kernel(),
    "MEAN": Kernel("float32", ALL, versions=SECOND_THIRD),
    "SUM": Kernel(NUMBERS, versions=SECOND),
    "REDUCE_PROD": Kernel(NUMBERS),
    "REDUCE_MAX": Kernel(f"{NUMBERS} {ALL}", ALL, versions=SECOND_THIRD, keeps=True),
    "REDUCE_MIN": Kernel(f"{NUMBERS} {ALL}", ALL, versions=SECOND_THIRD, keeps=True),
    "REDUCE_ANY": Kernel("bool"),
    "REDUCE_ALL": Kernel("bool"),
    "ARG_MAX": Kernel("float32 int8 uint8 int32", versions=SECOND),
    "ARG_MIN": Kernel("float32 int8 uint8 int32", versions=SECOND),
    "CUMSUM": Kernel(NUMBERS),
    "TOPK_V2": Kernel(f"{NUMBERS} {ALL}", versions=SECOND_THIRD),
    # Windows
    "AVERAGE_POOL_2D": Kernel("float32", ALL, versions=SECOND_THIRD, keeps=True),
    "MAX_POOL_2D": Kernel(f"float32 {ALL}", ALL, versions=SECOND_THIRD, keeps=True),
    "RESIZE_BILINEAR": Kernel("float32", BYTES, versions={"int8": 2, "int16": 4}, keeps=True),
    "RESIZE_NEAREST_NEIGHBOR": Kernel("float32", BYTES,
                                      versions={"int8": 2, "int16": 4}, keeps=True),
    # Choices
    "EQUAL": Kernel(f"{NUMBERS} int16 bool", ALL, versions={"int8": 2, "int16": 5}),
    "NOT_EQUAL": Kernel(f"{NUMBERS} int16 bool", versions={"int16": 4}),
    "LESS": Kernel(f"{NUMBERS} int16", ALL, versions=SECOND),
    "LESS_EQUAL": Kernel(f"{NUMBERS} int16", ALL, versions=SECOND),
    "SELECT_V2": Kernel(ANYTHING, data=1),
    # Movement
    "RESHAPE": Kernel(ANYTHING, ALL),
    "TRANSPOSE": Kernel(ANYTHING, ALL, versions={"int8": 2, "bool": 3, "int16": 5}, wide=4,
                        keeps=True),
    "PAD": Kernel(MOVED, ALL, versions={"int8": 2, "int16": 3, "bool": 5}, wide=4, keeps=True, most=5),
    "PADV2": Kernel(MOVED, ALL, versions={"int8": 2, "int16": 3, "bool": 5}, wide=4, keeps=True,
                    most=5),
    "DILATE": Kernel(ANYTHING, ALL, keeps=True),
    "SLICE": Kernel(ANYTHING, ALL, versions={"int8": 2, "int16": 4, "uint32": 6}, wide=5, keeps=True),
    "STRIDED_SLICE": Kernel(ANYTHING, ALL, versions={"int8": 2, "bool": 3, "uint32": 7}, wide=4,
                            keeps=True),
    "CONCATENATION": Kernel(f"{MOVED} uint32", ALL,
                            versions={"int8": 2, "int16": 3, "uint32": 4}, keeps=True),
    "GATHER": Kernel(MOVED, ALL, versions={"int8": 2, "bool": 3, "int16": 4}, keeps=True),
    "GATHER_ND": Kernel(MOVED, ALL, versions={"int16": 3, "bool": 5}, keeps=True),
    "BROADCAST_TO": Kernel(ANYTHING, ALL, versions=dict.fromkeys(ANYTHING.split(), 2),
                           keeps=True),
    "REVERSE_V2": Kernel(MOVED, ALL, versions={"int8": 3, "bool": 2}, keeps=True),
    # Casts
    "QUANTIZE": Kernel("float32", ALL, versions={"int16": 2}),
    "DEQUANTIZE": Kernel("float16", ALL, versions={"int8": 2, "int16": 3, "float16": 3}),
    "CAST": Kernel(ANYTHING.replace(" uint64", ""), ALL),
    "BITCAST": Kernel(ANYTHING),
}  # fmt: skip
"""Operator → its kernel."""


def takes(kind: str, dtype: np.dtype[np.generic], quantized: bool) -> bool:
    """Whether LiteRT has a kernel of the operator for data of a type, quantized or plain."""
    kernel = KERNELS[kind]
    return is_numpys_own(dtype) and dtype.name in (kernel.quantized if quantized else kernel.plain).split()


# ---------------------------------------------------------------------------------------------------------------
# Limits of scales. Some kernels on bytes work with multipliers in a range that they check when a file is loaded.
# Outside of it, LiteRT refuses the file, or ends the process.


ROUNDED_TO_ONE = 1 - 2.0**-31
"""Numbers from here on are 1 as multipliers of 31 bits."""

LIMITS: Mapping[str, Callable[[Sequence[float], float], bool]] = {
    "SOFTMAX": lambda data, result: data[0] * 2**26 > 1,
    "LOG_SOFTMAX": lambda data, result: data[0] * 2**26 > 1,
    "SQUARED_DIFFERENCE": lambda data, result: (2 * max(data)) ** 2 / 2**14 / result < ROUNDED_TO_ONE,
    "HARD_SWISH": lambda data, result: data[0] / 128 / result < ROUNDED_TO_ONE,
}
"""Operator → whether its kernels on bytes take data of some scales, and a result of a scale."""

MOST_FACTOR = 256
"""XNNPACK's contractions take factors s_x · s_w / s_y below this; for others, LiteRT's default refuses the file."""


def takes_scales(kind: str, dtype: np.dtype[np.generic], data: Sequence[float], result: float) -> bool:
    """Whether LiteRT's kernel of the operator takes data of these scales and a result of this one.

    The scales are those that the file stores.
    """
    return dtype.itemsize > 1 or kind not in LIMITS or LIMITS[kind](data, result)
