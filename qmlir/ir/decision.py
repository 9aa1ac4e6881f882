"""`#qmlir.decision`: what the quantizer decided about an operation, and why (policies/ledger.py)."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.names import parse_text


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
