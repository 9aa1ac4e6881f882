"""Partition of a network: `npu.layer` holds operations for the device, `npu.host` operations for the host.

The body of each holds the original operations, so that `evaluate` gives the same results as on the qint level:

    %y = npu.layer "conv1" (%a = %x : tensor<1x8x8x3xi8>) -> (tensor<1x8x8x16xi8>) { … npu.yield %b : … }
    %z = npu.host "softmax" (%a = %y : …) -> (…) costs 512 because "conv1: strides are at most 4, got 5" { … }
"""

import abc
from collections.abc import Sequence
from typing import ClassVar, Protocol, Self, cast, runtime_checkable

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.interfaces import Array

REASONS = "reasons"
"""Key of the property of `npu.host` that holds the reasons why the device does not run the operations."""

CYCLES = "cycles"
"""Key of the property of `npu.host` that holds the cost of the call in cycles of the device's clock."""


@runtime_checkable
class _Evaluates(Protocol):
    def evaluate(self, *inputs: Array) -> tuple[Array, ...]: ...


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The terminator of `npu.layer` and `npu.host`; its operands are the results of the part."""

    name = "npu.yield"
    values = var_operand_def(TensorType)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue] = ()):
        super().__init__(operands=[list(values)])


class PartOp(IRDLOperation, abc.ABC):
    """A part of the network whose operations run together; its operands are tensors, its constants are in the body.

    (N1) the block has one argument of each operand's type, and yields one value of each result's type
    """

    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    label = prop_def(StringAttr, prop_name="label")
    body = region_def("single_block")

    BASE_TRAITS: ClassVar = (IsolatedFromAbove(), Pure(), SingleBlockImplicitTerminator(YieldOp))

    def __init__(
        self,
        label: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[Attribute],
        body: Region | None = None,
        properties: dict[str, Attribute] | None = None,
    ):
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(outputs)],
            properties={"label": StringAttr(label), **(properties or {})},
            regions=[body or Region(Block(arg_types=[v.type for v in inputs]))],
        )

    @property
    def block(self) -> Block:
        """The single block of the body."""
        return self.body.block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values of the body that the part returns as its results."""
        return cast(YieldOp, self.block.last_op).values

    def operations(self) -> list[Operation]:
        """The operations of the body without the terminator."""
        return [op for op in self.block.ops if not isinstance(op, YieldOp)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        """Evaluates the operations of the body on numpy arrays and returns the part's results."""
        values: dict[SSAValue, Array] = dict(zip(self.block.args, inputs, strict=True))
        for op in self.operations():
            assert isinstance(op, _Evaluates)
            values.update(zip(op.results, op.evaluate(*(values[o] for o in op.operands)), strict=True))
        return tuple(values[v] for v in self.yielded)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" (")
        for n, (argument, operand) in enumerate(zip(self.block.args, self.inputs, strict=True)):
            printer.print_string(", " if n else "")
            printer.print_ssa_value(argument)
            printer.print_string(" = ")
            printer.print_ssa_value(operand)
            printer.print_string(" : ")
            printer.print_attribute(operand.type)
        printer.print_string(") -> (")
        printer.print_list([v.type for v in self.outputs], printer.print_attribute)
        printer.print_string(")")
        if isinstance(cycles := self.properties.get(CYCLES), IntegerAttr):
            printer.print_string(f" costs {cycles.value.data}")
        if isinstance(reasons := self.properties.get(REASONS), StringAttr):
            printer.print_string(" because ")
            printer.print_string_literal(reasons.data)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        label = parser.parse_str_literal()
        arguments: list[Parser.Argument] = []
        inputs: list[SSAValue] = []

        def binding() -> None:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            operand = parser.parse_unresolved_operand()
            parser.parse_punctuation(":")
            type = parser.parse_type()
            inputs.append(parser.resolve_operand(operand, type))
            arguments.append(argument.resolve(type))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        properties: dict[str, Attribute] = {"label": StringAttr(label)}
        if parser.parse_optional_keyword("costs"):
            properties[CYCLES] = IntegerAttr(parser.parse_integer(allow_boolean=False, allow_negative=False), i64)
        if parser.parse_optional_keyword("because"):
            properties[REASONS] = StringAttr(parser.parse_str_literal())
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(arguments)
        return cls.create(
            operands=inputs,
            result_types=outputs,
            properties=properties,
            attributes={} if attributes is None else attributes.data,
            regions=[body],
        )

    def verify_(self) -> None:
        pairs = (("argument", self.block.args, self.inputs), ("yielded value", self.yielded, self.outputs))
        for what, inner, outer in pairs:
            inside, outside = [v.type for v in inner], [v.type for v in outer]
            if inside != outside:  # N1
                raise VerifyException(
                    f"'{self.name}' {self.label} must have {what}s of the types {', '.join(map(str, outside))}, "
                    f"got {', '.join(map(str, inside))}"
                )


@irdl_op_definition
class LayerOp(PartOp):
    """A layer that the device computes as a unit: one operation, or a contraction with the operations fused to it.

    The device computes the fused operations tile by tile. The body is a chain of qint operations: at most one
    contraction, then its requantization, then operations on that result and on further operands of the same shape. A
    layer has one result.
    """

    name = "npu.layer"
    traits = traits_def(*PartOp.BASE_TRAITS)


@irdl_op_definition
class HostOp(PartOp):
    """A part of the network that the host computes instead of the device.

    reasons  why the host computes it, one sentence for each operation
    cycles   the cost of the call in device cycles: start-up, boundary transfers to the host and back, and computation
    """

    name = "npu.host"
    reasons = opt_prop_def(StringAttr)
    cycles = opt_prop_def(IntegerAttr)
    traits = traits_def(*PartOp.BASE_TRAITS)

    def __init__(
        self,
        label: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[Attribute],
        body: Region | None = None,
        reasons: str | None = None,
        cycles: int | None = None,
    ):
        properties: dict[str, Attribute] = {}
        if reasons is not None:
            properties[REASONS] = StringAttr(reasons)
        if cycles is not None:
            properties[CYCLES] = IntegerAttr(cycles, i64)
        super().__init__(label, inputs, outputs, body, properties)
