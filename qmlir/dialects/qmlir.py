"""The qmlir dialect: attributes and operations that every level uses.

`#qmlir.name` carries the names of the source model through every rewrite. `#qmlir.decision` records what the quantizer
decided about an operation, and why. `#qmlir.weights` (weights.py) holds constant data. `#qmlir.power_of_two`
(scales.py) states that scales are powers of two. `qmlir.opaque` represents an operation of the source model that qmlir
does not know, so that a single import lists all such operations. `qmlir.constant_buffer` is a constant in memory,
before the memory planner gives it an address.
"""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DictionaryAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.scales import PowerOfTwoAttr
from qmlir.ir.names import NameAttr, parse_text
from qmlir.ir.weights import WeightsAttr

DECISION = "qmlir.decision"
"""The attribute key of an operation's `DecisionAttr`."""

WIDENED = "qmlir.widened"
"""The attribute key, on a layer until its bias is quantized, of the channels whose weight scales were widened.

The scale of a channel is widened if its bias would not fit the accumulator, or if the target cannot represent the
requantization factor.
"""

BLOCK = "qmlir.block"
"""The attribute key of the block size of a float constant that the source model stores as block-quantized integers."""

NUMERICS = "qmlir.numerics"
"""The attribute key, on a module, of the runtime whose rounding the module follows (runtimes.py)."""

UNSIGNED = "qmlir.unsigned"
"""The attribute key, on an operation, of the offset by which its stored integers were larger before they became signed.

The offset is 128 for 8 bits and 32768 for 16 bits (lowering/nn_to_qint/convert.py).
"""

UNSIGNED_WEIGHTS = "qmlir.unsigned_weights"
"""The attribute key that marks an operation whose stored weights were unsigned before they became signed."""

MIXED = "qmlir.mixed"
"""The attribute key that marks an operation that had both signed and unsigned operands or results."""


@irdl_attr_definition
class DecisionAttr(ParametrizedAttribute):
    """The quantizer's decision on an operation: `#qmlir.decision<float, "no-range", "give its input a range">`.

    outcome  `quantized` or `float`
    code     a short, stable reason code, listed in ledger.py
    reason   a sentence for people that says why, and what would change the decision
    """

    name = "qmlir.decision"
    outcome: StringAttr
    code: StringAttr
    reason: StringAttr

    OUTCOMES: ClassVar = ("quantized", "float")

    @staticmethod
    def of(outcome: str, code: str, reason: str) -> "DecisionAttr":
        """Builds the attribute from plain strings."""
        return DecisionAttr(StringAttr(outcome), StringAttr(code), StringAttr(reason))

    def verify(self) -> None:
        if self.outcome.data not in self.OUTCOMES:
            raise VerifyException(f"a decision is {' or '.join(self.OUTCOMES)}, got {self.outcome.data}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            outcome = parser.parse_identifier()
            parser.parse_punctuation(",")
            code = parse_text(parser)
            parser.parse_punctuation(",")
            return cls.of(outcome, code, parse_text(parser)).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.outcome.data + ", ")
            printer.print_string_literal(self.code.data)
            printer.print_string(", ")
            printer.print_string_literal(self.reason.data)


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


QMLIR = Dialect("qmlir", [OpaqueOp, ConstantBufferOp], [WeightsAttr, NameAttr, DecisionAttr, PowerOfTwoAttr])
