"""Reasons why an operation stays float, in words: shared by the passes that decide about operations."""

from collections.abc import Iterable

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qmlir import BLOCK
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.ir.rewriting import tensor_name
from qmlir.policies.recipe import Recipe, recipe_of

Reason = tuple[str, str]
"""A reason code of the ledger, which records decisions, and a sentence in which `it` is the operation."""

COMPUTED_WEIGHTS: Reason = (
    "computed-weights",
    "its weights are computed at run time; only constant weights can be quantized",
)
COMPUTED_DIVISOR: Reason = (
    "target",
    "its divisor is computed at run time; quantized, it would lose its digits near 0",
)
COMPUTED_BIAS: Reason = ("bias", "its bias is computed at run time; only a constant bias can be quantized")


COMPUTED_ON_FLOATS: Reason = (
    "runtime",
    "the model computes it on floats between casts, as LiteRT does; its integer form rounds otherwise",
)

HIGH_POWERS: Reason = ("target", "its powers have more digits than integers of 16 bits hold")

KEPT_FLOAT: Reason = ("policy", "the policy keeps it in floats")

EMPTY: Reason = ("empty", "it has a tensor without elements, of which there is nothing to quantize")

SHARED: Reason = ("shared", "its result is also read as floats, which quantizing it would change")


def blocked(op: Operation) -> Reason | None:
    """The reason if the policy keeps an operation float, or its weights have a scale for each block; None otherwise."""
    if recipe_of(op, Recipe()).keep_float:
        return KEPT_FLOAT
    sources = [source_of(v).owner for v in op.operands]
    sizes = [o.attributes[BLOCK] for o in sources if isinstance(o, ConstantOp) and BLOCK in o.attributes]
    if not sizes:
        return None
    size = sizes[0].value.data if isinstance(sizes[0], IntegerAttr) else "several"
    return "blocked", f"its weights have a scale for each block of {size}, which integer sums cannot share"


def no_range(lacking: Iterable[str]) -> Reason:
    """The reason that no range is known for some tensors, given by names from `called`."""
    names = ", ".join(dict.fromkeys(lacking))
    return "no-range", f"no range is known for {names}"


def called(value: SSAValue) -> str:
    """The name of a tensor in messages: from the source model, else from its observer, else from the text of the IR."""
    source = source_of(value)
    observed = (u.operation.tensor.data for u in source.uses if isinstance(u.operation, ObserveOp))
    if name := tensor_name(source) or next(observed, ""):
        return f'"{name}"'
    if source.name_hint:
        return f"%{source.name_hint}"
    return f"the result of {source.owner.name}" if isinstance(source.owner, Operation) else "an unnamed tensor"


def source_of(value: SSAValue) -> SSAValue:
    """The value that a chain of quantize and dequantize casts begins with."""
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp):
        value = value.owner.operands[0]
    return value
