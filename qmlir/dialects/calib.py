"""`calib.observe`: the tap on an activation whose range the quantizer needs."""

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, FloatAttr, StringAttr, TensorType, f64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.types import element_type


@irdl_op_definition
class ObserveOp(IRDLOperation):
    """Names a float tensor as worth a range, and holds the range once it is known.

        calib.observe %v {name = "conv1_out", range = [-1.5, 6.0]} : tensor<1x8x8x16xf32>

    It has an effect, so that no pass takes it for dead code; `quantize` consumes it.

    (C1) the range is two finite numbers, the first not above the second
    (C2) the tensor's elements are floats
    """

    name = "calib.observe"
    value = operand_def(TensorType)
    tensor = prop_def(StringAttr, prop_name="name")
    range = opt_prop_def(ArrayAttr[FloatAttr[AnyFloat]])

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value attr-dict `:` type($value)"

    LIMITS: ClassVar = 2

    def __init__(self, value: SSAValue, tensor: str, bounds: tuple[float, float] | None = None):
        properties: dict[str, Attribute] = {"name": StringAttr(tensor)}
        if bounds is not None:
            properties["range"] = ArrayAttr([FloatAttr(b, f64) for b in bounds])
        super().__init__(operands=[value], properties=properties)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The observed [lowest, highest] real value, or None before profiling."""
        if self.range is None:
            return None
        lo, hi = (bound.value.data for bound in self.range)
        return lo, hi

    def verify_(self) -> None:
        if not isinstance(element_type(self.value.type), AnyFloat):  # C2
            raise VerifyException(f"'{self.name}' learns the range of float tensors, got {self.value.type}")
        if self.range is None:
            return
        bounds = [b.value.data for b in self.range]
        finite = all(abs(b) < float("inf") for b in bounds)  # False for NaN too
        if len(bounds) != self.LIMITS or not finite or bounds[0] > bounds[1]:  # C1
            raise VerifyException(
                f'the range of "{self.tensor.data}" must be two finite numbers in order, got {bounds}; profile it again'
            )


CALIB = Dialect("calib", [ObserveOp])
