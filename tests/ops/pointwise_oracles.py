"""What operations on single elements and reductions compute, by ONNX Runtime or by Python's own functions."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.dialects import nn
from qmlir.ir.interfaces import TensorOp

Array = npt.NDArray[Any]
Run = Callable[..., Array]
Oracle = Callable[[Any, Sequence[Array]], Array]

SAME: dict[type[TensorOp], str] = {
    nn.AbsOp: "Abs",
    nn.NegOp: "Neg",
    nn.SignOp: "Sign",
    nn.FloorOp: "Floor",
    nn.CeilOp: "Ceil",
    nn.RoundOp: "Round",
    nn.SqrtOp: "Sqrt",
    nn.ReciprocalOp: "Reciprocal",
    nn.ExpOp: "Exp",
    nn.LogOp: "Log",
    nn.ErfOp: "Erf",
    nn.CosOp: "Cos",
    nn.TanOp: "Tan",
    nn.AsinOp: "Asin",
    nn.AcosOp: "Acos",
    nn.AtanOp: "Atan",
    nn.SinhOp: "Sinh",
    nn.CoshOp: "Cosh",
    nn.AsinhOp: "Asinh",
    nn.AcoshOp: "Acosh",
    nn.AtanhOp: "Atanh",
    nn.HardSwishOp: "HardSwish",
    nn.SoftplusOp: "Softplus",
    nn.SoftsignOp: "Softsign",
    nn.MishOp: "Mish",
    nn.SubOp: "Sub",
    nn.DivOp: "Div",
    nn.PowOp: "Pow",
    nn.MaximumOp: "Max",
    nn.MinimumOp: "Min",
    nn.PReluOp: "PRelu",
    nn.EqualOp: "Equal",
    nn.LessOp: "Less",
    nn.LessEqualOp: "LessOrEqual",
    nn.WhereOp: "Where",
    nn.IsNaNOp: "IsNaN",
}
"""The ONNX operator of the same operands."""

WITH_NUMBERS: dict[type[TensorOp], tuple[str, dict[str, str]]] = {
    nn.HardSigmoidOp: ("HardSigmoid", {"alpha": "alpha", "beta": "beta"}),
    nn.LeakyReluOp: ("LeakyRelu", {"alpha": "alpha"}),
    nn.EluOp: ("Elu", {"alpha": "alpha"}),
    nn.SeluOp: ("Selu", {"alpha": "alpha", "gamma": "gamma"}),
    nn.CeluOp: ("Celu", {"alpha": "alpha"}),
    nn.ThresholdedReluOp: ("ThresholdedRelu", {"alpha": "alpha"}),
    nn.ShrinkOp: ("Shrink", {"bias": "bias", "lambd": "threshold"}),
}
"""Operator, and which of its attributes is which property."""

REDUCED: dict[type[TensorOp], str] = {
    nn.ReduceSumOp: "ReduceSum",
    nn.ReduceMeanOp: "ReduceMean",
    nn.ReduceProdOp: "ReduceProd",
    nn.ReduceMaxOp: "ReduceMax",
    nn.ReduceMinOp: "ReduceMin",
}


def each(function: Callable[[float], float]) -> Oracle:
    """A function of Python's on each element."""
    return lambda op, inputs: np.vectorize(function)(inputs[0].astype(np.float64)).astype(np.float32)


def gelu(op: nn.GeluOp, inputs: Sequence[Array]) -> Array:
    if bool(op.tanh):
        return each(lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))(op, inputs)
    return each(lambda x: x / 2 * math.erfc(-x / math.sqrt(2)))(op, inputs)


def swish(op: nn.SwishOp, inputs: Sequence[Array]) -> Array:
    return each(lambda x: x / (1 + math.exp(-op.alpha.value.data * x)))(op, inputs)


def oracles(run: Run) -> dict[type[TensorOp], Oracle]:
    """The table; `run` computes one node in ONNX Runtime."""

    def same(kind: str) -> Oracle:
        return lambda op, inputs: run(kind, *inputs)

    def with_numbers(kind: str, names: dict[str, str]) -> Oracle:
        return lambda op, inputs: run(kind, *inputs, **{k: getattr(op, v).value.data for k, v in names.items()})

    def reduced(kind: str) -> Oracle:
        def oracle(op: Any, inputs: Sequence[Array]) -> Array:
            axes = np.array(op.axes.get_values(), np.int64)
            return run(kind, inputs[0], axes, keepdims=1, noop_with_empty_axes=1)

        return oracle

    def place(kind: str) -> Oracle:
        return lambda op, inputs: run(kind, inputs[0], axis=op.axis.value.data, select_last_index=int(bool(op.last)))

    def infinite(op: nn.IsInfOp, inputs: Sequence[Array]) -> Array:
        return run("IsInf", *inputs, detect_negative=int(bool(op.negative)), detect_positive=int(bool(op.positive)))

    return {
        **{op: same(kind) for op, kind in SAME.items()},
        **{op: with_numbers(*entry) for op, entry in WITH_NUMBERS.items()},
        **{op: reduced(kind) for op, kind in REDUCED.items()},
        nn.RsqrtOp: lambda op, inputs: run("Reciprocal", run("Sqrt", *inputs)),
        nn.SquaredDifferenceOp: lambda op, inputs: run("Pow", run("Sub", *inputs), np.array(2, inputs[0].dtype)),
        nn.SinOp: each(math.sin),  # onnxruntime's is wrong for large arguments
        nn.BinarizeOp: lambda op, inputs: (inputs[0] > op.threshold.value.data).astype(np.float32),
        nn.GeluOp: gelu,
        nn.SwishOp: swish,
        nn.ModOp: lambda op, inputs: run("Mod", *inputs, fmod=1),
        nn.IsInfOp: infinite,
        nn.ArgMaxOp: place("ArgMax"),
        nn.ArgMinOp: place("ArgMin"),
        nn.CumulativeSumOp: lambda op, inputs: run("CumSum", inputs[0], np.array(op.axis.value.data)),
        nn.CumulativeProductOp: lambda op, inputs: np.multiply.accumulate(inputs[0], op.axis.value.data),
    }
