"""How an operation ties together the scales of its operands and results: the rules of TFLite's specification, closed.

Each operation carries its rule as a trait. The quantizer asks it for parameters; the verifier checks quantized
types against it; nothing else in the compiler knows which operation has which rule.

    SameScale           data movement, max: operands and results share one type
    FixedScale          sigmoid, softmax, …: the function's own range decides, unless what was observed is far from it
    FreeScale           all others: the result has a range of its own
    AccumulatorScale    beside one of the above: the bias counts in the accumulator's steps, s_x · s_w

Rules judge quantized types only; a float tensor satisfies them all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.schemas import Precision, QuantizationError, Schema, is_symmetric
from qmlir.dialects.quant.types import UniformType, element_type, quantized_element


@dataclass(frozen=True)
class ScaleRule(OpTrait):
    """How the quantized types of an operation's operands and results depend on each other."""


@dataclass(frozen=True)
class FreeScale(ScaleRule):
    """The result's parameters come from the result's range, whatever the operands' are."""


@dataclass(frozen=True)
class SameScale(ScaleRule):
    """All float or quantized operands and results share one type: values are moved or chosen, never computed.

    Per-axis types are refused: moving elements across the quantized axis would change their meaning, and whether an
    operation does is not for a trait to know. Quantized weights are moved before they are quantized.
    """

    def tied(self, op: Operation) -> Iterator[SSAValue]:
        """The operands and results that must share one type: all but indices and the like."""
        for value in (*op.operands, *op.results):
            if isinstance(element_type(value.type), UniformType | AnyFloat):
                yield value

    def verify(self, op: Operation) -> None:
        first: UniformType | None = None
        for value in self.tied(op):
            type = quantized_element(value.type)
            if type is None:
                continue
            if type.is_per_axis:
                raise VerifyException(
                    f"'{op.name}' moves values, so its quantized types must be per tensor, got {_short(type)}; "
                    "move the values before they are quantized, or quantize them per tensor"
                )
            if first is None:
                first = type
            elif type != first:
                raise VerifyException(
                    f"'{op.name}' needs one quantized type for all operands and results, got {first} and {type}; "
                    "put an nn.requantize before the operand that differs"
                )


def keeps_scale(op: Operation) -> bool:
    """Whether an operation's operands and results share one quantized type."""
    return op.has_trait(SameScale, value_if_unregistered=False)


@dataclass(frozen=True)
class FixedScale(ScaleRule):
    """The function's range is known, so the quantizer gives the result the same parameters without a profile.

    Where something was observed, two kinds of results lose by that, and have the observed range instead (`suits`):
    those of a function that may leave the parameters' range, as logarithms do, and those so small that hardly a step is
    left to them, as the softmax of a thousand equals.

    scale, zero_point   for int8 where the schema admits that zero point (TFLite's choice)
    symmetric_scale     for int8 with zero point 0
    int16_scale         for int16, whose zero point is 0
    bounded             whether no result of the function leaves the range of these parameters
    least_scale         the smallest that integers compute the function with

    Imported graphs may use other parameters: the verifier accepts them and tables are made for any.
    """

    scale: float
    zero_point: int
    symmetric_scale: float
    int16_scale: float = 1 / 32768
    bounded: bool = True
    least_scale: float = 0.0

    UNSIGNED_OFFSET: ClassVar[int] = 128
    LOWEST: ClassVar[int] = -128

    def result_parameters(self, schema: Schema, precision: Precision) -> tuple[float, int]:
        """(scale, zero_point) of the result.

        Raises:
            QuantizationError: The schema has no unsigned storage.
        """
        if precision == "int16":
            return self.int16_scale, 0
        admitted = schema == "asymmetric" or self.zero_point in (0, self.LOWEST)
        if is_symmetric(schema) or not admitted:
            if precision == "uint8":
                raise QuantizationError(f"schema {schema} needs signed integers", got=precision, remedy="use int8")
            return self.symmetric_scale, 0
        return self.scale, self.zero_point + (self.UNSIGNED_OFFSET if precision == "uint8" else 0)

    def suits(self, lo: float, hi: float, schema: Schema, precision: Precision) -> bool:
        """Whether the parameters lose nothing of results that were seen to be in [lo, hi].

        Results lose that fill less than half of the bits, 16 steps of 8 bits and 256 of 16; only 0 does not.
        """
        scale, _ = self.result_parameters(schema, precision)
        steps = max(abs(lo), abs(hi)) / scale
        return self.bounded and (steps == 0 or steps >= (256 if precision == "int16" else 16))


