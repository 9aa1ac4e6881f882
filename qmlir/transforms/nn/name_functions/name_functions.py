"""The pass `name-functions`: replaces a GELU that a model spells out by `nn.gelu`, and a comparison with ∞ by a test.

Enters and leaves: nn in float. Exporters of operator sets without Gelu write it as six operators or more, of which each
would be rounded for itself in a quantized network. As one operation it has one lookup table, which is rounded once. Its
floats are those of the model but for their last bits: the function is computed in float64 and rounded once.
"""

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects import nn
from qmlir.dialects.nn.base import is_float
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import PatternPass, replace
from qmlir.policies.runtimes import follows_litert, runtime_of
from qmlir.transforms.nn.name_functions.terms import Call, NameFunction, Numbers, Term, X

CLOSE = 1e-5
"""How far a constant of a formula may be from its value, as a share: some models have few digits of √2 or √(2/π)."""


def _constants(numbers: Numbers, **values: float) -> Numbers | None:
    """No parameters, if the numbers of a term have these values; else None."""
    close = all(abs(numbers[name] - value) <= CLOSE * abs(value) for name, value in values.items() if name in numbers)
    return {} if close else None


def _halved(gate: Term) -> Iterator[Call]:
    """The ways to write x · gate / 2."""
    yield Call(nn.MulOp, X, Call(nn.MulOp, gate, 0.5))
    yield Call(nn.MulOp, Call(nn.MulOp, X, gate), 0.5)
    yield Call(nn.MulOp, Call(nn.MulOp, X, 0.5), gate)


CUBES = (
    Call(nn.PowOp, X, 3.0),
    Call(nn.MulOp, X, Call(nn.MulOp, X, X)),
)
"""The ways to write x³."""

ERROR_FUNCTIONS = (
    Call(nn.ErfOp, Call(nn.DivOp, X, "root")),
    Call(nn.ErfOp, Call(nn.MulOp, X, "inverse")),
)
"""The ways to write erf(x / √2)."""

GELU = tuple(
    NameFunction(nn.GeluOp, term, partial(_constants, root=math.sqrt(2), inverse=math.sqrt(0.5)))
    for erf in ERROR_FUNCTIONS
    for term in _halved(Call(nn.AddOp, erf, 1.0))
)
"""x · (1 + erf(x / √2)) / 2 → nn.gelu(x)"""

TANH_GELU = tuple(
    NameFunction(
        nn.GeluOp, term, partial(_constants, factor=math.sqrt(2 / math.pi), cubic=0.044715),
        {"tanh": BoolAttr.from_bool(True)},
    )
    for cube in CUBES
    for term in _halved(
        Call(nn.AddOp, Call(nn.TanhOp, Call(nn.MulOp, Call(nn.AddOp, X, Call(nn.MulOp, cube, "cubic")), "factor")), 1.0)
    )
)  # fmt: skip
"""x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) / 2 → nn.gelu(x) with `tanh`"""


class NameInfinityTest(RewritePattern):
    """equal(x, ±∞) → is_inf(x): the body of ONNX's Attention looks for rows that a mask hides entirely so."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.EqualOp, rewriter: PatternRewriter) -> None:
        for x, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if not isinstance(other.owner, nn.ConstantOp) or isinstance(x.owner, nn.ConstantOp):
                continue
            values = other.owner.value.array
            if not is_float(x) or shape_of(x) != shape_of(op.y) or values.size == 0:
                continue
            if np.isinf(values).all() and (values == values.flat[0]).all():
                above = bool(values.flat[0] > 0)
                signs = {"positive": BoolAttr.from_bool(above), "negative": BoolAttr.from_bool(not above)}
                replace(rewriter, op, [nn.IsInfOp.make([x], signs)])
                return


class NameFunctionsPass(PatternPass):
    """Replaces the operators that a model writes a GELU as, by `nn.gelu`, and comparisons with ∞ by `nn.is_inf`.

    ```mlir
    %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
    %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    // becomes
    %4 = nn.gelu %x : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "name-functions"
    PATTERNS = (*GELU, *TANH_GELU, NameInfinityTest())

    @classmethod
    def run(cls, module: ModuleOp) -> bool:
        # LiteRT computes on floats what the model has on floats.
        return not follows_litert(runtime_of(module)) and super().run(module)
