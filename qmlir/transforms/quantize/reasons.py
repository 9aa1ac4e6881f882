"""Why an operation stays float, in words: what the passes that decide have in common."""

from collections.abc import Iterable

from xdsl.ir import SSAValue

from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.rewriting import tensor_name

Reason = tuple[str, str]
"""A code of the ledger and a sentence without its subject."""

COMPUTED_WEIGHTS: Reason = (
    "computed-weights",
    "its weights are computed at run time; only constant weights can be quantized",
)
COMPUTED_BIAS: Reason = ("bias", "its bias is computed at run time; only a constant bias can be quantized")


def no_range(lacking: Iterable[SSAValue]) -> Reason:
    """Tensors without a range are why."""
    names = ", ".join(dict.fromkeys(f'"{tensor_name(source_of(v)) or "unnamed"}"' for v in lacking))
    return "no-range", f"no range is known for {names}; profile the network, or write a range in the IR"


def source_of(value: SSAValue) -> SSAValue:
    """The value behind quantize and dequantize casts."""
    while isinstance(value.owner, DequantizeCastOp | QuantizeCastOp):
        value = value.owner.operands[0]
    return value
