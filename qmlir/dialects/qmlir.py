"""The qmlir dialect: attributes and operations that every level uses.

`#qmlir.name` carries the names of the source model through every rewrite. `#qmlir.decision` records what the quantizer
decided about an operation, and why. `#qmlir.weights` (weights.py) holds constant data, `#qmlir.levels`
(levels.py) says in how few bits it is stored, and `#qmlir.state` (states.py) marks an argument that lives from call to
call. `#qmlir.power_of_two` says that scales are powers of two.
`qmlir.opaque` represents an operation of the source model that qmlir does not know, so that a single import lists all
such operations. `qmlir.constant_buffer` is a constant in memory, before the memory planner gives it an address.
`qmlir.clock` reads a counter of the processor, for code that measures itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import TypeVar
from xdsl.dialects.builtin import DictionaryAttr, MemRefType, StringAttr, i64
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    AttrConstraint,
    IntConstraint,
    IRDLOperation,
    ParsePropInAttrDict,
    VerificationContext,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.quant.foreign import FloatStorageType, SubChannelType
from qmlir.dialects.quant.types import ScaledType, UniformType
from qmlir.ir.decision import DecisionAttr
from qmlir.ir.facts import SCALES
from qmlir.ir.levels import LevelsAttr
from qmlir.ir.names import NameAttr
from qmlir.ir.states import StateAttr
from qmlir.ir.types import element_type
from qmlir.ir.verify import Promise, Violation
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.schemas import nearest_exponent


@irdl_op_definition
class OpaqueOp(IRDLOperation):
    """An operation of the source model that qmlir does not know, kept with its operands and attributes.

    Graph passes leave the operation alone; lowerings reject it. `kind` is the operator's `domain.Name`, `reason` says
    why the operator was not imported, and `source` holds its attributes.
    """

    name = "qmlir.opaque"
    inputs = var_operand_def()
    kind = prop_def(StringAttr)
    reason = prop_def(StringAttr)
    source = prop_def(DictionaryAttr)
    outputs = var_result_def()

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$kind `(` $inputs `)` attr-dict `:` functional-type($inputs, $outputs)"

    def __init__(
        self,
        kind: str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        *,
        reason: str,
        source: dict[str, Attribute],
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={"kind": StringAttr(kind), "reason": StringAttr(reason), "source": DictionaryAttr(source)},
        )


@irdl_op_definition
class ConstantBufferOp(IRDLOperation):
    """A constant in memory, in the layout that its consumer expects.

    (C1) the memref has the shape and the element type of the weights.
    """

    name = "qmlir.constant_buffer"
    value = prop_def(WeightsAttr)
    result = result_def(MemRefType)

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($result)"

    def __init__(self, value: WeightsAttr, type: MemRefType[Attribute] | None = None):
        type = type or MemRefType(value.type.element_type, value.type.get_shape())
        super().__init__(result_types=[type], properties={"value": value})

    def verify_(self) -> None:
        type, held = self.result.type, self.value.type
        if type.get_shape() != held.get_shape() or type.element_type != held.element_type:  # C1
            raise VerifyException(f"the buffer must have the weights' type {self.value.type}, got {type}")


@irdl_op_definition
class ClockOp(IRDLOperation):
    """Reads a counter of the processor that grows at a constant rate: `%t = qmlir.clock "cycle"`.

    (C1) the counter is `cycle`, LLVM's readcyclecounter (x86: the time stamp counter), or `steady`, LLVM's
         readsteadycounter (AArch64: the virtual counter).

    The operation has a side effect: it stays where it is between the calls around it.
    """

    name = "qmlir.clock"
    counter = prop_def(StringAttr)
    result = result_def(i64)

    COUNTERS: ClassVar = ("cycle", "steady")

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$counter attr-dict"

    def __init__(self, counter: str):
        super().__init__(result_types=[i64], properties={"counter": StringAttr(counter)})

    def verify_(self) -> None:
        if self.counter.data not in self.COUNTERS:  # C1
            raise VerifyException(f"the counter must be one of {', '.join(self.COUNTERS)}, got {self.counter.data}")


# ---------------------------------------------------------------------------------------------------------------
# Power-of-two scales: an attribute that states the property, and its verification.
#
#     func.func @main(…) attributes {qmlir.scales = #qmlir.power_of_two} { … }
#
# The attribute states that every quantized type inside the operation has scales of exactly 2^e, per tensor, per axis or
# per block. The pass `choose-scales`, a step of `quantize`, sets it for the schema symmetric_with_power2_scale. Other
# passes preserve it, and the verifier checks it (verify.py). With it, s_x·s_w / s_y is a power of two as well, so
# nn-to-qint gives requantizations the contract `shift`, which the operation verifies. There are two exceptions: a mean
# of n elements, with n not a power of two, has the contract `single`, and a module that follows a runtime's rounding
# has that runtime's contracts.
#
# `PowerOfTwoScales` is the same property as an IRDL constraint, for the operands of a device that can only shift.


@irdl_attr_definition
class PowerOfTwoAttr(ParametrizedAttribute, Promise):
    """States that every scale is 2^e for an integer e: `#qmlir.power_of_two`."""

    name = "qmlir.power_of_two"
    STATES = "scales that are powers of two"

    def broken(self, scope: Operation) -> Iterator[Violation]:
        """Yields the values with scales that are not powers of two."""
        for op in scope.walk():
            arguments = (argument for region in op.regions for block in region.blocks for argument in block.args)
            for value in (*arguments, *op.results):
                type = element_type(value.type)
                if isinstance(type, ScaledType) and (got := wrong_scale(type)) is not None:
                    yield Violation(op, value, f"scale {got}")


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
        if isinstance(SCALES.of(around), PowerOfTwoAttr):
            return True
        around = around.parent_op()
    return False


QMLIR = Dialect(
    "qmlir",
    [OpaqueOp, ConstantBufferOp, ClockOp],
    [WeightsAttr, NameAttr, StateAttr, LevelsAttr, DecisionAttr, PowerOfTwoAttr],
)
