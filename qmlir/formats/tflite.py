"""TFLite's operators and the operations of nn that they are, with the schema's names of options and its enumerations.

The importer converts the operators in `OPERATORS` by their rows, and the exporter writes operations by the same rows.
If an import or an export is more than its row, the importer has a converter or the exporter a form of its own, which
takes precedence.
"""

import re
from collections.abc import Mapping

from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import ArgumentOp, ReductionOp
from qmlir.formats.rows import PAIR, Operator, comparisons
from qmlir.ir.interfaces import TensorOp

# ---------------------------------------------------------------------------------------------------------------
# The schema's names of options.


NO_OPTIONS = frozenset(
    """BROADCAST_ARGS CEIL ELU EMBEDDING_LOOKUP FLOOR LOG LOGISTIC PRELU RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT
    SIN SQRT TANH""".split()
)
"""Operators without a table of options."""

HANDLE, READ, ASSIGN = "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"
"""Operators on variables that live from call to call."""

_IRREGULAR = {
    "ATAN2": "ATan2Options",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "BATCH_TO_SPACE_ND": "BatchToSpaceNDOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "L2_NORMALIZATION": "L2NormOptions",
    "PADV2": "PadV2Options",
    "SPACE_TO_BATCH_ND": "SpaceToBatchNDOptions",
    "TOPK_V2": "TopKV2Options",
    "RNN": "RNNOptions",
    "SVDF": "SVDFOptions",
    "LSTM": "LSTMOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "BidirectionalSequenceLSTMOptions",
    "BIDIRECTIONAL_SEQUENCE_RNN": "BidirectionalSequenceRNNOptions",
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), "Pool2DOptions"),
    **dict.fromkeys(("MAXIMUM", "MINIMUM"), "MaximumMinimumOptions"),
    **dict.fromkeys(
        ("MEAN", "REDUCE_ALL", "REDUCE_ANY", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "SUM"), "ReducerOptions"
    ),
}


def camel_case(name: str) -> str:
    """Returns a name of words between underscores as the schema writes it: STRIDED_SLICE as StridedSlice."""
    words = "".join(word[:1].upper() + word[1:].lower() for word in name.split("_"))
    return re.sub(r"(?<=\d)d", "D", words)


def options_of(kind: str) -> str:
    """Returns the schema's name of an operator's table of options; empty if it has none."""
    return "" if kind in NO_OPTIONS else _IRREGULAR.get(kind, f"{camel_case(kind)}Options")


# ---------------------------------------------------------------------------------------------------------------
# Operators and operations.


OPERATORS = (
    Operator(nn.AddOp, "ADD", inputs=PAIR),
    Operator(nn.SubOp, "SUB", inputs=PAIR),
    Operator(nn.MulOp, "MUL", inputs=PAIR),
    Operator(nn.DivOp, "DIV", inputs=PAIR),
    Operator(nn.MaximumOp, "MAXIMUM", inputs=PAIR),
    Operator(nn.MinimumOp, "MINIMUM", inputs=PAIR),
    Operator(nn.PowOp, "POW", inputs=PAIR),
    Operator(nn.ModOp, "FLOOR_MOD", inputs=PAIR),
    Operator(nn.PReluOp, "PRELU", inputs=PAIR),
    Operator(nn.SquaredDifferenceOp, "SQUARED_DIFFERENCE", inputs=PAIR),
    Operator(nn.AndOp, "LOGICAL_AND", inputs=PAIR),
    Operator(nn.OrOp, "LOGICAL_OR", inputs=PAIR),
    Operator(nn.XorOp, "BITWISE_XOR", inputs=PAIR),
    Operator(nn.NotOp, "LOGICAL_NOT"),
    Operator(nn.WhereOp, "SELECT_V2", inputs=("condition", "x", "y")),
    Operator(nn.AbsOp, "ABS"),
    Operator(nn.NegOp, "NEG"),
    Operator(nn.SignOp, "SIGN"),
    Operator(nn.FloorOp, "FLOOR"),
    Operator(nn.CeilOp, "CEIL"),
    Operator(nn.RoundOp, "ROUND"),
    Operator(nn.SqrtOp, "SQRT"),
    Operator(nn.RsqrtOp, "RSQRT"),
    Operator(nn.ExpOp, "EXP"),
    Operator(nn.LogOp, "LOG"),
    Operator(nn.SinOp, "SIN"),
    Operator(nn.CosOp, "COS"),
    Operator(nn.ReluOp, "RELU"),
    Operator(nn.SigmoidOp, "LOGISTIC"),
    Operator(nn.TanhOp, "TANH"),
    Operator(nn.HardSwishOp, "HARD_SWISH"),
    Operator(nn.LeakyReluOp, "LEAKY_RELU", attributes={"alpha": ("alpha", 0.0)}),
    Operator(nn.GeluOp, "GELU", attributes={"approximate": ("tanh", False)}),
)
"""The operators that are one operation on their inputs."""

WRITTEN: Mapping[type[TensorOp], Operator] = {o.operation: o for o in OPERATORS}
"""Operation → the operator as which it is written."""

COMPARISONS = comparisons("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
"""Operator → comparison."""

REDUCTIONS: Mapping[str, type[ReductionOp]] = {
    "SUM": nn.ReduceSumOp,
    "MEAN": nn.ReduceMeanOp,
    "REDUCE_PROD": nn.ReduceProdOp,
    "REDUCE_MAX": nn.ReduceMaxOp,
    "REDUCE_MIN": nn.ReduceMinOp,
    "REDUCE_ANY": nn.ReduceMaxOp,
    "REDUCE_ALL": nn.ReduceMinOp,
}
"""Operator → reduction along axes; REDUCE_ANY and REDUCE_ALL are those of booleans."""

ARGUMENTS: Mapping[str, type[ArgumentOp]] = {"ARG_MAX": nn.ArgMaxOp, "ARG_MIN": nn.ArgMinOp}
"""Operator → operation."""

# ---------------------------------------------------------------------------------------------------------------
# Fused activations, clamps and the padding of windows.


Bounds = tuple[float | None, float | None]
"""The least and the greatest value; None means unbounded."""

ACTIVATIONS: Mapping[int, Bounds] = {0: (None, None), 1: (0.0, None), 2: (-1.0, 1.0), 3: (0.0, 6.0)}
"""ActivationFunctionType → bounds of the clamp, for NONE, RELU, RELU_N1_TO_1 and RELU6."""

CLAMPS: Mapping[str, tuple[float, float]] = {
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""Operators that clamp their input → bounds."""

SAME, VALID = 0, 1
"""The codes of the schema's enumeration Padding."""


def same_padding(size: int, window: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Returns the elements to pad before and after an axis so that ceil(size / stride) windows fit.

    If their number is odd, the additional element comes after the axis.
    """
    windows = -(-size // stride)
    missing = max((windows - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return missing // 2, missing - missing // 2
