"""What all nn operations share: operands float or quantized, one data type through and through.

The meaning of an operation on float tensors is its `evaluate`. On quantized tensors its exact meaning is that of
its lowering to qint; its nominal meaning, dequantize → evaluate → quantize, is derived for all operations alike.

Float results are reproducible bit for bit: sums run in a fixed order, in f32, each product and each sum rounded by
itself. The CPU lowering emits exactly these operations.
"""

import abc
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AnyFloat, Float32Type, FloatAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import opt_prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interfaces import Array, TensorOp, element_of
from qmlir.dialects.quant.rules import SameScale
from qmlir.dialects.quant.types import UniformType


def is_float(value: SSAValue) -> bool:
    """Whether a tensor's elements are f32."""
    return isinstance(element_of(value), Float32Type)


def is_quantized(value: SSAValue) -> bool:
    """Whether a tensor's elements are of a quantized type."""
    return isinstance(element_of(value), UniformType)


class NNOp(TensorOp, abc.ABC):
    """An operation of a network.

    (N1) its data operands are all f32 or all quantized
    (N2) its results are f32 where its operands are, quantized where they are
    """

    def data_operands(self) -> Sequence[SSAValue]:
        """The operands that carry the network's data: all but a bias."""
        return self.operands

    def infer_elements(self) -> Sequence[Attribute | None]:
        data = self.data_operands()
        if not (all(map(is_float, data)) or all(map(is_quantized, data))):  # N1
            kinds = ", ".join(str(element_of(o)) for o in data)
            raise VerifyException(f"'{self.name}' needs operands that are all f32 or all quantized, got {kinds}")
        keeps = is_float(data[0]) or self.has_trait(SameScale, value_if_unregistered=False)
        return [element_of(data[0]) if keeps else None] * len(self.results)

    def verify_(self) -> None:
        super().verify_()
        for result in self.results:
            if is_quantized(result) != is_quantized(self.data_operands()[0]):  # N2
                raise VerifyException(
                    f"'{self.name}' must yield quantized values from quantized operands and f32 from f32, "
                    f"got {element_of(result)} from {element_of(self.data_operands()[0])}"
                )


class Clamped(NNOp, abc.ABC):
    """An operation with a clamp fused to its end: `min` and `max` are real values, absent where unbounded.

    On quantized types the stored result lies between the stored integers nearest to the bounds (half to even): what
    quantizing a clamped real value gives, as quantizing keeps order.

    (N3) the bounds are numbers, min not above max
    """

    lower = opt_prop_def(FloatAttr[AnyFloat], prop_name="min")
    upper = opt_prop_def(FloatAttr[AnyFloat], prop_name="max")

    def bounds(self) -> tuple[float | None, float | None]:
        """The clamp's (min, max); None where unbounded."""
        return (
            self.lower.value.data if self.lower is not None else None,
            self.upper.value.data if self.upper is not None else None,
        )

    def clamp(self, y: Array) -> Array:
        """Applies the fused clamp to float values."""
        low, high = self.bounds()
        y = y if low is None else np.maximum(y, np.float32(low))
        return y if high is None else np.minimum(y, np.float32(high))

    def verify_(self) -> None:
        super().verify_()
        low, high = self.bounds()
        if low is not None and high is not None and low > high:  # N3
            raise VerifyException(f"'{self.name}' clamps to an empty range: min {low} is above max {high}")
        if any(b is not None and np.isnan(b) for b in (low, high)):  # N3
            raise VerifyException(f"'{self.name}' needs numbers as bounds, got min {low} and max {high}")


def bound(value: float | None) -> FloatAttr[Float32Type] | None:
    """A clamp bound as a property value."""
    return None if value is None else FloatAttr(value, f32)
