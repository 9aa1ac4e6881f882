"""`!tosa.shape<N>`: the type of a shape of N sizes, which operations such as `tosa.reshape` take as an operand."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """The type of a shape with `rank` dimensions.

    (S1) the rank is not negative
    """

    name = "tosa.shape"

    rank: IntAttr

    @classmethod
    def of(cls, rank: int) -> "ShapeType":
        """Returns the type of shapes of a rank."""
        return cls(IntAttr(rank))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False))]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.rank.data))

    def verify(self) -> None:
        if self.rank.data < 0:  # S1
            raise VerifyException(f"!tosa.shape needs a rank that is not negative, got {self.rank.data}")
