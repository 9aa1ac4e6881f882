"""Power-of-two scales as a property that is stated and checked.

    func.func @main(…) attributes {qmlir.scales = #qmlir.power_of_two} { … }

says of every quantized type inside: each of its scales is 2^e exactly, per tensor, per axis or per block. `quantize`
states it where the schema asks for it, passes keep it, and the verifier holds text and passes to it (verify.py). Then
s_x·s_w / s_y is a power of two as well, so nn-to-qint gives requantizations the contract `shift`, and that contract
is checked on the operation. Two kinds are not covered: a mean of n elements where n is no power of two, which is
`single`, and a module that follows a runtime's rounding, which is that runtime's.

`PowerOfTwoScales` is the same property as a constraint of IRDL, for the operands of a device that can only shift.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from typing_extensions import TypeVar
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import AttrConstraint, IntConstraint, VerificationContext, irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.foreign import FloatStorageType, SubChannelType
from qmlir.dialects.quant.schemas import nearest_exponent
from qmlir.dialects.quant.types import ScaledType, UniformType, element_type

SCALES = "qmlir.scales"
"""The attribute key of a promise about all quantized types inside a function, a module or any other operation."""


@irdl_attr_definition
class PowerOfTwoAttr(ParametrizedAttribute):
    """Every scale is 2^e for some integer e: `#qmlir.power_of_two`."""

    name = "qmlir.power_of_two"


@dataclass(frozen=True)
class PowerOfTwoScales(AttrConstraint[ScaledType]):
    """A quantized type whose scales are powers of two.

    `operand_def(TensorType.constr(PowerOfTwoScales()))` is a tensor of such elements; they may be plain accumulators
    too in `TensorType.constr(PowerOfTwoScales() | EqAttrConstraint(i32))`.
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
    """The first scale that is no power of two, where it stands and the nearest that is; None where all are."""
    for index, (scale, exponent) in enumerate(zip(type.scales, type.exponents, strict=True)):
        if exponent is None:
            place = f" at index {index}" if len(type.scales) > 1 else ""
            nearest = nearest_exponent(scale)
            return f"{scale!r}{place}; the nearest is 2^{nearest} = {2.0**nearest!r}"
    return None


def promises_powers_of_two(scope: Operation) -> bool:
    """Whether an operation, or one around it, states that scales are powers of two."""
    around: Operation | None = scope
    while around is not None:
        if isinstance(around.attributes.get(SCALES), PowerOfTwoAttr):
            return True
        around = around.parent_op()
    return False


@dataclass(frozen=True)
class Broken:
    """A value that breaks a promise.

    op     the operation to blame: the value's own, or the one whose argument it is
    value  the value
    got    its scale, and the nearest power of two
    """

    op: Operation
    value: SSAValue
    got: str


def broken_promises(scope: Operation) -> Iterator[Broken]:
    """The values inside an operation, its own results among them, with scales that are no powers of two."""
    for op in scope.walk():
        arguments = (argument for region in op.regions for block in region.blocks for argument in block.args)
        for value in (*arguments, *op.results):
            type = element_type(value.type)
            if isinstance(type, ScaledType) and (got := wrong_scale(type)) is not None:
                yield Broken(op, value, got)
