"""Scale rules: op traits that say how the scales of an operation's operands and results depend on each other.

The rules are those of TFLite's quantization specification. Each operation carries its rule as a trait. The quantizer
takes quantization parameters from the trait, and the verifier checks quantized types against it. No other part of the
compiler knows which operation has which rule.

    SameScale           data movement, max: operands and results share one type
    FixedScale          sigmoid, softmax, …: the function's own range decides, unless the observed range is far from it
    FreeScale           all other operations: the result's own range decides
    AccumulatorScale    in addition to another rule: the bias is stored in the accumulator's steps, s_x · s_w

Rules check quantized types only; float tensors satisfy every rule.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.ir.types import element_type
from qmlir.numerics.schemas import Precision, QuantizationError, Schema, is_symmetric


@dataclass(frozen=True)
class ScaleRule(OpTrait):
    """Base of the scale rules: how the quantized types of an operation's operands and results depend on each other."""


@dataclass(frozen=True)
class FreeScale(ScaleRule):
    """The result's scale and zero point come from the result's range, independent of the operands' parameters."""


@dataclass(frozen=True)
class SameScale(ScaleRule):
    """All float or quantized operands and results share one type: the operation moves or selects values.

    Per-axis types are rejected: elements that move across the quantized axis would change their value, and a trait
    cannot know whether an operation moves them so. Weights are therefore moved before they are quantized.
    """

    def tied(self, op: Operation) -> Iterator[SSAValue]:
        """Yields the operands and results that must share one type: all with float or quantized elements."""
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
    """The function's range is known, so the quantizer gives the result fixed parameters without a profile.

    Two kinds of results lose accuracy under the fixed parameters and use an observed range instead, if there is one
    (`suits`): results of a function that may leave the parameters' range, such as a logarithm, and results so small
    that they span only a few steps, such as the softmax of a thousand equal elements.

    scale, zero_point   parameters for int8 if the schema admits that zero point (TFLite's choice)
    symmetric_scale     the scale for int8 with zero point 0
    int16_scale         the scale for int16, whose zero point is 0
    bounded             whether all results of the function lie within the range of these parameters
    least_scale         the smallest scale for which the function has an integer form

    Imported graphs may use other parameters: the verifier accepts them, and lookup tables are generated for any.
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
        """Returns (scale, zero_point) of the result for a schema and a precision.

        Raises:
            QuantizationError: The precision is uint8, but the schema allows signed integers only.
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
        """Whether the fixed parameters are accurate enough for results observed in [lo, hi].

        They are not if the function is unbounded, or if the results span fewer steps than half of the storage bits
        count: 16 steps for 8 bits, 256 steps for 16 bits. Results that are all 0 always fit a bounded function.
        """
        scale, _ = self.result_parameters(schema, precision)
        steps = max(abs(lo), abs(hi)) / scale
        return self.bounded and (steps == 0 or steps >= (256 if precision == "int16" else 16))


@dataclass(frozen=True)
class AccumulatorScale(ScaleRule):
    """The bias is stored in the steps of the accumulator: s_x · s_w[c] in channel c.

    data, weights, bias   operand indices; the bias may be absent, float, or a plain integer tensor with the implied
                          scale s_x · s_w

    A 32-bit bias is stored in these steps and added to the accumulator as it is. A bias of 8 or 16 bits has its own
    scale and zero point, because in steps of s_x · s_w it would saturate. Its values are rounded to the accumulator's
    steps once, when the network is lowered (legality.py).

    (A1) with a quantized bias, data and weights are quantized, the data per tensor
    (A2) a 32-bit bias has one scale if the weights have one scale, else as many scales as the weights, along the
         bias's axis 0; its zero points are 0
    (A3) each scale of a 32-bit bias is exactly the float64 product of the data's scale and the weights' scale
    (A4) a narrower bias has one scale, or one scale for each element
    """

    data: int
    weights: int
    bias: int

    def bias_type(self, data: UniformType, weights: UniformType) -> UniformType:
        """Returns the quantized type of an i32 bias for given quantized data and weights."""
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
    """Prints a type; for a per-axis type only the number of scales and the axis."""
    if isinstance(type, UniformType) and type.is_per_axis:
        return f"{len(type.scales)} scales along axis {type.axis}"
    return str(type)