@dataclass(frozen=True)
class AccumulatorScale(ScaleRule):
    """The bias is a constant of the accumulator, whose steps are s_x · s_w[c] in channel c.

    data, weights, bias   indices among the operands; the bias may be absent, float, or a plain integer tensor whose
                          scale is then implied

    A bias of 32 bits counts in these steps, and is added for nothing. A narrower one has a scale and a zero point of
    its own: s_x · s_w would leave nothing of it in 8 or 16 bits. What it adds is rounded to the accumulator's steps
    once, when the network is lowered (legality.py).

    (A1) with a quantized bias, data and weights are quantized, the data per tensor
    (A2) a bias of 32 bits has one scale if the weights have one, else as many, along its own axis 0; its zero points
         are 0
    (A3) each of its scales is the float64 product of the data's and the weight's, exactly
    (A4) a narrower bias has one scale, or one for each element
    """

    data: int
    weights: int
    bias: int

    def bias_type(self, data: UniformType, weights: UniformType) -> UniformType:
        """The quantized type of an i32 bias beside quantized data and weights."""
        scales = [data.scale * scale for scale in weights.scales]
        if weights.is_per_axis:
            return UniformType.per_axis(i32, 0, scales, expressed=data.expressed)
        return UniformType.per_tensor(i32, scales[0], expressed=data.expressed)

    def verify(self, op: Operation) -> None:
        if len(op.operands) <= max(self.data, self.weights, self.bias):
            return
        bias = quantized_element(op.operands[self.bias].type)
        if bias is None:
            return
        data_type, weights_type = op.operands[self.data].type, op.operands[self.weights].type
        data, weights = quantized_element(data_type), quantized_element(weights_type)
        if data is None or weights is None or data.is_per_axis:  # A1
            got = f"{_short(data or data_type)} and {_short(weights or weights_type)}"
            raise VerifyException(
                f"'{op.name}' with a quantized bias needs data quantized per tensor and quantized weights, "
                f"got {got}; keep the bias f32 until both are"
            )
        if bias.storage_width < i32.width.data:
            if bias.axis not in (None, 0):  # A4
                raise VerifyException(
                    f"'{op.name}' needs a bias with one scale, or one for each element, got {_short(bias)}"
                )
            return
        along = 0 if weights.is_per_axis else None
        if bias.axis != along or len(bias.scales) != len(weights.scales) or any(bias.zero_points):  # A2
            need = f"{len(weights.scales)} scales along axis 0" if weights.is_per_axis else "one scale"
            raise VerifyException(
                f"'{op.name}' needs a bias with {need} and zero point 0, as its weights have, got {_short(bias)}"
            )
        for channel, (scale, weight_scale) in enumerate(zip(bias.scales, weights.scales, strict=True)):
            if scale != data.scale * weight_scale:  # A3
                raise VerifyException(
                    f"'{op.name}' needs the bias scale {data.scale * weight_scale!r} in channel {channel}, the product "
                    f"of the data's {data.scale!r} and the weights' {weight_scale!r}, got {scale!r}; "
                    "quantize the bias after its operands"
                )


def _short(type: Attribute) -> str:
    """A type as text, a per-axis one without its thousands of scales."""
    if isinstance(type, UniformType) and type.is_per_axis:
        return f"{len(type.scales)} scales along axis {type.axis}"
    return str(type)
