"""Power-of-two scales: an attribute that states the property, and its verification.

    func.func @main(…) attributes {qmlir.scales = #qmlir.power_of_two} { … }

The attribute states that every quantized type inside the operation has scales of exactly 2^e, per tensor, per axis or
per block. The pass `choose-scales`, a step of `quantize`, sets it for the schema symmetric_with_power2_scale. Other
passes preserve it, and the verifier checks it (verify.py). With it, s_x·s_w / s_y is a power of two as well, so
nn-to-qint gives requantizations the contract `shift`, which the operation verifies. There are two exceptions: a mean of
n elements, with n not a power of two, has the contract `single`, and a module that follows a runtime's rounding has
that runtime's contracts.

`PowerOfTwoScales` is the same property as an IRDL constraint, for the operands of a device that can only shift.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from typing_extensions import TypeVar
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import AttrConstraint, IntConstraint, VerificationContext, irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.foreign import FloatStorageType, SubChannelType
from qmlir.dialects.quant.types import ScaledType, UniformType
from qmlir.ir.types import element_type
from qmlir.ir.verify import SCALES, Broken, Promise
from qmlir.numerics.schemas import nearest_exponent


@irdl_attr_definition
class PowerOfTwoAttr(ParametrizedAttribute, Promise):
    """States that every scale is 2^e for an integer e: `#qmlir.power_of_two`."""

    name = "qmlir.power_of_two"
    STATES = "scales that are powers of two"

    def broken(self, scope: Operation) -> Iterator[Broken]:
        """Yields the values with scales that are not powers of two."""
        for op in scope.walk():
            arguments = (argument for region in op.regions for block in region.blocks for argument in block.args)
            for value in (*arguments, *op.results):
                type = element_type(value.type)
                if isinstance(type, ScaledType) and (got := wrong_scale(type)) is not None:
                    yield Broken(op, value, f"scale {got}")


@dataclass(frozen=True)
class PowerOfTwoScales(AttrConstraint[ScaledType]):
    """An IRDL constraint: a quantized type whose scales are powers of two.

    `operand_def(TensorType.constr(PowerOfTwoScales()))` accepts tensors of such elements;
    `TensorType.constr(PowerOfTwoScales() | EqAttrConstraint(i32))` also accepts plain i32 accumulators.
    """

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, ScaledType):
            raise VerifyException(f"a quantized type with scales that are powers of two is needed, got {attr}")
        if (got := wrong_scale(attr)) is not None:
            raise VerifyException(f"scales must be powers of two, got {got}")

    def get_bases(self) -> set[type[Attribute]]:
        return {UniformType, SubChannelType, FloatStorageType}

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> "PowerOfTwoScales":
        return self


def wrong_scale(type: ScaledType) -> str | None:
    """Describes the first scale that is not a power of two, its index and the nearest power of two; None if all are."""
    for index, (scale, exponent) in enumerate(zip(type.scales, type.exponents, strict=True)):
        if exponent is None:
            place = f" at index {index}" if len(type.scales) > 1 else ""
            nearest = nearest_exponent(scale)
            return f"{scale!r}{place}; the nearest is 2^{nearest} = {2.0**nearest!r}"
    return None


def promises_powers_of_two(scope: Operation) -> bool:
    """Whether an operation or an enclosing operation states that scales are powers of two."""
    around: Operation | None = scope
    while around is not None:
        if isinstance(around.attributes.get(SCALES), PowerOfTwoAttr):
            return True
        around = around.parent_op()
    return False
